//! Traffic between ranks, in frames: the program's own messages, and those of collective operations.
//!
//! Equal parts in collective operations are expanded once. Used by the search for placements.

use std::collections::BTreeMap;

use belljar_networks::frames_of;
use belljar_program::{Operation, Participation, ProcessId, Program};

/// Frames between pairs of processes, the smaller number first.
#[derive(Clone, Debug, Default)]
pub(super) struct Traffic {
    /// By process, its peers, and the frames exchanged with them.
    pub(super) with: Vec<BTreeMap<ProcessId, u64>>,
}

impl Traffic {
    /// Returns the traffic of a program.
    pub(super) fn of(program: &Program) -> Self {
        let mut traffic = Self {
            with: vec![BTreeMap::new(); program.processes.len()],
        };
        let mut parts: BTreeMap<u32, Vec<(u32, u64)>> = BTreeMap::new();
        for thread in &program.threads {
            for operation in &thread.operations {
                match operation {
                    Operation::Send { channel, bytes, .. }
                    | Operation::SendPartitioned { channel, bytes, .. } => {
                        let channel = program.channels[*channel as usize];
                        traffic.add(channel.from, channel.to, frames_of(*bytes));
                    }
                    Operation::Access {
                        channel,
                        sent,
                        received,
                        ..
                    } => {
                        let channel = program.channels[*channel as usize];
                        let frames = frames_of(*sent) + frames_of(*received);
                        traffic.add(channel.from, channel.to, frames);
                    }
                    Operation::Collective {
                        collective, part, ..
                    } => {
                        let sends = parts
                            .entry(*part)
                            .or_insert_with(|| sends(&program.parts[*part as usize]));
                        let members = &program.collectives[*collective as usize].members;
                        for (to, frames) in sends {
                            if let Some(to) = members.get(*to as usize) {
                                traffic.add(thread.process, *to, *frames);
                            }
                        }
                    }
                    _ => {}
                }
            }
        }
        traffic
    }

    fn add(&mut self, from: ProcessId, to: ProcessId, frames: u64) {
        if from == to {
            return;
        }
        for (one, other) in [(from, to), (to, from)] {
            let sum = self.with[one as usize].entry(other).or_default();
            *sum = sum.saturating_add(frames);
        }
    }

    /// Returns the frames of a process with all others.
    pub(super) fn all(&self, process: usize) -> u64 {
        let frames = self.with[process].values();
        frames.fold(0, |sum, frames| sum.saturating_add(*frames))
    }
}

/// Returns the members to which a part sends, with the frames.
fn sends(part: &Participation) -> Vec<(u32, u64)> {
    match part {
        Participation::Direct { sends } => sends
            .iter()
            .map(|(to, bytes)| (*to, frames_of(*bytes)))
            .collect(),
        Participation::Library {
            algorithm,
            call,
            stages,
            times,
        } => {
            let schedule = algorithm.schedule_of(call, stages);
            let sends = schedule.sends();
            sends
                .map(|(to, bytes)| (to, frames_of(bytes).saturating_mul((*times).into())))
                .collect()
        }
    }
}
