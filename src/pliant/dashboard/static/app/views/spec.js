// The job's spec as YAML, with what is secret taken out by the server.

import { jobPath } from "../api.js";
import { Empty, Panel, Problem } from "../components/parts.js";
import { clean, plural } from "../format.js";
import { html, useEffect, useState } from "../html.js";
import { fetchDocument } from "../live.js";
import { useStore } from "../store.js";

export function Spec({ id, job }) {
  const problem = useStore((state) => state.problems.spec);
  const [copied, setCopied] = useState("");
  const found = job.docs.spec;
  useEffect(() => {
    if (!found) fetchDocument("spec", jobPath(id, "spec"));
  }, [id, Boolean(found)]);
  if (!found) return problem ? html`<${Problem} of=${problem} />` : html`<${Empty} title="Reading the spec…" />`;
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(found.yaml);
      setCopied("Copied");
    } catch {
      setCopied("The browser does not allow it: select the text");
    }
  };
  const { redacted = [] } = found;
  return html`<${Panel} title="Spec" tools=${html`<span class="muted small" role="status">${copied}</span><button type="button" onClick=${copy}>Copy</button>`}>
    ${redacted.length ? html`<p class="muted small">${plural(redacted.length, "value")} that may be secret left out: ${clean(redacted.join(", "))}</p>` : null}
    <pre class="code spec" tabindex="0">${found.yaml.split("\n").map(line)}</pre>
    ${found.cut ? html`<p class="muted small">It is longer; the rest is not shown.</p>` : null}
  </${Panel}>`;
}

// Keys a little apart from values, which is all that YAML needs to be read well.
function line(text, index) {
  const parts = /^(\s*(?:- )?)([^\s#:][^:#]*)(:)(\s.*|)$/.exec(text);
  if (!parts) return html`<span key=${index}>${clean(text)}${"\n"}</span>`;
  const [, indent, key, colon, value] = parts;
  return html`<span key=${index}>${indent}<span class="key">${clean(key)}</span>${colon}${clean(value)}${"\n"}</span>`;
}
