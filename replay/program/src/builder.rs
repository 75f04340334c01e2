//! A program made without a trace.
//!
//! One process on each node, one thread in each. Operations are begun one by one and become a call when that is ended. Used by tests and by
//! whoever makes up a job.

use std::collections::BTreeMap;
use std::sync::Arc;

use belljar_mpi::{FUNCTIONS, SendMode};

use crate::program::{
    AccessCompletion, Call, Channel, ChannelId, Collective, Locking, Operation, Part, Process,
    Program, Slot, Thread,
};

/// The communicator of all messages.
const WORLD: u32 = 0;

/// A program in the making.
#[derive(Debug)]
pub struct Builder {
    program: Program,
    channels: BTreeMap<Channel, ChannelId>,
    members: Arc<[u32]>,
    makings: Vec<Making>,
}

/// A thread in the making.
#[derive(Clone, Debug, Default)]
struct Making {
    free: Vec<Slot>,
    /// Work since the last call.
    before: u64,
    /// Operations of the present call.
    begun: u32,
    /// Collective operations so far.
    turn: u32,
}

impl Builder {
    /// Of so many processes.
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
            makings: vec![Making::default(); ranks as usize],
        }
    }

    /// A rank works for so many picoseconds.
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

    /// A rank begins to send.
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

    /// A rank begins to receive.
    pub fn receive(&mut self, rank: u32, from: u32, tag: i32) -> Slot {
        let channel = self.channel(from, rank, tag);
        self.begin(rank, |slot| Operation::Receive {
            channel,
            slot,
            pieces: false,
        })
    }

    /// A rank begins to access the memory of another one; bytes that it sends and receives.
    pub fn access(
        &mut self,
        rank: u32,
        to: u32,
        (sent, received): (u64, u64),
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

    /// The present call continues when the accesses of its rank to this one are complete.
    pub fn flush(&mut self, rank: u32, to: u32) {
        let channel = self.channel(rank, to, i32::MIN);
        self.makings[rank as usize].begun += 1;
        let thread = &mut self.program.threads[rank as usize];
        thread.operations.push(Operation::Flush { channel });
    }

    /// A rank locks the only window at another one, or releases the lock.
    pub fn lock(&mut self, rank: u32, to: u32, how: Locking) -> Slot {
        let channel = self.channel(rank, to, i32::MIN);
        self.begin(rank, |slot| Operation::Lock {
            channel,
            slot,
            window: 0,
            how,
        })
    }

    /// A rank takes part in its next collective operation, in this way.
    pub fn take_part(&mut self, rank: u32, part: Part) -> Slot {
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

    /// The present call waits for this.
    pub fn wait(&mut self, rank: u32, slot: Slot) {
        let making = &mut self.makings[rank as usize];
        making.begun += 1;
        making.free.push(slot);
        let thread = &mut self.program.threads[rank as usize];
        thread.operations.push(Operation::Wait { slot });
    }

    /// What was begun since the last call is a call of this function, which took so many picoseconds.
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

    /// The program.
    pub fn finish(self) -> Program {
        self.program
    }
}
