// A curve over time (or steps) with marks where something happened. uPlot draws; its styles are set by CSSOM, so the strict policy allows them.

import { clean, clock, count } from "../format.js";
import { html, useEffect, useRef, useState } from "../html.js";
import { eventTone } from "../states.js";
import uPlot from "../../vendor/uplot.js";

const HEIGHT = 176;
const TONES = { bad: "--bad", warn: "--warn", accent: "--accent", active: "--accent", good: "--good", quiet: "--faint", wait: "--wait" };

// Colours of the style sheet, as a canvas needs them: `light-dark()` is resolved by asking for the colour of an element.
export function colours(element, names) {
  const probe = document.createElement("span");
  element.append(probe);
  const found = Object.fromEntries(names.map((name) => {
    probe.style.color = `var(${name})`;
    return [name, getComputedStyle(probe).color];
  }));
  probe.remove();
  return found;
}

const faded = (colour, share) => `color-mix(in srgb, ${colour} ${share * 100}%, transparent)`;

// Counts up whenever the colours change: the toggle, or the system's setting.
export function useTheme() {
  const [version, setVersion] = useState(0);
  useEffect(() => {
    const change = () => setVersion((number) => number + 1);
    const system = matchMedia("(prefers-color-scheme: dark)");
    const observer = new MutationObserver(change);
    observer.observe(document.documentElement, { attributes: true, attributeFilter: ["data-theme"] });
    system.addEventListener("change", change);
    return () => {
      observer.disconnect();
      system.removeEventListener("change", change);
    };
  }, []);
  return version;
}

// curve: {time, step, mean, min, max}; marks: [{time, event}]; x: "time" or "step"
export function Chart({ title, unit = "", curve, marks = [], show, x = "time", extent, group = "job", floor }) {
  const box = useRef(null);
  const plot = useRef(null);
  const held = useRef({});
  const [hover, setHover] = useState(null);
  const theme = useTheme();
  const xs = x === "time" ? curve.time : curve.step;
  held.current = { marks: x === "time" ? marks : [], xs, curve, show, extent };

  useEffect(() => {
    const element = box.current;
    const c = colours(element, ["--accent", "--line", "--faint", "--muted", "--bad", "--warn", "--good", "--wait", "--surface"]);
    const tone = (event) => c[TONES[eventTone(event)] ?? "--faint"] ?? c["--faint"];
    const options = {
      width: Math.max(200, element.clientWidth),
      height: HEIGHT,
      legend: { show: false },
      padding: [10, 10, 0, 0],
      scales: {
        x: { time: x === "time", range: (_, low, high) => widened(low, high) },
        y: { range: (_, low, high) => padded(low, high, floor) },
      },
      axes: [
        axis(c, x === "time" ? { size: 26, values: (_, splits) => times(splits), space: 74 } : { size: 26, values: (_, splits) => splits.map((v) => (Number.isInteger(v) ? count(v) : "")) }),
        axis(c, { size: 58, values: (_, splits) => splits.map((value) => held.current.show(value)) }),
      ],
      series: [
        {},
        { stroke: c["--accent"], width: 1.6, spanGaps: false, points: { show: (u, _, from, to) => to - from < 3 } },
        { stroke: "transparent", points: { show: false } },
        { stroke: "transparent", points: { show: false } },
      ],
      bands: [{ series: [3, 2], fill: faded(c["--accent"], 0.14) }],
      cursor: { y: false, points: { size: 7 }, sync: { key: group, setSeries: false }, drag: { x: true, y: false } },
      hooks: {
        draw: [(u) => drawMarks(u, held.current.marks, tone)],
        setCursor: [(u) => setHover(hovered(u, held.current))],
      },
    };
    plot.current = new uPlot(options, data(held.current), element);
    const observer = new ResizeObserver(() => {
      const width = Math.max(200, element.clientWidth);
      if (width !== plot.current.width) plot.current.setSize({ width, height: HEIGHT });
    });
    observer.observe(element);
    return () => {
      observer.disconnect();
      plot.current.destroy();
      plot.current = null;
    };
  }, [theme, x]);
  useEffect(() => {
    const u = plot.current;
    if (u) u.setData(data(held.current), !isZoomed(u));
  }, [curve, marks, extent?.[0], extent?.[1]]);

  const last = curve.mean[curve.mean.length - 1];
  const summary = curve.mean.length ? `${title}: ${show(last)} ${unit} now; between ${show(least(curve.min))} and ${show(greatest(curve.max))}` : `${title}: no values yet`;
  return html`<figure class="chart">
    <figcaption><h3>${title}</h3>
      <span class="reading">${hover ? html`<span class="muted">${hover.where}</span> <b>${hover.value}</b>` : html`<b>${show(last)}</b>`} <span class="muted">${unit}</span></span>
    </figcaption>
    <div class="chart-box" ref=${box} role="img" aria-label=${summary}></div>
    ${hover?.mark && html`<p class="chart-mark tone-${eventTone(hover.mark)}"><span class="muted">${clock(hover.mark.time)}</span> <bdi>${clean(hover.mark.message)}</bdi></p>`}
  </figure>`;
}

const least = (values) => values.reduce((a, b) => Math.min(a, b), Infinity);
const greatest = (values) => values.reduce((a, b) => Math.max(a, b), -Infinity);

function axis(c, more) {
  return {
    stroke: c["--muted"], font: "11px system-ui, sans-serif", gap: 4,
    grid: { stroke: c["--line"], width: 1 }, ticks: { show: false }, border: { show: false }, ...more,
  };
}

// All charts beside each other have the same extent, so that what stands in one line happened at one time.
function data({ xs, curve, extent }) {
  const before = extent && xs.length && extent[0] < xs[0] ? [extent[0]] : [];
  const after = extent && xs.length && extent[1] > xs[xs.length - 1] ? [extent[1]] : [];
  const nothing = (values) => values.map(() => null);
  return [[...before, ...xs, ...after], ...[curve.mean, curve.min ?? curve.mean, curve.max ?? curve.mean].map((values) => [...nothing(before), ...values, ...nothing(after)])];
}

// Somebody chose a part of it, which new values do not take away.
function isZoomed(u) {
  const [xs] = u.data;
  const { min, max } = u.scales.x;
  return xs.length > 1 && min !== null && (min > xs[0] + 1e-9 || max < xs[xs.length - 1] - 1e-9);
}

function widened(low, high) {
  return low === high ? [low - 1, high + 1] : [low, high];
}

function padded(low, high, floor) {
  if (low === null || high === null || !Number.isFinite(low)) return [0, 1];
  const space = (high - low) * 0.08 || Math.abs(high) * 0.1 || 1;
  return [floor !== undefined ? Math.min(floor, low) : low - space, high + space];
}

function times(splits) {
  const span = splits.length > 1 ? splits[splits.length - 1] - splits[0] : 0;
  return splits.map((time) => (span > 172800 ? new Date(time * 1000).toLocaleDateString("en-GB", { day: "numeric", month: "short" }) : span > 600 ? clock(time).slice(0, 5) : clock(time)));
}

function drawMarks(u, marks, tone) {
  const { ctx, bbox } = u;
  const ratio = devicePixelRatio || 1;
  ctx.save();
  ctx.lineWidth = ratio;
  let before = -Infinity;
  for (const { time, event } of marks) {
    const at = Math.round(u.valToPos(time, "x", true)) + 0.5;
    if (at < bbox.left || at > bbox.left + bbox.width || at - before < 2 * ratio) continue; // what stands in one line is drawn once
    before = at;
    ctx.strokeStyle = ctx.fillStyle = tone(event);
    ctx.globalAlpha = 0.4;
    ctx.setLineDash([3 * ratio, 3 * ratio]);
    ctx.beginPath();
    ctx.moveTo(at, bbox.top);
    ctx.lineTo(at, bbox.top + bbox.height);
    ctx.stroke();
    ctx.globalAlpha = 1;
    ctx.beginPath();
    ctx.moveTo(at - 4 * ratio, bbox.top - 4 * ratio);
    ctx.lineTo(at + 4 * ratio, bbox.top - 4 * ratio);
    ctx.lineTo(at, bbox.top + 3 * ratio);
    ctx.fill();
  }
  ctx.restore();
}

function hovered(u, { marks, show }) {
  const { left, idx } = u.cursor;
  const [xs, means, lows, highs] = u.data;
  if (left < 0 || idx === null || idx === undefined || xs[idx] === undefined) return null;
  let mark = null;
  let nearest = 7; // pixels
  for (const { time, event } of marks) {
    const away = Math.abs(u.valToPos(time, "x") - left);
    if (away < nearest) [nearest, mark] = [away, event];
  }
  const [low, high] = [lows[idx], highs[idx]];
  const spread = low !== undefined && low !== null && high > low ? ` (${show(low)} to ${show(high)})` : "";
  const isTime = u.scales.x.time;
  return { where: isTime ? clock(xs[idx]) : `step ${count(xs[idx])}`, value: show(means[idx]) + spread, mark };
}

