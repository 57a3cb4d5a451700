// Terminal colours of logs as spans with classes. Every other escape sequence is dropped, every other control character is shown.

import { clean } from "./format.js";

const SEQUENCE = /\u001b(?:\[([0-9;:]*)([ -/]*)([@-~])|\][^\u0007\u001b]{0,2000}(?:\u0007|\u001b\\)|[PX^_][^\u001b]{0,2000}\u001b\\|[ -/]*[0-~])|\u009b[0-9;:]*[@-~]/g;

function styled(style, codes) {
  const next = { ...style };
  for (let index = 0; index < codes.length; index += 1) {
    const code = codes[index];
    if (code === 0) Object.assign(next, { colour: null, bold: false, dim: false });
    else if (code === 1) next.bold = true;
    else if (code === 2) next.dim = true;
    else if (code === 22) Object.assign(next, { bold: false, dim: false });
    else if (code >= 30 && code <= 37) next.colour = code - 30;
    else if (code >= 90 && code <= 97) next.colour = code - 90;
    else if (code === 39) next.colour = null;
    else if (code === 38 || code === 48) {
      if (codes[index + 1] === 5 && code === 38) next.colour = codes[index + 2] < 16 ? codes[index + 2] % 8 : null;
      index += codes[index + 1] === 5 ? 2 : codes[index + 1] === 2 ? 4 : 0;
    }
  }
  return next;
}

const PLAIN = { colour: null, bold: false, dim: false };

// [{text, className}], of one line.
export function spans(line) {
  const text = line.includes("\r") ? line.replace(/\r+$/, "").split("\r").pop() : line; // a progress bar shows its last state
  if (!text.includes("\u001b") && !text.includes("\u009b")) return [{ text: clean(text), className: "" }];
  const found = [];
  let style = PLAIN;
  let from = 0;
  const add = (part) => {
    if (!part) return;
    const names = [style.colour !== null ? `ansi-${style.colour}` : "", style.bold ? "ansi-bold" : "", style.dim ? "ansi-dim" : ""];
    found.push({ text: clean(part), className: names.filter(Boolean).join(" ") });
  };
  for (const match of text.matchAll(SEQUENCE)) {
    add(text.slice(from, match.index));
    from = match.index + match[0].length;
    if (match[3] === "m" && !match[2]) style = styled(style, match[1].split(/[;:]/).slice(0, 32).map(Number));
  }
  add(text.slice(from));
  return found;
}

export function plain(line) {
  return spans(line).map(({ text }) => text).join("");
}
