//! Keeps some iterations of a program's main loop whole, and sums of the others.
//!
//! Each thread has an event flow graph, which grows with its calls. When it has not grown for some iterations, the calls since
//! then are the main loop. When all threads are in their main loops, they drop iterations from the same iteration on, so that the
//! kept calls of all threads match. A thread that leaves the loop is kept whole again, and searches for the next loop. Iterations
//! are counted by collective operations of all processes where the loop has one, else by visits of its first message. Dropped
//! calls are summed up in [`Collected`]. Calls that others depend on are always kept. These create, change or free communicators,
//! datatypes, windows, files or persistent requests; access windows; failed or did not return; or complete a request of a kept
//! call.
//!
//! The output depends only on the calls and their order; memory is proportional to the graphs, not to the number of calls. Used
//! where a run writes its trace, after polls are folded, and where a trace is reduced later. The sums complete the statistics of
//! a trace.

/// One thread.
mod follower;
/// Its event flow graph.
mod graph;
/// Sums of cycles.
mod measure;
/// Sums of the data moved by collective operations.
mod moved;
/// Equality of calls, and calls that may be dropped.
mod signature;
/// Summary of the dropped calls, as a file.
mod summary;

use std::collections::BTreeMap;

use belljar_trace::{Event, StateError, codec};
use bincode::{Decode, Encode};

pub use measure::{Both, Dropped, Measure};
pub use moved::{Moved, MovedAmount};
pub use summary::{COLLECTED_FILE, Collected, CollectedError, CollectedThread, Transition};

use follower::{State, ThreadFollower};

/// A thread: its node, its process, its number.
type Thread = (u32, u32, u32);

/// Drops iterations.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct Collector {
    wanted: u64,
    threads: BTreeMap<Thread, ThreadFollower>,
    /// The iteration from which armed threads drop: by visits, and by collective operations.
    start: Option<[u64; 2]>,
}

impl Collector {
    /// Creates a collector that keeps at least `iterations`, and at least 2, of a stable loop.
    pub fn new(iterations: u64) -> Self {
        Self {
            wanted: iterations,
            threads: BTreeMap::new(),
            start: None,
        }
    }

    /// Returns the number of iterations that it was created to keep.
    pub fn wanted(&self) -> u64 {
        self.wanted
    }

    /// Returns its state for [`load`](Self::load).
    ///
    /// # Errors
    /// Fails if there is more of it than can be read again.
    pub fn save(&self) -> Result<Vec<u8>, StateError> {
        let mut bytes = Vec::new();
        codec::encode(self, &mut bytes)?;
        codec::check::<Self>(&bytes)?;
        Ok(bytes)
    }

    /// Restores a collector from a [saved](Self::save) state.
    ///
    /// # Errors
    /// Fails if these bytes are not such a state.
    pub fn load(saved: &[u8]) -> Result<Self, StateError> {
        Ok(codec::decode(saved)?)
    }

    /// Takes a call, in the order of the trace, and passes it to `next` if it is kept.
    ///
    /// # Errors
    /// Returns the error of `next`.
    pub fn take<E>(
        &mut self,
        event: Event,
        next: &mut impl FnMut(Event) -> Result<(), E>,
    ) -> Result<(), E> {
        let thread = (event.node, event.process, event.thread);
        let follower = self.threads.entry(thread).or_default();
        let before = std::mem::discriminant(&follower.state);
        let kept = follower.take(&event, self.wanted, self.start);
        if before != std::mem::discriminant(&follower.state) {
            self.agree();
        }
        if kept { next(event) } else { Ok(()) }
    }

    /// Chooses the iteration from which all threads drop, once all are in their loops.
    fn agree(&mut self) {
        let busy = |it: &ThreadFollower| matches!(it.state, State::Armed(_) | State::Dropping(_));
        if self.start.is_some() {
            let dropping = |it: &ThreadFollower| matches!(it.state, State::Dropping(_));
            let searching = |it: &ThreadFollower| matches!(it.state, State::Searching);
            let any = self.threads.values().any(dropping);
            if any || !self.threads.values().any(searching) && self.threads.values().any(busy) {
                return;
            }
            self.start = None;
            for follower in self.threads.values_mut() {
                follower.state = match std::mem::take(&mut follower.state) {
                    State::Armed(it) => State::Ready(it),
                    state => state,
                };
            }
        }
        let mut start = [0; 2];
        let mut ready = 0;
        for follower in self.threads.values() {
            match &follower.state {
                State::Ready(it) => {
                    let place = &mut start[usize::from(it.of_all)];
                    *place = follower.place(it).saturating_add(1).max(*place);
                    ready += 1;
                }
                State::Ended => {}
                _ => return,
            }
        }
        if ready == 0 {
            return;
        }
        self.start = Some(start);
        for follower in self.threads.values_mut() {
            follower.state = match std::mem::take(&mut follower.state) {
                State::Ready(it) => State::Armed(it),
                state => state,
            };
        }
    }

    /// Returns the sums of the dropped calls.
    pub fn collected(&self) -> Collected {
        let threads = self.threads.iter().map(|(thread, follower)| {
            let functions = follower.functions.iter();
            let transitions = follower.transitions.iter();
            CollectedThread {
                node: thread.0,
                process: thread.1,
                thread: thread.2,
                rank: follower.rank,
                iterations: follower.iterations,
                dropped_iterations: follower.dropped_iterations,
                functions: functions.map(|(it, own)| (name(*it), *own)).collect(),
                transitions: transitions
                    .map(|((from, to), between)| Transition {
                        from: name(*from),
                        to: name(*to),
                        between: *between,
                    })
                    .collect(),
                messages: follower.messages,
                moved: follower.operations.moved(),
                intervals: follower.intervals,
                gaps: follower.gaps,
            }
        });
        Collected {
            wanted: self.wanted,
            threads: threads.collect(),
        }
    }
}

fn name(function: u16) -> String {
    let known = belljar_mpi::FUNCTIONS.get(usize::from(function));
    known.map_or("MPI_?", |it| it.name).to_owned()
}

#[cfg(test)]
mod tests;
