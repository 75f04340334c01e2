//! Loops of loads, stores, jumps and calls, all within the first level.
//!
//! The buffer's first words are zero but where a loop's setup writes them. `loops` adds them to the others.

use iced_x86::code_asm::{
    CodeAssembler, ecx, qword_ptr, r13, r14, rax, rbp, rbx, rcx, rdi, rdx, rsi, xmm0, xmmword_ptr,
};

use super::{Emitted, GENERAL, Loop, UNROLLED, VECTORS, over_general, times};

pub(super) fn all() -> Vec<Loop> {
    let mut all = loads();
    all.extend(stores());
    all.extend(jumps());
    all.extend(strings());
    all
}

/// Stores the buffer's address in its first word, and in RAX.
fn own_address(a: &mut CodeAssembler) -> Emitted {
    a.mov(rax, rbp)?;
    a.mov(qword_ptr(rbp), rbp)
}

fn loads() -> Vec<Loop> {
    vec![
        Loop::new("load-latency", UNROLLED, |a| {
            times(a, UNROLLED, |a| a.mov(rax, qword_ptr(rax)))
        })
        .with(own_address),
        Loop::new("load-indexed-latency", UNROLLED, |a| {
            times(a, UNROLLED, |a| a.mov(rax, qword_ptr(rbp + rax * 8)))
        })
        .with(|a| {
            a.xor(rax, rax)?;
            a.mov(qword_ptr(rbp), rax)
        }),
        // A load into a vector register, and a move to the next load's address.
        Loop::new("vector-load-and-back", 32, |a| {
            times(a, 32, |a| {
                a.movq(xmm0, qword_ptr(rax))?;
                a.movq(rax, xmm0)
            })
        })
        .with(own_address),
        Loop::new("load-rate", UNROLLED, |a| {
            over_general(a, |a, r| a.mov(r, qword_ptr(rbp)))
        }),
        Loop::new("vector-load-rate", UNROLLED, |a| {
            times(a, UNROLLED / 16, |a| {
                VECTORS
                    .iter()
                    .try_for_each(|&x| a.movaps(x, xmmword_ptr(rbp)))
            })
        }),
    ]
}

fn stores() -> Vec<Loop> {
    vec![
        Loop::new("store-rate", UNROLLED, |a| {
            times(a, UNROLLED / 8, |a| {
                (0..8).try_for_each(|at| a.mov(qword_ptr(rbp + 8 * at), rax))
            })
        }),
        Loop::new("store-load-latency", 32, |a| {
            times(a, 32, |a| {
                a.mov(qword_ptr(rbp), rax)?;
                a.mov(rax, qword_ptr(rbp))
            })
        }),
        // With an index, and by another register than the store: such loads are not renamed.
        Loop::new("store-load-indexed-latency", 32, |a| {
            times(a, 32, |a| {
                a.lea(rdx, qword_ptr(r13 + 0))?;
                a.mov(qword_ptr(r13 + rcx), rax)?;
                a.mov(rax, qword_ptr(rdx + rcx))?;
                a.add(rcx, 8)?;
                a.and(rcx, 255)
            })
        })
        .with(|a| {
            a.mov(r13, rbp)?;
            a.xor(rcx, rcx)
        }),
        Loop::new("vector-store-load-latency", 32, |a| {
            times(a, 32, |a| {
                a.movaps(xmmword_ptr(rbp), xmm0)?;
                a.movaps(xmm0, xmmword_ptr(rbp))
            })
        }),
    ]
}

fn jumps() -> Vec<Loop> {
    vec![
        Loop::new("taken-rate", 16, |a| {
            times(a, 16, |a| {
                let mut next = a.create_label();
                a.jmp(next)?;
                a.nop()?;
                a.set_label(&mut next)?;
                a.nop()
            })
        }),
        Loop::new("call-of-2", 8, |a| calls(a, 2)),
        Loop::new("call-of-6", 8, |a| calls(a, 6)),
        Loop::new("call-of-12", 8, |a| calls(a, 12)),
        Loop::new(PREDICTED, 1, by_bit).with(|a| a.xor(r14, r14)),
        Loop::new(MISPREDICTED, 1, by_bit).with(|a| a.mov(r14, 1u64 << 40)),
    ]
}

/// Eight calls of a function of independent additions, with as many after each.
fn calls(a: &mut CodeAssembler, additions: usize) -> Emitted {
    let (mut called, mut end) = (a.create_label(), a.create_label());
    let add = |a: &mut CodeAssembler| {
        let registers = GENERAL.iter().cycle().take(additions);
        registers
            .copied()
            .try_for_each(|register| a.lea(register, qword_ptr(rbx + 1)))
    };
    for _ in 0..8 {
        a.call(called)?;
        add(a)?;
    }
    a.jmp(end)?;
    a.set_label(&mut called)?;
    add(a)?;
    a.ret()?;
    a.set_label(&mut end)?;
    a.nop()
}

/// The jump that is never taken.
pub(crate) const PREDICTED: &str = "jump-predicted";
/// The jump by a random bit.
pub(crate) const MISPREDICTED: &str = "jump-random";

/// A step of xorshift64 in RAX, and a jump to the next instruction by the bits of it that R14 selects.
fn by_bit(a: &mut CodeAssembler) -> Emitted {
    let mut next = a.create_label();
    for (left, by) in [(true, 13), (false, 7), (true, 17)] {
        a.mov(rdx, rax)?;
        match left {
            true => a.shl(rdx, by)?,
            false => a.shr(rdx, by)?,
        }
        a.xor(rax, rdx)?;
    }
    a.test(rax, r14)?;
    a.jne(next)?;
    a.set_label(&mut next)?;
    a.add(rcx, rbx)
}

/// REP MOVS of 32 bytes, and of 4 and 12 KiB, within the first level.
fn strings() -> Vec<Loop> {
    fn copy(a: &mut CodeAssembler, bytes: u32, unaligned: i32) -> Emitted {
        a.mov(rsi, rbp)?;
        a.lea(rdi, qword_ptr(rbp + 16384 + unaligned))?;
        a.mov(ecx, bytes)?;
        a.rep().movsb()
    }
    vec![
        Loop::new("rep-movs-32", 1, |a| copy(a, 32, 0)),
        Loop::new("rep-movs-4096", 1, |a| copy(a, 4096, 0)),
        Loop::new("rep-movs-12288", 1, |a| copy(a, 12_288, 0)),
        Loop::new("rep-movs-unaligned-4096", 1, |a| copy(a, 4096, 7)),
        Loop::new("rep-movs-unaligned-12288", 1, |a| copy(a, 12_288, 7)),
    ]
}
