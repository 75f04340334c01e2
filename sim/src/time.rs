//! Virtual time in whole picoseconds, and its relation to processor cycles.
//!
//! Arithmetic saturates and never wraps. Cycles and times are converted with integers: a cycle's time is
//! rounded down, a time's cycle up. Used by all parts that have a clock.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};

use serde::{Deserialize, Serialize};

use crate::figures;

const PS_PER_S: u128 = 1_000_000_000_000;

/// A point in virtual time: picoseconds since the cluster's start. Reaches 213 days.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Time(u64);

/// A length of virtual time in picoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Span(u64);

impl Time {
    /// The start of the simulation.
    pub const ZERO: Self = Self(0);
    /// The end of representable time; no event is there.
    pub const MAX: Self = Self(u64::MAX);

    /// The point `ps` picoseconds after the start.
    pub const fn from_ps(ps: u64) -> Self {
        Self(ps)
    }

    /// Picoseconds since the start.
    pub const fn as_ps(self) -> u64 {
        self.0
    }

    /// Seconds since the start, for display.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e12
    }

    /// The span from `earlier` to here; zero when `earlier` is later.
    pub const fn since(self, earlier: Self) -> Span {
        Span(self.0.saturating_sub(earlier.0))
    }
}

impl Span {
    /// No time.
    pub const ZERO: Self = Self(0);
    /// The longest span; sums saturate at it.
    pub const MAX: Self = Self(u64::MAX);

    /// `ps` picoseconds.
    pub const fn from_ps(ps: u64) -> Self {
        Self(ps)
    }

    /// `ns` nanoseconds, saturating.
    pub const fn from_ns(ns: u64) -> Self {
        Self(ns.saturating_mul(1_000))
    }

    /// `us` microseconds, saturating.
    pub const fn from_us(us: u64) -> Self {
        Self(us.saturating_mul(1_000_000))
    }

    /// `ms` milliseconds, saturating.
    pub const fn from_ms(ms: u64) -> Self {
        Self(ms.saturating_mul(1_000_000_000))
    }

    /// Picoseconds.
    pub const fn as_ps(self) -> u64 {
        self.0
    }

    /// Seconds, for display.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e12
    }

    /// The time of a transfer of `bytes` bytes at `bits_per_second`, rounded up to a whole picosecond;
    /// saturating. A rate of zero yields the longest span.
    pub fn of_transfer(bytes: u64, bits_per_second: u64) -> Self {
        if bits_per_second == 0 {
            return Self(u64::MAX);
        }
        // The bits of a frame fit a word, and a 128-bit division takes several times as long as a 64-bit one.
        const PS_PER_BYTE: u64 = 8 * PS_PER_S as u64;
        if let Some(bits) = bytes.checked_mul(PS_PER_BYTE) {
            return Self(bits.div_ceil(bits_per_second));
        }
        let ps = (u128::from(bytes) * 8 * PS_PER_S).div_ceil(u128::from(bits_per_second));
        Self(u64::try_from(ps).unwrap_or(u64::MAX))
    }
}

impl Add<Span> for Time {
    type Output = Self;
    fn add(self, span: Span) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl AddAssign<Span> for Time {
    fn add_assign(&mut self, span: Span) {
        *self = *self + span;
    }
}

impl Add for Span {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Span {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Span(self.0).fmt(f)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&figures::time(self.0))
    }
}

/// A clock rate in hertz, never zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct Frequency {
    hz: u64,
    /// This number of cycles ...
    cycles: u64,
    /// ... takes this number of picoseconds, in lowest terms: conversions for short turns are so frequent that
    /// a 128-bit division would be noticeable.
    ps: u64,
}

impl Frequency {
    /// A clock of `hz` hertz; `None` for zero.
    pub const fn from_hz(hz: u64) -> Option<Self> {
        if hz == 0 {
            return None;
        }
        let common = greatest_common_divisor(hz, PS_PER_S as u64);
        Some(Self {
            hz,
            cycles: hz / common,
            ps: PS_PER_S as u64 / common,
        })
    }

    /// Hertz.
    pub const fn as_hz(self) -> u64 {
        self.hz
    }

    /// The time at which cycle number `cycles` begins, rounded down to a picosecond.
    pub fn time_of(self, cycles: u64) -> Time {
        if let Some(product) = cycles.checked_mul(self.ps) {
            return Time(product / self.cycles);
        }
        let ps = u128::from(cycles) * u128::from(self.ps) / u128::from(self.cycles);
        Time(u64::try_from(ps).unwrap_or(u64::MAX))
    }

    /// The first cycle that begins at `time` or later:
    /// `time_of(cycle_at(t)) >= t`, and no smaller cycle satisfies it.
    pub fn cycle_at(self, time: Time) -> u64 {
        if let Some(product) = time.0.checked_mul(self.cycles) {
            return product.div_ceil(self.ps);
        }
        let cycles = (u128::from(time.0) * u128::from(self.cycles)).div_ceil(u128::from(self.ps));
        u64::try_from(cycles).unwrap_or(u64::MAX)
    }
}

/// The greatest common divisor, by Euclid's algorithm; the other number if one is zero.
pub const fn greatest_common_divisor(one: u64, other: u64) -> u64 {
    if other == 0 {
        one
    } else {
        greatest_common_divisor(other, one % other)
    }
}

impl TryFrom<u64> for Frequency {
    type Error = &'static str;
    fn try_from(hz: u64) -> Result<Self, Self::Error> {
        Self::from_hz(hz).ok_or("a clock rate cannot be zero")
    }
}

impl From<Frequency> for u64 {
    fn from(frequency: Frequency) -> Self {
        frequency.hz
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cycles_and_time_agree_at_an_awkward_rate() {
        let clock = Frequency::from_hz(2_600_000_000).unwrap();
        for cycles in [0, 1, 2, 3, 12, 13, 999_999_999, 7_000_000_000_001] {
            let time = clock.time_of(cycles);
            assert!(clock.cycle_at(time) <= cycles);
            let next = time + Span::from_ps(1);
            assert!(clock.time_of(clock.cycle_at(next)) >= next);
        }
    }

    #[test]
    fn short_and_long_divisions_agree() {
        for hz in [1, 999_999_937, 2_000_000_000, 2_600_000_000, 3_141_592_653] {
            let clock = Frequency::from_hz(hz).unwrap();
            let mut value = 1u64;
            while value < u64::MAX / 3 {
                let ps = u128::from(value) * PS_PER_S / u128::from(hz);
                assert_eq!(clock.time_of(value).0, ps.min(u64::MAX.into()) as u64);
                let cycles = (u128::from(value) * u128::from(hz)).div_ceil(PS_PER_S);
                let cycles = cycles.min(u64::MAX.into()) as u64;
                assert_eq!(clock.cycle_at(Time(value)), cycles);
                value = value * 3 / 2 + 1;
            }
        }
    }

    #[test]
    fn a_transfer_takes_bits_over_rate_rounded_up() {
        assert_eq!(
            Span::of_transfer(1_500, 10_000_000_000),
            Span::from_ns(1_200)
        );
        assert_eq!(Span::of_transfer(1, 3_000_000_000_000), Span::from_ps(3));
        assert_eq!(Span::of_transfer(1, 0).as_ps(), u64::MAX);
    }
}
