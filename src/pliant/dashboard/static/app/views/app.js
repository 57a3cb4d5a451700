// The whole page: chooses the view by the address, and what the stream follows.

import { follow } from "../live.js";
import { Problem, Text } from "../components/parts.js";
import { html, useEffect } from "../html.js";
import { useRoute } from "../router.js";
import { useStore } from "../store.js";
import { Cluster } from "./cluster.js";
import { Header } from "./header.js";
import { Job } from "./job.js";
import { Jobs } from "./jobs.js";

// `/` goes to the filter of the view, as in most programs of this kind.
function useShortcuts() {
  useEffect(() => {
    const press = (event) => {
      const writes = event.target.closest?.("input, textarea, select, dialog");
      if (event.key !== "/" || event.ctrlKey || event.metaKey || event.altKey || writes) return;
      const box = document.querySelector("input[data-filter]");
      if (!box) return;
      event.preventDefault();
      box.focus();
      box.select();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
}

function SignIn({ problem }) {
  return html`<main class="page" id="main"><div class="panel sign-in">
    <h1>Not signed in</h1>
    <p><${Text} of=${problem.error} /></p>
    <p class="muted">${problem.hint ? html`<${Text} of=${problem.hint} />` : html`Open the link that <code>pliant dashboard</code> printed. It is good for one sign-in; <code>pliant dashboard</code> prints another one when it starts.`}</p>
  </div></main>`;
}

export function App() {
  const config = useStore((state) => state.config);
  const error = useStore((state) => state.error);
  const only = config?.job ?? "";
  const embedded = useStore((state) => state.connection.state === "embedded");
  const read = useRoute(only ? `#/jobs/${encodeURIComponent(only)}` : "");
  const route = embedded && read.view !== "job" ? { view: "job", id: only, tab: "overview", options: {} } : read;
  useShortcuts();
  useEffect(() => {
    if (!config || embedded || route.view === "job") return;
    document.title = route.view === "cluster" ? "Cluster · Pliant" : "Jobs · Pliant";
    follow({ [route.view]: 1 });
  }, [config, route.view]);
  if (error?.status === 401) return html`<${Header} route=${route} /><${SignIn} problem=${error} />`;
  return html`<a class="skip" href="#main" onClick=${(event) => (event.preventDefault(), document.getElementById("main")?.focus())}>To the content</a>
    <${Header} route=${route} />
    <main class="page" id="main" tabindex="-1">
      ${!config
        ? error ? html`<${Problem} of=${error} />` : html`<p class="boot">Loading…</p>`
        : route.view === "job"
          ? html`<${Job} key=${route.id} route=${route} />`
          : route.view === "cluster" ? html`<${Cluster} options=${route.options} />` : html`<${Jobs} options=${route.options} />`}
    </main>`;
}
