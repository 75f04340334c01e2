// What a report costs a reader: `node measure.mjs REPORT.html` opens it in headless Chromium and prints the file's size, the time to the first paint and
// until all sections are there, and how long frames take to draw while the timeline is zoomed and moved, over all ranks and over a few.
import { spawn } from "node:child_process";
import { mkdtempSync, realpathSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const file = realpathSync(process.argv[2]);
const profile = mkdtempSync(join(tmpdir(), "report-"));
const options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1280,900", "--remote-debugging-pipe", `--user-data-dir=${profile}`];
const browser = spawn("chromium", options, { stdio: ["ignore", "ignore", "ignore", "pipe", "pipe"] });
const waiting = new Map();
let [rest, last] = [Buffer.alloc(0), 0];
browser.stdio[4].on("data", (data) => {
  rest = Buffer.concat([rest, data]);
  for (let end = rest.indexOf(0); end >= 0; end = rest.indexOf(0)) {
    const message = JSON.parse(rest.subarray(0, end).toString());
    rest = rest.subarray(end + 1);
    waiting.get(message.id)?.(message.result);
  }
});

/** Has the browser do something. */
function ask(method, params, sessionId) {
  last += 1;
  const id = last;
  browser.stdio[3].write(`${JSON.stringify({ id, method, params, sessionId })}\0`);
  return new Promise((resolve) => waiting.set(id, resolve));
}

const { targetId } = await ask("Target.createTarget", { url: "about:blank" });
const { sessionId } = await ask("Target.attachToTarget", { targetId, flatten: true });
await ask("Page.navigate", { url: `file://${file}` }, sessionId);

/** What the page says to this. */
async function value(expression) {
  const answer = await ask("Runtime.evaluate", { expression, awaitPromise: true, returnByValue: true }, sessionId);
  return answer.result.value;
}

let ready;
while (ready === undefined) {
  await new Promise((resolve) => setTimeout(resolve, 50));
  ready = await value("document.documentElement?.dataset.ready ?? document.documentElement?.dataset.failed");
}
const paint = await value("performance.getEntriesByName('first-contentful-paint')[0].startTime");
// Rows are joined ahead of time while nothing else is done.
await new Promise((resolve) => setTimeout(resolve, 3000));

/** Presses keys one after another, and says how long the frames took, in milliseconds. */
const pressed = (keys) => value(`(async () => {
  const canvas = document.querySelector("canvas.timeline");
  const frames = [];
  for (const key of ${JSON.stringify(keys)}) {
    canvas.dispatchEvent(new KeyboardEvent("keydown", { key }));
    await new Promise((resolve) => requestAnimationFrame(() => requestAnimationFrame(resolve)));
    frames.push(Number(canvas.dataset.frame));
  }
  return frames;
})()`);
const times = (key, count) => Array(count).fill(key);
const tour = [...times("+", 8), ...times("ArrowRight", 30), ...times("ArrowLeft", 30), ...times("-", 8)];
const said = (frames) => {
  const order = [...frames].sort((a, b) => a - b);
  return `${order.length} frames, median ${order[order.length >> 1]} ms, 95 % within ${order[Math.floor(order.length * 0.95)]} ms, longest ${order.at(-1)} ms`;
};
console.log(`size          ${(statSync(file).size / 1e6).toFixed(1)} MB`);
console.log(`first paint   ${Math.round(paint)} ms`);
console.log(`all sections  ${ready} ms`);
// Of many ranks classes are shown at first.
if (await value("document.querySelector('.rank-class') !== null")) await pressed(["c"]);
console.log(`all ranks     ${said(await pressed(tour))}`);
console.log(`few ranks     ${said(await pressed([...times("PageUp", 5), ...tour, ...times("+", 12), ...times("ArrowRight", 20)]))}`);
console.log(`timeline      ${await value("document.querySelector('.state').textContent")}`);
await ask("Browser.close", {});
browser.on("exit", () => rmSync(profile, { recursive: true, force: true, maxRetries: 5 }));
