// Tests of what needs no browser. Run by `node --test`, which tests/script.rs does.
import assert from "node:assert/strict";
import test from "node:test";

import { Reader } from "../script/data/binary.js";
import { arranged, rowsOf } from "../script/timeline/classes.js";
import { colourOf, kindName } from "../script/data/colours.js";
import { marks, xOf, yOf } from "../script/timeline/drawing.js";
import { paired, rankWords } from "../script/data/comparing.js";
import { boxesOf, joined } from "../script/sections/flames.js";
import { grouped, levelsOf, scaleFor, waitOf } from "../script/timeline/levels.js";
import { sameParts } from "../script/sections/loops.js";
import { cellsOf, differences, heat } from "../script/sections/matrix.js";
import { byRow, firstOf, pageOf, placesOf, wordsOf } from "../script/timeline/pages.js";
import { factsOf } from "../script/sections/overview.js";
import { siteWords } from "../script/sections/sections.js";
import { sorted } from "../script/data/tables.js";
import { Span } from "../script/timeline/span.js";
import { byteWords, changeWords, countWords, decimalWords, manyWords, shareWords, timeWords } from "../script/data/units.js";

const plain = (text) => text.replaceAll("\u00a0", " ");

test("numbers are said with four digits and their unit", () => {
  assert.equal(plain(timeWords(0)), "0 ps");
  assert.equal(plain(timeWords(1_500)), "1.500 ns");
  assert.equal(plain(timeWords(185_800_000_000)), "185.8 ms");
  assert.equal(plain(timeWords(2.5e15)), "2500 s");
  assert.equal(plain(byteWords(11_950_000)), "11.95 MB");
  assert.equal(plain(countWords(1_234_567)), "1 234 567");
  assert.equal(manyWords(1, "call"), "1 call");
  assert.equal(plain(manyWords(1000, "call")), "1 000 calls");
  assert.equal(plain(shareWords(1, 0)), "0.0 %");
  assert.equal(plain(changeWords(100, 150)), "+50.0 %");
  assert.equal(plain(changeWords(100, 50)), "\u221250.0 %");
  assert.equal(plain(changeWords(10, 100)), "10 times");
});

// The tables of sim/src/figures.rs.
test("figures are rounded as the command does", () => {
  const times = [
    [0, "0 ps"], [999, "999 ps"], [1_500, "1.500 ns"], [1_234_567, "1.235 us"], [9_999_499, "9.999 us"], [9_999_500, "10.00 us"],
    [36_106_559_614, "36.11 ms"], [99_995_000_000, "100.0 ms"], [185_849_999_999, "185.8 ms"], [185_850_000_000, "185.9 ms"],
    [999_949_999_999, "999.9 ms"], [999_950_000_000, "1.000 s"], [90_000_000_000_000, "90.00 s"], [5_000_500_000_000_000, "5001 s"],
  ];
  for (const [ps, words] of times) assert.equal(plain(timeWords(ps)), words);
  const shares = [[1, 3, "33.3 %"], [2, 3, "66.7 %"], [1, 2000, "0.1 %"], [1, 2001, "0.0 %"], [1235, 10_000, "12.4 %"], [3, 2, "150.0 %"], [9996, 10_000, "100.0 %"]];
  for (const [part, whole, words] of shares) assert.equal(plain(shareWords(part, whole)), words);
  const decimals = [[0.125, 2, "0.13"], [2.5, 0, "3"], [-0.25, 1, "-0.3"], [-0.04, 1, "0.0"], [1234.5678, 2, "1234.57"], [0.999, 2, "1.00"], [12, 3, "12.000"], [0, 1, "0.0"]];
  for (const [value, places, words] of decimals) assert.equal(decimalWords(value, places), words);
  assert.equal(plain(byteWords(999_949)), "999.9 kB");
  assert.equal(plain(byteWords(999_999)), "1.000 MB");
  assert.equal(plain(changeWords(2000, 2001)), "+0.1 %");
  assert.equal(plain(changeWords(2000, 1999)), "\u22120.1 %");
});

test("numbers are read as they were written", () => {
  const reader = new Reader(new Uint8Array([127, 0x80, 1, 1, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 1, 2, 0x61, 0x62]));
  assert.equal(reader.number(), 127);
  assert.equal(reader.number(), 128);
  assert.equal(reader.signed(), -1);
  assert.equal(reader.number(), 2 ** 49);
  assert.equal(reader.text(), "ab");
  assert.equal(reader.number(), 0, "what is cut is 0, and no error");
});

test("a page has its calls at their times", () => {
  // Two calls of row 0, one of row 1 that never returned; x has one number, y two.
  const bytes = [3, 0, 1, 0, 1, 2, 1, 100, 100, 5, 11, 0, 3, 0, 0, 1, 2, 2, 0x78, 1, 3, 1, 0x79, 1, 4, 5, 6, 7, 1, 0, 1, 20, 60, 8, 1, 0, 50, 7, 0, 1];
  const page = pageOf(new Uint8Array(bytes), 90);
  assert.deepEqual([...page.entry], [100, 100, 115]);
  assert.deepEqual([...page.exit], [110, -1, 117]);
  assert.deepEqual([0, 1, 2].map((call) => wordsOf(page, call)), ["x4", "x5", "6y7"]);
  const { from, to, sent, received, bytes: sizes } = page.messages;
  assert.deepEqual([from, to, sent, received, sizes].map((column) => [...column]), [[0], [1], [110], [140], [8]]);
  const { row, at, time, kind, other } = page.waits;
  assert.deepEqual([row, at, time, kind, other].map((column) => [...column]), [[0], [140], [7], [0], [1]]);
});

test("calls of a row are found without the others", () => {
  const index = byRow(Uint32Array.from([7, 2, 7, 2, 9, 7]));
  const of = (row) => [...index.order.subarray(...placesOf(index, row))];
  assert.deepEqual([2, 7, 9, 3, 10].map(of), [[1, 3], [0, 2, 5], [4], [], []]);
  assert.equal(firstOf(2, 9, (at) => at * at >= 30), 6);
  assert.equal(firstOf(2, 9, () => false), 9);
});

test("scales are as fine as pixels, and no finer than there are", () => {
  assert.equal(scaleFor(100, 7, 50), 0);
  assert.equal(scaleFor(100, 7, 399), 1);
  assert.equal(scaleFor(100, 7, 400), 2);
  assert.equal(scaleFor(100, 7, 1e12), 6);
});

test("levels are read row by row, and rows are joined", () => {
  const [level] = levelsOf(new Uint8Array([2, 6, 1, 2, 1, 0, 3, 0, 6, 200, 10, 100, 0, 30, 0, 6, 0, 5, 9, 0, 0, 0]), 1);
  const joined = grouped(level, [0, 1, 2], 2);
  assert.deepEqual([...joined.dominant], [1, 2, 3, 0]);
  assert.deepEqual([...joined.share], [150, 5, 30, 0]);
  assert.deepEqual([...joined.wait], [9, 5, 0, 0]);
  assert.equal(waitOf(0), 0);
  assert.equal(waitOf(41), 1024);
});

test("one row of each class is shown, or all of it", () => {
  /** @type {any[]} */
  const classes = [{ representative: 2, rows: [[0, 0], [2, 3]] }, { representative: 1, rows: [[1, 1], [4, 5]] }];
  assert.deepEqual(rowsOf(classes[0]), [2, 0, 3]);
  const closed = arranged(classes, new Set(), 6);
  assert.deepEqual([...closed.lines], [2, 1]);
  assert.deepEqual([...closed.placeOf], [0, 1, 0, 0, 1, 1]);
  const opened = arranged(classes, new Set([1]), 6);
  assert.deepEqual([...opened.lines], [2, 1, 4, 5]);
  assert.deepEqual([...opened.placeOf], [0, 1, 0, 0, 2, 3]);
});

test("what is shown stays within the run", () => {
  const span = new Span(1000);
  let told = 0;
  span.listeners.push(() => (told += 1));
  span.zoom(0.5, 0);
  assert.ok(Math.abs(span.to - span.from - 500) < 1e-9);
  span.move(100);
  assert.ok(span.to <= 1010 + 1e-9);
  span.zoom(1e9);
  assert.ok(span.to - span.from <= 1020 + 1e-9);
  span.zoom(1e-12);
  assert.ok(span.to - span.from >= 20 - 1e-6);
  assert.equal(told, 4);
});

test("places in the picture follow from the view", () => {
  const view = { from: 0, to: 100, first: 2, rows: 4, group: 1, width: 184, height: 62 };
  assert.equal(xOf(view, 50), 134);
  assert.equal(yOf(view, 3), 32);
  assert.deepEqual(marks(0, 100, 5), [0, 20, 40, 60, 80, 100]);
});

test("every kind of function has a name and a colour", () => {
  assert.deepEqual([0, 1, 7].map(kindName), ["start and end", "barrier", "other MPI"]);
  assert.ok([0, 1, 2, 3, 4, 5, 6, 7].every((kind) => colourOf(kind).length === 3));
});

test("cells have places on the scale by their logarithm", () => {
  assert.deepEqual(cellsOf(new Uint8Array([1, 0, 3, 5, 100])), [{ from: 0, to: 3, messages: 5, bytes: 100 }]);
  assert.equal(heat(10, 1, 100), 0.5);
  assert.equal(heat(0, 1, 100), 0);
  assert.equal(heat(7, 7, 7), 1);
});

test("what was called is below its caller", () => {
  const boxes = boxesOf({ name: "all", samples: 4, calls: [{ name: "a", samples: 1 }, { name: "b", samples: 3, calls: [{ name: "c", samples: 3 }] }] });
  assert.deepEqual(boxes.map((box) => [box.node.name, box.depth, box.from, box.to]), [["all", 0, 0, 1], ["a", 1, 0, 0.25], ["b", 1, 0.25, 1], ["c", 2, 0.25, 1]]);
});

test("two runs' functions are as wide as their mean share", () => {
  const a = { name: "all", samples: 10, calls: [{ name: "f", samples: 10 }] };
  const b = { name: "all", samples: 100, calls: [{ name: "f", samples: 50 }, { name: "g", samples: 50 }] };
  const root = joined(a, b, [10, 100]);
  assert.deepEqual(root.of, [10, 100]);
  assert.deepEqual(root.calls.map((node) => [node.name, node.samples, node.of]), [["f", 750_000, [10, 50]], ["g", 250_000, [0, 50]]]);
});

test("what differs between two runs' pairs is told by pair", () => {
  const cell = (from, to, bytes) => ({ from, to, messages: 1, bytes });
  const found = differences([cell(0, 1, 10), cell(1, 0, 5)], [cell(0, 1, 12), cell(2, 0, 7)]);
  assert.deepEqual(found.map(({ from, to, messages, bytes }) => [from, to, messages, bytes]), [[0, 1, 0, 2], [1, 0, -1, -5], [2, 0, 1, 7]]);
});

test("rows of two runs that are about the same stand together", () => {
  const rows = (...names) => names.map((name) => ({ name }));
  const pairs = paired([rows("x", "y"), rows("z", "y")], (row) => row.name);
  assert.deepEqual(pairs.map(({ a, b }) => [a?.name, b?.name]), [["x", undefined], ["y", "y"], [undefined, "z"]]);
});

test("facts of one name are held against each other in their order", () => {
  const runs = [{ facts: [["probe", "x"], ["probe", "y"], ["seed", "1"]] }, { facts: [["probe", "x"], ["probe", "z"]] }];
  assert.deepEqual(factsOf(runs), [["probe", ["x", "x"]], ["probe", ["y", "z"]], ["seed", ["1", "nothing"]]]);
});

test("programs are the same if their loops and calls are", () => {
  const calls = (...texts) => ({ kind: "sequence", calls: texts.map((text) => ({ text })) });
  const loop = (...body) => ({ kind: "loop", body });
  assert.ok(sameParts([loop(calls("a", "b"))], [loop(calls("a", "b"))]));
  assert.ok(!sameParts([loop(calls("a", "b"))], [loop(calls("a"))]));
  assert.ok(!sameParts([loop(calls("a"))], [calls("a")]));
});

test("rows are sorted, equal ones as they were", () => {
  const rows = [{ n: 1, k: "a" }, { n: 2, k: "b" }, { n: 1, k: "c" }];
  assert.deepEqual(sorted(rows, (row) => row.n, true).map((row) => row.k), ["b", "a", "c"]);
});

test("places in programs are said with file and line", () => {
  const named = { object: "/bin/halo", address: 16, places: [{ function: "exchange", file: "/src/halo.c", line: 42 }] };
  assert.equal(siteWords([named, { object: "/bin/halo", address: 255, places: [] }]), "exchange (halo.c:42) \u2190 halo+0xff");
  assert.equal(rankWords({ job: 1, rank: 3 }), "1:3");
});
