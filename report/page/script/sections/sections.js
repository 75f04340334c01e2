// @ts-check
/** @file Calls, ranks and call sites, of one run or of two side by side. Used by main. */

import { Reader, dataOf } from "../data/binary.js";
import { colourOf, kindName, rgb } from "../data/colours.js";
import { RANK, both, compared, countColumn, largest, rankWords, timeColumn } from "../data/comparing.js";
import { element, missing, section } from "../data/elements.js";
import { sorted } from "../data/tables.js";
import { byteWords, shareWords, timeWords } from "../data/units.js";

/**
 * Formats a location in a program, from the innermost frame on.
 * @param {any[]} frames
 * @returns {string}
 */
export function siteWords(frames) {
  const base = (/** @type {string} */ path) => path.split("/").pop() ?? "";
  const words = frames.flatMap((frame) => {
    const places = frame.places.filter((/** @type {any} */ place) => place.function !== null);
    const file = frame.object === null ? "" : base(frame.object);
    if (places.length === 0) return [`${file}+0x${frame.address.toString(16)}`];
    return places.map((/** @type {any} */ place) => `${place.function} (${place.file === null ? file : `${base(place.file)}:${place.line ?? "?"}`})`);
  });
  return words.join(" \u2190 ");
}

/** @param {any[]} runs One run, or two to be compared. */
export function callsSection(runs) {
  const own = section("calls", "Calls by function", "All calls that the program made. Long medians mean that each call takes long; a mean far above the median, that a few do. Times are virtual and exact.");
  const functions = runs.map((run) => run.traced.statistics.functions);
  own.append(compared("Functions", [
    { name: "function", say: (row) => row.function },
    both(countColumn("calls", "calls")),
    both(timeColumn("total", "total_ps", largest(functions, "total_ps"))),
    timeColumn("median", "median_ps"),
    both(timeColumn("mean", "mean_ps")),
    timeColumn("longest", "max_ps"),
    both(countColumn("sent", "sent", byteWords)),
    countColumn("received", "received", byteWords),
  ], functions, (row) => row.function));
  const sizes = runs.map((run) => run.traced.statistics.sizes);
  if (sizes.flat().length > 0) {
    own.append(compared("Messages by size", [
      { name: "size", say: (row) => (row.from === row.to ? byteWords(row.from) : `${byteWords(row.from)} to ${byteWords(row.to)}`), by: (row) => row.from, label: true },
      both({ ...countColumn("messages", "messages"), of: largest(sizes, "messages") }),
      both(countColumn("bytes", "bytes", byteWords)),
    ], sizes, (row) => `${row.from} ${row.to}`));
  }
}

/**
 * Returns the time of each rank in each kind of function.
 * @param {any} run
 * @param {string} letter
 * @returns {Promise<Map<string, Map<number, number>>>}
 */
async function kindSums(run, letter) {
  const { rows, function_kinds: kindsOf } = run.traced.timeline;
  const reader = new Reader(await dataOf(`${letter}-sums`));
  /** @type {Map<string, Map<number, number>>} */
  const sums = new Map();
  for (let left = reader.number(); left > 0; left -= 1) {
    const [row, name, , time] = [reader.number(), reader.number(), reader.number(), reader.number()];
    const key = rankWords(rows[row]);
    const kinds = sums.get(key) ?? new Map();
    const kind = kindsOf[name - 1];
    kinds.set(kind, (kinds.get(kind) ?? 0) + time);
    sums.set(key, kinds);
  }
  return sums;
}

/**
 * Draws a rank's time as a line of colours.
 * @param {any} rank
 * @param {Map<number, number> | undefined} kinds
 * @param {number} longest
 */
function stackLine(rank, kinds, longest) {
  const line = element("div", { class: "line" });
  const part = (/** @type {number} */ time, /** @type {string} */ colour, /** @type {string} */ what) => {
    const made = element("span", { title: `${what}: ${timeWords(time)}` });
    made.style.width = `${(100 * time) / Math.max(longest, 1)}%`;
    made.style.background = colour;
    line.append(made);
  };
  part(rank.compute_ps, "var(--compute)", "outside MPI");
  for (const [kind, time] of sorted([...(kinds ?? [])], ([kind]) => kind, false)) part(time, rgb(colourOf(kind)), kindName(kind));
  return line;
}

/** @param {any[]} runs One run, or two to be compared. */
export async function ranksSection(runs) {
  const own = section("ranks", "Ranks", "Each line is a rank's time from its first call to its last return: outside MPI (grey), and in MPI by kind of function. Lines of different colours are ranks that do different things; grey parts of different length are unequal work. The share in MPI is of the time between start and end of MPI.");
  const lists = runs.map((run) => run.traced.statistics.ranks);
  const [ranks] = lists;
  const sums = await Promise.all(runs.map((run, number) => kindSums(run, "ab"[number])));
  const used = new Set(sums.flatMap((own) => [...own.values()].flatMap((kinds) => [...kinds.keys()])));
  own.append(legendOf([...used].sort((a, b) => a - b)));
  const longest = lists.flat().reduce((most, rank) => Math.max(most, rank.compute_ps + rank.mpi_ps), 0);
  const lines = sorted(ranks, (/** @type {any} */ rank) => rank.compute_ps, true);
  const shown = lines.length <= 64 ? ranks : [...lines.slice(0, 32), ...lines.slice(-32)];
  if (shown !== ranks) own.append(element("p", {}, ["The 32 ranks that compute longest, and the 32 that compute least; the table has all."]));
  const others = new Map((lists[1] ?? []).map((/** @type {any} */ rank) => [rankWords(rank), rank]));
  own.append(element("div", { class: "stack", role: "img", "aria-label": "Time of ranks by kind of function; the table has the numbers" }, shown.flatMap((/** @type {any} */ rank) => {
    const name = rankWords(rank);
    const twin = others.get(name);
    return [
      element("div", { class: "ranked" }, [element("span", {}, [runs.length > 1 ? `${name} a` : name]), stackLine(rank, sums[0].get(name), longest)]),
      ...(twin === undefined ? [] : [element("div", { class: "ranked" }, [element("span", {}, ["b"]), stackLine(twin, sums[1].get(name), longest)])]),
    ];
  })));
  const groups = groupsOf(runs);
  own.append(compared("By rank", [
    RANK,
    { ...countColumn("node", "node"), label: true },
    ...(groups.size > 0 ? [{ name: "group", say: (/** @type {any} */ row) => groups.get(row) ?? "", label: true }] : []),
    countColumn("calls", "calls"),
    both(timeColumn("outside MPI", "compute_ps", longest)),
    both(timeColumn("in MPI", "mpi_ps", longest)),
    timeColumn("start and end", "start_and_end_ps", longest),
    { name: "share in MPI", say: (row) => shareWords(mainOf(row), mainOf(row) + row.compute_ps), by: (row) => mainOf(row) / Math.max(mainOf(row) + row.compute_ps, 1) },
    countColumn("sent", "sent", byteWords),
    countColumn("received", "received", byteWords),
    { name: "interval", say: (row) => timeWords(row.intervals.harmonic_mean_s * 1e12), by: (row) => row.intervals.harmonic_mean_s },
  ], lists, rankWords), ...efficiencyTable(runs));
}

/** Metrics of efficiency, each with its definition. */
const EFFICIENCIES = [
  ["parallel", "parallel efficiency", "load balance times communication efficiency"],
  ["load_balance", "load balance", "mean useful computation over the most of a rank"],
  ["communication", "communication efficiency", "serialisation times transfer efficiency"],
  ["serialisation", "serialisation efficiency", "most useful computation over the main part on an ideal network"],
  ["transfer", "transfer efficiency", "main part on an ideal network over the main part"],
];

/**
 * Shows efficiencies of the main part; empty for a part of the calls.
 * @param {any[]} runs
 * @returns {HTMLElement[]}
 */
function efficiencyTable(runs) {
  const all = runs.map((run) => run.traced.statistics.efficiency);
  if (all.some((own) => own === null || own === undefined)) return [];
  const lists = all.map((own) => EFFICIENCIES.map(([key, name, words]) => ({ name, words, share: own[key] })));
  const warnings = new Set(all.flatMap((own) => own.warnings));
  return [
    compared("Efficiency of the main part", [
      { name: "efficiency", say: (row) => row.name },
      { name: "definition", say: (row) => row.words },
      both({ name: "share", say: (row) => (row.share === null ? "unknown" : shareWords(row.share, 1)), by: (row) => row.share ?? NaN }),
    ], lists, (row) => row.name),
    ...[...warnings].map((words) => element("p", { class: "warning" }, [`Warning: ${words}.`])),
  ];
}

/**
 * Returns a rank's time in MPI between the start and the end of MPI.
 * @param {any} rank
 * @returns {number}
 */
function mainOf(rank) {
  return rank.mpi_ps - rank.start_and_end_ps;
}

/**
 * Returns the groups of ranks' nodes, if nodes differ.
 * @param {any[]} runs
 * @returns {Map<any, string>}
 */
function groupsOf(runs) {
  const groups = new Map();
  for (const run of runs) {
    const nodes = new Map((run.summary?.nodes ?? []).map((/** @type {any} */ own) => [own.node, own.group]));
    for (const rank of run.traced.statistics.ranks) {
      const group = nodes.get(rank.node);
      if (typeof group === "string") groups.set(rank, group);
    }
  }
  return groups;
}

/**
 * Creates a legend of colours.
 * @param {number[]} kinds
 * @returns {HTMLElement}
 */
export function legendOf(kinds) {
  const patch = (/** @type {string} */ colour, /** @type {string} */ name) => {
    const made = element("span", { class: "patch", "aria-hidden": "true" });
    made.style.background = colour;
    return element("span", { class: "entry" }, [made, name]);
  };
  return element("p", { class: "legend" }, [patch("var(--compute)", "outside MPI"), ...kinds.map((kind) => patch(rgb(colourOf(kind)), kindName(kind)))]);
}

/** @param {any[]} runs One run, or two to be compared. */
export function sitesSection(runs) {
  const own = section("sites", "Call sites", "Places in the program that call MPI, the innermost function first. The few with most time, and most waiting in it, are where a change pays.");
  const sited = runs.filter((run) => run.traced.sites !== null).map((run) => run.traced.sites);
  if (sited.length < runs.length) {
    missing(own, "This run did not record where calls were made. Run it with", "belljar run SCENARIO --set trace.frames=3");
    return;
  }
  const lists = sited.map((sites) => sites.sites);
  const most = largest(lists, "total_ps");
  const [{ count }] = sited;
  own.append(compared(`Call sites${count > lists[0].length ? `, the first ${lists[0].length} of ${count}` : ""}`, [
    { name: "function", say: (row) => row.function },
    { name: "place", say: (row) => siteWords(row.frames) },
    both(countColumn("calls", "calls")),
    both(timeColumn("total", "total_ps", most)),
    both(timeColumn("waiting", "waiting_ps", most)),
    timeColumn("mean", "mean_ps"),
    timeColumn("longest", "max_ps"),
    countColumn("sent", "sent", byteWords),
  ], lists, (row) => `${row.function} ${siteWords(row.frames)}`));
}
