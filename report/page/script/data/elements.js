// @ts-check
/** @file Elements of the page. Data of a run is only inserted as text. Used by sections. */

/**
 * Creates an element.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} kind
 * @param {Record<string, string>} [attributes]
 * @param {(Node | string)[]} [children] Strings become text.
 * @returns {HTMLElementTagNameMap[K]}
 */
export function element(kind, attributes = {}, children = []) {
  const made = document.createElement(kind);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

/**
 * Returns the page's element with this name.
 * @param {string} name
 * @returns {HTMLElement}
 */
export function named(name) {
  const found = document.getElementById(name);
  if (found === null) throw new Error(`the page has no ${name}`);
  return found;
}

/**
 * Creates a section with its heading and an introduction, in the page and in its contents.
 * @param {string} name
 * @param {string} heading
 * @param {string} what An introduction: its contents and how to read it.
 * @returns {HTMLElement}
 */
export function section(name, heading, what) {
  const made = element("section", { id: name, "aria-labelledby": `${name}-heading` }, [
    element("h2", { id: `${name}-heading` }, [heading]),
    element("p", { class: "what" }, [what]),
  ]);
  named("main").append(made);
  named("contents").append(element("a", { href: `#${name}` }, [heading]));
  return made;
}

/**
 * Explains how to get data that a run lacks.
 * @param {HTMLElement} into
 * @param {string} words
 * @param {string} [command]
 */
export function missing(into, words, command) {
  const said = element("p", { class: "missing" }, [words]);
  if (command !== undefined) said.append(" ", element("code", {}, [command]));
  into.append(said);
}

/**
 * Shows text next to the pointer.
 * @param {string[]} lines Empty to hide it.
 * @param {number} x Position in the window.
 * @param {number} y
 */
export function tip(lines, x, y) {
  const box = named("tip");
  box.hidden = lines.length === 0;
  if (box.hidden) return;
  box.replaceChildren(...lines.map((line, number) => element(number === 0 ? "strong" : "span", {}, [line])));
  const room = document.documentElement.clientWidth - box.offsetWidth - 8;
  box.style.left = `${Math.max(4, Math.min(x + 14, room))}px`;
  const below = y + 18 + box.offsetHeight < innerHeight;
  box.style.top = `${below ? y + 18 : Math.max(4, y - box.offsetHeight - 12)}px`;
}

/**
 * Creates a canvas with the screen's resolution and the width of its container.
 * @param {string} label A description for screen readers.
 * @param {number} height In CSS pixels.
 * @returns {HTMLCanvasElement}
 */
export function canvas(label, height) {
  const made = element("canvas", { role: "img", "aria-label": label, tabindex: "0" });
  made.style.height = `${height}px`;
  return made;
}

/**
 * Fits a canvas to its container; returns its size in CSS pixels and a context that draws in the same unit.
 * @param {HTMLCanvasElement} of
 * @returns {{ pen: CanvasRenderingContext2D, width: number, height: number, scale: number }}
 */
export function fit(of) {
  const scale = devicePixelRatio || 1;
  const [width, height] = [of.clientWidth, of.clientHeight];
  const [wide, high] = [Math.round(width * scale), Math.round(height * scale)];
  if (of.width !== wide || of.height !== high) {
    of.width = wide;
    of.height = high;
  }
  const pen = of.getContext("2d");
  if (pen === null) throw new Error("the browser draws nothing");
  pen.setTransform(scale, 0, 0, scale, 0, 0);
  return { pen, width, height, scale };
}

/**
 * Returns the value of a style sheet's variable.
 * @param {string} name
 * @returns {string}
 */
export function styled(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
