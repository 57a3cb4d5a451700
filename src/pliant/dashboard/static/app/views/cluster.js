// The machines and who has what of them: asked for, used, free; and who waits for what, and why.

import { Age, Empty, Meter, PhaseBadge, Problem, SearchBox, Text } from "../components/parts.js";
import { Table } from "../components/table.js";
import { count, cpus, memory, percent, plural } from "../format.js";
import { html } from "../html.js";
import { jobLink, replaceOptions } from "../router.js";
import { useStore } from "../store.js";

const UNITS = [["cpu", "CPU", cpus], ["memory_mb", "Memory", memory], ["gpu", "GPU", count]];

export function Cluster({ options }) {
  const found = useStore((state) => state.cluster);
  const problem = useStore((state) => state.problems.cluster);
  const { q: text = "" } = options;
  const words = text.toLowerCase();
  const has = (...parts) => !words || parts.some((part) => String(part ?? "").toLowerCase().includes(words));
  if (!found) return html`<div class="page-head"><h1>Cluster</h1></div><${Problem} of=${problem} />${!problem && html`<${Empty} title="Reading the machines…" />`}`;
  const machines = Object.values(found.machines ?? {}).filter(({ name }) => has(name));
  const jobs = Object.values(found.jobs ?? {}).filter(({ name }) => has(name));
  const waiting = (found.waiting ?? []).filter(({ job, node, reason }) => has(job, node, reason));
  return html`<div class="page-head"><h1>Cluster</h1>
      <div class="filters"><${SearchBox} label="Filter machines and jobs" placeholder="Machine, job, reason" value=${text} onInput=${(q) => replaceOptions({ ...options, q })} /></div></div>
    <${Problem} of=${problem} />
    ${found.note && html`<${Problem} of=${{ error: found.note }} />`}
    <${Totals} total=${found.total} machines=${found.machines} waiting=${found.waiting_total ?? waiting.length} />
    <${Waiting} waiting=${waiting} total=${found.waiting_total ?? waiting.length} />
    <section class="panel" aria-label="Jobs that have nodes"><header><h2>Who has what</h2></header>
      ${jobs.length ? html`<${Table} caption="Jobs by what they have" className="cards" keyOf=${({ id }) => id} sortBy="cpu" descending rows=${jobs} columns=${jobColumns} />` : html`<${Empty} title="No running job" />`}</section>
    <section class="panel" aria-label="Machines"><header><h2>${plural(Object.keys(found.machines ?? {}).length, "machine")}</h2></header>
      ${machines.length ? html`<${Table} caption="Machines" className="cards" keyOf=${({ name }) => name} sortBy="name" rows=${machines} columns=${machineColumns(found.total)} />` : html`<${Empty} title=${found.note ? "The machines cannot be seen" : "No machine matches"} />`}</section>`;
}

function Totals({ total, machines, waiting }) {
  if (!total) return null;
  const ready = Object.values(machines ?? {}).filter((machine) => machine.ready).length;
  return html`<dl class="tiles">
    ${UNITS.filter(([unit]) => total.size[unit] > 0).map(([unit, name, show]) => html`<div class="tile wide" key=${unit}><dt>${name}</dt><dd>
      <span class="tile-value">${show(total.asked[unit])}<span class="muted"> of ${show(total.size[unit])} requested</span></span>
      <${Stack} size=${total.size[unit]} asked=${total.asked[unit]} used=${unit === "gpu" ? null : total.used[unit]} />
      <span class="tile-more">${unit === "gpu" ? "" : `${show(total.used[unit])} used (${percent((100 * total.used[unit]) / total.size[unit])}), `}${show(total.free[unit])} free</span></dd></div>`)}
    <div class="tile"><dt>Machines</dt><dd><span class="tile-value">${count(ready)}<span class="muted"> / ${count(Object.keys(machines ?? {}).length)}</span></span><span class="tile-more">ready</span></dd></div>
    <div class="tile"><dt>Waiting</dt><dd><span class="tile-value ${waiting ? "toned tone-warn" : ""}">${count(waiting)}</span><span class="tile-more">${waiting === 1 ? "node" : "nodes"} without a machine</span></dd></div>
  </dl>`;
}

// Asked for as a bar, used as a darker one in it.
function Stack({ size, asked, used }) {
  return html`<span class="stack" aria-hidden="true"><i class="asked" style=${{ width: `${Math.min(100, (100 * asked) / size)}%` }}></i>${used !== null && html`<i class="used" style=${{ width: `${Math.min(100, (100 * used) / size)}%` }}></i>`}</span>`;
}

function Waiting({ waiting, total }) {
  if (!waiting.length) return null;
  return html`<section class="panel" aria-label="Who waits for what"><header><h2>Who waits for what</h2><span class="muted small">${total > waiting.length ? `${count(waiting.length)} of ${count(total)}` : ""}</span></header>
    <${Table} caption="Nodes that wait for a machine" className="cards" keyOf=${({ id, node }) => `${id} ${node}`} sortBy="since" rows=${waiting} columns=${[
      { id: "job", name: "Job", value: ({ job }) => job, cell: ({ id, job }) => html`<a href=${jobLink(id, "nodes")}><${Text} of=${job} /></a>` },
      { id: "node", name: "Node", value: ({ node }) => node, cell: ({ node }) => html`<${Text} of=${node || "–"} />` },
      { id: "asked", name: "Requests", cell: ({ asked = {} }) => UNITS.filter(([unit]) => asked[unit]).map(([unit, name, show]) => `${show(asked[unit])}${unit === "memory_mb" ? "" : ` ${name}`}`).join(", ") || "no limits" },
      { id: "since", name: "Waiting for", numeric: true, value: ({ since }) => since || null, cell: ({ since }) => html`<${Age} since=${since} />` },
      { id: "reason", name: "Why", cell: ({ reason }) => html`<${Text} of=${reason} />` },
    ]} /></section>`;
}

const jobColumns = [
  { id: "job", name: "Job", value: ({ name }) => name, cell: ({ id, name }) => html`<a href=${jobLink(id)}><${Text} of=${name} /></a>` },
  { id: "phase", name: "Phase", value: ({ phase }) => phase, cell: ({ phase }) => html`<${PhaseBadge} phase=${phase} />` },
  { id: "nodes", name: "Nodes", numeric: true, value: ({ nodes }) => nodes, cell: ({ nodes }) => count(nodes) },
  { id: "cpu", name: "CPU used / requested", value: ({ asked, used }) => asked.cpu || used.cpu, cell: ({ asked, used }) => html`<${Meter} used=${used.cpu} limit=${asked.cpu} show=${cpus} label="CPU" />` },
  { id: "memory", name: "Memory used / requested", value: ({ asked, used }) => asked.memory_mb || used.memory_mb, cell: ({ asked, used }) => html`<${Meter} used=${used.memory_mb} limit=${asked.memory_mb} show=${memory} label="memory" full />` },
  { id: "gpu", name: "GPU", numeric: true, value: ({ asked }) => asked.gpu, cell: ({ asked }) => (asked.gpu ? count(asked.gpu) : "–") },
];

function machineColumns(total) {
  return [
    { id: "name", name: "Machine", value: ({ name }) => name, cell: ({ name, ready }) => html`<${Text} of=${name} />${ready ? "" : html` <span class="chip tone-bad">not ready</span>`}` },
    { id: "nodes", name: "Nodes", numeric: true, value: ({ nodes }) => nodes, cell: ({ nodes }) => count(nodes) },
    ...UNITS.filter(([unit]) => total?.size[unit] > 0).map(([unit, name, show]) => ({
      id: unit,
      name: `${name} requested`,
      value: ({ asked }) => asked[unit],
      cell: ({ size, asked, used, free }) => html`<span class="metered"><${Stack} size=${size[unit] || 1} asked=${asked[unit]} used=${unit === "gpu" ? null : used[unit]} /><span>${show(asked[unit])}<span class="muted"> / ${show(size[unit])}${unit === "gpu" ? "" : `, ${show(used[unit])} used`}, ${show(free[unit])} free</span></span></span>`,
    })),
  ];
}
