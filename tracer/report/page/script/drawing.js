// @ts-check
/** @file Draws a span of a timeline: buckets as pixels, single calls, messages and waits as shapes, the critical path as a line. Called by timelines. */

import { WAITING, between, colourOf, isDark, rgb } from "./colours.js";
import { styled } from "./elements.js";
import { waitOf } from "./levels.js";

/** Room for names of rows, in CSS pixels. */
export const GUTTER = 64;
/** Room for times. */
export const AXIS = 22;
/** Messages that are drawn as lines, at most: more would hide everything else. */
export const MOST_LINES = 500;

/**
 * What is shown: times in picoseconds, rows from the first on, and how many of them share a line.
 * @typedef {{ from: number, to: number, first: number, rows: number, group: number, width: number, height: number }} View
 */

/**
 * Where a time is.
 * @param {View} view
 * @param {number} time
 * @returns {number}
 */
export function xOf(view, time) {
  return GUTTER + ((time - view.from) / (view.to - view.from)) * (view.width - GUTTER);
}

/**
 * Where a row begins.
 * @param {View} view
 * @param {number} row
 * @returns {number}
 */
export function yOf(view, row) {
  return AXIS + ((row - view.first) / view.rows) * (view.height - AXIS);
}

/**
 * A colour as a pixel of an image, which are four bytes from red to opacity.
 * @param {number[]} colour
 * @returns {number}
 */
function pixel(colour) {
  return ((255 << 24) | (colour[2] << 16) | (colour[1] << 8) | colour[0]) >>> 0;
}

/** Colours of functions by how much of a bucket is theirs. */
export class Palette {
  /** @param {string[]} functions By number, from 1. */
  constructor(functions) {
    this.functions = functions;
    this.dark = !isDark();
    this.refresh();
  }

  /** Takes the page's colours. */
  refresh() {
    if (this.dark === isDark()) return;
    this.dark = isDark();
    this.computing = this.dark ? [52, 56, 64] : [232, 234, 238];
    const all = [this.computing, ...this.functions.map(colourOf)];
    /** 16 steps for each function. */
    this.pixels = new Uint32Array(all.length * 16);
    all.forEach((colour, number) => {
      for (let step = 0; step < 16; step += 1) {
        const mixed = between(this.computing ?? colour, colour, number === 0 ? 0 : (step + 1) / 16);
        (this.pixels ?? new Uint32Array(0))[number * 16 + step] = pixel(mixed);
      }
    });
  }
}

/**
 * Draws buckets.
 * @param {CanvasRenderingContext2D} pen
 * @param {View} view
 * @param {number} scale Pixels of the screen in a CSS pixel.
 * @param {import("./levels.js").Level} level Of groups of rows.
 * @param {{ from: number, width: number }} buckets When the first begins, and how long each is.
 * @param {Palette} palette
 */
export function drawBuckets(pen, view, scale, level, buckets, palette) {
  const [wide, high] = [Math.round((view.width - GUTTER) * scale), Math.round((view.height - AXIS) * scale)];
  if (wide <= 0 || high <= 0 || palette.pixels === undefined) return;
  const image = pen.createImageData(wide, high);
  const pixels = new Uint32Array(image.data.buffer);
  const [line, waits] = [new Uint32Array(wide), new Uint32Array(wide)];
  const columns = new Int32Array(wide);
  const step = (view.to - view.from) / wide;
  for (let x = 0; x < wide; x += 1) {
    const bucket = Math.floor((view.from + (x + 0.5) * step - buckets.from) / buckets.width);
    columns[x] = bucket >= 0 && bucket < level.buckets ? bucket : -1;
  }
  const groups = level.dominant.length / level.buckets;
  const heightOf = high / (view.rows / view.group);
  const waiting = pixel([150, 20, 40]);
  for (let group = Math.floor(view.first / view.group); group < groups; group += 1) {
    const top = Math.round((group - view.first / view.group) * heightOf);
    const next = Math.round((group + 1 - view.first / view.group) * heightOf);
    if (top >= high) break;
    const base = group * level.buckets;
    let waited = false;
    for (let x = 0; x < wide; x += 1) {
      if (columns[x] < 0) {
        line[x] = 0;
        waits[x] = 0;
        continue;
      }
      const at = base + columns[x];
      line[x] = palette.pixels[level.dominant[at] * 16 + (level.share[at] >> 4)];
      const long = level.wait[at] !== 0 && waitOf(level.wait[at]) * 4 > Math.min(buckets.width, step * 8);
      waits[x] = long ? waiting : line[x];
      waited ||= long;
    }
    const gap = next - top >= 5 ? 1 : 0;
    const mark = waited && next - top >= 6 ? Math.max(2, Math.round((next - top) / 5)) : 0;
    for (let y = Math.max(top, 0); y < Math.min(next - gap, high); y += 1) {
      pixels.set(y >= next - gap - mark ? waits : line, y * wide);
    }
  }
  pen.putImageData(image, Math.round(GUTTER * scale), Math.round(AXIS * scale));
}

/**
 * Draws single calls and waits.
 * @param {CanvasRenderingContext2D} pen
 * @param {View} view
 * @param {import("./pages.js").Page[]} pages
 * @param {string[]} functions
 * @param {number} end When the run ends, for calls that never returned.
 */
export function drawCalls(pen, view, pages, functions, end) {
  const height = (view.height - AXIS) / view.rows;
  const colours = functions.map((name) => rgb(colourOf(name)));
  const border = height >= 10;
  for (const page of pages) {
    for (let call = 0; call < page.row.length; call += 1) {
      const exit = page.exit[call] < 0 ? end : page.exit[call];
      if (exit < view.from || page.entry[call] > view.to) continue;
      const y = yOf(view, page.row[call]);
      if (y + height < AXIS || y > view.height) continue;
      const x = Math.max(xOf(view, page.entry[call]), GUTTER);
      const width = Math.max(Math.min(xOf(view, exit), view.width) - x, 0.6);
      pen.fillStyle = colours[page.kind[call] - 1];
      pen.fillRect(x, y, width, height - (border ? 2 : 0));
      if (border && width > 3) {
        pen.fillStyle = "rgba(0, 0, 0, 0.35)";
        pen.fillRect(x, y, 0.7, height - 2);
      }
      if (border && width > 60) label(pen, functions[page.kind[call] - 1], x + 4, y + height / 2, width - 8);
    }
  }
  pen.fillStyle = WAITING;
  for (const page of pages) {
    for (const wait of page.waits) {
      if (wait.at + wait.time < view.from || wait.at > view.to) continue;
      const x = Math.max(xOf(view, wait.at), GUTTER);
      const width = Math.max(Math.min(xOf(view, wait.at + wait.time), view.width) - x, 0.6);
      const mark = Math.max(height / 5, 2);
      const y = yOf(view, wait.row) + height - mark - (border ? 2 : 0);
      if (y >= AXIS) pen.fillRect(x, y, width, mark);
    }
  }
}

/**
 * Writes a function's name into its call.
 * @param {CanvasRenderingContext2D} pen
 * @param {string} name
 * @param {number} x
 * @param {number} y
 * @param {number} width
 */
function label(pen, name, x, y, width) {
  pen.save();
  pen.beginPath();
  pen.rect(x, y - 10, width, 20);
  pen.clip();
  pen.fillStyle = "#000";
  pen.font = "11px system-ui, sans-serif";
  pen.textBaseline = "middle";
  pen.fillText(name.replace("MPI_", ""), x, y);
  pen.restore();
}

/**
 * Draws messages from senders to receivers; how many there are.
 * @param {CanvasRenderingContext2D} pen
 * @param {View} view
 * @param {import("./pages.js").Page[]} pages
 * @returns {number}
 */
export function drawMessages(pen, view, pages) {
  const middle = (view.height - AXIS) / view.rows / 2;
  const seen = pages.flatMap((page) =>
    page.messages.filter((message) => message.received >= view.from && message.sent <= view.to),
  );
  if (seen.length > MOST_LINES) return seen.length;
  pen.save();
  pen.beginPath();
  pen.rect(GUTTER, AXIS, view.width - GUTTER, view.height - AXIS);
  pen.clip();
  pen.strokeStyle = styled("--text");
  pen.lineWidth = seen.length > 150 ? 0.6 : 1;
  pen.globalAlpha = seen.length > 150 ? 0.6 : 0.85;
  pen.beginPath();
  for (const message of seen) {
    const [x, y] = [xOf(view, message.received), yOf(view, message.to) + middle];
    pen.moveTo(xOf(view, message.sent), yOf(view, message.from) + middle);
    pen.lineTo(x, y);
    if (seen.length <= 150) {
      pen.moveTo(x - 4, y + (message.from < message.to ? -5 : 5));
      pen.lineTo(x, y);
    }
  }
  pen.stroke();
  pen.restore();
  return seen.length;
}

/**
 * Draws the critical path.
 * @param {CanvasRenderingContext2D} pen
 * @param {View} view
 * @param {{ row: number, from: number, to: number }[]} stretches In the order of time.
 */
export function drawPath(pen, view, stretches) {
  const middle = (view.height - AXIS) / view.rows / 2;
  pen.save();
  pen.beginPath();
  pen.rect(GUTTER, AXIS, view.width - GUTTER, view.height - AXIS);
  pen.clip();
  for (const [style, width] of /** @type {[string, number][]} */ ([[styled("--page"), 4.5], [styled("--path"), 2]])) {
    pen.strokeStyle = style;
    pen.lineWidth = width;
    pen.beginPath();
    let before = -1;
    let last = -1;
    for (const stretch of stretches) {
      if (stretch.to < view.from) continue;
      if (stretch.from > view.to) break;
      const [x, y, end] = [xOf(view, stretch.from), yOf(view, stretch.row) + middle, xOf(view, stretch.to)];
      // What is narrower than a pixel is a vertical line at most.
      if (end - last < 0.5 && before >= 0) continue;
      if (before < 0) pen.moveTo(x, y);
      else pen.lineTo(x, y);
      pen.lineTo(end, y);
      before = y;
      last = end;
    }
    pen.stroke();
  }
  pen.restore();
}

/**
 * Times at which the axis has marks.
 * @param {number} from
 * @param {number} to
 * @param {number} most How many, at most.
 * @returns {number[]}
 */
export function marks(from, to, most) {
  const rough = (to - from) / Math.max(most, 1);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((candidate) => candidate >= rough) ?? rough;
  const found = [];
  for (let mark = Math.ceil(from / step) * step; mark <= to && found.length <= most + 1; mark += step) found.push(mark);
  return found;
}
