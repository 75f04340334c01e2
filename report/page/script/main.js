// @ts-check
/** @file Shows the report: unpacks its data, and creates its sections, from the top of the page on. */

import { dataOf } from "./data/binary.js";
import { controls } from "./timeline/controls.js";
import { element, missing, named, section } from "./data/elements.js";
import { flames } from "./sections/flames.js";
import { matrices } from "./sections/matrix.js";
import { loadsSection } from "./sections/network.js";
import { loopsSection } from "./sections/loops.js";
import { compareSection, outputsSection, summarySection } from "./sections/overview.js";
import { callsSection, legendOf, ranksSection, sitesSection } from "./sections/sections.js";
import { pathSection, waitingSection } from "./sections/waits.js";
import { Span } from "./timeline/span.js";
import { Timeline } from "./timeline/timeline.js";

/**
 * Shows the timelines of all runs, on one scale.
 * @param {any[]} runs
 */
async function timelineSection(runs) {
  const own = section("timeline", "Timeline", "Each line is a rank; colours are kinds of MPI functions, grey is the program's own work, dark red at a line's foot is waiting. Click it, then: wheel or + and \u2212 zoom, drag or arrows move, Shift and wheel or Page Up and Down choose ranks, Enter lists the calls in view. Closer up it shows single calls and messages; point at one for its arguments.");
  const traced = runs.filter((run) => run.traced !== null);
  if (traced.length === 0) {
    missing(own, "There is no trace to draw. Run with", "trace.enabled = true");
    return;
  }
  const span = new Span(Math.max(...traced.map(({ traced: { timeline } }) => timeline.to - timeline.from)));
  const timelines = traced.map((run) => new Timeline(run.traced.timeline, run === runs[0] ? "a" : "b", span, run.name));
  const kinds = new Set(traced.flatMap((run) => /** @type {number[]} */ (run.traced.timeline.function_kinds)));
  own.append(controls(span, timelines), legendOf([...kinds].sort((a, b) => a - b)));
  for (const [number, timeline] of timelines.entries()) {
    if (timelines.length > 1) own.append(element("h3", {}, [traced[number].name]));
    own.append(timeline.rows.bar, timeline.canvas, timeline.state, timeline.list);
    await timeline.load();
  }
}

/** @param {any[]} runs */
async function trafficSection(runs) {
  const traffic = section("matrix", "Traffic", "Who sends how much to whom. Pairs with much traffic want to be close to each other on the network; lines that are brighter than others are ranks that talk more.");
  const [{ matrices: own }] = runs;
  if (own.length === 0) missing(traffic, "There is no trace to count messages in.");
  else await matrices(traffic, runs.map((run) => run.matrices));
  if (!own.some((/** @type {any} */ about) => about.by === "seen")) missing(traffic, "To see the messages that the MPI library really sent, run with", "belljar run SCENARIO --set trace.messages=true");
}

/** @param {any[]} runs */
function flamesSection(runs) {
  const own = section("flames", "Profile", "Where processors were, by samples of the whole run: what a function called hangs below it, as wide as its share of samples. Click one to see it alone.");
  const profiles = runs.map((run) => run.flame).filter((flame) => flame !== null);
  if (profiles.length < runs.length) missing(own, `${runs.length > 1 ? "One of the runs" : "This run"} took no samples. Run it with`, "belljar run SCENARIO --set profile.every='\"100 us\"'");
  if (profiles.length > 0) flames(own, profiles);
}

/** Lets the browser render the page. */
const breath = () => new Promise((resolve) => setTimeout(resolve, 0));

async function show() {
  const data = JSON.parse(new TextDecoder().decode(await dataOf("data")));
  const [run, other] = data.runs;
  document.title = `${data.runs.map((/** @type {any} */ own) => own.name).join(" and ")} \u2013 Belljar report`;
  named("title").textContent = data.runs.map((/** @type {any} */ own) => own.name).join(" and ");
  named("state").remove();
  summarySection(data.runs, data.changed);
  if (other !== undefined) compareSection(data.runs, data.diff);
  await breath();
  await timelineSection(data.runs);
  await breath();
  // A run without a trace has nothing to compare.
  const traced = data.runs.every((/** @type {any} */ own) => own.traced !== null) ? data.runs : [run];
  if (run.traced !== null) {
    callsSection(traced);
    await ranksSection(traced);
    sitesSection(traced);
  }
  await breath();
  await trafficSection(traced);
  if (run.traced !== null) {
    loopsSection(traced);
    waitingSection(traced);
    pathSection(traced);
  }
  await breath();
  loadsSection(data.runs);
  flamesSection(data.runs);
  outputsSection(data.runs);
  named("main").append(element("footer", {}, [`Made by Belljar ${data.version}. Charts over time by uPlot (MIT).`]));
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
  if (location.hash.length > 1) document.getElementById(location.hash.slice(1))?.scrollIntoView();
}

show().catch((error) => {
  const words = `This report cannot be shown: ${error instanceof Error ? error.message : error}. It needs a browser of 2023 or later (DecompressionStream).`;
  named("main").prepend(element("p", { role: "alert", class: "missing" }, [words]));
  document.documentElement.dataset.failed = words;
});
