//! Functions of the number of ranks and of the problem's size, fitted to measured values.
//!
//! The forms are those of the field: constants, polynomials to the fourth order and exponentials (as in Sandia's models of breadth-first search), and the
//! performance model normal form of Extra-P (Calotoiu, Hoefler, Poke and Wolf 2013), sums of products of powers and logarithms. Errors are relative, so all fits are weighted by one
//! over the value. Which form is taken is told by cross-validation: each point is predicted from all others, and, as models are asked beyond their points, those of most ranks and those of the largest size
//! from all smaller ones.
//! Among forms that are as good the one with fewer coefficients wins. Called by whoever makes models.

/// What functions are made of.
mod form;
/// Weighted least squares.
mod squares;

pub use form::{Form, Power, Term};

use belljar_sim::figures::significant;
use serde::{Deserialize, Serialize};
use squares::Squares;

/// A value at a number of ranks and a problem's size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Ranks.
    pub ranks: f64,
    /// The problem's size, as the user counts it.
    pub size: f64,
    /// What was measured there.
    pub value: f64,
}

/// A function that was fitted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fitted {
    /// What it is made of.
    pub form: Form,
    /// What its parts are multiplied by.
    pub coefficients: Vec<f64>,
    /// By how much it is wrong at points that it was not fitted to, in the mean, relative to the values; 0 where there was one point only.
    pub error: f64,
    /// The relative standard error of the points that it was fitted to.
    pub deviation: f64,
    /// What the variance of a prediction is made of, row by row: the inverse of the normal matrix.
    spread: Vec<f64>,
    /// Points less coefficients.
    freedom: u32,
    /// The fewest and the most ranks that it was fitted to.
    pub ranks: (f64, f64),
    /// The smallest and the largest size that it was fitted to.
    pub size: (f64, f64),
}

/// Why nothing can be fitted.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FitError {
    /// There is no point.
    #[error("there is no point to fit a function to")]
    NoPoints,
    /// A value is not a finite number, or ranks or sizes are not above zero.
    #[error("point {0}, counted from 1, is no number above zero of ranks and size, with a value")]
    Impossible(usize),
}

/// Significant digits of coefficients. A double has 15, and weighted least squares lose up to three of them: columns are
/// scaled, and a matrix that would lose more is refused.
pub const DIGITS: usize = 12;
/// Relative errors below this are noise of the calculation.
const LEAST_ERROR: f64 = 1e-12;

/// How much better a form with more coefficients has to be: a share of the error of a simpler one, of few points and of several, and in any case so much.
const BETTER: (f64, f64, f64) = (0.5, 0.9, 1e-4);

/// The function that explains `points` best.
///
/// # Errors
/// [`FitError`] when there is none, or one is impossible.
pub fn fit(points: &[Point]) -> Result<Fitted, FitError> {
    fit_among(points, |_| true)
}

/// The best of the forms that `which` allows; a constant is always one.
///
/// # Errors
/// [`FitError`] when there is no point, or one is impossible.
pub fn fit_among(points: &[Point], which: impl Fn(&Form) -> bool) -> Result<Fitted, FitError> {
    if points.is_empty() {
        return Err(FitError::NoPoints);
    }
    let possible = |point: &Point| {
        let Point { ranks, size, value } = *point;
        value.is_finite() && ranks > 0.0 && size > 0.0 && ranks.is_finite() && size.is_finite()
    };
    if let Some(bad) = points.iter().position(|point| !possible(point)) {
        return Err(FitError::Impossible(bad + 1));
    }
    let mut best: Option<Fitted> = None;
    let share = match points.len() < form::SEVERAL {
        true => BETTER.0,
        false => BETTER.1,
    };
    let forms = form::candidates(points).into_iter();
    for form in forms.filter(|form| *form == Form::Constant || which(form)) {
        let Some(fitted) = fit_form(points, form) else {
            continue;
        };
        let better = best.as_ref().is_none_or(|best| {
            let less = best.coefficients.len() >= fitted.coefficients.len();
            let than = match less {
                true => best.error,
                false => (best.error * share).min(best.error - BETTER.2),
            };
            fitted.error < than
        });
        if better {
            best = Some(fitted);
        }
    }
    best.ok_or(FitError::NoPoints)
}

/// Fits one form; `None` where points do not determine it.
fn fit_form(points: &[Point], form: Form) -> Option<Fitted> {
    let rows: Vec<Vec<f64>> = points
        .iter()
        .map(|it| form.row(it.ranks, it.size))
        .collect();
    let largest = points.iter().map(|it| it.value.abs()).fold(0.0, f64::max);
    // What is far below the largest value counts as if it were that much.
    let least = if largest > 0.0 { largest * 1e-3 } else { 1.0 };
    let logarithmic = form == Form::Exponential;
    if logarithmic && points.iter().any(|it| it.value <= 0.0) {
        return None;
    }
    let weight = |point: &Point| match logarithmic {
        // Errors of logarithms are relative ones.
        true => 1.0,
        false => 1.0 / point.value.abs().max(least),
    };
    let target = |point: &Point| match logarithmic {
        true => point.value.ln(),
        false => point.value,
    };
    let weights: Vec<f64> = points.iter().map(weight).collect();
    let targets: Vec<f64> = points.iter().map(target).collect();
    let squares = Squares::solve(&rows, &targets, &weights)?;
    let range = |of: fn(&Point) -> f64| {
        let all = points.iter().map(of);
        let least = all.clone().fold(f64::INFINITY, f64::min);
        (least, all.fold(f64::NEG_INFINITY, f64::max))
    };
    let mut fitted = Fitted {
        form,
        coefficients: squares.coefficients.clone(),
        error: 0.0,
        deviation: squares.deviation,
        spread: squares.spread.clone(),
        freedom: squares.freedom,
        ranks: range(|it| it.ranks),
        size: range(|it| it.size),
    };
    let crossed = fitted.crossed(points, &rows, &targets, &squares, least)?;
    let (mut sum, mut count) = (crossed, 1.0);
    for of in [|it: &Point| it.ranks, |it: &Point| it.size] {
        if let Some(error) = beyond(points, of, form, (&rows, &targets, &weights), least) {
            sum += error;
            count += 1.0;
        }
    }
    fitted.error = sum / count;
    Some(fitted.rounded())
}

/// The mean relative error at the points with the largest of `of`, of a fit to the others. `None` where all have the same, or the others are too few.
fn beyond(
    points: &[Point],
    of: fn(&Point) -> f64,
    form: Form,
    (rows, targets, weights): (&[Vec<f64>], &[f64], &[f64]),
    least: f64,
) -> Option<f64> {
    let most = points.iter().map(of).fold(0.0, f64::max);
    let (far, near): (Vec<usize>, Vec<usize>) =
        (0..points.len()).partition(|at| of(&points[*at]) == most);
    if near.is_empty() {
        return None;
    }
    let pick = |all: &[f64]| -> Vec<f64> { near.iter().map(|at| all[*at]).collect() };
    let own: Vec<Vec<f64>> = near.iter().map(|at| rows[*at].clone()).collect();
    let Some(squares) = Squares::solve(&own, &pick(targets), &pick(weights)) else {
        // Points that are there do not say whether it holds beyond them: one that does is better.
        return (form != Form::Constant && points.len() > form.row(1.0, 1.0).len()).then_some(1.0);
    };
    let errors = far.iter().map(|at| {
        let value = dot(&squares.coefficients, &rows[*at]);
        let predicted = if form == Form::Exponential {
            value.exp()
        } else {
            value
        };
        (predicted - points[*at].value).abs() / points[*at].value.abs().max(least)
    });
    let error = errors.sum::<f64>() / far.len() as f64;
    error.is_finite().then_some(error)
}

impl Fitted {
    /// The same without the noise of its calculation: coefficients and errors have the digits that the fit knows, and
    /// errors below these are 0.
    fn rounded(mut self) -> Self {
        let numbers = self.coefficients.iter_mut().chain(&mut self.spread);
        numbers.for_each(|number| *number = significant(*number, DIGITS));
        for error in [&mut self.error, &mut self.deviation] {
            *error = match *error < LEAST_ERROR {
                true => 0.0,
                false => significant(*error, DIGITS),
            };
        }
        self
    }

    /// A function that is the same everywhere.
    pub fn constant(value: f64) -> Self {
        Self {
            form: Form::Constant,
            coefficients: vec![value],
            error: 0.0,
            deviation: 0.0,
            spread: vec![0.0],
            freedom: 0,
            ranks: (0.0, f64::INFINITY),
            size: (0.0, f64::INFINITY),
        }
    }

    /// The mean relative error at points that are left out. `None` where a point alone determines a coefficient.
    fn crossed(
        &self,
        points: &[Point],
        rows: &[Vec<f64>],
        targets: &[f64],
        squares: &Squares,
        least: f64,
    ) -> Option<f64> {
        if points.len() == 1 {
            return (self.form == Form::Constant).then_some(0.0);
        }
        let mut sum = 0.0;
        for (index, (point, row)) in points.iter().zip(rows).enumerate() {
            // The residual of a point that was left out (Allen 1974): that of the fit over one less its leverage.
            let leverage = squares.leverage(index, row);
            if leverage > 1.0 - 1e-9 {
                return None;
            }
            let residual = targets[index] - dot(&self.coefficients, row);
            let left_out = targets[index] - residual / (1.0 - leverage);
            let predicted = match self.form {
                Form::Exponential => left_out.exp(),
                _ => left_out,
            };
            let error = (predicted - point.value).abs() / point.value.abs().max(least);
            sum += error;
        }
        let mean = sum / points.len() as f64;
        mean.is_finite().then_some(mean)
    }

    /// Whether it has a coefficient for each of its parts.
    pub(crate) fn is_sound(&self) -> bool {
        let known = !matches!(self.form, Form::Polynomial { order, .. } if order > 4);
        known && self.form.row(1.0, 1.0).len() == self.coefficients.len()
    }

    /// Its value at so many ranks and that size.
    pub fn at(&self, ranks: f64, size: f64) -> f64 {
        let value = dot(&self.coefficients, &self.form.row(ranks, size));
        match self.form {
            Form::Exponential => value.exp(),
            _ => value,
        }
    }

    /// Between which values a measured one would be, of twenty nineteen times. Without points to spare it is told by the error alone.
    pub fn band(&self, ranks: f64, size: f64) -> (f64, f64) {
        let row = self.form.row(ranks, size);
        let value = dot(&self.coefficients, &row);
        let count = row.len();
        let variance: f64 = (0..count)
            .flat_map(|a| (0..count).map(move |b| (a, b)))
            .map(|(a, b)| row[a] * row[b] * self.spread.get(a * count + b).unwrap_or(&0.0))
            .sum();
        let quantile = student(self.freedom);
        let logarithmic = self.form == Form::Exponential;
        // The spread is of relative errors: a value's own is relative to it.
        let own = if logarithmic { 1.0 } else { value * value };
        let width = match self.freedom {
            0 => 2.0 * self.error * own.sqrt(),
            _ => quantile * self.deviation * (variance + own).sqrt(),
        };
        match logarithmic {
            true => ((value - width).exp(), (value + width).exp()),
            false => (value - width, value + width),
        }
    }

    /// How many times as large as the largest that it was fitted to `ranks` or `size` is, or the smallest is as they; 1 within.
    pub fn beyond(&self, ranks: f64, size: f64) -> f64 {
        let of = |value: f64, (least, most): (f64, f64)| (value / most).max(least / value).max(1.0);
        of(ranks, self.ranks).max(of(size, self.size))
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// The 97.5 % quantile of Student's distribution with so many degrees of freedom.
fn student(freedom: u32) -> f64 {
    const TABLE: [f64; 10] = [
        12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
    ];
    let exact = (freedom as usize)
        .checked_sub(1)
        .and_then(|at| TABLE.get(at));
    // Beyond the table by the first terms of Fisher's expansion around the normal distribution's quantile.
    exact.copied().unwrap_or_else(|| {
        let (z, n) = (1.959_964_f64, f64::from(freedom.max(1)));
        z + (z.powi(3) + z) / (4.0 * n)
    })
}

#[cfg(test)]
mod tests;
