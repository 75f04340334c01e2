//! Prediction bands.
//!
//! A band contains nineteen of twenty measured values if the form is correct. With few points the form itself is uncertain: the band also contains the values of its
//! rivals. Used by `fit`.

use super::{Fitted, FittedForm, dot, valued};
use crate::fit::Form;

/// Most rivals that are kept.
const MOST_RIVALS: usize = 8;

/// Largest error of a rival form, as a multiple of the best one's.
const NEARLY: f64 = 2.0;

/// The prediction band of a measured value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Band {
    /// Its lower end.
    pub from: f64,
    /// Its upper end.
    pub to: f64,
    /// True if the value or the lower end was negative and became zero.
    pub cut: bool,
}

/// Returns forms that explain few points nearly as well as the best one.
pub(super) fn rivals(best: &FittedForm, tried: &[FittedForm]) -> Vec<(Form, Vec<f64>)> {
    let near =
        |it: &&FittedForm| it.error <= best.error * NEARLY && it.fitted.form != best.fitted.form;
    let mut near: Vec<&FittedForm> = tried.iter().filter(near).collect();
    near.sort_by(|a, b| a.error.total_cmp(&b.error));
    let near = near.into_iter().take(MOST_RIVALS);
    near.map(|it| (it.fitted.form, it.fitted.coefficients.clone()))
        .collect()
}

impl Fitted {
    /// True if its unbounded value there is negative, and became zero.
    pub fn is_cut(&self, ranks: f64, size: f64) -> bool {
        // A slightly negative value is numerical noise.
        self.above_zero && self.unbounded(ranks, size) < -1e-6
    }

    /// Returns the interval that contains a measured value with a probability of nineteen in twenty. `None` for a single point, which has no spread.
    pub fn band(&self, ranks: f64, size: f64) -> Option<Band> {
        (self.points() > 1).then_some(())?;
        let row = self.form.row(ranks, size);
        let value = dot(&self.coefficients, &row);
        let count = row.len();
        let variance: f64 = (0..count)
            .flat_map(|a| (0..count).map(move |b| (a, b)))
            .map(|(a, b)| row[a] * row[b] * self.spread.get(a * count + b).unwrap_or(&0.0))
            .sum();
        let logarithmic = self.form == Form::Exponential;
        // The spread is of relative errors, so a value's own spread is relative to it.
        let own = if logarithmic { 1.0 } else { value * value };
        let width = student(self.freedom) * self.deviation * (variance.max(0.0) + own).sqrt();
        let (mut from, mut to) = match logarithmic {
            true => ((value - width).exp(), (value + width).exp()),
            false => (value - width, value + width),
        };
        for (form, coefficients) in &self.rivals {
            let value = valued(form, coefficients, ranks, size);
            (from, to) = (from.min(value), to.max(value));
        }
        let cut = self.above_zero && from < 0.0;
        if self.above_zero {
            (from, to) = (from.max(0.0), to.max(0.0));
        }
        Some(Band { from, to, cut })
    }
}

/// Returns the 97.5 % quantile of Student's distribution with this number of degrees of freedom.
fn student(freedom: u32) -> f64 {
    const TABLE: [f64; 10] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    ];
    let exact = (freedom as usize)
        .checked_sub(1)
        .and_then(|at| TABLE.get(at));
    // Beyond the table, uses the first terms of Fisher's expansion around the normal distribution's quantile.
    exact.copied().unwrap_or_else(|| {
        let (z, n) = (1.959_964_f64, f64::from(freedom.max(1)));
        z + (z.powi(3) + z) / (4.0 * n)
    })
}
