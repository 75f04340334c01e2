// @ts-check
/** @file Tables with bars, sortable by a click on a heading. Used by sections. */

import { element } from "./elements.js";

/** Number of rows that are shown at first. */
const FIRST = 25;

/**
 * A column: its heading, its text for a row, and its sort key. With `of`, a bar shows the value's share of it.
 * @template T
 * @typedef {{ name: string, say: (row: T) => string, by?: (row: T) => number, of?: number }} Column
 */

/**
 * Creates a cell, with its bar.
 * @template T
 * @param {Column<T>} column
 * @param {T} row
 * @returns {HTMLElement}
 */
function cell(column, row) {
  const made = element("td", { class: column.by === undefined ? "words" : "number" }, [column.say(row)]);
  if (column.by !== undefined && column.of !== undefined && column.of > 0 && column.by(row) > 0) {
    const bar = element("span", { class: "bar", "aria-hidden": "true" });
    bar.style.width = `${(100 * column.by(row)) / column.of}%`;
    made.append(bar);
  }
  return made;
}

/**
 * Sorts rows by a column; ties keep their order.
 * @template T
 * @param {T[]} rows
 * @param {(row: T) => number | string} by
 * @param {boolean} downwards
 * @returns {T[]}
 */
export function sorted(rows, by, downwards) {
  const sign = downwards ? -1 : 1;
  return [...rows].sort((a, b) => {
    const [left, right] = [by(a), by(b)];
    return left < right ? -sign : left > right ? sign : 0;
  });
}

/**
 * Creates a table.
 * @template T
 * @param {string} caption
 * @param {Column<T>[]} columns
 * @param {T[]} rows
 * @returns {HTMLElement}
 */
export function table(caption, columns, rows) {
  const body = element("tbody");
  const more = element("button", { type: "button", class: "more" });
  let shown = rows.length > FIRST + 5 ? FIRST : rows.length;
  let order = rows;
  const fill = () => {
    body.replaceChildren(
      ...order.slice(0, shown).map((row) => element("tr", {}, columns.map((column) => cell(column, row)))),
    );
    more.hidden = shown >= rows.length;
    more.textContent = `Show all ${rows.length} rows`;
  };
  more.addEventListener("click", () => {
    shown = rows.length;
    fill();
  });
  const heads = columns.map((column) => {
    const head = element("th", { scope: "col", class: column.by === undefined ? "words" : "number" });
    const sort = element("button", { type: "button" }, [column.name]);
    sort.addEventListener("click", () => {
      const downwards = head.getAttribute("aria-sort") !== "descending";
      for (const other of heads) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", downwards ? "descending" : "ascending");
      order = sorted(rows, column.by ?? column.say, downwards);
      fill();
    });
    head.append(sort);
    return head;
  });
  fill();
  const made = element("table", {}, [
    element("caption", {}, [caption]),
    element("thead", {}, [element("tr", {}, heads)]),
    body,
  ]);
  return element("div", { class: "table", tabindex: "0", role: "region", "aria-label": caption }, [made, more]);
}
