// @ts-check
/** @file Tables of one run, or of two side by side: each figure of both, and its change. Called by sections. */

import { table } from "./tables.js";
import { changeWords, countWords, timeWords } from "./units.js";

/**
 * A column of rows that analyses made. `label`: what a row is about, which both runs have in common. `both`: what is of interest in both; other
 * figures are left out where there are two runs.
 * @typedef {{ name: string, say: (row: any) => string, by?: (row: any) => number, of?: number, label?: boolean, both?: boolean }} Figure
 */

/** A row of the first run, and of the second. @typedef {{ a: any, b: any }} Pair */

/**
 * A time column.
 * @param {string} name
 * @param {string} key
 * @param {number} [of] What its bars are parts of.
 * @returns {Figure}
 */
export const timeColumn = (name, key, of) => ({
  name,
  say: (row) => timeWords(row[key]),
  by: (row) => Number(row[key]),
  ...(of === undefined ? {} : { of }),
});

/**
 * A column of numbers.
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
 * The same column, which is of interest in both runs.
 * @param {Figure} column
 * @returns {Figure}
 */
export const both = (column) => ({ ...column, both: true });

/**
 * Rows of both runs that are about the same, in the order of the first run; those of the second alone follow.
 * @param {any[][]} lists Of each run.
 * @param {(row: any) => string} key What a row is about.
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
 * What a column says of two runs.
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
 * A table of one run or of two.
 * @param {string} caption
 * @param {Figure[]} columns
 * @param {any[][]} lists Rows of each run.
 * @param {(row: any) => string} key What a row is about.
 * @returns {HTMLElement}
 */
export function compared(caption, columns, lists, key) {
  if (lists.length < 2) return table(caption, columns, lists[0]);
  return table(caption, columns.flatMap(figuresOf), paired(lists, key));
}

/**
 * The largest of a key.
 * @param {any[][]} lists
 * @param {string[]} keys
 * @returns {number}
 */
export function largest(lists, ...keys) {
  return lists.flat().reduce((most, row) => keys.reduce((own, key) => Math.max(own, Number(row[key])), most), 0);
}

/**
 * A rank's name, with its job where there are several.
 * @param {any} row
 * @returns {string}
 */
export function rankWords(row) {
  return row.job > 0 ? `${row.job}:${row.rank}` : String(row.rank);
}

/** @type {Figure} */
export const RANK = { name: "rank", say: rankWords, by: (row) => row.job * 1e9 + row.rank, label: true };
