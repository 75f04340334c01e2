// @ts-check
/**
 * @file Formatting of numbers: times, bytes, counts and shares. Used by all parts that show numbers.
 *
 * The rule is the command's (`sim/src/figures.rs`): the nearest number with the digits shown, with ties away from zero. Tests compare both with one table.
 */

/** Non-breaking, so that a number and its unit stay together. */
const SPACE = "\u00a0";
const TIMES = ["ps", "ns", "us", "ms", "s"];
const BYTES = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];

/**
 * Divides integers, rounded to the nearest integer; half is rounded up.
 * @param {bigint} value
 * @param {bigint} by
 * @returns {bigint}
 */
function divided(value, by) {
  return (2n * value + by) / (2n * by);
}

/**
 * Formats an integer with four significant digits, in the largest unit that is not larger.
 * @param {number} value
 * @param {string[]} units Each a thousand times the previous one.
 * @returns {string}
 */
function scaled(value, units) {
  const whole = BigInt(Math.round(Math.abs(value)));
  const sign = value < 0 && whole > 0n ? "\u2212" : "";
  let [unit, power] = [0, 1n];
  while (unit + 1 < units.length && divided(whole * 10n, power) >= 10_000n) {
    power *= 1000n;
    unit += 1;
  }
  if (unit === 0) return `${sign}${whole}${SPACE}${units[0]}`;
  let places = 3;
  while (places > 0 && divided(whole * 10n ** BigInt(places), power) >= 10_000n) places -= 1;
  const digits = String(divided(whole * 10n ** BigInt(places), power)).padStart(places + 1, "0");
  const point = digits.length - places;
  return sign + (places === 0 ? digits : `${digits.slice(0, point)}.${digits.slice(point)}`) + SPACE + units[unit];
}

/**
 * Formats a number with this many decimal places.
 * @param {number} value
 * @param {number} places
 * @returns {string}
 */
export function decimalWords(value, places) {
  const rounded = Math.round(Math.abs(value) * 10 ** places);
  if (!Number.isSafeInteger(rounded)) return value.toFixed(places);
  const digits = String(rounded).padStart(places + 1, "0");
  const point = digits.length - places;
  const sign = value < 0 && rounded > 0 ? "-" : "";
  return sign + (places === 0 ? digits : `${digits.slice(0, point)}.${digits.slice(point)}`);
}

/**
 * Formats a time.
 * @param {number} ps In picoseconds.
 * @returns {string}
 */
export function timeWords(ps) {
  return scaled(ps, TIMES);
}

/**
 * Formats a point in time, in seconds to the nanosecond.
 * @param {number} ps In picoseconds.
 * @returns {string}
 */
export function secondWords(ps) {
  return decimalWords(ps / 1e12, 9);
}

/**
 * Formats bytes.
 * @param {number} bytes
 * @returns {string}
 */
export function byteWords(bytes) {
  return scaled(bytes, BYTES);
}

/**
 * Formats an integer with its digits in groups of three.
 * @param {number} value
 * @returns {string}
 */
export function countWords(value) {
  return String(Math.round(value)).replace(/\B(?=(\d{3})+$)/g, SPACE);
}

/**
 * Formats a count and its noun.
 * @param {number} count
 * @param {string} one The singular.
 * @param {string} [many] The plural, if it is not the singular with an s.
 * @returns {string}
 */
export function manyWords(count, one, many = `${one}s`) {
  return `${countWords(count)} ${count === 1 ? one : many}`;
}

/**
 * Formats a part of a whole as percent.
 * @param {number} part
 * @param {number} whole
 * @returns {string}
 */
export function shareWords(part, whole) {
  if (!(whole > 0)) return `0.0${SPACE}%`;
  if (!Number.isSafeInteger(part) || !Number.isSafeInteger(whole) || part < 0) return decimalWords((100 * part) / whole, 1) + SPACE + "%";
  return thousandthWords(Number(divided(BigInt(part) * 1000n, BigInt(whole))));
}

/**
 * Formats thousandths as percent.
 * @param {number} thousandths
 * @returns {string}
 */
export function thousandthWords(thousandths) {
  return `${Math.floor(thousandths / 10)}.${thousandths % 10}${SPACE}%`;
}

/**
 * Formats a change from one value to another.
 * @param {number} before
 * @param {number} after
 * @returns {string}
 */
export function changeWords(before, after) {
  if (Number.isNaN(before) || Number.isNaN(after)) return "";
  if (before === after) return "the same";
  if (before === 0) return "new";
  const change = after / before;
  if (change >= 10) return decimalWords(change, 0) + SPACE + "times";
  return (change >= 1 ? "+" : "\u2212") + shareWords(Math.abs(after - before), before);
}
