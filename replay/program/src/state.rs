//! A program as plain values.
//!
//! Members of collective operations are stored once, independent of the number of operations. A state may come from an untrusted file: all references are
//! checked. Used by files that contain programs.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::program::{
    Channel, Collective, Operation, Participation, Process, ProcessId, Program, Thread,
};

/// Most stages of an operation on nodes and among nodes.
const MOST_STAGES: usize = 3;
/// Most repetitions of a collective operation by one part.
const MOST_TIMES: u32 = 1 << 16;

/// A [`Program`] as plain values, without the counts of missing data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProgramState {
    processes: Vec<Process>,
    threads: Vec<Thread>,
    channels: Vec<Channel>,
    /// Members of collective operations, each list once.
    groups: Vec<Vec<ProcessId>>,
    collectives: Vec<CollectiveState>,
    parts: Vec<Participation>,
    partitioned: Vec<u32>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct CollectiveState {
    communicator: u32,
    group: u32,
    direct: Vec<u32>,
}

/// An error in a program's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProgramError {
    /// It refers to something missing.
    #[error("{what} {number} names {of} that is not there")]
    Missing {
        /// The referring item.
        what: &'static str,
        /// Its number.
        number: usize,
        /// The missing item.
        of: &'static str,
    },
    /// A thread of a schedule without conditions for each call.
    #[error("thread {0} has calls without conditions")]
    Conditions(usize),
    /// An impossible collective operation.
    #[error("part {0} is of a collective operation that nobody can carry out")]
    Part(usize),
}

impl Program {
    /// Returns the program as plain values.
    pub fn save(&self) -> ProgramState {
        let mut numbers: BTreeMap<&[ProcessId], u32> = BTreeMap::new();
        let mut groups = Vec::new();
        let collectives = self.collectives.iter().map(|collective| {
            let members = &collective.members[..];
            let group = *numbers.entry(members).or_insert_with(|| {
                groups.push(members.to_vec());
                groups.len() as u32 - 1
            });
            CollectiveState {
                communicator: collective.communicator,
                group,
                direct: collective.direct.clone(),
            }
        });
        ProgramState {
            collectives: collectives.collect(),
            groups,
            processes: self.processes.clone(),
            threads: self.threads.clone(),
            channels: self.channels.clone(),
            parts: self.parts.clone(),
            partitioned: self.partitioned.clone(),
        }
    }

    /// Restores a program from a state.
    ///
    /// # Errors
    /// Returns an error if a reference is invalid, or if it needs implausible resources.
    pub fn restore(state: ProgramState) -> Result<Self, ProgramError> {
        state.check()?;
        let groups: Vec<Arc<[ProcessId]>> = state.groups.into_iter().map(Arc::from).collect();
        let collectives = state.collectives.into_iter().map(|own| Collective {
            communicator: own.communicator,
            members: Arc::clone(&groups[own.group as usize]),
            direct: own.direct,
        });
        Ok(Self {
            collectives: collectives.collect(),
            processes: state.processes,
            threads: state.threads,
            channels: state.channels,
            parts: state.parts,
            partitioned: state.partitioned,
            ..Self::default()
        })
    }
}

/// Returns an error for the first item with an invalid reference.
fn all(
    what: &'static str,
    of: &'static str,
    mut there: impl Iterator<Item = bool>,
) -> Result<(), ProgramError> {
    let missing = there.position(|there| !there);
    missing.map_or(Ok(()), |number| {
        Err(ProgramError::Missing { what, number, of })
    })
}

impl ProgramState {
    fn check(&self) -> Result<(), ProgramError> {
        let processes = self.processes.len();
        let process = |number: &u32| (*number as usize) < processes;
        let channels = self
            .channels
            .iter()
            .map(|it| process(&it.from) && process(&it.to));
        all("channel", "a process", channels)?;
        let groups = self.groups.iter().map(|group| group.iter().all(process));
        all("group", "a process", groups)?;
        let collectives = self.collectives.iter();
        let known = collectives.map(|it| (it.group as usize) < self.groups.len());
        all("collective operation", "a group", known)?;
        let threads = self.threads.iter();
        all(
            "thread",
            "a process",
            threads.map(|it| process(&it.process)),
        )?;
        for (number, thread) in self.threads.iter().enumerate() {
            let conditions = thread.conditions.len();
            if conditions > 0 && conditions != thread.calls.len() {
                return Err(ProgramError::Conditions(number));
            }
            if let Some(of) = thread.operations.iter().find_map(|it| self.lacks(it)) {
                let what = "an operation of thread";
                return Err(ProgramError::Missing { what, number, of });
            }
        }
        let bad = self.parts.iter().position(|part| !self.can_do(part));
        bad.map_or(Ok(()), |number| Err(ProgramError::Part(number)))
    }

    /// Returns the missing item that an operation refers to.
    fn lacks(&self, operation: &Operation) -> Option<&'static str> {
        let unless = |there: bool, what| (!there).then_some(what);
        let channel = |number: u32| unless((number as usize) < self.channels.len(), "a channel");
        match *operation {
            Operation::Send { channel: of, .. }
            | Operation::Receive { channel: of, .. }
            | Operation::Access { channel: of, .. }
            | Operation::Flush { channel: of }
            | Operation::Lock { channel: of, .. }
            | Operation::Probe { channel: of } => channel(of),
            Operation::SendPartitioned {
                channel: of,
                message,
                ..
            } => channel(of).or_else(|| self.partitioned(message)),
            Operation::Ready { message } => self.partitioned(message),
            Operation::Collective {
                collective, part, ..
            } => unless(
                (collective as usize) < self.collectives.len(),
                "a collective operation",
            )
            .or_else(|| unless((part as usize) < self.parts.len(), "a part")),
            Operation::Test { .. } | Operation::Wait { .. } | Operation::Nothing { .. } => None,
        }
    }

    fn partitioned(&self, message: u32) -> Option<&'static str> {
        let there = (message as usize) < self.partitioned.len();
        (!there).then_some("a partitioned message")
    }

    /// True if the part is possible and of plausible size: its schedule has about as many steps as there are members.
    fn can_do(&self, part: &Participation) -> bool {
        match part {
            Participation::Direct { .. } => true,
            Participation::Library {
                call,
                times,
                stages,
                ..
            } => {
                let members = self.processes.len();
                let staged = stages.iter().all(|stage| stage.is_sound(call.members));
                let few = stages.len() <= MOST_STAGES && call.members as usize <= members;
                call.is_sound() && staged && few && *times <= MOST_TIMES
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use belljar_collectives::{Algorithm, Call as Passed, Operation as Kind};

    use super::*;
    use crate::program::Call;

    fn program() -> Program {
        let process = |rank| Process {
            job: 0,
            rank,
            node: rank,
        };
        let thread = |process| Thread {
            process,
            calls: vec![Call {
                function: 1,
                operations: 1,
                count: 1,
                before: 5,
                inside: 7,
            }],
            operations: vec![Operation::Collective {
                collective: 1,
                part: process,
                slot: 0,
            }],
            slots: 1,
            ..Thread::default()
        };
        let members: Arc<[u32]> = Arc::from([0, 1]);
        let collective = Collective {
            communicator: 3,
            members,
            direct: Vec::new(),
        };
        let part = |rank| Participation::Library {
            algorithm: Algorithm::BarrierDissemination,
            call: Passed::new(Kind::Barrier, 2, rank),
            stages: Vec::new(),
            times: 1,
        };
        Program {
            processes: vec![process(0), process(1)],
            threads: vec![thread(0), thread(1)],
            collectives: vec![collective.clone(), collective],
            parts: vec![part(0), part(1)],
            ..Program::default()
        }
    }

    #[test]
    fn a_program_comes_back_with_its_groups_once() {
        let state = program().save();
        assert_eq!(state.groups, [[0, 1]]);
        assert_eq!(Program::restore(state).unwrap(), program());
    }

    #[test]
    fn what_is_not_there_is_refused() {
        let refused = |change: &dyn Fn(&mut ProgramState)| {
            let mut state = program().save();
            change(&mut state);
            Program::restore(state).unwrap_err().to_string()
        };
        let missing = refused(&|it| it.groups[0][1] = 2);
        assert_eq!(missing, "group 0 names a process that is not there");
        assert!(refused(&|it| it.collectives[1].group = 1).contains("a group"));
        assert!(refused(&|it| it.threads[1].process = 9).contains("a process"));
        let conditions = || vec![crate::program::Conditions::default(); 2];
        let unconditioned = refused(&|it| it.threads[1].conditions = conditions());
        assert_eq!(unconditioned, "thread 1 has calls without conditions");
        assert!(refused(&|it| it.parts.truncate(1)).contains("thread 1 names a part"));
        assert!(
            refused(&|it| it.threads[0].operations[0] = Operation::Ready { message: 0 })
                .contains("a partitioned message")
        );
        let large = refused(&|it| {
            if let Participation::Library { call, .. } = &mut it.parts[1] {
                call.members = 1 << 20;
            }
        });
        assert!(large.contains("nobody can carry out"));
    }
}
