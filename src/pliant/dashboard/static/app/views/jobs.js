// All jobs: how far each is, what it has and what went wrong, at a glance.

import { Age, Empty, PhaseBadge, Problem, ProgressBar, Reasons, SearchBox, Segments, Text } from "../components/parts.js";
import { Table } from "../components/table.js";
import { clean, count, duration, percent, plural } from "../format.js";
import { html, useMemo } from "../html.js";
import { jobLink, replaceOptions } from "../router.js";
import { isActive } from "../states.js";
import { useStore } from "../store.js";

const WITHOUT_TROUBLE = new Set(["Succeeded", "Stopped", "Running"]);
const FILTERS = {
  all: ["All", () => true],
  active: ["Active", ({ phase }) => isActive(phase)],
  failed: ["Failed", ({ phase }) => phase === "Failed" || phase === "Invalid" || phase === "Interrupted"],
  ended: ["Ended", ({ phase }) => !isActive(phase)],
};

const columns = [
  { id: "name", name: "Job", value: ({ name }) => name, cell: Name },
  { id: "phase", name: "Phase", value: ({ phase }) => phase, cell: ({ phase }) => html`<${PhaseBadge} phase=${phase} />` },
  { id: "progress", name: "Progress", value: ({ progress }) => progress?.percent, cell: Progress },
  { id: "eta", name: "Left", numeric: true, value: ({ eta, phase }) => (isActive(phase) ? eta : null), cell: ({ eta, phase }) => (isActive(phase) ? duration(eta) : "–") },
  { id: "goodput", name: "Goodput", numeric: true, value: ({ goodput }) => goodput, cell: ({ goodput }) => percent(goodput) },
  { id: "workers", name: "Workers", numeric: true, value: ({ workers }) => workers?.now, cell: Workers },
  { id: "restarts", name: "Restarts", value: ({ restarts }) => total(restarts), cell: Restarts },
  { id: "age", name: "Age", numeric: true, value: ({ created_at, started_at }) => -(created_at || started_at), cell: ({ created_at, started_at }) => html`<${Age} since=${created_at || started_at} />` },
];

const total = (restarts) => (restarts ? (restarts.programs ?? 0) + (restarts.nodes ?? 0) : null);

function Name({ id, name, message, failure, waiting, warnings = [], phase, reason, note, platform }) {
  const why = failure || waiting || warnings[0] || message || note || (phase === "Running" ? "" : reason);
  const bad = Boolean(failure) && !WITHOUT_TROUBLE.has(phase);
  return html`<a class="job-name" href=${jobLink(id)}><${Text} of=${name} /></a>
    ${platform && platform !== "local" && html` <span class="chip">${clean(platform)}</span>`}
    ${why && html`<div class="job-why ${bad ? "tone-bad" : ""}" title=${clean(why)}><${Text} of=${why} /></div>`}`;
}

function Progress({ progress = {}, phase, name }) {
  const tone = phase === "Failed" ? "bad" : phase === "Succeeded" ? "good" : isActive(phase) ? "active" : "quiet";
  const done = progress.percent ?? (phase === "Succeeded" ? 100 : null);
  return html`<${ProgressBar} value=${done} tone=${tone} label=${`progress of ${clean(name)}`} />`;
}

function Workers({ workers, phase }) {
  if (!workers) return "–";
  const { now, wanted } = workers;
  if (!isActive(phase)) return html`<span class="muted">${count(wanted)}</span>`;
  return html`<span class=${now < wanted ? "tone-warn toned" : ""} title=${`${plural(now, "worker")} running of ${wanted} wanted`}>${count(now)}<span class="muted"> / ${count(wanted)}</span></span>`;
}

function Restarts({ restarts }) {
  const number = total(restarts);
  if (!number) return html`<span class="muted">${number === null ? "–" : "0"}</span>`;
  const title = `${plural(restarts.programs ?? 0, "restart")} in place, ${plural(restarts.nodes ?? 0, "node")} replaced`;
  return html`<span class="restarts"><span title=${title}>${count(number)}</span> <${Reasons} reasons=${restarts.reasons} /></span>`;
}

export function Jobs({ options }) {
  const jobs = useStore((state) => state.jobs);
  const problem = useStore((state) => state.problems.jobs);
  const { q: text = "", show = "all" } = options;
  const all = useMemo(() => Object.values(jobs?.jobs ?? {}), [jobs]);
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const matching = all.filter((job) => {
    const where = [job.name, job.id, job.phase, job.reason, job.failure, job.platform, ...Object.keys(job.restarts?.reasons ?? {})].join(" ").toLowerCase();
    return words.every((word) => where.includes(word));
  });
  const rows = matching.filter((FILTERS[show] ?? FILTERS.all)[1]);
  const set = (change) => replaceOptions({ ...options, ...change });
  return html`<div class="page-head">
      <h1>Jobs</h1>
      <div class="filters">
        <${Segments} label="Show" value=${show} onChoose=${(id) => set({ show: id === "all" ? "" : id })}
          choices=${Object.entries(FILTERS).map(([id, [name, has]]) => ({ id, name, number: matching.filter(has).length }))} />
        <${SearchBox} label="Filter jobs" placeholder="Name, phase, reason" value=${text} onInput=${(q) => set({ q })} />
      </div>
    </div>
    <${Problem} of=${problem} />
    <section class="panel jobs" aria-label="Jobs">
      ${!jobs
        ? html`<${Empty} title="Reading the jobs…" />`
        : rows.length
          ? html`<${Table} caption="Jobs, newest first" className="cards" columns=${columns} rows=${rows} keyOf=${({ id }) => id} sortBy="age" />`
          : html`<${Empty} title=${all.length ? "No job matches" : "No jobs yet"}>${all.length ? html`<button type="button" class="link" onClick=${() => set({ q: "", show: "" })}>Show all ${count(all.length)}</button>` : html`Start one with <code>pliant run train.py</code>; it appears here by itself.`}</${Empty}>`}
    </section>
    ${jobs?.left_out ? html`<p class="muted small after">${plural(jobs.left_out, "older job is", "older jobs are")} not shown; <code>pliant jobs --all</code> lists them.</p>` : null}`;
}
