//! Collective operations, and other calls that wait for each other.
//!
//! All members of a communicator begin its collective operations in the same order (MPI-4.0, 6.12), so the `n`th of each
//! process is the same one; calls of one function that meet are counted alike. A meeting is reported when the last
//! process has arrived. Called for each part of a process in a meeting.

use std::collections::BTreeMap;
use std::ops::Deref;

use belljar_mpi::{CallKind, Operation as CollectiveOperation};

use super::fact::{Fact, Loss, MeetingId, MeetingPart, Operation, Origin, Turns};
use super::requests::{MessageSide, OpenOperation};
use super::{Operations, ProcessCall};
use crate::communicators::{Communicators, ProcessKey};

/// Limit on meetings that are followed at once.
const MOST_MEETINGS: usize = 1 << 20;

/// A meeting by its communicator, its kind, and the number of earlier ones.
type Key = (u32, Turns, u64);

/// A meeting, with the processes that have reached it.
#[derive(Debug)]
struct Gathering {
    key: Key,
    size: u64,
    parts: Vec<MeetingPart>,
}

/// Meetings that some of their processes have not reached.
#[derive(Debug, Default)]
pub(super) struct Meetings {
    next: u64,
    /// Meetings begun, by communicator, kind and process.
    begun: BTreeMap<(u32, Turns, ProcessKey), u64>,
    numbers: BTreeMap<Key, MeetingId>,
    gatherings: BTreeMap<MeetingId, Gathering>,
}

impl Meetings {
    /// The number of collective operations that some of their processes have not reached.
    pub(super) fn unmet(&self) -> u64 {
        let turns = self.numbers.keys().map(|(_, turns, _)| turns);
        turns.filter(|turns| **turns == Turns::Collectives).count() as u64
    }

    /// A process's next meeting of a kind on a communicator with this number of members.
    fn next(
        &mut self,
        communicator: u32,
        turns: Turns,
        process: ProcessKey,
        size: u64,
    ) -> MeetingId {
        let begun = self
            .begun
            .entry((communicator, turns, process))
            .or_default();
        let key = (communicator, turns, *begun);
        *begun += 1;
        if let Some(known) = self.numbers.get(&key) {
            return *known;
        }
        let meeting = MeetingId(self.next);
        self.next += 1;
        self.numbers.insert(key, meeting);
        let parts = Vec::new();
        let gathering = Gathering { key, size, parts };
        self.gatherings.insert(meeting, gathering);
        meeting
    }

    /// Adds a process to a meeting.
    fn come(&mut self, meeting: MeetingId, part: MeetingPart, facts: &mut Vec<Fact>) {
        let Some(gathering) = self.gatherings.get_mut(&meeting) else {
            return;
        };
        gathering.parts.push(part);
        if gathering.parts.len() as u64 >= gathering.size
            && let Some(gathering) = self.remove(meeting)
        {
            facts.push(Fact::Met {
                meeting,
                turns: gathering.key.1,
                parts: gathering.parts,
            });
        }
    }

    /// Drops the oldest meeting if there are too many.
    fn bound(&mut self, facts: &mut Vec<Fact>) {
        let Some((&oldest, _)) = self.gatherings.first_key_value() else {
            return;
        };
        if self.gatherings.len() <= MOST_MEETINGS {
            return;
        }
        let parts = self.remove(oldest).into_iter().flat_map(|own| own.parts);
        facts.extend(parts.map(|part| Fact::Lost {
            operation: part.operation,
            why: Loss::Bound,
        }));
    }

    fn remove(&mut self, meeting: MeetingId) -> Option<Gathering> {
        let gathering = self.gatherings.remove(&meeting)?;
        self.numbers.remove(&gathering.key);
        Some(gathering)
    }
}

impl<C: Deref<Target = Communicators>> Operations<C> {
    /// A process's part in the collective operation with this index.
    pub(super) fn collective(
        &mut self,
        call: ProcessCall<'_>,
        index: usize,
        facts: &mut Vec<Fact>,
    ) -> Option<OpenOperation> {
        let collective = &call.event.collectives[index];
        let operation = collective.operation;
        let origin = Origin::Collective(index);
        let place = (Turns::Collectives, collective.communicator);
        self.come(call, origin, place.0, place.1, operation, facts)
    }

    /// A process's part in a call that others have to reach, other than a collective operation.
    pub(super) fn meeting(
        &mut self,
        call: ProcessCall<'_>,
        facts: &mut Vec<Fact>,
    ) -> Option<OpenOperation> {
        let number = self.windows.meeting(call.event)?;
        // Members missing in the trace are not a loss here: the call has a result of its own.
        self.communicators.identity(call.process, number)?;
        let meaning = call.event.meaning();
        // MPI_Init and MPI_Init_thread meet.
        let base = match meaning.kind {
            CallKind::Init => "Init",
            _ => meaning.base,
        };
        let place = (Turns::Meetings(base), Some(number));
        self.come(call, Origin::Call, place.0, place.1, None, facts)
    }

    fn come(
        &mut self,
        call: ProcessCall<'_>,
        origin: Origin,
        turns: Turns,
        number: Option<u32>,
        operation: Option<CollectiveOperation>,
        facts: &mut Vec<Fact>,
    ) -> Option<OpenOperation> {
        let communicators = &*self.communicators;
        let place = number.and_then(|number| {
            let identity = communicators.identity(call.process, number)?;
            let rank = communicators.rank(call.process, number)?;
            Some((number, identity, rank))
        });
        let Some((number, communicator, rank)) = place else {
            let why = Loss::Communicator;
            facts.push(Fact::Unknown { origin, why });
            return None;
        };
        let members = communicators.members(call.process, number);
        let remote = communicators.remote_members(call.process, number);
        let sides = [members, remote].into_iter().flatten();
        let size = sides.map(|side| u64::from(side.len())).sum();
        let meeting = self.meetings.next(communicator, turns, call.process, size);
        let what = match turns {
            Turns::Collectives => Operation::Collective { meeting, operation },
            Turns::Meetings(_) => Operation::Meeting { meeting, number },
        };
        let open = self.open(origin, what, MessageSide::Neither, facts);
        let operation = open.operation;
        self.meetings
            .come(meeting, MeetingPart { rank, operation }, facts);
        self.meetings.bound(facts);
        Some(open)
    }
}
