//! Choices of a run: calls that could have got one of several messages.
//!
//! The alternatives of a choice are match sets: messages of other ranks that fit it, that no earlier receive takes, and whose sends
//! do not depend on its completion. A hung run has the choices up to its end. Used by `belljar explore`.

/// Calls that complete one of several requests.
mod completions;

use std::collections::BTreeMap;
use std::path::Path;
use std::rc::Rc;

use belljar_archive::TraceReader;
use belljar_job::{Communicators, Member, Operations, ProcessKey, ReceiveSelector, communicators};
use belljar_orders::{Choice, ChoiceId, ChoiceKind, MessageId, ObservedRun, RankId, SentMessage};
use belljar_trace::{Event, TraceError, TraceHeader};

use super::replay::{Clock, Replay};
use super::{FoundProbe, OrderedKind, RunOrder, Step};

/// A receiver on a communicator.
type Place = (u32, Member);

/// Reads the choices of the trace at `path`.
///
/// # Errors
/// Returns [`TraceError`] if the file cannot be read as a trace.
pub fn observed_run(path: &Path) -> Result<ObservedRun, TraceError> {
    let communicators = communicators(path)?;
    let mut reader = TraceReader::open(path)?;
    let header = reader.header().clone();
    Ok(observed(&header, &communicators, reader.by_ref()))
}

/// The choices of a trace's events.
pub(in crate::check) fn observed(
    header: &TraceHeader,
    communicators: &Communicators,
    events: impl Iterator<Item = Event>,
) -> ObservedRun {
    let mut operations = Operations::new(header, communicators);
    let mut order = RunOrder::default();
    let mut facts = Vec::new();
    for event in events.filter(|event| event.depth == 0) {
        let call = Rc::new(event);
        facts.clear();
        operations.observe(&call, &mut facts);
        order.take(&call, &facts, communicators);
    }
    facts.clear();
    operations.end(&mut facts);
    order.match_all(&facts);
    let mut replay = Replay::new(&order, false);
    replay.run();
    Observer::new(&order, &replay, header).observe()
}

/// The choice for which alternatives are searched.
#[derive(Clone, Copy, Debug)]
struct Asking {
    place: Place,
    wanted: ReceiveSelector,
    /// Thread and number of the call that completes it.
    end: (u32, u32),
    /// Thread's call that posts it, and its operation if it has one.
    posted: u32,
    operation: Option<u32>,
}

/// Collects the choices of a run.
struct Observer<'a> {
    order: &'a RunOrder,
    replay: &'a Replay<'a>,
    header: &'a TraceHeader,
    /// By receiver and sender, in the order of the sends.
    sent: BTreeMap<Place, BTreeMap<Member, Vec<u32>>>,
    ids: BTreeMap<u32, MessageId>,
    numbers: BTreeMap<(RankId, ChoiceKind), u32>,
    run: ObservedRun,
}

impl<'a> Observer<'a> {
    fn new(order: &'a RunOrder, replay: &'a Replay<'a>, header: &'a TraceHeader) -> Self {
        let mut own = Self {
            order,
            replay,
            header,
            sent: BTreeMap::new(),
            ids: BTreeMap::new(),
            numbers: BTreeMap::new(),
            run: ObservedRun::default(),
        };
        let mut counts: BTreeMap<(Member, Member), u32> = BTreeMap::new();
        for (send, operation) in (0..).zip(&order.operations) {
            let OrderedKind::Send {
                communicator,
                from,
                to,
                ..
            } = operation.what
            else {
                continue;
            };
            let count = counts.entry((from, to)).or_default();
            let id = MessageId {
                from: rank_id(from),
                to: rank_id(to),
                number: *count,
            };
            *count += 1;
            let by_sender = own.sent.entry((communicator, to)).or_default();
            by_sender.entry(from).or_default().push(send);
            own.ids.insert(send, id);
        }
        own
    }

    fn observe(mut self) -> ObservedRun {
        let members = self.order.members.iter();
        self.run.nodes = members
            .map(|(member, node)| (rank_id(*member), *node))
            .collect();
        if self.order.is_crowded {
            self.run
                .unknown
                .push("the trace has too many calls".to_owned());
            return self.run;
        }
        if !self.replay.has_clocks() {
            if self.order.has_wildcards || self.order.has_selections {
                self.run
                    .unknown
                    .push("the run has too many ranks and calls".to_owned());
            }
            return self.run;
        }
        self.threaded();
        self.receives();
        self.completions();
        for probe in &self.order.probes {
            self.probe(probe);
        }
        self.run
            .choices
            .sort_by_key(|choice| (choice.end_ps, choice.id));
        self.run
    }

    /// Names processes of several threads: the order of their calls is not known to be the same in other runs.
    fn threaded(&mut self) {
        let mut counts: BTreeMap<ProcessKey, u32> = BTreeMap::new();
        for (process, _) in self.order.threads.keys() {
            *counts.entry(*process).or_default() += 1;
        }
        for ((node, process), count) in counts.into_iter().filter(|(_, count)| *count > 1) {
            let text = format!(
                "process {process} of node {node} calls MPI in {count} threads, whose order is not explored"
            );
            self.run.unknown.push(text);
        }
    }

    /// Receives from any source.
    fn receives(&mut self) {
        for (number, operation) in (0..).zip(&self.order.operations) {
            let OrderedKind::Receive {
                communicator,
                to,
                wanted,
            } = operation.what
            else {
                continue;
            };
            if wanted.from.is_some() {
                continue;
            }
            let id = self.next_id(to, ChoiceKind::Receive);
            let (Some(end), Some(begin)) =
                (self.replay.end_of(number), self.replay.begin_of(number))
            else {
                continue;
            };
            let Some(send) = operation.partner else {
                self.run
                    .unknown
                    .push(format!("the trace has no message of {id}"));
                continue;
            };
            let asking = Asking {
                place: (communicator, to),
                wanted,
                end,
                posted: begin.of(operation.thread),
                operation: Some(number),
            };
            let clock = self.replay.completion_of(number);
            self.add(id, asking, send, clock);
        }
    }

    /// A probe of any source.
    fn probe(&mut self, probe: &FoundProbe) {
        let id = self.next_id(probe.channel.to, ChoiceKind::Probe);
        let asking = Asking {
            place: (probe.channel.communicator, probe.channel.to),
            wanted: ReceiveSelector {
                from: None,
                tag: probe.tag,
            },
            end: (probe.thread, probe.step),
            posted: probe.step,
            operation: None,
        };
        let from = self
            .sent
            .get(&asking.place)
            .and_then(|all| all.get(&probe.channel.from));
        let wanted = ReceiveSelector {
            tag: Some(probe.channel.tag),
            ..asking.wanted
        };
        let found = from.and_then(|own| self.first_fitting(own, Asking { wanted, ..asking }));
        let Some(send) = found else {
            self.run
                .unknown
                .push(format!("the trace has no message of {id}"));
            return;
        };
        let clock = self.replay.probe_clock(probe.thread, probe.step);
        self.add(id, asking, send, clock);
    }

    fn next_id(&mut self, to: Member, kind: ChoiceKind) -> ChoiceId {
        let rank = rank_id(to);
        let count = self.numbers.entry((rank, kind)).or_default();
        let number = *count;
        *count += 1;
        ChoiceId { rank, kind, number }
    }

    /// Adds a choice that got the message of `send`.
    fn add(&mut self, id: ChoiceId, asking: Asking, send: u32, clock: Option<&Clock>) {
        let OrderedKind::Send { from, .. } = self.order.operations[send as usize].what else {
            return;
        };
        let others = self.sent.get(&asking.place).into_iter().flatten();
        let others = others.filter(|(other, _)| **other != from);
        let found = others.filter_map(|(_, own)| self.first_fitting(own, asking));
        let found = found.filter(|other| self.is_free(*other, asking)).collect();
        self.push(id, asking, send, clock, found);
    }

    fn push(
        &mut self,
        id: ChoiceId,
        asking: Asking,
        send: u32,
        clock: Option<&Clock>,
        found: Vec<u32>,
    ) {
        let (thread, call) = asking.end;
        let steps = &self.order.steps[thread as usize];
        let (Some(ending), Some(posting), Some(clock)) = (
            steps.get(call as usize - 1),
            steps.get((asking.posted as usize).saturating_sub(1)),
            clock,
        ) else {
            return;
        };
        let Some(&matched) = self.ids.get(&send) else {
            return;
        };
        let alternatives = found.iter().map(|send| self.ids[send]).collect();
        let threads = 0..self.order.steps.len() as u32;
        let choice = Choice {
            id,
            function: self.order.examples[posting.place as usize]
                .name()
                .to_owned(),
            entry_ps: self.ps(posting, posting.entry),
            end_ps: self.ps(ending, ending.exit.unwrap_or(ending.entry)),
            matched,
            alternatives,
            thread,
            steps: [asking.posted, call],
            clock: threads.map(|other| clock.of(other)).collect(),
        };
        for send in found.into_iter().chain([send]) {
            self.keep_message(send);
        }
        self.run.choices.push(choice);
    }

    /// The first message of a sender that fits, and that no receive takes that was posted before.
    fn first_fitting(&self, own: &[u32], asking: Asking) -> Option<u32> {
        let mut own = own.iter().copied();
        own.find(|send| {
            let operation = &self.order.operations[*send as usize];
            let fits = match operation.what {
                OrderedKind::Send { tag, .. } => asking.wanted.tag.is_none_or(|own| own == tag),
                _ => false,
            };
            let is_taken = operation
                .partner
                .is_some_and(|receive| self.is_before(receive, asking));
            fits && !is_taken
        })
    }

    /// True if a receive was posted before the choice.
    fn is_before(&self, receive: u32, asking: Asking) -> bool {
        match asking.operation {
            Some(operation) => receive < operation,
            None => {
                let thread = self.order.operations[receive as usize].thread;
                let begin = self.replay.begin_of(receive);
                thread == asking.end.0
                    && begin.is_some_and(|clock| clock.of(thread) < asking.posted)
            }
        }
    }

    /// True if a send does not depend on the completion of the choice.
    fn is_free(&self, send: u32, asking: Asking) -> bool {
        let (thread, call) = asking.end;
        let begin = self.replay.begin_of(send);
        begin.is_some_and(|clock| clock.of(thread) < call)
    }

    fn keep_message(&mut self, send: u32) {
        let operation = &self.order.operations[send as usize];
        let OrderedKind::Send { tag, .. } = operation.what else {
            return;
        };
        let call = self
            .replay
            .begin_of(send)
            .map_or(0, |clock| clock.of(operation.thread));
        let steps = &self.order.steps[operation.thread as usize];
        let (Some(step), Some(&id)) = (
            steps.get((call as usize).saturating_sub(1)),
            self.ids.get(&send),
        ) else {
            return;
        };
        let message = SentMessage {
            entry_ps: self.ps(step, step.entry),
            vcpu: step.vcpu,
            tag,
            function: self.order.examples[step.place as usize].name().to_owned(),
        };
        self.run.messages.insert(id, message);
    }

    fn ps(&self, step: &Step, cycles: u64) -> u64 {
        self.header.frequency(step.node).time_of(cycles).as_ps()
    }
}

fn rank_id(member: Member) -> RankId {
    RankId {
        job: member.job,
        rank: member.rank,
    }
}
