// The small parts that all views share: badges, bars, notices, texts of strangers, times.

import { clean, clock, count, duration, fullTime, moment, percent } from "../format.js";
import { html } from "../html.js";
import { exitLook, nodeLook, outcomeLook, phaseLook } from "../states.js";
import { now, useNow } from "../store.js";
import { Icon } from "./icon.js";

// Text of a stranger, as text: what is invisible in it is shown, and it cannot turn the direction of what stands beside it.
export function Text({ of }) {
  return html`<bdi>${clean(of)}</bdi>`;
}

function Badge({ look: [tone, sign], children }) {
  return html`<span class="badge tone-${tone}"><${Icon} name=${sign} />${children}</span>`;
}

export const PhaseBadge = ({ phase }) => html`<${Badge} look=${phaseLook(phase)}>${clean(phase)}</${Badge}>`;
export const OutcomeBadge = ({ outcome }) => html`<${Badge} look=${outcomeLook(outcome)}>${clean(outcome)}</${Badge}>`;

export function Sign({ look: [tone, sign], children }) {
  return html`<span class="sign tone-${tone}"><${Icon} name=${sign} />${children}</span>`;
}

export const NodeState = ({ state }) => html`<${Sign} look=${nodeLook(state)}>${clean(state)}</${Sign}>`;
export const ExitReason = ({ reason }) => html`<${Sign} look=${exitLook(reason)}>${clean(reason)}</${Sign}>`;

// How often programs and nodes ended other than in order, most frequent first.
export function Reasons({ reasons }) {
  const found = Object.entries(reasons ?? {}).sort((a, b) => b[1] - a[1]);
  return html`<span class="chips">
    ${found.map(([reason, number]) => html`<span class="chip tone-${exitLook(reason)[0]}" key=${reason}>${count(number)} ${clean(reason)}</span>`)}
  </span>`;
}

export function ProgressBar({ value, tone = "active", label = "progress" }) {
  const known = value !== null && value !== undefined;
  const shown = known ? Math.max(0, Math.min(100, value)) : 0;
  // rounded down: 100 % is when it is done
  const text = known ? percent(Math.floor(shown * 10) / 10, shown >= 100 || shown === 0 ? 0 : 1) : "unknown";
  return html`<div class="progress tone-${tone} ${known ? "" : "unknown"}">
    <div class="progress-track" role="progressbar" aria-label=${label} aria-valuemin="0" aria-valuemax="100" aria-valuenow=${known ? Math.floor(shown) : undefined} aria-valuetext=${text}>
      ${known && html`<div class="progress-fill" style=${{ width: `${shown}%` }}></div>`}
    </div>
    <span class="value" aria-hidden="true">${text}</span>
  </div>`;
}

// Use against a limit; without one only the use.
export function Meter({ used, limit, show, label, full = false }) {
  if (!limit) return html`<span>${used ? show(used) : "–"}</span>`;
  const share = Math.min(1, used / limit);
  const tone = !full ? "active" : share > 0.95 ? "bad" : share > 0.85 ? "warn" : "active"; // all of the CPU is no trouble, all of the memory is
  return html`<span class="metered">
    <span class="meter tone-${tone}" role="meter" aria-label=${label} aria-valuemin="0" aria-valuemax=${limit} aria-valuenow=${used ?? 0}>
      <i style=${{ width: `${share * 100}%` }}></i>
    </span>
    <span>${show(used)}<span class="muted"> / ${show(limit)}</span></span>
  </span>`;
}

export function Notice({ tone, icon = "bang", children, live = false }) {
  return html`<div class="notice tone-${tone}" role=${live ? "status" : undefined}><${Icon} name=${icon} /><div>${children}</div></div>`;
}

export function Empty({ title, children }) {
  return html`<div class="empty"><strong>${title}</strong>${children}</div>`;
}

export function Panel({ title, tools, children, label, flush = false, className = "" }) {
  return html`<section class="panel ${className}" aria-label=${label ?? title}>
    ${(title || tools) && html`<header>${title && html`<h2>${title}</h2>`}${tools && html`<div class="tools">${tools}</div>`}</header>`}
    ${flush ? children : html`<div class="body">${children}</div>`}
  </section>`;
}

export function Segments({ label, choices, value, onChoose }) {
  return html`<div class="segments" role="group" aria-label=${label}>
    ${choices.map(
      ({ id, name, number }) => html`<button key=${id} type="button" aria-pressed=${id === value ? "true" : "false"} onClick=${() => onChoose(id)}>
        ${name}${number !== undefined && html`<span class="n">${count(number)}</span>`}
      </button>`,
    )}
  </div>`;
}

export function SearchBox({ label, value, onInput, placeholder }) {
  return html`<label class="search">
    <span class="hidden-visually">${label}</span>
    <${Icon} name="search" />
    <input type="search" data-filter value=${value} placeholder=${placeholder ?? label} autocomplete="off" spellcheck=${false}
      onInput=${(event) => onInput(event.currentTarget.value)}
      onKeyDown=${(event) => event.key === "Escape" && (onInput(""), event.currentTarget.blur())} />
    <kbd aria-hidden="true">/</kbd>
  </label>`;
}

export function Time({ at }) {
  return at ? html`<time datetime=${new Date(at * 1000).toISOString()} title=${fullTime(at)}>${moment(at, now())}</time>` : "–";
}

export function Clock({ at }) {
  return html`<time datetime=${new Date(at * 1000).toISOString()} title=${fullTime(at)}>${clock(at)}</time>`;
}

export function Age({ since, until }) {
  const time = useNow();
  return since ? html`<span title=${fullTime(since)}>${duration((until || time) - since)}</span>` : "–";
}

// What is known only up to a moment of the past.
export function Problem({ of }) {
  if (!of) return null;
  return html`<${Notice} tone="warn" live><${Text} of=${of.error} />${of.hint && html` <span class="hint"><${Text} of=${of.hint} /></span>`}</${Notice}>`;
}
