// The bar: where this is, whether what is shown is live, and the colours.

import { Icon } from "../components/icon.js";
import { Text } from "../components/parts.js";
import { duration, fullTime } from "../format.js";
import { html, useLayoutEffect, useState } from "../html.js";
import { useNow, useStore } from "../store.js";

const THEMES = { auto: ["auto", "Colours: as the system"], light: ["sun", "Colours: light"], dark: ["moon", "Colours: dark"] };
const ORDER = Object.keys(THEMES);

function stored() {
  try {
    const found = localStorage.getItem("pliant-theme");
    return ORDER.includes(found) ? found : "auto";
  } catch {
    return "auto"; // a page from a file, or storage that is switched off
  }
}

function ThemeButton() {
  const [theme, setTheme] = useState(stored);
  useLayoutEffect(() => {
    if (theme === "auto") delete document.documentElement.dataset.theme;
    else document.documentElement.dataset.theme = theme;
    try {
      localStorage.setItem("pliant-theme", theme);
    } catch {
      // it holds for this page
    }
  }, [theme]);
  const [icon, label] = THEMES[theme];
  const next = (before) => ORDER[(ORDER.indexOf(before) + 1) % ORDER.length];
  return html`<button type="button" class="plain" title=${label} aria-label=${`${label}; change`} onClick=${() => setTheme(next)}><${Icon} name=${icon} /></button>`;
}

function Live() {
  const { state, since } = useStore(({ connection }) => connection);
  const time = useNow();
  if (state === "embedded") return html`<span class="live">Report of ${fullTime(since)}</span>`;
  const [on, short, long] = {
    live: ["on", "Live", ""],
    connecting: ["", "Connecting…", ""],
    paused: ["", "Paused", " while the tab is hidden"],
    lost: ["off", "Not live", since ? `: no answer from the server for ${duration(time - since)}, retrying` : ""],
  }[state];
  return html`<span class="live" role="status"><span class="live-dot ${on}" aria-hidden="true"></span><span>${short}<span class="text-long">${long}</span></span></span>`;
}

export function Header({ route }) {
  const config = useStore((state) => state.config);
  const embedded = useStore((state) => state.connection.state === "embedded");
  const link = (view, name) => html`<a href=${`#/${view}`} aria-current=${(route.view === "job" ? "jobs" : route.view) === view ? "page" : undefined}>${name}</a>`;
  return html`<header class="bar">
    <a class="brand" href=${embedded ? "#/" : "#/jobs"} aria-label="Pliant, start page">
      <svg viewBox="0 0 32 32" aria-hidden="true"><rect width="32" height="32" rx="8" fill="currentColor" /><path d="M7 22c4 0 5-12 9-12s5 12 9 12" fill="none" stroke="var(--surface)" stroke-width="3.4" stroke-linecap="round" /></svg>
      Pliant</a>
    ${!embedded && html`<nav aria-label="Pages">${link("jobs", "Jobs")}${link("cluster", "Cluster")}</nav>`}
    ${config?.where && html`<span class="where"><${Text} of=${config.where} /></span>`}
    <div class="right"><${Live} /><${ThemeButton} /></div>
  </header>`;
}
