// @ts-check
/** @file Colours that people with any kind of colour vision tell apart, after Okabe and Ito (2008), and which function has which. Called by drawings. */

/** Kinds of functions: name, pattern, colour by light and by dark. The first that fits counts. */
const KINDS = [
  { name: "start and end", pattern: /^MPI_(Init|Finalize)/, colour: [120, 120, 128] },
  { name: "barrier", pattern: /^MPI_I?[Bb]arrier/, colour: [240, 228, 66] },
  { name: "wait and test", pattern: /^MPI_(Wait|Test|Probe|Iprobe|Improbe|Mprobe)/, colour: [230, 159, 0] },
  { name: "to all, or from all", pattern: /^MPI_I?(All|all|Reduce_scatter|reduce_scatter)/, colour: [0, 158, 115] },
  { name: "with a root", pattern: /^MPI_I?(Bcast|Reduce|Gather|Scatter|Scan|Exscan|bcast|reduce|gather|scatter|scan|exscan)/, colour: [204, 121, 167] },
  { name: "send", pattern: /^MPI_(I?[BSRbsr]?[Ss]end|Start)/, colour: [0, 114, 178] },
  { name: "receive", pattern: /^MPI_(I?[Mm]?[Rr]ecv)/, colour: [213, 94, 0] },
  { name: "other MPI", pattern: /./, colour: [86, 180, 233] },
];

/** Of waiting, which is drawn over the others. */
export const WAITING_COLOUR = [150, 20, 40];

/**
 * The kind of a function, by its number among all of them.
 * @param {string} name
 * @returns {number}
 */
export function kindOf(name) {
  return KINDS.findIndex((kind) => kind.pattern.test(name));
}

/**
 * The name of a kind.
 * @param {number} kind
 * @returns {string}
 */
export function kindName(kind) {
  return KINDS[kind].name;
}

/**
 * The colour of a function: that of its kind.
 * @param {string} name
 * @returns {number[]} Red, green and blue.
 */
export function colourOf(name) {
  return KINDS[kindOf(name)].colour;
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
