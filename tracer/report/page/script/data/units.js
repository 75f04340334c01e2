// @ts-check
/** @file Numbers in words: times, bytes, counts and shares. Called by everything that shows numbers. */

/** Non-breaking, so that a number and its unit stay together. */
const SPACE = "\u00a0";

/**
 * Four digits of a number.
 * @param {number} value
 * @returns {string}
 */
function digits(value) {
  const size = Math.abs(value);
  if (size >= 1000) return value.toFixed(0);
  if (size >= 100) return value.toFixed(1);
  return value.toFixed(size >= 10 ? 2 : 3);
}

/**
 * A time in words.
 * @param {number} ps In picoseconds.
 * @returns {string}
 */
export function timeWords(ps) {
  const units = ["ps", "ns", "us", "ms", "s"];
  let value = ps;
  let unit = 0;
  while (Math.abs(value) >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return (unit === 0 ? value.toFixed(0) : digits(value)) + SPACE + units[unit];
}

/**
 * Bytes in words.
 * @param {number} bytes
 * @returns {string}
 */
export function byteWords(bytes) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let value = bytes;
  let unit = 0;
  while (Math.abs(value) >= 1000 && unit < units.length - 1) {
    value /= 1000;
    unit += 1;
  }
  return (unit === 0 ? String(value) : digits(value)) + SPACE + units[unit];
}

/**
 * A whole number with its digits in groups of three.
 * @param {number} value
 * @returns {string}
 */
export function countWords(value) {
  return String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, SPACE);
}

/**
 * So many of something.
 * @param {number} count
 * @param {string} one What one is called.
 * @returns {string}
 */
export function manyWords(count, one) {
  return `${countWords(count)} ${one}${count === 1 ? "" : "s"}`;
}

/**
 * A part of a whole as percent.
 * @param {number} part
 * @param {number} whole
 * @returns {string}
 */
export function shareWords(part, whole) {
  return (whole > 0 ? (100 * part) / whole : 0).toFixed(1) + SPACE + "%";
}

/**
 * A change from one value to another.
 * @param {number} before
 * @param {number} after
 * @returns {string}
 */
export function changeWords(before, after) {
  if (before === after) return "the same";
  if (before === 0) return "new";
  const change = after / before;
  if (change >= 10) return change.toFixed(0) + SPACE + "times";
  return (change >= 1 ? "+" : "\u2212") + Math.abs(100 * (change - 1)).toFixed(1) + SPACE + "%";
}
