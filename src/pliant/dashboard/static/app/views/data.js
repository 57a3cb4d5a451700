// What became of the data: for each dataset a map of its shards per epoch, who holds which, and what was given up.

import { Empty, Notice, Panel, ProgressBar, Text } from "../components/parts.js";
import { STATES, ShardMap, Swatch } from "../components/shard_map.js";
import { clean, count, plural } from "../format.js";
import { html, useState } from "../html.js";
import { jobLink } from "../router.js";

const LEGEND = ["d", "h", "l", "r", "p", "."];
const MAX_LISTED = 50;

export function Data({ id, doc, job }) {
  const found = job.docs.data;
  if (!found) return html`<${Empty} title="Reading the shards…" />`;
  const datasets = Object.values(found.datasets ?? {});
  if (!datasets.length) {
    return html`<div class="panel"><${Empty} title="No datasets">${(doc.components ?? []).includes("shards") ? "Its programs have not created one yet." : "This job does not hand out shards: its programs read their data by themselves, or by a step plan."}</${Empty}></div>`;
  }
  return html`
    ${found.note && html`<${Notice} tone="quiet" icon="info"><${Text} of=${found.note} /></${Notice}>`}
    ${datasets.map((dataset) => html`<${Dataset} key=${dataset.name} id=${id} dataset=${dataset} />`)}`;
}

function Dataset({ id, dataset }) {
  const { name, type, epochs, epochs_done: finished, records_done: done, records_total: total, map, parked = [], parked_total: parkedTotal, partitions = [] } = dataset;
  const share = total ? (100 * done) / total : null;
  const facts = [
    clean(type), total ? `${count(done)} of ${count(total)} records` : `${count(done)} records`, epochs > 1 ? `${count(finished)} of ${plural(epochs, "epoch")} done` : "",
    `${count(dataset.shards_done)} of ${plural(dataset.shards_total, "shard")} done`, dataset.shards_in_work ? `${count(dataset.shards_in_work)} leased` : "", dataset.shards_waiting ? `${count(dataset.shards_waiting)} returned` : "",
    dataset.exact ? "each record accepted exactly once" : "",
  ].filter(Boolean).join(" · ");
  return html`<${Panel} title=${html`<${Text} of=${name} />`} label=${`Dataset ${clean(name)}`} tools=${html`<div class="bar-wide"><${ProgressBar} value=${share} tone=${parkedTotal || parked.length ? "bad" : dataset.complete ? "good" : "active"} label=${`progress of ${clean(name)}`} /></div>`}>
    <p class="muted small">${facts}</p>
    ${map ? html`<${Maps} name=${name} map=${map} />` : html`<p class="muted">No map of its shards is known.</p>`}
    ${map?.leases?.length ? html`<${Leases} id=${id} map=${map} />` : null}
    ${parked.length ? html`<${Parked} parked=${parked} total=${parkedTotal ?? parked.length} />` : null}
    ${partitions.length ? html`<${Partitions} partitions=${partitions} />` : null}
  </${Panel}>`;
}

function Maps({ name, map }) {
  const epochs = Object.values(map.epochs ?? {}).sort((a, b) => b.epoch - a.epoch);
  const perCell = Math.max(1, ...epochs.map(({ per_cell: per }) => per || 1));
  return html`
    <ul class="legend">${LEGEND.map((letter) => html`<li key=${letter}><${Swatch} letter=${letter} />${STATES[letter][0]}</li>`)}${perCell > 1 ? html`<li class="muted">a cell is ${count(perCell)} neighbouring shards, and shows the most noteworthy of them</li>` : null}</ul>
    ${epochs.map((epoch) => html`<div class="epoch" key=${epoch.epoch}>
      <h3>Epoch ${count(epoch.epoch)} <span class="muted">· ${plural(epoch.shards, "shard")}${epoch.complete ? ", all done" : ""}</span></h3>
      <${ShardMap} name=${name} epoch=${epoch} holders=${map.holders ?? []} />
    </div>`)}
    ${map.left_out_epochs ? html`<p class="muted small">${plural(map.left_out_epochs, "older epoch is", "older epochs are")} left out; all of their shards are accounted for.</p>` : null}
    ${map.ended_early ? html`<p class="muted small">The dataset was ended early: shards that came back after that count as done.</p>` : null}`;
}

function Leases({ id, map }) {
  const byNode = new Map();
  for (const lease of map.leases) byNode.set(lease.node, [...(byNode.get(lease.node) ?? []), lease]);
  const [open, setOpen] = useState(false);
  const nodes = [...byNode].sort(([a], [b]) => a.localeCompare(b, "en", { numeric: true }));
  const shown = open ? nodes : nodes.slice(0, 8);
  return html`<h3 class="spaced">Leased now <span class="muted">· ${plural(map.leases_total ?? map.leases.length, "shard")}</span></h3>
    <div class="table-scroll"><table><caption class="hidden-visually">Shards that are leased now, by node</caption>
      <thead><tr><th scope="col">Node</th><th scope="col" class="num">Shards</th><th scope="col">Which (epoch/shard, records)</th></tr></thead>
      <tbody>${shown.map(([node, leases]) => html`<tr key=${node}><th scope="row"><a href=${jobLink(id, "nodes", { node })}><${Text} of=${node} /></a></th><td class="num">${count(leases.length)}</td>
        <td class="small">${leases.slice(0, 4).map(({ epoch, shard, ordinal, start, end, done }) => `${epoch}/${count(shard ?? ordinal)} (${count(start)} to ${count(end)}${done ? `, ${count(done)} done` : ""})`).join("; ")}${leases.length > 4 ? "; …" : ""}</td></tr>`)}</tbody>
    </table></div>
    ${nodes.length > 8 ? html`<button type="button" class="link" onClick=${() => setOpen(!open)}>${open ? "Show fewer" : `Show all ${count(nodes.length)} nodes`}</button>` : null}`;
}

function Parked({ parked, total }) {
  return html`<h3 class="spaced toned tone-bad">Parked <span class="muted">· ${plural(total, "shard")}: failed too often, not leased again</span></h3>
    <div class="table-scroll"><table><caption class="hidden-visually">Parked shards</caption>
      <thead><tr><th scope="col">Records</th><th scope="col" class="num">Epoch</th><th scope="col" class="num">Failures</th><th scope="col">Last message</th></tr></thead>
      <tbody>${parked.slice(0, MAX_LISTED).map((shard) => html`<tr key=${`${shard.epoch}-${shard.name}-${shard.start}`}><td class="nowrap">${count(shard.start)} to ${count(shard.end)}</td><td class="num">${count(shard.epoch)}</td><td class="num">${count(shard.failures)}</td><td><${Text} of=${shard.message} /></td></tr>`)}</tbody>
    </table></div>
    ${total > MAX_LISTED ? html`<p class="muted small">${count(total - MAX_LISTED)} more.</p>` : null}`;
}

function Partitions({ partitions }) {
  return html`<h3 class="spaced">Partitions of the stream</h3>
    <div class="table-scroll"><table><caption class="hidden-visually">Partitions of the stream</caption>
      <thead><tr><th scope="col">Partition</th><th scope="col" class="num">Done</th><th scope="col" class="num">Position</th><th scope="col" class="num">End</th><th scope="col">State</th></tr></thead>
      <tbody>${partitions.slice(0, 200).map((one) => html`<tr key=${one.name}><th scope="row"><${Text} of=${one.name} /></th><td class="num">${count(one.records_done)}</td><td class="num">${count(one.position)}</td><td class="num">${count(one.end)}</td><td>${one.closed ? "closed" : "open"}</td></tr>`)}</tbody>
    </table></div>`;
}
