// @ts-check
/** @file Buttons and boxes that control timelines, for use without a wheel and keys. Used by main. */

import { element } from "../data/elements.js";

/** @typedef {import("./timeline.js").Timeline} Timeline */

/**
 * Creates buttons for a span and its timelines.
 * @param {import("./span.js").Span} span
 * @param {Timeline[]} timelines
 * @returns {HTMLElement}
 */
export function controls(span, timelines) {
  /** @type {[string, string, () => void][]} */
  const buttons = [
    ["\u2212", "Zoom out", () => span.zoom(2)],
    ["+", "Zoom in", () => span.zoom(0.5)],
    ["\u2190", "Earlier", () => span.move(-0.4)],
    ["\u2192", "Later", () => span.move(0.4)],
    ["Whole run", "Show the whole run", () => timelines.forEach((timeline) => timeline.key("Home"))],
    ["List calls", "List the calls in view", () => timelines.forEach((timeline) => timeline.listed())],
  ];
  const made = element("div", { class: "controls", role: "toolbar", "aria-label": "Timeline" });
  for (const [text, words, act] of buttons) {
    const button = element("button", { type: "button", title: words, "aria-label": words }, [text]);
    button.addEventListener("click", act);
    made.append(button);
  }
  /** @type {[string, boolean, (timeline: Timeline, on: boolean) => void][]} */
  const choices = [
    ["critical path", false, (timeline, on) => (timeline.wantsPath = on)],
    ["messages", true, (timeline, on) => (timeline.wantsMessages = on)],
  ];
  for (const [text, on, act] of choices) {
    const box = element("input", { type: "checkbox" });
    box.checked = on;
    box.addEventListener("change", () => {
      for (const timeline of timelines) {
        act(timeline, box.checked);
        timeline.draw();
      }
    });
    made.append(element("label", {}, [box, ` ${text}`]));
  }
  return made;
}
