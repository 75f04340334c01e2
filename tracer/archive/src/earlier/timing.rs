//! A chunk of events with structure and timing apart.
//!
//! What is called again and again the same way compresses to almost nothing; only times remain.
//! [`join`](timing::EventChunk::join) gives back what [`split`](timing::EventChunk::split) took. Called by the reader and
//! the writer of traces.

use belljar_trace::Event;
use bincode::{Decode, Encode};

/// The payload of a chunk of events.
#[derive(Debug, Encode, Decode)]
pub(super) struct EventChunk {
    /// The events, their times taken out (entry 0; exit 0 where there is one).
    structure: Vec<Event>,
    /// For each event, cycles from the entry of the event before it (as if one at 0
    /// came before the first) to its own entry, wrapping.
    entries: Vec<i64>,
    /// For each event with an exit, cycles from entry to exit, wrapping.
    durations: Vec<u64>,
}

impl EventChunk {
    pub(super) fn split(mut events: Vec<Event>) -> Self {
        let mut entries = Vec::with_capacity(events.len());
        let mut durations = Vec::with_capacity(events.len());
        let mut before = 0;
        for event in &mut events {
            entries.push(event.entry.wrapping_sub(before).cast_signed());
            before = event.entry;
            if let Some(exit) = &mut event.exit {
                durations.push(exit.wrapping_sub(event.entry));
                *exit = 0;
            }
            event.entry = 0;
        }
        Self {
            structure: events,
            entries,
            durations,
        }
    }

    /// The events again; `None` when the parts do not fit together.
    pub(super) fn join(self) -> Option<Vec<Event>> {
        let mut events = self.structure;
        if self.entries.len() != events.len() {
            return None;
        }
        let mut durations = self.durations.into_iter();
        let mut before = 0u64;
        for (event, delta) in events.iter_mut().zip(self.entries) {
            before = before.wrapping_add(delta.cast_unsigned());
            event.entry = before;
            if let Some(exit) = &mut event.exit {
                *exit = before.wrapping_add(durations.next()?);
            }
        }
        durations.next().is_none().then_some(events)
    }
}
