// @ts-check
/** @file The lines of a timeline as pixels: buckets of time, with single calls and waits on top. Used by timelines. */

import { WAITING_COLOUR, between, colourOf, isDark } from "../data/colours.js";
import { AXIS, GUTTER, xOf, yOf } from "./drawing.js";
import { waitOf } from "./levels.js";
import { firstOf, placesOf } from "./pages.js";

/** Most calls with names in them, and CSS pixels that a name needs. */
const MOST_LABELS = 250;
const LABEL = 44;

/**
 * Converts a colour to a pixel of an image, which has four bytes from red to opacity.
 * @param {number[]} colour
 * @returns {number}
 */
function pixel(colour) {
  return ((255 << 24) | (colour[2] << 16) | (colour[1] << 8) | colour[0]) >>> 0;
}

/** Colours of functions by their share of a bucket. */
export class Palette {
  /**
   * @param {string[]} functions Functions by number, from 1.
   * @param {number[]} kinds The kind of each function.
   */
  constructor(functions, kinds) {
    this.functions = functions;
    this.kinds = kinds;
    this.dark = !isDark();
    this.pixels = new Uint32Array(0);
    /** Colours of single calls, and of their begins. */
    this.calls = new Uint32Array(0);
    this.edges = new Uint32Array(0);
    this.refresh();
  }

  /** Updates to the page's colours. */
  refresh() {
    if (this.dark === isDark()) return;
    this.dark = isDark();
    const computing = this.dark ? [52, 56, 64] : [232, 234, 238];
    const all = [computing, ...this.kinds.map(colourOf)];
    this.calls = Uint32Array.from(all, pixel);
    this.edges = Uint32Array.from(all, (colour) => pixel(between(colour, [0, 0, 0], 0.35)));
    /** 16 steps for each function. */
    this.pixels = new Uint32Array(all.length * 16);
    all.forEach((colour, number) => {
      for (let step = 0; step < 16; step += 1) {
        this.pixels[number * 16 + step] = pixel(between(computing, colour, number === 0 ? 0 : (step + 1) / 16));
      }
    });
  }
}

/**
 * The data of lines: buckets, unless all calls are available; and calls.
 * @typedef {{
 *   level: import("./levels.js").Level, buckets: { from: number, width: number }, whole: boolean,
 *   pages: import("./pages.js").Page[], end: number,
 * }} Shown
 */

/** A name in a call: its function, its position, and its width. @typedef {{ kind: number, x: number, y: number, width: number }} Label */

/** Draws lines, with an image that is reused between frames. */
export class Raster {
  /** @param {Palette} palette */
  constructor(palette) {
    this.palette = palette;
    /** @type {ImageData | undefined} */
    this.image = undefined;
    this.line = new Uint32Array(0);
    this.waits = new Uint32Array(0);
    this.columns = new Int32Array(0);
    this.waited = false;
    this.waiting = pixel(WAITING_COLOUR);
  }

  /**
   * Draws lines.
   * @param {CanvasRenderingContext2D} pen
   * @param {import("./drawing.js").View} view
   * @param {number} scale Pixels of the screen in a CSS pixel.
   * @param {Shown} shown
   */
  draw(pen, view, scale, shown) {
    const [wide, high] = [Math.round((view.width - GUTTER) * scale), Math.round((view.height - AXIS) * scale)];
    if (wide <= 0 || high <= 0) return;
    const pixels = this.fit(pen, wide, high);
    const step = (view.to - view.from) / wide;
    const { from, width } = shown.buckets;
    for (let x = 0; x < wide; x += 1) {
      const bucket = Math.floor((view.from + (x + 0.5) * step - from) / width);
      this.columns[x] = bucket >= 0 && bucket < shown.level.buckets ? bucket : -1;
    }
    /** @type {Label[]} */
    const labels = [];
    const groups = Math.ceil(view.lines.length / view.group);
    const heightOf = high / (view.rows / view.group);
    for (let group = Math.floor(view.first / view.group); group < groups; group += 1) {
      const top = Math.round((group - view.first / view.group) * heightOf);
      const next = Math.round((group + 1 - view.first / view.group) * heightOf);
      if (top >= high) break;
      this.waited = false;
      if (shown.whole) {
        this.line.fill(this.palette.calls[0]);
        this.waits.fill(0);
      } else this.buckets(shown, view.group === 1 ? view.lines[group] : group, step);
      if (view.group === 1) this.calls(view, shown, group, heightOf / scale >= 10 ? labels : undefined);
      const gap = next - top >= 5 ? 1 : 0;
      const mark = this.waited && next - top >= 6 ? Math.max(2, Math.round((next - top) / 5)) : 0;
      const foot = next - gap - mark;
      for (let y = Math.max(top, 0); y < Math.min(foot, high); y += 1) pixels.set(this.line, y * wide);
      if (mark === 0) continue;
      for (let x = 0; x < wide; x += 1) if (this.waits[x] !== 0) this.line[x] = this.waiting;
      for (let y = Math.max(foot, 0); y < Math.min(next - gap, high); y += 1) pixels.set(this.line, y * wide);
    }
    pen.putImageData(/** @type {ImageData} */ (this.image), Math.round(GUTTER * scale), Math.round(AXIS * scale));
    this.names(pen, labels);
  }

  /**
   * Returns the image's pixels, cleared.
   * @param {CanvasRenderingContext2D} pen
   * @param {number} wide
   * @param {number} high
   * @returns {Uint32Array}
   */
  fit(pen, wide, high) {
    if (this.image === undefined || this.image.width !== wide || this.image.height !== high) {
      this.image = pen.createImageData(wide, high);
      [this.line, this.waits, this.columns] = [new Uint32Array(wide), new Uint32Array(wide), new Int32Array(wide)];
    }
    return new Uint32Array(this.image.data.buffer).fill(0);
  }

  /**
   * Draws a line of buckets.
   * @param {Shown} shown
   * @param {number} row Row of the level.
   * @param {number} step Picoseconds in a pixel.
   */
  buckets({ level, buckets }, row, step) {
    const { line, waits, columns } = this;
    const { pixels } = this.palette;
    const base = row * level.buckets;
    const long = Math.min(buckets.width, step * 8) / 4;
    for (let x = 0; x < line.length; x += 1) {
      const at = base + columns[x];
      if (columns[x] < 0) {
        line[x] = 0;
        waits[x] = 0;
        continue;
      }
      line[x] = pixels[level.dominant[at] * 16 + (level.share[at] >> 4)];
      waits[x] = level.wait[at] !== 0 && waitOf(level.wait[at]) > long ? 1 : 0;
      if (waits[x] !== 0) this.waited = true;
    }
  }

  /**
   * Draws single calls and waits of a line on top.
   * @param {import("./drawing.js").View} view
   * @param {Shown} shown
   * @param {number} place
   * @param {Label[] | undefined} labels Receives names, if there is space for them.
   */
  calls(view, { pages, end }, place, labels) {
    const { line, waits } = this;
    const wide = line.length;
    const row = view.lines[place];
    const perPixel = (view.to - view.from) / wide;
    const xs = (/** @type {number} */ time) => Math.min(Math.max(Math.round((time - view.from) / perPixel), 0), wide);
    const roomy = (LABEL / (view.width - GUTTER)) * (view.to - view.from);
    for (const page of pages) {
      const { order } = page.calls;
      const [from, to] = placesOf(page.calls, row);
      const exitOf = (/** @type {number} */ call) => (page.exit[call] < 0 ? end : page.exit[call]);
      for (let at = firstOf(from, to, (own) => exitOf(order[own]) >= view.from); at < to; at += 1) {
        const call = order[at];
        if (page.entry[call] > view.to) break;
        const exit = exitOf(call);
        const x = Math.min(xs(page.entry[call]), wide - 1);
        const until = Math.max(xs(exit), x + 1);
        line.fill(this.palette.calls[page.kind[call]], x, until);
        if (until - x > 3 && labels !== undefined) line[x] = this.palette.edges[page.kind[call]];
        const seen = Math.min(exit, view.to) - Math.max(page.entry[call], view.from);
        if (labels !== undefined && labels.length < MOST_LABELS && seen > roomy) {
          const left = Math.max(xOf(view, page.entry[call]), GUTTER);
          const y = yOf(view, place) + (view.height - AXIS) / view.rows / 2;
          labels.push({ kind: page.kind[call], x: left + 4, y, width: (seen / (view.to - view.from)) * (view.width - GUTTER) - 8 });
        }
      }
      const { order: waitOrder } = page.waits.calls;
      const [first, last] = placesOf(page.waits.calls, row);
      for (let at = first; at < last; at += 1) {
        const begin = page.waits.at[waitOrder[at]];
        const over = begin + page.waits.time[waitOrder[at]];
        if (over < view.from || begin > view.to) continue;
        const x = Math.min(xs(begin), wide - 1);
        waits.fill(1, x, Math.max(xs(over), x + 1));
        this.waited = true;
      }
    }
  }

  /**
   * Writes functions' names into their calls, as far as they fit.
   * @param {CanvasRenderingContext2D} pen
   * @param {Label[]} labels
   */
  names(pen, labels) {
    pen.fillStyle = "#000";
    pen.font = "11px system-ui, sans-serif";
    pen.textBaseline = "middle";
    for (const { kind, x, y, width } of labels) {
      const name = this.palette.functions[kind - 1].replace("MPI_", "");
      // Letters of this font are hardly ever wider.
      const room = Math.floor(width / 6.4);
      if (room >= 4 || name.length <= room) pen.fillText(name.length <= room ? name : `${name.slice(0, room - 1)}\u2026`, x, y);
    }
  }
}
