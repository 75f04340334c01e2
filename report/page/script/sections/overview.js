// @ts-check
/** @file Facts and bounds of a run, differences between two runs, and outputs. Used by main. */

import { rankWords } from "../data/comparing.js";
import { element, missing, section } from "../data/elements.js";
import { table } from "../data/tables.js";
import { byteWords, changeWords, countWords, thousandthWords, timeWords } from "../data/units.js";

/**
 * Returns names of facts, each with its value in every run. Repeated names are paired in order.
 * @param {{ facts: [string, string][] }[]} runs
 * @returns {[string, string[]][]}
 */
export function factsOf(runs) {
  /** @type {Map<string, [string, string[]]>} */
  const all = new Map();
  for (const [number, { facts }] of runs.entries()) {
    /** @type {Map<string, number>} */
    const seen = new Map();
    for (const [name, value] of facts) {
      const times = (seen.get(name) ?? 0) + 1;
      seen.set(name, times);
      const own = all.get(`${times} ${name}`) ?? [name, runs.map(() => "nothing")];
      own[1][number] = value;
      all.set(`${times} ${name}`, own);
    }
  }
  return [...all.values()];
}

/**
 * @param {any[]} runs One run, or two to be compared.
 * @param {any[]} changed Keys and options with different values in the second run.
 */
export function summarySection(runs, changed) {
  const [run, other] = runs;
  const own = section("summary", "What ran, and what bounds it", "Each bar is a share of all ranks' time together between start and end of MPI, or of the longest rank's work; the last is a share of all time. The largest of the others says where to look first; its heading leads there.");
  if (run.traced === null) missing(own, "This run has no trace of MPI calls, so nothing is known of its ranks. Run it with", "trace.enabled = true");
  else {
    const percent = (/** @type {any} */ verdict) => thousandthWords(verdict.thousandths);
    const cards = run.traced.verdicts.map((/** @type {any} */ verdict) => {
      const twin = other?.traced?.verdicts.find((/** @type {any} */ own) => own.about === verdict.about);
      const bar = element("span", { class: "bar", "aria-hidden": "true" });
      bar.style.width = `${verdict.thousandths / 10}%`;
      return element("div", { class: "card" }, [
        element("h3", {}, [element("a", { href: `#${verdict.section}` }, [verdict.about])]),
        element("p", { class: "big" }, [`${percent(verdict)}${twin === undefined ? "" : ` \u2192 ${percent(twin)}`}`]),
        element("div", { class: "meter" }, [bar]),
        element("p", {}, [twin === undefined ? verdict.sentence : `a: ${verdict.sentence}`]),
        ...(twin === undefined ? [] : [element("p", {}, [`b: ${twin.sentence}`])]),
      ]);
    });
    own.append(element("div", { class: "cards" }, cards));
    if (run.traced.incomplete !== null) missing(own, `The trace is not whole: ${run.traced.incomplete}. What is before that place is shown.`);
  }
  if (runs.length > 1) {
    if (changed.length === 0) own.append(element("p", {}, ["No key of the scenario and no option of a replay differs."]));
    else own.append(table("Keys and options that differ", [
      { name: "key", say: (row) => row.key },
      { name: "a", say: (row) => row.a ?? "not set" },
      { name: "b", say: (row) => row.b ?? "not set" },
    ], changed));
  }
  own.append(element("dl", {}, factsOf(runs).flatMap(([name, values]) => [
    element("dt", {}, [name]),
    element("dd", {}, [values.length < 2 || values[0] === values[1] ? values[0] : `a: ${values[0]}\nb: ${values[1]}`]),
  ])));
  for (const { name, scenario } of runs) {
    const words = `Scenario${runs.length > 1 ? ` of ${name}` : ""}, to be run again`;
    if (scenario !== "") own.append(element("details", {}, [element("summary", {}, [words]), element("pre", {}, [scenario])]));
  }
}

/**
 * @param {any[]} runs
 * @param {any} diff
 */
export function compareSection(runs, diff) {
  const own = section("compare", "Two runs side by side", `a is ${runs[0].name}, b is ${runs[1].name}. Runs repeat to the cycle, so that no change here is noise. Ratios are of b to a.`);
  if (diff === null) {
    missing(own, "One of the runs has no trace; only traces can be compared.");
    return;
  }
  own.append(
    element("p", { class: "big" }, [`${timeWords(diff.span_ps.a)} and ${timeWords(diff.span_ps.b)}: ${changeWords(diff.span_ps.a, diff.span_ps.b)}`]),
    element("p", {}, [diff.equal ? "The runs are equal, to the cycle." : diff.same_structure ? "All threads do the same, at other times." : "The programs do not do the same."]),
    element("p", {}, ["Each section below has figures of both, and their change where it makes sense."]),
  );
  const changed = diff.ranks.filter((/** @type {any} */ rank) => rank.parts !== null).slice(0, 8);
  if (changed.length === 0) return;
  own.append(table("First calls that are others", [
    { name: "rank", say: rankWords, by: (row) => row.job * 1e9 + row.rank },
    { name: "after equal calls", say: (row) => countWords(row.parts.after), by: (row) => row.parts.after },
    { name: "in a", say: (row) => row.parts.a ?? "no more" },
    { name: "in b", say: (row) => row.parts.b ?? "no more" },
  ], /** @type {any[]} */ (changed)));
}

/** @param {any[]} runs One run, or two to be compared. */
export function outputsSection(runs) {
  const own = section("outputs", "Output and consoles", "What the workload wrote, and the nodes' serial consoles: the end of each where they are long.");
  if (runs[0].outputs.length === 0) missing(own, "There is no run directory next to this trace.");
  for (const { output, of } of runs.flatMap((run) => run.outputs.map((/** @type {any} */ output) => ({ output, of: runs.length > 1 ? `${run.name}: ` : "" })))) {
    const cut = output.left_out > 0 ? `, without the first ${byteWords(output.left_out)}` : "";
    const words = output.text === "" ? `${of}${output.name}: empty` : `${of}${output.name}${cut}`;
    /** @type {Record<string, string>} */
    const open = output.name === "stdout" && output.text !== "" ? { open: "" } : {};
    own.append(element("details", open, [element("summary", {}, [words]), element("pre", { tabindex: "0" }, [output.text])]));
  }
}
