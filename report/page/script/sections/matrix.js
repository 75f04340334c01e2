// @ts-check
/** @file Traffic between ranks, as a heat map. Used by sections. */

import { Reader, dataOf } from "../data/binary.js";
import { between, onScale, rgb } from "../data/colours.js";
import { compared } from "../data/comparing.js";
import { canvas, element, fit, styled, tip } from "../data/elements.js";
import { table } from "../data/tables.js";
import { byteWords, countWords, manyWords } from "../data/units.js";

/** Space for numbers of ranks, in CSS pixels. */
const EDGE = 36;

/** The traffic of a pair; in the difference of two runs, the second one's surplus, and both runs' traffic. @typedef {{ from: number, to: number, messages: number, bytes: number, a?: Cell, b?: Cell }} Cell */

/**
 * Decodes the cells of a matrix.
 * @param {Uint8Array} bytes
 * @returns {Cell[]}
 */
export function cellsOf(bytes) {
  const reader = new Reader(bytes);
  return Array.from({ length: reader.number() }, () => ({
    from: reader.number(),
    to: reader.number(),
    messages: reader.number(),
    bytes: reader.number(),
  }));
}

/**
 * Returns the position on the scale of colours, by the logarithm of bytes.
 * @param {number} bytes
 * @param {number} least
 * @param {number} most
 * @returns {number}
 */
export function heat(bytes, least, most) {
  if (bytes <= 0) return 0;
  if (most <= least) return 1;
  return Math.log(Math.max(bytes, least) / least) / Math.log(most / least);
}

/**
 * Returns the surplus of the second of two runs.
 * @param {Cell[]} a
 * @param {Cell[]} b
 * @returns {Cell[]}
 */
export function differences(a, b) {
  /** @type {Map<string, Cell>} */
  const found = new Map();
  for (const cell of a) found.set(`${cell.from} ${cell.to}`, { ...cell, messages: -cell.messages, bytes: -cell.bytes, a: cell });
  for (const cell of b) {
    const key = `${cell.from} ${cell.to}`;
    const own = found.get(key);
    if (own === undefined) found.set(key, { ...cell, b: cell });
    else found.set(key, { ...own, messages: own.messages + cell.messages, bytes: own.bytes + cell.bytes, b: cell });
  }
  return [...found.values()];
}

/** A matrix as an image. */
class HeatMap {
  /**
   * @param {any} about The description from the page's data.
   * @param {Cell[]} cells
   */
  constructor(about, cells) {
    this.about = about;
    this.cells = cells;
    this.size = Math.max(Math.ceil(about.places.length / about.block), 1);
    this.differs = cells.some((cell) => cell.a !== undefined || cell.b !== undefined);
    /** @type {Map<number, Cell>} */
    this.byPlace = new Map(cells.map((cell) => [cell.from * this.size + cell.to, cell]));
    const moved = cells.map((cell) => Math.abs(cell.bytes)).filter((bytes) => bytes > 0);
    this.least = moved.reduce((least, bytes) => Math.min(least, bytes), Infinity);
    this.most = moved.reduce((most, bytes) => Math.max(most, bytes), 0);
    this.canvas = canvas("Traffic from rows to columns. Arrows move from pair to pair.", 440);
    this.canvas.className = "matrix";
    this.cursor = { from: 0, to: 0 };
    this.canvas.addEventListener("pointermove", (event) => this.point(event.offsetX, event.offsetY, event));
    this.canvas.addEventListener("pointerleave", () => tip([], 0, 0));
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    this.canvas.addEventListener("blur", () => tip([], 0, 0));
    new ResizeObserver(() => this.draw()).observe(this.canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  /** Returns the width of a cell. */
  side() {
    return Math.min(this.canvas.clientWidth - EDGE, this.canvas.clientHeight - EDGE) / this.size;
  }

  draw() {
    const { pen, width, height } = fit(this.canvas);
    const side = this.side();
    pen.clearRect(0, 0, width, height);
    pen.fillStyle = styled("--soft");
    pen.fillRect(EDGE, EDGE, side * this.size, side * this.size);
    const gap = side > 6 ? 1 : 0;
    for (const cell of this.cells) {
      if (this.differs && cell.bytes === 0) pen.fillStyle = styled("--line");
      else pen.fillStyle = rgb(this.colour(cell.bytes));
      pen.fillRect(EDGE + cell.to * side, EDGE + cell.from * side, Math.max(side - gap, 0.5), Math.max(side - gap, 0.5));
    }
    pen.fillStyle = styled("--text");
    pen.font = "11px system-ui, sans-serif";
    const every = Math.max(1, Math.ceil(26 / side));
    for (let place = 0; place < this.size; place += every) {
      const name = this.about.places[place * this.about.block] ?? "";
      pen.textAlign = "center";
      pen.fillText(name, EDGE + (place + 0.5) * side, EDGE - 8);
      pen.textAlign = "right";
      pen.fillText(name, EDGE - 6, EDGE + (place + 0.5) * side + 4);
    }
    pen.textAlign = "left";
    if (document.activeElement === this.canvas) {
      pen.strokeStyle = styled("--path");
      pen.lineWidth = 2;
      pen.strokeRect(EDGE + this.cursor.to * side, EDGE + this.cursor.from * side, side, side);
    }
  }

  /**
   * Returns the colour of more or fewer bytes.
   * @param {number} bytes
   */
  colour(bytes) {
    const share = heat(Math.abs(bytes), this.least, this.most);
    if (!this.differs) return onScale(share);
    return between([200, 200, 200], bytes > 0 ? [200, 60, 40] : [40, 90, 190], 0.25 + 0.75 * share);
  }

  /**
   * Formats the ranks of a line.
   * @param {number} line
   */
  name(line) {
    const { block, places } = this.about;
    const last = Math.min((line + 1) * block, places.length) - 1;
    return block === 1 ? places[line] : `${places[line * block]} to ${places[last]}`;
  }

  /**
   * Returns the text for a cell.
   * @param {number} from
   * @param {number} to
   */
  lines(from, to) {
    const cell = this.byPlace.get(from * this.size + to);
    const unit = this.about.by === "wire" ? ["node", "frame"] : ["rank", "message"];
    const said = (/** @type {Cell | undefined} */ own) => (own === undefined ? "nothing" : `${byteWords(own.bytes)} in ${manyWords(own.messages, unit[1])}`);
    const traffic = this.differs && cell !== undefined ? [`a: ${said(cell.a)}`, `b: ${said(cell.b)}`] : [said(cell)];
    return [`${unit[0]} ${this.name(from)} to ${unit[0]} ${this.name(to)}`, ...traffic];
  }

  /**
   * @param {number} x
   * @param {number} y
   * @param {PointerEvent} event
   */
  point(x, y, event) {
    const [from, to] = [Math.floor((y - EDGE) / this.side()), Math.floor((x - EDGE) / this.side())];
    const inside = from >= 0 && to >= 0 && from < this.size && to < this.size;
    tip(inside ? this.lines(from, to) : [], event.clientX, event.clientY);
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    /** @type {Record<string, [number, number]>} */
    const moves = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };
    const move = moves[event.key];
    if (move === undefined) return;
    event.preventDefault();
    const kept = (/** @type {number} */ value) => Math.min(Math.max(value, 0), this.size - 1);
    this.cursor = { from: kept(this.cursor.from + move[0]), to: kept(this.cursor.to + move[1]) };
    this.draw();
    const box = this.canvas.getBoundingClientRect();
    const side = this.side();
    tip(this.lines(this.cursor.from, this.cursor.to), box.left + EDGE + this.cursor.to * side, box.top + EDGE + this.cursor.from * side);
    this.canvas.setAttribute("aria-label", this.lines(this.cursor.from, this.cursor.to).join(": "));
  }
}

/** The meanings of the ways of counting. */
const COUNTED = /** @type {Record<string, string>} */ ({
  call: "as called: what the program asked for, collective operations as their roots and groups say",
  message: "as messages: what the MPI library makes of collective operations, by its own tables",
  seen: "as seen: the messages that the run saw the MPI library send",
  wire: "on the wire: frames from node to node, with all headers and what was sent again",
});

/**
 * Shows a matrix.
 * @param {HTMLElement} into
 * @param {any} about
 * @param {Cell[]} cells
 */
function showMatrix(into, about, cells) {
  const map = new HeatMap(about, cells);
  const [rank, messages] = about.by === "wire" ? ["node", "frame"] : ["rank", "message"];
  const most = [...cells].sort((a, b) => Math.abs(b.bytes) - Math.abs(a.bytes)).slice(0, 200);
  const sides = [most.flatMap((cell) => cell.a ?? []), most.flatMap((cell) => cell.b ?? [])];
  const columns = [
    { name: `from ${rank}`, say: (/** @type {Cell} */ cell) => map.name(cell.from), by: (/** @type {Cell} */ cell) => cell.from, label: true },
    { name: `to ${rank}`, say: (/** @type {Cell} */ cell) => map.name(cell.to), by: (/** @type {Cell} */ cell) => cell.to, label: true },
    { name: `${messages}s`, say: (/** @type {Cell} */ cell) => countWords(cell.messages), by: (/** @type {Cell} */ cell) => cell.messages, both: true },
    { name: "bytes", say: (/** @type {Cell} */ cell) => byteWords(cell.bytes), by: (/** @type {Cell} */ cell) => cell.bytes, of: map.most, both: true },
  ];
  if (map.differs) {
    into.replaceChildren(
      element("p", {}, ["What b sends more (red) or less (blue) than a, on a logarithmic scale; grey: the same. Rows send, columns receive."]),
      element("div", { class: "split" }, [map.canvas, compared(`Pairs that differ most, ${about.by}`, columns, sides, (cell) => `${cell.from} ${cell.to}`)]),
    );
    map.draw();
    return;
  }
  const legend = element("p", { class: "legend" }, [
    element("span", {}, [map.most > 0 ? byteWords(map.least) : "no bytes"]),
    element("span", { class: "scale", "aria-hidden": "true" }),
    element("span", {}, [byteWords(map.most)]),
    ` each pair, on a logarithmic scale; rows send, columns receive.`,
  ]);
  into.replaceChildren(
    element("p", {}, [`${manyWords(about.messages, messages)} of ${byteWords(about.bytes)}, ${COUNTED[about.by] ?? about.by}.`]),
    legend,
    element("div", { class: "split" }, [
      map.canvas,
      table(`Pairs with most bytes, ${about.by}`, columns, most),
    ]),
    ...about.unknown.map((/** @type {string} */ words) => element("p", { class: "missing" }, [`Not counted: ${words}`])),
  );
  if (about.algorithms.length > 0) {
    into.append(table("What the library makes of collective operations", [
      { name: "operation", say: (row) => row.operation },
      { name: "algorithm", say: (row) => row.algorithm },
      { name: "calls", say: (row) => countWords(row.calls), by: (row) => row.calls },
      { name: "messages", say: (row) => countWords(row.messages), by: (row) => row.messages },
      { name: "bytes", say: (row) => byteWords(row.bytes), by: (row) => row.bytes },
    ], /** @type {any[]} */ (about.algorithms)));
  }
  map.draw();
}

/**
 * True if the lines of two matrices have the same ranks or nodes.
 * @param {any} a
 * @param {any} b
 */
function samePlaces(a, b) {
  return a.block === b.block && a.places.length === b.places.length && a.places.every((/** @type {string} */ place, /** @type {number} */ at) => place === b.places[at]);
}

/** A choice of a matrix: its name, its description, and a function that returns its cells. @typedef {{ name: string, about: any, cells: () => Promise<Cell[]> }} Choice */

/**
 * Shows the matrices of a run or of two, one at a time: those of each, and their differences.
 * @param {HTMLElement} into
 * @param {any[][]} lists Matrices of each run.
 */
export async function matrices(into, lists) {
  const place = element("div");
  const group = element("fieldset", { class: "controls" }, [element("legend", {}, ["Traffic"])]);
  /** @type {Choice[]} */
  const choices = [];
  const read = async (/** @type {string} */ letter, /** @type {number} */ number) => cellsOf(await dataOf(`${letter}-matrix-${number}`));
  for (const [number, about] of lists[0].entries()) {
    const name = `by ${about.by}`;
    const twin = lists[1]?.findIndex((own) => own.by === about.by) ?? -1;
    choices.push({ name: lists.length > 1 ? `${name}, a` : name, about, cells: () => read("a", number) });
    if (twin < 0) continue;
    const other = lists[1][twin];
    choices.push({ name: `${name}, b`, about: other, cells: () => read("b", twin) });
    if (samePlaces(about, other)) choices.push({ name: `${name}, difference`, about, cells: async () => differences(await read("a", number), await read("b", twin)) });
  }
  for (const [number, choice] of choices.entries()) {
    const radio = element("input", { type: "radio", name: "traffic", value: choice.name });
    radio.checked = number === 0;
    const show = async () => showMatrix(place, choice.about, await choice.cells());
    radio.addEventListener("change", () => void show());
    group.append(element("label", {}, [radio, ` ${choice.name}`]));
    if (number === 0) await show();
  }
  into.append(group, place);
}
