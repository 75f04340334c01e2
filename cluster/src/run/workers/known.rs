//! What the run and its threads tell each other of a node.
//!
//! A turn that is offered is taken by exactly one thread (an atomic exchange), and is marked as done even
//! if running it panics. Each node's words lie in cache lines of their own. Used by the run's thread and
//! the workers of `Workers`.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use belljar_sim::{Span, Time};
use belljar_vmm::NodeError;

use crate::run::bounds::Turn;
use crate::run::runner::Runner;

/// How long a node sleeps that gives memory back, in virtual time.
const NAPPING: Span = Span::from_ms(100);

/// What the run must know of a node between rounds, and what the threads must of its turn. Each
/// lies in lines of the host's caches of its own: threads take their turns by writing here.
#[repr(align(128))]
pub(super) struct Known {
    /// When it does something next, in picoseconds; `u64::MAX` for never.
    next: AtomicU64,
    /// Whether anything may have come out of it in its last turn.
    spoke: AtomicBool,
    /// Its turn, in picoseconds, while nobody took it.
    waits: AtomicBool,
    end: AtomicU64,
    echo: AtomicU64,
    reach: AtomicU64,
    /// Whether that is done with. Each node has one: a count of turns would be passed around
    /// between all threads, and the run looks here for the rest anyway.
    done: AtomicBool,
}

/// Has a node's turn done with, even if running it panics.
pub(super) struct Done<'a>(&'a AtomicBool);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

impl Known {
    pub(super) fn of(runner: &Runner) -> Self {
        Self::until(next_of(runner))
    }

    /// Of a node that does something at `next`, in picoseconds.
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

    /// Lets a thread take the node's turn.
    pub(super) fn offer(&self, turn: &Turn) {
        self.end.store(turn.end.as_ps(), Ordering::Relaxed);
        self.echo.store(turn.echo.as_ps(), Ordering::Relaxed);
        self.reach.store(turn.reach.as_ps(), Ordering::Relaxed);
        self.done.store(false, Ordering::Relaxed);
        self.waits.store(true, Ordering::Release);
    }

    /// Whether the node's turn waits for a thread.
    pub(super) fn waits(&self) -> bool {
        self.waits.load(Ordering::Relaxed)
    }

    /// Takes the turn of node number `node` if it waits.
    pub(super) fn claim(&self, node: u32) -> Option<Turn> {
        // Looked at first, for that takes the line from nobody.
        let claimed = self.waits() && self.waits.swap(false, Ordering::Acquire);
        claimed.then(|| Turn {
            node,
            end: Time::from_ps(self.end.load(Ordering::Relaxed)),
            echo: Span::from_ps(self.echo.load(Ordering::Relaxed)),
            reach: Time::from_ps(self.reach.load(Ordering::Relaxed)),
        })
    }

    /// What is to be dropped when the node's turn is done with.
    pub(super) fn will_be_done(&self) -> Done<'_> {
        Done(&self.done)
    }

    /// Whether the turn that was offered last is done with.
    pub(super) fn is_done(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    /// When the node does something next.
    pub(super) fn next(&self) -> Time {
        Time::from_ps(self.next.load(Ordering::Relaxed))
    }

    /// Whether anything may have come out of it in its last turn.
    pub(super) fn spoke(&self) -> bool {
        self.spoke.load(Ordering::Relaxed)
    }

    /// Has the node take its turn up to its end; `gives` memory back when it will sleep for long
    /// then.
    pub(super) fn run(
        &self,
        runner: &mut Runner,
        turn: Turn,
        gives: bool,
    ) -> Result<(), NodeError> {
        if turn.end <= self.next() {
            // So far it may only wait for others.
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
    let never = runner.ended.is_some();
    let next = runner.node().next_event().filter(|_| !never);
    next.unwrap_or(Time::MAX).as_ps()
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
        let known = Known::until(0);
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
        let known = Known::until(0);
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
