//! Ranks and sizes at which a function is asked for.
//!
//! A function of times, bytes or counts must not be below zero there. Called by `fit`.

use super::Fitted;

/// Errors below this are those of a count, which no noise is in.
const EXACT: f64 = 1e-9;

/// Two to this power is the largest number of ranks that a model is asked for.
const MOST_DOUBLINGS: i32 = 20;

/// Binary logarithm of the largest factor between sizes and fitted sizes.
const SIZES: i32 = 6;

/// True for a form that stays above zero, and for one that explains every point: such a count, like ranks less four, is cut at zero.
pub(super) fn allows(fitted: &Fitted, error: f64) -> bool {
    if !fitted.above_zero || error < EXACT {
        return true;
    }
    let (least, most) = fitted.size;
    // Logarithms of sizes change their sign at one.
    let floor = if least >= 1.0 { 1.0 } else { 0.0 };
    let low = (least * 2_f64.powi(-SIZES)).max(floor);
    let sizes = if least < most {
        vec![low, least, most, most * 2_f64.powi(SIZES)]
    } else {
        vec![least]
    };
    let doublings = if fitted.ranks.0 < fitted.ranks.1 {
        0..=MOST_DOUBLINGS
    } else {
        0..=0
    };
    doublings.into_iter().all(|doubling| {
        let ranks = match doubling {
            0 if fitted.ranks.0 >= fitted.ranks.1 => fitted.ranks.0,
            doubling => 2_f64.powi(doubling),
        };
        // A little below zero is noise of the calculation.
        let noise = -1e-9
            * fitted
                .coefficients
                .iter()
                .fold(0.0_f64, |most, it| most.max(it.abs()));
        sizes
            .iter()
            .all(|size| fitted.unbounded(ranks, *size) >= noise)
    })
}
