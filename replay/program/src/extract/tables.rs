//! What is one for all processes of a program: who is who, channels, collective operations and the ways of taking part in them.
//!
//! Processes are numbered in the order of jobs and ranks, all else in the order in which it is first named. Members of a communicator begin its collective operations in
//! the same order (MPI-4.0, 6.12), so the `n`th of each is the same one. Called by `extract`.

use std::collections::BTreeMap;
use std::sync::Arc;

use belljar_analysis::{
    Communicators, Expanded, Expansion, Member, Members, ProcessKey, UnknownCall,
};
use belljar_collectives::{Algorithm, Call as Passed, Operation as Kind, Tables};
use belljar_trace::{Collective as Told, Event};

use crate::program::{
    Channel, ChannelId, Collective, Operation, Part, Process, ProcessId, Program,
};

/// Whom a call waits for that is no collective operation of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sync {
    /// The members of the communicator that the process numbers so.
    pub(super) communicator: u32,
    /// How many times all hear of all.
    pub(super) times: u32,
}

/// What is under way of a collective operation: who took part so far.
#[derive(Debug)]
struct Turn {
    collective: u32,
    came: u32,
    of: u32,
}

/// What is one for all processes.
pub(super) struct Shared<'a> {
    communicators: &'a Communicators,
    /// What chooses algorithms where those of the library that ran are not known, or not wanted.
    others: &'a Tables,
    pub(super) program: Program,
    processes: BTreeMap<Member, ProcessId>,
    channels: BTreeMap<Channel, ChannelId>,
    parts: BTreeMap<Part, u32>,
    members: BTreeMap<u32, Arc<[ProcessId]>>,
    /// How many collective operations each process began on each communicator.
    begun: BTreeMap<(u32, ProcessKey), u64>,
    turns: BTreeMap<(u32, u64), Turn>,
}

impl<'a> Shared<'a> {
    pub(super) fn new(communicators: &'a Communicators, others: &'a Tables) -> Self {
        let mut shared = Self {
            communicators,
            others,
            program: Program::default(),
            processes: BTreeMap::new(),
            channels: BTreeMap::new(),
            parts: BTreeMap::new(),
            members: BTreeMap::new(),
            begun: BTreeMap::new(),
            turns: BTreeMap::new(),
        };
        for member in communicators.all() {
            shared.process(member);
        }
        shared
    }

    /// The number of a process.
    pub(super) fn process(&mut self, member: Member) -> ProcessId {
        let program = &mut self.program;
        *self.processes.entry(member).or_insert_with(|| {
            program.processes.push(Process {
                job: member.job,
                rank: member.rank,
                node: self.communicators.node(member).unwrap_or(0),
            });
            program.processes.len() as ProcessId - 1
        })
    }

    /// The channel of messages with this tag from one to another.
    pub(super) fn channel(
        &mut self,
        communicator: u32,
        from: Member,
        to: Member,
        tag: i32,
    ) -> ChannelId {
        let channel = Channel {
            communicator,
            from: self.process(from),
            to: self.process(to),
            tag,
        };
        let program = &mut self.program;
        *self.channels.entry(channel).or_insert_with(|| {
            program.channels.push(channel);
            program.channels.len() as ChannelId - 1
        })
    }

    /// By channel, how many of the messages that `operations` send none of them receives.
    pub(super) fn left<'o>(&self, operations: impl Iterator<Item = &'o Operation>) -> Vec<i64> {
        let mut left = vec![0; self.program.channels.len()];
        for operation in operations {
            match operation {
                Operation::Send { channel, .. } | Operation::SendPartitioned { channel, .. } => {
                    left[*channel as usize] += 1
                }
                Operation::Receive { channel, .. } => left[*channel as usize] -= 1,
                _ => {}
            }
        }
        left
    }

    /// The collective operation that a call takes part in, and how it does; `None` when the trace does not tell.
    pub(super) fn take_part(
        &mut self,
        expansion: &mut Expansion<'_>,
        event: &Event,
        told: &Told,
    ) -> Option<(u32, u32)> {
        let process = (event.node, event.process);
        let number = told.communicator?;
        let part = match expansion.expand(event, told) {
            Ok(Some(expanded)) => library(expanded),
            Ok(None) => self.direct(expansion, event, told)?,
            Err(UnknownCall::Peer | UnknownCall::Persistent) => return None,
            Err(why) => {
                // Nobody asked for those of the library that ran.
                if why != UnknownCall::Library || expansion.has_tables() {
                    self.program.unknown.algorithms += 1;
                }
                match expansion.expand_by(self.others, event, told) {
                    Ok(Some(expanded)) => library(expanded),
                    _ => self.direct(expansion, event, told)?,
                }
            }
        };
        self.turn(process, number, part)
    }

    /// A part in which all messages go straight to those whom the program gives something.
    fn direct(&self, expansion: &Expansion<'_>, event: &Event, told: &Told) -> Option<Part> {
        let process = (event.node, event.process);
        let number = told.communicator?;
        let members = self.communicators.members(process, number)?;
        let remote = self.communicators.remote_members(process, number);
        let places = places(members, remote);
        let mut sends = Vec::new();
        let stated = expansion.stated(event, told, |to, bytes| {
            sends.extend(places.get(&to).map(|place| (*place, bytes)));
        });
        stated.ok()?;
        Some(Part::Direct { sends })
    }

    /// The process takes part in the next collective operation of its communicator.
    fn turn(&mut self, process: ProcessKey, number: u32, part: Part) -> Option<(u32, u32)> {
        let communicator = self.communicators.identity(process, number)?;
        let members = self.members(process, number, communicator)?;
        let begun = self.begun.entry((communicator, process)).or_default();
        let turn = *begun;
        *begun += 1;
        let program = &mut self.program;
        let collective = match self.turns.get_mut(&(communicator, turn)) {
            Some(own) => {
                own.came += 1;
                own.collective
            }
            None => {
                program.collectives.push(Collective {
                    communicator,
                    members: Arc::clone(&members),
                    direct: Vec::new(),
                });
                let collective = program.collectives.len() as u32 - 1;
                let own = Turn {
                    collective,
                    came: 1,
                    of: members.len() as u32,
                };
                self.turns.insert((communicator, turn), own);
                collective
            }
        };
        let whole = self.turns.get(&(communicator, turn));
        if whole.is_some_and(|own| own.came >= own.of) {
            self.turns.remove(&(communicator, turn));
        }
        if let Part::Direct { sends } = &part {
            let own = &mut program.collectives[collective as usize];
            own.direct.resize(members.len(), 0);
            for (to, _) in sends {
                own.direct[*to as usize] += 1;
            }
        }
        Some((collective, self.part(part)))
    }

    /// The number of a way of taking part.
    fn part(&mut self, part: Part) -> u32 {
        if let Some(number) = self.parts.get(&part) {
            return *number;
        }
        let number = self.program.parts.len() as u32;
        self.program.parts.push(part.clone());
        self.parts.insert(part, number);
        number
    }

    /// The members of a communicator, those of the first group first where it joins two.
    fn members(
        &mut self,
        process: ProcessKey,
        number: u32,
        communicator: u32,
    ) -> Option<Arc<[ProcessId]>> {
        if let Some(members) = self.members.get(&communicator) {
            return Some(Arc::clone(members));
        }
        let own = self.communicators.members(process, number)?;
        let remote = self.communicators.remote_members(process, number);
        let places = places(own, remote);
        // A trace of a few bytes could claim any number.
        if places.len() > self.communicators.processes().max(MEMBERS_BELIEVED) {
            return None;
        }
        let mut all: Vec<(u32, Member)> = places.into_iter().map(|(it, at)| (at, it)).collect();
        all.sort_unstable();
        let all: Arc<[ProcessId]> = all.into_iter().map(|(_, it)| self.process(it)).collect();
        self.members.insert(communicator, Arc::clone(&all));
        Some(all)
    }

    /// The operation by which a call waits for others, that is none of its own: they hear of each other as in a barrier.
    pub(super) fn sync(&mut self, event: &Event, sync: Sync) -> Option<(u32, u32)> {
        let number = sync.communicator;
        let process = (event.node, event.process);
        // Both groups of an intercommunicator meet.
        let communicator = self.communicators.identity(process, number)?;
        let all = self.members(process, number, communicator)?;
        let job = self.communicators.job(process)?;
        let own = self.process(Member {
            job,
            rank: event.rank,
        });
        let rank = all.iter().position(|member| *member == own)? as u32;
        let members = all.len() as u32;
        let part = Part::Library {
            algorithm: Algorithm::BarrierDissemination,
            call: Passed::new(Kind::Barrier, members, rank),
            times: sync.times,
        };
        self.turn(process, number, part)
    }
}

/// A part by a library's algorithm.
fn library(expanded: Expanded) -> Part {
    Part::Library {
        algorithm: expanded.algorithm,
        call: expanded.call,
        times: 1,
    }
}

/// Members of a communicator that are believed of a trace that has fewer processes.
const MEMBERS_BELIEVED: usize = 1 << 12;

/// Where each member of a communicator stands: those of both groups, if it joins two, in an order that both sides agree on.
fn places(own: &Members, remote: Option<&Members>) -> BTreeMap<Member, u32> {
    let mut groups: Vec<Vec<Member>> = vec![own.iter().take(MEMBERS_BELIEVED << 8).collect()];
    groups.extend(remote.map(|remote| remote.iter().take(MEMBERS_BELIEVED << 8).collect()));
    groups.sort_by_key(|group| group.first().copied());
    groups.into_iter().flatten().zip(0..).collect()
}
