//! Constants of [approximate reciprocals](crate::defined::reciprocal) in memory, for translated
//! code: operands as wide as a YMM register, at fixed offsets of the context.
//!
//! They never change: `Context::mapped` fills them in, and code of `emit/approximate` reads them by
//! their offsets. They are the same tables from which the dispatcher computes.

use super::reciprocal::{Approximation, Curve, INTERVALS};

/// An operand: the same 16 bytes twice, because shuffles work within each half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(32))]
pub struct Operand([u8; 32]);

impl Operand {
    fn bytes(half: [u8; 16]) -> Self {
        Self(std::array::from_fn(|at| half[at % 16]))
    }

    fn words(word: u32) -> Self {
        Self::bytes(std::array::from_fn(|at| word.to_le_bytes()[at % 4]))
    }
}

/// Operands of both approximations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct SharedOperands {
    /// A shuffle that copies the lowest byte of each lane to all of its bytes.
    pub replicate: Operand,
    /// The bits of an interval's number, in each byte.
    pub interval: Operand,
    /// Offset of a table's second bytes.
    pub second: Operand,
    /// Position of the fraction's constant coefficient.
    pub constant: Operand,
    /// Fifteen bits.
    pub argument: Operand,
    /// The sign and the exponent.
    pub exponent: Operand,
    /// The exponent.
    pub unsigned_exponent: Operand,
    /// The first lane.
    pub first_lane: Operand,
}

/// Operands of an approximation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Own {
    /// Coefficients, split by bytes: of `a`, the higher bytes come first; of `b` and `c`, the
    /// lower.
    pub a: Operand,
    /// Of the linear coefficient.
    pub b: Operand,
    /// Of the quadratic coefficient.
    pub c: Operand,
    /// The value subtracted from an operand.
    pub lowest: Operand,
    /// The largest difference that translated code handles itself.
    pub range: Operand,
    /// The origin of the result's exponent.
    pub base: Operand,
}

impl SharedOperands {
    pub(crate) fn new() -> Self {
        let replicate = std::array::from_fn(|at| at as u8 / 4 * 4);
        Self {
            replicate: Operand::bytes(replicate),
            interval: Operand::words(0x0707_0707),
            second: Operand::words(0x0800_0800),
            constant: Operand::words(0x00ff_ff00),
            argument: Operand::words(0x7fff),
            exponent: Operand::words(0xff80_0000),
            unsigned_exponent: Operand::words(0x7f80_0000),
            first_lane: Operand(std::array::from_fn(|at| if at < 4 { 0xff } else { 0 })),
        }
    }
}

impl Own {
    pub(crate) fn new(approximation: Approximation) -> Self {
        let Curve { a, b, c } = approximation.curve();
        let (lowest, range) = approximation.usual();
        Self {
            a: planes(a.map(|word| word.swap_bytes())),
            b: planes(b.map(|word| word as u16)),
            c: planes(c.map(|word| word as u16)),
            lowest: Operand::words(lowest),
            range: Operand::words(range),
            base: Operand::words(approximation.base()),
        }
    }
}

/// The lower bytes of all words, then the higher.
fn planes(words: [u16; INTERVALS]) -> Operand {
    Operand::bytes(std::array::from_fn(|at| {
        words[at % INTERVALS].to_le_bytes()[at / INTERVALS]
    }))
}
