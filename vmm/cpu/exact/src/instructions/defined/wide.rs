//! Numbers of 128 significant bits for computing the x87's functions. They suffice to round results
//! to 64 bits as if they were exact, except for about one in 2^50.
//!
//! Operations use integers and truncate, so they are the same on every host.

use std::cmp::Ordering;

/// A number: its sign, and `mantissa * 2^(exponent - 127)`, where the mantissa has its top bit set,
/// or is zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wide {
    pub negative: bool,
    pub exponent: i32,
    pub mantissa: u128,
}

impl Wide {
    pub(crate) const ZERO: Self = Self {
        negative: false,
        exponent: 0,
        mantissa: 0,
    };
    pub(crate) const ONE: Self = Self {
        negative: false,
        exponent: 0,
        mantissa: 1 << 127,
    };

    /// The largest number below one.
    pub(crate) const BELOW_ONE: Self = Self {
        negative: false,
        exponent: -1,
        mantissa: u128::MAX,
    };

    /// `integer * 2^exponent`.
    pub(crate) fn scaled(integer: u128, exponent: i32) -> Self {
        if integer == 0 {
            return Self::ZERO;
        }
        let zeros = integer.leading_zeros();
        Self {
            negative: false,
            exponent: exponent + 127 - zeros as i32,
            mantissa: integer << zeros,
        }
    }

    pub(crate) fn integer(value: i64) -> Self {
        Self {
            negative: value < 0,
            ..Self::scaled(u128::from(value.unsigned_abs()), 0)
        }
    }

    pub(crate) fn is_zero(self) -> bool {
        self.mantissa == 0
    }

    pub(crate) fn negated(self) -> Self {
        Self {
            negative: !self.negative,
            ..self
        }
    }

    pub(crate) fn magnitude(self) -> Self {
        Self {
            negative: false,
            ..self
        }
    }

    /// A slightly larger magnitude: sets the last bit, which must be clear.
    pub(crate) fn above(self) -> Self {
        Self {
            mantissa: self.mantissa | 1,
            ..self
        }
    }

    /// Restores "less than one" for a number that was below one before truncation.
    pub(crate) fn below_one(self) -> Self {
        if self == Self::ONE {
            Self::BELOW_ONE
        } else {
            self
        }
    }

    /// Compares without signs.
    pub(crate) fn compare_magnitude(self, other: Self) -> Ordering {
        match (self.is_zero(), other.is_zero()) {
            (true, true) => Ordering::Equal,
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            _ => (self.exponent, self.mantissa).cmp(&(other.exponent, other.mantissa)),
        }
    }

    pub(crate) fn times(self, other: Self) -> Self {
        if self.is_zero() || other.is_zero() {
            return Self::ZERO;
        }
        let high = high_product(self.mantissa, other.mantissa);
        let shift = high.leading_zeros();
        Self {
            negative: self.negative != other.negative,
            exponent: self.exponent + other.exponent + 1 - shift as i32,
            // The bit that is shifted in is truncated: all errors here are of that size.
            mantissa: high << shift,
        }
    }

    /// The quotient by a small number.
    pub(crate) fn over(self, divisor: u32) -> Self {
        let divisor = u128::from(divisor);
        let quotient = self.mantissa / divisor;
        let rest = self.mantissa % divisor;
        let zeros = quotient.leading_zeros();
        if quotient == 0 {
            return Self::ZERO;
        }
        // The divisor has at most 32 bits, and so has the remainder.
        let below = (rest << zeros) / divisor;
        Self {
            exponent: self.exponent - zeros as i32,
            mantissa: quotient << zeros | below,
            ..self
        }
    }

    /// The quotient by a nonzero number.
    pub(crate) fn divided_by(self, divisor: Self) -> Self {
        if self.is_zero() {
            return Self::ZERO;
        }
        let mut rest = self.mantissa;
        let mut exponent = self.exponent - divisor.exponent;
        let mut carry = false;
        if rest < divisor.mantissa {
            carry = rest >> 127 == 1;
            rest <<= 1;
            exponent -= 1;
        }
        let mut quotient = 0u128;
        for _ in 0..128 {
            quotient <<= 1;
            if carry || rest >= divisor.mantissa {
                rest = rest.wrapping_sub(divisor.mantissa);
                quotient |= 1;
            }
            carry = rest >> 127 == 1;
            rest <<= 1;
        }
        Self {
            negative: self.negative != divisor.negative,
            exponent,
            mantissa: quotient,
        }
    }

    pub(crate) fn plus(self, other: Self) -> Self {
        let (large, small) = match self.compare_magnitude(other) {
            Ordering::Less => (other, self),
            _ => (self, other),
        };
        if small.is_zero() {
            return large;
        }
        let apart = large.exponent.abs_diff(small.exponent);
        let aligned = small.mantissa.checked_shr(apart).unwrap_or(0);
        if large.negative != small.negative {
            let difference = Self::scaled(large.mantissa - aligned, large.exponent - 127);
            return Self {
                negative: large.negative,
                ..difference
            };
        }
        let (sum, carries) = large.mantissa.overflowing_add(aligned);
        let (mantissa, exponent) = if carries {
            (sum >> 1 | 1 << 127, large.exponent + 1)
        } else {
            (sum, large.exponent)
        };
        Self {
            negative: large.negative,
            exponent,
            mantissa,
        }
    }

    pub(crate) fn minus(self, other: Self) -> Self {
        self.plus(other.negated())
    }
}

/// The upper half of the product.
fn high_product(a: u128, b: u128) -> u128 {
    const LOW: u128 = u64::MAX as u128;
    let (a_high, a_low) = (a >> 64, a & LOW);
    let (b_high, b_low) = (b >> 64, b & LOW);
    let (first, second) = (a_high * b_low, a_low * b_high);
    let carry = ((a_low * b_low) >> 64) + (first & LOW) + (second & LOW);
    a_high * b_high + (first >> 64) + (second >> 64) + (carry >> 64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arithmetic_is_exact_where_it_can_be() {
        let number = Wide::integer;
        assert_eq!(number(6).times(number(-7)), number(-42));
        assert_eq!(number(-42).divided_by(number(6)), number(-7));
        assert_eq!(number(-42).over(6), number(-7));
        assert_eq!(number(5).plus(number(-7)), number(-2));
        assert_eq!(number(1 << 40).minus(number(1)), number((1 << 40) - 1));
        assert_eq!(number(3).minus(number(3)).mantissa, 0);
        assert_eq!(Wide::scaled(3, -1).plus(Wide::scaled(1, -1)), number(2));
    }

    #[test]
    fn quotients_are_cut_off_at_128_bits() {
        let third = Wide::ONE.divided_by(Wide::integer(3));
        assert_eq!(third.exponent, -2);
        assert_eq!(third.mantissa, 0xaaaa_aaaa_aaaa_aaaa_aaaa_aaaa_aaaa_aaaa);
        assert_eq!(Wide::ONE.over(3), third);
    }
}
