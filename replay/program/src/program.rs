//! The operations of an MPI job's threads, call by call.
//!
//! A [`Program`] only has the times that its threads spend themselves; a replay determines the arrival of messages. Matches of receives are fixed: all
//! operations name a [`Channel`], on which the `n`th message sent is the `n`th received. Created by `extract` from a trace or by a
//! [`Builder`](crate::Builder) without one; read by replay.

use std::sync::Arc;

use belljar_collectives::{Algorithm, Call as Passed, Schedule, Stage};
use belljar_mpi::SendMode;
use serde::{Deserialize, Serialize};

/// The number of a process in its program.
pub type ProcessId = u32;

/// A channel's number in its program.
pub type ChannelId = u32;

/// A number for a thread's operation in progress, until it is complete.
pub type Slot = u32;

/// The operations of all threads of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// The processes, in the order of jobs and ranks; last the processes that the trace only names.
    pub processes: Vec<Process>,
    /// Their threads, sorted within a process by their first calls.
    pub threads: Vec<Thread>,
    /// The channels of messages that the program itself sends.
    pub channels: Vec<Channel>,
    /// The collective operations.
    pub collectives: Vec<Collective>,
    /// Distinct participations in collectives, deduplicated.
    pub parts: Vec<Participation>,
    /// The number of calls that mark partitions ready, for each partitioned message.
    pub partitioned: Vec<u32>,
    /// Calls that never returned in the trace and would have moved data or waited for others, the first of each thread.
    pub unfinished: Vec<Unfinished>,
    /// Counts of data missing from the trace.
    pub unknown: Unknown,
}

impl Program {
    /// Multiplies the threads' own work between calls by `factor`: the work of other processors.
    #[must_use]
    pub fn with_work_scaled(mut self, factor: f64) -> Self {
        let scaled = |work: u64| (work as f64 * factor) as u64;
        for thread in &mut self.threads {
            for call in &mut thread.calls {
                call.before = scaled(call.before);
            }
            for conditions in &mut thread.conditions {
                conditions.work = scaled(conditions.work);
            }
        }
        self
    }
}

/// A call that never returned in the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Unfinished {
    /// Its process's job.
    pub job: u32,
    /// Its process's rank.
    pub rank: u32,
    /// The number of the thread's earlier calls.
    pub call: u32,
    /// The function's number.
    pub function: u16,
    /// Its entry, in picoseconds.
    pub entry: u64,
}

/// A process of an MPI program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Process {
    /// Its MPI program.
    pub job: u32,
    /// Its rank in `MPI_COMM_WORLD`.
    pub rank: u32,
    /// The node on which it ran.
    pub node: u32,
}

/// One thread of a process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Thread {
    /// Its process.
    pub process: ProcessId,
    /// The process's number on its node.
    pub number: u32,
    /// The thread's number in the process.
    pub thread: u32,
    /// The entry of its first call, in picoseconds.
    pub start: u64,
    /// Its calls, in order.
    pub calls: Vec<Call>,
    /// The operations of its calls, consecutive for each call, in the order of calls.
    pub operations: Vec<Operation>,
    /// The number of slots of its operations.
    pub slots: u32,
    /// For a thread of a schedule, the conditions of each call; empty for others.
    pub conditions: Vec<Conditions>,
}

/// Conditions of a call of a schedule. Points are numbered within a process; each is reached once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conditions {
    /// The processor of the process for the work and the call. It does one thing at a time.
    pub processor: u32,
    /// Picoseconds of work before the call, in place of [`Call::before`].
    pub work: u64,
    /// Points that must be reached before the work begins.
    pub after: Vec<u32>,
    /// The point reached when the work begins; without work, at the call's entry.
    pub started: Option<u32>,
    /// The point reached when the call returns.
    pub complete: Option<u32>,
}

/// One call of an MPI function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// The function, by its index in the table of functions.
    pub function: u16,
    /// The number of its operations.
    pub operations: u32,
    /// The number of the program's calls that it stands for: unsuccessful polls are merged into the call that ends the waiting.
    pub count: u32,
    /// Picoseconds of the thread's own work since the previous call.
    pub before: u64,
    /// Picoseconds in the call.
    pub inside: u64,
}

/// An action on the lock of a window at one of its processes (MPI-4.0, 12.5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Locking {
    /// Lock exclusively.
    Exclusive,
    /// Lock shared.
    Shared,
    /// Unlock.
    Release,
}

/// The completion of an access to another process's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AccessCompletion {
    /// The transport writes or reads the memory. A [flush](Operation::Flush) queries the transport.
    Flush,
    /// The target's library answers. A flush waits for the answer.
    Answer,
    /// The same, and the operation is complete with the answer: its request waits for it.
    Request,
}

/// An operation of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operation {
    /// Begins to send a message.
    Send {
        /// The channel.
        channel: ChannelId,
        /// Its slot until it is complete.
        slot: Slot,
        /// Bytes of data.
        bytes: u64,
        /// The mode.
        mode: SendMode,
        /// True if its data is noncontiguous, by a datatype of the program.
        pieces: bool,
    },
    /// Begins to receive a message.
    Receive {
        /// The channel.
        channel: ChannelId,
        /// Its slot until it is complete.
        slot: Slot,
        /// True if its data is noncontiguous, by a datatype of the program.
        pieces: bool,
    },
    /// Begins a collective operation.
    Collective {
        /// Its index in the program.
        collective: u32,
        /// The thread's part, by its index in the program.
        part: u32,
        /// Its slot until it is complete.
        slot: Slot,
    },
    /// Reads from or writes to another process's memory. A write is complete when its data has left; any other access after a round trip.
    Access {
        /// The channel to the process whose memory it is.
        channel: ChannelId,
        /// Its slot until it is complete.
        slot: Slot,
        /// Bytes of data sent there.
        sent: u64,
        /// Bytes of data returned.
        received: u64,
        /// The completion at the target.
        completion: AccessCompletion,
    },
    /// Completes accesses at the target: later operations begin when all accesses on this channel are complete. Consecutive flushes wait together.
    Flush {
        /// The channel to the process whose memory it is.
        channel: ChannelId,
    },
    /// Begins to send a message as soon as all of its partitions are ready (`MPI_Psend_init`).
    SendPartitioned {
        /// The channel.
        channel: ChannelId,
        /// Its slot until it is complete.
        slot: Slot,
        /// Bytes of data in all partitions.
        bytes: u64,
        /// The number of the partitioned message in the program.
        message: u32,
        /// True if its data is noncontiguous, by a datatype of the program.
        pieces: bool,
    },
    /// Marks some partitions of a message ready.
    Ready {
        /// The number of the partitioned message in the program.
        message: u32,
    },
    /// Waits until this slot's operation is complete, and keeps the slot.
    Test {
        /// The slot.
        slot: Slot,
    },
    /// Locks a window at another process, or releases the lock: complete after a round trip, once the lock is acquired.
    Lock {
        /// The channel to the process whose window it is.
        channel: ChannelId,
        /// Its slot until it is complete.
        slot: Slot,
        /// The window, by its number in the program.
        window: u32,
        /// The action.
        how: Locking,
    },
    /// Waits until the next unreceived message of this channel has arrived (`MPI_Probe`).
    Probe {
        /// The channel.
        channel: ChannelId,
    },
    /// Waits until this slot's operation is complete, and frees the slot.
    Wait {
        /// The slot.
        slot: Slot,
    },
    /// Begins an operation that was cancelled, or failed.
    Nothing {
        /// Its slot until it is complete, which is at once.
        slot: Slot,
    },
}

/// Messages that do not overtake each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Channel {
    /// The communicator, by the number common to all of its members.
    pub communicator: u32,
    /// The sender.
    pub from: ProcessId,
    /// The receiver.
    pub to: ProcessId,
    /// The tag.
    pub tag: i32,
}

/// One collective operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collective {
    /// The communicator, by the number common to all of its members.
    pub communicator: u32,
    /// Its members in the order of their ranks.
    pub members: Arc<[ProcessId]>,
    /// The number of messages that each member receives directly from others ([`Participation::Direct`]); empty if there are none.
    pub direct: Vec<u32>,
}

/// A member's participation in a collective operation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Participation {
    /// An algorithm of the MPI library.
    Library {
        /// The algorithm.
        algorithm: Algorithm,
        /// Its arguments.
        call: Passed,
        /// The member's stages if ranks share nodes, in place of the algorithm; otherwise empty.
        stages: Vec<Stage>,
        /// The number of repetitions, one after the other.
        times: u32,
    },
    /// Sends these messages at once, and receives the messages of others.
    Direct {
        /// The receiving members, by their positions, and the bytes.
        sends: Vec<(u32, u64)>,
    },
}

/// Data missing from a trace, and so from its replay.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unknown {
    /// Messages whose communicator or partner is unknown.
    pub messages: u64,
    /// Receives from any source, or of any tag, without a status and with several possible senders: they get unmatched messages, in the order of
    /// sending.
    #[serde(default)]
    pub guessed: u64,
    /// Receives from any source whose sender the trace contains: a replay keeps the order of senders in the trace.
    #[serde(default)]
    pub ordered: u64,
    /// Operations that another thread completes than the one that begins them: the replay does not wait for them.
    #[serde(default)]
    pub across: u64,
    /// Collective operations with unknown members or amounts.
    pub collectives: u64,
    /// Collective operations with an unknown algorithm: their messages are assumed to be direct.
    pub algorithms: u64,
    /// Calls that never returned.
    pub unfinished: u64,
    /// Calls that were not recorded, as counted in the trace.
    pub unrecorded: u64,
}

impl Participation {
    /// Returns the steps by a library's algorithm, in the order of their beginnings; empty if messages are direct.
    pub fn schedule(&self) -> Schedule {
        match self {
            Self::Direct { .. } => Schedule::default(),
            Self::Library {
                algorithm,
                call,
                stages,
                times,
            } => {
                let once = algorithm.schedule_of(call, stages);
                match times {
                    1 => once,
                    times => once.repeated(*times),
                }
            }
        }
    }
}

impl Thread {
    /// Returns the entry and exit of each of its calls in the trace, in picoseconds.
    pub fn traced(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let mut now = self.start;
        self.calls.iter().map(move |call| {
            let entry = now.saturating_add(call.before);
            now = entry.saturating_add(call.inside);
            (entry, now)
        })
    }
}

impl Program {
    /// Returns the number of calls of all threads, including each unsuccessful poll.
    pub fn calls(&self) -> u64 {
        let calls = self.threads.iter().flat_map(|thread| &thread.calls);
        calls.map(|call| u64::from(call.count)).sum()
    }

    /// Returns the number of messages that the program itself sends.
    pub fn messages(&self) -> u64 {
        let operations = self.threads.iter().flat_map(|thread| &thread.operations);
        let sends = operations.filter(|operation| {
            matches!(
                operation,
                Operation::Send { .. } | Operation::SendPartitioned { .. }
            )
        });
        sends.count() as u64
    }

    /// Returns the number of nodes of its threads.
    pub fn nodes(&self) -> u32 {
        let last = self.processes.iter().map(|process| process.node).max();
        last.map_or(0, |last| last + 1)
    }
}
