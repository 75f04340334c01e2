//! The result of a replay: times by process and by function, next to those of the trace.
//!
//! Times are picoseconds. The trace's figures are computed from the same program, so both are sums over the same calls. Created by `replay`,
//! shown by `belljar replay`.

use std::collections::BTreeMap;

use belljar_job::MainPart;
use belljar_networks::LinkLoad;
use belljar_program::{Program, Unfinished};
use serde::Serialize;

use crate::engine::{CallTimes, Played};

/// The result of a replay.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Time from the first call's entry to the last's return.
    pub total_ps: u64,
    /// The same in the trace.
    pub traced_ps: u64,
    /// The main part: from the first return of a call that starts MPI to the last entry of a call that ends it.
    pub main_ps: u64,
    /// The same in the trace.
    pub traced_main_ps: u64,
    /// By process, in the order of jobs and ranks.
    pub ranks: Vec<RankOutcome>,
    /// By function, in descending order of time.
    pub functions: Vec<FunctionOutcome>,
    /// Calls that never return; calls that did not return in the trace either are last.
    pub stuck: Vec<Stuck>,
    /// The load of links, the busiest first; empty if the network has no links.
    pub links: Vec<LinkLoad>,
    /// Links that wait for each other in a circle, so that no message over them arrives; empty if there are none.
    pub blocked: Vec<String>,
    /// Number of messages, including the library's own.
    pub messages: u64,
    /// True if it was interrupted: all figures are of the calls that had returned by then.
    pub broken_off: bool,
    /// True if calls have the times of the trace, as frames are lost on the traced network.
    pub as_traced: bool,
    /// Frames that the traced network loses in a replay.
    pub lost_in_trace: u64,
    /// The entry and exit of each call, by thread in the program's order.
    pub times: Vec<Vec<(u64, u64)>>,
}

/// A call that never returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Stuck {
    /// Its process's job.
    pub job: u32,
    /// Its process's rank.
    pub rank: u32,
    /// The number of the thread's earlier calls.
    pub call: u32,
    /// The function's number.
    pub function: u16,
    /// Its entry in the trace, in picoseconds.
    pub traced_ps: u64,
}

/// One process's times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RankOutcome {
    /// Its job.
    pub job: u32,
    /// Its rank in `MPI_COMM_WORLD`.
    pub rank: u32,
    /// Time in MPI.
    pub mpi_ps: u64,
    /// The same in the trace.
    pub traced_mpi_ps: u64,
    /// Time in MPI waiting for arrivals.
    pub waited_ps: u64,
    /// Time from its first call's entry to its last's return.
    pub total_ps: u64,
    /// The same in the trace.
    pub traced_ps: u64,
}

/// One function's times, over all processes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FunctionOutcome {
    /// Its number.
    pub function: u16,
    /// Number of calls.
    pub calls: u64,
    /// Time in them.
    pub total_ps: u64,
    /// The same in the trace.
    pub traced_ps: u64,
    /// The part that is waiting.
    pub waited_ps: u64,
    /// Sum over calls of the absolute difference to the trace.
    pub moved_ps: u64,
}

impl Outcome {
    pub(crate) fn of(program: &Program, played: &Played) -> Self {
        let mut functions: BTreeMap<u16, FunctionOutcome> = BTreeMap::new();
        let mut ranks: BTreeMap<u32, RankOutcome> = BTreeMap::new();
        let mut ends = CallExtent::default();
        let mut were = CallExtent::default();
        let (mut main, mut main_were) = (MainPart::default(), MainPart::default());
        for (thread, times) in program.threads.iter().zip(&played.times) {
            let process = program.processes[thread.process as usize];
            let rank = ranks.entry(thread.process).or_default();
            (rank.job, rank.rank) = (process.job, process.rank);
            let (mut own, mut own_were) = (CallExtent::default(), CallExtent::default());
            let calls = thread.calls.iter().zip(times).zip(thread.traced());
            for ((call, times), was) in calls {
                let CallTimes {
                    entry,
                    exit,
                    waited,
                } = *times;
                own.take(entry, exit);
                own_were.take(was.0, was.1);
                main.take(thread.process, call.function, entry, exit);
                main_were.take(thread.process, call.function, was.0, was.1);
                let inside = exit.saturating_sub(entry);
                add(&mut rank.mpi_ps, inside);
                add(&mut rank.traced_mpi_ps, call.inside);
                add(&mut rank.waited_ps, waited);
                let function = functions.entry(call.function).or_default();
                function.function = call.function;
                add(&mut function.calls, call.count.into());
                add(&mut function.total_ps, inside);
                add(&mut function.traced_ps, call.inside);
                add(&mut function.waited_ps, waited);
                add(&mut function.moved_ps, inside.abs_diff(call.inside));
            }
            rank.total_ps = rank.total_ps.max(own.span());
            rank.traced_ps = rank.traced_ps.max(own_were.span());
            ends.join(own);
            were.join(own_were);
        }
        let mut ranks: Vec<RankOutcome> = ranks.into_values().collect();
        ranks.sort_by_key(|rank| (rank.job, rank.rank));
        let mut functions: Vec<FunctionOutcome> = functions.into_values().collect();
        functions.sort_by_key(|function| (std::cmp::Reverse(function.total_ps), function.function));
        let mut links = played.network.loads(played.until);
        links.sort_by_key(|load| std::cmp::Reverse(load.busy));
        Self {
            total_ps: ends.span(),
            traced_ps: were.span(),
            main_ps: main.span(),
            traced_main_ps: main_were.span(),
            ranks,
            functions,
            stuck: stuck(program, &played.stuck)
                .chain(program.unfinished.iter().map(unfinished))
                .collect(),
            links,
            blocked: played.network.blocked().unwrap_or_default(),
            messages: played.messages,
            broken_off: played.broken_off,
            as_traced: false,
            lost_in_trace: 0,
            times: times(&played.times),
        }
    }
}

/// Adds values of an untrusted trace, saturating.
fn add(sum: &mut u64, more: u64) {
    *sum = sum.saturating_add(more);
}

fn times(times: &[Vec<CallTimes>]) -> Vec<Vec<(u64, u64)>> {
    let of = |times: &CallTimes| (times.entry, times.exit);
    times
        .iter()
        .map(|times| times.iter().map(of).collect())
        .collect()
}

fn stuck<'a>(program: &'a Program, stuck: &'a [(u32, u32)]) -> impl Iterator<Item = Stuck> + 'a {
    stuck.iter().filter_map(|(number, call)| {
        let thread = &program.threads[*number as usize];
        let process = program.processes[thread.process as usize];
        Some(Stuck {
            job: process.job,
            rank: process.rank,
            call: *call,
            function: thread.calls.get(*call as usize)?.function,
            traced_ps: thread.traced().nth(*call as usize)?.0,
        })
    })
}

fn unfinished(of: &Unfinished) -> Stuck {
    Stuck {
        job: of.job,
        rank: of.rank,
        call: of.call,
        function: of.function,
        traced_ps: of.entry,
    }
}

/// The first and the last time of calls.
#[derive(Clone, Copy, Debug, Default)]
struct CallExtent(Option<(u64, u64)>);

impl CallExtent {
    fn take(&mut self, entry: u64, exit: u64) {
        let (first, last) = self.0.unwrap_or((entry, exit));
        self.0 = Some((first.min(entry), last.max(exit)));
    }

    fn join(&mut self, other: Self) {
        if let Some(other) = other.0 {
            self.take(other.0, other.1);
        }
    }

    fn span(&self) -> u64 {
        self.0.map_or(0, |(first, last)| last.saturating_sub(first))
    }
}
