//! Distributions of values around their function.
//!
//! Used by `learn` and by `generate`.

use serde::{Deserialize, Serialize};

use super::{EvaluationPoint, NOISE, Sample, Values};

/// The distribution of values around their function. A rank with a late value makes others wait, so a mean alone is too
/// optimistic.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread(
    /// Quantiles of values divided by the function's; empty if all values are the same.
    Vec<f64>,
);

/// Number of quantiles of a spread.
const QUANTILES: usize = 64;

impl Spread {
    /// Returns the distribution of these samples around `values`.
    pub(crate) fn of(samples: &[Sample], values: &Values) -> Self {
        let ratio = |it: &Sample| {
            let said = values.at(EvaluationPoint {
                ranks: it.ranks,
                size: it.size,
                instance: it.instance,
                turn: it.turn,
                place: it.place,
            });
            (said > 0.0).then_some(it.value / said)
        };
        let mut ratios: Vec<f64> = samples.iter().filter_map(ratio).collect();
        ratios.sort_by(f64::total_cmp);
        let sum: f64 = ratios.iter().sum();
        let ends = ratios.first().zip(ratios.last());
        if ends.is_none_or(|(least, most)| most - least < NOISE) || sum <= 0.0 {
            return Self::default();
        }
        let parts = QUANTILES.min(ratios.len());
        // Each part's mean, so that the overall mean is the samples'.
        let part = |at: usize| {
            let own = &ratios[at * ratios.len() / parts..(at + 1) * ratios.len() / parts];
            own.iter().sum::<f64>() / own.len() as f64
        };
        let all: Vec<f64> = (0..parts).map(part).collect();
        let mean = all.iter().sum::<f64>() / parts as f64;
        Self(all.iter().map(|it| it / mean).collect())
    }

    /// Returns the value divided by the function's for this number: deterministic, with all quantiles equally likely.
    pub(crate) fn at(&self, number: u64) -> f64 {
        // The finalizer of SplitMix64 (Steele, Lea and Flood 2014).
        let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^= mixed >> 31;
        let at = ((u128::from(mixed) * self.0.len() as u128) >> 64) as usize;
        self.0.get(at).copied().unwrap_or(1.0)
    }
}
