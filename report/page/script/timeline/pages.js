// @ts-check
/** @file Pages of single calls, messages and waits, unpacked when needed. Used by timelines. */

import { Reader, dataOf } from "../data/binary.js";

/** Most pages that are kept unpacked. */
const KEPT = 48;

/**
 * The description of a page in the page's data.
 * @typedef {{ page: number, from: number, to: number, calls: number }} PageIndex
 */

/**
 * Numbers of calls or waits, grouped by row and otherwise in their order: those of `rows[n]` are in `order` from `starts[n]` on.
 * @typedef {{ order: Uint32Array, rows: Uint32Array, starts: Uint32Array }} ByRow
 */

/**
 * A page: calls by columns, in the order of returns. If the exit precedes the entry, it never returned. Numbers in words are separate, for each call from `first` on.
 * @typedef {{
 *   row: Uint32Array, kind: Uint8Array, entry: Float64Array, exit: Float64Array, words: Uint32Array, texts: string[],
 *   numbers: Float64Array, first: Uint32Array, calls: ByRow,
 *   messages: { from: Uint32Array, to: Uint32Array, sent: Float64Array, received: Float64Array, bytes: Float64Array },
 *   waits: { row: Uint32Array, at: Float64Array, time: Float64Array, kind: Uint8Array, other: Uint32Array, calls: ByRow },
 * }} Page
 */

/**
 * Groups numbers by their rows.
 * @param {Uint32Array} row The row of each.
 * @returns {ByRow}
 */
export function byRow(row) {
  const order = Uint32Array.from(row, (_, at) => at).sort((a, b) => row[a] - row[b] || a - b);
  const rows = [];
  const starts = [];
  for (let at = 0; at < order.length; at += 1) {
    if (at > 0 && row[order[at]] === row[order[at - 1]]) continue;
    rows.push(row[order[at]]);
    starts.push(at);
  }
  starts.push(order.length);
  return { order, rows: Uint32Array.from(rows), starts: Uint32Array.from(starts) };
}

/**
 * Returns the first position that fits, if all after it fit, too.
 * @param {number} from
 * @param {number} to
 * @param {(at: number) => boolean} fits
 * @returns {number}
 */
export function firstOf(from, to, fits) {
  while (from < to) {
    const middle = (from + to) >> 1;
    if (fits(middle)) to = middle;
    else from = middle + 1;
  }
  return from;
}

/**
 * Returns the range of a row in `order`.
 * @param {ByRow} index
 * @param {number} row
 * @returns {[number, number]} The first, and the end.
 */
export function placesOf(index, row) {
  const at = firstOf(0, index.rows.length, (place) => index.rows[place] >= row);
  return index.rows[at] === row ? [index.starts[at], index.starts[at + 1]] : [0, 0];
}

/** Marks a number in words. */
const NUMBER = "\u0001";

/**
 * Reads columns of equal length, which precedes them.
 * @param {Reader} reader
 * @param {number} columns
 * @param {number} signed The columns that may be negative.
 * @returns {Float64Array[]}
 */
function columnsOf(reader, columns, signed) {
  const length = reader.number();
  return Array.from({ length: columns }, (_, column) =>
    Float64Array.from({ length }, () => (column === signed ? reader.signed() : reader.number())),
  );
}

/**
 * Returns the description of a call.
 * @param {Page} page
 * @param {number} call
 * @returns {string}
 */
export function wordsOf(page, call) {
  let at = page.first[call];
  return page.texts[page.words[call]].replaceAll(NUMBER, () => String(page.numbers[at++]));
}

/**
 * Decodes a page.
 * @param {Uint8Array} bytes
 * @param {number} start The page's earliest time.
 * @returns {Page}
 */
export function pageOf(bytes, start) {
  const reader = new Reader(bytes);
  const count = reader.number();
  const column = () => Float64Array.from({ length: count }, () => reader.number());
  const [rows, kinds, gaps, times, words] = [column(), column(), column(), column(), column()];
  const texts = Array.from({ length: reader.number() }, () => reader.text());
  const told = texts.map((text) => text.split(NUMBER).length - 1);
  const first = new Uint32Array(count + 1);
  for (let call = 0; call < count; call += 1) first[call + 1] = first[call] + (told[words[call]] ?? 0);
  const numbers = Float64Array.from({ length: first[count] }, () => reader.number());
  const messages = columnsOf(reader, 5, 3);
  const waits = columnsOf(reader, 5, -1);
  const page = {
    row: Uint32Array.from(rows),
    kind: Uint8Array.from(kinds),
    entry: new Float64Array(count),
    exit: new Float64Array(count),
    words: Uint32Array.from(words),
    texts,
    numbers,
    first,
    calls: byRow(Uint32Array.from(rows)),
    messages: {
      from: Uint32Array.from(messages[0]),
      to: Uint32Array.from(messages[1]),
      sent: messages[2].map((after) => start + after),
      received: messages[3].map((later, at) => start + messages[2][at] + later),
      bytes: messages[4],
    },
    waits: {
      row: Uint32Array.from(waits[0]),
      at: waits[1].map((after) => start + after),
      time: waits[2],
      kind: Uint8Array.from(waits[3]),
      other: Uint32Array.from(waits[4]),
      calls: byRow(Uint32Array.from(waits[0])),
    },
  };
  /** @type {Map<number, number>} */
  const ends = new Map();
  for (let call = 0; call < count; call += 1) {
    const entry = (ends.get(rows[call]) ?? 0) + gaps[call];
    const exit = times[call] === 0 ? -1 : entry + times[call] - 1;
    page.entry[call] = entry;
    page.exit[call] = exit;
    ends.set(rows[call], Math.max(entry, exit));
  }
  return page;
}

/** The pages of a run, with the most recently used ones cached. */
export class PageStore {
  /**
   * @param {string} letter The run's letter.
   * @param {PageIndex[]} index
   * @param {() => void} arrived Called when a requested page is available.
   */
  constructor(letter, index, arrived) {
    this.letter = letter;
    this.index = index;
    this.arrived = arrived;
    /** @type {Map<number, Page>} */
    this.pages = new Map();
    /** @type {Set<number>} */
    this.asked = new Set();
  }

  /**
   * Returns the pages of a span of time.
   * @param {number} from
   * @param {number} to
   * @returns {PageIndex[]}
   */
  within(from, to) {
    return this.index.filter((page) => page.to >= from && page.from <= to);
  }

  /**
   * Returns the page if it is available; otherwise, requests it.
   * @param {PageIndex} index
   * @returns {Page | undefined}
   */
  page(index) {
    const found = this.pages.get(index.page);
    if (found !== undefined) {
      this.pages.delete(index.page);
      this.pages.set(index.page, found);
    } else if (!this.asked.has(index.page)) {
      this.asked.add(index.page);
      void this.unpack(index);
    }
    return found;
  }

  /** @param {PageIndex} index */
  async unpack(index) {
    const bytes = await dataOf(`${this.letter}-page-${index.page}`);
    this.pages.set(index.page, pageOf(bytes, index.from));
    this.asked.delete(index.page);
    for (const oldest of this.pages.keys()) {
      if (this.pages.size <= KEPT) break;
      this.pages.delete(oldest);
    }
    this.arrived();
  }
}
