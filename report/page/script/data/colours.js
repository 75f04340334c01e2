// @ts-check
/** @file Colours by kind of function, distinguishable with any kind of colour vision, after Okabe and Ito (2008). Used by drawings. */

/** Kinds of functions, by their numbers in the data (report/src/timeline/kinds.rs): name, and colour in light and in dark mode. */
const KINDS = [
  { name: "start and end", colour: [120, 120, 128] },
  { name: "barrier", colour: [240, 228, 66] },
  { name: "wait and test", colour: [230, 159, 0] },
  { name: "to all, or from all", colour: [0, 158, 115] },
  { name: "with a root", colour: [204, 121, 167] },
  { name: "send", colour: [0, 114, 178] },
  { name: "receive", colour: [213, 94, 0] },
  { name: "other MPI", colour: [86, 180, 233] },
];

/** The colour of waiting, which is drawn over the others. */
export const WAITING_COLOUR = [150, 20, 40];

/**
 * Returns the name of a kind.
 * @param {number} kind
 * @returns {string}
 */
export function kindName(kind) {
  return KINDS[kind].name;
}

/**
 * Returns the colour of a kind of functions.
 * @param {number} kind
 * @returns {number[]} Red, green and blue.
 */
export function colourOf(kind) {
  return KINDS[kind].colour;
}

/**
 * Formats a colour for style sheets.
 * @param {number[]} colour
 * @returns {string}
 */
export function rgb(colour) {
  return `rgb(${colour[0]}, ${colour[1]}, ${colour[2]})`;
}

/**
 * Returns a colour between two.
 * @param {number[]} from
 * @param {number[]} to
 * @param {number} share Between 0 and 1.
 * @returns {number[]}
 */
export function between(from, to, share) {
  return from.map((value, part) => Math.round(value + (to[part] - value) * share));
}

/** The steps of a scale with evenly changing lightness (after viridis). */
const STEPS = [
  [68, 1, 84],
  [59, 82, 139],
  [33, 145, 140],
  [94, 201, 98],
  [253, 231, 37],
];

/**
 * Returns the colour of a value on a scale.
 * @param {number} share Between 0 and 1.
 * @returns {number[]}
 */
export function onScale(share) {
  const place = Math.min(Math.max(share, 0), 1) * (STEPS.length - 1);
  const step = Math.min(Math.floor(place), STEPS.length - 2);
  return between(STEPS[step], STEPS[step + 1], place - step);
}

/** True if the page is in dark mode. */
export function isDark() {
  return matchMedia("(prefers-color-scheme: dark)").matches && !matchMedia("print").matches;
}
