//! Distribution of a trace's events, read once, to several analyses, each on a separate thread.
//!
//! Every observer sees all events in the order of the trace, so results equal those of one thread. Events in flight are bounded: a batch is
//! limited in events and in their size, and each observer has a limited number of batches waiting. Used by `together`.

use std::io;
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::thread;

use belljar_archive::TraceReader;
use belljar_trace::Event;

/// Most batches that wait for an observer.
const AHEAD: usize = 2;

/// A consumer of each event.
pub(super) type Observer<'a> = Box<dyn FnMut(&Event) + Send + 'a>;

/// Passes all events of `reader` to all observers.
///
/// # Errors
/// Returns an error if no more threads can be created.
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
            let batch = Arc::new(reader.next_batch());
            // A missing observer has panicked, which the scope reports.
            if batch.is_empty() || ends.iter().any(|end| end.send(batch.clone()).is_err()) {
                return Ok(());
            }
        }
    })
}
