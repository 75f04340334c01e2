// @ts-check
/** @file Colours that people with any kind of colour vision tell apart, after Okabe and Ito (2008), by kind of function. Called by drawings. */

/** Kinds of functions, by the numbers that the data has for them (report/src/timeline/kinds.rs): name, and colour by light and by dark. */
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

/** Of waiting, which is drawn over the others. */
export const WAITING_COLOUR = [150, 20, 40];

/**
 * The name of a kind.
 * @param {number} kind
 * @returns {string}
 */
export function kindName(kind) {
  return KINDS[kind].name;
}

/**
 * The colour of a kind of functions.
 * @param {number} kind
 * @returns {number[]} Red, green and blue.
 */
export function colourOf(kind) {
  return KINDS[kind].colour;
}

/**
 * A colour as style sheets have it.
 * @param {number[]} colour
 * @returns {string}
 */
export function rgb(colour) {
  return `rgb(${colour[0]}, ${colour[1]}, ${colour[2]})`;
}

/**
 * A colour between two.
 * @param {number[]} from
 * @param {number[]} to
 * @param {number} share Between 0 and 1.
 * @returns {number[]}
 */
export function between(from, to, share) {
  return from.map((value, part) => Math.round(value + (to[part] - value) * share));
}

/** The steps of a scale whose lightness changes evenly (after viridis). */
const STEPS = [
  [68, 1, 84],
  [59, 82, 139],
  [33, 145, 140],
  [94, 201, 98],
  [253, 231, 37],
];

/**
 * The colour of a value on a scale.
 * @param {number} share Between 0 and 1.
 * @returns {number[]}
 */
export function onScale(share) {
  const place = Math.min(Math.max(share, 0), 1) * (STEPS.length - 1);
  const step = Math.min(Math.floor(place), STEPS.length - 2);
  return between(STEPS[step], STEPS[step + 1], place - step);
}

/** Whether the page is dark. */
export function isDark() {
  return matchMedia("(prefers-color-scheme: dark)").matches && !matchMedia("print").matches;
}
