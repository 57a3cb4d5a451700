// How the job does: how far it is, how fast, what went wrong, and the curves with marks where something happened.

import { byStep, isEmpty, since, withGaps } from "../curves.js";
import { Chart } from "../components/chart.js";
import { Age, Clock, Empty, ExitReason, Panel, ProgressBar, Reasons, Segments, Text, Time } from "../components/parts.js";
import { clean, count, cpus, duration, memory, metric, percent, plural, quantity } from "../format.js";
import { html, useMemo, useState } from "../html.js";
import { jobLink } from "../router.js";
import { eventTone, isActive, isMarked } from "../states.js";
import { now } from "../store.js";

const MAX_METRICS = 7; // charts beside the throughput
const RECENT = 10;

export function Overview({ id, doc, job }) {
  return html`
    <${FirstFailure} id=${id} failure=${doc.first_failure} phase=${doc.phase} />
    <${Tiles} doc=${doc} />
    <${Charts} series=${job.docs.series} events=${job.events} doc=${doc} />
    <div class="grid">
      <${Recent} id=${id} events=${job.events} />
      <${Facts} doc=${doc} />
    </div>`;
}

function FirstFailure({ id, failure, phase }) {
  if (!failure) return null;
  const { node, kind, message, hint, traceback, time } = failure;
  const over = !isActive(phase);
  return html`<section class="panel failure" aria-label="First failure">
    <header><h2>${over && phase === "Failed" ? "Why it failed" : "First failure"}</h2>
      <span class="muted">${kind && html`<${ExitReason} reason=${kind} /> `}on <b><${Text} of=${node} /></b> at <${Time} at=${time} /></span>
      <div class="tools"><a href=${jobLink(id, "logs", { node })}>Its output</a></div></header>
    <div class="body">
      <p class="failure-message"><${Text} of=${message} /></p>
      ${hint && html`<p class="failure-hint"><b>What to do:</b> <${Text} of=${hint} /></p>`}
      ${traceback && html`<details><summary>Traceback</summary><pre class="code">${cleanLines(traceback)}</pre></details>`}
    </div>
  </section>`;
}

const cleanLines = (text) => text.split("\n").map(clean).join("\n");

function Tile({ name, value, children, wide = false, tone = "" }) {
  return html`<div class="tile ${wide ? "wide" : ""}"><dt>${name}</dt><dd><span class="tile-value ${tone ? `toned tone-${tone}` : ""}">${value}</span>${children && html`<span class="tile-more">${children}</span>`}</dd></div>`;
}

function Tiles({ doc }) {
  const { progress = {}, phase } = doc;
  const active = isActive(phase);
  const done = progress.percent ?? (phase === "Succeeded" ? 100 : null);
  const tone = phase === "Failed" ? "bad" : phase === "Succeeded" ? "good" : active ? "active" : "quiet";
  const workers = doc.workers ?? workersOf(doc);
  const restarts = doc.restarts ?? {};
  const number = (restarts.programs ?? 0) + (restarts.nodes ?? 0);
  const steps = progress.total_steps || (progress.step && !progress.records_total);
  const far = [
    steps ? `step ${count(progress.step)}${progress.total_steps ? ` of ${count(progress.total_steps)}` : ""}` : "",
    progress.records_total ? `${amount(progress.records_done)} of ${amount(progress.records_total)} records` : progress.records_done ? `${amount(progress.records_done)} records` : "",
  ].filter(Boolean).join(" · ");
  return html`<dl class="tiles">
    <${Tile} wide name="Progress" value=${html`<${ProgressBar} value=${done} tone=${tone} label="progress of the job" />`}>${far || "no progress reported"}</${Tile}>
    <${Tile} name=${active ? "Left" : "Took"} value=${active ? duration(doc.eta) : duration(doc.ended_at && doc.started_at ? doc.ended_at - doc.started_at : doc.seconds)}>
      ${active ? (doc.eta ? html`until about <${Clock} at=${now() + doc.eta} />` : "not known yet") : html`ended <${Time} at=${doc.ended_at} />`}</${Tile}>
    <${Tile} name="Goodput" value=${percent(doc.goodput)}>of the workers' time</${Tile}>
    <${Tile} name="Workers" value=${active ? html`${count(workers.now)}<span class="muted"> / ${count(workers.wanted)}</span>` : count(workers.wanted)} tone=${active && workers.now < workers.wanted ? "warn" : ""}>
      ${active ? `${count(workers.min)} to ${count(workers.max)} allowed` : "wanted at the end"}</${Tile}>
    <${Tile} name="Throughput" value=${doc.records_per_second ? html`${quantity(doc.records_per_second)}<span class="unit">/s</span>` : doc.steps_per_second ? html`${quantity(doc.steps_per_second)}<span class="unit"> steps/s</span>` : "–"}>
      ${doc.records_per_second ? `records${doc.steps_per_second ? `; ${quantity(doc.steps_per_second)} steps/s` : ""}` : active ? "nothing measured now" : ""}</${Tile}>
    ${progress.loss !== undefined && progress.loss !== null && html`<${Tile} name="Loss" value=${metric(progress.loss)}>last reported</${Tile}>`}
    <${Tile} name="Restarts" value=${count(number)}>${number ? html`<${Reasons} reasons=${restarts.reasons} />` : "none"}</${Tile}>
  </dl>`;
}

// Whole numbers, as long as they can be read at a glance.
const amount = (number) => (number < 1e7 ? count(number) : quantity(number));

function workersOf({ roles = [] }) {
  const role = roles.find(({ name }) => name === "worker") ?? roles[0] ?? { ready: 0, succeeded: 0, wanted: 0, min: 0, max: 0 };
  return { now: role.ready + role.succeeded, wanted: role.wanted, min: role.min, max: role.max };
}

const SPANS = { all: ["All", 0], hour: ["Last hour", 3600], minutes: ["10 min", 600] };

function Charts({ series, events, doc }) {
  const [axis, setAxis] = useState("time");
  const [chosen, setChosen] = useState("all");
  const marks = useMemo(() => events.filter(isMarked).map((event) => ({ time: event.time, event })), [events]);
  const end = series?.time || doc.time;
  const start = SPANS[chosen][1] ? end - SPANS[chosen][1] : 0;
  const curves = useMemo(() => prepared(series, start), [series, start]);
  if (!curves.length) {
    return html`<${Panel} title="Curves"><${Empty} title=${isActive(doc.phase) ? "No curves yet" : "No curves"}>${series?.note ? clean(series.note) : isActive(doc.phase) ? html`Throughput appears with the first records or steps, a program's own metrics with <code>job.report(step, loss=…)</code>.` : "Nothing was recorded for this job."}</${Empty}></${Panel}>`;
  }
  const lasts = curves.length && Math.max(...curves.map(({ curve }) => curve.time[curve.time.length - 1])) - Math.min(...curves.map(({ curve }) => curve.time[0]));
  const extent = axis === "time" ? [Math.min(...curves.map(({ curve }) => curve.time[0])), Math.max(...curves.map(({ curve }) => curve.time[curve.time.length - 1]))] : undefined;
  const hasSteps = curves.some(({ curve }) => curve.step.some((step) => step > 0));
  return html`<${Panel} title="Curves" tools=${html`
      ${(chosen !== "all" || lasts > 600) && html`<${Segments} label="Time shown" value=${chosen} onChoose=${setChosen} choices=${Object.entries(SPANS).map(([id, [name]]) => ({ id, name }))} />`}
      ${hasSteps && html`<${Segments} label="Horizontal axis" value=${axis} onChoose=${setAxis} choices=${[{ id: "time", name: "Time" }, { id: "step", name: "Step" }]} />`}`}>
    <div class="charts">
      ${curves.map(({ id, title, unit, curve, show, floor }) => {
        const drawn = axis === "step" && curve.step.some((step) => step > 0) ? byStep(curve) : withGaps(curve);
        return html`<${Chart} key=${`${id}-${axis}`} title=${title} unit=${unit} curve=${drawn} show=${show} floor=${floor} marks=${marks} extent=${extent} x=${drawn.step.length && axis === "step" && curve.step.some((step) => step > 0) ? "step" : "time"} group=${`job-${axis}`} />`;
      })}
    </div>
    ${series?.left_out?.length ? html`<p class="muted small">Left out: ${clean(series.left_out.join(", "))}</p>` : null}
    ${marks.length ? html`<p class="muted small legend-marks"><span class="mark tone-bad"></span> failure <span class="mark tone-accent"></span> scaling or plan <span class="mark tone-warn"></span> warning; point at a mark to read it, drag to zoom, double-click for all</p>` : null}
  </${Panel}>`;
}

function prepared(series, start) {
  if (!series || series.available === false) return [];
  const found = [];
  const add = (id, title, unit, curve, show, floor) => {
    if (isEmpty(curve)) return;
    const cut = since(curve, start);
    if (!isEmpty(cut)) found.push({ id, title, unit, curve: cut, show, floor });
  };
  add("records", "Throughput", "records/s", series.records_per_second, quantity, 0);
  if (!found.length || isEmpty(series.metrics?.loss)) add("steps", found.length ? "Steps" : "Throughput", "steps/s", series.steps_per_second, quantity, 0);
  Object.entries(series.metrics ?? {}).slice(0, MAX_METRICS).forEach(([name, curve]) => add(`metric-${name}`, name === "loss" ? "Loss" : clean(name), "", curve, metric));
  if (found.length > 2 && !found.some(({ id }) => id === "steps")) add("steps", "Steps", "steps/s", series.steps_per_second, quantity, 0);
  add("workers", "Running workers", "", series.workers, quantity, 0);
  return found;
}

function Recent({ id, events }) {
  const recent = events.slice(-RECENT).reverse();
  return html`<${Panel} title="Latest events" tools=${html`<a href=${jobLink(id, "events")}>All ${count(events.length)}</a>`}>
    ${recent.length
      ? html`<ol class="recent">${recent.map((event) => html`<li key=${event.number} class="tone-${eventTone(event)}"><span class="event-dot" aria-hidden="true"></span><${Clock} at=${event.time} /><span><${Text} of=${event.message} /></span></li>`)}</ol>`
      : html`<p class="muted">No events yet.</p>`}
  </${Panel}>`;
}

function Facts({ doc }) {
  const { roles = [], planner, checkpoints = [], evaluations = [], best, world } = doc;
  const latest = evaluations[evaluations.length - 1];
  return html`<${Panel} title="The job">
    <dl class="pairs">
      ${roles.map((role) => html`<dt key=${`${role.name}-t`}>${clean(role.name)}</dt><dd key=${role.name}>${rolePhrase(role)}</dd>`)}
      ${world && html`<dt>world</dt><dd>round ${count(world.round)}, ${plural(world.members?.length ?? 0, "member")}</dd>`}
      ${planner && html`<dt>planning</dt><dd>${clean(planner.state)}${planner.reason ? html`: <${Text} of=${planner.reason} />` : ""}${planner.brain ? (planner.brain === "leads" ? ", by the Brain" : ", by its master while the Brain is away") : ""}${planner.dry_run ? " (dry run)" : ""}</dd>`}
      ${doc.last_plan && html`<dt>last plan</dt><dd>${doc.last_plan.outcome ? `${clean(doc.last_plan.outcome)}: ` : ""}<${Text} of=${doc.last_plan.reason} /></dd>`}
      ${checkpoints.map((one) => html`<dt key=${`${one.directory}-t`}>checkpoints</dt><dd key=${one.directory}>
        ${one.written ? html`${plural(one.written, "checkpoint")}, the last at step ${count(one.last_step)}, <${Age} since=${one.last_time} /> ago` : "none written"} in <code>${clean(one.directory)}</code>
        ${one.failures_in_a_row ? html`<br /><span class="toned tone-bad">failing: <${Text} of=${one.reason} /></span>` : ""}</dd>`)}
      ${latest && html`<dt>evaluation</dt><dd>version ${count(latest.version)}: ${metricsPhrase(latest.metrics)}${best && best.version !== latest.version ? `; best is version ${best.version}: ${metricsPhrase(best.metrics)}` : ""}</dd>`}
      <dt>master</dt><dd>${doc.master_starts > 1 ? `started ${count(doc.master_starts)} times` : doc.master_starts === 1 ? "started once" : "not started"}</dd>
      ${doc.where && html`<dt>where</dt><dd><${Text} of=${doc.where} /></dd>`}
      ${doc.logs_at && html`<dt>output</dt><dd><${Text} of=${doc.logs_at} /></dd>`}
    </dl>
  </${Panel}>`;
}

function rolePhrase({ ready, pending, succeeded, failed, wanted, cpu, memory_mb, gpu, rollout, rollout_done, rollout_total }) {
  const parts = [`${count(ready + succeeded)} of ${count(wanted)}`];
  if (pending) parts.push(`${count(pending)} pending`);
  if (succeeded) parts.push(`${count(succeeded)} done`);
  if (failed) parts.push(`${count(failed)} failed`);
  const each = [cpu ? `${cpus(cpu)} CPU` : "", memory_mb ? memory(memory_mb) : "", gpu ? `${gpu} GPU` : ""].filter(Boolean).join(", ");
  if (each) parts.push(`${each} each`);
  if (rollout) parts.push(`new resources: ${rollout_done} of ${rollout_total} (${rollout})`);
  return parts.join("; ");
}

const metricsPhrase = (metrics) => Object.entries(metrics ?? {}).map(([name, value]) => `${clean(name)} ${metric(value)}`).join(", ");
