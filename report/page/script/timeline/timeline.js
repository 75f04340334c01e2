// @ts-check
/** @file A timeline controlled by wheel, pointer and keyboard. Used by main; several share a span of time. */

import { Reader, dataOf } from "../data/binary.js";
import { AXIS, GUTTER, MOST_LINES, drawMessages, drawNames, drawPath } from "./drawing.js";
import { Rows } from "./classes.js";
import { canvas, element, fit, tip } from "../data/elements.js";
import { grouped, levelsOf, scaleFor, waitOf } from "./levels.js";
import { PageStore, firstOf, placesOf, wordsOf } from "./pages.js";
import { Palette, Raster } from "./raster.js";
import { table } from "../data/tables.js";
import { countWords, manyWords, secondWords, shareWords, timeWords } from "../data/units.js";

/** Most lines of a picture; with more rows, several share one. */
const MOST_LINES_HIGH = 200;
/** Most pages of a picture, and most calls in the table. */
const MOST_PAGES = 24;
const MOST_LISTED = 500;

/** One run's timeline. */
export class Timeline {
  /**
   * @param {any} about The description from the page's data.
   * @param {string} letter The run's letter.
   * @param {import("./span.js").Span} span
   * @param {string} name The run's name.
   */
  constructor(about, letter, span, name) {
    this.about = about;
    this.span = span;
    this.letter = letter;
    /** The visible rows, some of them representatives of classes. */
    this.rows = new Rows(about.classes, about.rows.length, (row) => this.rowName(row), () => this.arranged());
    this.first = 0;
    this.shown = this.rows.lines.length;
    this.palette = new Palette(about.functions, about.function_kinds);
    this.raster = new Raster(this.palette);
    this.canvas = canvas(
      `Timeline of ${name}: ${about.rows.length} rows. Plus and minus zoom, arrows move, Home shows all, Page Up and Down show fewer or more rows, C shows ranks that are alike as one or all, digits open a class of them.`,
      0,
    );
    this.resize();
    this.canvas.className = "timeline";
    this.state = element("p", { class: "state", "aria-live": "polite" });
    this.list = element("div");
    this.store = new PageStore(letter, about.pages, () => this.draw());
    /** @type {import("./levels.js").Level[]} */
    this.levels = [];
    /** @type {Map<string, import("./levels.js").Level>} */
    this.groups = new Map();
    /** @type {{ row: number, from: number, to: number }[]} */
    this.stretches = [];
    this.wantsPath = false;
    this.wantsMessages = true;
    this.waiting = false;
    this.listens();
    span.listeners.push(() => this.draw());
  }

  /** Unpacks its data. */
  async load() {
    this.levels = levelsOf(await dataOf(`${this.letter}-levels`), this.about.depth);
    this.draw();
    const reader = new Reader(await dataOf(`${this.letter}-path`));
    /** @type {Map<string, number>} */
    const rows = new Map();
    this.about.rows.forEach((/** @type {any} */ row, /** @type {number} */ number) => {
      const key = `${row.job}:${row.rank}`;
      if (!rows.has(key)) rows.set(key, number);
    });
    let at = 0;
    this.stretches = Array.from({ length: reader.number() }, () => {
      const row = rows.get(`${reader.number()}:${reader.number()}`) ?? 0;
      at += reader.number();
      return { row, from: at, to: at + reader.number() };
    });
    this.prepare();
  }

  /** Sets the height for its lines. */
  resize() {
    this.canvas.style.height = `${Math.min(Math.max(this.rows.lines.length * 22, 90), 480) + AXIS}px`;
  }

  /** Handles a change of the visible rows. */
  arranged() {
    this.groups.clear();
    this.resize();
    this.showRows(0, this.rows.lines.length);
    this.prepare();
  }

  /** Merges rows ahead of time, while idle, so that the user need not wait. */
  prepare() {
    const wanted = this.levels.flatMap((_, scale) => {
      const groups = [];
      for (let group = this.group(); group > 1; group /= 2) groups.push([scale, group]);
      return groups;
    });
    const next = () => {
      const [own] = wanted.splice(0, 1);
      if (own === undefined) return;
      this.level(own[0], own[1]);
      setTimeout(next, 30);
    };
    next();
  }

  /** Returns the number of rows on a line. */
  group() {
    return 2 ** Math.max(0, Math.ceil(Math.log2(this.shown / MOST_LINES_HIGH)));
  }

  /**
   * Returns a scale with rows in groups.
   * @param {number} scale
   * @param {number} group
   */
  level(scale, group) {
    if (group === 1) return this.levels[scale];
    const key = `${scale} ${group}`;
    const found = this.groups.get(key) ?? grouped(this.levels[scale], this.rows.lines, group);
    this.groups.set(key, found);
    return found;
  }

  /** Returns the visible part, in the run's own times. */
  view() {
    const { from } = this.about;
    return {
      from: from + this.span.from,
      to: from + this.span.to,
      first: this.first,
      rows: this.shown,
      group: this.group(),
      width: this.canvas.clientWidth,
      height: this.canvas.clientHeight,
      lines: this.rows.lines,
      placeOf: this.rows.placeOf,
    };
  }

  /** Schedules drawing. */
  draw() {
    if (this.waiting || this.levels.length === 0) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      const begin = performance.now();
      this.paint();
      this.canvas.dataset.frame = (performance.now() - begin).toFixed(2);
      this.canvas.dataset.frames = String(Number(this.canvas.dataset.frames ?? 0) + 1);
    });
  }

  /** Returns the pages of a view, if these are few and all available. */
  exact() {
    const view = this.view();
    const indices = this.store.within(view.from, view.to);
    if (view.group > 1 || indices.length === 0 || indices.length > MOST_PAGES) return [];
    const pages = indices.map((index) => this.store.page(index));
    return pages.every((page) => page !== undefined) ? pages : [];
  }

  paint() {
    this.palette.refresh();
    const { pen, scale } = fit(this.canvas);
    const view = this.view();
    pen.clearRect(0, 0, view.width, view.height);
    const pages = this.exact();
    const whole = pages.length > 0 && this.about.stride === 1;
    const pixel = (view.to - view.from) / ((view.width - GUTTER) * scale);
    const number = scaleFor(this.about.width, this.about.depth, pixel);
    const buckets = { from: this.about.from, width: this.about.width * 2 ** number };
    this.raster.draw(pen, view, scale, { level: this.level(number, view.group), buckets, whole, pages, end: this.about.to });
    const messages = this.wantsMessages && pages.length > 0 ? drawMessages(pen, view, pages) : 0;
    if (this.wantsPath) drawPath(pen, view, this.stretches);
    drawNames(pen, view, (row) => this.rows.label(row), this.about.from);
    this.tell(view, pages, messages);
  }

  /**
   * Returns a row's name.
   * @param {number} row
   */
  rowName(row) {
    const { job, rank, thread } = this.about.rows[row];
    const several = this.about.rows[this.about.rows.length - 1].job > 0;
    return `${several ? `${job}:` : ""}rank ${rank}${thread > 0 ? `.${thread}` : ""}`;
  }

  /**
   * Describes the visible part, also for screen readers.
   * @param {import("./drawing.js").View} view
   * @param {import("./pages.js").Page[]} pages
   * @param {number} messages
   */
  tell(view, pages, messages) {
    const [from, to] = [view.from - this.about.from, view.to - this.about.from];
    const { exact_calls: exact, calls } = this.about;
    const { lines, byClass } = this.rows;
    const rows = this.shown < lines.length ? ` Rows ${this.rowName(lines[this.first])} to ${this.rowName(lines[Math.min(this.first + this.shown, lines.length) - 1])}.` : "";
    const alike = byClass ? ` ${countWords(lines.length)} of ${countWords(this.about.rows.length)} ranks, which stand for others that are alike.` : "";
    const share = view.group > 1 ? ` ${view.group} ranks share a line.` : "";
    const more = exact < calls ? ` This file has ${countWords(exact)} of ${countWords(calls)} calls one by one; belljar report --from and --to choose others.` : "";
    const what = pages.length > 0 ? ` Single calls, ${manyWords(messages, "message")}${messages > MOST_LINES ? ", too many for lines: zoom in" : ""}.` : " Buckets of time; zoom in for single calls.";
    this.state.textContent = `${timeWords(from)} to ${timeWords(to)} after the first call (${timeWords(to - from)}).${what}${rows}${alike}${share}${more}`;
  }

  /** Lists the visible calls. */
  listed() {
    const view = this.view();
    const functions = this.about.functions;
    /** @type {{ row: number, name: string, entry: number, time: number, words: string }[]} */
    const calls = [];
    for (const page of this.exact()) {
      for (let call = 0; call < page.row.length && calls.length < MOST_LISTED; call += 1) {
        const exit = page.exit[call];
        if ((exit >= 0 && exit < view.from) || page.entry[call] > view.to) continue;
        const words = wordsOf(page, call);
        calls.push({ row: page.row[call], name: functions[page.kind[call] - 1], entry: page.entry[call], time: exit - page.entry[call], words });
      }
    }
    this.list.replaceChildren(
      calls.length === 0
        ? element("p", { class: "missing" }, ["Zoom in until single calls are drawn, and ask again."])
        : table(`Calls in view${calls.length === MOST_LISTED ? `, the first ${MOST_LISTED}` : ""}`, [
            { name: "rank", say: (call) => this.rowName(call.row), by: (call) => call.row },
            { name: "function", say: (call) => call.name },
            { name: "at (s)", say: (call) => secondWords(call.entry), by: (call) => call.entry },
            { name: "time", say: (call) => (call.time < 0 ? "did not return" : timeWords(call.time)), by: (call) => call.time },
            { name: "arguments", say: (call) => call.words },
          ], calls),
    );
  }

  /**
   * Returns the item at a position of the picture.
   * @param {number} x
   * @param {number} y
   * @returns {string[]}
   */
  at(x, y) {
    const view = this.view();
    const place = Math.floor(view.first + ((y - AXIS) / (view.height - AXIS)) * view.rows);
    if (x < GUTTER || y < AXIS || place < 0 || place >= view.lines.length) return [];
    const row = view.lines[place];
    const time = view.from + ((x - GUTTER) / (view.width - GUTTER)) * (view.to - view.from);
    const close = ((view.to - view.from) / (view.width - GUTTER)) * 2;
    const name = `${this.rows.label(row)} on node ${this.about.rows[row].node}`;
    const pages = this.exact();
    for (const page of pages) {
      const { order } = page.calls;
      const [begin, end] = placesOf(page.calls, row);
      const exitOf = (/** @type {number} */ call) => (page.exit[call] < 0 ? this.about.to : page.exit[call]);
      const found = firstOf(begin, end, (own) => exitOf(order[own]) >= time - close);
      if (found < end && page.entry[order[found]] <= time + close) return this.callLines(page, order[found], name, pages);
    }
    if (pages.length > 0) return [`outside MPI`, name, `${timeWords(time - this.about.from)} after the first call`];
    const number = scaleFor(this.about.width, this.about.depth, (view.to - view.from) / (view.width - GUTTER));
    const level = this.levels[number];
    const bucket = Math.floor((time - this.about.from) / (this.about.width * 2 ** number));
    if (bucket < 0 || bucket >= level.buckets) return [];
    const at = row * level.buckets + bucket;
    const most = level.dominant[at];
    const wait = waitOf(level.wait[at]);
    return [
      most === 0 ? "outside MPI" : `${this.about.functions[most - 1]}`,
      name,
      `${shareWords(level.share[at], 255)} of ${timeWords(this.about.width * 2 ** number)} in MPI`,
      ...(wait > 0 ? [`longest wait at most ${timeWords(wait)}`] : []),
    ];
  }

  /**
   * Returns the text for a call.
   * @param {import("./pages.js").Page} page
   * @param {number} call
   * @param {string} name
   * @param {import("./pages.js").Page[]} pages
   */
  callLines(page, call, name, pages) {
    const [entry, exit] = [page.entry[call], page.exit[call]];
    /** @type {string[]} */
    let waited = [];
    for (const { waits } of pages) {
      const [begin, end] = placesOf(waits.calls, page.row[call]);
      const wait = waits.calls.order.subarray(begin, end).find((own) => waits.at[own] === entry);
      if (wait !== undefined) waited = [`waited ${timeWords(waits.time[wait])} for ${this.rowName(waits.other[wait])}: ${this.about.kinds[waits.kind[wait]]}`];
    }
    return [
      this.about.functions[page.kind[call] - 1],
      `${name}, at ${secondWords(entry)} s${exit < 0 ? ", did not return" : `, took ${timeWords(exit - entry)}`}`,
      ...wordsOf(page, call).split("\n"),
      ...waited,
    ];
  }

  /**
   * Shows other rows.
   * @param {number} first
   * @param {number} shown
   */
  showRows(first, shown) {
    const all = this.rows.lines.length;
    this.shown = Math.min(Math.max(Math.round(shown), Math.min(4, all)), all);
    this.first = Math.min(Math.max(Math.round(first), 0), all - this.shown);
    this.draw();
  }

  /** Handles wheel, pointer and keys. */
  listens() {
    const own = this.canvas;
    /** @type {{ x: number, from: number, to: number } | undefined} */
    let dragged;
    own.addEventListener("wheel", (event) => {
      if (document.activeElement !== own && !event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const part = (event.offsetX - GUTTER) / (own.clientWidth - GUTTER);
      if (event.shiftKey) {
        const factor = event.deltaY + event.deltaX > 0 ? 1.4 : 0.7;
        const middle = this.first + ((event.offsetY - AXIS) / (own.clientHeight - AXIS)) * this.shown;
        this.showRows(middle - (middle - this.first) * factor, this.shown * factor);
      } else if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) {
        this.span.move(event.deltaX / own.clientWidth);
      } else {
        this.span.zoom(1.0015 ** event.deltaY, this.span.from + part * (this.span.to - this.span.from));
      }
    }, { passive: false });
    own.addEventListener("pointerdown", (event) => {
      dragged = { x: event.clientX, from: this.span.from, to: this.span.to };
      own.setPointerCapture(event.pointerId);
    });
    own.addEventListener("pointermove", (event) => {
      if (dragged === undefined) {
        tip(this.at(event.offsetX, event.offsetY), event.clientX, event.clientY);
        return;
      }
      tip([], 0, 0);
      const by = ((dragged.x - event.clientX) / (own.clientWidth - GUTTER)) * (dragged.to - dragged.from);
      this.span.show(dragged.from + by, dragged.to + by);
    });
    own.addEventListener("pointerup", () => (dragged = undefined));
    own.addEventListener("pointerleave", () => tip([], 0, 0));
    own.addEventListener("dblclick", (event) => {
      const part = (event.offsetX - GUTTER) / (own.clientWidth - GUTTER);
      this.span.zoom(0.25, this.span.from + part * (this.span.to - this.span.from));
    });
    own.addEventListener("keydown", (event) => {
      if (this.key(event.key)) event.preventDefault();
    });
    new ResizeObserver(() => this.draw()).observe(own);
    for (const query of ["(prefers-color-scheme: dark)", "print"]) matchMedia(query).addEventListener("change", () => this.draw());
  }

  /**
   * Handles a key; returns true if it has a function.
   * @param {string} key
   * @returns {boolean}
   */
  key(key) {
    /** @type {Record<string, () => void>} */
    const keys = {
      "+": () => this.span.zoom(0.5),
      "=": () => this.span.zoom(0.5),
      "-": () => this.span.zoom(2),
      ArrowLeft: () => this.span.move(-0.2),
      ArrowRight: () => this.span.move(0.2),
      Home: () => {
        this.showRows(0, this.rows.lines.length);
        this.span.show(0, this.span.length);
      },
      ArrowUp: () => this.showRows(this.first - Math.max(1, this.shown / 5), this.shown),
      ArrowDown: () => this.showRows(this.first + Math.max(1, this.shown / 5), this.shown),
      PageUp: () => this.showRows(this.first + this.shown / 4, this.shown / 2),
      PageDown: () => this.showRows(this.first - this.shown / 2, this.shown * 2),
      Enter: () => this.listed(),
      c: () => this.rows.toggleAll(),
    };
    if (/^[1-9]$/.test(key)) keys[key] = () => this.rows.toggle(Number(key) - 1);
    keys[key]?.();
    return key in keys;
  }
}
