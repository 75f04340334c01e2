//! A chunk of events with what their nodes' time went into.
//!
//! The same as a chunk of `timing` with a column for each sum; [`join`](accounts::AccountedChunk::join) gives back
//! what [`split`](accounts::AccountedChunk::split) took, or nothing where the parts do not fit. Called by the reader
//! and the writer of traces with a time model.

use belljar_trace::{Account, Accounts, Event};
use bincode::{Decode, Encode};

use super::timing::EventChunk;

/// The payload of a chunk of events of a run with a time model.
#[derive(Debug, Encode, Decode)]
pub(super) struct AccountedChunk {
    events: EventChunk,
    /// One column for each sum.
    columns: [Column; 4],
}

/// One of the sums, for all events of a chunk.
#[derive(Debug, Default, Encode, Decode)]
struct Column {
    /// For each event, from that at the entry of the event before it (as if one of 0
    /// came before the first) to that at its own entry, wrapping.
    entries: Vec<i64>,
    /// For each event, from that at its entry to that at its exit, wrapping.
    durations: Vec<u64>,
}

fn fields(account: &mut Account) -> [&mut u64; 4] {
    [
        &mut account.instructions,
        &mut account.caches,
        &mut account.memory,
        &mut account.idle,
    ]
}

impl AccountedChunk {
    pub(super) fn split(events: Vec<Event>) -> Self {
        let mut columns: [Column; 4] = Default::default();
        let mut before = [0u64; 4];
        for event in &events {
            let [mut entry, mut exit] = event.accounts.0.unwrap_or_default();
            let sums = fields(&mut entry).into_iter().zip(fields(&mut exit));
            for ((column, before), (entry, exit)) in columns.iter_mut().zip(&mut before).zip(sums) {
                column
                    .entries
                    .push(entry.wrapping_sub(*before).cast_signed());
                column.durations.push(exit.wrapping_sub(*entry));
                *before = *entry;
            }
        }
        Self {
            events: EventChunk::split(events),
            columns,
        }
    }

    /// The events again; `None` when the parts do not fit together.
    pub(super) fn join(self) -> Option<Vec<Event>> {
        let mut events = self.events.join()?;
        let fits = |column: &Column| {
            column.entries.len() == events.len() && column.durations.len() == events.len()
        };
        if !self.columns.iter().all(fits) {
            return None;
        }
        let mut before = [0u64; 4];
        for (number, event) in events.iter_mut().enumerate() {
            let mut accounts = [Account::default(); 2];
            let [entry, exit] = &mut accounts;
            let sums = fields(entry).into_iter().zip(fields(exit));
            for ((column, before), (entry, exit)) in self.columns.iter().zip(&mut before).zip(sums)
            {
                *before = before.wrapping_add(column.entries[number].cast_unsigned());
                *entry = *before;
                *exit = before.wrapping_add(column.durations[number]);
            }
            event.accounts = Accounts(Some(accounts));
        }
        Some(events)
    }
}
