// The shards of one epoch as a grid on a canvas: a cell per shard, or per group of neighbours. Each state has a colour and a sign of its own.
// The arrow keys walk over the cells, and what is under them (or under the pointer) is said below.

import { clean, count, percent } from "../format.js";
import { html, useEffect, useRef, useState } from "../html.js";
import { colours, useTheme } from "./chart.js";

export const STATES = {
  d: ["done", "--done"],
  h: ["partly done", "--done"],
  l: ["leased", "--wait"],
  r: ["returned, to be leased again", "--warn"],
  p: ["parked", "--bad"],
  x: ["lost", "--bad"],
  ".": ["to do", "--line"],
};

const SIZES = [[200, 16], [700, 12], [Infinity, 9]]; // pixels of a cell, by how many there are
const GAP = 2;

export function ShardMap({ name, epoch, holders }) {
  const box = useRef(null);
  const canvas = useRef(null);
  const [width, setWidth] = useState(0);
  const [at, setAt] = useState(-1);
  const theme = useTheme();
  const cells = epoch.cells || (epoch.complete ? "d".repeat(Math.max(1, Math.ceil(epoch.shards / (epoch.per_cell || 1)))) : "");
  const size = SIZES.find(([most]) => cells.length <= most)[1];
  const columns = Math.max(1, Math.floor((width + GAP) / (size + GAP)));
  const rows = Math.ceil(cells.length / columns);

  useEffect(() => {
    const observer = new ResizeObserver(() => setWidth(box.current?.clientWidth ?? 0));
    observer.observe(box.current);
    return () => observer.disconnect();
  }, []);
  useEffect(() => {
    if (width) draw(canvas.current, { cells, done: epoch.done, size, columns, rows, at });
  }, [width, cells, epoch.done, at, theme]);

  const move = (event) => {
    const { left, top } = canvas.current.getBoundingClientRect();
    const column = Math.floor((event.clientX - left) / (size + GAP));
    const index = Math.floor((event.clientY - top) / (size + GAP)) * columns + column;
    setAt(column < columns && index < cells.length ? index : -1);
  };
  const press = (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: columns, ArrowUp: -columns, Home: -cells.length, End: cells.length }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    setAt((before) => Math.max(0, Math.min(cells.length - 1, before < 0 ? 0 : before + step)));
  };
  const tally = {};
  for (const letter of cells) tally[letter] = (tally[letter] ?? 0) + 1;
  const spoken = Object.entries(tally).map(([letter, number]) => `${count(number)} ${STATES[letter]?.[0] ?? letter}`).join(", ");
  return html`<div class="shard-map">
    <div ref=${box}>
      <canvas ref=${canvas} tabindex="0" role="img" aria-label=${`Epoch ${epoch.epoch} of ${clean(name)}: ${spoken || "nothing"}; arrow keys walk over the cells`}
        onMouseMove=${move} onMouseLeave=${() => setAt(-1)} onKeyDown=${press} onBlur=${() => setAt(-1)}></canvas>
    </div>
    <p class="shard-at small" aria-live="polite">${at >= 0 ? describe(epoch, cells, at, holders) : html`<span class="muted">${spoken}</span>`}</p>
  </div>`;
}

function describe(epoch, cells, at, holders) {
  const { per_cell: per = 1, shards, done = [], held = [] } = epoch;
  const [first, last] = [at * per, Math.min(shards, (at + 1) * per) - 1];
  const holder = held.find(([cell]) => cell === at);
  const by = holder ? ` by ${clean(holders[holder[1]] ?? "a worker")}` : "";
  const part = per > 1 && done.length ? `, ${percent(done[at])} done` : "";
  return `${first === last ? `shard ${count(first)}` : `shards ${count(first)} to ${count(last)}`}: ${STATES[cells[at]]?.[0] ?? cells[at]}${by}${part}`;
}

function draw(canvas, { cells, done = [], size, columns, rows, at }) {
  const ratio = devicePixelRatio || 1;
  const [width, height] = [columns * (size + GAP) - GAP, Math.max(1, rows * (size + GAP) - GAP)];
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.width = `${width}px`;
  canvas.style.height = `${height}px`;
  const names = [...new Set(Object.values(STATES).map(([, colour]) => colour)), "--surface", "--text"];
  const c = colours(canvas.parentElement, names);
  const ctx = canvas.getContext("2d");
  ctx.scale(ratio, ratio);
  ctx.lineCap = "round";
  for (let index = 0; index < cells.length; index += 1) {
    const [x, y] = [(index % columns) * (size + GAP), Math.floor(index / columns) * (size + GAP)];
    paint(ctx, c, { letter: cells[index], share: done[index], x, y, size });
    if (index === at) {
      ctx.strokeStyle = c["--text"];
      ctx.lineWidth = 2;
      ctx.strokeRect(x - 0.5, y - 0.5, size + 1, size + 1);
    }
  }
}

function paint(ctx, c, { letter, share, x, y, size }) {
  const colour = c[STATES[letter]?.[1] ?? "--line"];
  const line = (...points) => {
    ctx.beginPath();
    points.forEach(([px, py], index) => (index ? ctx.lineTo(x + px * size, y + py * size) : ctx.moveTo(x + px * size, y + py * size)));
    ctx.stroke();
  };
  ctx.fillStyle = c["--line"];
  ctx.lineWidth = size > 10 ? 1.7 : 1.3;
  ctx.strokeStyle = c["--surface"];
  if (letter === "d") {
    ctx.fillStyle = colour;
    ctx.fillRect(x, y, size, size);
    return;
  }
  ctx.fillRect(x, y, size, size);
  if (share) {
    ctx.fillStyle = c["--done"];
    ctx.globalAlpha = letter === "h" ? 1 : 0.6;
    ctx.fillRect(x, y + size * (1 - share / 100), size, (size * share) / 100);
    ctx.globalAlpha = 1;
  } else if (letter === "h") {
    ctx.fillStyle = colour;
    ctx.fillRect(x, y + size / 2, size, size / 2);
  }
  if (letter === "l") {
    ctx.strokeStyle = colour;
    ctx.lineWidth = 2;
    ctx.strokeRect(x + 1, y + 1, size - 2, size - 2);
    line([0.3, 0.7], [0.7, 0.3]);
  } else if (letter === "r") {
    ctx.fillStyle = colour;
    ctx.fillRect(x, y, size, size);
    line([0.72, 0.28], [0.3, 0.5], [0.72, 0.72]);
  } else if (letter === "p" || letter === "x") {
    ctx.fillStyle = colour;
    ctx.fillRect(x, y, size, size);
    line([0.25, 0.25], [0.75, 0.75]);
    line([0.75, 0.25], [0.25, 0.75]);
  }
}

// The same signs, for the legend.
export function Swatch({ letter }) {
  const canvas = useRef(null);
  const theme = useTheme();
  useEffect(() => draw(canvas.current, { cells: letter, size: 12, columns: 1, rows: 1, at: -1 }), [letter, theme]);
  return html`<canvas ref=${canvas} aria-hidden="true"></canvas>`;
}
