// @ts-check
/** @file Tables of one run, or of two side by side with each figure of both and its change. Used by sections. */

import { table } from "./tables.js";
import { changeWords, countWords, timeWords } from "./units.js";

/**
 * A column of rows from analyses. `label`: a description of the row, common to both runs. `both`: a figure that is shown for both runs; other
 * figures are omitted with two runs.
 * @typedef {{ name: string, say: (row: any) => string, by?: (row: any) => number, of?: number, label?: boolean, both?: boolean }} Figure
 */

/** A row of the first run, and of the second. @typedef {{ a: any, b: any }} Pair */

/**
 * Creates a time column.
 * @param {string} name
 * @param {string} key
 * @param {number} [of] The whole of its bars.
 * @returns {Figure}
 */
export const timeColumn = (name, key, of) => ({
  name,
  say: (row) => timeWords(row[key]),
  by: (row) => Number(row[key]),
  ...(of === undefined ? {} : { of }),
});

/**
 * Creates a column of numbers.
 * @param {string} name
 * @param {string} key
 * @param {(value: number) => string} [say]
 * @returns {Figure}
 */
export const countColumn = (name, key, say = countWords) => ({
  name,
  say: (row) => (row[key] === null ? "" : say(row[key])),
  by: (row) => (row[key] === null ? NaN : Number(row[key])),
});

/**
 * Returns the same column, shown for both runs.
 * @param {Figure} column
 * @returns {Figure}
 */
export const both = (column) => ({ ...column, both: true });

/**
 * Pairs corresponding rows of both runs, in the order of the first run; rows that only the second has follow.
 * @param {any[][]} lists Rows of each run.
 * @param {(row: any) => string} key The key by which rows correspond.
 * @returns {Pair[]}
 */
export function paired([a, b], key) {
  /** @type {Map<string, Pair>} */
  const pairs = new Map();
  for (const row of a) pairs.set(key(row), { a: row, b: undefined });
  for (const row of b ?? []) {
    const own = key(row);
    pairs.set(own, { a: pairs.get(own)?.a, b: row });
  }
  return [...pairs.values()];
}

/**
 * Returns the columns of two runs for a column.
 * @param {Figure} column
 * @returns {import("./tables.js").Column<Pair>[]}
 */
function figuresOf(column) {
  const { name, say, by, of } = column;
  const value = (/** @type {any} */ row) => (row === undefined || by === undefined ? 0 : by(row));
  if (by === undefined || column.label === true) {
    const either = (/** @type {Pair} */ pair) => pair.a ?? pair.b;
    return [{ name, say: (pair) => say(either(pair)), ...(by === undefined ? {} : { by: (/** @type {Pair} */ pair) => by(either(pair)) }) }];
  }
  if (column.both !== true) return [];
  const bars = of === undefined ? {} : { of };
  return [
    { name: `${name} a`, say: ({ a }) => (a === undefined ? "" : say(a)), by: ({ a }) => value(a), ...bars },
    { name: `${name} b`, say: ({ b }) => (b === undefined ? "" : say(b)), by: ({ b }) => value(b), ...bars },
    { name: "change", say: ({ a, b }) => changeWords(value(a), value(b)), by: ({ a, b }) => value(b) - value(a) },
  ];
}

/**
 * Creates a table of one run or of two.
 * @param {string} caption
 * @param {Figure[]} columns
 * @param {any[][]} lists Rows of each run.
 * @param {(row: any) => string} key The key by which rows correspond.
 * @returns {HTMLElement}
 */
export function compared(caption, columns, lists, key) {
  if (lists.length < 2) return table(caption, columns, lists[0]);
  return table(caption, columns.flatMap(figuresOf), paired(lists, key));
}

/**
 * Returns the largest value of the keys.
 * @param {any[][]} lists
 * @param {string[]} keys
 * @returns {number}
 */
export function largest(lists, ...keys) {
  return lists.flat().reduce((most, row) => keys.reduce((own, key) => Math.max(own, Number(row[key])), most), 0);
}

/**
 * Formats a rank's name, with its job if there are several.
 * @param {any} row
 * @returns {string}
 */
export function rankWords(row) {
  return row.job > 0 ? `${row.job}:${row.rank}` : String(row.rank);
}

/** @type {Figure} */
export const RANK = { name: "rank", say: rankWords, by: (row) => row.job * 1e9 + row.rank, label: true };
