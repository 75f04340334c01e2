//! State of a node that is shared by the run and its threads.
//!
//! Exactly one thread takes an offered turn, by an atomic exchange. The turn is marked as finished even
//! if it panics. Each node's state has cache lines to itself. Used by the run's thread and the workers of
//! `Workers`.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use belljar_sim::{Span, Time};
use belljar_vmm::NodeError;

use crate::run::bounds::Turn;
use crate::run::runner::Runner;

/// Sleep of a node after which it releases memory, in virtual time.
const NAPPING: Span = Span::from_ms(100);

/// The run's view of a node between rounds, and the threads' view of its turn. Each has cache lines of
/// the host to itself, as threads take turns by writing here.
#[repr(align(128))]
pub(super) struct KnownNode {
    /// Time of its next action, in picoseconds; `u64::MAX` for never.
    next: AtomicU64,
    /// True if it may have had an effect in its last turn.
    spoke: AtomicBool,
    /// Its turn, in picoseconds, while no thread has taken it.
    waits: AtomicBool,
    end: AtomicU64,
    echo: AtomicU64,
    reach: AtomicU64,
    /// True if the turn is finished. Each node has a flag: all threads would contend for a shared count,
    /// and the run reads the other fields here anyway.
    done: AtomicBool,
}

/// Marks a node's turn as finished on drop, even after a panic.
pub(super) struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

impl KnownNode {
    pub(super) fn of(runner: &Runner) -> Self {
        Self::until(next_of(runner))
    }

    /// For a node with its next action at `next`, in picoseconds.
    fn until(next: u64) -> Self {
        Self {
            next: next.into(),
            spoke: true.into(),
            waits: false.into(),
            end: 0.into(),
            echo: 0.into(),
            reach: 0.into(),
            done: true.into(),
        }
    }

    /// Offers the node's turn to threads.
    pub(super) fn offer(&self, turn: &Turn) {
        self.end.store(turn.end.as_ps(), Ordering::Relaxed);
        self.echo.store(turn.echo.as_ps(), Ordering::Relaxed);
        self.reach.store(turn.reach.as_ps(), Ordering::Relaxed);
        self.done.store(false, Ordering::Relaxed);
        self.waits.store(true, Ordering::Release);
    }

    /// True if the node's turn waits for a thread.
    pub(super) fn waits(&self) -> bool {
        self.waits.load(Ordering::Relaxed)
    }

    /// Takes the turn of node number `node` if it waits.
    pub(super) fn claim(&self, node: u32) -> Option<Turn> {
        // Read first, as reading does not take the cache line from other threads.
        let claimed = self.waits() && self.waits.swap(false, Ordering::Acquire);
        claimed.then(|| Turn {
            node,
            end: Time::from_ps(self.end.load(Ordering::Relaxed)),
            echo: Span::from_ps(self.echo.load(Ordering::Relaxed)),
            reach: Time::from_ps(self.reach.load(Ordering::Relaxed)),
        })
    }

    /// The guard that marks the node's turn as finished.
    pub(super) fn will_be_done(&self) -> Done<'_> {
        Done(&self.done)
    }

    /// True if the last offered turn is finished.
    pub(super) fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    /// The time of the node's next action.
    pub(super) fn next(&self) -> Time {
        Time::from_ps(self.next.load(Ordering::Relaxed))
    }

    /// True if it may have had an effect in its last turn.
    pub(super) fn spoke(&self) -> bool {
        self.spoke.load(Ordering::Relaxed)
    }

    /// Runs the node's turn up to its end; with `gives` it releases memory if it will sleep for long
    /// then.
    pub(super) fn run(
        &self,
        runner: &mut Runner,
        turn: Turn,
        gives: bool,
    ) -> Result<(), NodeError> {
        if turn.end <= self.next() {
            // Until now it may only wait for others.
            self.spoke.store(false, Ordering::Relaxed);
            return Ok(());
        }
        let done = runner.run_ahead(turn.end, turn.echo);
        let spoke = !matches!(done, Ok(false));
        self.spoke.store(spoke, Ordering::Relaxed);
        if spoke && gives && runner.sleeps_for(NAPPING) {
            runner.node_mut().rest();
        }
        self.note(runner);
        done.map(drop)
    }

    pub(super) fn note(&self, runner: &Runner) {
        self.next.store(next_of(runner), Ordering::Relaxed);
    }
}

fn next_of(runner: &Runner) -> u64 {
    runner.next_event().unwrap_or(Time::MAX).as_ps()
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::thread;

    use super::*;

    fn turn(number: u64) -> Turn {
        Turn {
            node: 7,
            end: Time::from_ps(number),
            echo: Span::from_ps(2 * number),
            reach: Time::from_ps(3 * number),
        }
    }

    #[test]
    fn an_offer_is_claimed_once_and_as_it_was_made() {
        const OFFERS: u64 = 5_000;
        let known = KnownNode::until(0);
        let (claims, quit) = (AtomicU64::new(0), AtomicBool::new(false));
        let work = || {
            while !quit.load(Ordering::Relaxed) {
                let Some(claimed) = known.claim(7) else {
                    thread::yield_now();
                    continue;
                };
                let done = known.will_be_done();
                let number = claims.fetch_add(1, Ordering::Relaxed) + 1;
                assert_eq!(claimed, turn(number));
                drop(done);
            }
        };
        thread::scope(|scope| {
            let threads = [(); 3].map(|()| scope.spawn(work));
            for number in 1..=OFFERS {
                known.offer(&turn(number));
                while !known.is_done() && !threads.iter().any(|thread| thread.is_finished()) {
                    thread::yield_now();
                }
                if claims.load(Ordering::Relaxed) != number {
                    break;
                }
            }
            quit.store(true, Ordering::Relaxed);
        });
        assert_eq!(claims.into_inner(), OFFERS);
    }

    #[test]
    fn a_turn_that_panics_is_done_with() {
        let known = KnownNode::until(0);
        assert!(known.is_done());
        known.offer(&turn(1));
        assert!(known.waits() && !known.is_done());
        let panicked = catch_unwind(AssertUnwindSafe(|| {
            let _done = known.will_be_done();
            assert_eq!(known.claim(7), Some(turn(1)));
            panic!("in the turn");
        }));
        assert!(panicked.is_err() && known.is_done() && !known.waits());
        assert_eq!(known.claim(7), None);
    }
}
