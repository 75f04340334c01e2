//! Residuals of calls: traced durations minus the work and the waiting that hosts' costs and the network explain.
//!
//! A residual is work of the library that is not in any cost, or waiting that the network model lacks. Both are applied on another network. On a network that loses
//! frames, residuals of more than a millisecond are waits for timers of TCP, which do not occur on another network. Such calls get the median residual of their
//! function there. Computed by `calibrate`, used by `replay`.

use std::borrow::Cow;
use std::collections::BTreeMap;

use belljar_mpi::{CallKind, meaning};
use belljar_program::{Call, Program, Thread};
use serde::Serialize;

use crate::replay::Setting;

/// A larger residual, in picoseconds, is a wait for a timer if frames were lost: Linux's shortest timer of TCP expires after 4 ms.
const TIMER_PS: u64 = 1_000_000_000;

/// Residuals of all calls of a program.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Calibration {
    /// By thread and call, in picoseconds.
    pub(crate) residuals: Vec<Vec<i64>>,
    /// Frames that the network lost during the calibration.
    pub(crate) lost: u64,
    /// The setting of the trace, if known.
    #[serde(skip)]
    pub(crate) setting: Option<Box<Setting>>,
}

/// Quality of a calibration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Fit {
    /// Picoseconds in calls that move data, of all threads, without the start and the end of MPI.
    pub inside_ps: u64,
    /// Sum of the positive residuals: work or waiting that the model lacks.
    pub more_ps: u64,
    /// Sum of the absolute negative residuals: time that the model has in excess.
    pub less_ps: u64,
}

impl Calibration {
    /// Creates these residuals, for a network without losses.
    pub(crate) fn of(residuals: Vec<Vec<i64>>) -> Self {
        Self {
            residuals,
            lost: 0,
            setting: None,
        }
    }

    /// Creates zero residuals.
    pub(crate) fn nothing(program: &Program) -> Self {
        let threads = program.threads.iter();
        Self::of(threads.map(|thread| vec![0; thread.calls.len()]).collect())
    }

    /// Creates residuals equal to the calls' durations, for a program whose calls contain no waiting.
    pub fn own(program: &Program) -> Self {
        let threads = program.threads.iter();
        let own = |thread: &Thread| {
            let calls = thread.calls.iter();
            calls
                .map(|call| i64::try_from(call.inside).unwrap_or(i64::MAX))
                .collect()
        };
        Self::of(threads.map(own).collect())
    }

    /// Returns the residuals of a thread's calls, in picoseconds; empty for an unknown thread.
    pub fn of_thread(&self, thread: usize) -> &[i64] {
        self.residuals.get(thread).map_or(&[], Vec::as_slice)
    }

    /// Multiplies the residuals by `factor`: those of other processors.
    #[must_use]
    pub fn scaled(mut self, factor: f64) -> Self {
        for residual in self.residuals.iter_mut().flatten() {
            *residual = (*residual as f64 * factor) as i64;
        }
        self
    }

    /// True if the network lost frames during the calibration.
    pub fn is_lossy(&self) -> bool {
        self.lost > 0
    }

    /// Returns the residuals on another network.
    pub(crate) fn carried(&self, program: &Program) -> Cow<'_, [Vec<i64>]> {
        if !self.is_lossy() {
            return Cow::Borrowed(&self.residuals);
        }
        let usual = self.usual(program);
        let mut carried = self.residuals.clone();
        for (thread, own) in program.threads.iter().zip(&mut carried) {
            for (call, residual) in thread.calls.iter().zip(own) {
                if moves_data(call) && residual.unsigned_abs() > TIMER_PS {
                    *residual = usual.get(&call.function).copied().unwrap_or(0);
                }
            }
        }
        Cow::Owned(carried)
    }

    /// Returns by function the median residual of calls that did not wait for a timer.
    fn usual(&self, program: &Program) -> BTreeMap<u16, i64> {
        let mut all: BTreeMap<u16, Vec<i64>> = BTreeMap::new();
        for (thread, own) in program.threads.iter().zip(&self.residuals) {
            for (call, residual) in thread.calls.iter().zip(own) {
                if moves_data(call) && residual.unsigned_abs() <= TIMER_PS {
                    all.entry(call.function).or_default().push(*residual);
                }
            }
        }
        let median = |mut own: Vec<i64>| {
            let middle = own.len() / 2;
            *own.select_nth_unstable(middle).1
        };
        all.into_iter()
            .map(|(function, own)| (function, median(own)))
            .collect()
    }

    /// Returns the quality of the calibration.
    pub fn fit(&self, program: &Program) -> Fit {
        let mut fit = Fit::default();
        for (thread, residuals) in program.threads.iter().zip(&self.residuals) {
            for (call, residual) in thread.calls.iter().zip(residuals) {
                if !moves_data(call) {
                    continue;
                }
                let part = match *residual > 0 {
                    true => &mut fit.more_ps,
                    false => &mut fit.less_ps,
                };
                *part = part.saturating_add(residual.unsigned_abs());
                fit.inside_ps = fit.inside_ps.saturating_add(call.inside);
            }
        }
        fit
    }
}

/// True if a call moves data or waits for it, and neither begins nor ends MPI.
fn moves_data(call: &Call) -> bool {
    let ends = matches!(
        meaning(call.function).kind,
        CallKind::Init | CallKind::Finalize
    );
    call.operations > 0 && !ends
}

#[cfg(test)]
mod tests {
    use super::*;
    use belljar_program::Conditions;

    /// On processors that take 1.5 times as long, own work between calls and in them does; the duration of calls in the
    /// trace stays.
    #[test]
    fn work_of_another_processor_is_scaled_between_calls_and_in_them() {
        let call = |before, inside| Call {
            function: 0,
            operations: 0,
            count: 1,
            before,
            inside,
        };
        let thread = Thread {
            start: 7,
            calls: vec![call(100, 40), call(200, 60)],
            conditions: vec![Conditions {
                work: 50,
                ..Conditions::default()
            }],
            ..Thread::default()
        };
        let program = Program {
            threads: vec![thread],
            ..Program::default()
        };
        let own = Calibration::own(&program).scaled(1.5);
        assert_eq!(own.of_thread(0), [60, 90]);
        assert_eq!(
            Calibration::of(vec![vec![-10]]).scaled(1.5).of_thread(0),
            [-15]
        );
        let scaled = program.with_work_scaled(1.5);
        let thread = &scaled.threads[0];
        assert_eq!(thread.calls, [call(150, 40), call(300, 60)]);
        assert_eq!((thread.start, thread.conditions[0].work), (7, 75));
    }
}
