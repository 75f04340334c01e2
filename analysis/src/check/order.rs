//! The causal order of a run: message races, and sends that need buffering.
//!
//! The calls are replayed with their recorded partners and without times. In the first replay each call returns when MPI's rules
//! let it, and vector clocks give the calls that each send depends on. In the second replay a send returns when its receive
//! has been posted; ranks that cannot go on then need buffering. Memory holds all calls that move data, up to a limit. Filled
//! by each fact, and evaluated at the end.

/// Choices of a run, for the search of other orders.
mod choices;
/// Points of threads, and their order.
mod points;
/// Receives that could have got another message.
mod races;
/// Execution of the calls by their partners.
mod replay;

use std::collections::BTreeMap;
use std::rc::Rc;

use belljar_job::{
    Channel, Communicators, Fact, MeetingId, Member, Operation, OperationId, Origin, ProcessKey,
    ReceiveSelector,
};
use belljar_mpi::{CallKind, Completes, SendMode};
use belljar_trace::{Event, Peer, Site};

use super::finding::{FindingKind, Findings};
use crate::causes::hang::{PartNeeds, part_needs};

#[cfg(test)]
pub(super) use choices::observed;
pub use choices::observed_run;
pub(super) use points::{OrderClocks, ThreadPoint};
use replay::Replay;

/// Limit on operations and on calls.
const MOST_OPERATIONS: usize = 1 << 22;
/// Most ranks of a circle that a finding names.
const LONGEST_CIRCLE: usize = 8;

/// A thread of a process.
type ThreadKey = (ProcessKey, u32);

/// An operation of the run.
#[derive(Clone, Debug)]
struct OrderedOperation {
    thread: u32,
    /// A call of its call site.
    place: u32,
    what: OrderedKind,
    partner: Option<u32>,
}

#[derive(Clone, Debug)]
enum OrderedKind {
    Send {
        communicator: u32,
        from: Member,
        to: Member,
        tag: i32,
        mode: SendMode,
    },
    Receive {
        communicator: u32,
        to: Member,
        wanted: ReceiveSelector,
    },
    Part {
        meeting: MeetingId,
        needs: PartNeeds,
        member: Member,
    },
}

/// A call of a thread.
#[derive(Clone, Debug, Default)]
struct Step {
    begins: Vec<u32>,
    ends: Vec<u32>,
    place: u32,
    /// True if the call may return before all of its operations are complete.
    polls: bool,
    /// True if the call completes one or some of several requests.
    selects: bool,
    /// True for a probe of any source that found a message.
    probes: bool,
    /// Entry and exit, in cycles of the node's processor.
    entry: u64,
    exit: Option<u64>,
    node: u32,
    vcpu: u32,
}

/// A probe of any source that found a message.
#[derive(Clone, Debug)]
struct FoundProbe {
    thread: u32,
    /// Number of the thread's call, from 1.
    step: u32,
    channel: Channel,
    /// The tag that it asked for; `None` for any.
    tag: Option<i32>,
}

/// The calls of a run, by thread.
#[derive(Debug, Default)]
pub(super) struct RunOrder {
    numbers: BTreeMap<OperationId, u32>,
    operations: Vec<OrderedOperation>,
    meetings: BTreeMap<MeetingId, Vec<u32>>,
    threads: BTreeMap<ThreadKey, u32>,
    steps: Vec<Vec<Step>>,
    places: BTreeMap<(ThreadKey, u16, Site), u32>,
    examples: Vec<Rc<Event>>,
    has_wildcards: bool,
    /// True if there are calls that complete one of several requests.
    has_selections: bool,
    probes: Vec<FoundProbe>,
    members: BTreeMap<Member, u32>,
    count: usize,
    /// True if the run has too many calls.
    pub(super) is_crowded: bool,
}

impl RunOrder {
    /// Takes the facts of a call.
    pub(super) fn take(&mut self, call: &Rc<Event>, facts: &[Fact], communicators: &Communicators) {
        if self.is_crowded {
            return;
        }
        let process = (call.node, call.process);
        let Some(job) = communicators.job(process) else {
            return;
        };
        let member = Member {
            job,
            rank: call.rank,
        };
        self.members.entry(member).or_insert(call.node);
        let thread = self.thread((process, call.thread));
        let mut step = self.step(call, thread, member, facts, communicators);
        self.match_all(facts);
        step.probes = self.probed(call, facts, thread);
        self.has_selections |= step.selects;
        if !step.begins.is_empty() || !step.ends.is_empty() || step.probes {
            self.count += 1 + step.begins.len();
            self.steps[thread as usize].push(step);
        }
        if self.count > MOST_OPERATIONS {
            *self = Self {
                is_crowded: true,
                ..Self::default()
            };
        }
    }

    /// A call, with the operations that its facts begin and complete.
    fn step(
        &mut self,
        call: &Rc<Event>,
        thread: u32,
        member: Member,
        facts: &[Fact],
        communicators: &Communicators,
    ) -> Step {
        let mut step = Step {
            place: self.place(call),
            polls: match call.meaning().kind {
                CallKind::Complete(Completes::Any | Completes::Some) => true,
                _ => call.meaning().polls,
            },
            selects: matches!(
                call.meaning().kind,
                CallKind::Complete(Completes::Any | Completes::Some)
            ),
            entry: call.entry,
            exit: call.exit,
            node: call.node,
            vcpu: call.vcpu,
            ..Step::default()
        };
        for fact in facts {
            match fact {
                Fact::Begun {
                    operation,
                    origin,
                    what,
                } => {
                    let what = self.kind(call, *origin, *what, member, communicators);
                    let begun = what.map(|what| self.begin(*operation, thread, step.place, what));
                    step.begins.extend(begun);
                }
                Fact::Completed {
                    operation,
                    cancelled: false,
                    ..
                } => {
                    step.ends.extend(self.numbers.get(operation));
                }
                _ => {}
            }
        }
        step
    }

    /// Records a probe of any source that found a message; false for other calls.
    fn probed(&mut self, call: &Event, facts: &[Fact], thread: u32) -> bool {
        let found = facts.iter().find_map(|fact| match fact {
            Fact::Probed { channel } => Some(*channel),
            _ => None,
        });
        let asked = |argument: usize| call.arguments.get(argument).map(|word| *word as i32);
        let (Some(channel), Some(source), Some(tag)) = (found, asked(0), asked(1)) else {
            return false;
        };
        if call.implementation.peer(source) != Peer::Any {
            return false;
        }
        let step = self.steps[thread as usize].len() as u32 + 1;
        let tag = Some(tag).filter(|tag| *tag == channel.tag);
        self.has_wildcards = true;
        self.probes.push(FoundProbe {
            thread,
            step,
            channel,
            tag,
        });
        true
    }

    /// Takes the matches among facts, also of those after the last call.
    pub(super) fn match_all(&mut self, facts: &[Fact]) {
        for fact in facts {
            if let Fact::Matched { send, receive } = fact
                && let (Some(&send), Some(&receive)) =
                    (self.numbers.get(send), self.numbers.get(receive))
            {
                self.operations[send as usize].partner = Some(receive);
                self.operations[receive as usize].partner = Some(send);
            }
        }
    }

    fn thread(&mut self, key: ThreadKey) -> u32 {
        let next = self.steps.len() as u32;
        let thread = *self.threads.entry(key).or_insert(next);
        if thread == next {
            self.steps.push(Vec::new());
        }
        thread
    }

    fn place(&mut self, call: &Rc<Event>) -> u32 {
        let key = (
            ((call.node, call.process), call.thread),
            call.function,
            call.site.clone(),
        );
        let next = self.examples.len() as u32;
        let place = *self.places.entry(key).or_insert(next);
        if place == next {
            self.examples.push(Rc::clone(call));
        }
        place
    }

    fn begin(&mut self, operation: OperationId, thread: u32, place: u32, what: OrderedKind) -> u32 {
        let number = self.operations.len() as u32;
        if let OrderedKind::Part { meeting, .. } = &what {
            self.meetings.entry(*meeting).or_default().push(number);
        }
        self.numbers.insert(operation, number);
        self.operations.push(OrderedOperation {
            thread,
            place,
            what,
            partner: None,
        });
        number
    }

    fn kind(
        &mut self,
        call: &Event,
        origin: Origin,
        what: Operation,
        member: Member,
        communicators: &Communicators,
    ) -> Option<OrderedKind> {
        Some(match what {
            Operation::Send {
                channel,
                partitioned: None,
            } => {
                let mode = match origin {
                    Origin::Transfer(index) => call.transfers.get(index)?.mode(),
                    _ => SendMode::Standard,
                };
                OrderedKind::Send {
                    communicator: channel.communicator,
                    from: channel.from,
                    to: channel.to,
                    tag: channel.tag,
                    mode,
                }
            }
            Operation::Receive {
                communicator,
                to,
                wanted,
                partitioned: None,
            } => {
                self.has_wildcards |= wanted.from.is_none();
                OrderedKind::Receive {
                    communicator,
                    to,
                    wanted,
                }
            }
            Operation::Collective { meeting, operation } => OrderedKind::Part {
                meeting,
                needs: part_needs(communicators, call, origin, operation, member),
                member,
            },
            Operation::Meeting { meeting, .. } => OrderedKind::Part {
                meeting,
                needs: PartNeeds::All,
                member,
            },
            _ => return None,
        })
    }

    /// Adds message races, and sends that need buffering.
    pub(super) fn finish(&self, findings: &mut Findings) {
        if self.is_crowded {
            return;
        }
        let mut real = Replay::new(self, false);
        real.run();
        if real.stuck().next().is_some() {
            return;
        }
        if self.has_wildcards {
            races::find(self, &real, findings);
        }
        let mut unbuffered = Replay::new(self, true);
        unbuffered.run();
        self.unsafe_sends(&unbuffered, findings);
    }

    /// The circle of ranks that a replay without buffers ends with.
    fn unsafe_sends(&self, replay: &Replay<'_>, findings: &mut Findings) {
        let Some(first) = replay.stuck().next() else {
            return;
        };
        let mut chain = vec![first];
        let circle = loop {
            let last = chain[chain.len() - 1];
            let Some(next) = replay.blocker(last) else {
                return;
            };
            if let Some(place) = chain.iter().position(|thread| *thread == next) {
                break chain.split_off(place);
            }
            chain.push(next);
        };
        let calls = circle.iter().filter_map(|thread| replay.call_of(*thread));
        let calls: Vec<&Rc<Event>> = calls.take(LONGEST_CIRCLE).collect();
        let ranks = calls
            .iter()
            .map(|call| format!("rank {} in {}", call.rank, call.name()));
        let ranks: Vec<String> = ranks.collect();
        let text = format!(
            "without buffering of messages, {} wait for each other",
            ranks.join(" and ")
        );
        let text = match calls.len() {
            1 => format!(
                "without buffering of messages, {} waits for itself",
                ranks.join("")
            ),
            _ => text,
        };
        findings.add(FindingKind::UnsafeSend, &calls, text);
    }
}
