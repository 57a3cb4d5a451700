// One job: its head, which stays, and one view per tab.

import { follow } from "../live.js";
import { ScaleDialog, StopDialog } from "../components/controls.js";
import { Age, Notice, PhaseBadge, Problem, Text } from "../components/parts.js";
import { Tabs } from "../components/tabs.js";
import { clean, duration } from "../format.js";
import { html, useEffect, useState } from "../html.js";
import { jobLink } from "../router.js";
import { isActive } from "../states.js";
import { useNow, useStore } from "../store.js";
import { Data } from "./data.js";
import { Decisions } from "./decisions.js";
import { Events } from "./events.js";
import { Logs } from "./logs.js";
import { Nodes } from "./nodes.js";
import { Overview } from "./overview.js";
import { Servers } from "./servers.js";
import { Spec } from "./spec.js";

const VIEWS = { overview: Overview, nodes: Nodes, data: Data, servers: Servers, decisions: Decisions, events: Events, logs: Logs, spec: Spec };
const TOPICS = { overview: ["series"], nodes: ["nodes", "series"], data: ["data"], servers: ["servers"], decisions: ["decisions"] };

export function Job({ route }) {
  const { id, tab, options } = route;
  const job = useStore((state) => state.job);
  const config = useStore((state) => state.config);
  const embedded = useStore((state) => state.connection.state === "embedded");
  const [question, setQuestion] = useState("");
  const log = tab === "logs" ? options.node : undefined;
  useEffect(() => {
    follow({ job: id, topics: ["job", "events", ...(TOPICS[tab] ?? [])], ...(log ? { log } : {}) });
  }, [id, tab, log, Boolean(config)]);
  const doc = job.id === id ? job.docs.job : undefined;
  useEffect(() => {
    document.title = `${doc ? `${clean(doc.name)} · ${doc.phase}` : "Job"} · Pliant`;
  }, [doc?.name, doc?.phase]);
  if (!doc) return html`<${Unread} job=${job} />`;

  const tabs = [
    { id: "overview", name: "Overview" },
    { id: "nodes", name: "Nodes" },
    { id: "data", name: "Data" },
    ...(doc.parameters || tab === "servers" ? [{ id: "servers", name: "Servers" }] : []),
    { id: "decisions", name: "Decisions" },
    { id: "events", name: "Events", number: job.events.length },
    { id: "logs", name: "Logs" },
    { id: "spec", name: "Spec" },
  ].map((one) => ({ ...one, href: jobLink(id, one.id) }));
  const View = VIEWS[tab];
  const mayControl = config?.allow_control && !embedded && !job.gone && isActive(doc.phase);
  return html`<div class="page-head job-head">
      <h1><${Text} of=${doc.name} /></h1>
      <${PhaseBadge} phase=${doc.phase} />
      <span class="muted"><${Since} doc=${doc} /></span>
      ${mayControl && html`<div class="tools">
        <button type="button" onClick=${() => setQuestion("scale")}>Scale…</button>
        <button type="button" class="danger" onClick=${() => setQuestion("stop")}>Stop…</button>
      </div>`}
    </div>
    <${Message} doc=${doc} gone=${job.gone} />
    ${["job", "events", ...(TOPICS[tab] ?? []), ...(log ? [`log:${log}`] : [])].map((topic) => html`<${TopicProblem} key=${topic} topic=${topic} />`)}
    <${Tabs} label="Views of this job" tabs=${tabs} current=${tab} />
    <div id="tabpanel" role="tabpanel" aria-labelledby=${`tab-${tab}`}><${View} key=${tab} id=${id} doc=${doc} job=${job} options=${options} /></div>
    ${question === "scale" && html`<${ScaleDialog} id=${id} doc=${doc} onClose=${() => setQuestion("")} />`}
    ${question === "stop" && html`<${StopDialog} id=${id} doc=${doc} onClose=${() => setQuestion("")} />`}`;
}

function TopicProblem({ topic }) {
  const problem = useStore((state) => state.problems[topic]);
  return html`<${Problem} of=${problem} />`;
}

function Unread({ job }) {
  const problem = useStore((state) => state.problems.job ?? (state.connection.state === "lost" ? state.error : null));
  if (job.gone) return html`<${Notice} tone="warn" live><${Text} of=${job.gone} /></${Notice}><p><a href="#/jobs">All jobs</a></p>`;
  return html`<${Problem} of=${problem} />${problem ? html`<p><a href="#/jobs">All jobs</a></p>` : html`<p class="boot">Reading the job…</p>`}`;
}

function Since({ doc }) {
  const ended = doc.ended_at && !isActive(doc.phase);
  return html`${doc.platform ? `${clean(doc.platform)} · ` : ""}${ended ? html`ended <${Age} since=${doc.ended_at} /> ago after ${duration(doc.ended_at - doc.started_at)}` : doc.started_at ? html`running for <${Age} since=${doc.started_at} />` : "not started yet"}`;
}

// Why it is as it is; and how old that is, where no master says so now.
function Message({ doc, gone }) {
  const time = useNow();
  const warnings = [...new Set([doc.waiting, ...(doc.warnings ?? [])].filter(Boolean))];
  const says = doc.message || (doc.phase === "Running" ? "" : doc.reason);
  const bad = doc.phase === "Failed" || doc.phase === "Invalid";
  return html`
    ${gone && html`<${Notice} tone="warn" live><${Text} of=${gone} />. What is shown is the last that was known.</${Notice}>`}
    ${doc.note && html`<${Notice} tone="warn" icon="pause" live><${Text} of=${doc.note} />${doc.time && isActive(doc.phase) ? html`<span class="hint"> What is shown was so ${duration(time - doc.time)} ago.</span>` : ""}</${Notice}>`}
    ${says && !bad && html`<p class="muted job-says"><${Text} of=${says} /></p>`}
    ${says && bad && !doc.first_failure && html`<${Notice} tone="bad" icon="cross"><${Text} of=${says} /></${Notice}>`}
    ${warnings.filter((one) => one !== says).map((one) => html`<${Notice} key=${one} tone="warn"><${Text} of=${one} /></${Notice}>`)}`;
}
