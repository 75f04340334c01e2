//! Digests of sequences: a polynomial in each of two bases, modulo the prime 2^61 - 1 (Karp and Rabin, 1987).
//!
//! The digest of two sequences one after the other, and of a repeated sequence, follow from their digests. So equal sequences
//! have equal digests however they were built. Different ones have different digests but for a chance of about 2^-60 in each
//! base.

/// The modulus.
const PRIME: u64 = (1 << 61) - 1;
/// The bases.
const BASES: [u64; 2] = [1_000_003 * 65_537, 0x0123_4567_89ab_cdef];

/// The digest of a sequence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Digest {
    /// The number of elements.
    pub(super) length: u64,
    values: [u64; 2],
}

fn product(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other) % u128::from(PRIME);
    // A remainder below 2^61 fits.
    u64::try_from(product).unwrap_or(0)
}

fn power(base: u64, mut exponent: u64) -> u64 {
    let (mut result, mut square) = (1, base % PRIME);
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = product(result, square);
        }
        square = product(square, square);
        exponent >>= 1;
    }
    result
}

impl Digest {
    /// Returns the digest of one element.
    pub(super) fn of(code: u64) -> Self {
        // Codes are not zero, so that lengths matter.
        let value = (code % (PRIME - 1)) + 1;
        Self {
            length: 1,
            values: [value; 2],
        }
    }

    /// Returns the digest of this sequence and then another one; `None` if it has 2^64 elements or more.
    pub(super) fn then(self, next: Self) -> Option<Self> {
        let mut values = [0; 2];
        for (index, value) in values.iter_mut().enumerate() {
            let shifted = product(self.values[index], power(BASES[index], next.length));
            *value = (shifted + next.values[index]) % PRIME;
        }
        Some(Self {
            length: self.length.checked_add(next.length)?,
            values,
        })
    }

    /// Returns the digest of this sequence, repeated.
    pub(super) fn times(self, mut count: u64) -> Option<Self> {
        self.length.checked_mul(count)?;
        let (mut result, mut doubled) = (Self::default(), self);
        while count > 0 {
            if count & 1 == 1 {
                result = result.then(doubled)?;
            }
            count >>= 1;
            if count > 0 {
                doubled = doubled.then(doubled)?;
            }
        }
        Some(result)
    }
}
