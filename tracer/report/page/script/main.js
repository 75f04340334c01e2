// @ts-check
/** @file Shows the report: unpacks its data, and makes its sections, those that are seen first first. */

import { dataOf } from "./binary.js";
import { kindOf } from "./colours.js";
import { loads } from "./charts.js";
import { controls } from "./controls.js";
import { element, missing, named, section } from "./elements.js";
import { flames } from "./flames.js";
import { matrices } from "./matrix.js";
import { callsSection, compareSection, legendOf, linkTotals, loopsSection, outputsSection } from "./sections.js";
import { pathSection, ranksSection, sitesSection, summarySection, waitingSection } from "./sections.js";
import { Span } from "./span.js";
import { Timeline } from "./timeline.js";

/**
 * The timelines of all runs, on one scale.
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
  const kinds = new Set(traced.flatMap((run) => run.traced.timeline.functions.map(kindOf)));
  own.append(controls(span, timelines), legendOf([...kinds].sort((a, b) => a - b)));
  for (const [number, timeline] of timelines.entries()) {
    if (timelines.length > 1) own.append(element("h3", {}, [traced[number].name]));
    own.append(timeline.rows.bar, timeline.canvas, timeline.state, timeline.list);
    await timeline.load();
  }
}

/**
 * Traffic, links and the profile.
 * @param {any} run
 */
async function drawnSections(run) {
  const traffic = section("matrix", "Traffic", "Who sends how much to whom. Pairs with much traffic want to be close to each other on the network; lines that are brighter than others are ranks that talk more.");
  if (run.matrices.length === 0) missing(traffic, "There is no trace to count messages in.");
  else await matrices(traffic, run.matrices, "a");
  if (!run.matrices.some((/** @type {any} */ about) => about.by === "seen")) missing(traffic, "To see the messages that the MPI library really sent, run with", "belljar run SCENARIO --set trace.messages=true");
}

/** @param {any} run */
function loadsSection(run) {
  const own = section("links", "Links", "What the network's links carried over time. A link that is busy all the time, with a queue that grows, bounds whoever sends over it.");
  if (run.loads === null || run.loads.lines.length === 0) missing(own, "This run has no figures over time. Run it with", "belljar run SCENARIO --set network.statistics='\"1 ms\"'");
  else loads(own, run.loads);
  if (run.loads?.left_out > 0) missing(own, `${run.loads.left_out} less busy directions of links are not drawn.`);
  if ((run.summary?.links ?? []).length > 0) own.append(linkTotals(run));
}

/** @param {any} run */
function flamesSection(run) {
  const own = section("flames", "Profile", "Where processors were, by samples of the whole run: what a function called hangs below it, as wide as its share of samples. Click one to see it alone.");
  if (run.flame === null) missing(own, "This run took no samples. Run it with", "belljar run SCENARIO --set profile.every='\"100 us\"'");
  else flames(own, run.flame);
}

/** Lets the browser show what is there. */
const breath = () => new Promise((resolve) => setTimeout(resolve, 0));

async function show() {
  const data = JSON.parse(new TextDecoder().decode(await dataOf("data")));
  const [run, other] = data.runs;
  document.title = `${data.runs.map((/** @type {any} */ own) => own.name).join(" and ")} \u2013 Belljar report`;
  named("title").textContent = data.runs.map((/** @type {any} */ own) => own.name).join(" and ");
  named("state").remove();
  summarySection(run);
  if (other !== undefined) compareSection(data.runs, data.diff);
  await breath();
  await timelineSection(data.runs);
  await breath();
  if (run.traced !== null) {
    callsSection(run);
    await ranksSection(run, "a");
    sitesSection(run);
  }
  await breath();
  await drawnSections(run);
  if (run.traced !== null) {
    loopsSection(run);
    waitingSection(run);
    pathSection(run);
  }
  await breath();
  loadsSection(run);
  flamesSection(run);
  outputsSection(run);
  named("main").append(element("footer", {}, [`Made by Belljar ${data.version}. Charts over time by uPlot (MIT).`]));
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
  if (location.hash.length > 1) document.getElementById(location.hash.slice(1))?.scrollIntoView();
}

show().catch((error) => {
  const words = `This report cannot be shown: ${error instanceof Error ? error.message : error}. It needs a browser of 2023 or later (DecompressionStream).`;
  named("main").prepend(element("p", { role: "alert", class: "missing" }, [words]));
  document.documentElement.dataset.failed = words;
});
