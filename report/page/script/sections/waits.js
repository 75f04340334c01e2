// @ts-check
/** @file Waiting, and the critical path, of one run or of two side by side. Used by main. */

import { RANK, both, compared, countColumn, largest, rankWords, timeColumn } from "../data/comparing.js";
import { element, missing, section } from "../data/elements.js";
import { siteWords } from "./sections.js";
import { table } from "../data/tables.js";
import { manyWords, secondWords, shareWords, timeWords } from "../data/units.js";

/** Descriptions of the kinds of waiting. */
const KINDS_OF_WAITING = /** @type {Record<string, [string, string]>} */ ({
  "late-sender": ["late sender", "a receive waited for a message that was sent later"],
  "late-receiver": ["late receiver", "a send waited until somebody took the message"],
  barrier: ["wait at barrier", "a barrier waited for the last to come"],
  "all-to-all": ["wait at N x N", "an operation of all with all waited for the last to come"],
  "late-broadcast": ["late broadcast", "the others waited for the root"],
  "early-reduce": ["early reduce", "the root waited for the last of the others"],
  "early-scan": ["early scan", "a scan waited for lower ranks"],
});

/**
 * Returns the name of a kind of waiting.
 * @param {string} kind
 */
export function waitWords(kind) {
  return (KINDS_OF_WAITING[kind] ?? [kind, ""])[0];
}

/** @param {any[]} runs One run, or two to be compared. */
export function waitingSection(runs) {
  const own = section("waiting", "Waiting", "Time from a call's entry until the rank that it needs has come, at most until its return; calls that start or end MPI are not in the sums by cause and by rank. A faster network does not help; more even work does. \u201cOthers wait for it\u201d names the direct partners that come late. Costs name the root causes: the ranks whose earlier work made others wait, directly or along a chain of waits; they add up to all waiting.");
  const all = runs.map((run) => run.traced.waiting);
  const kinds = all.map((waiting) => waiting.kinds.filter((/** @type {any} */ row) => row.calls > 0));
  const functions = all.map((waiting) => waiting.functions);
  const ranks = all.map(withCosts);
  if (kinds.flat().length === 0) missing(own, "No call waited for another rank.");
  const most = largest(ranks, "waiting_ps", "caused_ps", "total_ps");
  own.append(
    compared("By cause", [
      { name: "cause", say: (row) => waitWords(row.kind) },
      { name: "what it is", say: (row) => (KINDS_OF_WAITING[row.kind] ?? ["", ""])[1] },
      both(countColumn("calls", "calls")),
      both(timeColumn("waiting", "waiting_ps", largest(kinds, "waiting_ps"))),
      timeColumn("longest", "max_ps"),
    ], kinds, (row) => row.kind),
    compared("By function", [
      { name: "function", say: (row) => row.function },
      countColumn("calls", "calls"),
      both(countColumn("of them waited", "waited")),
      timeColumn("time", "total_ps", largest(functions, "total_ps")),
      both(timeColumn("waiting", "waiting_ps", largest(functions, "total_ps"))),
    ], functions, (row) => row.function),
    compared("By rank", [
      RANK,
      { ...countColumn("node", "node"), label: true },
      timeColumn("in MPI", "mpi_ps"),
      timeColumn("start and end", "start_and_end_ps"),
      both(timeColumn("waiting", "waiting_ps", most)),
      both(timeColumn("others wait for it", "caused_ps", most)),
      timeColumn("direct cost", "direct_ps", most),
      timeColumn("indirect cost", "indirect_ps", most),
      both(timeColumn("cost", "total_ps", most)),
    ], ranks, rankWords),
    ...causeTables(all),
    ...siteTables(all),
  );
  for (const [number, waiting] of all.entries()) {
    own.append(table(`The longest waits${runs.length > 1 ? ` of ${"ab"[number]}` : ""}`, [
      { name: "at (s)", say: (row) => secondWords(row.at_ps), by: (row) => row.at_ps },
      RANK,
      { name: "function", say: (row) => row.function },
      timeColumn("waited", "waiting_ps"),
      { name: "for rank", say: (row) => rankWords({ job: row.for_job, rank: row.for_rank }), by: (row) => row.for_rank },
      { name: "cause", say: (row) => waitWords(row.kind) },
    ], /** @type {any[]} */ (waiting.longest)));
  }
}

/**
 * Adds the costs of their delays to ranks.
 * @param {any} waiting Waiting of a run.
 * @returns {any[]}
 */
function withCosts(waiting) {
  const costs = new Map((waiting.delays?.ranks ?? []).map((/** @type {any} */ row) => [`${row.job} ${row.rank}`, row]));
  const none = { direct_ps: 0, indirect_ps: 0, total_ps: 0 };
  return waiting.ranks.map((/** @type {any} */ row) => ({ ...none, ...costs.get(`${row.job} ${row.rank}`), ...row }));
}

/**
 * Formats a code between two calls or within one.
 * @param {any} row
 */
function codeWords(row) {
  const place = (/** @type {any} */ call) => (call.frames.length > 0 ? `${call.function} at ${siteWords(call.frames.slice(0, 1))}` : call.function);
  if (row.to === null) return "unknown";
  if (row.in_call) return `in ${place(row.to)}`;
  return `${row.from === null ? "start" : place(row.from)} to ${place(row.to)}`;
}

/**
 * Shows root causes of waiting by code, function and loop.
 * @param {any[]} all Waiting of each run.
 * @returns {HTMLElement[]}
 */
function causeTables(all) {
  const delays = all.map((waiting) => waiting.delays ?? { codes: [], functions: [], loops: [], unattributed_ps: 0 });
  if (delays.every((own) => own.codes.length === 0)) return [];
  const lists = (/** @type {string} */ key) => delays.map((own) => own[key]);
  const costs = (/** @type {any[][]} */ rows) => [
    both(timeColumn("direct cost", "direct_ps", largest(rows, "total_ps"))),
    both(timeColumn("indirect cost", "indirect_ps", largest(rows, "total_ps"))),
    both(timeColumn("cost", "total_ps", largest(rows, "total_ps"))),
  ];
  const tables = [
    compared("Root causes by code", [
      { name: "code", say: codeWords },
      countColumn("ranks", "ranks"),
      { name: "most on rank", say: (row) => rankWords({ job: row.most_job, rank: row.most_rank }) },
      ...costs(lists("codes")),
    ], lists("codes"), codeWords),
    compared("Root causes by function", [
      { name: "function", say: (row) => row.function },
      timeColumn("work before it", "before_ps"),
      timeColumn("in it", "within_ps"),
      ...costs(lists("functions")),
    ], lists("functions"), (row) => row.function),
    compared("Root causes by loop", [
      { name: "loop, by its first call", say: (row) => row.header ?? "outside of loops" },
      ...costs(lists("loops")),
    ], lists("loops"), (row) => row.header ?? ""),
  ];
  for (const own of delays.filter((it) => it.unattributed_ps > 0)) {
    tables.push(element("p", { class: "warning" }, [`Warning: ${timeWords(own.unattributed_ps)} of waiting has no known root cause.`]));
  }
  return tables;
}

/**
 * Shows waiting by call site, with source lines; empty if the trace has no call sites.
 * @param {any[]} all Waiting of each run.
 * @returns {HTMLElement[]}
 */
function siteTables(all) {
  const sites = all.map((waiting) => waiting.sites);
  if (sites.flat().length === 0) {
    return [element("p", { class: "missing" }, ["No call site is known to have waited. Source lines of waits need trace.frames: belljar run SCENARIO --set trace.frames=3"])];
  }
  return [compared("By call site", [
    { name: "function", say: (row) => row.function },
    { name: "place", say: (row) => siteWords(row.frames) },
    countColumn("calls", "calls"),
    both(countColumn("of them waited", "waited")),
    timeColumn("time", "total_ps", largest(sites, "total_ps")),
    both(timeColumn("waiting", "waiting_ps", largest(sites, "total_ps"))),
  ], sites, (row) => `${row.function} ${siteWords(row.frames)}`)];
}

/** @param {any[]} runs One run, or two to be compared. */
export function pathSection(runs) {
  const own = section("path", "Critical path", "The chain of work and waiting that made the run last as long as it did. What is on it makes the run shorter when it becomes faster; what is not on it has slack. The timeline draws it.");
  const paths = runs.map((run) => run.traced.path);
  const lengths = paths.map((path) => path.to_ps - path.from_ps);
  const length = Math.max(...lengths);
  for (const [number, path] of paths.entries()) {
    own.append(element("p", {}, [`${runs.length > 1 ? `${"ab"[number]}: ` : ""}${timeWords(lengths[number])} from the run's first call to its last return, with ${manyWords(path.changes, "change")} of rank; of it ${timeWords(path.start_and_end_ps)} in calls that start or end MPI, and ${timeWords(path.before_ps)} before the first call of the rank that it begins on.`]));
  }
  const share = { name: "share", say: (/** @type {any} */ row) => shareWords(row.path_ps, length), by: (/** @type {any} */ row) => row.path_ps };
  own.append(
    compared("Ranks on the path", [
      RANK,
      { ...countColumn("node", "node"), label: true },
      both(timeColumn("on the path", "path_ps", length)),
      share,
      both(timeColumn("outside MPI", "compute_ps", length)),
      timeColumn("start and end", "start_and_end_ps", length),
    ], paths.map((path) => path.ranks), rankWords),
    compared("MPI calls on the path", [
      { name: "function", say: (row) => row.function },
      both(countColumn("calls", "calls")),
      both(timeColumn("on the path", "path_ps", length)),
      share,
    ], paths.map((path) => path.functions), (row) => row.function),
    compared("Slack: how much later a rank could be with the same end", [
      RANK,
      timeColumn("least", "least_ps"),
      both(timeColumn("mean", "mean_ps")),
      timeColumn("most", "most_ps"),
      both({ name: "without slack", say: (row) => shareWords(row.critical_ps, row.busy_ps), by: (row) => row.critical_ps / Math.max(row.busy_ps, 1) }),
    ], paths.map((path) => path.slack), rankWords),
  );
}
