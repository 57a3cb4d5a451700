// A long table of which only the visible rows exist: rows of one height, in a part of the page that scrolls by itself.
// Screen readers hear how many rows there are and which ones these are; the arrow keys choose a row.

import { html, useEffect, useLayoutEffect, useRef, useState } from "../html.js";

const BEYOND = 8; // rows above and below what is visible, so that scrolling shows no gap

// row(item, index) -> cells; columns: names of the headings, as cells
export function Rows({ label, items, rowHeight, row, head, className = "", chosen = -1, onChoose, keyOf, stick = false, tall = 0.68 }) {
  const box = useRef(null);
  const [view, setView] = useState({ top: 0, height: 600 });
  const pending = useRef(0);
  const atEnd = useRef(stick);
  const look = () => {
    pending.current = 0;
    const { scrollTop, clientHeight, scrollHeight } = box.current ?? {};
    if (clientHeight === undefined) return;
    atEnd.current = stick && scrollTop + clientHeight >= scrollHeight - rowHeight * 2;
    setView((before) => (before.top === scrollTop && before.height === clientHeight ? before : { top: scrollTop, height: clientHeight }));
  };
  const soon = () => {
    if (!pending.current) pending.current = requestAnimationFrame(look);
  };
  useEffect(() => {
    const observer = new ResizeObserver(soon);
    observer.observe(box.current);
    return () => {
      observer.disconnect();
      cancelAnimationFrame(pending.current);
    };
  }, []);
  useLayoutEffect(() => {
    if (stick && atEnd.current && box.current) box.current.scrollTop = box.current.scrollHeight;
    soon();
  }, [items.length, rowHeight]);
  useEffect(() => {
    if (chosen < 0 || !box.current) return;
    const top = chosen * rowHeight;
    const { scrollTop, clientHeight } = box.current;
    const headHeight = head ? 32 : 0;
    if (top < scrollTop) box.current.scrollTop = top;
    else if (top + rowHeight > scrollTop + clientHeight - headHeight) box.current.scrollTop = top + rowHeight - clientHeight + headHeight;
  }, [chosen]);
  const onKeyDown = (event) => {
    if (!onChoose || event.target !== event.currentTarget) return;
    const page = Math.max(1, Math.floor(view.height / rowHeight) - 1);
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -items.length, End: items.length }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    onChoose(Math.max(0, Math.min(items.length - 1, (chosen < 0 && step > 0 ? -1 : chosen) + step)));
  };
  const first = Math.max(0, Math.floor(view.top / rowHeight) - BEYOND);
  const last = Math.min(items.length, Math.ceil((view.top + view.height) / rowHeight) + BEYOND);
  return html`<div class="rows ${className}" role="table" aria-label=${label} aria-rowcount=${items.length + (head ? 1 : 0)} tabindex="0" ref=${box}
    onScroll=${soon} onKeyDown=${onKeyDown} style=${{ maxHeight: `${Math.round(tall * 100)}vh` }}>
    ${head && html`<div class="rows-head" role="rowgroup"><div class="row" role="row" aria-rowindex="1">${head}</div></div>`}
    <div class="rows-body" role="rowgroup" style=${{ height: `${items.length * rowHeight}px` }}>
      ${items.slice(first, last).map((item, offset) => {
        const index = first + offset;
        return html`<div key=${keyOf ? keyOf(item) : index} class="row ${index === chosen ? "chosen" : ""}" role="row" aria-rowindex=${index + (head ? 2 : 1)}
          aria-current=${index === chosen ? "true" : undefined}
          style=${{ transform: `translateY(${index * rowHeight}px)`, height: `${rowHeight}px` }} onClick=${onChoose && (() => onChoose(index === chosen ? -1 : index))}>
          ${row(item, index)}
        </div>`;
      })}
    </div>
  </div>`;
}
