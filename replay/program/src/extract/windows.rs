//! Accesses to other processes' memory, and the epochs in which they are made (MPI-4.0, 12.5).
//!
//! A window is known to its processes by the communicator that it was made on and by how many they made on it before. A lock is a round trip, and had by
//! one or by several; `MPI_Win_post` tells each process of its group that its epoch may begin, which `MPI_Win_start` waits for, and `MPI_Win_complete` tells it that
//! its accesses are over, which `MPI_Win_wait` waits for: as MPICH does it. Open MPI begins an epoch or asks for a lock in
//! the same way, and waits for the answer only where accesses have to be over. Called by `extract`.

use std::collections::BTreeMap;

use belljar_analysis::{Communicators, Member, ProcessKey};
use belljar_mpi::{Epoch, SendMode};
use belljar_trace::{Direction, Event, MpiLibrary, Transfer};

use super::{Extractor, Open, ThreadKey};
use crate::program::{ChannelId, Locking, Operation};

/// The tag of accesses; tags of epochs follow it, two for each window of a communicator.
const ACCESS: i32 = i32::MIN;

/// A window: its communicator, by the number that all members have for it, and which of those made on it.
type Window = (u32, u32);

/// Windows, and what is under way on them.
#[derive(Debug, Default)]
pub(super) struct Windows {
    /// By the process's own number, with its number of the communicator.
    own: BTreeMap<(ProcessKey, u32), (u32, Window)>,
    /// How many each process made on each communicator.
    made: BTreeMap<(ProcessKey, u32), u32>,
    /// Numbers in the program.
    numbers: BTreeMap<Window, u32>,
    /// Accesses that no synchronisation has ended.
    accesses: BTreeMap<ProcessKey, Vec<Open>>,
    /// With whom epochs are under way: of accesses and of exposure.
    epochs: BTreeMap<(ProcessKey, Window, bool), Vec<Member>>,
}

impl Windows {
    /// Takes note of a window that a call made.
    pub(super) fn learn(&mut self, event: &Event, communicators: &Communicators) {
        if !event.meaning().makes_window() {
            return;
        }
        let process = (event.node, event.process);
        let own = event.details.0.as_ref().and_then(|details| details.window);
        let Some((own, number)) = own.zip(event.communicator) else {
            return;
        };
        if let Some(communicator) = communicators.identity(process, number) {
            let made = self.made.entry((process, communicator)).or_default();
            let window = (communicator, *made);
            self.own.insert((process, own), (number, window));
            *made += 1;
        }
    }

    /// The window that a call is about, with the process's own number of its communicator. `None` where the trace does not tell.
    fn of(&self, event: &Event) -> Option<(u32, Window)> {
        let own = event.details.0.as_ref()?.window?;
        let process = (event.node, event.process);
        self.own.get(&(process, own)).copied()
    }

    /// The communicator that a call is on, or that its window was made on, by the process's own number.
    pub(super) fn communicator(&self, event: &Event) -> Option<u32> {
        let window = self.of(event).map(|(number, _)| number);
        event.communicator.or(window)
    }

    /// A window's number in the program.
    fn number(&mut self, window: Window) -> u32 {
        let next = self.numbers.len() as u32;
        *self.numbers.entry(window).or_insert(next)
    }

    /// An access began.
    pub(super) fn accessed(&mut self, process: ProcessKey, access: Open) {
        self.accesses.entry(process).or_default().push(access);
    }

    /// A process's accesses are over.
    pub(super) fn ended(&mut self, process: ProcessKey) -> Vec<Open> {
        self.accesses.remove(&process).unwrap_or_default()
    }
}

/// The tag of messages by which exposure begins, and by which accesses end.
fn tags((_, made): Window) -> [i32; 2] {
    let first = ACCESS
        .saturating_add(1)
        .saturating_add_unsigned(made.min(1 << 20) * 2);
    [first, first + 1]
}

/// Whether the program says that whatever would be waited for is there already (`MPI_MODE_NOCHECK`).
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

impl Extractor<'_> {
    /// An access to another process's memory: the message goes from whoever calls and back.
    pub(super) fn access(
        &mut self,
        member: Member,
        key: ThreadKey,
        transfer: &Transfer,
    ) -> Option<Open> {
        let number = transfer.communicator?;
        let communicator = self.communicators.identity(key.0, number);
        let peer = self.communicators.peer(key.0, number, transfer.peer);
        let (Some(communicator), Some(peer)) = (communicator, peer) else {
            self.shared.program.unknown.messages += 1;
            return None;
        };
        let channel = self.shared.channel(communicator, member, peer, ACCESS);
        let (sent, received) = match transfer.direction {
            Direction::Send => (transfer.bytes, 0),
            Direction::Receive => (0, transfer.bytes),
        };
        self.begin(key, |slot| Operation::Access {
            channel,
            slot,
            sent,
            received,
        })
    }

    /// A window is locked or unlocked, at one process or at all.
    pub(super) fn lock(&mut self, event: &Event, member: Member, key: ThreadKey) -> Vec<Open> {
        let shared = event.implementation.lock_shared();
        let how = match event.meaning().epoch() {
            Some(Epoch::Lock) if integer(event, "lock_type") != Some(shared) => Locking::Exclusive,
            Some(Epoch::Lock | Epoch::LockAll) => Locking::Shared,
            Some(Epoch::Unlock | Epoch::UnlockAll) => Locking::Release,
            _ => return Vec::new(),
        };
        let Some((number, window)) = self.windows.of(event) else {
            return Vec::new();
        };
        let targets: Vec<Member> = match integer(event, "rank") {
            Some(rank) => {
                let peer = event.implementation.peer(rank);
                let peer = self.communicators.peer(key.0, number, peer);
                peer.into_iter().collect()
            }
            None => {
                let all = self.communicators.members(key.0, number);
                let most = self.communicators.processes();
                all.into_iter()
                    .flat_map(|all| all.iter())
                    .take(most)
                    .collect()
            }
        };
        let number = self.windows.number(window);
        let locks = targets.into_iter().filter_map(|target| {
            let channel = self.shared.channel(window.0, member, target, ACCESS);
            self.begin(key, |slot| Operation::Lock {
                channel,
                slot,
                window: number,
                how,
            })
        });
        let locks: Vec<Open> = locks.collect();
        self.answered(event, key, locks, how != Locking::Release)
    }

    /// An epoch between the processes of a group begins or ends.
    pub(super) fn epoch(&mut self, event: &Event, member: Member, key: ThreadKey) -> Vec<Open> {
        let over = event.details.0.as_ref().is_some_and(|details| details.over);
        let (exposes, begins) = match event.meaning().epoch() {
            Some(Epoch::Post) => (true, true),
            Some(Epoch::Start) => (false, true),
            Some(Epoch::Complete) => (false, false),
            Some(Epoch::Wait) => (true, false),
            Some(Epoch::Test) if over => (true, false),
            _ => return Vec::new(),
        };
        let Some((_, window)) = self.windows.of(event) else {
            return Vec::new();
        };
        let place = (key.0, window, exposes);
        let group = match begins {
            true => {
                let group = self.group(event);
                let group = group.inspect(|group| {
                    self.windows.epochs.insert(place, group.clone());
                });
                group.filter(|_| !unchecked(event))
            }
            false => self.windows.epochs.remove(&place),
        };
        let [posts, completes] = tags(window);
        let tag = if begins { posts } else { completes };
        let with = group.unwrap_or_default().into_iter();
        let messages = with.filter_map(|other| {
            // Whoever exposes speaks at the beginning and listens at the end.
            match exposes == begins {
                true => {
                    let channel = self.shared.channel(window.0, member, other, tag);
                    self.tell(key, channel)
                }
                false => {
                    let channel = self.shared.channel(window.0, other, member, tag);
                    self.begin(key, |slot| Operation::Receive {
                        channel,
                        slot,
                        pieces: false,
                    })
                }
            }
        });
        let messages: Vec<Open> = messages.collect();
        self.answered(event, key, messages, begins && !exposes)
    }

    /// What a call waits for of answers that it needs; Open MPI waits later for those that only let accesses begin.
    fn answered(
        &mut self,
        event: &Event,
        key: ThreadKey,
        answers: Vec<Open>,
        begins: bool,
    ) -> Vec<Open> {
        if !begins || event.implementation.library() != MpiLibrary::OpenMpi {
            return answers;
        }
        let accesses = self.windows.accesses.entry(key.0).or_default();
        accesses.extend(answers);
        Vec::new()
    }

    /// A message without data, which nobody waits for.
    fn tell(&mut self, key: ThreadKey, channel: ChannelId) -> Option<Open> {
        self.begin(key, |slot| Operation::Send {
            channel,
            slot,
            bytes: 0,
            mode: SendMode::Buffered,
            pieces: false,
        })
    }

    /// The group with which a call begins an epoch; where the trace does not tell it, that is counted.
    fn group(&mut self, event: &Event) -> Option<Vec<Member>> {
        let process = (event.node, event.process);
        let number = event.details.0.as_ref().and_then(|details| details.group);
        let group = number.and_then(|number| self.communicators.group(process, number));
        let Some(group) = group else {
            self.shared.program.unknown.messages += 1;
            return None;
        };
        Some(group.iter().take(self.communicators.processes()).collect())
    }
}
