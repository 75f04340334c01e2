//! Random arrivals and durations of jobs.
//!
//! All random numbers come from a seed: the same seed yields the same times. Used by readers of mixes.

use belljar_sim::Random;

use crate::job::Nanos;

/// A distribution of spans of time. Its parameters are nanoseconds, except for the shape.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Distribution {
    /// A constant.
    Constant(f64),
    /// Uniform between two values.
    Uniform {
        /// The least value, included.
        least: f64,
        /// The upper end, excluded.
        most: f64,
    },
    /// The distance of independent events.
    Exponential {
        /// Their mean distance.
        mean: f64,
    },
    /// With scale and shape: 1 is the exponential distribution, below that some values are much longer than most.
    Weibull {
        /// The scale.
        scale: f64,
        /// The shape.
        shape: f64,
    },
}

impl Distribution {
    /// Draws a span.
    pub fn draw(self, random: &mut Random) -> Nanos {
        // From 0, inclusive, to 1, exclusive.
        let chance = (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64;
        let span = match self {
            Self::Constant(span) => span,
            Self::Uniform { least, most } => least + chance * (most - least),
            Self::Exponential { mean } => -mean * (1.0 - chance).ln(),
            Self::Weibull { scale, shape } => scale * (-(1.0 - chance).ln()).powf(1.0 / shape),
        };
        span.max(0.0) as Nanos
    }

    /// True if its parameters are valid.
    pub fn is_one(self) -> bool {
        let fine = |value: f64| value.is_finite() && value >= 0.0;
        match self {
            Self::Constant(span) | Self::Exponential { mean: span } => fine(span),
            Self::Uniform { least, most } => fine(least) && fine(most) && least <= most,
            Self::Weibull { scale, shape } => fine(scale) && shape.is_finite() && shape > 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use belljar_sim::Seed;

    use super::*;

    /// Returns mean and variance of many samples.
    fn moments(distribution: Distribution) -> (f64, f64) {
        let mut random = Random::new(Seed(7), "test", 0);
        let many: Vec<f64> = (0..40_000)
            .map(|_| distribution.draw(&mut random) as f64)
            .collect();
        let mean = many.iter().sum::<f64>() / many.len() as f64;
        let squares = many.iter().map(|one| (one - mean).powi(2));
        (mean, squares.sum::<f64>() / many.len() as f64)
    }

    fn close(is: f64, should: f64) -> bool {
        (is / should - 1.0).abs() < 0.05
    }

    #[test]
    fn moments_are_those_of_the_distributions() {
        assert_eq!(moments(Distribution::Constant(5e6)), (5e6, 0.0));
        let (mean, variance) = moments(Distribution::Exponential { mean: 1e6 });
        assert!(
            close(mean, 1e6) && close(variance, 1e12),
            "{mean} {variance}"
        );
        let (mean, variance) = moments(Distribution::Uniform {
            least: 1e6,
            most: 3e6,
        });
        assert!(close(mean, 2e6) && close(variance, 4e12 / 12.0));
        // With shape 2: mean and variance are scale times gamma(1.5), and scale squared times (1 - pi / 4).
        let (mean, variance) = moments(Distribution::Weibull {
            scale: 1e6,
            shape: 2.0,
        });
        assert!(close(mean, 886_227.0), "{mean}");
        assert!(close(variance, 1e12 * 0.214_602), "{variance}");
    }

    #[test]
    fn what_is_no_distribution_is_none() {
        assert!(!Distribution::Constant(-1.0).is_one());
        assert!(!Distribution::Exponential { mean: f64::NAN }.is_one());
        let backwards = Distribution::Uniform {
            least: 2.0,
            most: 1.0,
        };
        assert!(!backwards.is_one());
        let flat = Distribution::Weibull {
            scale: 1.0,
            shape: 0.0,
        };
        assert!(!flat.is_one());
    }
}
