//! Programs built without a trace.
//!
//! There is one process on each node, with one thread. Operations are begun one by one and become a call when it is ended. Used by tests
//! and by generators of jobs.

use std::collections::BTreeMap;
use std::sync::Arc;

use belljar_mpi::{FUNCTIONS, SendMode};

use crate::program::{
    AccessCompletion, Call, Channel, ChannelId, Collective, Locking, Operation, Participation,
    Process, Program, Slot, Thread,
};

/// The communicator of all messages.
const WORLD: u32 = 0;

/// A program under construction.
#[derive(Debug)]
pub struct Builder {
    program: Program,
    channels: BTreeMap<Channel, ChannelId>,
    members: Arc<[u32]>,
    makings: Vec<ThreadDraft>,
}

/// A thread under construction.
#[derive(Clone, Debug, Default)]
struct ThreadDraft {
    free: Vec<Slot>,
    /// Work since the last call.
    before: u64,
    /// Number of operations of the current call.
    begun: u32,
    /// Number of collective operations so far.
    turn: u32,
}

impl Builder {
    /// Creates a builder for this number of processes.
    pub fn new(ranks: u32) -> Self {
        let mut program = Program::default();
        for rank in 0..ranks {
            program.processes.push(Process {
                job: 0,
                rank,
                node: rank,
            });
            program.threads.push(Thread {
                process: rank,
                ..Thread::default()
            });
        }
        Self {
            program,
            channels: BTreeMap::new(),
            members: (0..ranks).collect(),
            makings: vec![ThreadDraft::default(); ranks as usize],
        }
    }

    /// Adds work of a rank, in picoseconds.
    pub fn work(&mut self, rank: u32, ps: u64) {
        self.makings[rank as usize].before += ps;
    }

    fn begin(&mut self, rank: u32, operation: impl FnOnce(Slot) -> Operation) -> Slot {
        let making = &mut self.makings[rank as usize];
        let thread = &mut self.program.threads[rank as usize];
        let slot = making.free.pop().unwrap_or_else(|| {
            thread.slots += 1;
            thread.slots - 1
        });
        making.begun += 1;
        thread.operations.push(operation(slot));
        slot
    }

    fn channel(&mut self, from: u32, to: u32, tag: i32) -> ChannelId {
        let channel = Channel {
            communicator: WORLD,
            from,
            to,
            tag,
        };
        let channels = &mut self.program.channels;
        *self.channels.entry(channel).or_insert_with(|| {
            channels.push(channel);
            channels.len() as ChannelId - 1
        })
    }

    /// Begins a send of a rank.
    pub fn send(&mut self, rank: u32, to: u32, tag: i32, bytes: u64) -> Slot {
        let channel = self.channel(rank, to, tag);
        self.begin(rank, |slot| Operation::Send {
            channel,
            slot,
            bytes,
            mode: SendMode::Standard,
            pieces: false,
        })
    }

    /// Begins a receive of a rank.
    pub fn receive(&mut self, rank: u32, from: u32, tag: i32) -> Slot {
        let channel = self.channel(from, rank, tag);
        self.begin(rank, |slot| Operation::Receive {
            channel,
            slot,
            pieces: false,
        })
    }

    /// Begins a rank's access to the memory of another one, with the bytes that it sends and receives.
    pub fn access(
        &mut self,
        rank: u32,
        to: u32,
        sent: u64,
        received: u64,
        completion: AccessCompletion,
    ) -> Slot {
        let channel = self.channel(rank, to, i32::MIN);
        self.begin(rank, |slot| Operation::Access {
            channel,
            slot,
            sent,
            received,
            completion,
        })
    }

    /// Continues the current call when its rank's accesses to this one are complete.
    pub fn flush(&mut self, rank: u32, to: u32) {
        let channel = self.channel(rank, to, i32::MIN);
        self.makings[rank as usize].begun += 1;
        let thread = &mut self.program.threads[rank as usize];
        thread.operations.push(Operation::Flush { channel });
    }

    /// Locks the only window at another rank, or releases the lock.
    pub fn lock(&mut self, rank: u32, to: u32, how: Locking) -> Slot {
        let channel = self.channel(rank, to, i32::MIN);
        self.begin(rank, |slot| Operation::Lock {
            channel,
            slot,
            window: 0,
            how,
        })
    }

    /// Takes part in a rank's next collective operation, with this part.
    pub fn take_part(&mut self, rank: u32, part: Participation) -> Slot {
        let turn = self.makings[rank as usize].turn;
        self.makings[rank as usize].turn += 1;
        if self.program.collectives.len() <= turn as usize {
            self.program.collectives.push(Collective {
                communicator: WORLD,
                members: Arc::clone(&self.members),
                direct: Vec::new(),
            });
        }
        self.program.parts.push(part);
        let part = self.program.parts.len() as u32 - 1;
        self.begin(rank, |slot| Operation::Collective {
            collective: turn,
            part,
            slot,
        })
    }

    /// Makes the current call wait for this operation.
    pub fn wait(&mut self, rank: u32, slot: Slot) {
        let making = &mut self.makings[rank as usize];
        making.begun += 1;
        making.free.push(slot);
        let thread = &mut self.program.threads[rank as usize];
        thread.operations.push(Operation::Wait { slot });
    }

    /// Ends a call of this function with the operations begun since the last call, of `inside` picoseconds.
    pub fn call(&mut self, rank: u32, function: &str, inside: u64) {
        let making = &mut self.makings[rank as usize];
        let number = FUNCTIONS.iter().position(|it| it.name == function);
        self.program.threads[rank as usize].calls.push(Call {
            function: number.unwrap_or(0) as u16,
            operations: std::mem::take(&mut making.begun),
            count: 1,
            before: std::mem::take(&mut making.before),
            inside,
        });
    }

    /// Returns the program.
    pub fn finish(self) -> Program {
        self.program
    }
}
