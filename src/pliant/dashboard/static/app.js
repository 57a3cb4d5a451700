// The page begins here: read what this is (a live page, or a report), then show it.

import { html, render } from "./app/html.js";
import { start } from "./app/live.js";
import { App } from "./app/views/app.js";

const root = document.getElementById("app");
root.textContent = "";
render(html`<${App} />`, root);
start();
