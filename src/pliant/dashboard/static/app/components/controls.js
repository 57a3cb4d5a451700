// What a page may do to a job, where the server allows it: scale it, stop it. Each asks first, and says what was answered.

import { jobPath, send } from "../api.js";
import { count, plural } from "../format.js";
import { html, useState } from "../html.js";
import { Dialog } from "./dialog.js";
import { Text } from "./parts.js";

export function ScaleDialog({ id, doc, onClose }) {
  const roles = (doc.roles ?? []).filter(({ name }) => name !== "master");
  const [name, setName] = useState((roles.find((role) => role.name === "worker") ?? roles[0])?.name ?? "worker");
  const role = roles.find((one) => one.name === name);
  const [wanted, setWanted] = useState(null);
  const replicas = wanted ?? role?.wanted ?? 0;
  const confirm = () => send(jobPath(id, "scale"), { role: name, replicas });
  return html`<${Dialog} title="Scale this job" action=${`Scale to ${count(replicas)}`} onClose=${onClose} onConfirm=${confirm}>
    <p class="muted"><${Text} of=${doc.name} /></p>
    ${roles.length > 1 && html`<label>Role
      <select value=${name} onChange=${(event) => (setName(event.currentTarget.value), setWanted(null))}>
        ${roles.map((one) => html`<option key=${one.name} value=${one.name}>${one.name}</option>`)}
      </select></label>`}
    <label>Number of nodes
      <input type="number" min=${role?.min ?? 0} max=${role?.max || undefined} step="1" required value=${replicas}
        onInput=${(event) => setWanted(event.currentTarget.valueAsNumber)} />
      <span class="muted small">${role ? `${plural(role.wanted, "node is", "nodes are")} wanted now, ${count(role.ready)} running; ${role.min} to ${role.max} allowed` : ""}</span>
    </label>
  </${Dialog}>`;
}

export function StopDialog({ id, doc, onClose }) {
  const [now, setNow] = useState(false);
  return html`<${Dialog} title="Stop this job?" action=${now ? "Kill it now" : "Stop the job"} tone="danger" onClose=${onClose}
    onConfirm=${() => send(jobPath(id, "stop"), { now })}>
    <p><b><${Text} of=${doc.name} /></b> ends: its programs are asked to save and leave. It can be continued later with <code>pliant resume</code>.</p>
    <label class="check"><input type="checkbox" checked=${now} onChange=${(event) => setNow(event.currentTarget.checked)} />
      <span>Kill its programs without waiting for them. What they have not saved is lost.</span></label>
  </${Dialog}>`;
}
