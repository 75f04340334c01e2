// @ts-check
/** @file Pages of single calls, messages and waits, unpacked when they are needed. Called by timelines. */

import { Reader, dataOf } from "./binary.js";

/** Pages that are kept unpacked. */
const KEPT = 48;

/**
 * What the page's data says of a page.
 * @typedef {{ page: number, from: number, to: number, calls: number }} PageIndex
 */

/**
 * A page: calls by columns, in the order of their returns. An end before the beginning: it never returned. Numbers in words are apart, of each call from `first` on.
 * @typedef {{
 *   row: Uint32Array, kind: Uint8Array, entry: Float64Array, exit: Float64Array, words: Uint32Array, texts: string[],
 *   numbers: Float64Array, first: Uint32Array,
 *   messages: { from: number, to: number, sent: number, received: number, bytes: number }[],
 *   waits: { row: number, at: number, time: number, kind: number, other: number }[],
 * }} Page
 */

/** Stands for a number in words. */
const NUMBER = "\u0001";

/**
 * Columns of equal length, which stands before them.
 * @param {Reader} reader
 * @param {number} columns
 * @param {number} signed Which of them may be negative.
 * @returns {Float64Array[]}
 */
function columnsOf(reader, columns, signed) {
  const length = reader.number();
  return Array.from({ length: columns }, (_, column) =>
    Float64Array.from({ length }, () => (column === signed ? reader.signed() : reader.number())),
  );
}

/**
 * What a call says of itself.
 * @param {Page} page
 * @param {number} call
 * @returns {string}
 */
export function wordsOf(page, call) {
  let at = page.first[call];
  return page.texts[page.words[call]].replaceAll(NUMBER, () => String(page.numbers[at++]));
}

/**
 * Reads a page.
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
    messages: Array.from(messages[0], (from, at) => {
      const sent = start + messages[2][at];
      return { from, to: messages[1][at], sent, received: sent + messages[3][at], bytes: messages[4][at] };
    }),
    waits: Array.from(waits[0], (row, at) => ({
      row,
      at: start + waits[1][at],
      time: waits[2][at],
      kind: waits[3][at],
      other: waits[4][at],
    })),
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

/** The pages of a run, of which those used last are kept. */
export class PageStore {
  /**
   * @param {string} letter Of the run.
   * @param {PageIndex[]} index
   * @param {() => void} arrived Called when a page that was asked for is there.
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
   * What the pages say of a span of time.
   * @param {number} from
   * @param {number} to
   * @returns {PageIndex[]}
   */
  within(from, to) {
    return this.index.filter((page) => page.to >= from && page.from <= to);
  }

  /**
   * The page, if it is there; else it is asked for.
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
