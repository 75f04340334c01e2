//! Runs that are killed after a checkpoint and resumed in another way.
//!
//! A run in two parts has the results of an uninterrupted one, wherever its parts run: one such run compares
//! threads, hosts and resumption at once. Called by end-to-end tests.

use std::process::Child;
use std::thread;
use std::time::Duration;

use crate::{Dir, Outcome, Scenario, newest_checkpoint};

/// Number of runs of which one must be unfinished when it is killed: the test may be late on a busy machine.
const TRIES: u32 = 5;
/// Interval of checks for a checkpoint.
const STEP: Duration = Duration::from_millis(5);
/// Number of checks: two minutes.
const CHECKS: u32 = 24_000;

impl Dir {
    /// Runs `scenario` with `options` into the folder `out`, and kills it after its checkpoint `number` or a later one.
    ///
    /// # Panics
    /// If no such checkpoint comes within two minutes, or if each of five runs ends before it is killed.
    pub fn run_to_checkpoint(&self, scenario: &Scenario, out: &str, number: u32, options: &[&str]) {
        self.run_to_checkpoint_under(&[], scenario, out, number, options);
    }

    /// As [`run_to_checkpoint`](Self::run_to_checkpoint), with these variables in the environment.
    pub fn run_to_checkpoint_under(
        &self,
        variables: &[(&str, &str)],
        scenario: &Scenario,
        out: &str,
        number: u32,
        options: &[&str],
    ) {
        let unfinished = (0..TRIES).any(|_| {
            let child = self.start_under(variables, scenario, out, options);
            self.is_killed(child, out, number)
        });
        assert!(unfinished, "{out} ended {TRIES} times before it was killed");
    }

    /// Resumes the run in the folder `out` with `options`, to its end.
    ///
    /// # Panics
    /// If the run fails.
    pub fn resume(&self, out: &str, options: &[&str]) -> Outcome {
        let (_, error, code) = self.call(&[&["resume", out, "--quiet"], options].concat());
        assert_eq!(code, Some(0), "{error}");
        self.outcome(out)
    }

    /// Kills a run after a checkpoint; false if it was over, and its folder is removed then.
    fn is_killed(&self, mut child: Child, out: &str, number: u32) -> bool {
        let folder = self.path(&format!("{out}.incomplete"));
        let reached = (0..CHECKS).any(|_| {
            thread::sleep(STEP);
            let ended = child.try_wait().expect("a child").is_some();
            ended || newest_checkpoint(&folder) >= Some(number)
        });
        // A run that has ended cannot be killed.
        let _ = child.kill();
        child.wait().expect("a child");
        assert!(reached, "{out} has no checkpoint {number}");
        if folder.exists() {
            return true;
        }
        std::fs::remove_dir_all(self.path(out)).expect("the run directory can be removed");
        false
    }
}
