//! How a run goes: a line that changes on a terminal, or lines one after another for who reads them elsewhere.
//!
//! The one place of this crate, with the summary, that looks at the host's clock.
#![allow(clippy::disallowed_methods)]

use std::io::{self, Write};
use std::time::{Duration, Instant};

use belljar_sim::Time;
use belljar_sim::figures::decimal;
use indicatif::{ProgressBar, ProgressStyle};

/// How it is shown how a run goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Showing {
    /// Not at all.
    Nothing,
    /// By a line on a terminal.
    Line,
    /// By lines on standard error, one each second of the host's.
    Lines,
}

/// Shows virtual time, speed, nodes and events while a run is under way.
pub struct Progress {
    bar: ProgressBar,
    showing: Showing,
    started: Instant,
    /// When it was shown last; the first line comes at once.
    shown: Option<Instant>,
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
const INTERVAL_OF_LINES: Duration = Duration::from_secs(1);

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
        let interval = match self.showing {
            Showing::Nothing => return false,
            Showing::Line => INTERVAL,
            Showing::Lines => INTERVAL_OF_LINES,
        };
        round.is_multiple_of(64) && self.shown.is_none_or(|shown| shown.elapsed() >= interval)
    }

    /// Shows how things stand.
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
            // Who does not read them does not have to.
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
