// Everything that happened, as facts: filtered by what it is about, searched, and the chosen one in full.

import { Clock, Empty, Panel, SearchBox, Segments, Text, Time } from "../components/parts.js";
import { Rows } from "../components/rows.js";
import { clean, count } from "../format.js";
import { html, useEffect, useMemo, useState } from "../html.js";
import { jobLink } from "../router.js";
import { EVENT_GROUPS, eventGroup, eventTone } from "../states.js";

const ROW = 30;
const NARROW_ROW = 52;

export function Events({ id, job }) {
  const { events } = job;
  const [text, setText] = useState("");
  const [group, setGroup] = useState("All");
  const [chosen, setChosen] = useState(0);
  const narrow = useNarrow();
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const matching = useMemo(() => {
    if (!words.length) return events;
    return events.filter(({ kind, node, message }) => {
      const where = `${kind} ${node} ${message}`.toLowerCase();
      return words.every((word) => where.includes(word));
    });
  }, [events, text]);
  const numbers = useMemo(() => {
    const found = new Map();
    for (const { kind } of matching) found.set(eventGroup(kind), (found.get(eventGroup(kind)) ?? 0) + 1);
    return found;
  }, [matching]);
  const rows = useMemo(() => (group === "All" ? matching : matching.filter(({ kind }) => eventGroup(kind) === group)), [matching, group]);
  const at = chosen ? rows.findIndex(({ number }) => number === chosen) : -1;
  const groups = ["All", ...EVENT_GROUPS.filter((name) => numbers.has(name) || name === group)];
  return html`<section class="panel events" aria-label="Events">
      <header>
        <${Segments} label="About" value=${group} onChoose=${setGroup} choices=${groups.map((name) => ({ id: name, name, number: name === "All" ? matching.length : numbers.get(name) ?? 0 }))} />
        <div class="tools"><${SearchBox} label="Filter events" placeholder="Kind, node, words" value=${text} onInput=${setText} /></div>
      </header>
      ${rows.length
        ? html`<${Rows} label="Events, oldest first; arrow keys choose one" className="event-rows" items=${rows} rowHeight=${narrow ? NARROW_ROW : ROW} keyOf=${({ number }) => number} stick
            chosen=${at} onChoose=${(index) => setChosen(index < 0 ? 0 : rows[index].number)} tall=${0.62}
            head=${html`<div role="columnheader" class="num">#</div><div role="columnheader">Time</div><div role="columnheader">Kind</div><div role="columnheader">Node</div><div role="columnheader">What happened</div>`}
            row=${Row} />`
        : html`<${Empty} title=${events.length ? "No event matches" : "No events yet"} />`}
    </section>
    ${at >= 0 && html`<${Details} id=${id} event=${rows[at]} />`}`;
}

function Row(event) {
  return html`<div role="cell" class="num muted">${count(event.number)}</div>
    <div role="cell" class="muted"><${Clock} at=${event.time} /></div>
    <div role="cell" class="tone-${eventTone(event)} kind"><span class="event-dot" aria-hidden="true"></span>${clean(event.kind)}</div>
    <div role="cell" class="cut"><${Text} of=${event.node} /></div>
    <div role="cell" class="cut message"><${Text} of=${event.message} /></div>`;
}

function Details({ id, event }) {
  const facts = Object.entries(event.facts ?? {});
  return html`<${Panel} title=${`Event ${count(event.number)}: ${clean(event.kind)}`} tools=${event.node && html`<a href=${jobLink(id, "nodes", { node: event.node })}>Its line of nodes</a><a href=${jobLink(id, "logs", { node: event.node })}>Its output</a>`}>
    <p><${Text} of=${event.message} /></p>
    <dl class="pairs spaced"><dt>time</dt><dd><${Time} at=${event.time} /></dd>
      ${facts.map(([name, value]) => html`<dt key=${`${name}-t`}>${clean(name)}</dt><dd key=${name} class="mono"><${Text} of=${typeof value === "string" ? value : JSON.stringify(value)} /></dd>`)}</dl>
  </${Panel}>`;
}

export function useNarrow() {
  const query = useMemo(() => matchMedia("(max-width: 720px)"), []);
  const [narrow, setNarrow] = useState(query.matches);
  useEffect(() => {
    const change = () => setNarrow(query.matches);
    query.addEventListener("change", change);
    return () => query.removeEventListener("change", change);
  }, []);
  return narrow;
}
