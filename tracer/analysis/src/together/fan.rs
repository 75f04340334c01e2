//! Events of a trace, read once and given to several analyses, each on a thread of its own.
//!
//! Every observer sees all events in the order of the trace, so that results are those of one thread. Events under way are bounded: a batch
//! has so many of them, and of what they hold, and each observer has so many batches waiting. Called by `together`.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread;

use belljar_archive::TraceReader;
use belljar_trace::Event;

/// Events of a batch, at most.
const EVENTS: usize = 1024;
/// What events of a batch hold besides, in words, until no more are taken into it.
const WORDS: usize = 1 << 16;
/// Batches that wait for an observer, at most.
const AHEAD: usize = 2;

/// What is told each event.
pub(super) type Observer<'a> = Box<dyn FnMut(&Event) + Send + 'a>;

/// Gives all events of `reader` to all observers.
///
/// # Errors
/// When the host starts no more threads.
pub(super) fn fan(reader: &mut TraceReader, observers: Vec<Observer<'_>>) -> io::Result<()> {
    thread::scope(|scope| {
        let mut ends = Vec::new();
        for mut observer in observers {
            let (end, batches) = sync_channel::<Arc<Vec<Event>>>(AHEAD);
            let work = move || {
                for batch in batches {
                    batch.iter().for_each(&mut observer);
                }
            };
            thread::Builder::new().spawn_scoped(scope, work)?;
            ends.push(end);
        }
        loop {
            let batch = Arc::new(batch(reader));
            // An observer that is no more has panicked, which the scope tells.
            if batch.is_empty() || ends.iter().any(|end| end.send(batch.clone()).is_err()) {
                return Ok(());
            }
        }
    })
}

/// The next events, none at the end.
fn batch(reader: &mut TraceReader) -> Vec<Event> {
    let mut batch = Vec::with_capacity(EVENTS);
    let mut words = 0;
    while batch.len() < EVENTS && words < WORDS {
        let Some(event) = reader.next() else { break };
        words += held(&event);
        batch.push(event);
    }
    batch
}

/// How many words an event holds in lists, about.
fn held(event: &Event) -> usize {
    let pieces = event.collectives.iter();
    let pieces = pieces.map(|it| it.sent.pieces.len() + it.received.pieces.len());
    pieces.sum::<usize>()
        + event.arguments.len()
        + 8 * (event.transfers.len() + event.completed.len() + event.collectives.len())
        + event.started.len()
        + 32 * event.texts.len()
}
