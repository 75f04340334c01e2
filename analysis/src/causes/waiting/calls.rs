//! Calls that may wait, until their waiting times are known.
//!
//! A call waits for all operations that it completes. For each of them, another process may have been late: the last one counts.
//! Used by `collect`.

/// Sums over calls.
mod sums;

use std::collections::BTreeMap;

use belljar_job::{Member, ProcessKey};
use belljar_mpi::{FUNCTIONS, meaning};

use super::delays::{
    CallPlace, Closed, Delays, InLoops, Partner, PendingCall, PlaceNames, ThreadKey,
};
use super::dependency::{Dependency, DependencyNode, Needed};
use super::{CallWait, DelayCosts, FunctionWait, RankWait, WaitKind, Waiting};
pub(crate) use sums::LabelSum;
use sums::{FunctionSum, Kinds, RankSum, shown};

/// Number of calls in the list of the longest waits.
const LONGEST: usize = 10;
/// Most partners of one call that are kept for the causes of later waits.
const MOST_PARTNERS: usize = 256;

/// The number of a call.
pub(super) type Call = u64;

/// A process that was late.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cause {
    /// The time of its arrival, in picoseconds.
    pub(super) at: u64,
    /// The cause of waiting.
    pub(super) kind: WaitKind,
    /// The process.
    pub(super) by: Member,
    /// Its thread that arrived.
    pub(super) thread: ThreadKey,
}

/// A call that may wait.
#[derive(Clone, Copy, Debug)]
pub(super) struct WaitCandidate {
    /// Its process.
    pub(super) process: ProcessKey,
    /// Its process, by its rank.
    pub(super) member: Member,
    /// The number of its thread in the process.
    pub(super) thread: u32,
    /// The function.
    pub(super) function: u16,
    /// Its entry, in picoseconds.
    pub(super) entry: u64,
    /// Its return.
    pub(super) exit: u64,
    /// Number of calls that it stands for, and the time in them, in picoseconds.
    pub(super) calls: u64,
    pub(super) inside: u64,
    /// True if it counts in the result.
    pub(super) counts: bool,
    /// Label chosen by the caller; the lower half is the number of the call site, 0 if unknown.
    pub(super) label: u64,
    /// The loops around it.
    pub(super) loops: InLoops,
}

impl WaitCandidate {
    /// Returns its thread and process.
    fn thread(&self) -> (ThreadKey, Member) {
        let thread = ThreadKey {
            process: self.process,
            number: self.thread,
        };
        (thread, self.member)
    }

    /// Returns its function and call site.
    fn place(&self) -> CallPlace {
        CallPlace {
            function: self.function,
            site: self.label as u32,
        }
    }
}

/// A call with dependencies that are not resolved yet.
#[derive(Debug)]
struct OpenCall {
    number: Call,
    entered: WaitCandidate,
    /// Number of operations whose late process is still unknown.
    operations: u32,
    last: Option<Cause>,
    /// Its dependencies, if they are collected.
    needed: Vec<Needed>,
    /// Threads that it depends on, if delays are followed, and its meeting.
    partners: Vec<Partner>,
    met: Option<(u64, u64)>,
}

/// All calls and their waiting.
#[derive(Debug, Default)]
pub(super) struct Calls {
    /// Dependencies, if they are collected.
    pub(super) dependencies: Option<Vec<Dependency>>,
    /// The causes of waits, where they are followed.
    pub(super) delays: Option<Delays>,
    /// Calls that waited since the last query, if they are collected.
    pub(super) waits: Option<Vec<CallWait>>,
    open: BTreeMap<Call, OpenCall>,
    next: Call,
    functions: BTreeMap<u16, FunctionSum>,
    kinds: Kinds,
    /// Causes in calls that start or end MPI.
    boundary: Kinds,
    ranks: BTreeMap<ProcessKey, RankSum>,
    caused: BTreeMap<Member, u64>,
    longest: Vec<CallWait>,
    labels: BTreeMap<u64, LabelSum>,
}

impl Calls {
    /// Adds a call with this number of operations to complete, and returns its number.
    pub(super) fn enter(&mut self, entered: WaitCandidate, operations: u32) -> Call {
        let number = self.next;
        self.next += 1;
        if entered.counts {
            let time = entered.inside;
            let function = self.functions.entry(entered.function).or_default();
            function.calls = function.calls.saturating_add(entered.calls);
            function.total = function.total.saturating_add(time);
            let rank = self.ranks.entry(entered.process).or_insert(RankSum {
                member: entered.member,
                mpi: 0,
                waiting: 0,
                boundary: 0,
                boundary_waiting: 0,
            });
            rank.mpi = rank.mpi.saturating_add(time);
            if is_boundary(entered.function) {
                rank.boundary = rank.boundary.saturating_add(time);
            }
            let label = self.labels.entry(entered.label).or_default();
            label.calls = label.calls.saturating_add(entered.calls);
            label.total = label.total.saturating_add(time);
        }
        if let Some(delays) = &mut self.delays {
            let counts = entered.counts && !is_boundary(entered.function);
            let (thread, member) = entered.thread();
            let call = PendingCall {
                call: number,
                entry: entered.entry,
                exit: entered.exit,
                place: entered.place(),
                loops: entered.loops,
                counts,
                closed: (operations == 0).then(Closed::default),
            };
            delays.enter(thread, member, call);
        }
        if operations > 0 {
            let open = OpenCall {
                number,
                entered,
                operations,
                last: None,
                needed: Vec::new(),
                partners: Vec::new(),
                met: None,
            };
            self.open.insert(number, open);
        }
        number
    }

    /// Adds the result of one more operation of a call: its late process, its dependence, and the number and time of its meeting.
    pub(super) fn resolve(
        &mut self,
        call: Call,
        cause: Option<Cause>,
        needed: Option<Needed>,
        met: Option<(u64, u64)>,
    ) {
        let Some(open) = self.open.get_mut(&call) else {
            return;
        };
        if self.delays.is_some() {
            open.met = met.or(open.met);
            let partner = cause.map(|cause| Partner {
                thread: cause.thread,
                at: cause.at,
            });
            open.partners
                .extend(partner.filter(|_| open.partners.len() < MOST_PARTNERS));
        }
        if self.dependencies.is_some() {
            open.needed.extend(needed);
        }
        let later = |cause: &Cause| open.last.is_none_or(|last| last.at < cause.at);
        if let Some(cause) = cause.filter(later) {
            open.last = Some(cause);
        }
        open.operations -= 1;
        if open.operations == 0
            && let Some(open) = self.open.remove(&call)
        {
            self.close(open);
        }
    }

    /// Records a call's dependencies, and the end of its wait for the last of them.
    fn depend(&mut self, open: &OpenCall) {
        let entered = &open.entered;
        let Some(all) = self.dependencies.as_mut().filter(|_| entered.counts) else {
            return;
        };
        let who = DependencyNode::process(entered.member);
        let last = open.needed.iter().max_by_key(|needed| needed.at);
        let until = last.map_or(0, |last| last.at.min(entered.exit));
        let ready = until.max(entered.entry);
        let needed = open.needed.iter();
        all.extend(needed.map(|needed| Dependency::on(who, ready, needed.on, needed.at, 0)));
        if let Some(last) = last.filter(|_| ready > entered.entry) {
            all.push(Dependency {
                ready,
                level: 0,
                who,
                on: DependencyNode::process(last.by),
                at: entered.entry,
                waited: true,
            });
        }
    }

    /// Adds up a call's waiting.
    fn close(&mut self, open: OpenCall) {
        self.depend(&open);
        let entered = &open.entered;
        let span = |cause: &Cause| cause.at.min(entered.exit).saturating_sub(entered.entry);
        let last = open.last.filter(|cause| span(cause) > 0);
        if let Some(delays) = &mut self.delays {
            let waited_for = last.map(|cause| Partner {
                thread: cause.thread,
                at: cause.at,
            });
            let closed = Closed {
                waited_for,
                partners: open.partners,
                met: open.met,
            };
            let (thread, member) = entered.thread();
            delays.close(thread, member, open.number, closed);
        }
        let Some(cause) = last.filter(|_| entered.counts) else {
            return;
        };
        let waiting = span(&cause);
        let label = self.labels.entry(entered.label).or_default();
        label.kinds.entry(cause.kind).or_default().add(waiting);
        let function = self.functions.entry(entered.function).or_default();
        function.waited += 1;
        function.waiting = function.waiting.saturating_add(waiting);
        let wait = CallWait {
            kind: cause.kind,
            job: entered.member.job,
            rank: entered.member.rank,
            function: name(entered.function),
            at_ps: entered.entry,
            waiting_ps: waiting,
            for_job: cause.by.job,
            for_rank: cause.by.rank,
        };
        if let Some(waits) = &mut self.waits {
            waits.push(wait);
        }
        self.add(entered, cause, wait);
    }

    /// Adds a wait to the sums by cause and by process; start and end of MPI have separate sums.
    fn add(&mut self, entered: &WaitCandidate, cause: Cause, wait: CallWait) {
        let waiting = wait.waiting_ps;
        let rank = self.ranks.get_mut(&entered.process);
        if is_boundary(entered.function) {
            self.boundary.entry(cause.kind).or_default().add(waiting);
            if let Some(rank) = rank {
                rank.boundary_waiting = rank.boundary_waiting.saturating_add(waiting);
            }
            return;
        }
        self.kinds.entry(cause.kind).or_default().add(waiting);
        if let Some(rank) = rank {
            rank.waiting = rank.waiting.saturating_add(waiting);
        }
        let caused = self.caused.entry(cause.by).or_default();
        *caused = caused.saturating_add(waiting);
        self.longest.push(wait);
        if self.longest.len() >= 2 * LONGEST {
            self.cut();
        }
    }

    /// Keeps only the longest; in a tie, the first.
    fn cut(&mut self) {
        self.longest.sort_by_key(|call| {
            (
                std::cmp::Reverse(call.waiting_ps),
                call.at_ps,
                call.job,
                call.rank,
            )
        });
        self.longest.truncate(LONGEST);
    }

    /// Ends the input: open calls count with the waits known so far.
    pub(super) fn end(&mut self) {
        for open in std::mem::take(&mut self.open).into_values() {
            self.close(open);
        }
    }

    /// Returns the root causes of all waits, if they were followed.
    pub(super) fn costs(&mut self, places: &PlaceNames<'_>) -> Option<DelayCosts> {
        self.end();
        self.delays.take().map(|delays| delays.finish(places))
    }

    /// Returns the sums over the calls of each label, once all calls were added.
    pub(super) fn labelled(&mut self) -> BTreeMap<u64, LabelSum> {
        self.end();
        std::mem::take(&mut self.labels)
    }

    /// Returns the sums.
    pub(super) fn finish(mut self) -> Waiting {
        self.end();
        self.cut();
        let kinds = WaitKind::ALL.map(|kind| {
            let sum = self.kinds.get(&kind).copied().unwrap_or_default();
            shown(kind, sum)
        });
        let functions = self.functions.iter().filter(|(_, sum)| sum.waited > 0);
        let mut functions: Vec<FunctionWait> = functions
            .map(|(function, sum)| FunctionWait {
                function: name(*function),
                calls: sum.calls,
                waited: sum.waited,
                total_ps: sum.total,
                waiting_ps: sum.waiting,
            })
            .collect();
        functions.sort_by_key(|stat| (std::cmp::Reverse(stat.waiting_ps), stat.function));
        let ranks = self.ranks.iter().map(|(process, sum)| RankWait {
            job: sum.member.job,
            rank: sum.member.rank,
            node: process.0,
            mpi_ps: sum.mpi,
            start_and_end_ps: sum.boundary,
            waiting_ps: sum.waiting,
            start_and_end_waiting_ps: sum.boundary_waiting,
            caused_ps: self.caused.get(&sum.member).copied().unwrap_or(0),
        });
        let mut ranks: Vec<RankWait> = ranks.collect();
        ranks.sort_by_key(|stat| (stat.job, stat.rank, stat.node));
        Waiting {
            delays: None,
            kinds: kinds.to_vec(),
            start_and_end: self
                .boundary
                .iter()
                .map(|(kind, sum)| shown(*kind, *sum))
                .collect(),
            functions,
            ranks,
            longest: self.longest,
            ..Waiting::default()
        }
    }
}

/// True for functions that start or end MPI.
fn is_boundary(function: u16) -> bool {
    meaning(function).boundary().is_some()
}

fn name(function: u16) -> &'static str {
    let function = FUNCTIONS.get(usize::from(function));
    function.map_or("MPI_?", |function| function.name)
}
