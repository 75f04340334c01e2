//! The communicators of windows, on which their processes meet.
//!
//! A process names a window by its own number, which the call that makes the window gives. Kept by the collector.

use std::collections::BTreeMap;

use belljar_mpi::Meeting;
use belljar_trace::{Event, Fact, WORLD};

use crate::communicators::ProcessKey;

/// Windows that are known at once.
const MOST_WINDOWS: usize = 1 << 20;

/// The communicator on which each window was made, by the process's own numbers.
#[derive(Debug, Default)]
pub(super) struct Windows(BTreeMap<(ProcessKey, u32), u32>);

impl Windows {
    /// Takes note of a window that a call makes.
    pub(super) fn learn(&mut self, event: &Event) {
        let made = event
            .meaning()
            .makes_window()
            .then(|| window(event))
            .flatten();
        if let (Some(own), Some(communicator)) = (made, event.communicator)
            && self.0.len() < MOST_WINDOWS
        {
            self.0
                .insert(((event.node, event.process), own), communicator);
        }
    }

    /// The communicator, by the process's own number, whose members a call needs although it is no collective operation.
    pub(super) fn meeting(&self, event: &Event) -> Option<u32> {
        match event.meaning().meeting {
            Meeting::World => Some(WORLD),
            Meeting::Communicator => event.communicator,
            Meeting::NewCommunicator => match &event.fact {
                Some(Fact::Communicator(new)) => new.number,
                _ => None,
            },
            Meeting::Window => {
                let own = window(event)?;
                self.0.get(&((event.node, event.process), own)).copied()
            }
            Meeting::Nobody | Meeting::File | Meeting::Others => None,
        }
    }
}

fn window(event: &Event) -> Option<u32> {
    event.details.0.as_ref()?.window
}
