//! Numbers of 80 bits, the x87's register format, and rounding to them (Intel SDM, volume 1,
//! chapters 4 and 8).
//!
//! Computations use integers, so that results and exceptions are the same on every host. The
//! transcendental functions of the x87 (`system/transcendental`) are rounded with these functions.

use super::wide::Wide;

/// Bits of the status word; the control word has mask bits for the first six.
pub(crate) mod status {
    pub(crate) const INVALID: u16 = 1;
    pub(crate) const DENORMAL: u16 = 1 << 1;
    pub(crate) const ZERO_DIVIDE: u16 = 1 << 2;
    pub(crate) const OVERFLOW: u16 = 1 << 3;
    pub(crate) const UNDERFLOW: u16 = 1 << 4;
    pub(crate) const PRECISION: u16 = 1 << 5;
    pub(crate) const STACK: u16 = 1 << 6;
    pub(crate) const SUMMARY: u16 = 1 << 7;
    pub(crate) const C1: u16 = 1 << 9;
    pub(crate) const C2: u16 = 1 << 10;
    pub(crate) const BUSY: u16 = 1 << 15;
    pub(crate) const EXCEPTIONS: u16 = 0x3f;
}

const BIAS: i32 = 16383;
const LARGEST_EXPONENT: i32 = 0x7fff;
/// The exponent adjustment for unmasked overflow and underflow.
const WRAP: i32 = 24576;
const INTEGER_BIT: u64 = 1 << 63;
const QUIET_BIT: u64 = 1 << 62;

/// A register's bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extended {
    pub negative: bool,
    /// Biased.
    pub exponent: u16,
    pub mantissa: u64,
}

/// The kind of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NumberClass {
    Zero,
    Denormal,
    Normal,
    Infinity,
    QuietNan,
    SignalingNan,
    /// An invalid encoding.
    Unsupported,
}

/// The control word: rounding, and masks of exceptions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Control(pub u16);

impl Control {
    /// True if all of `exceptions` are masked.
    pub(crate) fn masks(self, exceptions: u16) -> bool {
        exceptions & status::EXCEPTIONS & !self.0 == 0
    }

    /// True if a magnitude is rounded up, given the last kept bit, the first bit after it, and
    /// whether any further bit is set.
    fn rounds_up(self, negative: bool, odd: bool, first: bool, others: bool) -> bool {
        match self.0 >> 10 & 3 {
            0 => first && (others || odd),
            1 => negative && (first || others),
            2 => !negative && (first || others),
            _ => false,
        }
    }
}

impl Extended {
    /// The default NaN.
    pub(crate) const INDEFINITE: Self = Self {
        negative: true,
        exponent: 0x7fff,
        mantissa: INTEGER_BIT | QUIET_BIT,
    };
    pub(crate) const ONE: Self = Self {
        negative: false,
        exponent: BIAS as u16,
        mantissa: INTEGER_BIT,
    };

    pub(crate) fn zero(negative: bool) -> Self {
        Self {
            negative,
            exponent: 0,
            mantissa: 0,
        }
    }

    pub(crate) fn infinity(negative: bool) -> Self {
        Self {
            negative,
            exponent: 0x7fff,
            mantissa: INTEGER_BIT,
        }
    }

    pub(crate) fn from_bytes(bytes: [u8; 10]) -> Self {
        let [m0, m1, m2, m3, m4, m5, m6, m7, low, high] = bytes;
        let word = u16::from_le_bytes([low, high]);
        Self {
            negative: word >> 15 == 1,
            exponent: word & 0x7fff,
            mantissa: u64::from_le_bytes([m0, m1, m2, m3, m4, m5, m6, m7]),
        }
    }

    pub(crate) fn to_bytes(self) -> [u8; 10] {
        let word = self.exponent | u16::from(self.negative) << 15;
        let mut bytes = [0; 10];
        bytes[..8].copy_from_slice(&self.mantissa.to_le_bytes());
        bytes[8..].copy_from_slice(&word.to_le_bytes());
        bytes
    }

    pub(crate) fn kind(self) -> NumberClass {
        let integer = self.mantissa & INTEGER_BIT != 0;
        match self.exponent {
            0 if self.mantissa == 0 => NumberClass::Zero,
            0 => NumberClass::Denormal,
            _ if !integer => NumberClass::Unsupported,
            0x7fff if self.mantissa == INTEGER_BIT => NumberClass::Infinity,
            0x7fff if self.mantissa & QUIET_BIT != 0 => NumberClass::QuietNan,
            0x7fff => NumberClass::SignalingNan,
            _ => NumberClass::Normal,
        }
    }

    /// The same NaN, quiet.
    pub(crate) fn quieted(self) -> Self {
        Self {
            mantissa: self.mantissa | QUIET_BIT,
            ..self
        }
    }

    /// The number's value; it must be zero, denormal, or normal.
    pub(crate) fn value(self) -> Wide {
        let exponent = i32::from(self.exponent.max(1)) - BIAS - 63;
        Wide {
            negative: self.negative,
            ..Wide::scaled(u128::from(self.mantissa), exponent)
        }
    }
}

/// A rounded result, and its bits of the status word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rounded {
    pub number: Extended,
    pub status: u16,
}

/// Rounds `value` to 64 bits; `inexact` is true if the exact result has further bits.
pub(crate) fn round(value: Wide, inexact: bool, control: Control) -> Rounded {
    if value.is_zero() {
        return Rounded {
            number: Extended::zero(value.negative),
            status: 0,
        };
    }
    let mut exponent = value.exponent + BIAS;
    let normal = cut(value, 0, inexact, control);
    let reached = exponent + i32::from(normal.overflows);
    let mut status = 0;
    let mut result = normal;
    if reached >= LARGEST_EXPONENT {
        status |= status::OVERFLOW;
        if control.masks(status::OVERFLOW) {
            return overflowed(value.negative, control);
        }
        exponent -= WRAP;
    } else if reached <= 0 {
        if !control.masks(status::UNDERFLOW) {
            status |= status::UNDERFLOW;
            exponent += WRAP;
        } else {
            result = cut(value, (1 - exponent) as u32, inexact, control);
            if result.inexact {
                status |= status::UNDERFLOW;
            }
            // The smallest normal number has its integer bit and an exponent of one.
            exponent = i32::from(result.mantissa & INTEGER_BIT != 0);
        }
    }
    if result.inexact {
        status |= status::PRECISION;
    }
    if result.up {
        status |= status::C1;
    }
    let mantissa = if result.overflows {
        exponent += 1;
        INTEGER_BIT
    } else {
        result.mantissa
    };
    let number = Extended {
        negative: value.negative,
        exponent: exponent.clamp(0, LARGEST_EXPONENT) as u16,
        mantissa,
    };
    Rounded { number, status }
}

struct Cut {
    mantissa: u64,
    overflows: bool,
    inexact: bool,
    up: bool,
}

/// The upper 64 bits of a mantissa after shifting it right by `shift`, rounded.
fn cut(value: Wide, shift: u32, inexact: bool, control: Control) -> Cut {
    let whole = value.mantissa.checked_shr(shift).unwrap_or(0);
    let lost = whole.checked_shl(shift).unwrap_or(0) != value.mantissa;
    let kept = (whole >> 64) as u64;
    let below = whole as u64;
    let first = below >> 63 == 1;
    let others = below << 1 != 0 || lost || inexact;
    let up = control.rounds_up(value.negative, kept & 1 == 1, first, others);
    let (mantissa, overflows) = kept.overflowing_add(u64::from(up));
    Cut {
        mantissa,
        overflows,
        inexact: first || others,
        up,
    }
}

fn overflowed(negative: bool, control: Control) -> Rounded {
    let up = control.rounds_up(negative, true, true, true);
    let number = if up {
        Extended::infinity(negative)
    } else {
        Extended {
            negative,
            exponent: 0x7ffe,
            mantissa: u64::MAX,
        }
    };
    let c1 = if up { status::C1 } else { 0 };
    Rounded {
        number,
        status: status::OVERFLOW | status::PRECISION | c1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEAREST: Control = Control(0x37f);

    fn third(exponent: i32) -> Wide {
        let third = Wide::ONE.divided_by(Wide::integer(3));
        Wide { exponent, ..third }
    }

    #[test]
    fn numbers_are_rounded_as_the_control_word_says() {
        let rounded = |control| round(third(0), false, Control(control));
        let down = 0xaaaa_aaaa_aaaa_aaaa;
        for (control, mantissa, c1) in [
            (0x37f, down + 1, status::C1),
            (0x77f, down, 0),
            (0xb7f, down + 1, status::C1),
            (0xf7f, down, 0),
        ] {
            let Rounded { number, status } = rounded(control);
            assert_eq!(number.mantissa, mantissa, "{control:#x}");
            assert_eq!(status, status::PRECISION | c1);
        }
        let exact = round(Wide::integer(-6), false, NEAREST);
        assert_eq!((exact.number.value(), exact.status), (Wide::integer(-6), 0));
    }

    #[test]
    fn what_is_too_large_or_too_small_is_told() {
        let large = round(third(16384), false, NEAREST);
        assert_eq!(large.number, Extended::infinity(false));
        assert_eq!(large.status & status::OVERFLOW, status::OVERFLOW);
        let wrapped = round(third(16384), false, Control(0x377));
        assert_eq!(wrapped.number.exponent, (16384 + BIAS - WRAP) as u16);
        let small = round(third(-16383), false, NEAREST);
        assert_eq!(
            (small.number.exponent, small.number.mantissa),
            (0, 0x5555_5555_5555_5555)
        );
        assert_eq!(small.status, status::UNDERFLOW | status::PRECISION);
        let nothing = round(third(-17000), false, NEAREST);
        assert_eq!(nothing.number, Extended::zero(false));
    }
}
