//! The class of an instruction's operation, by its code and its features.
//!
//! Every code has a class, which is computed once per process. `uops` refines it by the operands.

use std::sync::LazyLock;

use iced_x86::{Code, CpuidFeature as C, FlowControl, Mnemonic as M};

use crate::class::UopClass;

/// The class of `code`, whatever its operands are.
pub(crate) fn class_of(code: Code) -> UopClass {
    static CLASSES: LazyLock<Box<[UopClass]>> =
        LazyLock::new(|| Code::values().map(classify).collect());
    CLASSES[code as usize]
}

fn classify(code: Code) -> UopClass {
    let mnemonic = code.mnemonic();
    let features = code.cpuid_features();
    let has = |wanted: &[C]| features.iter().any(|feature| wanted.contains(feature));
    if let Some(class) = special(mnemonic) {
        return class;
    }
    if code.is_string_instruction() {
        return UopClass::Text;
    }
    let op_code = code.op_code();
    if op_code.is_privileged() || op_code.is_input_output() || has(SYSTEM) || is_far(code) {
        return UopClass::System;
    }
    if code.is_jcc_short_or_near() {
        return UopClass::Branch;
    }
    match code.flow_control() {
        FlowControl::Next => {}
        FlowControl::Interrupt | FlowControl::Exception | FlowControl::XbeginXabortXend => {
            return UopClass::System;
        }
        _ => return UopClass::Branch,
    }
    if has(CRYPTO) {
        return UopClass::Crypto;
    }
    if has(X87) {
        return UopClass::X87;
    }
    if features.is_empty() || has(GENERAL) {
        return UopClass::Alu;
    }
    vector(mnemonic)
}

/// Features of instructions that compute on general registers.
const GENERAL: &[C] = &[
    C::INTEL8086,
    C::INTEL8086_ONLY,
    C::INTEL186,
    C::INTEL286,
    C::INTEL386,
    C::INTEL486,
    C::X64,
    C::CMOV,
    C::CX8,
    C::CMPXCHG16B,
    C::MOVBE,
    C::BMI1,
    C::BMI2,
    C::ADX,
];

/// Features of instructions that access the system's state.
pub const SYSTEM: &[C] = &[
    C::CPUID,
    C::MSR,
    C::RDPMC,
    C::RDRAND,
    C::RDSEED,
    C::RDTSCP,
    C::TSC,
    C::SEP,
    C::SYSCALL,
    C::FXSR,
    C::XSAVE,
    C::XSAVEC,
    C::XSAVEOPT,
    C::FSGSBASE,
];

/// Features of instructions for cryptography and finite fields.
pub const CRYPTO: &[C] = &[
    C::AES,
    C::VAES,
    C::SHA,
    C::PCLMULQDQ,
    C::VPCLMULQDQ,
    C::GFNI,
];

/// Features of x87 instructions.
pub const X87: &[C] = &[C::FPU, C::FPU287, C::FPU387, C::FPU287XL_ONLY];

/// True for jumps, calls and returns that may change CS.
pub fn is_far(code: Code) -> bool {
    matches!(code.mnemonic(), M::Retf | M::Iret | M::Iretd | M::Iretq)
        || code.is_jmp_far()
        || code.is_jmp_far_indirect()
        || code.is_call_far()
        || code.is_call_far_indirect()
}

/// Instructions whose class does not follow from their features.
fn special(mnemonic: M) -> Option<UopClass> {
    Some(match mnemonic {
        M::Imul | M::Pdep | M::Pext => UopClass::Multiply,
        M::Mul | M::Mulx => UopClass::MultiplyWide,
        M::Cmovl | M::Cmovge | M::Cmovle | M::Cmovg | M::Cmova | M::Cmovbe => UopClass::Select,
        M::Div | M::Idiv | M::Aam => UopClass::Divide,
        M::Crc32 => UopClass::Crc,
        M::Shl | M::Shr | M::Sar | M::Sal | M::Rol | M::Ror | M::Rcl | M::Rcr => UopClass::Shift,
        M::Shld | M::Shrd | M::Sarx | M::Shlx | M::Shrx | M::Rorx => UopClass::Shift,
        M::Popcnt | M::Lzcnt | M::Tzcnt | M::Bsf | M::Bsr => UopClass::Shift,
        M::Bt | M::Bts | M::Btr | M::Btc | M::Bswap => UopClass::Shift,
        M::Nop | M::Endbr64 | M::Endbr32 | M::Fnop | M::Reservednop => UopClass::Nop,
        M::Prefetchnta | M::Prefetcht0 | M::Prefetcht1 | M::Prefetcht2 => UopClass::Nop,
        M::Prefetch | M::Prefetchw | M::Prefetchwt1 => UopClass::Nop,
        M::Mfence | M::Lfence | M::Sfence | M::Pause => UopClass::Fence,
        M::Popf | M::Popfd | M::Popfq | M::Cli | M::Sti | M::Ud0 | M::Ud1 | M::Ud2 => {
            UopClass::System
        }
        M::Fdiv | M::Fdivp | M::Fdivr | M::Fdivrp | M::Fidiv | M::Fidivr => UopClass::X87Divide,
        M::Fsqrt | M::Fprem | M::Fprem1 => UopClass::X87Divide,
        M::Fsin | M::Fcos | M::Fsincos | M::Fptan | M::Fpatan => UopClass::Transcendental,
        M::F2xm1 | M::Fyl2x | M::Fyl2xp1 | M::Fbld | M::Fbstp => UopClass::Transcendental,
        M::Fnsave | M::Frstor | M::Fnstenv | M::Fldenv => UopClass::System,
        M::Ldmxcsr | M::Stmxcsr | M::Vldmxcsr | M::Vstmxcsr => UopClass::X87,
        M::Movnti => UopClass::Alu,
        _ => return None,
    })
}

/// Beginnings of names of vector instructions, without a V, and their classes. The first that matches counts.
const BY_BEGINNING: &[(UopClass, &[&str])] = &[
    (UopClass::FpFma, &["fmadd", "fmsub", "fnmadd", "fnmsub"]),
    (UopClass::FpEstimate, &["rcp", "rsqrt"]),
    (UopClass::FpDivideDouble, &["div"]),
    (UopClass::FpRootDouble, &["sqrt"]),
    (UopClass::FpCompare, &["cmpp", "cmps"]),
    (
        UopClass::FpAdd,
        &["addp", "adds", "subp", "subs", "hadd", "hsub", "max", "min"],
    ),
    (
        UopClass::FpAdd,
        &["round", "rndscale", "range", "reduce", "get", "fixup"],
    ),
    (UopClass::FpMultiply, &["mulp", "muls", "scalef", "dpp"]),
    (UopClass::IntegerToFp, &["cvtsi2", "cvtusi2"]),
    (UopClass::Convert, &["cvt", "phminpos"]),
    (UopClass::ToVector, &["pinsr"]),
    (
        UopClass::FromVector,
        &["movmsk", "pmovmsk", "pextr", "extractps", "ptest", "test"],
    ),
    (UopClass::FromVector, &["pcmpestr", "pcmpistr"]),
    (
        UopClass::VectorMultiply,
        &[
            "pmul", "pmadd", "pdpb", "pdpw", "psadbw", "mpsadbw", "dbpsad",
        ],
    ),
    (UopClass::VectorShuffle, &["pshuf"]),
    (
        UopClass::VectorShift,
        &["psll", "psrl", "psra", "prol", "pror", "psh"],
    ),
    (
        UopClass::VectorShuffle,
        &[
            "movddup", "movshdup", "movsldup", "movhlps", "movlhps", "pmovzx", "pmovsx",
        ],
    ),
    (
        UopClass::VectorLogic,
        &[
            "mov", "lddqu", "and", "or", "xor", "pand", "por", "pxor", "ptern", "blend", "pblend",
        ],
    ),
];

/// Parts of names of instructions that shuffle.
const SHUFFLES: &[&str] = &[
    "unpck",
    "shuf",
    "perm",
    "pack",
    "broadcast",
    "insert",
    "extract",
    "align",
    "compress",
    "expand",
    "conflict",
];

/// The class of an instruction on vector or mask registers, by its name.
fn vector(mnemonic: M) -> UopClass {
    let name = format!("{mnemonic:?}").to_lowercase();
    if name.starts_with('k') {
        return UopClass::Mask;
    }
    let name = name.strip_prefix('v').unwrap_or(&name);
    let contains = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
    if contains(&["gather", "scatter"]) {
        return UopClass::Gather;
    }
    if contains(&["comis"]) {
        return UopClass::FpFlags;
    }
    if name.starts_with("cvt") && name.ends_with("si") {
        return UopClass::FpToInteger;
    }
    let begins =
        |(_, parts): &&(UopClass, &[&str])| parts.iter().any(|part| name.starts_with(part));
    match BY_BEGINNING.iter().find(begins) {
        Some((UopClass::FpDivideDouble, _)) if contains(&["ss", "ps"]) => UopClass::FpDivideSingle,
        Some((UopClass::FpRootDouble, _)) if contains(&["ss", "ps"]) => UopClass::FpRootSingle,
        Some(&(class, _)) => class,
        None if contains(SHUFFLES) => UopClass::VectorShuffle,
        None => UopClass::VectorInteger,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_have_the_class_of_their_operation() {
        for (code, class) in [
            (Code::Add_r64_rm64, UopClass::Alu),
            (Code::Imul_r64_rm64, UopClass::Multiply),
            (Code::Cmovg_r64_rm64, UopClass::Select),
            (Code::Cmove_r64_rm64, UopClass::Alu),
            (Code::Shl_rm64_imm8, UopClass::Shift),
            (Code::Div_rm64, UopClass::Divide),
            (Code::Jne_rel8_64, UopClass::Branch),
            (Code::Retnq, UopClass::Branch),
            (Code::Addpd_xmm_xmmm128, UopClass::FpAdd),
            (Code::VEX_Vfmadd231pd_ymm_ymm_ymmm256, UopClass::FpFma),
            (Code::Divps_xmm_xmmm128, UopClass::FpDivideSingle),
            (Code::Sqrtsd_xmm_xmmm64, UopClass::FpRootDouble),
            (Code::Pxor_xmm_xmmm128, UopClass::VectorLogic),
            (Code::Paddd_xmm_xmmm128, UopClass::VectorInteger),
            (Code::Pmulld_xmm_xmmm128, UopClass::VectorMultiply),
            (Code::Pshufd_xmm_xmmm128_imm8, UopClass::VectorShuffle),
            (Code::Psllq_xmm_imm8, UopClass::VectorShift),
            (Code::Cvtsi2sd_xmm_rm64, UopClass::IntegerToFp),
            (Code::Cvttsd2si_r64_xmmm64, UopClass::FpToInteger),
            (Code::Cvtps2pd_xmm_xmmm64, UopClass::Convert),
            (Code::Comisd_xmm_xmmm64, UopClass::FpFlags),
            (Code::Aesenc_xmm_xmmm128, UopClass::Crypto),
            (Code::Fadd_m64fp, UopClass::X87),
            (Code::Movsq_m64_m64, UopClass::Text),
            (Code::Syscall, UopClass::System),
            (Code::Rdmsr, UopClass::System),
            (Code::Iretq, UopClass::System),
            (Code::Int_imm8, UopClass::System),
            (Code::Nopd, UopClass::Nop),
            (Code::Mfence, UopClass::Fence),
            (Code::VEX_Kmovw_kr_r32, UopClass::Mask),
        ] {
            assert_eq!(class_of(code), class, "{code:?}");
        }
    }
}
