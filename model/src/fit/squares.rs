//! Weighted least squares.
//!
//! Columns are first scaled to the same length, so that powers of large numbers are harmless. Used by `fit`.

use nalgebra::{DMatrix, DVector};

/// The result of a fit.
#[derive(Clone, Debug)]
pub(super) struct Squares {
    pub(super) coefficients: Vec<f64>,
    /// The inverse of the normal matrix, row by row.
    pub(super) spread: Vec<f64>,
    /// The standard error of weighted residuals.
    pub(super) deviation: f64,
    /// Number of points minus number of coefficients.
    pub(super) freedom: u32,
    weights: Vec<f64>,
}

impl Squares {
    /// Returns the coefficients with which `rows` are closest to `targets`. `None` if they are not determined.
    pub(super) fn solve(rows: &[Vec<f64>], targets: &[f64], weights: &[f64]) -> Option<Self> {
        let (points, count) = (rows.len(), rows.first()?.len());
        let freedom = points.checked_sub(count)?;
        let mut matrix = DMatrix::from_fn(points, count, |row, column| {
            rows[row][column] * weights[row]
        });
        let lengths: Vec<f64> = matrix.column_iter().map(|it| it.norm()).collect();
        if lengths.iter().any(|it| !it.is_normal()) {
            return None;
        }
        for (mut column, length) in matrix.column_iter_mut().zip(&lengths) {
            column /= *length;
        }
        let wanted = DVector::from_fn(points, |row, _| targets[row] * weights[row]);
        let normal = matrix.transpose() * &matrix;
        let factors = normal.cholesky()?;
        let diagonal = factors.l_dirty().diagonal();
        // The columns are linearly dependent, so their coefficients are not determined.
        if diagonal.iter().any(|it| *it < 1e-6) {
            return None;
        }
        let scaled = factors.solve(&(matrix.transpose() * &wanted));
        let residuals = wanted - matrix * &scaled;
        let inverse = factors.inverse();
        let spread = (0..count).flat_map(|a| (0..count).map(move |b| (a, b)));
        let spread = spread.map(|(a, b)| inverse[(a, b)] / lengths[a] / lengths[b]);
        Some(Self {
            spread: spread.collect(),
            deviation: (residuals.norm_squared() / freedom.max(1) as f64).sqrt(),
            freedom: freedom as u32,
            coefficients: scaled
                .iter()
                .zip(&lengths)
                .map(|(it, by)| it / by)
                .collect(),
            weights: weights.to_vec(),
        })
    }

    /// Returns the leverage of a point, its own share in its prediction, from 0 to 1.
    pub(super) fn leverage(&self, index: usize, row: &[f64]) -> f64 {
        let count = row.len();
        let pairs = (0..count).flat_map(|a| (0..count).map(move |b| (a, b)));
        let sum: f64 = pairs
            .map(|(a, b)| row[a] * row[b] * self.spread[a * count + b])
            .sum();
        sum * self.weights[index] * self.weights[index]
    }
}
