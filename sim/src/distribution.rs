//! Random lengths of time with a given mean.
//!
//! The same seed gives the same lengths on every host: logarithms and powers use only additions, multiplications
//! and divisions, which IEEE 754 defines exactly, while results of a host's mathematics library may differ in the
//! last bit. Used for sporadic events, such as detours of a processor.

use serde::{Deserialize, Serialize};

use crate::{Random, Span};

/// Limit on a length as a multiple of the mean: a Pareto distribution is unbounded.
const LONGEST: f64 = 1000.0;

/// Distribution of lengths around their mean.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Distribution {
    /// All lengths equal the mean.
    Fixed,
    /// Exponential: times between independent events.
    Exponential,
    /// Uniform from zero to twice the mean.
    Uniform,
    /// Pareto with this shape, which is above 1: few lengths are much longer than most, and longer for smaller
    /// shapes.
    Pareto(f64),
}

impl Distribution {
    /// True if the parameters are valid: the shape is from 1.01 to 1000.
    pub fn is_sound(self) -> bool {
        match self {
            Self::Pareto(shape) => (1.01..=1000.0).contains(&shape),
            Self::Fixed | Self::Exponential | Self::Uniform => true,
        }
    }

    /// Draws the next length, with the given mean. A fixed one draws no random number.
    pub fn draw(self, mean: Span, random: &mut Random) -> Span {
        let times = match self {
            Self::Fixed => return mean,
            Self::Exponential => -logarithm(chance(random)),
            Self::Uniform => 2.0 * (1.0 - chance(random)),
            Self::Pareto(shape) => {
                let least = (shape - 1.0) / shape;
                least * exponential(-logarithm(chance(random)) / shape)
            }
        };
        // A float of a picosecond count is exact up to 2.5 hours, and rounded above.
        Span::from_ps((times.min(LONGEST) * mean.as_ps() as f64) as u64)
    }
}

/// A number above 0 and up to 1, uniform over the multiples of 2^-53.
fn chance(random: &mut Random) -> f64 {
    const PARTS: f64 = (1_u64 << 53) as f64;
    ((random.next_u64() >> 11) + 1) as f64 / PARTS
}

/// The natural logarithm of a positive normal number.
fn logarithm(value: f64) -> f64 {
    const MANTISSA: u64 = (1 << 52) - 1;
    let bits = value.to_bits();
    let mut exponent = (bits >> 52) as i32 - 1023;
    let mut part = f64::from_bits(bits & MANTISSA | 1.0_f64.to_bits());
    if part > std::f64::consts::SQRT_2 {
        part /= 2.0;
        exponent += 1;
    }
    // ln x = 2 artanh((x - 1) / (x + 1)), whose series is short here: the ratio is below 0.172.
    let ratio = (part - 1.0) / (part + 1.0);
    let square = ratio * ratio;
    let terms = (0..11).rev().map(|term| 1.0 / f64::from(2 * term + 1));
    let series = terms.fold(0.0, |sum, term| sum * square + term);
    f64::from(exponent) * std::f64::consts::LN_2 + 2.0 * ratio * series
}

/// e to the power of a number from 0 to 100.
fn exponential(value: f64) -> f64 {
    let halvings = (value / std::f64::consts::LN_2).floor();
    let rest = value - halvings * std::f64::consts::LN_2;
    let series = (1..20)
        .rev()
        .fold(1.0, |sum, term| 1.0 + rest * sum / f64::from(term));
    let mut power = series;
    for _ in 0..halvings.clamp(0.0, 200.0) as u32 {
        power *= 2.0;
    }
    power
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Seed;

    const MEAN: Span = Span::from_us(10);

    fn drawn(distribution: Distribution, seed: u64) -> Vec<u64> {
        let mut random = Random::new(Seed(seed), "test", 0);
        (0..100_000)
            .map(|_| distribution.draw(MEAN, &mut random).as_ps())
            .collect()
    }

    fn mean(lengths: &[u64]) -> f64 {
        lengths.iter().sum::<u64>() as f64 / lengths.len() as f64 / MEAN.as_ps() as f64
    }

    #[test]
    fn logarithms_and_powers_are_those_of_the_library() {
        let close = |one: f64, other: f64| (one - other).abs() <= 4e-15 * other.abs().max(1.0);
        for step in 1..4000 {
            let value = f64::from(step) / 4000.0;
            assert!(close(logarithm(value), value.ln()), "{value}");
            let power = 36.8 * value;
            let ratio = exponential(power) / power.exp();
            assert!((ratio - 1.0).abs() < 2e-14, "{power}: {ratio}");
        }
        assert!(close(
            logarithm(1.0 / (1_u64 << 53) as f64),
            -53.0 * 2f64.ln()
        ));
        assert_eq!(logarithm(1.0), 0.0);
    }

    #[test]
    fn lengths_have_the_mean_and_the_spread_of_their_distribution() {
        for (distribution, longest) in [
            (Distribution::Exponential, 30.0),
            (Distribution::Uniform, 2.0),
            (Distribution::Pareto(2.5), LONGEST),
        ] {
            let lengths = drawn(distribution, 3);
            let mean = mean(&lengths);
            assert!((0.98..1.02).contains(&mean), "{distribution:?}: {mean}");
            let most = *lengths.iter().max().unwrap() as f64 / MEAN.as_ps() as f64;
            assert!(most <= longest && most > 1.9, "{distribution:?}: {most}");
        }
        assert!(
            drawn(Distribution::Fixed, 3)
                .iter()
                .all(|one| *one == MEAN.as_ps())
        );
        let below = |lengths: Vec<u64>, part: f64| {
            let limit = (part * MEAN.as_ps() as f64) as u64;
            lengths.iter().filter(|one| **one < limit).count() as f64 / lengths.len() as f64
        };
        // A share of 1 - 1/e of exponential lengths is below the mean, and no Pareto length is below the minimum.
        let share = below(drawn(Distribution::Exponential, 4), 1.0);
        assert!((0.622..0.642).contains(&share), "{share}");
        assert_eq!(below(drawn(Distribution::Pareto(2.5), 4), 0.599), 0.0);
    }

    #[test]
    fn a_seed_gives_the_same_lengths_and_another_one_others() {
        let of = |seed| drawn(Distribution::Pareto(1.5), seed);
        assert_eq!(of(1), of(1));
        assert_ne!(of(1), of(2));
        // Exactly equal on any host.
        let first = &drawn(Distribution::Exponential, 1)[..3];
        assert_eq!(first, FIRST_OF_SEED_1);
    }

    const FIRST_OF_SEED_1: [u64; 3] = [4_715_346, 485_870, 5_712_399];

    #[test]
    fn shapes_without_a_mean_are_refused() {
        for (shape, sound) in [(1.0, false), (0.5, false), (f64::NAN, false), (1.5, true)] {
            assert_eq!(Distribution::Pareto(shape).is_sound(), sound, "{shape}");
        }
    }
}
