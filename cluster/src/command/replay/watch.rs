//! How far a replay is, on a terminal, and its end by the user.
//!
//! The first Ctrl-C has it end with what it has, the second ends the program. Called by `replay`.

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result};
use belljar_program::Program;
use indicatif::{ProgressBar, ProgressStyle};
use signal_hook::consts::SIGINT;
use signal_hook::flag;

/// Calls between two looks at the terminal.
const SELDOM: u64 = 1 << 14;

/// What is asked at each call.
pub(super) struct Watch {
    bar: ProgressBar,
    calls: u64,
    interrupted: Arc<AtomicBool>,
}

impl Watch {
    /// Watches the replay of a program.
    ///
    /// # Errors
    /// When the host lets no signal be handled.
    pub(super) fn over(program: &Program) -> Result<Self> {
        let all: usize = program.threads.iter().map(|it| it.calls.len()).sum();
        let bar = match io::stderr().is_terminal() {
            true => ProgressBar::new(all as u64),
            false => ProgressBar::hidden(),
        };
        let style = ProgressStyle::with_template("{pos} of {len} calls played {wide_bar} {eta}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        let interrupted = Arc::new(AtomicBool::new(false));
        // In this order: the second signal finds the flag set, and ends the program.
        flag::register_conditional_shutdown(SIGINT, 130, Arc::clone(&interrupted))
            .and_then(|_| flag::register(SIGINT, Arc::clone(&interrupted)))
            .context("cannot handle Ctrl-C")?;
        Ok(Self {
            bar,
            calls: 0,
            interrupted,
        })
    }

    /// A call is entered. Whether to continue.
    pub(super) fn call(&mut self) -> bool {
        self.calls += 1;
        if self.calls.is_multiple_of(SELDOM) {
            self.bar.set_position(self.calls);
        }
        !self.interrupted.load(Ordering::Relaxed)
    }

    /// The replay is over.
    pub(super) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
