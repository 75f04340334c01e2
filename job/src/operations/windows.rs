//! Windows, locks, epochs and accesses (MPI-4.0, 12.5).
//!
//! A lock is a round trip. In MPICH, `MPI_Win_post` notifies each process of its group that its epoch may begin, for which
//! `MPI_Win_start` waits, and `MPI_Win_complete` that its accesses are over, for which `MPI_Win_wait` waits. Open MPI
//! begins an epoch or requests a lock in the same way, and waits for the answer when accesses have to be complete. Called
//! for each event.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

use belljar_mpi::{CallKind, Epoch, Meeting, Object};
use belljar_trace::{Event, Fact as Told, MpiLibrary, Phase, WORLD};

use super::fact::{Fact, Locking, Loss, Operation, Origin, Signal, WindowId};
use super::requests::{MessageSide, OpenOperation};
use super::{Begun, Operations, ProcessCall};
use crate::communicators::{Communicators, Member, ProcessKey};

/// Limit on windows of all processes that are followed.
const MOST_WINDOWS: usize = 1 << 20;
/// Limit on accesses of a process that are followed until an epoch ends.
const MOST_ACCESSES: usize = 1 << 20;

/// A window in the view of one of its processes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Own {
    pub(super) window: WindowId,
    /// Its communicator, by the process's own number.
    number: u32,
}

/// Windows by the processes' own numbers, and the epochs on them.
#[derive(Debug, Default)]
pub(super) struct Windows {
    own: BTreeMap<(ProcessKey, u32), Own>,
    /// Windows that each process created on each communicator.
    made: BTreeMap<(ProcessKey, u32), u32>,
    /// The processes of open epochs: of exposure if true, otherwise of accesses.
    epochs: BTreeMap<(ProcessKey, WindowId, bool), Vec<Member>>,
    /// Locks that the program asserts to be free, at one process or at all: the library neither requests nor releases them.
    unchecked: BTreeSet<(ProcessKey, WindowId, Option<Member>)>,
}

impl Windows {
    /// Records the window that a call creates.
    pub(super) fn learn(&mut self, call: ProcessCall<'_>, communicators: &Communicators) {
        let event = call.event;
        if !event.meaning().makes_window() || self.own.len() >= MOST_WINDOWS {
            return;
        }
        let Some((own, number)) = own_number(event).zip(event.communicator) else {
            return;
        };
        if let Some(communicator) = communicators.identity(call.process, number) {
            let made = self.made.entry((call.process, communicator)).or_default();
            let sequence = *made;
            *made = made.saturating_add(1);
            let window = WindowId {
                communicator,
                sequence,
            };
            self.own.insert((call.process, own), Own { window, number });
        }
    }

    /// Removes the window that a call frees.
    pub(super) fn forget(&mut self, call: ProcessCall<'_>) {
        let frees = call.event.meaning().kind == CallKind::Free(Object::Window);
        if let Some(own) = own_number(call.event).filter(|_| frees) {
            self.own.remove(&(call.process, own));
        }
    }

    /// The window that a call names.
    pub(super) fn of(&self, event: &Event) -> Option<Own> {
        let process = (event.node, event.process);
        self.own.get(&(process, own_number(event)?)).copied()
    }

    /// The communicator, by the process's own number, whose members a call needs although it is not a collective operation.
    pub(super) fn meeting(&self, event: &Event) -> Option<u32> {
        match event.meaning().meeting {
            Meeting::World => Some(WORLD),
            Meeting::Communicator => event.communicator,
            Meeting::NewCommunicator => match &event.fact {
                Some(Told::Communicator(new)) => new.number,
                _ => None,
            },
            Meeting::Window => self.of(event).map(|own| own.number),
            Meeting::Nobody | Meeting::File | Meeting::Others => None,
        }
    }
}

fn own_number(event: &Event) -> Option<u32> {
    event.details.0.as_ref()?.window
}

/// An access, or an answer that accesses need, until a synchronisation completes it.
#[derive(Clone, Copy, Debug)]
struct WindowAccess {
    open: OpenOperation,
    /// The window, by the process's own number.
    window: Option<u32>,
    target: Member,
}

/// Accesses of each process that are not complete.
#[derive(Debug, Default)]
pub(super) struct Accesses(BTreeMap<ProcessKey, Vec<WindowAccess>>);

impl Accesses {
    fn push(
        &mut self,
        call: ProcessCall<'_>,
        open: OpenOperation,
        target: Member,
        facts: &mut Vec<Fact>,
    ) {
        let own = self.0.entry(call.process).or_default();
        if own.len() >= MOST_ACCESSES {
            facts.push(Fact::Lost {
                operation: open.operation,
                why: Loss::Bound,
            });
            return;
        }
        let window = own_number(call.event);
        own.push(WindowAccess {
            open,
            window,
            target,
        });
    }

    /// Removes the accesses that a synchronisation completes: on its window, and to the process that it names.
    pub(super) fn ended(
        &mut self,
        call: ProcessCall<'_>,
        target: Option<Member>,
    ) -> Vec<OpenOperation> {
        let window = own_number(call.event);
        let Some(own) = self.0.get_mut(&call.process) else {
            return Vec::new();
        };
        let ends = |access: &mut WindowAccess| {
            let same = access.window.zip(window).is_none_or(|(a, b)| a == b);
            same && target.is_none_or(|target| target == access.target)
        };
        let ended = own.extract_if(.., ends).map(|access| access.open).collect();
        if own.is_empty() {
            self.0.remove(&call.process);
        }
        ended
    }
}

/// True if the program asserts that the other processes have already called (`MPI_MODE_NOCHECK`).
fn unchecked(event: &Event) -> bool {
    let flag = event.implementation.mode_no_check();
    integer(event, "assert").is_some_and(|assert| assert & flag != 0)
}

/// An argument's word, as an integer.
fn integer(event: &Event, name: &str) -> Option<i32> {
    let mut parameters = event.description().parameters.iter();
    let at = parameters.position(|parameter| parameter.name == name)?;
    i32::try_from(event.arguments.get(at)?.cast_signed()).ok()
}

impl<C: Deref<Target = Communicators>> Operations<C> {
    /// Begins an access to another process's memory: the transfer with this index. It completes with its request, or with
    /// the epoch.
    pub(super) fn access(
        &mut self,
        call: ProcessCall<'_>,
        index: usize,
        begun: &mut Begun,
        facts: &mut Vec<Fact>,
    ) {
        let transfer = &call.event.transfers[index];
        let origin = Origin::Transfer(index);
        let communicators = &*self.communicators;
        let found = transfer.communicator.and_then(|number| {
            let communicator = communicators.identity(call.process, number)?;
            let target = communicators.peer(call.process, number, transfer.peer)?;
            Some((communicator, target))
        });
        let open = match found {
            Some((communicator, target)) => {
                let what = Operation::Access {
                    communicator,
                    target,
                };
                Some((self.open(origin, what, MessageSide::Neither, facts), target))
            }
            None => {
                if !matches!(transfer.peer, belljar_trace::Peer::Null) {
                    let why = Loss::Communicator;
                    facts.push(Fact::Unknown { origin, why });
                }
                None
            }
        };
        if transfer.phase == Phase::Begun {
            begun.under_way.push(open.map(|(open, _)| open));
        } else if let Some((open, target)) = open {
            self.accesses.push(call, open, target, facts);
        }
    }

    /// The process that a call on a window names; `None` if it names none, or an unknown one.
    pub fn target(&self, event: &Event) -> Option<Member> {
        let own = self.windows.of(event)?;
        let peer = event.implementation.peer(integer(event, "rank")?);
        self.communicators
            .peer((event.node, event.process), own.number, peer)
    }

    /// Handles a lock or unlock of a window, at one process or at all.
    pub(super) fn lock(&mut self, call: ProcessCall<'_>, begun: &mut Begun, facts: &mut Vec<Fact>) {
        let event = call.event;
        let shared = event.implementation.lock_shared();
        let how = match event.meaning().epoch() {
            Some(Epoch::Lock) if integer(event, "lock_type") != Some(shared) => Locking::Exclusive,
            Some(Epoch::Lock | Epoch::LockAll) => Locking::Shared,
            Some(Epoch::Unlock | Epoch::UnlockAll) => Locking::Release,
            _ => return,
        };
        let Some(own) = self.windows.of(event) else {
            return;
        };
        let target = self.target(event);
        let held = (call.process, own.window, target);
        let free = &mut self.windows.unchecked;
        let nothing = match how {
            Locking::Release => free.remove(&held),
            _ => unchecked(event) && free.len() < MOST_ACCESSES && free.insert(held),
        };
        if nothing {
            return;
        }
        let targets: Vec<Member> = match integer(event, "rank") {
            Some(_) => target.into_iter().collect(),
            None => {
                let all = self.communicators.members(call.process, own.number);
                let most = self.communicators.processes();
                all.into_iter()
                    .flat_map(|all| all.iter())
                    .take(most)
                    .collect()
            }
        };
        for target in targets {
            let what = Operation::Lock {
                window: own.window,
                target,
                how,
            };
            let open = self.open(Origin::Call, what, MessageSide::Neither, facts);
            self.answered(call, open, target, how != Locking::Release, begun, facts);
        }
    }

    /// Begins or ends an epoch between the processes of a group.
    pub(super) fn epoch(
        &mut self,
        call: ProcessCall<'_>,
        begun: &mut Begun,
        facts: &mut Vec<Fact>,
    ) {
        let event = call.event;
        let over = event.details.0.as_ref().is_some_and(|details| details.over);
        let (exposes, begins) = match event.meaning().epoch() {
            Some(Epoch::Post) => (true, true),
            Some(Epoch::Start) => (false, true),
            Some(Epoch::Complete) => (false, false),
            Some(Epoch::Wait) => (true, false),
            Some(Epoch::Test) if over => (true, false),
            _ => return,
        };
        let Some(Own { window, .. }) = self.windows.of(event) else {
            return;
        };
        let place = (call.process, window, exposes);
        let group = match begins {
            true => {
                let group = self.group(call, facts);
                if let Some(group) = &group {
                    self.windows.epochs.insert(place, group.clone());
                }
                group.filter(|_| !unchecked(event))
            }
            false => self.windows.epochs.remove(&place),
        };
        let signal = match begins {
            true => Signal::Exposed,
            false => Signal::Accessed,
        };
        for other in group.unwrap_or_default() {
            // Exposure notifies at its begin and waits at its end; accesses the other way round.
            let what = match exposes == begins {
                true => Operation::Signal {
                    window,
                    to: other,
                    signal,
                },
                false => Operation::Await {
                    window,
                    from: other,
                    signal,
                },
            };
            let open = self.open(Origin::Call, what, MessageSide::Neither, facts);
            self.answered(call, open, other, begins && !exposes, begun, facts);
        }
    }

    /// Completes an operation with its call; with Open MPI, an operation that only permits accesses completes with them.
    fn answered(
        &mut self,
        call: ProcessCall<'_>,
        open: OpenOperation,
        target: Member,
        begins: bool,
        begun: &mut Begun,
        facts: &mut Vec<Fact>,
    ) {
        match begins && call.event.implementation.library() == MpiLibrary::OpenMpi {
            true => self.accesses.push(call, open, target, facts),
            false => begun.done.push(open),
        }
    }

    /// The group with which a call begins an epoch.
    fn group(&self, call: ProcessCall<'_>, facts: &mut Vec<Fact>) -> Option<Vec<Member>> {
        let number = call
            .event
            .details
            .0
            .as_ref()
            .and_then(|details| details.group);
        let group = number.and_then(|number| self.communicators.group(call.process, number));
        if group.is_none() {
            facts.push(Fact::Unknown {
                origin: Origin::Call,
                why: Loss::Communicator,
            });
        }
        let most = self.communicators.processes();
        Some(group?.iter().take(most).collect())
    }
}
