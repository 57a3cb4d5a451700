// One line of nodes as SVG: bars by state, and below each end of a run a sign with its reason. Positions are pixels of the lane.

import { clean, clock, duration } from "../format.js";
import { html } from "../html.js";
import { exitLook } from "../states.js";

const KINDS = { Pending: "pending", Creating: "creating", Running: "running", Restarting: "restarting", Removing: "removing" };
const BAR = { top: 10, height: 11 };
const LETTER = 6.3; // pixels, about

function position(time, { from, to, width }) {
  return ((time - from) / (to - from)) * width;
}

function lane(line, scale) {
  const bars = [];
  const ends = [];
  for (const one of line.intervals) {
    const left = Math.max(0, position(one.start, scale));
    const right = Math.min(scale.width, position(one.end ?? scale.to, scale));
    if (right < 0 || left > scale.width) continue;
    bars.push({ ...one, left, width: Math.max(1.5, right - left) });
    if (one.exit_reason && right >= 0 && position(one.end, scale) >= 0) ends.push({ ...one, at: Math.min(right, scale.width - 1) });
  }
  return html`<svg width=${scale.width} height="46" aria-hidden="true">
    <line class="base" x1="0" x2=${scale.width} y1=${BAR.top + BAR.height / 2} y2=${BAR.top + BAR.height / 2} />
    ${bars.map((bar, index) => html`<rect key=${index} class="span ${KINDS[bar.state] ?? "removing"}" x=${bar.left} y=${BAR.top} width=${bar.width} height=${BAR.height} rx=${Math.min(2, bar.width / 2)}><title>${tooltip(bar)}</title></rect>`)}
    ${placed(ends, scale.width).map(({ end, word, x, anchor }, index) => html`<g key=${`e${index}`} class="end tone-${exitLook(end.exit_reason)[0]}"><title>${tooltip(end)}</title>
      <line x1=${end.at} x2=${end.at} y1=${BAR.top - 4} y2=${BAR.top + BAR.height + 4} />
      ${word && html`<text x=${x} y="36" text-anchor=${anchor}>${word}</text>`}</g>`)}
  </svg>`;
}

// A reason is written where there is room for it; else its stroke says that something ended, and how.
function placed(ends, width) {
  let free = width + LETTER;
  return [...ends].reverse().map((end) => {
    const word = clean(end.exit_reason);
    const space = word.length * LETTER;
    const anchor = end.at < space / 2 ? "start" : end.at > width - space / 2 ? "end" : "middle";
    const [left, right] = anchor === "start" ? [end.at, end.at + space] : anchor === "end" ? [end.at - space, end.at] : [end.at - space / 2, end.at + space / 2];
    if (right > free - 4 && free <= width) return { end, word: "" };
    free = left;
    return { end, word, x: end.at, anchor };
  });
}

function tooltip({ node, state, start, end, message, exit_reason: reason }) {
  const until = end ? `${clock(start)} to ${clock(end)} (${duration(end - start)})` : `since ${clock(start)}`;
  return clean(`${node}: ${state}, ${until}${reason ? `; ended: ${reason}` : ""}${message ? `: ${message}` : ""}`);
}

function inWords({ name, nodes, state, intervals }) {
  const ends = intervals.filter(({ exit_reason: reason }) => reason).map(({ node, exit_reason: reason, end }) => `${node} ${reason} at ${clock(end)}`);
  return clean(`${name}: ${state}, ${nodes.length} nodes${ends.length ? `; ended: ${ends.slice(-5).join(", ")}` : ""}`);
}

const STEPS_S = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 43200, 86400, 172800, 604800];

function ticks(scale) {
  const span = scale.to - scale.from;
  const most = Math.max(2, Math.floor(scale.width / 90));
  const step = STEPS_S.find((one) => span / one <= most) ?? STEPS_S[STEPS_S.length - 1];
  const offset = new Date(scale.from * 1000).getTimezoneOffset() * 60;
  const found = [];
  for (let time = Math.ceil((scale.from - offset) / step) * step + offset; time <= scale.to; time += step) {
    const x = position(time, scale);
    if (x < 20 || x > scale.width - 20) continue;
    const label = step >= 86400 ? new Date(time * 1000).toLocaleDateString("en-GB", { day: "numeric", month: "short" }) : step >= 60 ? clock(time).slice(0, 5) : clock(time);
    found.push({ x, label });
  }
  return found;
}

export const timeline = { lane, ticks, inWords };
