//! From a trace to a program.
//!
//! Events are seen once, in their order, when communicators are known. A receive with a wildcard names its channel as soon as its status tells
//! whom it got its message from; what nobody tells is counted and left out. Nothing is kept but the program and what is under
//! way. Called by replay.

/// What single calls are.
mod calls;
/// Messages that are sent when all of their partitions are ready.
mod partitions;
/// What is one for all processes: channels, collective operations, who is who.
mod tables;
/// Calls that never returned.
mod unfinished;
/// Receives with wildcards.
mod wildcards;
/// Accesses to other processes' memory, and the epochs in which they are made.
mod windows;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use belljar_analysis::{Communicators, Expansion, Member, ProcessKey, communicators};
use belljar_archive::TraceReader;
use belljar_collectives::Tables;
use belljar_mpi::{CallKind, Epoch};
use belljar_trace::{
    Collective, Completion, Datatype, Direction, Ending, Event, Peer, Phase, TraceError,
    TraceHeader, TraceState, TraceSummary, Transfer,
};

use crate::program::{Operation, Program, Slot};
use crate::thread::{Growing, Times};
use calls::synchronizes;
pub use calls::{asks_time, found_nothing};
use partitions::{Partitions, partitioned};
use tables::Shared;
use wildcards::{Asked, Unsettled};
use windows::Windows;

/// The thread of an event.
type ThreadKey = (ProcessKey, u32);

/// An operation that is under way.
#[derive(Clone, Copy, Debug)]
struct Open {
    thread: ThreadKey,
    slot: Slot,
    /// Where it stands among its thread's operations.
    at: usize,
    /// Of a receive with a wildcard, what it asked for.
    asked: Option<Asked>,
}

/// Makes a program of events.
struct Extractor<'a> {
    header: &'a TraceHeader,
    communicators: &'a Communicators,
    expansion: Expansion<'a>,
    shared: Shared<'a>,
    threads: BTreeMap<ThreadKey, Growing>,
    requests: BTreeMap<(ProcessKey, u64), Vec<Open>>,
    windows: Windows,
    partitions: Partitions,
    /// Receives with a wildcard that are over and whose program asked for no status.
    unsettled: Vec<Unsettled>,
    /// Threads in which a call never returned.
    stopped: BTreeSet<ThreadKey>,
}

/// By which algorithms collective operations are carried out.
#[derive(Clone, Copy, Debug)]
pub enum Algorithms<'t> {
    /// Those that the library that ran took, by its own tables. Where they do not tell, Open MPI's rules are taken, and it is counted.
    AsRun(&'t Tables),
    /// Those that these tables choose, whichever library ran.
    By(&'t Tables),
}

/// What the processes of the trace at `path` did, and whether the trace is complete.
///
/// # Errors
/// [`TraceError`] when the file cannot be read as a trace.
pub fn extract(
    path: &Path,
    algorithms: Algorithms<'_>,
) -> Result<(Program, TraceState), TraceError> {
    let communicators = communicators(path)?;
    let mut reader = TraceReader::open(path)?;
    let header = reader.header().clone();
    let open_mpi = Tables::open_mpi();
    let (own, other) = match algorithms {
        Algorithms::AsRun(tables) => (Some(tables), &open_mpi),
        Algorithms::By(tables) => (None, tables),
    };
    let mut extractor = Extractor {
        header: &header,
        communicators: &communicators,
        expansion: Expansion::new(&communicators, own),
        shared: Shared::new(&communicators, other),
        threads: BTreeMap::new(),
        requests: BTreeMap::new(),
        windows: Windows::default(),
        partitions: Partitions::default(),
        unsettled: Vec::new(),
        stopped: BTreeSet::new(),
    };
    let mut recorded: BTreeMap<u16, u64> = BTreeMap::new();
    for event in reader.by_ref() {
        let count = recorded.entry(event.function).or_default();
        *count = count.saturating_add(event.calls());
        extractor.observe(&event);
    }
    let mut program = extractor.finish();
    let entered = reader.summary().map(TraceSummary::calls);
    for (function, entered) in entered.unwrap_or_default() {
        let count = recorded.get(&function).copied().unwrap_or(0);
        let left_out = &mut program.unknown.unrecorded;
        *left_out = left_out.saturating_add(entered.saturating_sub(count));
    }
    Ok((program, reader.state().clone()))
}

impl Extractor<'_> {
    fn observe(&mut self, event: &Event) {
        self.expansion.learn(event);
        let process = (event.node, event.process);
        let Some(job) = self.communicators.job(process) else {
            return;
        };
        if event.depth > 0 {
            return;
        }
        let rank = event.rank;
        let member = Member { job, rank };
        let number = self.shared.process(member);
        let key = (process, event.thread);
        let thread = self.threads.entry(key);
        thread.or_insert_with(|| Growing::new(number, event.process, event.thread));
        let rate = self.header.frequency(event.node);
        let Some(exit) = event.exit else {
            self.unfinished(event, member, rate.time_of(event.entry).as_ps(), key);
            return;
        };
        let [entry, exit] = [event.entry, exit].map(|at| rate.time_of(at).as_ps());
        let times = Times { entry, exit };
        if found_nothing(event) {
            let calls = u32::try_from(event.calls()).unwrap_or(u32::MAX);
            let outside = rate.time_of(event.outside()).as_ps();
            if let Some(thread) = self.threads.get_mut(&key) {
                thread.polled(event.function, times, calls, outside);
                // Who asks for the time again and again waits for nothing but that: what follows did not begin before.
                if asks_time(event) {
                    thread.end_polls();
                }
            }
            return;
        }
        if !event.failed() {
            self.operations(event, member, key);
        }
        if let Some(thread) = self.threads.get_mut(&key) {
            thread.called(event.function, times);
        }
    }

    /// What a call does.
    fn operations(&mut self, event: &Event, member: Member, key: ThreadKey) {
        let mut done = Vec::new();
        let mut begun = Vec::new();
        self.windows.learn(event, self.communicators);
        for (number, transfer) in event.transfers.iter().enumerate() {
            let part = match transfer.is_access() {
                true => self.access(member, key, transfer),
                false => self.message(event, member, key, (number, transfer)),
            };
            if transfer.phase == Phase::Begun {
                begun.push(part);
                continue;
            }
            let Some(part) = part else {
                continue;
            };
            match transfer.is_access() {
                true => self.windows.accessed(key.0, part),
                false => {
                    self.got(event, part, event.status);
                    done.push(part);
                }
            }
        }
        for collective in &event.collectives {
            let part = self.collective(event, key, collective);
            match collective.phase {
                Phase::Begun => begun.push(part),
                _ => done.extend(part),
            }
        }
        if let Some(sync) = synchronizes(event, self.windows.communicator(event)) {
            let all = self.shared.sync(event, sync);
            done.extend(all.and_then(|(collective, part)| {
                self.begin(key, |slot| Operation::Collective {
                    collective,
                    part,
                    slot,
                })
            }));
        }
        done.extend(self.lock(event, member, key));
        done.extend(self.epoch(event, member, key));
        self.ready(event, key);
        self.request(event, begun);
        for completion in &event.completed {
            done.extend(self.complete(event, completion));
        }
        if event.meaning().epoch().is_some_and(Epoch::ends_accesses) {
            done.extend(self.windows.ended(key.0));
        }
        self.probe(event, member, key);
        if let Some(thread) = self.threads.get_mut(&key) {
            for open in done {
                thread.wait(open.slot);
            }
        }
    }

    /// Begins an operation.
    fn begin(&mut self, key: ThreadKey, operation: impl FnOnce(Slot) -> Operation) -> Option<Open> {
        let thread = self.threads.get_mut(&key)?;
        let (at, slot) = (thread.next(), thread.slot());
        thread.push(operation(slot));
        Some(Open {
            thread: key,
            slot,
            at,
            asked: None,
        })
    }

    /// A message that a call sends or receives.
    fn message(
        &mut self,
        event: &Event,
        member: Member,
        key: ThreadKey,
        (number, transfer): (usize, &Transfer),
    ) -> Option<Open> {
        let partitioned = partitioned(event, number);
        let absent = matches!(transfer.peer, Peer::Null | Peer::Invalid(_));
        if absent || transfer.phase == Phase::Prepared {
            return None;
        }
        let unknown = &mut self.shared.program.unknown.messages;
        let Some(number) = transfer.communicator else {
            *unknown += 1;
            return None;
        };
        let communicator = self.communicators.identity(key.0, number);
        let peer = self.communicators.peer(key.0, number, transfer.peer);
        let (Some(communicator), true) =
            (communicator, peer.is_some() || transfer.peer == Peer::Any)
        else {
            *unknown += 1;
            return None;
        };
        let (bytes, mode) = (transfer.bytes, transfer.mode());
        let pieces = matches!(transfer.datatype, Datatype::Derived { .. });
        match (transfer.direction, peer, transfer.tag) {
            (Direction::Send, Some(to), Some(tag)) => {
                let channel = self.shared.channel(communicator, member, to, tag);
                if let Some(number) = partitioned {
                    return self.send_partitioned(key, number, channel, (bytes, pieces));
                }
                self.begin(key, |slot| Operation::Send {
                    channel,
                    slot,
                    bytes,
                    mode,
                    pieces,
                })
            }
            (Direction::Send, ..) => {
                *unknown += 1;
                None
            }
            (Direction::Receive, Some(from), Some(tag)) => {
                let channel = self.shared.channel(communicator, from, member, tag);
                let open = self.begin(key, |slot| Operation::Receive {
                    channel,
                    slot,
                    pieces,
                })?;
                self.partitions.receives(key.0, partitioned, open);
                Some(open)
            }
            (Direction::Receive, ..) => {
                let open = self.begin(key, |slot| Operation::Nothing { slot })?;
                let asked = Asked {
                    communicator: number,
                    tag: transfer.tag,
                    pieces,
                };
                Some(Open {
                    asked: Some(asked),
                    ..open
                })
            }
        }
    }

    /// A process's part in a collective operation.
    fn collective(
        &mut self,
        event: &Event,
        key: ThreadKey,
        collective: &Collective,
    ) -> Option<Open> {
        if collective.phase == Phase::Prepared {
            return None;
        }
        let found = self
            .shared
            .take_part(&mut self.expansion, event, collective);
        let Some((collective, part)) = found else {
            self.shared.program.unknown.collectives += 1;
            return None;
        };
        self.begin(key, |slot| Operation::Collective {
            collective,
            part,
            slot,
        })
    }

    /// The requests that the call returned stand for these.
    fn request(&mut self, event: &Event, begun: Vec<Option<Open>>) {
        let process = (event.node, event.process);
        match event.started.as_slice() {
            // One request may stand for several, as that of MPI_Isendrecv.
            [request] => {
                let begun = begun.into_iter().flatten().collect();
                self.requests.insert((process, *request), begun);
            }
            requests if requests.len() == begun.len() => {
                for (request, open) in requests.iter().zip(begun) {
                    let open = open.into_iter().collect();
                    self.requests.insert((process, *request), open);
                }
            }
            // The trace does not map requests to operations here, so their completion is unknown.
            _ => {}
        }
    }

    /// What a request stood for, which a call completes.
    fn complete(&mut self, event: &Event, completion: &Completion) -> Vec<Open> {
        let process = (event.node, event.process);
        let all = self.requests.remove(&(process, completion.request));
        let all = all.unwrap_or_default();
        let cancelled = completion.status.is_some_and(|status| status.cancelled);
        for open in &all {
            match completion.ending {
                Ending::Well if !cancelled => self.got(event, *open, completion.status),
                _ => self.mend(*open, Operation::Nothing { slot: open.slot }),
            }
        }
        all
    }

    /// A message that a call found, without receiving it.
    fn probe(&mut self, event: &Event, member: Member, key: ThreadKey) {
        let probes = matches!(
            event.meaning().kind,
            CallKind::Probe | CallKind::ProbeMatched
        );
        let (Some(number), Some(status)) = (event.communicator, event.status) else {
            return;
        };
        if !probes {
            return;
        }
        let from = self.communicators.peer(key.0, number, status.source);
        let communicator = self.communicators.identity(key.0, number);
        if let (Some(communicator), Some(from), Some(thread)) =
            (communicator, from, self.threads.get_mut(&key))
        {
            let channel = self.shared.channel(communicator, from, member, status.tag);
            thread.push(Operation::Probe { channel });
        }
    }

    fn finish(mut self) -> Program {
        self.settle();
        let mut program = self.shared.program;
        program.threads = self
            .threads
            .into_values()
            .map(Growing::finish)
            .filter(|thread| !thread.calls.is_empty())
            .collect();
        program
    }
}
