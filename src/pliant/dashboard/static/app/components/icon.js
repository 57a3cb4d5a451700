// Signs as inline SVG: they take the colour of the text beside them, and say nothing to a screen reader, since a word is always there.

import { html } from "../html.js";

const PATHS = {
  dot: () => html`<circle cx="8" cy="8" r="4.5" fill="currentColor" />`,
  dashed: () => html`<circle cx="8" cy="8" r="5" fill="none" stroke="currentColor" stroke-width="2" stroke-dasharray="3.4 2.2" />`,
  check: () => html`<path d="M3 8.6l3.3 3.4L13 4.8" />`,
  cross: () => html`<path d="M4 4l8 8M12 4l-8 8" />`,
  pause: () => html`<path d="M5.5 3.5v9M10.5 3.5v9" />`,
  square: () => html`<rect x="4" y="4" width="8" height="8" rx="1" fill="currentColor" stroke="none" />`,
  bang: () => html`<path d="M8 3v6.2M8 12.4v.2" />`,
  info: () => html`<path d="M8 7v5.4M8 3.6v.2" />`,
  swap: () => html`<path d="M3 6h9l-2.6-2.6M13 10H4l2.6 2.6" />`,
  memory: () => html`<path d="M4 5h8v6H4zM6 2.5V5M10 2.5V5M6 11v2.5M10 11v2.5" />`,
  search: () => html`<circle cx="7" cy="7" r="4.3" /><path d="M10.3 10.3L14 14" />`,
  arrow: () => html`<path d="M8 13V3.5M4 7l4-4 4 4" />`,
  right: () => html`<path d="M6 3.5L10.5 8 6 12.5" />`,
  down: () => html`<path d="M3.5 6L8 10.5 12.5 6" />`,
  sun: () => html`<circle cx="8" cy="8" r="3" /><path d="M8 1.5v1.6M8 12.9v1.6M1.5 8h1.6M12.9 8h1.6M3.4 3.4l1.1 1.1M11.5 11.5l1.1 1.1M3.4 12.6l1.1-1.1M11.5 4.5l1.1-1.1" />`,
  moon: () => html`<path d="M13 9.6A5.6 5.6 0 0 1 6.4 3a5.6 5.6 0 1 0 6.6 6.6z" />`,
  auto: () => html`<circle cx="8" cy="8" r="5.6" /><path d="M8 2.4v11.2A5.6 5.6 0 0 0 8 2.4z" fill="currentColor" />`,
  restart: () => html`<path d="M12.8 8a4.8 4.8 0 1 1-1.5-3.5M12.8 2v3.2H9.6" />`,
};

export function Icon({ name }) {
  return html`<svg class="icon" viewBox="0 0 16 16" fill="none" stroke="currentColor" stroke-width="1.9" stroke-linecap="round" stroke-linejoin="round" aria-hidden="true">${PATHS[name]()}</svg>`;
}
