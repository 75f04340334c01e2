//! Bits of the architecture's registers, and exception vectors (Intel SDM vol. 3, 2 and 6).
//!
//! Only constants; all modules use them.

/// RFLAGS bits besides the arithmetic ones.
pub mod flag {
    /// Carry.
    pub const CF: u64 = 1;
    /// Always set.
    pub const FIXED: u64 = 1 << 1;
    /// Parity.
    pub const PF: u64 = 1 << 2;
    /// Auxiliary carry.
    pub const AF: u64 = 1 << 4;
    /// Zero.
    pub const ZF: u64 = 1 << 6;
    /// Sign.
    pub const SF: u64 = 1 << 7;
    /// Single step.
    pub const TF: u64 = 1 << 8;
    /// Interrupts are enabled.
    pub const IF: u64 = 1 << 9;
    /// String instructions go downward.
    pub const DF: u64 = 1 << 10;
    /// Overflow.
    pub const OF: u64 = 1 << 11;
    /// The lowest privilege level for input and output.
    pub const IOPL: u64 = 3 << 12;
    /// Nested task.
    pub const NT: u64 = 1 << 14;
    /// The next instruction ignores breakpoints.
    pub const RF: u64 = 1 << 16;
    /// Virtual-8086 mode.
    pub const VM: u64 = 1 << 17;
    /// User accesses must be aligned.
    pub const AC: u64 = 1 << 18;
    pub(crate) const ID: u64 = 1 << 21;
    /// The flags that POPF and similar instructions may change besides the arithmetic flags, at level
    /// 0.
    pub const SYSTEM: u64 = TF | IF | DF | IOPL | NT | AC | ID;
}

/// CR0 bits.
pub mod cr0 {
    /// Protected mode.
    pub const PE: u64 = 1;
    pub(crate) const EM: u64 = 1 << 2;
    /// The x87 and vectors raise #NM.
    pub const TS: u64 = 1 << 3;
    /// The supervisor respects read-only pages.
    pub const WP: u64 = 1 << 16;
    /// RFLAGS.AC takes effect.
    pub const AM: u64 = 1 << 18;
    /// Paging.
    pub const PG: u64 = 1 << 31;
}

/// CR4 bits.
pub mod cr4 {
    /// RDTSC is privileged.
    pub const TSD: u64 = 1 << 2;
    /// Global pages are enabled.
    pub const PGE: u64 = 1 << 7;
    pub(crate) const OSFXSR: u64 = 1 << 9;
    /// SSE exceptions raise #XM.
    pub const OSXMMEXCPT: u64 = 1 << 10;
    /// XSAVE is enabled.
    pub const OSXSAVE: u64 = 1 << 18;
}

/// XCR0 bits.
pub mod xcr0 {
    /// The x87.
    pub const X87: u64 = 1;
    /// XMM registers and MXCSR.
    pub const SSE: u64 = 1 << 1;
    /// Upper halves of YMM registers.
    pub const AVX: u64 = 1 << 2;
    /// K0 to K7, the upper halves of ZMM0 to ZMM15, ZMM16 to ZMM31: enabled together.
    pub const AVX512: u64 = 7 << 5;
}

/// EFER bits.
pub mod efer {
    /// SYSCALL is enabled.
    pub const SCE: u64 = 1;
    /// Paging enables long mode.
    pub const LME: u64 = 1 << 8;
    /// Long mode is active.
    pub const LMA: u64 = 1 << 10;
    /// Pages can be non-executable.
    pub const NXE: u64 = 1 << 11;
    /// All bits that a guest may set.
    pub const KNOWN: u64 = SCE | LME | LMA | NXE;
}

/// Exception vectors.
pub mod vector {
    /// #DE.
    pub const DIVIDE: u8 = 0;
    /// #DB.
    pub const DEBUG: u8 = 1;
    /// The non-maskable interrupt.
    pub const NMI: u8 = 2;
    /// #UD.
    pub const INVALID_OPCODE: u8 = 6;
    pub(crate) const NO_FPU: u8 = 7;
    /// #DF.
    pub const DOUBLE_FAULT: u8 = 8;
    /// #TS.
    pub const INVALID_TASK: u8 = 10;
    /// #NP.
    pub const NOT_PRESENT: u8 = 11;
    /// #SS.
    pub const STACK: u8 = 12;
    /// #GP.
    pub const PROTECTION: u8 = 13;
    /// #PF.
    pub const PAGE: u8 = 14;
    /// #MF.
    pub const X87: u8 = 16;
    /// #AC.
    pub const ALIGNMENT: u8 = 17;
    /// #XM.
    pub const SIMD: u8 = 19;
}

/// Segment attribute bits (see [`Segment::attributes`](belljar_cpu::Segment::attributes)).
pub mod attribute {
    /// The segment is present.
    pub const PRESENT: u16 = 1 << 7;
    /// 64-bit code.
    pub const LONG: u16 = 1 << 13;
    /// 32-bit code or stack.
    pub const BIG: u16 = 1 << 14;
}

/// True if an address lies in the upper half.
pub fn is_above(linear: u64) -> bool {
    linear >> 63 != 0
}
