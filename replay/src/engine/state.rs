//! An engine's running state as plain values.
//!
//! It is the state between two events; with the program, the costs and the network's own state it determines all further events. A state may come from an
//! untrusted file, so it is checked before use. Used for checkpoints of runs with background traffic.

use std::collections::{BTreeMap, BTreeSet};

use belljar_networks::{MOST_BYTES, Network};
use belljar_program::ProcessId;
use belljar_sim::Calendar;
use serde::{Deserialize, Serialize};

use super::access::Unanswered;
use super::collective::CollectiveSaved;
use super::locks::Locks;
use super::message::{Channel, MpiMessage};
use super::scheduled::Scheduled;
use super::slab::Slab;
use super::thread::ThreadState;
use super::{Engine, Event, MessageId, OperationState, ProcessState};

/// The mutable state of an [`Engine`] without times of calls, except for its network.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct EngineState {
    threads: Vec<ThreadState>,
    processes: Vec<ProcessState>,
    channels: Vec<Channel>,
    messages: Slab<MpiMessage>,
    operations: Slab<OperationState>,
    locks: Locks,
    scheduled: Scheduled,
    unanswered: Vec<((ProcessId, ProcessId), Unanswered)>,
    contacts: BTreeSet<(ProcessId, ProcessId)>,
    unready: BTreeMap<u32, (MessageId, u32)>,
    left: Vec<u32>,
    collectives: Vec<(u32, CollectiveSaved)>,
    events: Vec<(u64, Event)>,
}

impl<N: Network + ?Sized> Engine<'_, '_, N> {
    /// Returns the mutable state between two events; ended jobs must have been taken.
    pub(crate) fn save(&self) -> EngineState {
        let collectives = self.collectives.iter();
        let mut events: Vec<_> = self
            .events
            .iter()
            .map(|due| (due.time, due.event))
            .collect();
        events.sort_unstable();
        EngineState {
            threads: self.threads.clone(),
            processes: self.processes.clone(),
            channels: self.channels.clone(),
            messages: self.messages.clone(),
            operations: self.operations.clone(),
            locks: self.locks.clone(),
            scheduled: self.scheduled.clone(),
            unanswered: self.unanswered.clone().into_iter().collect(),
            contacts: self.contacts.clone(),
            unready: self.unready.clone(),
            left: self.left.clone(),
            collectives: collectives.map(|(id, it)| (*id, it.save())).collect(),
            events,
        }
    }

    /// Continues from `state`, and returns true if it fits this program. Otherwise, the engine must not be used any more.
    #[must_use]
    pub(crate) fn restore(&mut self, state: EngineState) -> bool {
        if !self.is_sound(&state) {
            return false;
        }
        self.collectives.clear();
        for (number, saved) in state.collectives {
            let Some(collective) = self.collective(number, saved) else {
                return false;
            };
            self.collectives.insert(number, collective);
        }
        self.threads = state.threads;
        self.processes = state.processes;
        self.channels = state.channels;
        self.messages = state.messages;
        self.operations = state.operations;
        self.locks = state.locks;
        self.scheduled = state.scheduled;
        self.unanswered = state.unanswered.into_iter().collect();
        self.contacts = state.contacts;
        self.unready = state.unready;
        self.left = state.left;
        self.events = Calendar::default();
        for (time, event) in state.events {
            self.schedule_event(time, event);
        }
        true
    }

    fn is_sound(&self, state: &EngineState) -> bool {
        let program = self.program;
        let (processes, channels) = (program.processes.len(), program.channels.len());
        let same = state.threads.len() == program.threads.len()
            && state.processes.len() == processes
            && state.channels.len() == channels
            && state.left.len() == self.left.len();
        let mut threads = state.threads.iter().zip(&program.threads);
        let mut messages = state.messages.iter();
        let thread = |number: u32| (number as usize) < program.threads.len();
        let mut operations = state.operations.iter();
        let mut unanswered = state.unanswered.iter();
        let mut events = state.events.iter();
        let mut once = BTreeSet::new();
        same && threads.all(|(state, thread)| state.is_sound(thread))
            && state.messages.is_sound()
            && messages.all(|it| it.is_sound(processes, channels) && it.most_bytes() <= MOST_BYTES)
            && state.operations.is_sound()
            && state.scheduled.is_sound(program.threads.len())
            && operations.all(|it| it.waiter.is_none_or(|(number, _)| thread(number)))
            && events.all(|(_, event)| match event {
                Event::Resumes(number)
                | Event::Enters(number)
                | Event::Ends(number)
                | Event::Comes(number)
                | Event::Asks(number) => thread(*number),
                Event::Arrives(_) | Event::Leaves(_) | Event::Wakes(..) => true,
            })
            && unanswered.all(|(_, own)| own.threads.iter().all(|it| thread(*it)))
            && state.collectives.iter().all(|(id, _)| once.insert(*id))
    }
}
