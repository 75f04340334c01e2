//! Plays of traces with several candidate costs, on all processors.
//!
//! Each play is a function of its trace and its costs, so their order in time does not matter. Used by the fitting.

use std::num::NonZero;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::Traced;
use crate::calibration::Fit;
use crate::costs::Costs;
use crate::replay::{ReplayError, Setting, calibrate};

/// One trace's fit.
type Played = Result<Fit, ReplayError>;

fn processors() -> usize {
    thread::available_parallelism().map_or(1, NonZero::get)
}

/// Returns the number of candidates that keep all processors busy; each is played with this many traces.
pub(super) fn ahead(traces: usize) -> usize {
    processors().div_ceil(traces.max(1))
}

/// Returns the quality of the fit for each trace, by candidate.
pub(super) fn play_all(
    traced: &[Traced<'_>],
    candidates: &[Costs],
) -> Vec<Result<Vec<Fit>, ReplayError>> {
    let next = AtomicUsize::new(0);
    let all = candidates.len() * traced.len();
    let work = || {
        let mut played: Vec<(usize, Played)> = Vec::new();
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= all {
                return played;
            }
            let of = &traced[number % traced.len()];
            played.push((number, play(of, candidates[number / traced.len()])));
        }
    };
    let mut played = thread::scope(|scope| {
        let others: Vec<_> = (1..processors().min(all))
            .map(|_| scope.spawn(work))
            .collect();
        let mut played = work();
        for other in others {
            match other.join() {
                Ok(more) => played.extend(more),
                Err(panic) => std::panic::resume_unwind(panic),
            }
        }
        played
    });
    played.sort_unstable_by_key(|(number, _)| *number);
    let mut played = played.into_iter().map(|(_, fit)| fit);
    let each = candidates.iter();
    each.map(|_| played.by_ref().take(traced.len()).collect())
        .collect()
}

fn play(traced: &Traced<'_>, costs: Costs) -> Played {
    let setting = Setting {
        costs,
        ..traced.setting.clone()
    };
    let calibration = calibrate(traced.program, &setting)?;
    Ok(calibration.fit(traced.program))
}
