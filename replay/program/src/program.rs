//! What threads of an MPI job do, call by call.
//!
//! A [`Program`] has no times but those that its threads spend by themselves: when a message comes is for a replay to
//! say. Whom a receive gets its message from is settled: all operations name a [`Channel`], on which the `n`th message that
//! is sent is the `n`th that is received. Made by `extract` from a trace or by a [`Builder`](crate::Builder) from
//! nothing; read by replay.

use std::sync::Arc;

use belljar_collectives::{Algorithm, Call as Passed, Schedule, Stage};
use belljar_mpi::SendMode;
use serde::{Deserialize, Serialize};

/// The number of a process in its program.
pub type ProcessId = u32;

/// A channel's number in its program.
pub type ChannelId = u32;

/// An operation of a thread that is under way, by a number that it has until it is over.
pub type Slot = u32;

/// What all threads of a job do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// The processes, in the order of jobs and ranks; last those that the trace only names.
    pub processes: Vec<Process>,
    /// Their threads, those of a process in the order of their first calls.
    pub threads: Vec<Thread>,
    /// Where messages go that the program itself sends.
    pub channels: Vec<Channel>,
    /// The collective operations.
    pub collectives: Vec<Collective>,
    /// Ways in which a member takes part in one, each once.
    pub parts: Vec<Part>,
    /// How many calls make partitions of each partitioned message ready.
    pub partitioned: Vec<u32>,
    /// Calls that never returned in the trace and would have moved data or waited for others, the first of each thread.
    pub unfinished: Vec<Unfinished>,
    /// What the trace did not tell.
    pub unknown: Unknown,
}

/// A call that never returned in the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Unfinished {
    /// Its process's job.
    pub job: u32,
    /// Its process's rank.
    pub rank: u32,
    /// How many calls the thread made before.
    pub call: u32,
    /// The function's number.
    pub function: u16,
    /// When it was entered, in picoseconds.
    pub entry: u64,
}

/// A process of an MPI program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Process {
    /// The MPI program that it belongs to.
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
    /// Which of its node's MPI processes that is.
    pub number: u32,
    /// Which thread of the process it is.
    pub thread: u32,
    /// When it began its first call, in picoseconds.
    pub start: u64,
    /// What it calls, in order.
    pub calls: Vec<Call>,
    /// What its calls do: those of one call stand together, in the order of calls.
    pub operations: Vec<Operation>,
    /// How many slots its operations take.
    pub slots: u32,
    /// For a thread of a schedule, the conditions of each call; empty for others.
    pub conditions: Vec<Conditions>,
}

/// Conditions of a call of a schedule. Points are numbers that a process has for them; each is reached once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conditions {
    /// The processor of the process for the work and the call. It does one thing at a time.
    pub processor: u32,
    /// Picoseconds of work before the call, in place of [`Call::before`].
    pub work: u64,
    /// Points that must be reached before the work begins.
    pub after: Vec<u32>,
    /// The point that is reached when the work begins, which is the call's entry where there is no work.
    pub started: Option<u32>,
    /// The point that is reached when the call is left.
    pub complete: Option<u32>,
}

/// One call of an MPI function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    /// The function, by its index in the table of functions.
    pub function: u16,
    /// How many operations it has.
    pub operations: u32,
    /// Calls of the program that it stands for: polls that found nothing are part of what ends the waiting.
    pub count: u32,
    /// Picoseconds of the thread's own work before it, since the call before.
    pub before: u64,
    /// Picoseconds that it took.
    pub inside: u64,
}

/// What is done with the lock of a window at one of its processes (MPI-4.0, 12.5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Locking {
    /// Had by one only.
    Exclusive,
    /// Had by any number that want it so.
    Shared,
    /// Given back.
    Release,
}

/// The completion of an access to another process's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum AccessCompletion {
    /// The transport writes or reads the memory. A [flush](Operation::Flush) asks it whether it has.
    Flush,
    /// The target's library answers. A flush waits for the answer.
    Answer,
    /// The same, and the operation is over with the answer: its request waits for it.
    Request,
}

/// What a call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operation {
    /// Begins to send a message.
    Send {
        /// On this channel.
        channel: ChannelId,
        /// Stands for it until it is over.
        slot: Slot,
        /// Bytes of data.
        bytes: u64,
        /// How.
        mode: SendMode,
        /// Whether its data lies in pieces, by a datatype of the program's.
        pieces: bool,
    },
    /// Begins to receive a message.
    Receive {
        /// On this channel.
        channel: ChannelId,
        /// Stands for it until it is over.
        slot: Slot,
        /// Whether its data lies in pieces, by a datatype of the program's.
        pieces: bool,
    },
    /// Begins a collective operation.
    Collective {
        /// This one, by its index in the program.
        collective: u32,
        /// The way in which the thread takes part, by its index in the program.
        part: u32,
        /// Stands for it until it is over.
        slot: Slot,
    },
    /// Reads from or writes to another process's memory. A write is over when its data has left; all else when a round trip is.
    Access {
        /// The channel to the process whose memory it is.
        channel: ChannelId,
        /// Stands for it until it is over.
        slot: Slot,
        /// Bytes of data that go there.
        sent: u64,
        /// Bytes of data that come back.
        received: u64,
        /// The completion at the target.
        completion: AccessCompletion,
    },
    /// Completes accesses at the target: operations after it begin when all accesses on this channel are complete. Flushes that follow one another wait
    /// together.
    Flush {
        /// The channel to the process whose memory it is.
        channel: ChannelId,
    },
    /// Begins to send a message as soon as all of its partitions are ready (`MPI_Psend_init`).
    SendPartitioned {
        /// On this channel.
        channel: ChannelId,
        /// Stands for it until it is over.
        slot: Slot,
        /// Bytes of data in all partitions.
        bytes: u64,
        /// Which of the program's partitioned messages it is.
        message: u32,
        /// Whether its data lies in pieces, by a datatype of the program's.
        pieces: bool,
    },
    /// Some partitions of a message are ready.
    Ready {
        /// Which of the program's partitioned messages it is.
        message: u32,
    },
    /// Does not return before what this slot stands for is over, which it stays.
    Test {
        /// The slot.
        slot: Slot,
    },
    /// Locks a window at another process, or gives the lock back: over when a round trip is, and the lock is had.
    Lock {
        /// The channel to the process whose window it is.
        channel: ChannelId,
        /// Stands for it until it is over.
        slot: Slot,
        /// The window, by its number in the program.
        window: u32,
        /// How.
        how: Locking,
    },
    /// Does not return before the next message of this channel that is not received yet has come (`MPI_Probe`).
    Probe {
        /// The channel.
        channel: ChannelId,
    },
    /// Does not return before what this slot stands for is over; then the slot is free.
    Wait {
        /// The slot.
        slot: Slot,
    },
    /// Begins what was cancelled, or failed.
    Nothing {
        /// Stands for it until it is over, which it is at once.
        slot: Slot,
    },
}

/// Messages that do not overtake each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Channel {
    /// The communicator, by the number that all of its members have for it.
    pub communicator: u32,
    /// Who sends.
    pub from: ProcessId,
    /// Who receives.
    pub to: ProcessId,
    /// The tag.
    pub tag: i32,
}

/// One collective operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Collective {
    /// The communicator, by the number that all of its members have for it.
    pub communicator: u32,
    /// Its members in the order of their ranks.
    pub members: Arc<[ProcessId]>,
    /// How many messages each gets that others send straight ([`Part::Direct`]); empty where there are none.
    pub direct: Vec<u32>,
}

/// How a member takes part in a collective operation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Part {
    /// By an algorithm of the MPI library.
    Library {
        /// The algorithm.
        algorithm: Algorithm,
        /// What it passes.
        call: Passed,
        /// The stages in which the member carries it out where ranks share nodes, in place of the algorithm; else empty.
        stages: Vec<Stage>,
        /// How many times, one after the other.
        times: u32,
    },
    /// By sending these messages at once, and receiving those that others send here.
    Direct {
        /// To which members, by their places, and how many bytes.
        sends: Vec<(u32, u64)>,
    },
}

/// What a trace did not tell, so that a replay lacks it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unknown {
    /// Messages whose communicator or partner is not known.
    pub messages: u64,
    /// Receives from any source, or of any tag, without a status, for which several senders come into question: they get
    /// messages that no other receive took, in the order of sending.
    #[serde(default)]
    pub guessed: u64,
    /// Receives from any source whose sender the trace gives: a replay keeps the senders in the order of the trace.
    #[serde(default)]
    pub ordered: u64,
    /// Operations that another thread completes than the one that begins them: the replay does not wait for them.
    #[serde(default)]
    pub across: u64,
    /// Collective operations of which it is not known who takes part, or what moves.
    pub collectives: u64,
    /// Collective operations whose algorithm is not known: their messages are taken to go straight.
    pub algorithms: u64,
    /// Calls that never returned.
    pub unfinished: u64,
    /// Calls that were not recorded, by the trace's own account.
    pub unrecorded: u64,
}

impl Part {
    /// The steps by a library's algorithm, in the order of their beginnings; none where messages go straight.
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
    /// When each of its calls was entered and left in the trace, in picoseconds.
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
    /// Calls of all threads, each poll that found nothing counted.
    pub fn calls(&self) -> u64 {
        let calls = self.threads.iter().flat_map(|thread| &thread.calls);
        calls.map(|call| u64::from(call.count)).sum()
    }

    /// Messages that the program itself sends.
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

    /// How many nodes its threads are on.
    pub fn nodes(&self) -> u32 {
        let last = self.processes.iter().map(|process| process.node).max();
        last.map_or(0, |last| last + 1)
    }
}
