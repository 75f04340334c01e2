//! Passes each event of a trace to all checks.
//!
//! Memory holds operations and objects in progress, and the calls of the causal order. Called by `check` for each event.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use belljar_job::{Communicators, Fact, Member, Operations, ProcessKey};
use belljar_mpi::CallKind;
use belljar_trace::{Datatype, Event, LostProcess, TraceHeader};

use super::buffers::accesses::Accesses;
use super::buffers::windows::WindowConflicts;
use super::buffers::{BufferContext, Buffers};
use super::collectives::{CollectiveTurns, TurnContext};
use super::epochs::Epochs;
use super::finding::{FindingKind, Findings};
use super::lifetime::Lifetimes;
use super::messages::Messages;
use super::objects::Objects;
use super::order::RunOrder;
use super::requests::RequestStates;
use super::signature::types::{TypeTable, UncheckedType};
use super::{JobEnd, MpiCheck, RunFacts, Unchecked, arguments, library};
use crate::causes::hang::{Hang, HangVerdict, HungRank, JobRank, RankState};
use crate::dump::frames::FrameNames;
use crate::dump::words;

/// The time for which all ranks are inside of calls at least before none of them is taken to go on, in picoseconds.
const STILL_PS: u64 = 10_000_000_000;
/// Most ranks that the sentence on a failed job names.
const MOST_NAMED: usize = 4;

/// Collects [`MpiCheck`] from all events of a trace, in trace order.
pub(super) struct CheckCollector<'a> {
    header: &'a TraceHeader,
    communicators: &'a Communicators,
    operations: Operations<&'a Communicators>,
    facts: Vec<Fact>,
    findings: Findings,
    last: BTreeMap<ProcessKey, Rc<Event>>,
    lifetimes: Lifetimes,
    types: TypeTable,
    messages: Messages,
    turns: CollectiveTurns,
    objects: Objects,
    requests: RequestStates,
    epochs: Epochs,
    buffers: Buffers,
    accesses: Accesses,
    windows: WindowConflicts,
    order: RunOrder,
    calls: u64,
    is_partial: bool,
    /// Processes that have called `MPI_Finalize`.
    ended: usize,
}

impl<'a> CheckCollector<'a> {
    /// `is_partial` if the trace lacks calls: then arguments and results alone are checked.
    pub(super) fn new(
        header: &'a TraceHeader,
        communicators: &'a Communicators,
        accesses: Accesses,
        is_partial: bool,
    ) -> Self {
        Self {
            is_partial,
            header,
            communicators,
            operations: Operations::new(header, communicators),
            facts: Vec::new(),
            findings: Findings::default(),
            last: BTreeMap::new(),
            lifetimes: Lifetimes::default(),
            types: TypeTable::default(),
            messages: Messages::default(),
            turns: CollectiveTurns::default(),
            objects: Objects::default(),
            requests: RequestStates::default(),
            epochs: Epochs::default(),
            buffers: Buffers::default(),
            accesses,
            windows: WindowConflicts::default(),
            order: RunOrder::default(),
            calls: 0,
            ended: 0,
        }
    }

    /// Adds an event.
    pub(super) fn observe(&mut self, event: &Event) {
        if event.depth > 0 {
            return;
        }
        self.calls += event.calls();
        let call = Rc::new(event.clone());
        let process = (call.node, call.process);
        let findings = &mut self.findings;
        arguments::take(&call, self.communicators, findings);
        if self.is_partial {
            library::returned(&call, findings);
            self.last.insert(process, call);
            return;
        }
        self.lifetimes.take(&call, findings);
        self.objects.take(&call);
        self.types.take(&call);
        self.requests.take(&call, findings);
        self.accesses.take(&call, &self.requests, findings);
        self.epochs.take(&call, findings);
        self.follow(&call);
        library::returned(&call, &mut self.findings);
        if call.meaning().kind == CallKind::Finalize {
            self.ended += 1;
            self.objects.end_of(process, &mut self.findings);
            self.requests.end_of(process, &mut self.findings);
            self.epochs.end_of(&call, &mut self.findings);
        }
        self.last.insert(process, call);
    }

    /// Follows the operations of a call.
    fn follow(&mut self, call: &Rc<Event>) {
        let Some(job) = self.communicators.job((call.node, call.process)) else {
            return;
        };
        let member = Member {
            job,
            rank: call.rank,
        };
        self.facts.clear();
        // A call that frees a window names it before its facts.
        let window = self.operations.window(call);
        self.operations.observe(call, &mut self.facts);
        self.buffers.take_call(call, member);
        let context = BufferContext {
            operations: &self.operations,
            requests: &self.requests,
            epochs: &self.epochs,
            types: &self.types,
            member,
        };
        let turns = TurnContext {
            communicators: self.communicators,
            types: &self.types,
        };
        self.buffers.learn(call, &context);
        for fact in &self.facts {
            self.messages
                .take(call, fact, &self.types, &mut self.findings);
            self.turns
                .take(call, window, fact, &turns, &mut self.findings);
            self.buffers.take(call, fact, &context, &mut self.findings);
            if self.accesses.are_recorded {
                let (buffers, order) = (&self.buffers, &mut self.order);
                self.windows.take(call, fact, buffers, order, &context);
            }
        }
        if self.accesses.are_recorded {
            self.windows.take_call(call, self.header, &context);
        }
        self.order.take(call, &self.facts, self.communicators);
    }

    /// The result.
    pub(super) fn finish(
        mut self,
        run: &RunFacts,
        is_whole: bool,
        hang: &Hang,
        names: Option<FrameNames<'_>>,
    ) -> MpiCheck {
        self.facts.clear();
        self.operations.end(&mut self.facts);
        self.order.match_all(&self.facts);
        for fact in &self.facts {
            self.messages.settle(fact, &self.types, &mut self.findings);
        }
        // Ranks that are all inside of calls for long have no one left to wait for.
        let mut ranks = hang.ranks.iter();
        let is_still =
            ranks.all(|rank| rank.state != RankState::Outside && rank.for_ps >= STILL_PS);
        let waits = |rank: &&HungRank| {
            is_still && matches!(rank.state, RankState::InCall | RankState::Finalizing)
        };
        let stuck = hang.ranks.iter().filter(|rank| rank.stuck || waits(rank));
        let stuck: BTreeSet<JobRank> = stuck.map(|rank| rank.of).collect();
        self.turns
            .finish(&stuck, self.communicators, &mut self.findings);
        if !self.is_partial {
            let is_ended = self.ended == self.last.len();
            self.messages.finish(is_ended, &stuck, &mut self.findings);
        }
        let reports = run
            .stderr
            .as_deref()
            .map_or_else(Vec::new, library::reports);
        library::aborted(&reports, &self.last, &mut self.findings);
        if !self.is_partial && reports.is_empty() {
            let facts = (run.end.as_ref(), is_whole);
            self.lifetimes
                .finish(facts, self.communicators, &mut self.findings);
        }
        if reports.is_empty() && !self.is_partial {
            self.deadlock(hang);
        }
        self.order.finish(&mut self.findings);
        if self.accesses.are_recorded {
            let of_windows = &self.accesses.of_windows;
            self.windows
                .finish(of_windows, self.header, &self.order, &mut self.findings);
        }
        let unchecked = self.unchecked(run);
        MpiCheck {
            unchecked,
            failure: run.end.as_ref().and_then(|end| self.failure(end)),
            calls: self.calls,
            processes: self.last.len() as u64,
            findings: self.findings.finish(self.header, self.communicators, names),
        }
    }

    /// The verdict on ranks that cannot go on.
    fn deadlock(&mut self, hang: &Hang) {
        // The check of collective operations reports these, with all of their calls.
        if hang.has_mismatch() {
            return;
        }
        let Some(sentence) = hang
            .sentence()
            .filter(|_| hang.verdict != HangVerdict::NotStuck)
        else {
            return;
        };
        let of = |process: ProcessKey| self.communicators.job(process);
        let calls = hang.chain.iter().filter_map(|own| {
            let mut last = self.last.iter();
            let found = last
                .find(|(process, call)| of(**process) == Some(own.job) && call.rank == own.rank);
            found.map(|(_, call)| call)
        });
        let calls: Vec<&Rc<Event>> = calls.collect();
        self.findings.add(FindingKind::Deadlock, &calls, sentence);
    }

    /// A sentence on a job that failed or did not end, with the ranks that signals ended.
    fn failure(&self, end: &JobEnd) -> Option<String> {
        let mut sentence = match end.exit_code {
            Some(0) => return None,
            Some(code) => format!("the job ended with exit code {code}"),
            None => "the job had not ended when the run did".to_owned(),
        };
        let ended = end.ended.iter().filter_map(|of| {
            let signal = of.status.filter(|status| status & 0x7f != 0)?;
            let call = self.last.get(&(of.node, of.process))?;
            let how = LostProcess::describe(Some(signal));
            Some(format!("; rank {} {how}", call.rank))
        });
        let ended: Vec<String> = ended.collect();
        sentence.extend(ended.iter().take(MOST_NAMED).map(String::as_str));
        if let Some(more @ 1..) = ended.len().checked_sub(MOST_NAMED) {
            sentence.push_str(&format!("; and {more} more"));
        }
        Some(sentence)
    }

    /// Checks that the trace does not allow.
    fn unchecked(&self, run: &RunFacts) -> Vec<Unchecked> {
        let is_crowded = self.accesses.is_crowded || self.windows.is_crowded;
        let buffers = match (self.accesses.are_recorded, is_crowded) {
            (true, false) => None,
            (true, true) => Some(
                "the run could not watch all buffers: there are too many at once, or some have too many pieces, or datatypes or windows whose memory is unknown",
            ),
            (false, _) => {
                Some("the run recorded no loads and stores; run it with trace.buffers = true")
            }
        };
        let buffers = buffers.map(|reason| Unchecked {
            check: "accesses of the program to buffers",
            reason: reason.to_owned(),
        });
        let mut all: Vec<Unchecked> = buffers.into_iter().collect();
        all.extend(self.unchecked_types());
        if run.stderr.is_none() {
            all.push(Unchecked {
                check: "errors with which the MPI library aborted",
                reason: "the trace has no standard error next to it".to_owned(),
            });
        }
        if self.order.is_crowded {
            all.push(Unchecked {
                check: "message races and unbuffered sends",
                reason: "the trace has too many calls".to_owned(),
            });
        }
        if self.turns.is_crowded {
            all.push(Unchecked {
                check: "collective operations",
                reason: "too many are in progress at once".to_owned(),
            });
        }
        if let Some(missing) = &run.missing {
            all.push(Unchecked {
                check: "order, matching, requests, objects, epochs and buffers",
                reason: missing.clone(),
            });
        }
        all
    }
    /// Comparisons of derived datatypes that were not made.
    fn unchecked_types(&self) -> Vec<Unchecked> {
        let lacking = [
            (
                &self.types.lacks_signature,
                "type signatures of derived datatypes",
            ),
            (
                &self.types.lacks_layout,
                "overlaps of buffers of derived datatypes",
            ),
        ];
        let lacking = lacking
            .into_iter()
            .filter_map(|(first, check)| Some((first.get()?, check)));
        let unchecked = lacking.map(|(first, check)| Unchecked {
            check,
            reason: self.why_unchecked(first),
        });
        unchecked.collect()
    }

    /// The reason why datatypes were not compared, with the first of them.
    fn why_unchecked(&self, first: UncheckedType) -> String {
        if !self.header.has_datatypes() {
            return "the run recorded their sizes alone; run it with trace.datatypes = true"
                .to_owned();
        }
        let why = match first.datatype {
            Datatype::Unknown => "the trace lacks the call that made them",
            _ => "they have too many parts, or were made by a call that is not followed",
        };
        let name = words::datatype(first.datatype);
        let rank = self.last.get(&first.process).map_or(0, |call| call.rank);
        format!("{why}; the first is {name} of rank {rank}")
    }
}
