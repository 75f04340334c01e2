//! How far a replay is, on a terminal, and its end by the user.
//!
//! The first Ctrl-C has it end with what it has, the second ends the program. Many are carried out at once under one watch. Called by `replay` and `simulate`.

use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;

use anyhow::{Context, Result};
use belljar_program::Program;
use indicatif::{ProgressBar, ProgressStyle};
use signal_hook::consts::SIGINT;
use signal_hook::flag;

/// Calls between two looks at the terminal.
const SELDOM: u64 = 1 << 14;

/// True while nothing is watched: Ctrl-C ends the program at once then, as no step would notice it.
fn idle() -> &'static Arc<AtomicBool> {
    static IDLE: OnceLock<Arc<AtomicBool>> = OnceLock::new();
    IDLE.get_or_init(|| Arc::new(AtomicBool::new(true)))
}

/// What is asked at each step, by all threads that take some.
pub(in crate::command) struct Watch {
    bar: ProgressBar,
    steps: AtomicU64,
    /// Steps between two looks at the terminal.
    seldom: u64,
    interrupted: Arc<AtomicBool>,
}

impl Watch {
    /// Watches the replay of a program, whose steps are calls.
    ///
    /// # Errors
    /// When the host lets no signal be handled.
    pub(in crate::command) fn over(program: &Program) -> Result<Self> {
        let all: usize = program.threads.iter().map(|it| it.calls.len()).sum();
        Self::of(
            Some(all as u64),
            SELDOM,
            "{pos} of {len} calls played {wide_bar} {eta}",
        )
    }

    /// Watches so many steps, if it is known how many; the bar is as indicatif's templates say.
    ///
    /// # Errors
    /// When the host lets no signal be handled.
    pub(in crate::command) fn of(all: Option<u64>, seldom: u64, template: &str) -> Result<Self> {
        let bar = match (io::stderr().is_terminal(), all) {
            (false, _) => ProgressBar::hidden(),
            (true, Some(all)) => ProgressBar::new(all),
            (true, None) => ProgressBar::new_spinner(),
        };
        let style = ProgressStyle::with_template(template);
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let interrupted = Arc::new(AtomicBool::new(false));
        idle().store(false, Ordering::Relaxed);
        // In this order: the second signal finds the flag set, and ends the program.
        flag::register_conditional_shutdown(SIGINT, 130, Arc::clone(idle()))
            .and_then(|_| {
                flag::register_conditional_shutdown(SIGINT, 130, Arc::clone(&interrupted))
            })
            .and_then(|_| flag::register(SIGINT, Arc::clone(&interrupted)))
            .context("cannot handle Ctrl-C")?;
        Ok(Self {
            bar,
            steps: AtomicU64::new(0),
            seldom,
            interrupted,
        })
    }

    /// A step is taken. Whether to continue.
    pub(in crate::command) fn step(&self) -> bool {
        let steps = self.steps.fetch_add(1, Ordering::Relaxed) + 1;
        if steps.is_multiple_of(self.seldom) {
            self.bar.set_position(steps);
        }
        self.continues()
    }

    /// Whether to continue.
    pub(in crate::command) fn continues(&self) -> bool {
        !self.interrupted.load(Ordering::Relaxed)
    }

    /// The replay is over.
    pub(in crate::command) fn finish(&self) {
        idle().store(true, Ordering::Relaxed);
        self.bar.finish_and_clear();
    }
}

/// Does `work` for each number below `count` on all processors, until told to stop; what came of it in the order of numbers, `None` of what was not begun.
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
