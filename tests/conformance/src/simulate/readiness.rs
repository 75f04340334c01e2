//! Calls that can return, and the operations that they have completed by then.
//!
//! A call is left when its operations are over or other ranks have come; a poll at once. Called by the simulation for each next moment.

use super::{Simulation, meeting_of};
use crate::job::{ActorId, Call, Form, OperationId};

impl Simulation<'_> {
    /// When an actor can enter its next call, or leave the one it is in.
    pub(super) fn ready(&self, actor: ActorId) -> Option<u64> {
        let progress = &self.actors[actor];
        let call = self.job.actors[actor].calls.get(progress.next)?;
        let Some(since) = progress.inside else {
            return Some(self.free_entry(actor, progress.clock + call.work));
        };
        if call.form.polls() {
            return Some(since);
        }
        let probes = matches!(call.form, Form::Probed | Form::Matched);
        if probes && !progress.probed {
            return Some(since.max(self.mailboxes.probe(self.job, call.operations[0])?));
        }
        match call.form {
            Form::Begin
            | Form::Prepare
            | Form::Start
            | Form::Ready(_)
            | Form::Cancel
            | Form::Free
            | Form::Fail => Some(since),
            Form::Window(window) if window.awaits().is_some() => {
                let given = self.meetings.signalled(window.awaits()?);
                given.map(|at| since.max(at))
            }
            Form::Communicator(..) | Form::Window(_) => match meeting_of(self.job, call) {
                Some(meeting) => self
                    .meetings
                    .made(self.job, meeting)
                    .map(|at| since.max(at)),
                None => Some(since),
            },
            Form::Each(_) => {
                let ends = progress.left.iter().filter_map(|it| self.over[*it]);
                ends.min().map(|end| end.max(since))
            }
            _ => {
                let ends = call
                    .operations
                    .iter()
                    .map(|operation| self.over[*operation]);
                ends.map(|end| end.map(|end| end.max(since)))
                    .try_fold(since, |last, end| Some(last.max(end?)))
            }
        }
    }

    /// The first time from this one on at which no call of the actor's rank was entered.
    pub(super) fn free_entry(&self, actor: ActorId, from: u64) -> u64 {
        let rank = self.job.actors[actor].rank;
        let mut times = from..;
        times
            .find(|at| !self.entries.contains(&(rank, *at)))
            .unwrap_or(from)
    }

    /// The operations whose requests are completed by a call that returns now.
    pub(super) fn completed(&self, actor: ActorId, at: u64, found: bool) -> Vec<OperationId> {
        let progress = &self.actors[actor];
        let call = &self.job.actors[actor].calls[progress.next];
        match call.form {
            Form::Wait => call.operations.clone(),
            Form::Test if found => call.operations.clone(),
            Form::Each(each) => {
                let left = progress.left.iter().copied();
                let over = left.filter(|it| self.is_over(*it, at));
                over.take(if each.is_one() { 1 } else { usize::MAX })
                    .collect()
            }
            _ => Vec::new(),
        }
    }

    pub(super) fn is_over(&self, operation: OperationId, at: u64) -> bool {
        self.over[operation].is_some_and(|end| end <= at)
    }

    /// False for a poll at this time that finds nothing.
    pub(super) fn finds(&self, actor: ActorId, call: &Call, at: u64) -> bool {
        let over = |operation: &OperationId| self.is_over(*operation, at);
        match call.form {
            Form::Test => call.operations.iter().all(over),
            Form::Each(each) if each.polls() => self.actors[actor].left.iter().any(over),
            _ => true,
        }
    }
}
