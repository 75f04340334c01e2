//! Approximate reciprocals: RCPSS, RCPPS, RSQRTSS, RSQRTPS and their VEX forms.
//!
//! The result's fraction is a parabola in the operand's fraction, in one of eight intervals: of the
//! fraction for reciprocals, of the exponent's last bit and the fraction for reciprocal square
//! roots. Its coefficients have 16 bits and its argument has 15, so that vectors of words can
//! compute it without touching MXCSR. This module computes it with scalars, translated code in
//! lanes, with bit-identical results. The relative error stays below 1.5 * 2^-12, the bound in both
//! makers' manuals. Zeros and denormals give infinities, infinities and denormal results give
//! zeros, NaNs become quiet.

use std::sync::LazyLock;

use iced_x86::{Code, EncodingKind, Instruction, Mnemonic as M, OpKind};

/// The function that is approximated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Approximation {
    /// 1 / x.
    Reciprocal,
    /// 1 / √x.
    ReciprocalRoot,
}

/// Number of intervals of a curve.
pub(crate) const INTERVALS: usize = 8;

/// The result's fraction as a function of the operand's: in interval i at t, from 0 to 1, it is
/// `a[i] / 2^15 + b[i] / 2^16 * t + c[i] / 2^16 * t^2`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Curve {
    pub a: [u16; INTERVALS],
    pub b: [i16; INTERVALS],
    pub c: [i16; INTERVALS],
}

const SIGN: u32 = 1 << 31;
const INFINITY: u32 = 0x7f80_0000;
const SMALLEST_NORMAL: u32 = 1 << 23;
const QUIET: u32 = 1 << 22;
const DEFAULT_NAN: u32 = 0xffc0_0000;

impl Approximation {
    /// The number of bits below the ones that select the interval.
    pub(crate) fn interval_shift(self) -> u32 {
        match self {
            Self::Reciprocal => 20,
            Self::ReciprocalRoot => 21,
        }
    }

    /// The value subtracted from an operand, or from its exponent alone for reciprocals, and the
    /// largest difference that translated code handles itself.
    pub(crate) fn usual(self) -> (u32, u32) {
        match self {
            // Beyond it, results may be denormal.
            Self::Reciprocal => (1 << 23, 250 << 23),
            Self::ReciprocalRoot => (SMALLEST_NORMAL, INFINITY - 1 - SMALLEST_NORMAL),
        }
    }

    /// The origin of the result's exponent.
    pub(crate) fn base(self) -> u32 {
        match self {
            Self::Reciprocal => 253 << 23,
            Self::ReciprocalRoot => 189 << 23,
        }
    }

    /// The function that `curve` approximates, at `t` from 0 to 1 in an interval.
    fn fraction(self, interval: usize, t: f64) -> f64 {
        match self {
            Self::Reciprocal => 2.0 / (1.0 + (interval as f64 + t) / 8.0) - 1.0,
            Self::ReciprocalRoot => {
                let mantissa = 1.0 + ((interval % 4) as f64 + t) / 4.0;
                // Exponents have an odd bias: if the last bit is one, the exponent is a power of
                // four.
                if interval >= 4 {
                    2.0 / mantissa.sqrt() - 1.0
                } else {
                    2.0 / (2.0 * mantissa).sqrt()
                }
            }
        }
    }

    /// The parabolas through three Chebyshev nodes of each interval. All operations round by IEEE
    /// 754, so every host computes the same.
    pub(crate) fn curve(self) -> Curve {
        let mut curve = Curve {
            a: [0; INTERVALS],
            b: [0; INTERVALS],
            c: [0; INTERVALS],
        };
        let offset = 3f64.sqrt() / 4.0;
        let nodes = [0.5 - offset, 0.5, 0.5 + offset];
        for interval in 0..INTERVALS {
            let [first, second, third] = nodes.map(|t| self.fraction(interval, t));
            let slope = (second - first) / offset;
            let square = ((third - second) / offset - slope) / (2.0 * offset);
            let b = slope - square * (nodes[0] + nodes[1]);
            let a = first - (b + square * nodes[0]) * nodes[0];
            curve.a[interval] = (a * 32768.0).round() as u16;
            curve.b[interval] = (b * 65536.0).round() as i16;
            curve.c[interval] = (square * 65536.0).round() as i16;
        }
        curve
    }

    /// The approximation for the number with these bits.
    pub(crate) fn of(self, curve: &Curve, operand: u32) -> u32 {
        let (sign, magnitude) = (operand & SIGN, operand & !SIGN);
        if magnitude > INFINITY {
            return operand | QUIET;
        }
        if magnitude < SMALLEST_NORMAL {
            return sign | INFINITY;
        }
        if self == Self::ReciprocalRoot && sign != 0 {
            return DEFAULT_NAN;
        }
        if magnitude == INFINITY {
            return sign;
        }
        let result = self.normal(curve, magnitude);
        sign | if result < SMALLEST_NORMAL as i32 {
            0
        } else {
            result as u32
        }
    }

    /// For a positive normal number; below the smallest normal number if the result is denormal.
    fn normal(self, curve: &Curve, operand: u32) -> i32 {
        let shift = self.interval_shift();
        let interval = (operand >> shift) as usize % INTERVALS;
        let t = (operand >> (shift - 15) & 0x7fff) as i32;
        let square = (t * t + 0x4000) >> 15;
        let [b, c] = [curve.b, curve.c].map(|by| i32::from(by[interval]));
        let fraction = (i32::from(curve.a[interval]) << 8) + ((b * t + c * square) >> 8);
        let exponent = match self {
            Self::Reciprocal => operand & INFINITY,
            Self::ReciprocalRoot => operand >> 24 << 23,
        };
        (self.base() as i32)
            .wrapping_add(fraction)
            .wrapping_sub(exponent as i32)
    }
}

/// The approximation that an instruction computes, with operands of 32 bits and no mask.
pub fn which(instruction: &Instruction) -> Option<Approximation> {
    match instruction.mnemonic() {
        M::Rcpss | M::Rcpps | M::Vrcpss | M::Vrcpps => Some(Approximation::Reciprocal),
        M::Rsqrtss | M::Rsqrtps | M::Vrsqrtss | M::Vrsqrtps => Some(Approximation::ReciprocalRoot),
        _ => None,
    }
}

/// True if only the first lane is computed.
pub fn is_scalar(mnemonic: M) -> bool {
    matches!(mnemonic, M::Rcpss | M::Rsqrtss | M::Vrcpss | M::Vrsqrtss)
}

/// True if an instruction clears the bits above its result.
pub fn is_vex(instruction: &Instruction) -> bool {
    instruction.code().op_code().encoding() == EncodingKind::VEX
}

/// An instruction that loads an approximation's memory operand into its result register, with the
/// same faults: scalars are loaded into the first lane, and the other lanes are kept.
pub(crate) fn load_of(instruction: &Instruction) -> Instruction {
    let mut load = *instruction;
    let code = match (is_scalar(instruction.mnemonic()), is_vex(instruction)) {
        (true, false) => Code::Insertps_xmm_xmmm32_imm8,
        (true, true) => Code::VEX_Vinsertps_xmm_xmm_xmmm32_imm8,
        (false, false) => Code::Movaps_xmm_xmmm128,
        (false, true) if instruction.op0_register().is_ymm() => Code::VEX_Vmovups_ymm_ymmm256,
        (false, true) => Code::VEX_Vmovups_xmm_xmmm128,
    };
    load.set_code(code);
    match code {
        Code::Insertps_xmm_xmmm32_imm8 => load.set_op2_kind(OpKind::Immediate8),
        Code::VEX_Vinsertps_xmm_xmm_xmmm32_imm8 => load.set_op3_kind(OpKind::Immediate8),
        _ => return load,
    }
    load.set_immediate8(0);
    load
}

/// The approximation for the number with these bits.
pub fn approximate(approximation: Approximation, operand: u32) -> u32 {
    static CURVES: LazyLock<[Curve; 2]> = LazyLock::new(|| {
        [Approximation::Reciprocal, Approximation::ReciprocalRoot].map(Approximation::curve)
    });
    approximation.of(&CURVES[approximation as usize], operand)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The bound in the manuals of both makers.
    const BOUND: f64 = 1.5 / 4096.0;

    fn worst(approximation: Approximation, exponents: [u32; 2]) -> f64 {
        let curve = approximation.curve();
        let mut worst: f64 = 0.0;
        for exponent in exponents {
            for fraction in (0..1 << 23).step_by(7).chain([(1 << 23) - 1]) {
                let operand = exponent << 23 | fraction;
                let value = f64::from(f32::from_bits(operand));
                let exact = match approximation {
                    Approximation::Reciprocal => 1.0 / value,
                    Approximation::ReciprocalRoot => 1.0 / value.sqrt(),
                };
                let found = f32::from_bits(approximation.of(&curve, operand));
                worst = worst.max((f64::from(found) / exact - 1.0).abs());
            }
        }
        worst
    }

    #[test]
    fn errors_stay_within_what_manuals_allow() {
        for exponents in [[127, 128], [1, 2], [250, 251]] {
            assert!(worst(Approximation::Reciprocal, exponents) < BOUND);
        }
        for exponents in [[127, 128], [1, 2], [253, 254]] {
            assert!(worst(Approximation::ReciprocalRoot, exponents) < BOUND);
        }
    }

    #[test]
    fn what_is_no_normal_number_gives_what_the_manuals_say() {
        use Approximation::{Reciprocal, ReciprocalRoot};
        let of = |which: Approximation, operand| which.of(&which.curve(), operand);
        for (operand, reciprocal, root) in [
            (0, INFINITY, INFINITY),
            (SIGN, SIGN | INFINITY, SIGN | INFINITY),
            (1, INFINITY, INFINITY),
            (SIGN | 0x7f_ffff, SIGN | INFINITY, SIGN | INFINITY),
            (INFINITY, 0, 0),
            (SIGN | INFINITY, SIGN, DEFAULT_NAN),
            (0x7f80_0001, 0x7fc0_0001, 0x7fc0_0001),
            (0xffc0_1234, 0xffc0_1234, 0xffc0_1234),
        ] {
            assert_eq!(of(Reciprocal, operand), reciprocal, "{operand:#x}");
            assert_eq!(of(ReciprocalRoot, operand), root, "{operand:#x}");
        }
        assert_eq!(of(ReciprocalRoot, (-1f32).to_bits()), DEFAULT_NAN);
        // Denormal results.
        assert_eq!(of(Reciprocal, f32::MAX.to_bits()), 0);
        assert_eq!(of(Reciprocal, (-f32::MAX).to_bits()), SIGN);
    }

    #[test]
    fn curves_are_the_same_everywhere() {
        // A host with other tables would compute other results.
        let digest = [Approximation::Reciprocal, Approximation::ReciprocalRoot].map(|which| {
            let curve = which.curve();
            (0..INTERVALS).fold(0u64, |sum, at| {
                let words = [curve.a[at], curve.b[at] as u16, curve.c[at] as u16];
                words.into_iter().fold(sum, |sum, word| {
                    (sum ^ u64::from(word)).wrapping_mul(0x100_0000_01b3)
                })
            })
        });
        assert_eq!(digest, [0x59c1_b024_41a9_0625, 0x9ae9_cd7b_1f2e_2a6e]);
    }
}
