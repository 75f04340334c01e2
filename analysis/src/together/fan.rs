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
            let batch = Arc::new(reader.next_batch());
            // An observer that is no more has panicked, which the scope tells.
            if batch.is_empty() || ends.iter().any(|end| end.send(batch.clone()).is_err()) {
                return Ok(());
            }
        }
    })
}
