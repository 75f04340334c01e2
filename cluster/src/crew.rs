//! Host threads that run nodes side by side.
//!
//! A round is short, some ten microseconds of work, so threads wait for the next
//! one awake, and only doze off when none comes. Which thread runs which node is
//! left to chance; nothing depends on it.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use belljar_sim::Time;
use belljar_vmm::NodeError;

use crate::runner::Runner;
use crate::sandbox::{Sandbox, SandboxError};

/// Turns of a waiting thread before it offers its processor to others.
const SPINS: u32 = 4_000;
/// Offers before it sleeps.
const YIELDS: u32 = 200;
/// How long it sleeps at a time.
const NAP: Duration = Duration::from_micros(100);

/// All nodes, and the state of the present round.
struct Shared {
    runners: Vec<Mutex<Runner>>,
    /// The round's end, in picoseconds.
    end: AtomicU64,
    /// The next node to take; stored last when a round begins.
    next: AtomicUsize,
    /// Nodes not yet done with.
    remaining: AtomicUsize,
    /// Counts rounds, to wake who waits.
    round: AtomicU64,
    quit: AtomicBool,
    failure: Mutex<Option<(u32, NodeError)>>,
}

/// The nodes of a run and the threads that run them.
pub struct Crew {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

/// Counts a node as done with, even if running it panics.
struct Done<'a>(&'a AtomicUsize);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

impl Crew {
    /// `runners`, run by `threads` threads, the caller's among them; the others enter
    /// `sandbox` before they do anything else.
    ///
    /// # Errors
    /// When the host refuses a thread its filter.
    pub fn new(
        runners: Vec<Runner>,
        threads: usize,
        sandbox: Option<&Sandbox>,
    ) -> Result<Self, SandboxError> {
        let shared = Arc::new(Shared {
            next: AtomicUsize::new(runners.len()),
            runners: runners.into_iter().map(Mutex::new).collect(),
            end: AtomicU64::new(0),
            remaining: AtomicUsize::new(0),
            round: AtomicU64::new(0),
            quit: AtomicBool::new(false),
            failure: Mutex::new(None),
        });
        let (tell, hear) = channel();
        let helpers = (1..threads).map(|_| {
            let (shared, tell, sandbox) = (shared.clone(), tell.clone(), sandbox.cloned());
            thread::spawn(move || {
                let entered = sandbox.map_or(Ok(()), |sandbox| sandbox.enter());
                let may_work = entered.is_ok();
                // Nobody listens any more once another thread was refused.
                let _ = tell.send(entered);
                // The crew waits until all are through here.
                drop(tell);
                if may_work {
                    shared.work();
                }
            })
        });
        let crew = Self {
            threads: helpers.collect(),
            shared,
        };
        drop(tell);
        hear.iter().collect::<Result<(), _>>()?;
        Ok(crew)
    }

    /// Number of nodes.
    pub fn len(&self) -> usize {
        self.shared.runners.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.shared.runners.is_empty()
    }

    /// A node, between rounds.
    pub fn runner(&self, index: usize) -> MutexGuard<'_, Runner> {
        lock(&self.shared.runners[index])
    }

    /// All nodes in order, between rounds.
    pub fn runners(&self) -> impl Iterator<Item = MutexGuard<'_, Runner>> {
        self.shared.runners.iter().map(lock)
    }

    /// Runs every node that has something to do before `end` up to there.
    ///
    /// # Errors
    /// The failure of the node with the lowest number, with that number.
    pub fn round(&self, end: Time) -> Result<(), (u32, NodeError)> {
        let shared = &*self.shared;
        shared.end.store(end.as_ps(), Ordering::Relaxed);
        shared
            .remaining
            .store(shared.runners.len(), Ordering::Relaxed);
        shared.next.store(0, Ordering::Release);
        shared.round.fetch_add(1, Ordering::Release);
        shared.take_nodes();
        let mut waited = 0;
        while shared.remaining.load(Ordering::Acquire) > 0 {
            pause(&mut waited, false);
        }
        match lock(&shared.failure).take() {
            Some(failure) => Err(failure),
            None => Ok(()),
        }
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.shared.quit.store(true, Ordering::Release);
        for thread in self.threads.drain(..) {
            // A panic there was met as a poisoned node already.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn work(&self) {
        let mut seen = 0;
        let mut waited = 0;
        while !self.quit.load(Ordering::Acquire) {
            let round = self.round.load(Ordering::Acquire);
            if round == seen {
                pause(&mut waited, true);
                continue;
            }
            seen = round;
            waited = 0;
            self.take_nodes();
        }
    }

    /// Takes nodes until none is left. A thread that comes late from an earlier
    /// round joins the present one, whose end it sees: the index is stored last.
    fn take_nodes(&self) {
        loop {
            let index = self.next.fetch_add(1, Ordering::Acquire);
            let Some(runner) = self.runners.get(index) else {
                return;
            };
            let done = Done(&self.remaining);
            let end = Time::from_ps(self.end.load(Ordering::Relaxed));
            let mut runner = lock(runner);
            if runner.node().next_event().is_some_and(|next| next < end)
                && let Err(error) = runner.run(end)
            {
                self.fail(runner.index, error);
            }
            drop(runner);
            drop(done);
        }
    }

    fn fail(&self, node: u32, error: NodeError) {
        let mut failure = lock(&self.failure);
        if failure.as_ref().is_none_or(|(first, _)| node < *first) {
            *failure = Some((node, error));
        }
    }
}

/// A node whose thread panicked is in no state to go on: the panic is passed on.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned: PoisonError<_>| {
        drop(poisoned);
        panic!("a host thread panicked while it ran a node")
    })
}

fn pause(waited: &mut u32, may_sleep: bool) {
    *waited = waited.saturating_add(1);
    match *waited {
        0..SPINS => std::hint::spin_loop(),
        waited if waited < SPINS + YIELDS || !may_sleep => thread::yield_now(),
        _ => thread::sleep(NAP),
    }
}
