// @ts-check
/** @file Coordinates in a timeline's picture, and the layers over its lines: messages, the critical path, marks. Used by timelines. */

import { styled } from "../data/elements.js";
import { timeWords } from "../data/units.js";

/** Space for names of rows, in CSS pixels. */
export const GUTTER = 84;
/** Space for times. */
export const AXIS = 22;
/** Most messages that are drawn as lines: more would hide everything else. */
export const MOST_LINES = 500;

/**
 * The visible part: times in picoseconds, positions from the first on, and the number of them on a line. `lines` has each position's row, `placeOf`
 * each row's position; a hidden row of a class has its representative's.
 * @typedef {{ from: number, to: number, first: number, rows: number, group: number, width: number, height: number, lines: Int32Array, placeOf: Int32Array }} View
 */

/**
 * Returns the coordinate of a time.
 * @param {Pick<View, "from" | "to" | "width">} view
 * @param {number} time
 * @returns {number}
 */
export function xOf(view, time) {
  return GUTTER + ((time - view.from) / (view.to - view.from)) * (view.width - GUTTER);
}

/**
 * Returns the coordinate of a position's begin.
 * @param {Pick<View, "first" | "rows" | "height">} view
 * @param {number} place
 * @returns {number}
 */
export function yOf(view, place) {
  return AXIS + ((place - view.first) / view.rows) * (view.height - AXIS);
}

/**
 * Draws messages between visible rows, from senders to receivers, and returns their number.
 * @param {CanvasRenderingContext2D} pen
 * @param {View} view
 * @param {import("./pages.js").Page[]} pages
 * @returns {number}
 */
export function drawMessages(pen, view, pages) {
  const middle = (view.height - AXIS) / view.rows / 2;
  const { lines, placeOf } = view;
  /** @type {number[]} */
  const shapes = [];
  let seen = 0;
  for (const { messages } of pages) {
    const { from, to, sent, received } = messages;
    for (let at = 0; at < from.length; at += 1) {
      if (received[at] < view.from || sent[at] > view.to) continue;
      const [sender, receiver] = [placeOf[from[at]], placeOf[to[at]]];
      if (lines[sender] !== from[at] || lines[receiver] !== to[at]) continue;
      seen += 1;
      if (seen <= MOST_LINES) shapes.push(xOf(view, sent[at]), yOf(view, sender) + middle, xOf(view, received[at]), yOf(view, receiver) + middle);
    }
  }
  if (seen > MOST_LINES || seen === 0) return seen;
  pen.save();
  pen.beginPath();
  pen.rect(GUTTER, AXIS, view.width - GUTTER, view.height - AXIS);
  pen.clip();
  pen.strokeStyle = styled("--text");
  pen.lineWidth = seen > 150 ? 0.6 : 1;
  pen.globalAlpha = seen > 150 ? 0.6 : 0.85;
  pen.beginPath();
  for (let at = 0; at < shapes.length; at += 4) {
    const [x, y] = [shapes[at + 2], shapes[at + 3]];
    pen.moveTo(shapes[at], shapes[at + 1]);
    pen.lineTo(x, y);
    if (seen <= 150) {
      pen.moveTo(x - 4, y + (shapes[at + 1] < y ? -5 : 5));
      pen.lineTo(x, y);
    }
  }
  pen.stroke();
  pen.restore();
  return seen;
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
      const [x, y, end] = [xOf(view, stretch.from), yOf(view, view.placeOf[stretch.row]) + middle, xOf(view, stretch.to)];
      // Stretches narrower than a pixel are at most a vertical line.
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
 * Returns the times of the axis's marks.
 * @param {number} from
 * @param {number} to
 * @param {number} most Most marks.
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

/**
 * Writes names of rows, and times.
 * @param {CanvasRenderingContext2D} pen
 * @param {View} view
 * @param {(row: number) => string} label
 * @param {number} start The begin of the run.
 */
export function drawNames(pen, view, label, start) {
  pen.fillStyle = styled("--text");
  pen.font = "11px system-ui, sans-serif";
  pen.textBaseline = "middle";
  const height = (view.height - AXIS) / view.rows;
  const every = Math.max(1, Math.ceil(13 / height));
  for (let place = Math.ceil(view.first / every) * every; place < Math.min(view.first + view.rows, view.lines.length); place += every) {
    pen.fillText(label(view.lines[place]), 2, yOf(view, place) + Math.min(height, 14) / 2 + (height > 14 ? (height - 14) / 2 : 0));
  }
  pen.textBaseline = "top";
  pen.strokeStyle = styled("--line");
  pen.lineWidth = 1;
  pen.beginPath();
  for (const mark of marks(view.from - start, view.to - start, Math.floor((view.width - GUTTER) / 90))) {
    const x = xOf(view, start + mark);
    pen.moveTo(x, AXIS - 5);
    pen.lineTo(x, AXIS);
    pen.fillText(timeWords(mark), Math.min(x + 2, view.width - 52), 3);
  }
  pen.stroke();
}
