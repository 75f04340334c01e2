// @ts-check
/** @file The structure of programs, as loops of their calls. Used by main. */

import { both, compared, countColumn, timeColumn } from "../data/comparing.js";
import { element, missing, section } from "../data/elements.js";
import { changeWords, countWords, manyWords, shareWords, timeWords } from "../data/units.js";

/**
 * Formats the iterations of a part.
 * @param {any} when
 * @returns {string}
 */
function whenWords(when) {
  if (when.in === "always") return "";
  if (when.in === "some") return `in ${countWords(when.times)} of ${manyWords(when.of, "iteration")}: `;
  return "in some iterations: ";
}

/** @param {any} iterations */
function rangeWords(iterations) {
  const most = manyWords(iterations.max, "iteration");
  return iterations.min === iterations.max ? most : `${countWords(iterations.min)} to ${most}`;
}

/**
 * True if two programs' parts differ only in their figures.
 * @param {any[]} a
 * @param {any[]} b
 * @returns {boolean}
 */
export function sameParts(a, b) {
  if (a.length !== b.length) return false;
  return a.every((part, at) => {
    if (part.kind !== b[at].kind) return false;
    if (part.kind !== "sequence") return sameParts(part.body, b[at].body);
    const calls = b[at].calls;
    return part.calls.length === calls.length && part.calls.every((/** @type {any} */ call, /** @type {number} */ number) => call.text === calls[number].text);
  });
}

/**
 * Formats another run's figure of a part, and the change.
 * @param {number} before
 * @param {number | undefined} after
 */
function otherWords(before, after) {
  return after === undefined ? "" : `; in b ${timeWords(after)}, ${changeWords(before, after)}`;
}

/**
 * Creates list items for a part of a program.
 * @param {any} part
 * @param {number} whole Total time of all threads.
 * @param {any} [twin] The same part of another run.
 * @returns {HTMLElement[]}
 */
function partItems(part, whole, twin) {
  if (part.kind === "sequence") {
    return part.calls.map((/** @type {any} */ call, /** @type {number} */ at) => element("li", {}, [
      element("code", {}, [call.text]),
      ` ${whenWords(part.when)}${manyWords(call.visits.total, "call")}, ${timeWords(call.in_mpi.total_ps)} in all${otherWords(call.in_mpi.total_ps, twin?.calls[at].in_mpi.total_ps)}`,
    ]));
  }
  const { iterations, entries, time } = part;
  const inner = element("ul", {}, part.body.flatMap((/** @type {any} */ own, /** @type {number} */ at) => partItems(own, whole, twin?.body[at])));
  const open = element("details", time.total_ps * 20 > whole ? { open: "" } : {}, [
    element("summary", {}, [
      element("strong", {}, [`Loop of ${rangeWords(iterations)}`]),
      ` ${whenWords(part.when)}entered ${manyWords(entries.total, "time")}, ${timeWords(time.total_ps)} (${shareWords(time.total_ps, whole)}), ${shareWords(part.in_mpi_ps, time.total_ps)} of it in MPI${twin === undefined ? "" : `; in b ${rangeWords(twin.iterations)}`}${otherWords(time.total_ps, twin?.time.total_ps)}`,
    ]),
    inner,
  ]);
  return [element("li", {}, [open])];
}

/** @param {any[]} runs One run, or two to be compared. */
export function loopsSection(runs) {
  const own = section("loops", "Loops", "How the program is built, as its calls show: what is repeated, how often, and what it takes. Ranks with the same structure stand together. The main loop is where time pays; what is before and after it does not grow with longer runs.");
  const [loops, others] = runs.map((run) => run.traced.loops);
  if (loops === null || loops.classes.length === 0) {
    missing(own, "The trace shows no loops.");
    return;
  }
  for (const found of loops.classes) {
    const twin = others?.classes.find((/** @type {any} */ own) => own.name === found.name);
    const same = twin !== undefined && sameParts(found.body, twin.body);
    const details = element("details", found === loops.classes[0] ? { open: "" } : {}, [
      element("summary", {}, [`${found.name}: ${manyWords(found.calls, "call")}, ${shareWords(found.outermost_ps, found.time_ps)} of the time in loops${twin === undefined ? "" : `; in b ${manyWords(twin.calls, "call")}, ${shareWords(twin.outermost_ps, twin.time_ps)}`}`]),
    ]);
    if (found.phases.length > 0) {
      details.append(compared(`Phases of ${found.name}`, [
        { name: "phase", say: (row) => row.phase },
        both(countColumn("calls", "calls")),
        both(timeColumn("time", "time_ps", Math.max(found.time_ps, twin?.time_ps ?? 0))),
        both(timeColumn("in MPI", "in_mpi_ps", Math.max(found.time_ps, twin?.time_ps ?? 0))),
      ], twin === undefined ? [found.phases] : [found.phases, twin.phases], (row) => row.phase));
    }
    details.append(element("ul", { class: "tree" }, found.body.flatMap((/** @type {any} */ part, /** @type {number} */ at) => partItems(part, found.time_ps, same ? twin.body[at] : undefined))));
    if (others !== undefined && !same) {
      missing(details, twin === undefined ? "No class of ranks of b has this name." : "In b these ranks do something else:");
      if (twin !== undefined) details.append(element("ul", { class: "tree" }, twin.body.flatMap((/** @type {any} */ part) => partItems(part, twin.time_ps))));
    }
    own.append(details);
  }
  if (loops.count > loops.classes.length) missing(own, `${manyWords(loops.count - loops.classes.length, "more class", "more classes")} of ranks:`, "belljar trace loops DIR");
}
