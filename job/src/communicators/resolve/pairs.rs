//! Intercommunicators and communicators merged from them.
//!
//! The two sides are matched by their leaders' calls; equal calls are matched by counting. If both sides
//! of a merge pass the same `high`, their order is deduced from a member's rank in the result. Called by
//! `resolve`.

use belljar_trace::{Making, NewCommunicator};

use super::{Global, ProcessKey, Records, Resolver};

/// A leader's part in `MPI_Intercomm_create`, with its communicators resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct LeaderCall {
    bridge: usize,
    /// The other leader's rank in the bridge.
    remote_leader: u32,
    tag: i32,
}

impl<'a> Resolver<'a> {
    /// The local side of an intercommunicator.
    pub(super) fn intercomm(
        &mut self,
        parent: usize,
        records: &Records<'_>,
    ) -> Option<Vec<Global>> {
        let Making::Intercomm { local_leader, .. } = records.first()?.1.how else {
            return None;
        };
        let (leader, record) = *records.get(local_leader as usize)?;
        let call = self.call(leader, record)?;
        let occurrence = self.occurrence(leader, record, call)?;
        let (other, theirs) = self.other_leader(leader, call, occurrence)?;
        let other_parent = *self.known.get(&(other, theirs.parent?))?;
        let remote = self.globals.get(other_parent)?.members.clone();
        let local = records
            .iter()
            .map(|(process, record)| Some((*process, record.number?)))
            .collect::<Option<Vec<_>>>()?;
        let other_side = theirs
            .number
            .and_then(|number| self.known.get(&(other, number)).copied());
        if let Some(other_side) = other_side {
            self.globals[other_side].other_side = Some(self.globals.len());
        }
        let parent = &self.globals[parent];
        Some(vec![Global {
            members: parent.members.clone(),
            remote: Some(remote),
            topology: None,
            local,
            other_side,
        }])
    }

    fn call(&self, leader: ProcessKey, record: &NewCommunicator) -> Option<LeaderCall> {
        let Making::Intercomm {
            bridge,
            remote_leader,
            tag,
            ..
        } = record.how
        else {
            return None;
        };
        Some(LeaderCall {
            bridge: *self.known.get(&(leader, bridge?))?,
            remote_leader,
            tag,
        })
    }

    /// The number of equal calls that the leader made before this one.
    fn occurrence(
        &mut self,
        leader: ProcessKey,
        record: &NewCommunicator,
        call: LeaderCall,
    ) -> Option<usize> {
        let calls = &self.histories.get(&leader)?.intercomms;
        self.spend(calls.len())?;
        let alike = calls
            .iter()
            .filter(|other| self.call(leader, other) == Some(call));
        alike
            .into_iter()
            .position(|other| (other.parent, other.sequence) == (record.parent, record.sequence))
    }

    /// The leader of the other side, and its call.
    fn other_leader(
        &mut self,
        leader: ProcessKey,
        call: LeaderCall,
        occurrence: usize,
    ) -> Option<(ProcessKey, &'a NewCommunicator)> {
        let bridge = self.globals.get(call.bridge)?;
        let me = bridge
            .local
            .iter()
            .position(|(process, _)| *process == leader)?;
        let (other, _) = *bridge.local.get(call.remote_leader as usize)?;
        let expected = LeaderCall {
            remote_leader: me as u32,
            ..call
        };
        let calls = &self.histories.get(&other)?.intercomms;
        self.spend(calls.len())?;
        let theirs = calls
            .iter()
            .filter(|theirs| self.call(other, theirs) == Some(expected))
            .nth(occurrence)?;
        Some((other, theirs))
    }

    /// The communicator into which both sides of an intercommunicator are merged: the side that is not
    /// `high` comes first (MPI-4.0, 7.6.2). If both sides pass the same, the implementation chooses, and a
    /// member's query of its rank shows the order.
    pub(super) fn merge(
        &mut self,
        side: usize,
        sequence: u32,
        records: &Records<'_>,
    ) -> Option<Vec<Global>> {
        let other = self.globals.get(side)?.other_side?;
        let theirs = self.records(other, sequence)?;
        let high = |records: &Records<'_>| match records.first()?.1.how {
            Making::Merge { high } => Some(high),
            _ => None,
        };
        match (high(records)?, high(&theirs)?) {
            (false, true) => {}
            // Created when the other side is handled.
            (true, false) => return Some(Vec::new()),
            _ => {
                let sides = [records, &theirs];
                if !self.is_first_by_rank(sides)? {
                    return Some(Vec::new());
                }
            }
        }
        let both = records.iter().chain(&theirs);
        let local = both
            .map(|(process, record)| Some((*process, record.number?)))
            .collect::<Option<Vec<_>>>()?;
        let (first, second) = (&self.globals[side], &self.globals[other]);
        Some(vec![Global {
            members: first.members.iter().chain(second.members.iter()).collect(),
            remote: None,
            topology: None,
            local,
            other_side: None,
        }])
    }

    /// True if the first of two merged sides comes first, according to the rank that MPI returned to the
    /// first member that asked; `None` without a query, or if the rank is impossible.
    fn is_first_by_rank(&self, sides: [&Records<'_>; 2]) -> Option<bool> {
        let told = |(process, record): &(ProcessKey, &NewCommunicator)| {
            let rank = self.histories.get(process)?.ranks.get(&record.number?)?;
            Some(*rank as usize)
        };
        let lengths = sides.map(|side| side.len());
        let mut answers = (0..2).flat_map(|side| {
            let members = sides[side].iter().enumerate();
            members.filter_map(move |(place, member)| Some((side, place, told(member)?)))
        });
        let (side, place, rank) = answers.next()?;
        let comes_first = match rank {
            rank if rank == place => true,
            rank if rank == place + lengths[1 - side] => false,
            _ => return None,
        };
        Some(comes_first == (side == 0))
    }
}
