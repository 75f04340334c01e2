// @ts-check
/** @file A flame graph with callees below their callers, as wide as their share of samples. Used by sections. */

import { between } from "../data/colours.js";
import { canvas, element, fit, styled, tip } from "../data/elements.js";
import { manyWords, shareWords, timeWords } from "../data/units.js";

/** Height of a line, in CSS pixels. */
const FLAME = 19;

/**
 * A function at its position, with its samples. With two runs, samples are shares in millionths of both together, and `of` has each run's.
 * @typedef {{ name: string, samples: number, calls?: FlameNode[], of?: [number, number] }} FlameNode
 */
/** @typedef {{ node: FlameNode, depth: number, from: number, to: number }} Box */

/**
 * Returns the boxes of a tree, with their sides as fractions of the whole.
 * @param {FlameNode} root
 * @returns {Box[]}
 */
export function boxesOf(root) {
  /** @type {Box[]} */
  const boxes = [];
  /**
   * @param {FlameNode} node
   * @param {number} depth
   * @param {number} from
   */
  const place = (node, depth, from) => {
    boxes.push({ node, depth, from, to: from + node.samples / Math.max(root.samples, 1) });
    let at = from;
    for (const called of node.calls ?? []) {
      place(called, depth + 1, at);
      at += called.samples / Math.max(root.samples, 1);
    }
  };
  place(root, 0, 0);
  return boxes;
}

/**
 * Joins two trees: each function is as wide as its mean share in both, so that functions of only one of them are visible.
 * @param {FlameNode | undefined} a
 * @param {FlameNode | undefined} b
 * @param {[number, number]} all Samples of each.
 * @returns {FlameNode}
 */
export function joined(a, b, all) {
  const names = new Set([...(a?.calls ?? []), ...(b?.calls ?? [])].map((node) => node.name));
  const called = (/** @type {FlameNode | undefined} */ node, /** @type {string} */ name) => node?.calls?.find((own) => own.name === name);
  /** @type {[number, number]} */
  const of = [a?.samples ?? 0, b?.samples ?? 0];
  return {
    name: a?.name ?? b?.name ?? "",
    samples: (of[0] / Math.max(all[0], 1) + of[1] / Math.max(all[1], 1)) * 5e5,
    of,
    calls: [...names].sort().map((name) => joined(called(a, name), called(b, name), all)),
  };
}

/**
 * Returns a colour for a change: red for more, blue for less, pale for the same.
 * @param {number} by Difference in the share of all samples.
 * @returns {number[]}
 */
export function changeColour(by) {
  return between([236, 232, 226], by > 0 ? [214, 70, 50] : [60, 110, 200], Math.min(Math.abs(by) * 12, 1));
}

/**
 * Returns a fixed colour for a name.
 * @param {string} name
 * @returns {number[]}
 */
function flameColour(name) {
  let hash = 7;
  for (const letter of name) hash = (hash * 31 + (letter.codePointAt(0) ?? 0)) % 1009;
  return between([240, 200, 90], [225, 120, 70], hash / 1009);
}

/**
 * Shows a flame graph of one run, or of two joined, with colours for the run in which a function has more of the time.
 * @param {HTMLElement} into
 * @param {any[]} profiles Profiles of each run.
 */
export function flames(into, profiles) {
  const [profile, other] = profiles;
  /** @type {[number, number]} */
  const all = [profile.tree.samples, other?.tree.samples ?? 0];
  const root = /** @type {FlameNode} */ (other === undefined ? profile.tree : joined(profile.tree, other.tree, all));
  const grown = (/** @type {FlameNode} */ { of }) => (of === undefined ? 0 : of[1] / Math.max(all[1], 1) - of[0] / Math.max(all[0], 1));
  if (other !== undefined) {
    into.append(element("p", {}, ["Each function is as wide as its mean share of both runs. Red ones have a larger share in b, blue ones in a, the deeper the more."]));
  }
  const tree = boxesOf(root);
  const deepest = tree.reduce((most, box) => Math.max(most, box.depth), 0);
  const picture = canvas("Flame graph. Arrows move from function to function, Enter shows one, Escape all.", (deepest + 1) * FLAME);
  const search = element("input", { type: "search", placeholder: "Find a function", "aria-label": "Find a function" });
  const found = element("span", { "aria-live": "polite" });
  let [shown, at] = [tree[0], tree[0]];
  const words = () => search.value.trim().toLowerCase();
  const xs = (/** @type {Box} */ box) => {
    const wide = picture.clientWidth / (shown.to - shown.from);
    return [(box.from - shown.from) * wide, (box.to - shown.from) * wide];
  };
  const draw = () => {
    const { pen, width, height } = fit(picture);
    pen.clearRect(0, 0, width, height);
    pen.font = "12px ui-monospace, monospace";
    pen.textBaseline = "middle";
    for (const box of tree) {
      const [left, right] = xs(box);
      if (right < 0 || left > width || right - left < 0.4) continue;
      const [from, to] = [Math.max(left, 0), Math.min(right, width)];
      const hit = words() !== "" && box.node.name.toLowerCase().includes(words());
      const plain = box.node.of === undefined ? flameColour(box.node.name) : changeColour(grown(box.node));
      const colour = hit ? [86, 180, 233] : plain;
      pen.fillStyle = `rgb(${colour.join(", ")})`;
      pen.globalAlpha = words() !== "" && !hit ? 0.35 : 1;
      pen.fillRect(from, box.depth * FLAME, Math.max(to - from - 0.5, 0.4), FLAME - 1);
      pen.globalAlpha = 1;
      if (box === at && document.activeElement === picture) {
        pen.strokeStyle = styled("--path");
        pen.lineWidth = 2;
        pen.strokeRect(from + 1, box.depth * FLAME + 1, to - from - 2, FLAME - 3);
      }
      if (to - from < 28) continue;
      pen.fillStyle = "#111";
      const room = Math.floor((to - from - 6) / 7.3);
      pen.fillText(box.node.name.length > room ? `${box.node.name.slice(0, Math.max(room - 1, 1))}\u2026` : box.node.name, from + 3, (box.depth + 0.5) * FLAME);
    }
  };
  const counted = (/** @type {number} */ samples, /** @type {number} */ run) =>
    `${shareWords(samples, all[run])}: ${manyWords(samples, "sample")}, about ${timeWords(samples * profiles[run].every)}`;
  const lines = (/** @type {Box} */ { node }) =>
    node.of === undefined ? [node.name, counted(node.samples, 0)] : [node.name, `a ${counted(node.of[0], 0)}`, `b ${counted(node.of[1], 1)}`];
  const under = (/** @type {PointerEvent | MouseEvent} */ event) => {
    const depth = Math.floor(event.offsetY / FLAME);
    return tree.find((box) => box.depth === depth && xs(box)[0] <= event.offsetX && xs(box)[1] > event.offsetX);
  };
  picture.addEventListener("pointermove", (event) => {
    const box = under(event);
    tip(box === undefined ? [] : lines(box), event.clientX, event.clientY);
  });
  picture.addEventListener("pointerleave", () => tip([], 0, 0));
  picture.addEventListener("click", (event) => {
    const box = under(event) ?? tree[0];
    [shown, at] = [box, box];
    draw();
  });
  picture.addEventListener("keydown", (event) => {
    const step = /** @type {Record<string, (box: Box) => boolean>} */ ({
      ArrowDown: (box) => box.depth === at.depth + 1 && box.from >= at.from && box.to <= at.to + 1e-9,
      ArrowUp: (box) => box.depth === at.depth - 1 && box.from <= at.from && box.to >= at.to - 1e-9,
      ArrowRight: (box) => box.depth === at.depth && box.from >= at.to - 1e-12 && box !== at,
    })[event.key];
    const next = event.key === "ArrowLeft"
      ? tree.findLast((box) => box.depth === at.depth && box.to <= at.from + 1e-12)
      : step === undefined ? undefined : tree.find(step);
    if (event.key === "Enter") shown = at;
    else if (event.key === "Escape") [shown, at] = [tree[0], tree[0]];
    else if (next === undefined) return;
    else at = next;
    event.preventDefault();
    picture.setAttribute("aria-label", lines(at).join(": "));
    const box = picture.getBoundingClientRect();
    tip(lines(at), box.left + Math.max(xs(at)[0], 0), box.top + at.depth * FLAME);
    draw();
  });
  search.addEventListener("input", () => {
    const hits = words() === "" ? [] : tree.filter((box) => box.node.name.toLowerCase().includes(words()));
    // A match within another match counts only once.
    let [sum, until] = [0, -1];
    for (const hit of hits) {
      if (hit.from < until - 1e-12) continue;
      sum += hit.node.samples;
      until = hit.to;
    }
    found.textContent = words() === "" ? "" : ` ${shareWords(sum, root.samples)} of samples`;
    draw();
  });
  into.append(element("div", { class: "controls" }, [search, found]), picture);
  new ResizeObserver(draw).observe(picture);
}
