//! Collects the last call of each process and the pending operations.
//!
//! Memory holds these and pending operations alone. Called by `hang` for each event.

use std::collections::{BTreeMap, BTreeSet};

use belljar_job::{Communicators, Fact, Operations, ProcessKey};
use belljar_mpi::{CallKind, sets_attribute};
use belljar_trace::{Event, LostProcess, TraceHeader};

use super::pending::PendingOperations;
use super::stuck::{Needs, Waiters};
use super::{Hang, HungRank, JobRank, RankState};
use crate::argument_words;
use crate::dump::frames::FrameNames;

/// The time that a call takes at least before its rank may be stuck, in picoseconds.
const LEAST_WAIT_PS: u64 = 1_000_000_000;
/// The time after which a part in a mismatched operation that needs no other member does not return, in picoseconds.
const LONG_WAIT_PS: u64 = 200_000_000_000;

/// The last call of a thread.
#[derive(Clone, Debug)]
struct LastCall {
    number: u64,
    event: Event,
}

/// Collects [`Hang`] from all events of a trace, in trace order.
pub(super) struct HangCollector<'a> {
    header: &'a TraceHeader,
    communicators: &'a Communicators,
    operations: Operations<&'a Communicators>,
    facts: Vec<Fact>,
    number: u64,
    end_ps: u64,
    pending: PendingOperations<'a>,
    last: BTreeMap<ProcessKey, BTreeMap<u32, LastCall>>,
    /// Processes whose attributes have functions of the program that MPI_Finalize may call.
    attributed: BTreeSet<ProcessKey>,
    /// Processes that have ended, with their statuses.
    lost: BTreeMap<ProcessKey, Option<u32>>,
}

impl<'a> HangCollector<'a> {
    pub(super) fn new(header: &'a TraceHeader, communicators: &'a Communicators) -> Self {
        Self {
            header,
            communicators,
            operations: Operations::new(header, communicators),
            facts: Vec::new(),
            number: 0,
            end_ps: 0,
            pending: PendingOperations::new(communicators),
            last: BTreeMap::new(),
            attributed: BTreeSet::new(),
            lost: BTreeMap::new(),
        }
    }

    /// Adds an event.
    pub(super) fn observe(&mut self, event: &Event) {
        let time = self.time(event, event.exit.unwrap_or(event.entry));
        self.end_ps = self.end_ps.max(time);
        if event.depth > 0 {
            return;
        }
        if sets_attribute(event.function) {
            self.attributed.insert((event.node, event.process));
        }
        let mut facts = std::mem::take(&mut self.facts);
        self.operations.observe(event, &mut facts);
        for fact in facts.drain(..) {
            self.pending.take(event, self.number, &fact);
        }
        self.facts = facts;
        let last = LastCall {
            number: self.number,
            event: event.clone(),
        };
        let threads = self.last.entry((event.node, event.process)).or_default();
        threads.insert(event.thread, last);
        self.number += 1;
    }

    fn time(&self, event: &Event, cycles: u64) -> u64 {
        self.header.frequency(event.node).time_of(cycles).as_ps()
    }

    /// The result, with the run's end if it is later than the last call, and the processes that have ended by then.
    pub(super) fn finish(
        mut self,
        end_ps: Option<u64>,
        lost: &[LostProcess],
        names: Option<FrameNames<'_>>,
    ) -> Hang {
        let lost = lost.iter().map(|it| ((it.node, it.process), it.status));
        self.lost = lost.collect();
        self.end_ps = self.end_ps.max(end_ps.unwrap_or(0));
        let mut facts = Vec::new();
        self.operations.end(&mut facts);
        self.pending.end(&facts);
        let mut waiters = Waiters::default();
        for (process, threads) in &self.last {
            let Some(job) = self.communicators.job(*process) else {
                continue;
            };
            let Some(last) = threads.values().max_by_key(|last| last.number) else {
                continue;
            };
            let rank = last.event.rank;
            let of = JobRank { job, rank };
            match self.state(*process, threads) {
                RankState::Ended | RankState::Lost | RankState::Finalizing => waiters.end(of),
                RankState::InCall if self.lasts(&last.event) && !is_end(&last.event) => {
                    let needs = (threads.len() == 1).then(|| self.needs(*process, last));
                    if let Some(needs) = needs.flatten() {
                        waiters.wait(of, needs);
                    }
                }
                RankState::InCall | RankState::Outside => {}
            }
        }
        let (verdict, chain) = waiters.verdict();
        Hang {
            verdict,
            chain,
            end_ps: self.end_ps,
            ranks: self.ranks(&waiters, names),
            unreceived: self.pending.one_sided(true),
            unsent: self.pending.one_sided(false),
        }
    }

    fn needs(&self, process: ProcessKey, last: &LastCall) -> Option<Needs> {
        let entry = self.time(&last.event, last.event.entry);
        let lasts_long = entry + LONG_WAIT_PS <= self.end_ps;
        self.pending
            .needs(process, last.number, &last.event, lasts_long)
    }

    /// True for a call that has lasted for long enough; a shorter one may be about to return.
    fn lasts(&self, event: &Event) -> bool {
        self.time(event, event.entry) + LEAST_WAIT_PS <= self.end_ps
    }

    /// The state of a process. A process of several threads is in a call if all of them are.
    fn state(&self, process: ProcessKey, threads: &BTreeMap<u32, LastCall>) -> RankState {
        let finalized = threads.values().any(|last| {
            last.event.meaning().kind == CallKind::Finalize && last.event.exit.is_some()
        });
        match threads.values().all(|last| last.event.exit.is_none()) {
            _ if finalized => RankState::Ended,
            _ if self.lost.contains_key(&process) => RankState::Lost,
            _ if self.is_finalizing(process, threads) => RankState::Finalizing,
            true => RankState::InCall,
            false => RankState::Outside,
        }
    }

    /// True if a process is in MPI_Finalize for long, and none of its own functions is called there.
    fn is_finalizing(&self, process: ProcessKey, threads: &BTreeMap<u32, LastCall>) -> bool {
        let mut open = threads.values().filter(|last| last.event.exit.is_none());
        open.next()
            .is_some_and(|last| is_end(&last.event) && self.lasts(&last.event))
            && open.next().is_none()
            && !self.attributed.contains(&process)
    }

    /// All processes with their partners.
    fn ranks(&self, waiters: &Waiters, mut names: Option<FrameNames<'_>>) -> Vec<HungRank> {
        let mut ranks = Vec::new();
        for (process, threads) in &self.last {
            let Some(job) = self.communicators.job(*process) else {
                continue;
            };
            let Some(last) = threads.values().max_by_key(|last| last.number) else {
                continue;
            };
            let event = &last.event;
            let rank = event.rank;
            let of = JobRank { job, rank };
            let since_ps = self.time(event, event.exit.unwrap_or(event.entry));
            let (waits_for, any) = waiters.partners(of);
            ranks.push(HungRank {
                of,
                node: event.node,
                state: self.state(*process, threads),
                function: event.name(),
                arguments: argument_words(event),
                is_inside: event.exit.is_none(),
                since_ps,
                for_ps: self.end_ps.saturating_sub(since_ps),
                waits_for,
                any,
                stuck: waiters.is_stuck(of),
                mismatched: waiters.is_stuck(of)
                    && self.pending.is_mismatched_call(*process, last.number),
                exit: self.lost.get(process).copied().flatten(),
                site: names
                    .as_mut()
                    .map_or_else(Vec::new, |names| names.frames(&event.site)),
            });
        }
        ranks.sort_by_key(|rank| rank.of);
        ranks
    }
}

/// True for a call of MPI_Finalize.
fn is_end(event: &Event) -> bool {
    event.meaning().kind == CallKind::Finalize
}
