// A real table that can be sorted: by clicking a heading, or with the keyboard, since each heading is a button.
// On a narrow screen its rows become cards; the roles are written down, since `display` would take them away.

import { html, useMemo, useState } from "../html.js";
import { Icon } from "./icon.js";

// columns: {id, name, numeric, value: row => what it is sorted by, cell: row => what is shown, className}
export function Table({ caption, columns, rows, keyOf, sortBy, descending = false, rowClass, className = "" }) {
  const [order, setOrder] = useState({ id: sortBy, descending });
  const sorted = useMemo(() => sort(rows, columns.find(({ id }) => id === order.id), order.descending), [rows, columns, order]);
  const heading = (column) => {
    const chosen = order.id === column.id;
    const direction = chosen ? (order.descending ? "descending" : "ascending") : undefined;
    const choose = () => setOrder({ id: column.id, descending: chosen ? !order.descending : Boolean(column.numeric) });
    return html`<th key=${column.id} scope="col" role="columnheader" class=${column.numeric ? "num" : ""} aria-sort=${direction}>
      ${column.value ? html`<button type="button" class="sort" onClick=${choose}>${column.name}<${Icon} name="arrow" /></button>` : column.name}
    </th>`;
  };
  return html`<div class="table-scroll">
    <table role="table" class=${className}>
      <caption class="hidden-visually">${caption}</caption>
      <thead role="rowgroup"><tr role="row">${columns.map(heading)}</tr></thead>
      <tbody role="rowgroup">
        ${sorted.map(
          (row) => html`<tr role="row" key=${keyOf(row)} class=${rowClass?.(row)}>
            ${columns.map((column, index) => {
              const className = `${column.numeric ? "num" : ""} cell-${column.id}`;
              return index === 0
                ? html`<th key=${column.id} role="rowheader" scope="row" class=${className}>${column.cell(row)}</th>`
                : html`<td key=${column.id} role="cell" class=${className} data-label=${column.name}>${column.cell(row)}</td>`;
            })}
          </tr>`,
        )}
      </tbody>
    </table>
  </div>`;
}

function sort(rows, column, descending) {
  if (!column) return rows;
  const sign = descending ? -1 : 1;
  return [...rows].sort((a, b) => {
    const [left, right] = [column.value(a), column.value(b)];
    const [noLeft, noRight] = [left === null || left === undefined, right === null || right === undefined];
    if (noLeft || noRight) return noLeft - noRight; // what is not known comes last, either way
    return sign * (typeof left === "string" ? left.localeCompare(right, "en", { numeric: true }) : left - right);
  });
}
