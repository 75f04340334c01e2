//! Epochs on windows: accesses outside of epochs, epochs inside of others, and epochs that are not closed.
//!
//! Each process has a state for each of its windows (MPI-4.0, 12.5). A fence begins an epoch that the next fence ends; a lock
//! between two fences is reported at the second one, because a fence that no other one follows begins no epoch. Called for each
//! event.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use belljar_job::ProcessKey;
use belljar_mpi::{CallKind, Epoch, Object};
use belljar_trace::{Event, Implementation};

use super::finding::{FindingKind, Findings, Severity};
use super::signature::integer;

/// A window in the view of a process.
#[derive(Debug, Default)]
struct WindowState {
    /// The fence that began an epoch.
    fence: Option<Rc<Event>>,
    /// The first access since the fence, and the first lock since it.
    access: Option<Rc<Event>>,
    locked_in_fence: Option<Rc<Event>>,
    started: Option<Rc<Event>>,
    posted: Option<Rc<Event>>,
    locks: BTreeMap<i64, Rc<Event>>,
    all: Option<Rc<Event>>,
}

/// The protection of an access by its epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Guard {
    /// Accesses of several processes may be made at once.
    Shared,
    /// Other processes are excluded, or take turns.
    Exclusive,
}

/// Windows of all processes.
#[derive(Debug, Default)]
pub(super) struct Epochs(BTreeMap<(ProcessKey, u32), WindowState>);

/// `MPI_MODE_NOSUCCEED` and `MPI_MODE_NOPRECEDE`.
fn fence_modes(implementation: Implementation) -> (i64, i64) {
    match implementation {
        Implementation::OpenMpi => (16, 2),
        Implementation::Mpich | Implementation::StandardAbi(_) => (16384, 8192),
    }
}

fn has_mode(call: &Event, mode: i64) -> bool {
    integer(call, "assert").is_some_and(|assert| assert & mode != 0)
}

impl Epochs {
    pub(super) fn take(&mut self, call: &Rc<Event>, findings: &mut Findings) {
        let Some(window) = call.details.0.as_ref().and_then(|details| details.window) else {
            return;
        };
        if call.failed() {
            return;
        }
        let key = ((call.node, call.process), window);
        let state = self.0.entry(key).or_default();
        match call.meaning().kind {
            CallKind::Epoch(epoch) => state.synchronise(call, epoch, findings),
            CallKind::Access(_) => state.access(call, findings),
            CallKind::Free(Object::Window) => {
                state.close(call, findings);
                self.0.remove(&key);
            }
            _ => {}
        }
    }

    /// True if an access belongs to an epoch of `MPI_Win_start`.
    pub(super) fn is_started(&self, call: &Event) -> bool {
        let window = call.details.0.as_ref().and_then(|details| details.window);
        let state = window.and_then(|window| self.0.get(&((call.node, call.process), window)));
        let target = integer(call, "target_rank").unwrap_or(-1);
        state.is_some_and(|own| {
            own.started.is_some() && own.all.is_none() && !own.locks.contains_key(&target)
        })
    }

    /// The protection of an access to the memory of another process.
    pub(super) fn guard(&self, call: &Event) -> Guard {
        let window = call.details.0.as_ref().and_then(|details| details.window);
        let state = window.and_then(|window| self.0.get(&((call.node, call.process), window)));
        let Some(state) = state else {
            return Guard::Exclusive;
        };
        let target = integer(call, "target_rank").unwrap_or(-1);
        let shared = i64::from(call.implementation.lock_shared());
        match state.locks.get(&target) {
            Some(lock) if integer(lock, "lock_type") == Some(shared) => Guard::Shared,
            Some(_) => Guard::Exclusive,
            None if state.all.is_some() || state.started.is_none() => Guard::Shared,
            None => Guard::Exclusive,
        }
    }
}

impl WindowState {
    fn synchronise(&mut self, call: &Rc<Event>, epoch: Epoch, findings: &mut Findings) {
        match epoch {
            Epoch::Fence => self.fence(call, findings),
            Epoch::Lock | Epoch::LockAll => self.lock(call, epoch, findings),
            Epoch::Unlock => {
                let rank = integer(call, "rank").unwrap_or(-1);
                if self.locks.remove(&rank).is_none() {
                    let text = format!("{} of rank {rank}, which is not locked", call.name());
                    findings.add(FindingKind::MissingEpoch, &[call], text);
                }
            }
            Epoch::UnlockAll => {
                if self.all.take().is_none() {
                    let text = format!("{} without MPI_Win_lock_all", call.name());
                    findings.add(FindingKind::MissingEpoch, &[call], text);
                }
            }
            Epoch::Start => {
                if let Some(open) = self.access_epoch() {
                    nested(call, &open, findings);
                }
                self.started = Some(Rc::clone(call));
            }
            Epoch::Complete => unpaired(
                call,
                self.started.take(),
                "the start of its epoch",
                findings,
            ),
            Epoch::Post => {
                if let Some(open) = self.posted.take() {
                    nested(call, &open, findings);
                }
                self.posted = Some(Rc::clone(call));
            }
            Epoch::Wait => unpaired(
                call,
                self.posted.take(),
                "the exposure of its window",
                findings,
            ),
            Epoch::Test => {
                if call.details.0.as_ref().is_some_and(|details| details.over) {
                    self.posted = None;
                }
            }
            Epoch::Flush | Epoch::FlushLocal => {
                if self.locks.is_empty() && self.all.is_none() {
                    let text = format!("{} outside of a lock", call.name());
                    findings.add(FindingKind::MissingEpoch, &[call], text);
                }
            }
            Epoch::Sync => {}
        }
    }

    fn fence(&mut self, call: &Rc<Event>, findings: &mut Findings) {
        let (no_succeed, no_precede) = fence_modes(call.implementation);
        if let Some(open) = self
            .locks
            .values()
            .next()
            .or(self.all.as_ref())
            .or(self.started.as_ref())
        {
            nested(call, open, findings);
        }
        if let Some(lock) = self
            .locked_in_fence
            .take()
            .filter(|_| !has_mode(call, no_precede))
        {
            let text = format!("{} between two fences", lock.name());
            // Libraries and programs permit it, although the second fence makes it an epoch.
            findings.add_as(
                FindingKind::NestedEpoch,
                Severity::Warning,
                &[&lock, call],
                text,
            );
        }
        self.access = None;
        self.fence = (!has_mode(call, no_succeed)).then(|| Rc::clone(call));
    }

    fn lock(&mut self, call: &Rc<Event>, epoch: Epoch, findings: &mut Findings) {
        let rank = match epoch {
            Epoch::Lock => integer(call, "rank"),
            _ => None,
        };
        let open = match rank {
            Some(rank) => self.locks.get(&rank).or(self.all.as_ref()),
            None => self.locks.values().next().or(self.all.as_ref()),
        };
        let open = open
            .or(self.started.as_ref())
            .or(self.access.as_ref())
            .cloned();
        if let Some(open) = open {
            nested(call, &open, findings);
        } else if self.fence.is_some() {
            self.locked_in_fence.get_or_insert_with(|| Rc::clone(call));
        }
        match rank {
            Some(rank) => {
                self.locks.insert(rank, Rc::clone(call));
            }
            None => self.all = Some(Rc::clone(call)),
        }
    }

    fn access(&mut self, call: &Rc<Event>, findings: &mut Findings) {
        let target = integer(call, "target_rank").unwrap_or(-1);
        if self.locks.contains_key(&target) || self.all.is_some() || self.started.is_some() {
            return;
        }
        match self.fence.is_some() {
            true => {
                self.access.get_or_insert_with(|| Rc::clone(call));
            }
            false => {
                let text = format!("{} outside of an epoch", call.name());
                findings.add(FindingKind::MissingEpoch, &[call], text);
            }
        }
    }

    /// The call that began an open epoch of accesses by locks, or by `MPI_Win_start`.
    fn access_epoch(&self) -> Option<Rc<Event>> {
        let lock = self.locks.values().next().or(self.all.as_ref());
        lock.or(self.started.as_ref()).cloned()
    }

    /// The window is freed, or its process ends MPI.
    fn close(&self, call: &Rc<Event>, findings: &mut Findings) {
        let open = self.access_epoch().or_else(|| self.posted.clone());
        let open = open.or_else(|| self.access.clone());
        if let Some(open) = open {
            let text = format!("the epoch of {} is open at {}", open.name(), call.name());
            findings.add(FindingKind::MissingEpoch, &[&open, call], text);
        }
    }
}

fn nested(call: &Rc<Event>, open: &Rc<Event>, findings: &mut Findings) {
    let text = format!("{} inside of the epoch of {}", call.name(), open.name());
    findings.add(FindingKind::NestedEpoch, &[call, open], text);
}

fn unpaired(call: &Rc<Event>, open: Option<Rc<Event>>, begins: &str, findings: &mut Findings) {
    if open.is_none() {
        let text = format!("{} without {begins}", call.name());
        findings.add(FindingKind::MissingEpoch, &[call], text);
    }
}

impl Epochs {
    /// Adds the epochs that are open when a process ends MPI.
    pub(super) fn end_of(&mut self, call: &Rc<Event>, findings: &mut Findings) {
        let process = (call.node, call.process);
        let own: BTreeSet<u32> = self
            .0
            .range((process, 0)..=(process, u32::MAX))
            .map(|((_, window), _)| *window)
            .collect();
        for window in own {
            if let Some(state) = self.0.remove(&(process, window)) {
                state.close(call, findings);
            }
        }
    }
}
