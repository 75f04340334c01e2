//! Functions of the number of ranks and of the problem's size, fitted to measured values.
//!
//! The forms are common in the field: constants, polynomials to the fourth order and exponentials (as in Sandia's models of breadth-first search). The performance model
//! normal form of Extra-P (Calotoiu, Hoefler, Poke and Wolf 2013) adds sums of products of powers and logarithms. Errors are relative, so all fits are weighted by one
//! over the value. The form is selected by cross-validation. Each point is predicted from all others. As models are used for extrapolation, the points with most ranks
//! and those with the largest size are also predicted from all smaller ones. Among equally good forms, the one with fewer coefficients wins. Used wherever models are
//! created.
//!
//! Extra-P requires five points of each parameter. With fewer points, a form is penalised for its growth. An information criterion corrected for small samples (AICc:
//! Hurvich and Tsai 1989) is undefined there, as its denominator is the points minus the coefficients minus two. Forms that explain few points nearly as well widen the
//! band. Times, bytes and counts are never negative: forms with negative values within the domain are excluded, and other negative values become zero.

/// Prediction bands.
mod band;
/// Ranks and sizes at which a function is evaluated.
mod domain;
/// Forms of functions.
mod form;
/// Weighted least squares.
mod squares;

pub use band::Band;
pub use form::{Form, Power, Term};

use belljar_sim::figures::significant;
use serde::{Deserialize, Serialize};
use squares::Squares;

/// A value at a number of ranks and a problem's size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// Number of ranks.
    pub ranks: f64,
    /// The problem's size, as the user counts it.
    pub size: f64,
    /// The measured value.
    pub value: f64,
}

/// A fitted function.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fitted {
    /// Its form.
    pub form: Form,
    /// The factors of its parts.
    pub coefficients: Vec<f64>,
    /// The mean relative error at points that it was not fitted to. `None` for a single point.
    pub error: Option<f64>,
    /// The relative standard error at the points that it was fitted to.
    pub deviation: f64,
    /// The inverse of the normal matrix, row by row, which determines the variance of a prediction.
    spread: Vec<f64>,
    /// Number of points minus number of coefficients.
    freedom: u32,
    /// The fewest and the most ranks that it was fitted to.
    pub ranks: (f64, f64),
    /// The smallest and the largest size that it was fitted to.
    pub size: (f64, f64),
    /// True if no point is negative. Values and bands are then not negative either.
    above_zero: bool,
    /// Other forms that explain few points nearly as well, with their coefficients.
    rivals: Vec<(Form, Vec<f64>)>,
    /// The points: ranks, size and value of each.
    measured: Vec<(f64, f64, f64)>,
}

/// An error in fitting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FitError {
    /// There are no points.
    #[error("there is no point to fit a function to")]
    NoPoints,
    /// A value is not a finite number, or ranks or sizes are not positive.
    #[error("point {0}, counted from 1, is no number above zero of ranks and size, with a value")]
    Impossible(usize),
}

/// Significant digits of coefficients. A double has 15, and weighted least squares lose up to three of them: columns are scaled, and a matrix that would lose more is
/// refused.
pub const DIGITS: usize = 12;
/// Relative errors below this are numerical noise.
const LEAST_ERROR: f64 = 1e-12;

/// The improvement required of a form with more coefficients: factors of a simpler one's error for few points and for several, and an absolute margin.
const BETTER: (f64, f64, f64) = (0.5, 0.9, 1e-4);

/// Returns the function that explains `points` best.
///
/// # Errors
/// Returns [`FitError`] if there are no points, or one is invalid.
pub fn fit(points: &[Point]) -> Result<Fitted, FitError> {
    fit_among(points, |_| true)
}

/// Returns the best of the forms that `which` allows; a constant is always allowed.
///
/// # Errors
/// Returns [`FitError`] if there are no points, or one is invalid.
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
    let few = points.len() < form::SEVERAL;
    let forms = form::candidates(points).into_iter();
    let forms = forms.filter(|form| *form == Form::Constant || which(form));
    let tried: Vec<FittedForm> = forms
        .filter_map(|form| fit_form(points, form))
        .filter(|trial| domain::allows(&trial.fitted, trial.error))
        .collect();
    let mut best: Option<&FittedForm> = None;
    for trial in &tried {
        if best.is_none_or(|best| trial.beats(best, few)) {
            best = Some(trial);
        }
    }
    let best = best.ok_or(FitError::NoPoints)?;
    let mut fitted = best.fitted.clone();
    fitted.error = (points.len() > 1).then_some(best.error);
    if few && best.error > LEAST_ERROR {
        fitted.rivals = band::rivals(best, &tried);
    }
    Ok(fitted.rounded())
}

/// A form that was tried.
struct FittedForm {
    fitted: Fitted,
    /// The mean relative error at points that were left out.
    error: f64,
}

impl FittedForm {
    /// Returns the number of coefficients, and for few points the cost of its growth.
    fn cost(&self, few: bool) -> usize {
        let growth = if few { self.fitted.form.growth() } else { 0 };
        self.fitted.coefficients.len() + growth
    }

    /// True if it is better than the best form so far by the margin for its cost.
    fn beats(&self, best: &Self, few: bool) -> bool {
        let more = self.cost(few).saturating_sub(best.cost(few));
        let share = if few { BETTER.0 } else { BETTER.1 };
        if few && self.cost(few) < best.cost(few) && self.error <= best.error {
            return true;
        }
        let than = match more {
            0 => best.error,
            // For few points, each step of cost requires an improvement.
            more if few => (best.error * share.powi(more as i32)).min(best.error - BETTER.2),
            _ => (best.error * share).min(best.error - BETTER.2),
        };
        self.error < than
    }
}

/// Fits one form; `None` if the points do not determine it.
fn fit_form(points: &[Point], form: Form) -> Option<FittedForm> {
    let rows: Vec<Vec<f64>> = points
        .iter()
        .map(|it| form.row(it.ranks, it.size))
        .collect();
    let largest = points.iter().map(|it| it.value.abs()).fold(0.0, f64::max);
    // Values far below the largest one are weighted as if they were this large.
    let least = if largest > 0.0 { largest * 1e-3 } else { 1.0 };
    let logarithmic = form == Form::Exponential;
    if logarithmic && points.iter().any(|it| it.value <= 0.0) {
        return None;
    }
    let weight = |point: &Point| match logarithmic {
        // Errors of logarithms are relative.
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
    let fitted = Fitted {
        form,
        coefficients: squares.coefficients.clone(),
        error: None,
        deviation: squares.deviation,
        spread: squares.spread.clone(),
        freedom: squares.freedom,
        ranks: range(|it| it.ranks),
        size: range(|it| it.size),
        above_zero: points.iter().all(|it| it.value >= 0.0),
        rivals: Vec::new(),
        measured: points
            .iter()
            .map(|it| (it.ranks, it.size, it.value))
            .collect(),
    };
    let crossed = fitted.crossed(points, &rows, &targets, &squares, least)?;
    let (mut sum, mut count) = (crossed, 1.0);
    for of in [|it: &Point| it.ranks, |it: &Point| it.size] {
        if let Some(error) = beyond(points, of, form, &rows, &targets, &weights, least) {
            sum += error;
            count += 1.0;
        }
    }
    let error = sum / count;
    let error = if error < LEAST_ERROR { 0.0 } else { error };
    Some(FittedForm { fitted, error })
}

/// Returns the mean relative error at the points with the largest `of`, for a fit to the others. `None` if all have the same, or if the others are too few.
fn beyond(
    points: &[Point],
    of: fn(&Point) -> f64,
    form: Form,
    rows: &[Vec<f64>],
    targets: &[f64],
    weights: &[f64],
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
        // The points do not show whether it holds beyond them, so a form for which they do is better.
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
    /// Removes numerical noise: rounds coefficients and errors to the precision of the fit, and errors below it to 0.
    fn rounded(mut self) -> Self {
        let numbers = self.coefficients.iter_mut().chain(&mut self.spread);
        numbers.for_each(|number| *number = significant(*number, DIGITS));
        let deviation = std::iter::once(&mut self.deviation);
        for error in self.error.iter_mut().chain(deviation) {
            *error = match *error < LEAST_ERROR {
                true => 0.0,
                false => significant(*error, DIGITS),
            };
        }
        self
    }

    /// Creates a constant function.
    pub fn constant(value: f64) -> Self {
        Self {
            form: Form::Constant,
            coefficients: vec![value],
            error: None,
            deviation: 0.0,
            spread: vec![0.0],
            freedom: 0,
            ranks: (0.0, f64::INFINITY),
            size: (0.0, f64::INFINITY),
            above_zero: value >= 0.0,
            rivals: Vec::new(),
            measured: Vec::new(),
        }
    }

    /// Returns the points that it was fitted to.
    pub fn measured(&self) -> impl Iterator<Item = Point> + '_ {
        let all = self.measured.iter();
        all.map(|(ranks, size, value)| Point {
            ranks: *ranks,
            size: *size,
            value: *value,
        })
    }

    /// Returns the number of points that it was fitted to.
    pub fn points(&self) -> usize {
        self.freedom as usize + self.coefficients.len()
    }

    /// True if it has fewer than five points, so that forms are hard to distinguish.
    pub fn is_sparse(&self) -> bool {
        self.points() < form::SEVERAL
    }

    /// Returns the mean relative error at points that are left out. `None` if a single point determines a coefficient.
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
            // The residual of a point that was left out (Allen 1974): the fit's residual divided by one minus the leverage.
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

    /// True if it has a coefficient for each of its parts.
    pub(crate) fn is_sound(&self) -> bool {
        let orders = |form: &Form| !matches!(form, Form::Polynomial { order, .. } if *order > 4);
        let known = orders(&self.form) && self.rivals.iter().all(|(form, _)| orders(form));
        let whole = |form: &Form, of: &[f64]| form.row(1.0, 1.0).len() == of.len();
        let mut rivals = self.rivals.iter();
        known && whole(&self.form, &self.coefficients) && rivals.all(|(form, of)| whole(form, of))
    }

    /// Returns its value at this number of ranks and this size; not negative if no point is.
    pub fn at(&self, ranks: f64, size: f64) -> f64 {
        let value = self.unbounded(ranks, size);
        if self.above_zero {
            value.max(0.0)
        } else {
            value
        }
    }

    /// Returns the value of its form, without a bound.
    fn unbounded(&self, ranks: f64, size: f64) -> f64 {
        valued(&self.form, &self.coefficients, ranks, size)
    }

    /// Returns the factor by which `ranks` or `size` is above the largest fitted one or below the smallest; 1 within.
    pub fn beyond(&self, ranks: f64, size: f64) -> f64 {
        let of = |value: f64, (least, most): (f64, f64)| (value / most).max(least / value).max(1.0);
        of(ranks, self.ranks).max(of(size, self.size))
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Returns the value of a form with these coefficients.
fn valued(form: &Form, coefficients: &[f64], ranks: f64, size: f64) -> f64 {
    let value = dot(coefficients, &form.row(ranks, size));
    match form {
        Form::Exponential => value.exp(),
        _ => value,
    }
}

#[cfg(test)]
mod tests;
