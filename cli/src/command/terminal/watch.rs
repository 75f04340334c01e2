//! Progress of running replays and simulations, and their end by the user.
//!
//! At the first Ctrl-C they end with their results so far. One watch can serve many at once. Called by `replay`, `simulate` and
//! `model`.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;

use belljar_program::Program;

use super::interrupt::Deferral;
use super::progress::TerminalTask;

/// Calls between two reports of progress.
const SELDOM: u64 = 1 << 14;

/// Counts the steps of all threads, and checks at each for the user's signal.
pub(in crate::command) struct Watch {
    task: TerminalTask,
    steps: AtomicU64,
    /// Steps between two reports of progress.
    seldom: u64,
    deferral: Deferral,
}

impl Watch {
    /// Watches the replay of a program, whose steps are calls.
    pub(in crate::command) fn over(program: &Program) -> Self {
        let all: usize = program.threads.iter().map(|it| it.calls.len()).sum();
        Self {
            seldom: SELDOM,
            ..Self::of("calls played", Some(all as u64))
        }
    }

    /// Watches steps of this name; their number may be unknown.
    pub(in crate::command) fn of(name: &str, all: Option<u64>) -> Self {
        Self {
            task: TerminalTask::of_steps(name, all),
            steps: AtomicU64::new(0),
            seldom: 1,
            deferral: Deferral::of_steps(),
        }
    }

    /// Counts a step. Returns true to continue.
    pub(in crate::command) fn step(&self) -> bool {
        let steps = self.steps.fetch_add(1, Ordering::Relaxed) + 1;
        if steps.is_multiple_of(self.seldom) {
            self.task.set(steps);
        }
        self.continues()
    }

    /// True to continue.
    pub(in crate::command) fn continues(&self) -> bool {
        !self.deferral.is_wanted()
    }
}

/// Does `work` for each number below `count` on all processors, until the user ends it. Returns the results in the order of numbers, `None` for numbers
/// that were not begun.
pub(in crate::command) fn on_all_processors<T: Send>(
    count: usize,
    watch: &Watch,
    work: impl Fn(usize) -> T + Sync,
) -> Vec<Option<T>> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<(usize, T)>> = Mutex::new(Vec::new());
    let worker = || {
        while watch.continues() {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                return;
            }
            let result = work(index);
            watch.step();
            if let Ok(mut done) = done.lock() {
                done.push((index, result));
            }
        }
    };
    let processors = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..processors.min(count) {
            scope.spawn(worker);
        }
    });
    let mut results: Vec<Option<T>> = (0..count).map(|_| None).collect();
    for (index, result) in done.into_inner().unwrap_or_default() {
        results[index] = Some(result);
    }
    results
}
