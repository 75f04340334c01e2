// @ts-check
/** @file A timeline at every scale: selection of buckets for a span of time. Used by the drawing of timelines. */

import { Reader } from "../data/binary.js";

/**
 * A scale: buckets of each row, with the function with most of the time in MPI, the share of MPI (of 255), and the longest wait as
 * four times its binary logarithm plus one.
 * @typedef {{ buckets: number, dominant: Uint8Array, share: Uint8Array, wait: Uint8Array }} Level
 */

/**
 * Decodes all scales, the finest first.
 * @param {Uint8Array} bytes
 * @param {number} depth
 * @returns {Level[]}
 */
export function levelsOf(bytes, depth) {
  const reader = new Reader(bytes);
  const levels = [];
  for (let level = 0; level < depth; level += 1) {
    levels.push({
      buckets: reader.number(),
      dominant: reader.block(),
      share: reader.block(),
      wait: reader.block(),
    });
  }
  return levels;
}

/**
 * Returns the longest wait of a bucket, in picoseconds.
 * @param {number} stored
 * @returns {number}
 */
export function waitOf(stored) {
  return stored === 0 ? 0 : 2 ** ((stored - 1) / 4);
}

/**
 * Returns the scale for a picture: the coarsest whose buckets are no wider than a pixel, or else the finest.
 * @param {number} width Width of the finest scale's buckets, in picoseconds.
 * @param {number} depth Number of scales.
 * @param {number} pixel Picoseconds in a pixel.
 * @returns {number}
 */
export function scaleFor(width, depth, pixel) {
  const scale = Math.floor(Math.log2(Math.max(pixel / width, 1)));
  return Math.min(scale, depth - 1);
}

/**
 * Merges rows in groups of this size: for each bucket the mean share, the longest wait, and the function with the largest share.
 * @param {Level} level
 * @param {ArrayLike<number>} lines The rows in the order of merging.
 * @param {number} group
 * @returns {Level}
 */
export function grouped(level, lines, group) {
  const { buckets } = level;
  const groups = Math.ceil(lines.length / group);
  const made = {
    buckets,
    dominant: new Uint8Array(groups * buckets),
    share: new Uint8Array(groups * buckets),
    wait: new Uint8Array(groups * buckets),
  };
  const sums = new Uint32Array(256);
  for (let number = 0; number < groups; number += 1) {
    const [first, last] = [number * group, Math.min((number + 1) * group, lines.length)];
    for (let bucket = 0; bucket < buckets; bucket += 1) {
      let [all, wait, ahead] = [0, 0, 0];
      for (let line = first; line < last; line += 1) {
        const at = lines[line] * buckets + bucket;
        const own = level.dominant[at];
        sums[own] += level.share[at];
        all += level.share[at];
        if (sums[own] > sums[ahead] || ahead === 0) ahead = own;
        if (level.wait[at] > wait) wait = level.wait[at];
      }
      for (let line = first; line < last; line += 1) sums[level.dominant[lines[line] * buckets + bucket]] = 0;
      const at = number * buckets + bucket;
      made.dominant[at] = ahead;
      made.share[at] = Math.ceil(all / (last - first));
      made.wait[at] = wait;
    }
  }
  return made;
}
