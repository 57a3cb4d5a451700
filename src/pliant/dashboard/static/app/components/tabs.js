// Tabs as links: the arrow keys go from one to the next, and each has an address of its own.

import { count } from "../format.js";
import { html, useEffect, useRef } from "../html.js";

const STEPS = { ArrowLeft: -1, ArrowRight: 1 };

// tabs: {id, name, href, number}
export function Tabs({ label, tabs, current }) {
  const list = useRef(null);
  useEffect(() => {
    list.current?.querySelector("[aria-selected=true]")?.scrollIntoView({ block: "nearest", inline: "center" });
  }, [current, tabs.length]);
  const onKeyDown = (event) => {
    const links = [...event.currentTarget.querySelectorAll("a")];
    const at = links.indexOf(document.activeElement);
    const next = event.key === "Home" ? 0 : event.key === "End" ? links.length - 1 : event.key in STEPS ? (at + STEPS[event.key] + links.length) % links.length : -1;
    if (at < 0 || next < 0) return;
    event.preventDefault();
    links[next].focus();
    links[next].click();
  };
  return html`<div class="tabs" role="tablist" aria-label=${label} ref=${list} onKeyDown=${onKeyDown}>
    ${tabs.map(
      ({ id, name, href, number }) => html`<a key=${id} id=${`tab-${id}`} role="tab" href=${href} aria-selected=${id === current ? "true" : "false"}
        aria-controls="tabpanel" tabindex=${id === current ? 0 : -1}>${name}${number ? html`<span class="n">${count(number)}</span>` : null}</a>`,
    )}
  </div>`;
}
