//! The x87's functions: sine, cosine, arc tangent, 2^x - 1, logarithm.
//!
//! Series of [`Wide`](crate::instructions::defined::wide::Wide) numbers, after reductions to small arguments. For sine and cosine pi has
//! 66 bits, as in processors of both makers (Intel SDM, volume 1, "Pi"), and the reduction by it is exact.

use std::sync::LazyLock;

use super::wide::Wide;

/// Intervals of the arc tangent's table, from 0 to 1.
const STEPS: usize = 8;
const SINE_TERMS: u32 = 16;
const POWER_TERMS: u32 = 34;
const LOGARITHM_TERMS: u32 = 26;
const ARC_TERMS: u32 = 24;

/// Half of the 66-bit pi, in units of 2^-65.
const HALF_PI: u128 = 0x3_243f_6a88_85a3_08d3;
const HALF_PI_UNIT: i32 = -65;

struct Constants {
    pi: Wide,
    ln2: Wide,
    /// Of multiples of an eighth.
    arc_tangents: [Wide; STEPS + 1],
}

static CONSTANTS: LazyLock<Constants> = LazyLock::new(|| {
    let mut arc_tangents = [Wide::ZERO; STEPS + 1];
    for at in 1..=STEPS {
        // The difference of two angles, by the tangents' addition theorem.
        let below = 64 + (at * (at - 1)) as i64;
        let step = Wide::integer(8).divided_by(Wide::integer(below));
        arc_tangents[at] = arc_tangents[at - 1].plus(small_arc_tangent(step));
    }
    Constants {
        pi: Wide {
            exponent: arc_tangents[STEPS].exponent + 2,
            ..arc_tangents[STEPS]
        },
        ln2: log_by_ratio(Wide::integer(3)),
        arc_tangents,
    }
});

/// `pi * numerator / denominator`.
pub(crate) fn part_of_pi(numerator: i64, denominator: u32) -> Wide {
    let part = Wide::integer(numerator).times(CONSTANTS.pi);
    part.over(denominator)
}

/// An angle reduced by a multiple of a quarter circle, and that multiple modulo four. `None` from 2^63 on.
fn reduced(angle: Wide) -> Option<(Wide, u32)> {
    if angle.exponent >= 63 {
        return None;
    }
    // An argument has 64 bits.
    let mantissa = angle.mantissa >> 64;
    let unit = angle.exponent - 63;
    if unit < HALF_PI_UNIT {
        // Less than a half.
        return Some((angle, 0));
    }
    let (mut rest, mut quarters) = (mantissa, 0u32);
    for _ in 0..unit - HALF_PI_UNIT {
        rest <<= 1;
        quarters <<= 1;
        if rest >= HALF_PI {
            rest -= HALF_PI;
            quarters |= 1;
        }
    }
    let mut left = Wide::scaled(rest, HALF_PI_UNIT);
    if 2 * rest > HALF_PI {
        left = Wide::scaled(HALF_PI - rest, HALF_PI_UNIT).negated();
        quarters += 1;
    }
    if angle.negative {
        return Some((left.negated(), quarters.wrapping_neg() & 3));
    }
    Some((left, quarters & 3))
}

/// Sine and cosine of an angle of at most 64 significant bits; `None` for magnitudes from 2^63 on.
pub(crate) fn sine_cosine(angle: Wide) -> Option<(Wide, Wide)> {
    let (rest, quarters) = reduced(angle)?;
    let square = rest.times(rest);
    let (mut sine, mut cosine) = (Wide::ONE, Wide::ONE);
    for term in (1..=SINE_TERMS).rev() {
        let next = square.over(2 * term * (2 * term + 1));
        sine = Wide::ONE.minus(next.times(sine));
        let next = square.over((2 * term - 1) * 2 * term);
        cosine = Wide::ONE.minus(next.times(cosine));
    }
    let (sine, cosine) = (rest.times(sine.below_one()), cosine.below_one());
    Some(match quarters {
        0 => (sine, cosine),
        1 => (cosine, sine.negated()),
        2 => (sine.negated(), cosine.negated()),
        _ => (cosine.negated(), sine),
    })
}

/// 2^x - 1 for x from -1 to 1.
pub(crate) fn power_less_one(x: Wide) -> Wide {
    let exponent = x.times(CONSTANTS.ln2);
    let sum = (2..=POWER_TERMS).rev().fold(Wide::ONE, |sum, term| {
        Wide::ONE.plus(exponent.over(term).times(sum))
    });
    exponent.times(sum)
}

/// The logarithm to base 2 of a positive number.
pub(crate) fn log2(x: Wide) -> Wide {
    // From about the square root of a half to the square root of two.
    let above = x.mantissa >> 64 > 0xb504_f333_f9de_6484;
    let part = Wide {
        negative: false,
        exponent: if above { -1 } else { 0 },
        mantissa: x.mantissa,
    };
    let whole = i64::from(x.exponent) + i64::from(above);
    let ratio = part.minus(Wide::ONE).divided_by(part.plus(Wide::ONE));
    Wide::integer(whole).plus(binary_log_of_ratio(ratio))
}

/// The logarithm to base 2 of 1 + x.
pub(crate) fn log2_of_one_plus(x: Wide) -> Wide {
    if x.exponent >= -1 {
        return log2(Wide::ONE.plus(x));
    }
    binary_log_of_ratio(x.divided_by(Wide::integer(2).plus(x)))
}

/// The logarithm to base 2 of (1 + z) / (1 - z).
fn binary_log_of_ratio(z: Wide) -> Wide {
    twice_area_tangent(z, LOGARITHM_TERMS).divided_by(CONSTANTS.ln2)
}

/// The natural logarithm of 2, by `ratio` = 3.
fn log_by_ratio(ratio: Wide) -> Wide {
    twice_area_tangent(Wide::ONE.divided_by(ratio), 45)
}

/// Twice the inverse hyperbolic tangent.
fn twice_area_tangent(z: Wide, terms: u32) -> Wide {
    let square = z.times(z);
    let sum = (0..terms).rev().fold(Wide::ZERO, |sum, term| {
        Wide::ONE.over(2 * term + 1).plus(square.times(sum))
    });
    let result = z.times(sum);
    Wide {
        exponent: result.exponent + 1,
        ..result
    }
}

/// The tangent of an angle that is not zero, as [`sine_cosine`].
pub(crate) fn tangent(angle: Wide) -> Option<Wide> {
    let (sine, cosine) = sine_cosine(angle)?;
    let tangent = sine.divided_by(cosine);
    let is_angle = (tangent.mantissa, tangent.exponent) == (angle.mantissa, angle.exponent);
    Some(if is_angle { tangent.above() } else { tangent })
}

/// The arc tangent of y / x for positive numbers.
pub(crate) fn arc_tangent(y: Wide, x: Wide) -> Wide {
    if y.compare_magnitude(x).is_gt() {
        return part_of_pi(1, 2).minus(arc_tangent(x, y));
    }
    let tangent = y.divided_by(x);
    // In eighths, rounded.
    let at = if tangent.exponent < -4 {
        0
    } else {
        let sixteenths = (tangent.mantissa >> (127 - 4 - tangent.exponent)) as usize;
        sixteenths.div_ceil(2)
    };
    let eighth = Wide::scaled(at as u128, -3);
    let rest = tangent
        .minus(eighth)
        .divided_by(Wide::ONE.plus(tangent.times(eighth)));
    CONSTANTS.arc_tangents[at].plus(small_arc_tangent(rest))
}

/// The arc tangent of a number up to an eighth.
fn small_arc_tangent(tangent: Wide) -> Wide {
    let square = tangent.times(tangent).negated();
    let sum = (0..ARC_TERMS).rev().fold(Wide::ZERO, |sum, term| {
        Wide::ONE.over(2 * term + 1).plus(square.times(sum))
    });
    tangent.times(sum.below_one())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wide(value: f64) -> Wide {
        let bits = value.abs().to_bits();
        let exponent = (bits >> 52) as i32 - 1075;
        let mantissa = u128::from(bits << 12 >> 12 | 1 << 52);
        Wide {
            negative: value < 0.0,
            ..Wide::scaled(mantissa, exponent)
        }
    }

    fn number(wide: Wide) -> f64 {
        let value = (wide.mantissa >> 64) as f64 * f64::from(wide.exponent - 63).exp2();
        if wide.negative { -value } else { value }
    }

    fn close(found: Wide, expected: f64) {
        let error = (number(found) - expected).abs() / expected.abs();
        assert!(error < 1e-15, "{} and not {expected}", number(found));
    }

    #[test]
    fn functions_agree_with_double_precision() {
        for step in 1..400 {
            let x = f64::from(step) / 200.0;
            close(log2(wide(x)), if step == 200 { continue } else { x.log2() });
            close(arc_tangent(wide(x), wide(1.25)), x.atan2(1.25));
            let (sine, cosine) = sine_cosine(wide(-x)).unwrap();
            close(sine, -x.sin());
            close(cosine, x.cos());
            if step < 200 {
                close(power_less_one(wide(-x)), (-x * 2f64.ln()).exp_m1());
                close(
                    log2_of_one_plus(wide(x / 8.0)),
                    (x / 8.0).ln_1p() / 2f64.ln(),
                );
            }
        }
    }

    #[test]
    fn constants_have_all_their_bits() {
        // Digits of pi / 4 and ln 2, from their binary expansions.
        let quarter = CONSTANTS.arc_tangents[STEPS].mantissa >> 12;
        assert_eq!(quarter, 0xc90f_daa2_2168_c234_c4c6_628b_80dc_1cd1 >> 12);
        assert_eq!(
            CONSTANTS.ln2.mantissa >> 12,
            0xb172_17f7_d1cf_79ab_c9e3_b398_03f2_f6af >> 12
        );
    }

    #[test]
    fn angles_are_reduced_by_66_bits_of_pi() {
        // The multiple of that pi nearest to 2^62 leaves an exact remainder.
        let angle = Wide::scaled(1, 62);
        let (rest, _) = reduced(angle).unwrap();
        assert!(rest.exponent < 0);
        assert!(reduced(Wide::scaled(1, 63)).is_none());
        let (rest, quarters) = reduced(Wide::scaled(HALF_PI >> 2, -63)).unwrap();
        assert!(rest.exponent < -60, "{rest:?}");
        assert_eq!(quarters, 1);
    }
}
