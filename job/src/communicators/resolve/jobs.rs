//! Connections of jobs: spawns (MPI-4.0, 11.8), and connections at a port (11.9).
//!
//! No call names both sides. A spawn returns when all started processes have initialized MPI, and
//! the two calls at a port when they are connected, so the calls of both sides overlap in time. If
//! several combinations are possible, the result stays unknown. Called like all constructors.

use belljar_sim::Time;
use belljar_trace::{Making, NewCommunicator, WORLD};

use super::{Global, Members, ProcessKey, Records, Resolver};
use crate::communicators::history::History;

/// A side at a port: its root, the communicator that it made, and the entry and return of its call.
type Caller<'a> = (ProcessKey, &'a NewCommunicator, [Time; 2]);

impl<'a> Resolver<'a> {
    /// Resolves both sides of a spawn; true if they are known.
    pub(super) fn spawn(&mut self, parent: usize, records: &Records<'_>) -> bool {
        let Some(&Making::Spawn { root, .. }) = records.first().map(|(_, record)| &record.how)
        else {
            return false;
        };
        let Some(&(process, record)) = records.get(root as usize) else {
            return false;
        };
        if self.is_known(process, record) {
            return true;
        }
        let Some(job) = self.spawned_job(process, record) else {
            return false;
        };
        let (Some(first), Some(world)) = (self.local_side(parent, records), self.world(job)) else {
            return false;
        };
        let children = self.of_job(job).filter_map(|child| {
            let number = self.histories.get(&child)?.parent??;
            Some((child, number))
        });
        let second = Global {
            members: world.clone(),
            remote: Some(first.members.clone()),
            topology: None,
            local: children.collect(),
            other_side: None,
        };
        self.spawned.insert(job);
        self.add_sides(
            Global {
                remote: Some(world),
                ..first
            },
            second,
        );
        true
    }

    /// The only job that a process can have spawned by a call.
    fn spawned_job(&mut self, root: ProcessKey, record: &NewCommunicator) -> Option<u32> {
        let Making::Spawn { count, .. } = record.how else {
            return None;
        };
        let history = self.histories.get(&root)?;
        let [from, to] = span(history, record)?;
        self.spend(self.ranks.len())?;
        let mut found = None;
        for (member, process) in &self.ranks {
            let child = self.histories.get(process)?;
            let own = self.known.get(&(root, WORLD)) == self.known.get(&(*process, WORLD));
            let can = !own
                && !self.spawned.contains(&member.job)
                && child.parent != Some(None)
                && child.start >= from
                && child.start <= to
                && child.launch.may_be_of(&history.launch)
                && count.is_none_or(|count| self.job_size(member.job) == Some(count));
            if can && found.is_some_and(|job| job != member.job) {
                return None;
            }
            if can {
                found = Some(member.job);
            }
        }
        found
    }

    /// Resolves both sides of two calls at a port; true if they are known.
    pub(super) fn meet(&mut self, parent: usize, records: &Records<'_>) -> bool {
        let Some(&Making::Meet { root, .. }) = records.first().map(|(_, record)| &record.how)
        else {
            return false;
        };
        let Some(&(process, record)) = records.get(root as usize) else {
            return false;
        };
        if self.is_known(process, record) {
            return true;
        }
        let Some((other, theirs)) = self.met(process, record) else {
            return false;
        };
        let other_parent = theirs
            .parent
            .and_then(|number| self.known.get(&(other, number)));
        let Some(&other_parent) = other_parent else {
            return false;
        };
        let Some(their_records) = self.records(other_parent, theirs.sequence) else {
            return false;
        };
        let sides = (
            self.local_side(parent, records),
            self.local_side(other_parent, &their_records),
        );
        let (Some(first), Some(second)) = sides else {
            return false;
        };
        let (ours, remote) = (first.members.clone(), second.members.clone());
        self.add_sides(
            Global {
                remote: Some(remote),
                ..first
            },
            Global {
                remote: Some(ours),
                ..second
            },
        );
        true
    }

    /// The only call that can have met this one at its port.
    fn met(
        &mut self,
        root: ProcessKey,
        record: &NewCommunicator,
    ) -> Option<(ProcessKey, &'a NewCommunicator)> {
        let Making::Meet {
            accepts,
            port: Some(port),
            ..
        } = record.how
        else {
            return None;
        };
        let [from, to] = span(self.histories.get(&root)?, record)?;
        let mut found = None;
        for (other, theirs, [entry, exit]) in self.callers(port, !accepts)? {
            if entry > to || exit < from || self.is_known(other, theirs) {
                continue;
            }
            if found.is_some() {
                return None;
            }
            found = Some((other, theirs));
        }
        found
    }

    /// The processes that accepted at a port, or the ones that connected to it.
    fn callers(&mut self, port: u32, accepts: bool) -> Option<Vec<Caller<'a>>> {
        let mut callers = Vec::new();
        for (process, history) in self.histories {
            self.spend(history.meetings.len())?;
            for (record, span) in &history.meetings {
                let named = match record.how {
                    Making::Meet {
                        accepts: it,
                        port: Some(name),
                        ..
                    } => it == accepts && name == port,
                    _ => false,
                };
                if named && self.is_root(*process, record) {
                    callers.push((*process, record, *span));
                }
            }
        }
        Some(callers)
    }

    /// True if a process is the root, whose arguments apply.
    fn is_root(&self, process: ProcessKey, record: &NewCommunicator) -> bool {
        let Making::Meet { root, .. } = record.how else {
            return false;
        };
        let parent = record
            .parent
            .and_then(|parent| self.known.get(&(process, parent)));
        let at = parent.and_then(|parent| self.globals[*parent].local.get(root as usize));
        at.is_some_and(|(at, _)| *at == process)
    }

    /// A side of an intercommunicator with the parent's members.
    fn local_side(&self, parent: usize, records: &Records<'_>) -> Option<Global> {
        let local = records
            .iter()
            .map(|(process, record)| Some((*process, record.number?)));
        Some(Global {
            members: self.globals.get(parent)?.members.clone(),
            remote: None,
            topology: None,
            local: local.collect::<Option<Vec<_>>>()?,
            other_side: None,
        })
    }

    fn is_known(&self, process: ProcessKey, record: &NewCommunicator) -> bool {
        let number = record.number;
        number.is_some_and(|number| self.known.contains_key(&(process, number)))
    }

    fn world(&self, job: u32) -> Option<Members> {
        let process = self.of_job(job).next()?;
        let world = *self.known.get(&(process, WORLD))?;
        Some(self.globals[world].members.clone())
    }

    fn job_size(&self, job: u32) -> Option<u32> {
        self.world(job).map(|world| world.len())
    }
}

/// Entry and return of a call.
fn span(history: &History, record: &NewCommunicator) -> Option<[Time; 2]> {
    let mut meetings = history.meetings.iter();
    let (_, span) = meetings.find(|(other, _)| other == record)?;
    Some(*span)
}
