//! Seconds of the stages of `cargo xtask test`.
//!
//! The host's clock times the stages.
#![allow(clippy::disallowed_methods)]

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Seconds of the stages of all groups. Stages may run at the same time.
#[derive(Debug)]
pub(super) struct Stages {
    begin: Instant,
    ended: Mutex<Vec<(&'static str, Duration)>>,
}

impl Default for Stages {
    fn default() -> Self {
        Self {
            begin: Instant::now(),
            ended: Mutex::default(),
        }
    }
}

impl Stages {
    /// Runs a stage and notes its time, also if it fails.
    pub(super) fn time<T>(&self, name: &'static str, stage: impl FnOnce() -> T) -> T {
        let begin = Instant::now();
        let outcome = stage();
        let mut ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        ended.push((name, begin.elapsed()));
        outcome
    }

    /// Prints a line for each stage in the order of their ends, and one for all together.
    pub(super) fn print(&self) {
        let ended = self.ended.lock().unwrap_or_else(PoisonError::into_inner);
        for (name, time) in ended.iter().chain([&("all", self.begin.elapsed())]) {
            eprintln!("{:>6} s  {name}", time.as_secs());
        }
    }
}
