//! The progress of a run: a changing line on a terminal, or successive lines elsewhere.
//!
//! Besides the summary, the only part of this crate that reads the host's clock.
#![allow(clippy::disallowed_methods)]

use std::io::{self, Write};
use std::time::{Duration, Instant};

use belljar_sim::Time;
use belljar_sim::figures::decimal;
use indicatif::{ProgressBar, ProgressStyle};

/// The form of progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Showing {
    /// None.
    Nothing,
    /// A line on a terminal.
    Line,
    /// Lines on standard error, one per second of host time.
    Lines,
}

/// Shows virtual time, speed, nodes and events of a running run.
pub struct ProgressDisplay {
    bar: ProgressBar,
    showing: Showing,
    started: Instant,
    /// Time of the last display; the first line appears at once.
    shown: Option<Instant>,
    shown_at: Time,
}

/// The state of a run.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot {
    /// Virtual time.
    pub now: Time,
    /// Number of nodes.
    pub nodes: usize,
    /// Nodes whose init has finished.
    pub ready: usize,
    /// MPI calls recorded.
    pub events: u64,
}

const INTERVAL: Duration = Duration::from_millis(250);
const INTERVAL_OF_LINES: Duration = Duration::from_secs(1);

/// The progress line, for writers above it.
#[derive(Clone, Debug)]
pub struct ProgressLine(ProgressBar);

impl ProgressLine {
    /// Calls `write` while the line is hidden.
    pub fn above(&self, write: impl FnOnce()) {
        self.0.suspend(write);
    }
}

impl ProgressDisplay {
    /// Starts the clock.
    pub fn start(showing: Showing) -> Self {
        let bar = match showing {
            Showing::Line => ProgressBar::new_spinner(),
            Showing::Nothing | Showing::Lines => ProgressBar::hidden(),
        };
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
            bar.set_style(style);
        }
        Self {
            bar,
            showing,
            started: Instant::now(),
            shown: None,
            shown_at: Time::ZERO,
        }
    }

    /// The line, for writers above it.
    pub fn line(&self) -> ProgressLine {
        ProgressLine(self.bar.clone())
    }

    /// Host time since the start.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// True if a new line is due after this round.
    pub fn is_due(&self, round: u64) -> bool {
        let interval = match self.showing {
            Showing::Nothing => return false,
            Showing::Line => INTERVAL,
            Showing::Lines => INTERVAL_OF_LINES,
        };
        round.is_multiple_of(64) && self.shown.is_none_or(|shown| shown.elapsed() >= interval)
    }

    /// Shows the state.
    pub fn show(&mut self, snapshot: &Snapshot) {
        let virtual_time = snapshot.now.since(self.shown_at).as_secs_f64();
        let since = self.shown.unwrap_or(self.started).elapsed();
        let speed = virtual_time / since.as_secs_f64();
        let line = format!(
            "virtual time {} s, {} x real time, {} of {} nodes up, {} MPI calls",
            decimal(snapshot.now.as_secs_f64(), 3),
            decimal(speed, 3),
            snapshot.ready,
            snapshot.nodes,
            snapshot.events
        );
        if self.showing == Showing::Lines {
            // A closed standard error is no failure.
            let _ = writeln!(io::stderr(), "{line}");
        }
        self.bar.set_message(line);
        self.bar.tick();
        self.shown = Some(Instant::now());
        self.shown_at = snapshot.now;
    }

    /// Removes the line.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
