// @ts-check
/** @file Loads of links, of one run or of two side by side. Used by main. */

import { loads } from "./charts.js";
import { both, compared, countColumn, largest, timeColumn } from "../data/comparing.js";
import { element, missing, section } from "../data/elements.js";
import { sorted } from "../data/tables.js";
import { byteWords, manyWords } from "../data/units.js";

/**
 * Returns both directions of a run's links, the busiest first.
 * @param {any} run
 * @returns {any[]}
 */
function sidesOf(run) {
  const links = run.summary?.links ?? [];
  const sides = links.flatMap((/** @type {any} */ link) => ["up", "down"].map((side) => ({ name: `${link.link} ${side}`, ...link[side] })));
  return sorted(sides, (/** @type {any} */ side) => side.bytes, true);
}

/**
 * Shows totals of links.
 * @param {any[]} lists Links of each run.
 */
function linkTotals(lists) {
  return compared("Links, of the whole run", [
    { name: "link and direction", say: (row) => row.name },
    countColumn("frames", "frames"),
    both({ ...countColumn("bytes", "bytes", byteWords), of: largest(lists, "bytes") }),
    both(timeColumn("busy", "busy_ps")),
    both(countColumn("longest queue", "longest_queue", byteWords)),
    countColumn("dropped", "drops"),
  ], lists, (row) => row.name);
}

/** @param {any[]} runs One run, or two to be compared. */
export function loadsSection(runs) {
  const own = section("links", "Links", "What the network's links carried over time. A link that is busy all the time, with a queue that grows, bounds whoever sends over it.");
  for (const run of runs) {
    if (runs.length > 1) own.append(element("h3", {}, [run.name]));
    if (run.loads === null || run.loads.lines.length === 0) missing(own, "This run has no figures over time. Run it with", "belljar run SCENARIO --set network.statistics='\"1 ms\"'");
    else loads(own, run.loads, run === runs[0] ? "a" : "b");
    if (run.loads?.left_out > 0) missing(own, `${manyWords(run.loads.left_out, "less busy direction of links is", "less busy directions of links are")} not drawn.`);
  }
  const lists = runs.map(sidesOf);
  if (lists.flat().length > 0) own.append(linkTotals(lists));
}
