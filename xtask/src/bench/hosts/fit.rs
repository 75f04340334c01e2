//! Least squares.
//!
//! Rows are weighted by the uncertainty of a measurement; insufficient rows give `None`, not a guess.
//! Called by `model`.

/// A measurement: its variables, its value, and the value's uncertainty.
pub(super) struct Measurement<const N: usize> {
    pub(super) of: [f64; N],
    pub(super) measured: f64,
    pub(super) uncertainty: f64,
}

/// The factors with which `of` approximates `measured` best, in units of its uncertainty: the normal
/// equations, solved by elimination. `None` if the rows do not determine them.
pub(super) fn least_squares<const N: usize>(rows: &[Measurement<N>]) -> Option<[f64; N]> {
    let mut matrix = [[0.0; N]; N];
    let mut right = [0.0; N];
    for row in rows {
        let weight = row.uncertainty.powi(-2);
        for i in 0..N {
            right[i] += weight * row.of[i] * row.measured;
            for (sum, of) in matrix[i].iter_mut().zip(row.of) {
                *sum += weight * row.of[i] * of;
            }
        }
    }
    eliminate(&mut matrix, &mut right)?;
    Some(std::array::from_fn(|i| right[i] / matrix[i][i]))
}

/// Gauss and Jordan's elimination with the largest pivot.
fn eliminate<const N: usize>(matrix: &mut [[f64; N]; N], right: &mut [f64; N]) -> Option<()> {
    const NOTHING: f64 = 1e-12;
    for column in 0..N {
        let size = |row: &usize| matrix[*row][column].abs();
        let pivot = (column..N).max_by(|a, b| size(a).total_cmp(&size(b)))?;
        if size(&pivot) < NOTHING {
            return None;
        }
        matrix.swap(column, pivot);
        right.swap(column, pivot);
        for row in (0..N).filter(|row| *row != column) {
            let factor = matrix[row][column] / matrix[column][column];
            let above = matrix[column];
            for (value, above) in matrix[row].iter_mut().zip(above) {
                *value -= factor * above;
            }
            right[row] -= factor * right[column];
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(a: f64, b: f64, measured: f64, uncertainty: f64) -> Measurement<3> {
        Measurement {
            of: [1.0, a, b],
            measured,
            uncertainty,
        }
    }

    #[test]
    fn what_measurements_are_made_of_is_found() {
        let made = |a: f64, b: f64| row(a, b, 30.0 + 0.5 * a + 7.0 * b, 1.0);
        let rows = [(0.0, 0.0), (50.0, 1.0), (200.0, 1.0), (200.0, 2.0)].map(|(a, b)| made(a, b));
        let found = least_squares(&rows).unwrap();
        for (found, expected) in found.iter().zip([30.0, 0.5, 7.0]) {
            assert!((found - expected).abs() < 1e-9, "{found} {expected}");
        }
    }

    #[test]
    fn what_is_less_certain_counts_less() {
        let at = |measured, uncertainty| Measurement {
            of: [1.0],
            measured,
            uncertainty,
        };
        // Weights are 1 and 1/9.
        let [mean] = least_squares(&[at(10.0, 1.0), at(20.0, 3.0)]).unwrap();
        assert!((mean - 11.0).abs() < 1e-9, "{mean}");
    }

    #[test]
    fn rows_that_do_not_tell_have_no_answer() {
        let same = [0, 1, 2, 3].map(|_| row(5.0, 1.0, 40.0, 1.0));
        assert_eq!(least_squares(&same), None);
    }
}
