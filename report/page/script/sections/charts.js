// @ts-check
/** @file Loads of links over time, by uPlot. Used by sections. */

import { element, styled } from "../data/elements.js";
import { byteWords, decimalWords, timeWords } from "../data/units.js";

/** Colours of lines, after Okabe and Ito; and dashes, so that more lines are distinguishable. */
const LINES = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#999999"];
/** @type {number[][]} */
const DASHES = [[], [6, 3], [2, 3]];
/** Number of lines that are shown at first. */
const SHOWN = 6;

/** The measures: the name, the values' key, and the format. */
const MEASURES = [
  { name: "rate", key: "bytes", say: (/** @type {number} */ value) => `${byteWords(value)}/s` },
  { name: "busy", key: "busy", say: (/** @type {number} */ value) => `${decimalWords(100 * value, 0)} %` },
  { name: "longest queue", key: "queue", say: byteWords },
];

/**
 * Shows loads of links.
 * @param {HTMLElement} into
 * @param {any} loads
 * @param {string} letter The run's letter.
 */
export function loads(into, loads, letter) {
  const place = element("div", { class: "chart" });
  const choice = element("fieldset", { class: "controls" }, [element("legend", {}, ["Links"])]);
  let measure = MEASURES[0];
  /** @type {any} */
  let chart;
  const draw = () => {
    chart?.destroy();
    const step = loads.times.length > 1 ? loads.times[1] - loads.times[0] : 1;
    const values = loads.lines.map((/** @type {any} */ line) =>
      measure.key === "bytes" ? line.bytes.map((/** @type {number} */ bytes) => bytes / step) : line[measure.key],
    );
    const axis = { stroke: styled("--text"), grid: { stroke: styled("--line"), width: 0.5 }, ticks: { stroke: styled("--line") } };
    const series = loads.lines.map((/** @type {any} */ line, /** @type {number} */ number) => ({
      label: line.name,
      stroke: LINES[number % LINES.length],
      dash: DASHES[Math.floor(number / LINES.length) % DASHES.length],
      width: 1.5,
      show: number < SHOWN,
      value: (/** @type {unknown} */ _, /** @type {number | null} */ value) => (value === null ? "" : measure.say(value)),
    }));
    const width = Math.max(place.clientWidth, 280);
    chart = new /** @type {any} */ (globalThis).uPlot(
      {
        width,
        height: 280,
        scales: { x: { time: false } },
        series: [{ label: "time", value: (/** @type {unknown} */ _, /** @type {number | null} */ time) => (time === null ? "" : timeWords(time * 1e12)) }, ...series],
        axes: [
          { ...axis, values: (/** @type {unknown} */ _, /** @type {number[]} */ times) => times.map((time) => timeWords(time * 1e12)), space: 80 },
          { ...axis, values: (/** @type {unknown} */ _, /** @type {number[]} */ all) => all.map(measure.say), size: 94 },
        ],
      },
      [loads.times, ...values],
      place,
    );
  };
  for (const own of MEASURES) {
    const radio = element("input", { type: "radio", name: `measure-${letter}`, value: own.key });
    radio.checked = own === measure;
    radio.addEventListener("change", () => {
      measure = own;
      draw();
    });
    choice.append(element("label", {}, [radio, ` ${own.name}`]));
  }
  into.append(choice, place);
  new ResizeObserver(() => chart?.setSize({ width: Math.max(place.clientWidth, 280), height: 280 })).observe(place);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  draw();
}
