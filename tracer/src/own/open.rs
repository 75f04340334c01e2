//! Calls at the user's probes that were entered and have not returned, by process.
//!
//! Their number is bounded; beyond that, calls of the oldest process are given up, or the new call is only counted. Part of the
//! tracer of a node, and the only part that knows the places of calls.

use std::collections::BTreeMap;
use std::sync::Arc;

use belljar_trace::{Probe, ProbeRecord, ProbesEnd, Recorded};
use bincode::de::{BorrowDecode, BorrowDecoder, Decoder};
use bincode::enc::Encoder;
use bincode::error::{DecodeError, EncodeError};
use bincode::{Decode, Encode};

use super::messages::Endpoints;
use crate::calls::{Space, thread_number};
use crate::guest::registers::MAX_PROCESSES;

/// Most open calls on a node. A regular program has as many as the depth of its recursion.
pub(super) const MAX_OPEN: usize = 1 << 16;

/// The pseudo address space of the kernel's calls, where no page table can be.
pub(super) const KERNEL: Space = u64::MAX;

/// Most jumped-over calls of a process before they are given up.
const MAX_STALE: usize = 1 << 10;

/// Longest program name that is kept, in characters.
const LONGEST_PROGRAM: usize = 64;

/// The place of a call: its thread, by the base of its thread-local storage, or its stack in a kernel, and the address of its
/// return address.
pub(super) type CallPosition = (u64, u64);

/// A call whose return is awaited.
#[derive(Clone, Debug)]
struct OpenProbe {
    return_address: u64,
    record: ProbeRecord,
}

impl OpenProbe {
    /// Restores it from its encoding: the record with its site.
    fn joined(return_address: u64, Recorded(records): Recorded) -> Result<Self, DecodeError> {
        let mut records = records.into_iter();
        match (records.next(), records.next()) {
            (Some(record), None) => Ok(Self {
                return_address,
                record,
            }),
            _ => Err(DecodeError::Other("an open call has one record")),
        }
    }
}

impl Encode for OpenProbe {
    fn encode<E: Encoder>(&self, encoder: &mut E) -> Result<(), EncodeError> {
        self.return_address.encode(encoder)?;
        Recorded(vec![self.record.clone()]).encode(encoder)
    }
}

impl<C> Decode<C> for OpenProbe {
    fn decode<D: Decoder<Context = C>>(decoder: &mut D) -> Result<Self, DecodeError> {
        let return_address = u64::decode(decoder)?;
        Self::joined(return_address, Recorded::decode(decoder)?)
    }
}

impl<'de, C> BorrowDecode<'de, C> for OpenProbe {
    fn borrow_decode<D: BorrowDecoder<'de, Context = C>>(
        decoder: &mut D,
    ) -> Result<Self, DecodeError> {
        let return_address = u64::borrow_decode(decoder)?;
        Self::joined(return_address, Recorded::borrow_decode(decoder)?)
    }
}

/// The caller of a probed function.
pub(super) struct Caller {
    pub(super) task: u32,
    pub(super) thread: u32,
    pub(super) depth: u16,
    pub(super) program: Arc<str>,
}

/// A process that reached a probe, or may.
#[derive(Clone, Debug, Default, Encode, Decode)]
struct Task {
    /// Its position in the order of all starts.
    age: u64,
    number: Option<u32>,
    program: Option<Arc<str>>,
    threads: BTreeMap<u64, u32>,
    /// Several calls have the same place if one ended by a jump to the next.
    live: BTreeMap<CallPosition, Vec<OpenProbe>>,
    /// Calls above which their thread's stack pointer has risen.
    stale: BTreeMap<CallPosition, Vec<OpenProbe>>,
}

/// Records of the user's probes on a node, and their open calls.
#[derive(Clone, Debug, Default, Encode, Decode)]
pub(crate) struct OwnProbes {
    tasks: BTreeMap<Space, Task>,
    ages: u64,
    started: u32,
    open: u64,
    pub(crate) records: Recorded,
    pub(crate) end: ProbesEnd,
    /// Destinations of endpoints, for processes whose messages are recorded.
    pub(super) endpoints: Endpoints,
}

impl Task {
    fn thread(&mut self, base: u64) -> u32 {
        thread_number(&mut self.threads, base)
    }

    /// Sets aside the calls of a thread below its current stack pointer.
    fn unwind(&mut self, (thread, slot): CallPosition) {
        while let Some((&place, _)) = self.live.range((thread, 0)..(thread, slot)).next()
            && let Some(calls) = self.live.remove(&place)
        {
            self.stale.entry(place).or_default().extend(calls);
        }
    }

    /// Returns the number of calls around a place, except for calls that ended by a jump to it.
    fn depth(&self, (thread, slot): CallPosition) -> u16 {
        let around = self.live.range((thread, slot)..=(thread, u64::MAX));
        let around = around.filter(|((_, at), _)| *at != slot);
        let depth: usize = around.map(|(_, calls)| calls.len()).sum();
        u16::try_from(depth).unwrap_or(u16::MAX)
    }

    /// Takes the calls at this place that cannot have called the new one, which are all except calls that ended by a jump to it.
    fn displaced(
        &mut self,
        place: CallPosition,
        probe: u32,
        return_address: u64,
    ) -> Vec<OpenProbe> {
        let mut left = self.stale.remove(&place).unwrap_or_default();
        if let Some(calls) = self.live.get(&place) {
            let jumped = calls
                .iter()
                .all(|call| call.return_address == return_address && call.record.probe != probe);
            if !jumped {
                left.extend(self.live.remove(&place).unwrap_or_default());
            }
        }
        left
    }

    fn take_all(&mut self) -> Vec<OpenProbe> {
        let both = [
            std::mem::take(&mut self.live),
            std::mem::take(&mut self.stale),
        ];
        both.into_iter()
            .flatten()
            .flat_map(|(_, calls)| calls)
            .collect()
    }
}

impl OwnProbes {
    /// Starts a process in an address space, and ends the previous one there.
    pub(crate) fn begin_task(&mut self, space: Space, at: u64, program: Option<String>) {
        self.end_task(space, at);
        let task = self.task(space, at);
        task.program = program.map(|name| {
            let end: String = name.chars().take(LONGEST_PROGRAM).collect();
            end.into()
        });
    }

    fn end_task(&mut self, space: Space, at: u64) {
        self.endpoints.end_process(space);
        if let Some(mut task) = self.tasks.remove(&space) {
            self.leave(task.take_all(), at);
        }
    }

    /// Ends all processes.
    pub(crate) fn end_all(&mut self, at: u64) {
        let spaces: Vec<Space> = self.tasks.keys().copied().collect();
        for space in spaces {
            self.end_task(space, at);
        }
    }

    fn task(&mut self, space: Space, at: u64) -> &mut Task {
        if self.tasks.len() >= MAX_PROCESSES && !self.tasks.contains_key(&space) {
            let others = self.tasks.iter().filter(|(space, _)| **space != KERNEL);
            let oldest = others.min_by_key(|(_, task)| task.age);
            if let Some(oldest) = oldest.map(|(space, _)| *space) {
                self.end_task(oldest, at);
            }
        }
        self.tasks.entry(space).or_insert_with(|| {
            self.ages += 1;
            Task {
                age: self.ages,
                ..Task::default()
            }
        })
    }

    /// Records calls that were left without a return.
    fn leave(&mut self, calls: Vec<OpenProbe>, at: u64) {
        self.open = self.open.saturating_sub(calls.len() as u64);
        for mut call in calls {
            call.record.known = at.max(call.record.entry);
            self.records.0.push(call.record);
        }
    }

    /// Gives up the calls of the oldest other process that has any; false if there is none.
    fn make_room(&mut self, space: Space, at: u64) -> bool {
        let others = self.tasks.iter_mut().filter(|(other, _)| **other != space);
        let with_calls = others.filter(|(_, task)| !task.live.is_empty() || !task.stale.is_empty());
        let Some((_, oldest)) = with_calls.min_by_key(|(_, task)| task.age) else {
            return false;
        };
        let calls = oldest.take_all();
        self.leave(calls, at);
        true
    }

    /// Identifies the thread that reaches a probe in address space `space` at this place of its stack; `stacks` is `space`, or
    /// [`KERNEL`].
    pub(super) fn come_to(
        &mut self,
        space: Space,
        stacks: Space,
        place: CallPosition,
        at: u64,
    ) -> Caller {
        let started = self.started;
        let task = self.task(space, at);
        let number = *task.number.get_or_insert(started);
        let program = task.program.clone().unwrap_or_default();
        let task = self.task(stacks, at);
        task.unwind(place);
        let caller = Caller {
            task: number,
            thread: task.thread(place.0),
            depth: task.depth(place),
            program,
        };
        self.started = started.max(number.wrapping_add(1));
        caller
    }

    /// Adds a call whose return is to be observed at `return_address`. Returns true if it is followed.
    pub(super) fn enter(
        &mut self,
        space: Space,
        place: CallPosition,
        return_address: u64,
        record: ProbeRecord,
    ) -> bool {
        let at = record.entry;
        if self.open >= MAX_OPEN as u64 && !self.make_room(space, at) {
            self.end.unfollowed += 1;
            self.records.0.push(record);
            return false;
        }
        let task = self.task(space, at);
        let displaced = task.displaced(place, record.probe, return_address);
        let given_up = match task.stale.len() > MAX_STALE {
            true => std::mem::take(&mut task.stale),
            false => BTreeMap::new(),
        };
        task.live.entry(place).or_default().push(OpenProbe {
            return_address,
            record,
        });
        self.open += 1;
        self.leave(displaced, at);
        self.leave(given_up.into_values().flatten().collect(), at);
        true
    }

    /// Takes the calls that returned when a thread reached `target` with its stack as after a return from `place`, the innermost
    /// first.
    pub(super) fn take_returned(
        &mut self,
        space: Space,
        place: CallPosition,
        target: u64,
    ) -> Vec<ProbeRecord> {
        let Some(task) = self.tasks.get_mut(&space) else {
            return Vec::new();
        };
        let here = |calls: &Vec<OpenProbe>| calls.iter().all(|call| call.return_address == target);
        let calls = if task.live.get(&place).is_some_and(here) {
            task.live.remove(&place)
        } else if task.stale.get(&place).is_some_and(here) {
            task.stale.remove(&place)
        } else {
            None
        };
        let calls = calls.unwrap_or_default();
        if !calls.is_empty() {
            task.unwind(place);
        }
        self.open = self.open.saturating_sub(calls.len() as u64);
        calls.into_iter().rev().map(|call| call.record).collect()
    }

    /// True if it is a valid state: within limits, and with as many open calls as counted.
    pub(crate) fn is_sound(&self) -> bool {
        let open = self.tasks.values().map(|task| {
            let calls = task.live.values().chain(task.stale.values());
            calls.map(|calls| calls.len() as u64).sum::<u64>()
        });
        self.tasks.len() <= MAX_PROCESSES
            && self.endpoints.is_sound()
            && self.open <= MAX_OPEN as u64
            && open.sum::<u64>() == self.open
    }

    /// Forgets calls that cannot be of one of `probes`.
    pub(crate) fn keep_those_of(&mut self, probes: &[Probe]) {
        self.records.0.retain(|record| record.fits(probes));
        for task in self.tasks.values_mut() {
            for calls in [&mut task.live, &mut task.stale] {
                calls.retain(|_, calls| {
                    let before = calls.len();
                    calls.retain(|call| call.record.fits(probes));
                    self.open -= (before - calls.len()) as u64;
                    !calls.is_empty()
                });
            }
        }
    }

    /// Returns the addresses to which open calls return.
    pub(crate) fn returns(&self) -> impl Iterator<Item = u64> {
        let tasks = self.tasks.values();
        let calls = tasks.flat_map(|task| task.live.values().chain(task.stale.values()));
        calls.flatten().map(|call| call.return_address)
    }

    /// Returns the open calls at the end of a run, at cycle `end`.
    pub(crate) fn left_open(&self, end: u64) -> Vec<ProbeRecord> {
        let tasks = self.tasks.values();
        let calls = tasks.flat_map(|task| task.live.values().chain(task.stale.values()));
        let mut records: Vec<ProbeRecord> =
            calls.flatten().map(|call| call.record.clone()).collect();
        for record in &mut records {
            record.known = end.max(record.entry);
        }
        records.sort_by_key(|record| (record.entry, record.task, record.thread, record.depth));
        records
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BACK: u64 = 0x40_1000;

    #[test]
    fn what_is_open_is_bounded_and_what_is_not_followed_counted() {
        let mut own = OwnProbes::default();
        let record = |entry| ProbeRecord {
            probe: 0,
            node: 0,
            vcpu: 0,
            task: 0,
            process: None,
            thread: 0,
            rank: None,
            program: "".into(),
            depth: 0,
            entry,
            exit: None,
            known: entry,
            arguments: Vec::new(),
            result: None,
            within: None,
            site: Default::default(),
        };
        for entry in 0..MAX_OPEN as u64 {
            assert!(own.enter(0, (0, u64::MAX - 8 * entry), BACK, record(entry)));
        }
        assert!(!own.enter(0, (0, 8), BACK, record(7)));
        assert_eq!((own.records.0.len(), own.end.unfollowed), (1, 1));
        // Calls of a process above which its stack rose are eventually given up.
        own.task(0, 0).unwind((0, u64::MAX));
        assert_eq!(own.take_returned(0, (0, u64::MAX), BACK).len(), 1);
        assert!(own.enter(0, (0, u64::MAX), BACK, record(9)));
        assert_eq!(own.left_open(100).len(), 1);
        // So are all calls of a process when another one takes its address space.
        own.begin_task(0, 50, Some("./p".to_owned()));
        assert!(own.left_open(100).is_empty());
        assert_eq!(own.records.0.len(), MAX_OPEN + 1);
    }
}
