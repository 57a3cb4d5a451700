// The nodes as a timeline: one row per line of replacements, an interval per state, the reason at the end of each run, and use
// against what was asked for. Only visible rows exist, so a thousand lines cost what thirty do.

import { Chart } from "../components/chart.js";
import { timeline } from "../components/lane.js";
import { isEmpty, withGaps } from "../curves.js";
import { Clock, Empty, ExitReason, Meter, NodeState, Panel, SearchBox, Segments, Text } from "../components/parts.js";
import { Rows } from "../components/rows.js";
import { clean, count, cpus, duration, memory, plural, quantity } from "../format.js";
import { html, useEffect, useMemo, useRef, useState } from "../html.js";
import { jobLink } from "../router.js";
import { ENDED_STATES, ORDERLY_EXITS } from "../states.js";
import { useNow } from "../store.js";

const ROW = 46; // pixels
const ROLES = ["worker", "ps", "evaluator", "master"];
const WINDOWS = { all: ["Whole job", 0], hour: ["1 hour", 3600], minutes: ["10 min", 600] };

const FILTERS = {
  all: ["All", () => true],
  running: ["Running", ({ state }) => state === "Running"],
  waiting: ["Waiting", ({ state }) => state === "Pending" || state === "Creating"],
  trouble: ["With failures", ({ failures }) => failures > 0],
};

function lines(doc) {
  const found = Object.entries(doc?.lines ?? {}).map(([name, line]) => ({
    ...line,
    name,
    current: line.now?.node ?? line.nodes[line.nodes.length - 1] ?? name,
    failures: line.intervals.filter(({ exit_reason: reason }) => reason && !ORDERLY_EXITS.has(reason)).length,
  }));
  const rank = (role) => (ROLES.includes(role) ? ROLES.indexOf(role) : ROLES.length);
  return found.sort((a, b) => rank(a.role) - rank(b.role) || a.role.localeCompare(b.role) || a.number - b.number || a.name.localeCompare(b.name));
}

export function Nodes({ id, doc, job, options }) {
  const found = job.docs.nodes;
  const [text, setText] = useState("");
  const [show, setShow] = useState("all");
  const [chosenWindow, setWindow] = useState("all");
  const [chosen, setChosen] = useState(options.node ?? "");
  const all = useMemo(() => lines(found), [found]);
  const words = text.toLowerCase();
  const matching = all.filter(({ name, nodes, now, state, role }) => !words || [name, ...nodes, now?.host ?? "", state, role].some((part) => part.toLowerCase().includes(words)));
  const rows = matching.filter(FILTERS[show][1]);
  const at = rows.findIndex(({ name, nodes }) => name === chosen || nodes.includes(chosen));
  const [width, measure] = useWidth();
  const time = useNow();
  if (!found) return html`<${Empty} title="Reading the nodes…" />`;
  if (!all.length) return html`<div class="panel"><${Empty} title="No nodes yet">They appear here as soon as the master launches them.</${Empty}></div>`;

  const end = found.end || (doc.ended_at || time);
  const begin = Math.min(found.start || end, ...all.slice(0, 50).map(({ intervals }) => intervals[0]?.start ?? end));
  const from = WINDOWS[chosenWindow][1] ? Math.max(begin, end - WINDOWS[chosenWindow][1]) : begin;
  const scale = { from, to: Math.max(end, from + 1), width };
  return html`<section class="panel timeline" aria-label="Nodes over time">
    <header>
      <h2>${plural(all.length, "line")} of nodes</h2>
      <div class="tools">
        <${Segments} label="Show" value=${show} onChoose=${setShow} choices=${Object.entries(FILTERS).map(([key, [name, has]]) => ({ id: key, name, number: matching.filter(has).length }))} />
        ${end - begin > 600 && html`<${Segments} label="Time shown" value=${chosenWindow} onChoose=${setWindow} choices=${Object.entries(WINDOWS).map(([key, [name]]) => ({ id: key, name }))} />`}
        <${SearchBox} label="Filter nodes" placeholder="Node, host, state" value=${text} onInput=${setText} />
      </div>
    </header>
    <${Legend} />
    <div class="measure" ref=${measure} aria-hidden="true"><div></div><div class="lane"></div><div></div></div>
    ${rows.length
      ? html`<${Rows} label="Nodes over time; arrow keys choose a line" className="lanes" items=${rows} rowHeight=${ROW} keyOf=${({ name }) => name}
          chosen=${at} onChoose=${(index) => setChosen(index < 0 ? "" : rows[index].name)}
          head=${html`<div role="columnheader">Node</div><div role="columnheader" class="lane"><${Axis} scale=${scale} /></div><div role="columnheader" class="use">Used / requested</div>`}
          row=${(line) => html`<${Line} line=${line} scale=${scale} />`} />`
      : html`<${Empty} title="No line matches" />`}
    ${found.left_out ? html`<p class="muted small after">${plural(found.left_out, "more line is", "more lines are")} not shown.</p>` : null}
  </section>
  ${at >= 0 && html`<${Details} id=${id} line=${rows[at]} time=${time} use=${job.docs.series?.nodes?.[rows[at].current]} />`}`;
}

function useWidth() {
  const [width, setWidth] = useState(600);
  const observer = useRef(null);
  const measure = (element) => {
    observer.current?.disconnect();
    if (!element) return;
    const lane = element.querySelector(".lane");
    observer.current = new ResizeObserver(() => setWidth(Math.max(80, Math.floor(lane.clientWidth))));
    observer.current.observe(lane);
  };
  const stable = useRef(measure);
  useEffect(() => () => observer.current?.disconnect(), []);
  return [width, stable.current];
}

function Legend() {
  const entries = [["Running", "running"], ["Creating", "creating"], ["Unschedulable", "pending"], ["Restarting", "restarting"], ["Removing", "removing"]];
  return html`<ul class="legend">
    ${entries.map(([name, kind]) => html`<li key=${kind}><svg width="18" height="12" aria-hidden="true"><rect class="span ${kind}" width="18" height="12" rx="2" /></svg>${name}</li>`)}
    <li class="muted">the word below a bar is the exit reason</li>
  </ul>`;
}

function Axis({ scale }) {
  return html`<svg class="axis" width=${scale.width} height="20" aria-hidden="true">
    ${timeline.ticks(scale).map(({ x, label }) => html`<g key=${label + x}><line x1=${x} x2=${x} y1="14" y2="20" /><text x=${x} y="11" text-anchor="middle">${label}</text></g>`)}
  </svg>`;
}

function Line({ line, scale }) {
  const { current, state, now: using, role, nodes } = line;
  return html`<div role="cell" class="who">
      <b><${Text} of=${current} /></b>
      <span class="small"><${NodeState} state=${state} />${nodes.length > 1 && html`<span class="muted"> · ${count(nodes.length)} nodes</span>`}<span class="muted role"> · ${clean(role)}</span></span>
    </div>
    <div role="cell" class="lane" aria-label=${timeline.inWords(line)}>${timeline.lane(line, scale)}</div>
    <div role="cell" class="use">${using && !ENDED_STATES.has(using.state) && using.pid !== undefined
      ? html`<span><span class="muted unit">CPU</span><${Meter} used=${using.cpu} limit=${using.cpu_limit} show=${cpus} label="CPU" /></span>
          <span><span class="muted unit">mem</span><${Meter} used=${using.memory_mb} limit=${using.memory_limit_mb} show=${memory} label="memory" full /></span>`
      : using?.peak_memory_mb ? html`<span class="muted small">peak ${memory(using.peak_memory_mb)}</span>` : ""}</div>`;
}

// What the line's newest node used over time.
function Use({ use }) {
  const curves = [["CPU", use?.cpu, cpus, use?.cpu_limit ? `of ${cpus(use.cpu_limit)} cores` : "cores"], ["Memory", use?.memory_mb, memory, use?.memory_limit_mb ? `of ${memory(use.memory_limit_mb)}` : ""]]
    .filter(([, curve]) => !isEmpty(curve));
  if (!curves.length) return null;
  return html`<div class="charts">${curves.map(([name, curve, show, unit]) => html`<${Chart} key=${name} title=${name} unit=${unit} curve=${withGaps(curve)} show=${show} floor=${0} group="node" />`)}</div>`;
}

function Details({ id, line, time, use }) {
  const { now: using, intervals, nodes, cut } = line;
  return html`<${Panel} title=${html`Line of <${Text} of=${line.name} />`} label="Details of the chosen line" tools=${html`<a href=${jobLink(id, "logs", { node: line.current })}>Output of <${Text} of=${line.current} /></a>`}>
    <${Use} use=${use} />
    <div class="details">
      ${using && html`<dl class="pairs">
        <dt>node</dt><dd><${Text} of=${using.node ?? line.current} />, <${NodeState} state=${using.state ?? line.state} /></dd>
        ${using.host && html`<dt>host</dt><dd><${Text} of=${using.host} /></dd>`}
        ${using.pid ? html`<dt>process</dt><dd>${using.pid}${using.agent_pid ? ` (agent ${using.agent_pid})` : ""}</dd>` : null}
        <dt>CPU</dt><dd>${cpus(using.cpu)}${using.cpu_limit ? ` of ${cpus(using.cpu_limit)} cores` : " cores, no limit"}</dd>
        <dt>memory</dt><dd>${memory(using.memory_mb)}${using.memory_limit_mb ? ` of ${memory(using.memory_limit_mb)}` : ", no limit"}; peak ${memory(using.peak_memory_mb || null)}</dd>
        ${using.gpu ? html`<dt>GPU</dt><dd>${using.gpu}</dd>` : null}
        <dt>work</dt><dd>${using.records ? `${quantity(using.records)} records` : "no records"}${using.records_per_second ? `, ${quantity(using.records_per_second)}/s` : ""}${using.virtual_workers ? `, hosts ${plural(using.virtual_workers, "virtual worker")}` : ""}</dd>
        <dt>restarts</dt><dd>${count(using.restarts ?? 0)} in place; ${plural(nodes.length - 1, "replacement")} of the line</dd>
      </dl>`}
      <div class="table-scroll"><table>
        <caption class="hidden-visually">States of this line, newest first</caption>
        <thead><tr><th scope="col">From</th><th scope="col">For</th><th scope="col">Node</th><th scope="col">State</th><th scope="col">Ended</th><th scope="col">Why</th></tr></thead>
        <tbody>${[...intervals].reverse().slice(0, 60).map((one) => html`<tr key=${`${one.start}${one.node}${one.state}`}>
          <td><${Clock} at=${one.start} /></td><td class="nowrap">${duration((one.end ?? time) - one.start)}</td><td><${Text} of=${one.node} /></td><td>${clean(one.state)}</td>
          <td>${one.exit_reason ? html`<${ExitReason} reason=${one.exit_reason} />` : one.end ? "" : html`<span class="muted">still so</span>`}</td><td><${Text} of=${one.message} /></td></tr>`)}</tbody>
      </table></div>
      ${cut ? html`<p class="muted small">${plural(cut, "older interval is", "older intervals are")} left out.</p>` : null}
    </div>
  </${Panel}>`;
}
