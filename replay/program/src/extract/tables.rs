//! Processes, channels, windows and collective operations, shared by all threads of a program.
//!
//! Processes are numbered in the order of jobs and ranks, all others in the order of first use. Each meeting has one
//! collective operation. Used by `extract` for each operation.

use std::collections::BTreeMap;
use std::sync::Arc;

use belljar_collectives::{Algorithm, Call as Passed, Operation as Kind, Tables};
use belljar_job::{
    Channel as Told, Communicators, Expanded, Expansion, MeetingId, Member, Members, Origin,
    ProcessKey, UnknownCall, WindowId,
};
use belljar_trace::{Collective as Collected, Event};

use crate::program::{Channel, ChannelId, Collective, Participation, Process, ProcessId, Program};

/// Processes, channels, windows and collective operations of a program.
pub(super) struct Shared<'a> {
    communicators: &'a Communicators,
    /// The tables for calls whose algorithm the tables of the traced library do not contain, or are not to determine.
    others: &'a Tables,
    pub(super) program: Program,
    processes: BTreeMap<Member, ProcessId>,
    channels: BTreeMap<Channel, ChannelId>,
    parts: BTreeMap<Participation, u32>,
    members: BTreeMap<u32, Arc<[ProcessId]>>,
    /// The program's collective operations for incomplete meetings.
    meetings: BTreeMap<MeetingId, u32>,
    windows: BTreeMap<WindowId, u32>,
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
            meetings: BTreeMap::new(),
            windows: BTreeMap::new(),
        };
        for member in communicators.all() {
            shared.process(member);
        }
        shared
    }

    /// Returns the number of a process.
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

    /// Returns the number of a channel.
    pub(super) fn channel(&mut self, told: Told) -> ChannelId {
        self.channel_of(told.communicator, told.from, told.to, told.tag)
    }

    /// Returns the number of the channel of messages with this tag from one process to another.
    pub(super) fn channel_of(
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

    /// Returns the number of a window.
    pub(super) fn window(&mut self, window: WindowId) -> u32 {
        let next = self.windows.len() as u32;
        *self.windows.entry(window).or_insert(next)
    }

    /// Counts an operation that is not followed.
    pub(super) fn unknown(&mut self, origin: Origin) {
        match origin {
            Origin::Collective(_) => self.program.unknown.collectives += 1,
            Origin::Transfer(_) | Origin::Call => self.program.unknown.messages += 1,
        }
    }

    /// Handles a complete meeting.
    pub(super) fn met(&mut self, meeting: MeetingId) {
        self.meetings.remove(&meeting);
    }

    /// Returns the collective operation that a call takes part in, and its part; `None` if the trace does not contain
    /// them.
    pub(super) fn take_part(
        &mut self,
        expansion: &mut Expansion<'_>,
        event: &Event,
        told: &Collected,
        meeting: MeetingId,
    ) -> Option<(u32, u32)> {
        let process = (event.node, event.process);
        let number = told.communicator?;
        let part = match expansion.expand(event, told) {
            Ok(Some(expanded)) => library(expanded),
            Ok(None) => self.direct(expansion, event, told)?,
            Err(UnknownCall::Peer | UnknownCall::Persistent) => return None,
            Err(why) => {
                // Without tables of the traced library, this is expected.
                if why != UnknownCall::Library || expansion.has_tables() {
                    self.program.unknown.algorithms += 1;
                }
                match expansion.expand_by(self.others, event, told) {
                    Ok(Some(expanded)) => library(expanded),
                    _ => self.direct(expansion, event, told)?,
                }
            }
        };
        self.part_in(process, number, meeting, part)
    }

    /// Returns a part with one message to each member that receives data.
    fn direct(
        &self,
        expansion: &Expansion<'_>,
        event: &Event,
        told: &Collected,
    ) -> Option<Participation> {
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
        Some(Participation::Direct { sends })
    }

    /// Returns a process's part in a meeting on the communicator with this number of the process.
    fn part_in(
        &mut self,
        process: ProcessKey,
        number: u32,
        meeting: MeetingId,
        part: Participation,
    ) -> Option<(u32, u32)> {
        let communicator = self.communicators.identity(process, number)?;
        let members = self.members(process, number, communicator)?;
        let program = &mut self.program;
        let collective = *self.meetings.entry(meeting).or_insert_with(|| {
            program.collectives.push(Collective {
                communicator,
                members: Arc::clone(&members),
                direct: Vec::new(),
            });
            program.collectives.len() as u32 - 1
        });
        if let Participation::Direct { sends } = &part {
            let own = &mut program.collectives[collective as usize];
            own.direct.resize(members.len(), 0);
            for (to, _) in sends {
                own.direct[*to as usize] += 1;
            }
        }
        Some((collective, self.part(part)))
    }

    /// Returns the number of a part.
    fn part(&mut self, part: Participation) -> u32 {
        if let Some(number) = self.parts.get(&part) {
            return *number;
        }
        let number = self.program.parts.len() as u32;
        self.program.parts.push(part.clone());
        self.parts.insert(part, number);
        number
    }

    /// Returns the members of a communicator; for an intercommunicator, the first group first.
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

    /// Returns the part of a call in a meeting that is not a collective operation, on the communicator with this number
    /// of the process. All members communicate in this many rounds, as in barriers.
    pub(super) fn meet(
        &mut self,
        event: &Event,
        number: u32,
        meeting: MeetingId,
        times: u32,
    ) -> Option<(u32, u32)> {
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
        let part = Participation::Library {
            algorithm: Algorithm::BarrierDissemination,
            call: Passed::new(Kind::Barrier, members, rank),
            stages: Vec::new(),
            times,
        };
        self.part_in(process, number, meeting, part)
    }
}

/// Returns a part by a library's algorithm.
fn library(expanded: Expanded) -> Participation {
    Participation::Library {
        algorithm: expanded.algorithm,
        call: expanded.call,
        stages: expanded.stages,
        times: 1,
    }
}

/// Most plausible members of a communicator in a trace with fewer processes.
const MEMBERS_BELIEVED: usize = 1 << 12;

/// Returns the position of each member of a communicator, of both groups for an intercommunicator, in one order for both
/// sides.
fn places(own: &Members, remote: Option<&Members>) -> BTreeMap<Member, u32> {
    let mut groups: Vec<Vec<Member>> = vec![own.iter().take(MEMBERS_BELIEVED << 8).collect()];
    groups.extend(remote.map(|remote| remote.iter().take(MEMBERS_BELIEVED << 8).collect()));
    groups.sort_by_key(|group| group.first().copied());
    groups.into_iter().flatten().zip(0..).collect()
}
