//! Calls that were entered and have not returned yet.
//!
//! Their number and bytes are bounded; beyond that, the oldest are dropped and counted. A call is identified by the
//! address of its return address, so jumps, forks and migrating threads do not cause confusion. Used by `node`.

/// Call sites.
pub(crate) mod sites;

use std::collections::BTreeMap;

use belljar_mpi::CallKind;
use belljar_trace::Event;
use bincode::{Decode, Encode};

use crate::receives::posted::PostedReceive;

/// Most threads of a process that have distinct numbers; all further ones share a number.
const MAX_THREADS: usize = 1 << 12;

/// Returns the number of the thread with thread pointer `base` among the threads of its process, in the order of their
/// first appearance.
pub(crate) fn thread_number(threads: &mut BTreeMap<u64, u32>, base: u64) -> u32 {
    let next = threads.len();
    match threads.get(&base) {
        Some(number) => *number,
        None if next >= MAX_THREADS => next as u32,
        None => {
            threads.insert(base, next as u32);
            next as u32
        }
    }
}

/// Most open calls on a node. A regular program has a few in each thread.
const MAX_OPEN: usize = 1 << 14;

/// Most bytes that open calls of a node hold. A regular program waits for some thousands of requests in each thread, of
/// 8 bytes each.
const MAX_BYTES: u64 = 64 << 20;

/// Most receives noted for a call, including the library's own.
const MAX_POSTED: usize = 1 << 12;

/// Bytes of a noted receive.
const POSTED_BYTES: u64 = size_of::<PostedReceive>() as u64;

/// Bytes of a call besides its lists.
const CALL_BYTES: u64 = 512;

/// An address space, by the physical address of its page-table root.
pub(crate) type Space = u64;

/// The place of a call: its thread (by the base of its thread-local storage), then the linear address of the return
/// address on its stack. A nested call has a lower address.
type CallPosition = (u64, u64);

/// An open call.
#[derive(Clone, Debug, Encode, Decode)]
pub(crate) struct OpenCall {
    /// The address to which the function will return.
    pub(crate) return_address: u64,
    /// The call's event so far.
    pub(crate) event: Event,
    /// Handles that the arguments pointed to at entry: requests to complete, or the object to free.
    pub(crate) handles: Vec<u64>,
    /// The values at entry of the registers that the function must preserve.
    pub(crate) kept: [u64; 6],
    /// Receives that the library posted during it, in order.
    pub(crate) posted: Vec<PostedReceive>,
    sequence: u64,
    /// The approximate size of its data, in bytes.
    bytes: u64,
}

/// Returns a call's approximate size in bytes.
fn bytes_of(event: &Event, handles: &[u64]) -> u64 {
    let collectives = event.collectives.iter();
    let pieces: usize = collectives
        .map(|one| one.sent.pieces.len() + one.received.pieces.len())
        .sum();
    let texts: usize = event.texts.iter().map(|text| text.text.len()).sum();
    let words = handles.len() + event.arguments.len() + 6 * event.transfers.len();
    let words = words + 2 * event.started.len() + 6 * event.completed.len() + 4 * pieces;
    let displacements = event.details.0.as_ref().map_or(0, |it| {
        it.send_displacements.len() + it.receive_displacements.len()
    });
    let words = words + displacements;
    CALL_BYTES + 8 * words as u64 + texts as u64
}

/// The open calls of a node.
#[derive(Clone, Debug, Default, Encode, Decode)]
pub(crate) struct OpenCalls {
    /// Calls that may be nested in one another.
    live: BTreeMap<(Space, CallPosition), OpenCall>,
    /// Calls without a return above which a thread's stack pointer has risen: left by `longjmp`, or on another stack of
    /// the same thread. They may still return, but other calls are never nested in them.
    stale: BTreeMap<(Space, CallPosition), OpenCall>,
    /// Keys by age.
    order: BTreeMap<u64, (Space, CallPosition)>,
    next: u64,
    /// The total size of all calls.
    bytes: u64,
}

/// A call that returns.
#[derive(Debug)]
pub(crate) enum Returned {
    /// A call that was entered here.
    Own(Box<OpenCall>),
    /// A call that a forked process's parent entered, and that still belongs to the parent: the address to which it
    /// returns.
    Inherited(u64),
}

/// Calls removed when a call is added.
#[derive(Debug, Default)]
pub(crate) struct Displaced {
    /// The call at the same place, which therefore was left by a jump.
    pub(crate) abandoned: Option<OpenCall>,
    /// The oldest calls, if there were too many, or too large ones.
    pub(crate) dropped: Vec<OpenCall>,
}

impl OpenCalls {
    /// Returns the address spaces of all calls.
    pub(crate) fn spaces(&self) -> impl Iterator<Item = Space> {
        let keys = self.live.keys().chain(self.stale.keys());
        keys.map(|(space, _)| *space)
    }

    /// Returns the number of calls around one at `slot` of `thread`.
    pub(crate) fn depth(&mut self, space: Space, thread: u64, slot: u64) -> u16 {
        self.unwind(space, thread, slot);
        let above = match slot.checked_add(1) {
            Some(above) => self
                .live
                .range((space, (thread, above))..=(space, (thread, u64::MAX)))
                .count(),
            None => 0,
        };
        u16::try_from(above).unwrap_or(u16::MAX)
    }

    /// Sets aside the calls of a thread below `slot`, its current stack address.
    fn unwind(&mut self, space: Space, thread: u64, slot: u64) {
        loop {
            let mut lower = self
                .live
                .range((space, (thread, 0))..(space, (thread, slot)));
            let Some((&key, _)) = lower.next() else {
                return;
            };
            if let Some(call) = self.live.remove(&key) {
                self.stale.insert(key, call);
            }
        }
    }

    /// Returns the function number of the outermost of a thread's calls around `slot`.
    pub(crate) fn outermost(&self, space: Space, (thread, slot): CallPosition) -> Option<u16> {
        let above = (space, (thread, slot))..=(space, (thread, u64::MAX));
        let mut around = self.live.range(above);
        around.next_back().map(|(_, call)| call.event.function)
    }

    /// Notes a receive that the library posted with its stack pointer at `slot`, in the innermost call there.
    pub(crate) fn note_receive(
        &mut self,
        space: Space,
        (thread, slot): CallPosition,
        receive: PostedReceive,
    ) {
        let above = (space, (thread, slot))..=(space, (thread, u64::MAX));
        let call = self.live.range_mut(above).next();
        if let Some((_, call)) = call
            && call.posted.len() < MAX_POSTED
        {
            call.posted.push(receive);
            call.bytes += POSTED_BYTES;
            self.bytes += POSTED_BYTES;
        }
    }

    /// The threads of an address space with open calls, each with the kind of the call, in the order of threads.
    pub(crate) fn threads_in(&self, space: Space) -> impl Iterator<Item = (u64, CallKind)> {
        let range = (space, (0, 0))..=(space, (u64::MAX, u64::MAX));
        let calls = self.live.range(range);
        calls.map(|((_, (thread, _)), call)| (*thread, call.event.meaning().kind))
    }

    /// Adds a call.
    pub(crate) fn insert(
        &mut self,
        space: Space,
        place: CallPosition,
        return_address: u64,
        event: Event,
        handles: Vec<u64>,
        kept: [u64; 6],
    ) -> Displaced {
        let key = (space, place);
        let abandoned = self.take(key);
        let sequence = self.next;
        self.next += 1;
        self.order.insert(sequence, key);
        let call = OpenCall {
            return_address,
            bytes: bytes_of(&event, &handles),
            event,
            handles,
            kept,
            posted: Vec::new(),
            sequence,
        };
        self.bytes += call.bytes;
        self.live.insert(key, call);
        let dropped = self.drop_oldest();
        Displaced { abandoned, dropped }
    }

    /// Drops the oldest calls while there are too many or too large ones; never the last one.
    fn drop_oldest(&mut self) -> Vec<OpenCall> {
        let mut dropped = Vec::new();
        while self.order.len() > MAX_OPEN || (self.bytes > MAX_BYTES && self.order.len() > 1) {
            let oldest = self.order.first_key_value().map(|(_, key)| *key);
            match oldest.and_then(|key| self.take(key)) {
                Some(call) => dropped.push(call),
                None => break,
            }
        }
        dropped
    }

    /// Takes the call that returns from `slot`. The search begins with the thread's calls, and continues with those of
    /// other threads of the process, as a user-level thread may have moved. Last is the same place in other address
    /// spaces, as after a `fork` within the call.
    pub(crate) fn returned(&mut self, space: Space, thread: u64, slot: u64) -> Option<Returned> {
        if let Some(call) = self.take((space, (thread, slot))) {
            self.unwind(space, thread, slot);
            return Some(Returned::Own(Box::new(call)));
        }
        let moved = self
            .order
            .values()
            .find(|(other, (_, at))| *other == space && *at == slot);
        if let Some(&key) = moved {
            return self.take(key).map(|call| Returned::Own(Box::new(call)));
        }
        let inherited = self
            .order
            .values()
            .rev()
            .find(|(_, place)| *place == (thread, slot))?;
        let call = self
            .live
            .get(inherited)
            .or_else(|| self.stale.get(inherited))?;
        Some(Returned::Inherited(call.return_address))
    }

    /// True if a call has this place.
    pub(crate) fn stands(&self, space: Space, place: CallPosition) -> bool {
        let key = (space, place);
        self.live.contains_key(&key) || self.stale.contains_key(&key)
    }

    /// Returns the call at `slot` of `thread`, if it will return to `target`.
    pub(crate) fn standing(
        &self,
        space: Space,
        (thread, slot): CallPosition,
        target: u64,
    ) -> Option<&OpenCall> {
        let key = (space, (thread, slot));
        let call = self.live.get(&key).or_else(|| self.stale.get(&key));
        call.filter(|call| call.return_address == target)
    }

    /// Takes the call that returns from `slot` to `target`: the thread's, or another thread's of the process, as a
    /// user-level thread may have moved. `None` if no call returns so.
    pub(crate) fn returned_to(
        &mut self,
        space: Space,
        place: CallPosition,
        target: u64,
    ) -> Option<OpenCall> {
        if self.standing(space, place, target).is_some() {
            let call = self.take((space, place));
            self.unwind(space, place.0, place.1);
            return call;
        }
        let moved = self.order.values().find(|(other, (thread, slot))| {
            *other == space
                && *slot == place.1
                && self.standing(space, (*thread, *slot), target).is_some()
        });
        let key = *moved?;
        self.take(key)
    }

    /// Takes all calls of an address space, in order of entry.
    pub(crate) fn take_space(&mut self, space: Space) -> Vec<OpenCall> {
        let keys: Vec<_> = self
            .order
            .values()
            .filter(|(other, _)| *other == space)
            .copied()
            .collect();
        keys.into_iter().filter_map(|key| self.take(key)).collect()
    }

    /// Returns all open calls, in order of entry.
    pub(crate) fn all(&self) -> impl Iterator<Item = &OpenCall> {
        self.order
            .values()
            .filter_map(|key| self.live.get(key).or_else(|| self.stale.get(key)))
    }

    /// Returns the events of all open calls, in order of entry.
    pub(crate) fn events_mut(&mut self) -> impl Iterator<Item = &mut Event> {
        let calls = self.live.values_mut().chain(self.stale.values_mut());
        let mut calls: Vec<&mut OpenCall> = calls.collect();
        calls.sort_by_key(|call| call.sequence);
        calls.into_iter().map(|call| &mut call.event)
    }

    fn take(&mut self, key: (Space, CallPosition)) -> Option<OpenCall> {
        let call = self.live.remove(&key).or_else(|| self.stale.remove(&key))?;
        self.order.remove(&call.sequence);
        self.bytes = self.bytes.saturating_sub(call.bytes);
        Some(call)
    }
}
