//! Names of bits in the architecture's registers, and of exception vectors (Intel SDM vol. 3, 2 and 6).
//!
//! Constants alone; every room uses them.

/// RFLAGS bits besides the arithmetic ones.
pub(crate) mod flag {
    pub(crate) const CF: u64 = 1;
    pub(crate) const FIXED: u64 = 1 << 1;
    pub(crate) const PF: u64 = 1 << 2;
    pub(crate) const AF: u64 = 1 << 4;
    pub(crate) const ZF: u64 = 1 << 6;
    pub(crate) const SF: u64 = 1 << 7;
    pub(crate) const TF: u64 = 1 << 8;
    pub(crate) const IF: u64 = 1 << 9;
    pub(crate) const DF: u64 = 1 << 10;
    pub(crate) const OF: u64 = 1 << 11;
    pub(crate) const IOPL: u64 = 3 << 12;
    pub(crate) const NT: u64 = 1 << 14;
    pub(crate) const RF: u64 = 1 << 16;
    pub(crate) const VM: u64 = 1 << 17;
    pub(crate) const AC: u64 = 1 << 18;
    pub(crate) const ID: u64 = 1 << 21;
    /// What POPF and its like may change besides the arithmetic flags, at level 0.
    pub(crate) const SYSTEM: u64 = TF | IF | DF | IOPL | NT | AC | ID;
}

/// CR0 bits.
pub(crate) mod cr0 {
    pub(crate) const PE: u64 = 1;
    pub(crate) const EM: u64 = 1 << 2;
    pub(crate) const TS: u64 = 1 << 3;
    pub(crate) const WP: u64 = 1 << 16;
    pub(crate) const AM: u64 = 1 << 18;
    pub(crate) const PG: u64 = 1 << 31;
}

/// CR4 bits.
pub(crate) mod cr4 {
    pub(crate) const TSD: u64 = 1 << 2;
    pub(crate) const PGE: u64 = 1 << 7;
    pub(crate) const OSFXSR: u64 = 1 << 9;
    pub(crate) const OSXMMEXCPT: u64 = 1 << 10;
    pub(crate) const OSXSAVE: u64 = 1 << 18;
}

/// XCR0 bits.
pub(crate) mod xcr0 {
    pub(crate) const X87: u64 = 1;
    pub(crate) const SSE: u64 = 1 << 1;
    pub(crate) const AVX: u64 = 1 << 2;
    /// K0 to K7, the upper halves of ZMM0 to ZMM15, ZMM16 to ZMM31: all or none.
    pub(crate) const AVX512: u64 = 7 << 5;
}

/// EFER bits.
pub(crate) mod efer {
    pub(crate) const SCE: u64 = 1;
    pub(crate) const LME: u64 = 1 << 8;
    pub(crate) const LMA: u64 = 1 << 10;
    pub(crate) const NXE: u64 = 1 << 11;
    pub(crate) const KNOWN: u64 = SCE | LME | LMA | NXE;
}

/// Exception vectors.
pub(crate) mod vector {
    pub(crate) const DIVIDE: u8 = 0;
    pub(crate) const DEBUG: u8 = 1;
    pub(crate) const NMI: u8 = 2;
    pub(crate) const INVALID_OPCODE: u8 = 6;
    pub(crate) const NO_FPU: u8 = 7;
    pub(crate) const DOUBLE_FAULT: u8 = 8;
    pub(crate) const INVALID_TASK: u8 = 10;
    pub(crate) const NOT_PRESENT: u8 = 11;
    pub(crate) const STACK: u8 = 12;
    pub(crate) const PROTECTION: u8 = 13;
    pub(crate) const PAGE: u8 = 14;
    pub(crate) const X87: u8 = 16;
    pub(crate) const ALIGNMENT: u8 = 17;
    pub(crate) const SIMD: u8 = 19;
}

/// Segment attribute bits (see [`Segment::attributes`]).
pub(crate) mod attribute {
    pub(crate) const PRESENT: u16 = 1 << 7;
    pub(crate) const LONG: u16 = 1 << 13;
    pub(crate) const BIG: u16 = 1 << 14;
}

/// Whether an address lies in the upper half.
pub(crate) fn is_above(linear: u64) -> bool {
    linear >> 63 != 0
}
