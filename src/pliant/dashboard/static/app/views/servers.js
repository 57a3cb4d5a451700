// The parameter servers: who holds which seat, how the partitions and the load are spread, and what moved.

import { Clock, Empty, Panel, Text } from "../components/parts.js";
import { Table } from "../components/table.js";
import { bytes, count, percent, plural, quantity } from "../format.js";
import { html } from "../html.js";
import { jobLink } from "../router.js";
import { eventTone } from "../states.js";

const STALENESS = ["0", "1", "2", "3–4", "5–8", "9–16", "17–32", "33–64", "more"];

export function Servers({ id, job }) {
  const found = job.docs.servers;
  if (!found) return html`<${Empty} title="Reading the parameter servers…" />`;
  const { parameters, moves = [] } = found;
  if (!parameters) return html`<div class="panel"><${Empty} title="No parameter servers">This job keeps its parameters in its workers.</${Empty}></div>`;
  const seats = Object.values(parameters.seats ?? {}).map((seat) => ({ ...seat, rates: parameters.rates?.[seat.seat] ?? {} }));
  const most = (value) => Math.max(1e-9, ...seats.map(value));
  const tops = { partitions: most(({ partitions }) => partitions), requests: most(({ rates }) => rates.requests ?? 0), traffic: most(traffic) };
  return html`
    <${Summary} parameters=${parameters} seats=${seats} />
    <section class="panel" aria-label="Seats">
      <header><h2>${plural(seats.length, "seat")}</h2><span class="muted small">a seat's partitions stay when its node is replaced</span></header>
      <${Table} caption="Seats of the parameter servers" className="cards" keyOf=${({ seat }) => seat} sortBy="seat" rows=${seats} columns=${columns(id, tops, parameters)} />
    </section>
    <div class="grid">
      ${parameters.staleness?.length ? html`<${Staleness} staleness=${parameters.staleness} />` : null}
      <${Panel} title="Moves">
        ${moves.length
          ? html`<ol class="recent">${[...moves].reverse().slice(0, 30).map((event) => html`<li key=${event.number} class="tone-${eventTone(event)}"><span class="event-dot" aria-hidden="true"></span><${Clock} at=${event.time} /><span><${Text} of=${event.message} /></span></li>`)}</ol>`
          : html`<p class="muted">No partitions were moved.</p>`}
      </${Panel}>
    </div>`;
}

const traffic = ({ rates }) => (rates.bytes_in ?? 0) + (rates.bytes_out ?? 0);

function Bar({ value, of, children }) {
  return html`<span class="metered"><span class="meter" aria-hidden="true"><i style=${{ width: `${Math.min(100, (100 * (value || 0)) / of)}%` }}></i></span><span>${children}</span></span>`;
}

function columns(id, tops, { last_order: lastOrder }) {
  const behind = ({ order }) => Math.max(0, lastOrder - order);
  return [
    { id: "seat", name: "Seat", value: ({ seat }) => seat, cell: ({ seat, leaving }) => html`${count(seat)}${leaving ? html` <span class="chip tone-warn">leaving</span>` : ""}` },
    { id: "node", name: "Held by", value: ({ node }) => node, cell: ({ node, address }) => (node ? html`<a href=${jobLink(id, "nodes", { node })}><${Text} of=${node} /></a>${address ? "" : html` <span class="chip tone-bad">not serving</span>`}` : html`<span class="chip tone-bad">nobody</span>`) },
    { id: "partitions", name: "Partitions", numeric: true, value: ({ partitions }) => partitions, cell: ({ partitions }) => html`<${Bar} value=${partitions} of=${tops.partitions}>${count(partitions)}</${Bar}>` },
    { id: "requests", name: "Requests/s", numeric: true, value: ({ rates }) => rates.requests, cell: ({ rates }) => html`<${Bar} value=${rates.requests} of=${tops.requests}>${quantity(rates.requests)}</${Bar}>` },
    { id: "traffic", name: "In and out/s", numeric: true, value: traffic, cell: (seat) => (seat.rates.bytes_in === undefined ? "–" : html`<${Bar} value=${traffic(seat)} of=${tops.traffic}>${bytes(traffic(seat))}</${Bar}>`) },
    { id: "cpu", name: "CPU", numeric: true, value: ({ rates }) => rates.cpu, cell: ({ rates }) => (rates.cpu === undefined ? "–" : percent(100 * rates.cpu)) },
    { id: "queue", name: "Queue", numeric: true, value: ({ stats }) => stats?.queue, cell: ({ stats }) => count(stats?.queue) },
    { id: "rows", name: "Rows", numeric: true, value: ({ stats }) => stats?.rows, cell: ({ stats }) => quantity(stats?.rows) },
    { id: "bytes", name: "Memory", numeric: true, value: ({ stats }) => stats?.bytes, cell: ({ stats }) => bytes(stats?.bytes ?? 0) },
    { id: "behind", name: "Orders behind", numeric: true, value: behind, cell: (seat) => count(behind(seat)) },
  ];
}

function Summary({ parameters, seats }) {
  const { sync, iteration, examples, stale, last_order: order, dump_order: dump, dump_iteration: dumped, batch } = parameters;
  const partitions = seats.map((seat) => seat.partitions);
  const mean = partitions.reduce((a, b) => a + b, 0) / (partitions.length || 1);
  const tiles = [
    ["Updates", sync ? "synchronous" : "asynchronous", batch ? `${plural(batch, "example")} per iteration` : ""],
    ["Iteration", count(iteration), `order ${count(order)}`],
    ["Examples", quantity(examples), stale ? `${plural(stale, "stale push was", "stale pushes were")} dropped` : "none was dropped as stale"],
    ["Last dump", dump ? `iteration ${count(dumped)}` : "none", dump ? `${plural(order - dump, "order")} since` : "nothing to restart from yet"],
    ["Balance", mean ? `${(Math.max(...partitions) / mean).toFixed(2)}×` : "–", "fullest server against the mean"],
  ];
  return html`<dl class="tiles">${tiles.map(([name, value, more]) => html`<div class="tile" key=${name}><dt>${name}</dt><dd><span class="tile-value">${value}</span><span class="tile-more">${more}</span></dd></div>`)}</dl>`;
}

function Staleness({ staleness }) {
  const all = staleness.reduce((a, b) => a + b, 0) || 1;
  return html`<${Panel} title="How old pushes were">
    <table class="plain"><caption class="hidden-visually">Contributions by how many iterations old they were</caption>
      <thead class="hidden-visually"><tr><th scope="col">Iterations</th><th scope="col">Contributions</th></tr></thead>
      <tbody>${staleness.map((number, index) => html`<tr key=${index}><th scope="row" class="muted">${STALENESS[index] ?? index}</th><td><${Bar} value=${number} of=${all}>${count(number)}</${Bar}></td></tr>`)}</tbody></table>
    <p class="muted small">by iterations between the pull and the push</p>
  </${Panel}>`;
}
