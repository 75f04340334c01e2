//! Ranks and sizes at which a function is evaluated.
//!
//! A function of times, bytes or counts must not be negative there. Used by `fit`.

use super::Fitted;

/// Errors below this indicate an exact count without noise.
const EXACT: f64 = 1e-9;

/// Binary logarithm of the largest number of ranks at which a model is evaluated.
const MOST_DOUBLINGS: i32 = 20;

/// Binary logarithm of the largest factor between sizes and fitted sizes.
const SIZES: i32 = 6;

/// True for a form that stays positive, and for one that explains every point exactly: such a count, like ranks minus four, is
/// bounded by zero.
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
        // A slightly negative value is numerical noise.
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
