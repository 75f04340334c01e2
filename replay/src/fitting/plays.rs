//! Plays of traces with several candidate costs, on all processors.
//!
//! Each play is a function of its trace and its costs, so their order in time does not matter. Used by the fitting.

use super::Traced;
use crate::calibration::Fit;
use crate::costs::Costs;
use crate::replay::parallel::{self, processors};
use crate::replay::{ReplayError, Setting, calibrate};

/// Returns the number of candidates that keep all processors busy; each is played with this many traces.
pub(super) fn ahead(traces: usize) -> usize {
    processors().div_ceil(traces.max(1))
}

/// Returns the quality of the fit for each trace, by candidate.
pub(super) fn play_all(
    traced: &[Traced<'_>],
    candidates: &[Costs],
) -> Vec<Result<Vec<Fit>, ReplayError>> {
    let all = candidates.len() * traced.len();
    let played = parallel::map(processors(), all, |number| {
        let of = &traced[number % traced.len()];
        play(of, candidates[number / traced.len()])
    });
    let mut played = played.into_iter();
    let each = candidates.iter();
    each.map(|_| played.by_ref().take(traced.len()).collect())
        .collect()
}

fn play(traced: &Traced<'_>, costs: Costs) -> Result<Fit, ReplayError> {
    let setting = Setting {
        costs,
        ..traced.setting.clone()
    };
    let calibration = calibrate(traced.program, &setting)?;
    Ok(calibration.fit(traced.program))
}
