// @ts-check
/** @file Selection of a timeline's rows: all, or one of each class of similar ranks. Used by timelines. */

import { element } from "../data/elements.js";

/** Number of rows above which classes are shown at first. */
const MANY = 64;

/** A class: its representative row, and first and last ones of ranges of its rows. @typedef {{ representative: number, rows: [number, number][] }} RowClass */

/**
 * Returns all rows of a class, its representative first.
 * @param {RowClass} own
 * @returns {number[]}
 */
export function rowsOf(own) {
  const rows = [own.representative];
  for (const [first, last] of own.rows) {
    for (let row = first; row <= last; row += 1) if (row !== own.representative) rows.push(row);
  }
  return rows;
}

/**
 * Returns rows in the order of display, and each row's position; for a hidden row, its representative's.
 * @param {RowClass[]} classes
 * @param {Set<number>} opened Numbers of classes with all rows shown.
 * @param {number} rows
 * @returns {{ lines: Int32Array, placeOf: Int32Array }}
 */
export function arranged(classes, opened, rows) {
  const placeOf = new Int32Array(rows);
  /** @type {number[]} */
  const lines = [];
  for (const [number, own] of classes.entries()) {
    const first = lines.length;
    for (const [at, row] of rowsOf(own).entries()) {
      const shown = at === 0 || opened.has(number);
      placeOf[row] = shown ? lines.length : first;
      if (shown) lines.push(row);
    }
  }
  return { lines: Int32Array.from(lines), placeOf };
}

/** Rows of a timeline, and their selection. */
export class Rows {
  /**
   * @param {RowClass[]} classes
   * @param {number} count Number of all rows.
   * @param {(row: number) => string} name
   * @param {() => void} changed Called when the shown rows change.
   */
  constructor(classes, count, name, changed) {
    this.classes = classes;
    this.count = count;
    this.name = name;
    this.changed = changed;
    this.byClass = count > MANY && classes.length * 2 <= count;
    /** @type {Set<number>} */
    this.opened = new Set();
    /** @type {Int32Array} */
    this.lines = new Int32Array(0);
    /** @type {Int32Array} */
    this.placeOf = this.lines;
    /** @type {Map<number, RowClass>} */
    this.stands = new Map(classes.map((own) => [own.representative, own]));
    this.bar = element("div", { class: "controls", role: "toolbar", "aria-label": "Classes of ranks" });
    this.bar.hidden = !this.byClass;
    /** @type {HTMLButtonElement[]} */
    this.buttons = [];
    if (this.byClass) this.fill();
    this.arrange();
  }

  /** Creates the buttons. */
  fill() {
    const box = element("input", { type: "checkbox" });
    box.checked = true;
    box.addEventListener("change", () => this.toggleAll());
    this.box = box;
    this.bar.append(element("label", { title: "Ranks that make the same calls and spend their time alike are shown as one" }, [box, " ranks alike as one"]));
    for (const [number, own] of this.classes.entries()) {
      const button = element("button", { type: "button", class: "rank-class", title: this.told(own) }, [this.words(own)]);
      button.addEventListener("click", () => this.toggle(number));
      this.buttons.push(button);
      this.bar.append(button);
    }
  }

  /**
   * Describes a class.
   * @param {RowClass} own
   */
  words(own) {
    const others = rowsOf(own).length - 1;
    return `${this.name(own.representative)}${others > 0 ? ` and ${others} alike` : ""}`;
  }

  /**
   * Describes all rows of a class.
   * @param {RowClass} own
   */
  told(own) {
    const ranges = own.rows.slice(0, 40).map(([first, last]) => (first === last ? this.name(first) : `${this.name(first)} to ${this.name(last)}`));
    return ranges.join(", ") + (own.rows.length > 40 ? ", \u2026" : "");
  }

  /**
   * Returns the label of a row's line.
   * @param {number} row
   */
  label(row) {
    const own = this.stands.get(row);
    const others = own === undefined || !this.byClass || this.opened.has(this.classes.indexOf(own)) ? 0 : rowsOf(own).length - 1;
    return `${this.name(row)}${others > 0 ? ` +${others}` : ""}`;
  }

  /** Toggles between classes and all ranks in their order. */
  toggleAll() {
    if (this.box === undefined) return;
    this.byClass = !this.byClass;
    this.box.checked = this.byClass;
    this.arrange();
    this.changed();
  }

  /**
   * Toggles between all rows of a class and one.
   * @param {number} number
   */
  toggle(number) {
    if (this.box === undefined || number >= this.classes.length) return;
    if (!this.byClass) this.opened.clear();
    this.byClass = true;
    this.box.checked = true;
    if (!this.opened.delete(number)) this.opened.add(number);
    this.arrange();
    this.changed();
  }

  arrange() {
    const all = Int32Array.from({ length: this.count }, (_, row) => row);
    const shown = this.byClass ? arranged(this.classes, this.opened, this.count) : { lines: all, placeOf: all };
    [this.lines, this.placeOf] = [shown.lines, shown.placeOf];
    for (const [number, button] of this.buttons.entries()) {
      button.setAttribute("aria-expanded", String(!this.byClass || this.opened.has(number)));
    }
  }
}
