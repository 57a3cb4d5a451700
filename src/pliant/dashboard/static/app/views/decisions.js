// Why the job has what it has: each plan with its reason, what it promised and what came of it; and what persons asked for.

import { Clock, Empty, OutcomeBadge, Panel, Text, Time } from "../components/parts.js";
import { clean, count, cpus, duration, memory, percent, plural, quantity } from "../format.js";
import { html } from "../html.js";
import { eventTone } from "../states.js";
import { useNow } from "../store.js";

const SHARES = { data: "waits for data", compute: "computes", peers: "waits for others" };

export function Decisions({ doc, job }) {
  const found = job.docs.decisions;
  if (!found) return html`<${Empty} title="Reading the plans…" />`;
  const plans = Object.values(found.plans ?? {}).sort((a, b) => b.time - a.time);
  const optimize = found.optimize || doc.optimize;
  return html`
    <div class="decisions">
    <${Now} found=${found} optimize=${optimize} />
    <${Requests} requests=${found.requests ?? []} />
    <${Panel} title="Plans" className="plans-panel" tools=${html`<span class="muted small">${plural(plans.length, "plan")}${found.left_out ? `, ${found.left_out} older left out` : ""}, newest first</span>`}>
      ${plans.length
        ? html`<ol class="plans">${plans.map((plan) => html`<${Plan} key=${plan.id} plan=${plan} />`)}</ol>`
        : html`<${Empty} title="No plans">${optimize === "manual" ? html`This job's resources are set manually. With <code>optimize: single-job</code> its master plans them.` : "None was made so far."}</${Empty}>`}
    </${Panel}></div>`;
}

function Now({ found, optimize }) {
  const { planner, explanation, explanation_note: note } = found;
  const clock = useNow();
  const by = { manual: "nobody: resources are set manually", "single-job": "the job's master", cluster: planner?.brain === "away" ? "the job's master, since the Brain is away" : "the Brain" }[optimize] ?? optimize;
  const shares = Object.entries(explanation?.parts ?? {}).filter(([, share]) => share > 0.004).sort((a, b) => b[1] - a[1]);
  return html`<${Panel} title="Now">
    <dl class="pairs">
      <dt>planned by</dt><dd>${clean(by)}</dd>
      ${planner && html`<dt>planner</dt><dd>${clean(planner.state)}${planner.until > clock ? ` for another ${duration(planner.until - clock)}` : ""}${planner.reason ? html`: <${Text} of=${planner.reason} />` : ""}${planner.dry_run ? " (dry run: plans are only shown)" : ""}</dd>`}
      ${planner?.grant && html`<dt>quota</dt><dd>${planner.grant.nodes ? `at most ${plural(planner.grant.nodes, "node")}, ${cpus(planner.grant.cpu)} CPU` : "nothing"}${planner.grant.reason ? html`: <${Text} of=${planner.grant.reason} />` : ""}</dd>`}
      ${explanation?.configuration && html`<dt>it has</dt><dd>${configuration(explanation.configuration)}</dd>`}
      ${explanation?.rate ? html`<dt>speed</dt><dd>${quantity(explanation.rate)} records/s</dd>` : null}
      ${explanation?.bottleneck && html`<dt>bottleneck</dt><dd><${Text} of=${explanation.bottleneck} /></dd>`}
      ${explanation?.next_plan && html`<dt>next plan</dt><dd><${Text} of=${explanation.next_plan.reason} /></dd>`}
      ${explanation?.not_yet && html`<dt>not yet</dt><dd><${Text} of=${explanation.not_yet} /></dd>`}
    </dl>
    ${shares.length ? html`<h3 class="spaced">Where the workers' time goes</h3><${Shares} shares=${shares} />` : null}
    ${explanation?.curve?.length ? html`<${Speeds} curve=${explanation.curve} now=${explanation.configuration?.worker?.replicas} />` : null}
    ${found.note && html`<p class="muted small"><${Text} of=${found.note} /></p>`}
    ${!explanation && note && note !== found.note && html`<p class="muted small"><${Text} of=${note} /></p>`}
  </${Panel}>`;
}

function Shares({ shares }) {
  return html`<table class="plain"><caption class="hidden-visually">Shares of a worker's time</caption><tbody>
    ${shares.map(([name, share]) => html`<tr key=${name}><th scope="row">${SHARES[name] ?? clean(name)}</th><td><span class="meter wide" aria-hidden="true"><i style=${{ width: `${100 * share}%` }}></i></span> ${percent(100 * share)}</td></tr>`)}
  </tbody></table>`;
}

// The speed that is expected of other numbers of workers, as a table with bars: low to high, and what was measured.
function Speeds({ curve, now }) {
  const most = Math.max(...curve.map(({ high, measured }) => Math.max(high, measured ?? 0)), 1e-9);
  return html`<h3 class="spaced">Expected speed by number of workers</h3>
    <table class="plain speeds"><caption class="hidden-visually">Expected speed by number of workers</caption>
      <thead><tr><th scope="col">Workers</th><th scope="col">Records/s</th><th scope="col" class="num">Measured</th></tr></thead>
      <tbody>${curve.map(({ workers, rate, low, high, measured }) => html`<tr key=${workers} class=${workers === now ? "present" : ""}>
        <th scope="row">${count(workers)}${workers === now ? html` <span class="chip">now</span>` : ""}</th>
        <td><${Whisker} low=${low} mid=${rate} high=${high} mark=${measured} most=${most} /> ${quantity(rate)}</td><td class="num">${quantity(measured)}</td></tr>`)}</tbody></table>`;
}

function Whisker({ low, mid, high, mark, most, tone = "active" }) {
  const x = (value) => `${(100 * Math.max(0, Math.min(value, most))) / most}%`;
  return html`<svg class="whisker tone-${tone}" width="120" height="12" aria-hidden="true">
    <line class="rail" x1="0" x2="100%" y1="6" y2="6" />
    ${low !== undefined && high !== undefined && html`<line class="range" x1=${x(low)} x2=${x(high)} y1="6" y2="6" />`}
    ${mid !== undefined && mid !== null && html`<circle class="mid" cx=${x(mid)} cy="6" r="3.5" />`}
    ${mark !== undefined && mark !== null && html`<line class="mark" x1=${x(mark)} x2=${x(mark)} y1="0" y2="12" />`}
  </svg>`;
}

function Plan({ plan }) {
  const { id, time, proposal, before, before_rate: beforeRate, achieved_rate: achieved, standing, outcome, judgement, rolls_back: rollsBack, origin } = plan;
  const { algorithm, reason, prediction, configuration: after, replace = [], moves = {} } = proposal;
  const changes = [
    ...changed(before, after),
    ...(replace.length ? [`replace ${replace.map(clean).join(", ")}`] : []),
    ...Object.entries(moves).map(([node, share]) => `move ${percent(100 * share)} of ${clean(node)}`),
  ];
  const most = Math.max(beforeRate || 0, achieved || 0, prediction?.high || prediction?.rate || 0, 1e-9);
  return html`<li class="plan">
    <div class="plan-head"><${OutcomeBadge} outcome=${standing || outcome} /><b><${Text} of=${id} /></b><span class="muted"><${Time} at=${time} /> · ${clean(algorithm)}${origin ? ", of the Brain" : ""}${rollsBack ? html`, takes back <${Text} of=${rollsBack} />` : ""}</span></div>
    <p class="plan-reason"><${Text} of=${reason} /></p>
    ${changes.length ? html`<p class="plan-change">${changes.map((one, index) => html`<span class="chip" key=${index}>${one}</span>`)}</p>` : null}
    ${prediction || achieved
      ? html`<table class="plain rates"><caption class="hidden-visually">Records per second</caption><tbody>
          <tr><th scope="row">before</th><td><${Whisker} mid=${beforeRate || null} most=${most} tone="quiet" /></td><td class="num">${beforeRate ? quantity(beforeRate) : "–"}</td><td class="muted">records/s</td></tr>
          ${prediction && html`<tr><th scope="row">predicted</th><td><${Whisker} low=${prediction.low} mid=${prediction.rate} high=${prediction.high} most=${most} /></td><td class="num">${quantity(prediction.rate)}</td><td class="muted">${quantity(prediction.low)} to ${quantity(prediction.high)}</td></tr>`}
          <tr><th scope="row">achieved</th><td><${Whisker} mid=${achieved ?? null} most=${most} tone=${tone(achieved, prediction)} /></td><td class="num">${quantity(achieved)}</td><td class="muted">${achieved && prediction ? against(achieved, prediction) : achieved ? "" : "not measured"}</td></tr>
        </tbody></table>`
      : null}
    ${judgement && html`<p class="muted"><${Text} of=${judgement} /></p>`}
  </li>`;
}

const within = (achieved, { low, high }) => achieved >= low && achieved <= high;
const tone = (achieved, prediction) => (!achieved || !prediction ? "quiet" : achieved >= prediction.low ? "good" : "warn");

function against(achieved, prediction) {
  const difference = (100 * (achieved - prediction.rate)) / prediction.rate;
  return `${difference >= 0 ? "+" : "−"}${Math.abs(difference).toFixed(0)} % against the prediction${within(achieved, prediction) ? ", as predicted" : ""}`;
}

function shape({ replicas, cpu, memory_mb: megabytes, gpu }) {
  const each = [cpu ? `${cpus(cpu)} CPU` : "", megabytes ? memory(megabytes) : "", gpu ? `${gpu} GPU` : ""].filter(Boolean).join(", ");
  return each ? `${count(replicas)} × (${each})` : count(replicas);
}

const configuration = ({ worker, server, micro_batch: batch }) => [`workers ${shape(worker)}`, server ? `servers ${shape(server)}` : "", batch ? `micro-batch ${count(batch)}` : ""].filter(Boolean).join(", ");

function changed(before, after) {
  const found = [];
  for (const [role, name] of [["worker", "workers"], ["server", "servers"]]) {
    const [old, wanted] = [before?.[role], after?.[role]];
    if (old && wanted && shape(old) !== shape(wanted)) found.push(`${name} ${shape(old)} → ${shape(wanted)}`);
  }
  if (before?.micro_batch !== after?.micro_batch && after?.micro_batch) found.push(`micro-batch ${count(before?.micro_batch)} → ${count(after.micro_batch)}`);
  return found;
}

function Requests({ requests }) {
  return html`<${Panel} title="Requested changes">
    ${requests.length
      ? html`<ol class="recent">${[...requests].reverse().slice(0, 25).map((event) => html`<li key=${event.number} class="tone-${eventTone(event)}"><span class="event-dot" aria-hidden="true"></span><${Clock} at=${event.time} /><span><${Text} of=${event.message} /></span></li>`)}</ol>`
      : html`<p class="muted">No change was requested.</p>`}
  </${Panel}>`;
}
