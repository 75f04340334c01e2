//! Loops that measure one latency or rate each.
//!
//! A loop's result is cycles of one of its operations. Names end in `-latency` for chains in which each operation uses
//! the result of the one before, and in `-rate` for independent ones; other names are sums that `fit` takes apart.
//! `measure` runs them.

use iced_x86::IcedError;
use iced_x86::code_asm::{
    AsmRegister64, AsmRegisterXmm, CodeAssembler, eax, qword_ptr, r8, r9, r10, r11, rax, rbp, rbx,
    rcx, rdx, rsi, xmm0, xmm1, xmm2, xmm3, xmm4, xmm5, xmm6, xmm7, xmm8, xmm9, xmm10, xmm11, xmm12,
    xmm13, xmm14, xmm15,
};

/// Loads, stores, jumps and calls.
pub(crate) mod accesses;
/// Floating point and vectors.
mod vectors;

pub(crate) use vectors::ones;

pub(crate) type Emitted = Result<(), IcedError>;

/// General registers that loops write.
pub(crate) const GENERAL: [AsmRegister64; 8] = [rax, rcx, rdx, rsi, r8, r9, r10, r11];
/// Vector registers.
pub(crate) const VECTORS: [AsmRegisterXmm; 16] = [
    xmm0, xmm1, xmm2, xmm3, xmm4, xmm5, xmm6, xmm7, xmm8, xmm9, xmm10, xmm11, xmm12, xmm13, xmm14,
    xmm15,
];
/// Operations in a round of most loops.
const UNROLLED: u32 = 64;
/// Operations in a round of loops that are as wide as the core: the round's jump then takes a small part.
const WIDE: u32 = 512;

/// An extension that a loop needs beyond x86-64-v2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extension {
    None,
    Aes,
    Fma,
}

impl Extension {
    /// True if this host has it.
    pub(crate) fn is_here(self) -> bool {
        match self {
            Self::None => true,
            Self::Aes => std::arch::is_x86_feature_detected!("aes"),
            Self::Fma => std::arch::is_x86_feature_detected!("fma"),
        }
    }
}

/// A loop.
#[derive(Clone, Copy)]
pub(crate) struct Loop {
    pub(crate) name: &'static str,
    pub(crate) extension: Extension,
    /// Operations in a round.
    pub(crate) operations: u32,
    pub(crate) setup: fn(&mut CodeAssembler) -> Emitted,
    pub(crate) body: fn(&mut CodeAssembler) -> Emitted,
}

impl Loop {
    pub(crate) const fn new(
        name: &'static str,
        operations: u32,
        body: fn(&mut CodeAssembler) -> Emitted,
    ) -> Self {
        Self {
            name,
            extension: Extension::None,
            operations,
            setup: |_| Ok(()),
            body,
        }
    }

    pub(crate) const fn with(mut self, setup: fn(&mut CodeAssembler) -> Emitted) -> Self {
        self.setup = setup;
        self
    }

    const fn needs(mut self, extension: Extension) -> Self {
        self.extension = extension;
        self
    }
}

/// Emits `one` so many times.
pub(crate) fn times(
    a: &mut CodeAssembler,
    count: u32,
    mut one: impl FnMut(&mut CodeAssembler) -> Emitted,
) -> Emitted {
    (0..count).try_for_each(|_| one(a))
}

/// Emits `one` eight times for each general register.
pub(crate) fn over_general(
    a: &mut CodeAssembler,
    mut one: impl FnMut(&mut CodeAssembler, AsmRegister64) -> Emitted,
) -> Emitted {
    times(a, UNROLLED / 8, |a| {
        GENERAL.iter().try_for_each(|&register| one(a, register))
    })
}

/// All loops.
pub(crate) fn all() -> Vec<Loop> {
    let mut all = integers();
    all.extend(accesses::all());
    all.extend(vectors::all());
    all
}

fn integers() -> Vec<Loop> {
    vec![
        Loop::new("nop-rate", WIDE, |a| times(a, WIDE, |a| a.nop())),
        Loop::new("alu-rate", WIDE, |a| {
            times(a, WIDE / UNROLLED, |a| {
                over_general(a, |a, r| a.add(r, rbx))
            })
        }),
        Loop::new("shift-latency", UNROLLED, |a| {
            times(a, UNROLLED, |a| a.shl(rax, 3))
        }),
        Loop::new("shift-rate", UNROLLED, |a| {
            over_general(a, |a, r| a.shl(r, 3))
        }),
        Loop::new("compare-and-select", UNROLLED, |a| {
            times(a, UNROLLED, |a| {
                a.cmp(rcx, rax)?;
                a.cmovg(rax, rcx)
            })
        }),
        Loop::new("select-rate", UNROLLED, |a| {
            over_general(a, |a, r| a.cmovg(r, rbx))
        }),
        Loop::new("lea-latency", UNROLLED, |a| {
            times(a, UNROLLED, |a| a.lea(rax, qword_ptr(rax + rcx * 4 + 5)))
        }),
        Loop::new("lea-rate", UNROLLED, |a| {
            over_general(a, |a, r| a.lea(r, qword_ptr(rbx + rbx * 4 + 5)))
        }),
        Loop::new("multiply-latency", UNROLLED, |a| {
            times(a, UNROLLED, |a| a.imul_2(rax, rcx))
        }),
        Loop::new("multiply-rate", WIDE, |a| {
            times(a, WIDE / UNROLLED, |a| {
                over_general(a, |a, r| a.imul_2(r, rbx))
            })
        }),
        Loop::new("multiply-wide-latency", UNROLLED, |a| {
            times(a, UNROLLED, |a| a.mul(rcx))
        }),
        Loop::new("crc32-latency", UNROLLED, |a| {
            times(a, UNROLLED, |a| a.crc32(rax, rcx))
        }),
        Loop::new("divide-latency", 16, |a| {
            times(a, 16, |a| {
                a.xor(rdx, rdx)?;
                a.div(rbx)
            })
        })
        .with(|a| a.mov(rax, 77_777u64)),
        Loop::new("divide-rate", 16, |a| {
            times(a, 16, |a| {
                a.mov(rax, rcx)?;
                a.xor(rdx, rdx)?;
                a.div(rbx)
            })
        })
        .with(|a| a.mov(rcx, 77_777u64)),
        Loop::new("atomic-rate", 16, |a| {
            times(a, 16, |a| a.lock().add(qword_ptr(rbp), rbx))
        }),
        Loop::new("branch-rate", UNROLLED, |a| {
            let mut end = a.create_label();
            times(a, UNROLLED, |a| {
                a.test(rbx, rbx)?;
                a.je(end)
            })?;
            a.set_label(&mut end)?;
            a.mov(eax, eax)
        }),
    ]
}
