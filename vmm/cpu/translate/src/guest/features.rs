//! The available instructions: the instruction set of the guest's processor, less the parts that
//! its system has not enabled.
//!
//! `Features` follows from the instruction set and the control registers; its number is part of a
//! block's mode, so code translated under one value does not run under another. `lookup` computes
//! it when a control register changes; `analyse` and `decode` use it.

use belljar_cpu::{Feature, InstructionSet};
use bincode::{Decode, Encode};
use iced_x86::CpuidFeature as C;

use crate::architecture::{cr0, cr4, xcr0};
use crate::guest::size::{CodeSize, Nulls};

/// A set of iced's features; every instruction requires one or more.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
pub struct FeatureSet([u64; 4]);

impl FeatureSet {
    const fn of(list: &[C]) -> Self {
        let mut set = Self([0; 4]);
        let mut at = 0;
        while at < list.len() {
            let number = list[at] as usize;
            set.0[number / 64] |= 1 << (number % 64);
            at += 1;
        }
        set
    }

    const fn with(self, other: Self) -> Self {
        let ([a, b, c, d], [e, f, g, h]) = (self.0, other.0);
        Self([a | e, b | f, c | g, d | h])
    }

    fn without(self, other: Self) -> Self {
        Self(std::array::from_fn(|at| self.0[at] & !other.0[at]))
    }

    pub(crate) fn has(&self, feature: C) -> bool {
        let number = feature as usize;
        self.0[number / 64] >> (number % 64) & 1 == 1
    }

    pub(crate) fn has_all(&self, features: &[C]) -> bool {
        features.iter().all(|&feature| self.has(feature))
    }

    /// True if the set contains one of `features`.
    pub fn has_any(&self, features: &[C]) -> bool {
        features.iter().any(|&feature| self.has(feature))
    }
}

/// Features of every guest: level x86-64-v1, and RDRAND, RDSEED, RDTSCP.
const ALWAYS: FeatureSet = FeatureSet::of(&[
    C::INTEL8086,
    C::INTEL186,
    C::INTEL286,
    C::INTEL386,
    C::INTEL486,
    C::X64,
    C::CPUID,
    C::CMOV,
    C::CX8,
    C::CLFSH,
    C::FPU,
    C::FPU287,
    C::FPU387,
    C::FXSR,
    C::MMX,
    C::MSR,
    C::MULTIBYTENOP,
    C::PAUSE,
    C::RDPMC,
    C::RDRAND,
    C::RDSEED,
    C::RDTSCP,
    C::SEP,
    C::SYSCALL,
    C::SSE,
    C::SSE2,
    C::TSC,
]);

/// Features of the x87.
pub const X87: FeatureSet = FeatureSet::of(&[C::FPU, C::FPU287, C::FPU387]);

/// Features of MMX, which shares the registers of the x87.
pub(crate) const MMX: FeatureSet = FeatureSet::of(&[C::MMX]);

/// Features of instructions without VEX or EVEX that use MMX or XMM registers.
const LEGACY_VECTORS: FeatureSet = FeatureSet::of(&[
    C::SSE,
    C::SSE2,
    C::SSE3,
    C::SSSE3,
    C::SSE4_1,
    C::SSE4_2,
    C::AES,
    C::PCLMULQDQ,
    C::SHA,
    C::GFNI,
]);

/// Features of instructions that need the AVX state. AES, PCLMULQDQ and GFNI have the AVX feature
/// as well in their VEX encodings.
const AVX: FeatureSet = FeatureSet::of(&[C::AVX, C::AVX2, C::FMA, C::F16C, C::VAES, C::VPCLMULQDQ]);

/// Features of instructions that need the AVX-512 state.
const AVX512: FeatureSet = FeatureSet::of(&[
    C::AVX512F,
    C::AVX512DQ,
    C::AVX512CD,
    C::AVX512BW,
    C::AVX512VL,
    C::AVX512_IFMA,
    C::AVX512_VBMI,
    C::AVX512_VBMI2,
    C::AVX512_VNNI,
    C::AVX512_BITALG,
    C::AVX512_VPOPCNTDQ,
]);

const XSAVE: FeatureSet = FeatureSet::of(&[C::XSAVE, C::XSAVEOPT, C::XSAVEC]);

/// Features of all instructions guarded by CR0.TS.
const SWITCHED_STATE: FeatureSet = X87
    .with(FeatureSet::of(&[C::MMX, C::FXSR]))
    .with(LEGACY_VECTORS)
    .with(AVX)
    .with(AVX512)
    .with(XSAVE);

fn iced_feature(feature: Feature) -> Option<C> {
    use Feature as F;
    Some(match feature {
        F::Sse3 => C::SSE3,
        F::Ssse3 => C::SSSE3,
        F::Cmpxchg16b => C::CMPXCHG16B,
        F::Sse41 => C::SSE4_1,
        F::Sse42 => C::SSE4_2,
        F::Popcnt => C::POPCNT,
        // iced assigns LAHF in 64-bit mode to the first processor's instructions.
        F::Lahf => return None,
        F::Fma => C::FMA,
        F::Movbe => C::MOVBE,
        F::Xsave => C::XSAVE,
        F::Avx => C::AVX,
        F::F16c => C::F16C,
        F::Bmi1 => C::BMI1,
        F::Avx2 => C::AVX2,
        F::Bmi2 => C::BMI2,
        F::Lzcnt => C::LZCNT,
        F::Xsaveopt => C::XSAVEOPT,
        F::Xsavec => C::XSAVEC,
        F::Avx512f => C::AVX512F,
        F::Avx512dq => C::AVX512DQ,
        F::Avx512cd => C::AVX512CD,
        F::Avx512bw => C::AVX512BW,
        F::Avx512vl => C::AVX512VL,
        F::Aes => C::AES,
        F::Pclmulqdq => C::PCLMULQDQ,
        F::Sha => C::SHA,
        F::Adx => C::ADX,
        F::Gfni => C::GFNI,
        F::Vaes => C::VAES,
        F::Vpclmulqdq => C::VPCLMULQDQ,
        F::Avx512ifma => C::AVX512_IFMA,
        F::Avx512vbmi => C::AVX512_VBMI,
        F::Avx512vbmi2 => C::AVX512_VBMI2,
        F::Avx512vnni => C::AVX512_VNNI,
        F::Avx512bitalg => C::AVX512_BITALG,
        F::Avx512vpopcntdq => C::AVX512_VPOPCNTDQ,
    })
}

/// The width of the vector registers that a guest may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vectors {
    /// XMM0 to XMM15.
    Xmm,
    /// YMM0 to YMM15.
    Ymm,
    /// ZMM0 to ZMM31, K0 to K7.
    Zmm,
}

impl Vectors {
    /// The widest registers of `set`.
    pub fn of(set: &InstructionSet) -> Self {
        match set.state_components() {
            0..=0b11 => Self::Xmm,
            0b100..=0b111 => Self::Ymm,
            _ => Self::Zmm,
        }
    }
}

/// The state that determines the translation of given bytes. A block's mode has `fpu`, `size`,
/// `nulls`, and a number for the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Features {
    /// The processor's features.
    pub offered: FeatureSet,
    /// The features that the system has enabled.
    pub enabled: FeatureSet,
    /// True if x87 is present; otherwise it raises #NM (CR0.EM set).
    pub x87: bool,
    /// True if x87 and vectors run; otherwise they raise #NM (CR0.TS set).
    pub fpu: bool,
    /// True if LAHF and SAHF exist in 64-bit mode.
    pub lahf: bool,
    /// True if results of [`defined`](crate::defined) are the host's.
    pub host_results: bool,
    /// The kind of code; part of a block's mode.
    pub size: CodeSize,
    /// Segments that code must not access; part of a block's mode.
    pub nulls: Nulls,
}

impl Features {
    /// The features of a processor with all of `set` enabled.
    pub fn new(set: &InstructionSet) -> Self {
        let offered = set
            .features()
            .filter_map(iced_feature)
            .fold(ALWAYS, |all, feature| all.with(FeatureSet::of(&[feature])));
        Self {
            offered,
            enabled: offered,
            x87: true,
            fpu: true,
            lahf: set.has(Feature::Lahf),
            host_results: false,
            size: CodeSize::Long,
            nulls: Nulls::NONE,
        }
    }

    /// The same, with or without the host's own results.
    pub fn with_host_results(self, host_results: bool) -> Self {
        Self {
            host_results,
            ..self
        }
    }

    /// The same processor under these control registers (Intel SDM, volume 1, 13.2
    /// and 14.3; volume 3, 2.5).
    pub fn under(self, control0: u64, control4: u64, extended0: u64) -> Self {
        let mut enabled = self.offered;
        let emulated = control0 & cr0::EM != 0;
        if emulated {
            enabled = enabled.without(FeatureSet::of(&[C::MMX]));
        }
        if emulated || control4 & cr4::OSFXSR == 0 {
            enabled = enabled.without(LEGACY_VECTORS);
        }
        let managed = control4 & cr4::OSXSAVE != 0;
        if !managed {
            enabled = enabled.without(XSAVE);
        }
        if !managed || extended0 & xcr0::AVX == 0 {
            enabled = enabled.without(AVX).without(AVX512);
        }
        if extended0 & xcr0::AVX512 != xcr0::AVX512 {
            enabled = enabled.without(AVX512);
        }
        Self {
            enabled,
            x87: !emulated,
            ..self
        }
    }

    /// True if CR0.TS guards an instruction with `features`.
    pub(crate) fn is_switched(features: &[C]) -> bool {
        SWITCHED_STATE.has_any(features)
    }
}
