// @ts-check
/** @file The sections of a report but its timeline: each from what the analyses say. Called by main. */

import { Reader, dataOf } from "./binary.js";
import { colourOf, kindName, kindOf, rgb } from "./colours.js";
import { element, missing, section } from "./elements.js";
import { sorted, table } from "./tables.js";
import { byteWords, changeWords, countWords, manyWords, shareWords, timeWords } from "./units.js";

/** @typedef {any} Run A run as the page's data has it. */

/**
 * A time column.
 * @param {string} name
 * @param {string} key
 * @param {number} [of] What its bars are parts of.
 */
const timeColumn = (name, key, of) => ({
  name,
  say: (/** @type {any} */ row) => timeWords(row[key]),
  by: (/** @type {any} */ row) => Number(row[key]),
  ...(of === undefined ? {} : { of }),
});

/**
 * A column of numbers.
 * @param {string} name
 * @param {string} key
 * @param {(value: number) => string} [say]
 */
const countColumn = (name, key, say = countWords) => ({
  name,
  say: (/** @type {any} */ row) => (row[key] === null ? "" : say(row[key])),
  by: (/** @type {any} */ row) => Number(row[key]),
});

/**
 * The largest of a key.
 * @param {any[]} rows
 * @param {string} key
 * @returns {number}
 */
function largest(rows, key) {
  return rows.reduce((most, row) => Math.max(most, Number(row[key])), 0);
}

/**
 * A rank's name, with its job where there are several.
 * @param {any} row
 * @returns {string}
 */
export function rankWords(row) {
  return row.job > 0 ? `${row.job}:${row.rank}` : String(row.rank);
}

const RANK = { name: "rank", say: rankWords, by: (/** @type {any} */ row) => row.job * 1e9 + row.rank };

/**
 * A place in a program, from the innermost frame on.
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

/** @param {Run} run */
export function summarySection(run) {
  const own = section("summary", "What ran, and what bounds it", "Each bar is a share of all ranks' time together, or of the longest rank's work. The largest says where to look first; its heading leads there.");
  if (run.traced === null) missing(own, "This run has no trace of MPI calls, so nothing is known of its ranks. Run it with", "trace.enabled = true");
  else {
    const cards = run.traced.verdicts.map((/** @type {any} */ verdict) => {
      const bar = element("span", { class: "bar", "aria-hidden": "true" });
      bar.style.width = `${verdict.thousandths / 10}%`;
      return element("div", { class: "card" }, [
        element("h3", {}, [element("a", { href: `#${verdict.section}` }, [verdict.about])]),
        element("p", { class: "big" }, [`${(verdict.thousandths / 10).toFixed(1)}\u00a0%`]),
        element("div", { class: "meter" }, [bar]),
        element("p", {}, [verdict.sentence]),
      ]);
    });
    own.append(element("div", { class: "cards" }, cards));
    if (run.traced.incomplete !== null) missing(own, `The trace is not whole: ${run.traced.incomplete}. What is before that place is shown.`);
  }
  const list = element("dl", {}, run.facts.flatMap((/** @type {[string, string]} */ [name, value]) => [
    element("dt", {}, [name]),
    element("dd", {}, [value]),
  ]));
  own.append(list);
  if (run.scenario !== "") own.append(element("details", {}, [element("summary", {}, ["Scenario, to be run again"]), element("pre", {}, [run.scenario])]));
}

/** @param {Run} run */
export function callsSection(run) {
  const own = section("calls", "Calls by function", "All calls that the program made. Long medians mean that each call takes long; a mean far above the median, that a few do. Times are virtual and exact.");
  const { functions, sizes } = run.traced.statistics;
  own.append(table("Functions", [
    { name: "function", say: (row) => row.function },
    countColumn("calls", "calls"),
    timeColumn("total", "total_ps", largest(functions, "total_ps")),
    timeColumn("median", "median_ps"),
    timeColumn("mean", "mean_ps"),
    timeColumn("longest", "max_ps"),
    countColumn("sent", "sent", byteWords),
    countColumn("received", "received", byteWords),
  ], functions));
  if (sizes.length > 0) {
    own.append(table("Messages by size", [
      { name: "size", say: (row) => (row.from === row.to ? byteWords(row.from) : `${byteWords(row.from)} to ${byteWords(row.to)}`), by: (row) => row.from },
      { ...countColumn("messages", "messages"), of: largest(sizes, "messages") },
      countColumn("bytes", "bytes", byteWords),
    ], sizes));
  }
}

/**
 * @param {Run} run
 * @param {string} letter
 */
export async function ranksSection(run, letter) {
  const own = section("ranks", "Ranks", "Each line is a rank's time from its first call to its last return: outside MPI (grey), and in MPI by kind of function. Lines of different colours are ranks that do different things; grey parts of different length are unequal work.");
  const { ranks } = run.traced.statistics;
  const { rows, functions } = run.traced.timeline;
  const reader = new Reader(await dataOf(`${letter}-sums`));
  /** @type {Map<string, Map<number, number>>} */
  const sums = new Map();
  for (let left = reader.number(); left > 0; left -= 1) {
    const [row, name, , time] = [reader.number(), reader.number(), reader.number(), reader.number()];
    const key = rankWords(rows[row]);
    const kinds = sums.get(key) ?? new Map();
    const kind = kindOf(functions[name - 1]);
    kinds.set(kind, (kinds.get(kind) ?? 0) + time);
    sums.set(key, kinds);
  }
  const used = new Set([...sums.values()].flatMap((kinds) => [...kinds.keys()]));
  own.append(legendOf([...used].sort((a, b) => a - b)));
  const longest = largest(ranks.map((/** @type {any} */ rank) => ({ all: rank.compute_ps + rank.mpi_ps })), "all");
  const lines = sorted(ranks, (/** @type {any} */ rank) => rank.compute_ps, true);
  const shown = lines.length <= 64 ? ranks : [...lines.slice(0, 32), ...lines.slice(-32)];
  if (shown !== ranks) own.append(element("p", {}, ["The 32 ranks that compute longest, and the 32 that compute least; the table has all."]));
  own.append(element("div", { class: "stack", role: "img", "aria-label": "Time of ranks by kind of function; the table has the numbers" }, shown.map((/** @type {any} */ rank) => {
    const line = element("div", { class: "line" });
    const part = (/** @type {number} */ time, /** @type {string} */ colour, /** @type {string} */ what) => {
      const made = element("span", { title: `${what}: ${timeWords(time)}` });
      made.style.width = `${(100 * time) / Math.max(longest, 1)}%`;
      made.style.background = colour;
      line.append(made);
    };
    part(rank.compute_ps, "var(--compute)", "outside MPI");
    for (const [kind, time] of sorted([...(sums.get(rankWords(rank)) ?? [])], ([kind]) => kind, false)) part(time, rgb(kindColour(kind)), kindName(kind));
    return element("div", { class: "ranked" }, [element("span", {}, [rankWords(rank)]), line]);
  })));
  own.append(table("By rank", [
    RANK,
    countColumn("node", "node"),
    countColumn("calls", "calls"),
    timeColumn("outside MPI", "compute_ps", longest),
    timeColumn("in MPI", "mpi_ps", longest),
    { name: "share in MPI", say: (row) => shareWords(row.mpi_ps, row.mpi_ps + row.compute_ps), by: (row) => row.mpi_ps / Math.max(row.mpi_ps + row.compute_ps, 1) },
    countColumn("sent", "sent", byteWords),
    countColumn("received", "received", byteWords),
    { name: "interval", say: (row) => timeWords(row.intervals.harmonic_mean_s * 1e12), by: (row) => row.intervals.harmonic_mean_s },
  ], ranks));
}

/** @param {number} kind */
function kindColour(kind) {
  const names = ["MPI_Init", "MPI_Barrier", "MPI_Wait", "MPI_Allreduce", "MPI_Bcast", "MPI_Send", "MPI_Recv", "MPI_Other"];
  return colourOf(names[kind]);
}

/**
 * What colours mean.
 * @param {number[]} kinds
 * @returns {HTMLElement}
 */
export function legendOf(kinds) {
  const patch = (/** @type {string} */ colour, /** @type {string} */ name) => {
    const made = element("span", { class: "patch", "aria-hidden": "true" });
    made.style.background = colour;
    return element("span", { class: "entry" }, [made, name]);
  };
  return element("p", { class: "legend" }, [patch("var(--compute)", "outside MPI"), ...kinds.map((kind) => patch(rgb(kindColour(kind)), kindName(kind)))]);
}

/** @param {Run} run */
export function sitesSection(run) {
  const own = section("sites", "Call sites", "Places in the program that call MPI, the innermost function first. The few with most time, and most waiting in it, are where a change pays.");
  const { sites } = run.traced;
  if (sites === null) {
    missing(own, "This run did not record where calls were made. Run it with", "belljar run SCENARIO --set trace.frames=3");
    return;
  }
  own.append(table(`Call sites${sites.count > sites.sites.length ? `, the first ${sites.sites.length} of ${sites.count}` : ""}`, [
    { name: "function", say: (row) => row.function },
    { name: "place", say: (row) => siteWords(row.frames) },
    countColumn("calls", "calls"),
    timeColumn("total", "total_ps", largest(sites.sites, "total_ps")),
    timeColumn("waiting", "waiting_ps", largest(sites.sites, "total_ps")),
    timeColumn("mean", "mean_ps"),
    timeColumn("longest", "max_ps"),
    countColumn("sent", "sent", byteWords),
  ], /** @type {any[]} */ (sites.sites)));
}

/**
 * In which iterations a part is.
 * @param {any} when
 * @returns {string}
 */
function whenWords(when) {
  if (when.in === "always") return "";
  if (when.in === "some") return `in ${countWords(when.times)} of ${countWords(when.of)} iterations: `;
  return "in some iterations: ";
}

/**
 * A part of a program, as items of a list.
 * @param {any} part
 * @param {number} whole Time of all threads together.
 * @returns {HTMLElement[]}
 */
function partItems(part, whole) {
  if (part.kind === "sequence") {
    return part.calls.map((/** @type {any} */ call) => element("li", {}, [
      element("code", {}, [call.text]),
      ` ${whenWords(part.when)}${manyWords(call.visits.total, "call")}, ${timeWords(call.in_mpi.total_ps)} in all`,
    ]));
  }
  const { iterations, entries, time } = part;
  const most = manyWords(iterations.max, "iteration");
  const rounds = iterations.min === iterations.max ? most : `${countWords(iterations.min)} to ${most}`;
  const inner = element("ul", {}, part.body.flatMap((/** @type {any} */ own) => partItems(own, whole)));
  const open = element("details", time.total_ps * 20 > whole ? { open: "" } : {}, [
    element("summary", {}, [
      element("strong", {}, [`Loop of ${rounds}`]),
      ` ${whenWords(part.when)}entered ${manyWords(entries.total, "time")}, ${timeWords(time.total_ps)} (${shareWords(time.total_ps, whole)}), ${shareWords(part.in_mpi_ps, time.total_ps)} of it in MPI`,
    ]),
    inner,
  ]);
  return [element("li", {}, [open])];
}

/** @param {Run} run */
export function loopsSection(run) {
  const own = section("loops", "Loops", "How the program is built, as its calls show: what is repeated, how often, and what it takes. Ranks with the same structure stand together. The main loop is where time pays; what is before and after it does not grow with longer runs.");
  const { loops } = run.traced;
  if (loops === null || loops.classes.length === 0) {
    missing(own, "The trace shows no loops.");
    return;
  }
  for (const found of loops.classes) {
    const details = element("details", found === loops.classes[0] ? { open: "" } : {}, [
      element("summary", {}, [`${found.name}: ${countWords(found.calls)} calls, ${shareWords(found.outermost_ps, found.time_ps)} of the time in loops`]),
    ]);
    if (found.phases.length > 0) {
      details.append(table(`Phases of ${found.name}`, [
        { name: "phase", say: (row) => row.phase },
        countColumn("calls", "calls"),
        timeColumn("time", "time_ps", found.time_ps),
        timeColumn("in MPI", "in_mpi_ps", found.time_ps),
      ], /** @type {any[]} */ (found.phases)));
    }
    details.append(element("ul", { class: "tree" }, found.body.flatMap((/** @type {any} */ part) => partItems(part, found.time_ps))));
    own.append(details);
  }
  if (loops.count > loops.classes.length) missing(own, `${loops.count - loops.classes.length} more classes of ranks:`, "belljar trace loops DIR");
}

/** What the kinds of waiting mean. */
const KINDS_OF_WAITING = /** @type {Record<string, [string, string]>} */ ({
  "late-sender": ["late sender", "a receive waited for a message that was sent later"],
  "late-receiver": ["late receiver", "a send waited until somebody took the message"],
  barrier: ["wait at barrier", "a barrier waited for the last to come"],
  "all-to-all": ["wait at N x N", "an operation of all with all waited for the last to come"],
  "late-broadcast": ["late broadcast", "the others waited for the root"],
  "early-reduce": ["early reduce", "the root waited for the first of the others"],
  "early-scan": ["early scan", "a scan waited for lower ranks"],
});

/**
 * The name of a kind of waiting.
 * @param {string} kind
 */
export function waitWords(kind) {
  return (KINDS_OF_WAITING[kind] ?? [kind, ""])[0];
}

/** @param {Run} run */
export function waitingSection(run) {
  const own = section("waiting", "Waiting", "Time in which a call could not continue because another rank had not come yet. A faster network does not help; more even work does. \u201cOthers wait for it\u201d names the ranks that come late.");
  const { waiting } = run.traced;
  const kinds = waiting.kinds.filter((/** @type {any} */ row) => row.calls > 0);
  if (kinds.length === 0) missing(own, "No call waited for another rank.");
  own.append(
    table("By cause", [
      { name: "cause", say: (row) => waitWords(row.kind) },
      { name: "what it is", say: (row) => (KINDS_OF_WAITING[row.kind] ?? ["", ""])[1] },
      countColumn("calls", "calls"),
      timeColumn("waiting", "waiting_ps", largest(kinds, "waiting_ps")),
      timeColumn("longest", "max_ps"),
    ], kinds),
    table("By function", [
      { name: "function", say: (row) => row.function },
      countColumn("calls", "calls"),
      countColumn("of them waited", "waited"),
      timeColumn("time", "total_ps", largest(waiting.functions, "total_ps")),
      timeColumn("waiting", "waiting_ps", largest(waiting.functions, "total_ps")),
    ], /** @type {any[]} */ (waiting.functions)),
    table("By rank", [
      RANK,
      countColumn("node", "node"),
      timeColumn("in MPI", "mpi_ps"),
      timeColumn("waiting", "waiting_ps", Math.max(largest(waiting.ranks, "waiting_ps"), largest(waiting.ranks, "caused_ps"))),
      timeColumn("others wait for it", "caused_ps", Math.max(largest(waiting.ranks, "waiting_ps"), largest(waiting.ranks, "caused_ps"))),
    ], /** @type {any[]} */ (waiting.ranks)),
    table("The longest waits", [
      { name: "at (s)", say: (row) => (row.at_ps / 1e12).toFixed(9), by: (row) => row.at_ps },
      RANK,
      { name: "function", say: (row) => row.function },
      timeColumn("waited", "waiting_ps"),
      { name: "for rank", say: (row) => rankWords({ job: row.for_job, rank: row.for_rank }), by: (row) => row.for_rank },
      { name: "cause", say: (row) => waitWords(row.kind) },
    ], /** @type {any[]} */ (waiting.longest)),
  );
}

/** @param {Run} run */
export function pathSection(run) {
  const own = section("path", "Critical path", "The chain of work and waiting that made the run last as long as it did. What is on it makes the run shorter when it becomes faster; what is not on it has slack. The timeline draws it.");
  const { path } = run.traced;
  const length = path.to_ps - path.from_ps;
  own.append(
    element("p", {}, [`${timeWords(length)} with ${countWords(path.changes)} changes of rank.`]),
    table("By rank", [
      RANK,
      countColumn("node", "node"),
      timeColumn("on the path", "path_ps", length),
      { name: "share", say: (row) => shareWords(row.path_ps, length), by: (row) => row.path_ps },
      timeColumn("outside MPI", "compute_ps", length),
    ], /** @type {any[]} */ (path.ranks)),
    table("MPI calls on the path", [
      { name: "function", say: (row) => row.function },
      countColumn("calls", "calls"),
      timeColumn("on the path", "path_ps", length),
      { name: "share", say: (row) => shareWords(row.path_ps, length), by: (row) => row.path_ps },
    ], /** @type {any[]} */ (path.functions)),
    table("Slack: how much later a rank could be with the same end", [
      RANK,
      timeColumn("least", "least_ps"),
      timeColumn("mean", "mean_ps"),
      timeColumn("most", "most_ps"),
      { name: "without slack", say: (row) => shareWords(row.critical_ps, row.busy_ps), by: (row) => row.critical_ps / Math.max(row.busy_ps, 1) },
    ], /** @type {any[]} */ (path.slack)),
  );
}

/** @param {Run} run */
export function linkTotals(run) {
  const links = run.summary?.links ?? [];
  const sides = links.flatMap((/** @type {any} */ link) => ["up", "down"].map((side) => ({ name: `${link.link} ${side}`, ...link[side] })));
  return table("Links, of the whole run", [
    { name: "link and direction", say: (row) => row.name },
    countColumn("frames", "frames"),
    { ...countColumn("bytes", "bytes", byteWords), of: largest(sides, "bytes") },
    timeColumn("busy", "busy_ps"),
    countColumn("longest queue", "longest_queue", byteWords),
    countColumn("dropped", "drops"),
  ], sorted(sides, (/** @type {any} */ side) => side.bytes, true));
}

/** @param {Run} run */
export function outputsSection(run) {
  const own = section("outputs", "Output and consoles", "What the workload wrote, and the nodes' serial consoles: the end of each where they are long.");
  if (run.outputs.length === 0) missing(own, "There is no run directory next to this trace.");
  for (const output of run.outputs) {
    const cut = output.left_out > 0 ? `, without the first ${byteWords(output.left_out)}` : "";
    const words = output.text === "" ? `${output.name}: empty` : `${output.name}${cut}`;
    /** @type {Record<string, string>} */
    const open = output.name === "stdout" && output.text !== "" ? { open: "" } : {};
    own.append(element("details", open, [element("summary", {}, [words]), element("pre", { tabindex: "0" }, [output.text])]));
  }
}

/**
 * @param {Run[]} runs
 * @param {any} diff
 */
export function compareSection(runs, diff) {
  const own = section("compare", "Two runs side by side", `a is ${runs[0].name}, b is ${runs[1].name}. Runs repeat to the cycle, so that no change here is noise. Ratios are of b to a.`);
  if (diff === null) {
    missing(own, "One of the runs has no trace; only traces can be compared.");
    return;
  }
  /** A figure of both, and its change. */
  const both = (/** @type {string} */ name, /** @type {string} */ key, /** @type {(value: number) => string} */ say) => [
    { name: `${name} a`, say: (/** @type {any} */ row) => say(row[key].a), by: (/** @type {any} */ row) => row[key].a },
    { name: "b", say: (/** @type {any} */ row) => say(row[key].b), by: (/** @type {any} */ row) => row[key].b },
  ];
  const change = (/** @type {string} */ key) => ({
    name: "change",
    say: (/** @type {any} */ row) => changeWords(row[key].a, row[key].b),
    by: (/** @type {any} */ row) => row[key].b - row[key].a,
  });
  own.append(
    element("p", { class: "big" }, [`${timeWords(diff.span_ps.a)} and ${timeWords(diff.span_ps.b)}: ${changeWords(diff.span_ps.a, diff.span_ps.b)}`]),
    element("p", {}, [diff.equal ? "The runs are equal, to the cycle." : diff.same_structure ? "All threads do the same, at other times." : "The programs do not do the same."]),
    table("Functions", [{ name: "function", say: (row) => row.function }, ...both("calls", "calls", countWords), ...both("time", "total_ps", timeWords), change("total_ps")], /** @type {any[]} */ (diff.functions)),
    table("Waiting", [{ name: "cause", say: (row) => waitWords(row.kind) }, ...both("calls", "calls", countWords), ...both("time", "waiting_ps", timeWords), change("waiting_ps")], /** @type {any[]} */ (diff.waiting)),
    table("Ranks", [RANK, ...both("time", "span_ps", timeWords), change("span_ps"), ...both("in MPI", "mpi_ps", timeWords)], /** @type {any[]} */ (diff.ranks)),
  );
  if (diff.sites.length > 0) own.append(table("Call sites", [{ name: "function", say: (row) => row.function }, { name: "place", say: (row) => siteWords(row.frames) }, ...both("time", "total_ps", timeWords), change("total_ps")], /** @type {any[]} */ (diff.sites)));
}
