//! Seconds of the stages of `cargo xtask test`.
//!
//! The host's clock times the stages.
#![allow(clippy::disallowed_methods)]

use std::time::{Duration, Instant};

/// Seconds of the stages of all groups.
#[derive(Debug, Default)]
pub(super) struct Stages(Vec<(&'static str, Duration)>);

impl Stages {
    /// Runs a stage and notes its time, also if it fails.
    pub(super) fn time<T>(&mut self, name: &'static str, stage: impl FnOnce() -> T) -> T {
        let begin = Instant::now();
        let outcome = stage();
        self.0.push((name, begin.elapsed()));
        outcome
    }

    /// Prints a line for each stage, and their sum.
    pub(super) fn print(&self) {
        let all: Duration = self.0.iter().map(|(_, time)| *time).sum();
        for (name, time) in self.0.iter().chain([&("all", all)]) {
            eprintln!("{:>6} s  {name}", time.as_secs());
        }
    }
}
