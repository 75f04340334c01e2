//! The line that shows how a run goes, on a terminal only.
//!
//! The one place of this crate, with the summary, that looks at the host's clock.
#![allow(clippy::disallowed_methods)]

use std::time::{Duration, Instant};

use belljar_sim::Time;
use indicatif::{ProgressBar, ProgressStyle};

/// Shows virtual time, speed, nodes and events while a run is under way.
pub struct Progress {
    bar: ProgressBar,
    started: Instant,
    shown: Instant,
    shown_at: Time,
}

/// How things stand.
#[derive(Clone, Copy, Debug)]
pub struct Snapshot {
    /// Virtual time.
    pub now: Time,
    /// Number of nodes.
    pub nodes: usize,
    /// Nodes whose init is through.
    pub ready: usize,
    /// MPI calls recorded.
    pub events: u64,
}

const INTERVAL: Duration = Duration::from_millis(250);

/// The line itself, for who writes above it.
#[derive(Clone, Debug)]
pub struct Line(ProgressBar);

impl Line {
    /// Does `write` while the line is out of the way.
    pub fn above(&self, write: impl FnOnce()) {
        self.0.suspend(write);
    }
}

impl Progress {
    /// Starts the clock; `quiet` shows nothing.
    pub fn start(quiet: bool) -> Self {
        let bar = if quiet {
            ProgressBar::hidden()
        } else {
            ProgressBar::new_spinner()
        };
        if let Ok(style) = ProgressStyle::with_template("{spinner} {msg}") {
            bar.set_style(style);
        }
        let now = Instant::now();
        Self {
            bar,
            started: now,
            shown: now,
            shown_at: Time::ZERO,
        }
    }

    /// The line, for who writes above it.
    pub fn line(&self) -> Line {
        Line(self.bar.clone())
    }

    /// Host time since the start.
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }

    /// Whether a new line is due after this round.
    pub fn is_due(&self, round: u64) -> bool {
        round.is_multiple_of(64) && !self.bar.is_hidden() && self.shown.elapsed() >= INTERVAL
    }

    /// Shows how things stand.
    pub fn show(&mut self, snapshot: &Snapshot) {
        let virtual_time = snapshot.now.since(self.shown_at).as_secs_f64();
        let speed = virtual_time / self.shown.elapsed().as_secs_f64();
        self.bar.set_message(format!(
            "virtual time {:.3} s, {speed:.3} x real time, {} of {} nodes up, {} MPI calls",
            snapshot.now.as_secs_f64(),
            snapshot.ready,
            snapshot.nodes,
            snapshot.events
        ));
        self.bar.tick();
        self.shown = Instant::now();
        self.shown_at = snapshot.now;
    }

    /// Removes the line.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}
