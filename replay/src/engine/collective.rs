//! Collective operations: each member executes its steps.
//!
//! A step begins when its prerequisites are complete and the member's process is in MPI; steps of one member are processed one after the other. In an
//! operation, the `n`th message from one member to another is the `n`th that the other receives from it. Used by threads and when something arrives.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use belljar_collectives::{Action, Schedule};
use belljar_networks::Network;
use belljar_program::{Participation, ProcessId};
use serde::{Deserialize, Serialize};

use crate::costs::Medium;

use super::{Deferred, Engine, MessageId, OperationId, Party};

/// A collective operation in progress.
#[derive(Clone, Debug, Default)]
pub(super) struct CollectiveState {
    /// Members by position.
    members: BTreeMap<u32, MemberState>,
    /// Messages from one position to another without the other side.
    pairs: BTreeMap<(u32, u32), Pair>,
    /// Number of members that are done.
    through: u32,
}

/// Unmatched messages and receives between two members.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Pair {
    sent: VecDeque<MessageId>,
    /// Steps of the receiver.
    wanted: VecDeque<u32>,
}

/// A member's progress.
#[derive(Clone, Debug)]
struct MemberState {
    process: ProcessId,
    operation: OperationId,
    /// Its part.
    part: u32,
    steps: Steps,
    /// Number of steps begun.
    begun: u32,
    /// True for each completed step.
    over: Vec<bool>,
    /// All steps before this one are complete.
    before: u32,
    /// True while steps are being begun, so that a completion meanwhile need not begin the following steps.
    busy: bool,
}

/// The steps of a member.
#[derive(Clone, Debug)]
enum Steps {
    /// Steps of an algorithm.
    Schedule(Arc<Schedule>),
    /// Sends these, and receives this many from any members.
    Direct { sends: u32, receives: u32 },
}

/// The pseudo-sender of direct messages, whose actual sender is irrelevant.
const ANYBODY: u32 = u32::MAX;

/// Most schedules that are kept.
const MOST_SCHEDULES: usize = 1 << 14;

impl Steps {
    fn len(&self) -> u32 {
        match self {
            Self::Schedule(schedule) => schedule.steps().len() as u32,
            Self::Direct {
                sends, receives, ..
            } => sends + receives,
        }
    }
}

impl<N: Network + ?Sized> Engine<'_, '_, N> {
    /// Begins a process's part in a collective operation; its completion is reported to the operation.
    pub(super) fn take_part(
        &mut self,
        now: u64,
        process: ProcessId,
        operation: OperationId,
        collective: u32,
        part: u32,
    ) {
        let program = self.program;
        let of = &program.collectives[collective as usize];
        let place = of.members.iter().position(|member| *member == process);
        let place = place.unwrap_or(0) as u32;
        let steps = self.steps(collective, place, part);
        let member = MemberState {
            process,
            operation,
            part,
            over: vec![false; steps.len() as usize],
            steps,
            begun: 0,
            before: 0,
            busy: false,
        };
        let state = self.collectives.entry(collective).or_default();
        state.members.insert(place, member);
        self.advance_part(now, collective, place);
    }

    /// Returns the steps of the member at a position.
    fn steps(&mut self, collective: u32, place: u32, part: u32) -> Steps {
        let program = self.program;
        let direct = &program.collectives[collective as usize].direct;
        match &program.parts[part as usize] {
            Participation::Library { .. } => Steps::Schedule(self.schedule(part)),
            Participation::Direct { sends } => Steps::Direct {
                sends: sends.len() as u32,
                receives: direct.get(place as usize).copied().unwrap_or(0),
            },
        }
    }

    fn schedule(&mut self, part: u32) -> Arc<Schedule> {
        if self.schedules.len() >= MOST_SCHEDULES {
            self.schedules.clear();
        }
        let parts = &self.program.parts;
        let schedule = self
            .schedules
            .entry(part)
            .or_insert_with(|| Arc::new(parts[part as usize].schedule()));
        Arc::clone(schedule)
    }

    /// Begins all steps of a member that can begin.
    fn advance_part(&mut self, now: u64, collective: u32, place: u32) {
        let Some(member) = self.member_mut(collective, place) else {
            return;
        };
        if std::mem::replace(&mut member.busy, true) {
            return;
        }
        while let Some((step, process, action)) = self.next_step(collective, place) {
            let straight = self.is_straight(collective, place);
            let party = Party::Step(collective, place, step);
            self.act(now, party, process, action, straight);
        }
        let Some(member) = self.member_mut(collective, place) else {
            return;
        };
        member.busy = false;
        if member.before >= member.steps.len() {
            self.through(now, collective, place);
        }
    }

    /// Takes the next step of a member, if its prerequisites are complete; it begins now.
    fn next_step(&mut self, collective: u32, place: u32) -> Option<(u32, ProcessId, Action)> {
        let member = self.member(collective, place)?;
        let step = member.begun;
        let action = match &member.steps {
            Steps::Schedule(schedule) => {
                let step = schedule.steps().get(step as usize)?;
                if step.needs.end > member.before {
                    return None;
                }
                step.action
            }
            Steps::Direct { sends, .. } if step < member.steps.len() => {
                self.direct(member.part, *sends, step)
            }
            Steps::Direct { .. } => return None,
        };
        let member = self.member_mut(collective, place)?;
        member.begun += 1;
        Some((step, member.process, action))
    }

    /// Returns a member's action at a step with direct messages.
    fn direct(&self, part: u32, sends: u32, step: u32) -> Action {
        let all = match &self.program.parts[part as usize] {
            Participation::Direct { sends } => sends.as_slice(),
            Participation::Library { .. } => &[],
        };
        match all.get(step as usize) {
            Some((to, bytes)) if step < sends => Action::Send {
                to: *to,
                bytes: *bytes,
            },
            _ => Action::Receive {
                from: ANYBODY,
                bytes: 0,
            },
        }
    }

    fn is_straight(&self, collective: u32, place: u32) -> bool {
        let member = self.member(collective, place);
        member.is_some_and(|member| matches!(member.steps, Steps::Direct { .. }))
    }

    fn member(&self, collective: u32, place: u32) -> Option<&MemberState> {
        self.collectives.get(&collective)?.members.get(&place)
    }

    fn member_mut(&mut self, collective: u32, place: u32) -> Option<&mut MemberState> {
        let state = self.collectives.get_mut(&collective)?;
        state.members.get_mut(&place)
    }

    /// Executes a member's step.
    fn act(&mut self, now: u64, party: Party, process: ProcessId, action: Action, straight: bool) {
        let Party::Step(collective, place, step) = party else {
            return;
        };
        match action {
            Action::Send { to, bytes } => {
                let members = &self.program.collectives[collective as usize].members;
                let Some(other) = members.get(to as usize).copied() else {
                    return self.note(collective, place, step);
                };
                let message = self.send_step(now, process, other, bytes, party);
                let from = if straight { ANYBODY } else { place };
                let pair = self.pair(collective, (from, to));
                match pair.wanted.pop_front() {
                    Some(step) => {
                        self.wanted_by(now, message, Party::Step(collective, to, step), false);
                    }
                    None => pair.sent.push_back(message),
                }
            }
            Action::Receive { from, .. } => {
                let pair = self.pair(collective, (from, place));
                match pair.sent.pop_front() {
                    Some(message) => self.wanted_by(now, message, party, false),
                    None => pair.wanted.push_back(step),
                }
            }
            Action::Combine { bytes } => {
                self.work(process, now, self.spans.combine(process, bytes));
                self.note(collective, place, step);
            }
            Action::Copy { bytes } => {
                self.work(process, now, self.spans.copy(process, bytes));
                self.note(collective, place, step);
            }
        }
    }

    fn pair(&mut self, collective: u32, between: (u32, u32)) -> &mut Pair {
        let state = self.collectives.entry(collective).or_default();
        state.pairs.entry(between).or_default()
    }

    /// Handles the completion of a step: its message has been sent, or has arrived, so that the process has to process it.
    pub(super) fn step_over(&mut self, now: u64, collective: u32, place: u32, step: u32) {
        let Some(member) = self.member(collective, place) else {
            return;
        };
        let process = member.process;
        let sends = match &member.steps {
            Steps::Schedule(schedule) => {
                let step = schedule.steps().get(step as usize);
                step.is_some_and(|step| matches!(step.action, Action::Send { .. }))
            }
            Steps::Direct { sends, .. } => step < *sends,
        };
        if sends {
            self.note(collective, place, step);
            return self.advance_part(now, collective, place);
        }
        match self.is_in_mpi(process, now) {
            true => self.step_received(now, collective, place, step),
            false => {
                let deferred = &mut self.processes[process as usize].deferred;
                deferred.push_back(Deferred::Step(collective, place, step));
            }
        }
    }

    /// Handles a message received by a step, in the member's process.
    pub(super) fn step_received(&mut self, now: u64, collective: u32, place: u32, step: u32) {
        let Some(member) = self.member(collective, place) else {
            return;
        };
        let (from, bytes) = match &member.steps {
            Steps::Schedule(schedule) => match schedule.steps().get(step as usize) {
                Some(step) => match step.action {
                    Action::Receive { from, bytes } => (Some(from), bytes),
                    _ => (None, 0),
                },
                None => (None, 0),
            },
            Steps::Direct { .. } => (None, 0),
        };
        let process = member.process;
        let members = &self.program.collectives[collective as usize].members;
        let from = from.and_then(|place| members.get(place as usize).copied());
        let medium = from.map_or(Medium::Network, |from| self.medium(from, process));
        // A large message through memory was copied when it arrived.
        let copied = medium == Medium::Memory && self.spans.is_large(process, medium, bytes);
        if !copied {
            self.work(process, now, self.spans.receive(process, medium, bytes));
        }
        self.note(collective, place, step);
        self.advance_part(now, collective, place);
    }

    /// Marks a step as complete.
    fn note(&mut self, collective: u32, place: u32, step: u32) {
        let Some(member) = self.member_mut(collective, place) else {
            return;
        };
        if let Some(over) = member.over.get_mut(step as usize) {
            *over = true;
        }
        while member.over.get(member.before as usize) == Some(&true) {
            member.before += 1;
        }
    }

    /// Handles a member that is done.
    fn through(&mut self, now: u64, collective: u32, place: u32) {
        let members = self.program.collectives[collective as usize].members.len();
        let Some(state) = self.collectives.get_mut(&collective) else {
            return;
        };
        let Some(member) = state.members.remove(&place) else {
            return;
        };
        state.through += 1;
        if state.through as usize >= members {
            self.collectives.remove(&collective);
        }
        let now = self.free(member.process, now);
        self.end(now, Party::Operation(member.operation), 0);
    }
}

/// A collective operation in progress, as plain values.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct CollectiveSaved {
    members: Vec<(u32, MemberSaved)>,
    pairs: BTreeMap<(u32, u32), Pair>,
    through: u32,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
struct MemberSaved {
    process: ProcessId,
    operation: OperationId,
    part: u32,
    begun: u32,
    over: Vec<bool>,
    before: u32,
}

impl CollectiveState {
    pub(super) fn save(&self) -> CollectiveSaved {
        let members = self.members.iter().map(|(place, member)| {
            let saved = MemberSaved {
                process: member.process,
                operation: member.operation,
                part: member.part,
                begun: member.begun,
                over: member.over.clone(),
                before: member.before,
            };
            (*place, saved)
        });
        CollectiveSaved {
            members: members.collect(),
            pairs: self.pairs.clone(),
            through: self.through,
        }
    }
}

impl<N: Network + ?Sized> Engine<'_, '_, N> {
    /// Restores a collective operation that was saved between two events; `None` if it does not fit the program.
    pub(super) fn collective(
        &mut self,
        collective: u32,
        saved: CollectiveSaved,
    ) -> Option<CollectiveState> {
        let program = self.program;
        let places = program.collectives.get(collective as usize)?.members.len();
        let mut members = BTreeMap::new();
        for (place, own) in saved.members {
            let there = (place as usize) < places
                && (own.process as usize) < program.processes.len()
                && (own.part as usize) < program.parts.len();
            if !there {
                return None;
            }
            let steps = self.steps(collective, place, own.part);
            let length = steps.len();
            if own.over.len() != length as usize || own.begun > length || own.before > length {
                return None;
            }
            let member = MemberState {
                process: own.process,
                operation: own.operation,
                part: own.part,
                steps,
                begun: own.begun,
                over: own.over,
                before: own.before,
                busy: false,
            };
            members.insert(place, member);
        }
        Some(CollectiveState {
            members,
            pairs: saved.pairs,
            through: saved.through.min(places as u32),
        })
    }
}
