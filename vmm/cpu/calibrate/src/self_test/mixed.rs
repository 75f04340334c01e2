//! The loops of the self-test.
//!
//! All data is in the first level, and no operand makes an operation slow. Each loop is a round of work as compilers
//! emit it; no parameter is fitted to any of them. `self_test` runs them.

use iced_x86::code_asm::{
    CodeAssembler, eax, edx, qword_ptr, r8, r9, r10, r11, r12, r13, rax, rbp, rbx, rcx, rdx, rsi,
    xmm0, xmm1, xmm2, xmm3, xmm4, xmm5, xmm6, xmm7, xmm8, xmm9, xmm12, xmm13, xmm14, xmm15,
    xmmword_ptr,
};

use crate::loops::{Emitted, Loop, VECTORS, times};

/// All of them.
pub(super) fn mixed() -> Vec<Loop> {
    let mut all = floating();
    all.extend(integers());
    all.extend(streams());
    all.extend(flow());
    all
}

fn floating() -> Vec<Loop> {
    vec![
        Loop::new("polynomial", 1, |a| {
            times(a, 6, |a| {
                a.mulsd(xmm0, xmm1)?;
                a.addsd(xmm0, xmm2)
            })
        }),
        Loop::new("dot product of 4 sums", 1, |a| {
            for (at, sum) in [xmm4, xmm5, xmm6, xmm7].into_iter().enumerate() {
                a.movupd(xmm0, xmmword_ptr(rbp + at * 16))?;
                a.movupd(xmm1, xmmword_ptr(rbp + 1024 + at * 16))?;
                a.mulpd(xmm0, xmm1)?;
                a.addpd(sum, xmm0)?;
            }
            Ok(())
        }),
        Loop::new("product of matrices", 1, product),
        Loop::new("product with sums in memory", 1, product_in_memory),
        Loop::new("complex product", 1, |a| {
            for target in [xmm4, xmm5] {
                a.movapd(xmm0, xmm1)?;
                a.unpckhpd(xmm0, xmm0)?;
                a.movapd(xmm3, xmm2)?;
                a.shufpd(xmm3, xmm3, 1)?;
                a.mulpd(xmm0, xmm3)?;
                a.mulpd(xmm2, target)?;
                a.addpd(target, xmm0)?;
            }
            Ok(())
        }),
        Loop::new("distance", 1, |a| {
            for (at, target) in [xmm0, xmm1, xmm2].into_iter().enumerate() {
                a.movsd_2(target, qword_ptr(rbp + at * 8))?;
                a.subsd(target, qword_ptr(rbp + 64 + at * 8))?;
                a.mulsd(target, target)?;
            }
            a.addsd(xmm0, xmm1)?;
            a.addsd(xmm0, xmm2)?;
            a.addsd(xmm0, xmm8)?;
            a.sqrtsd(xmm0, xmm0)?;
            a.movapd(xmm3, xmm8)?;
            a.divsd(xmm3, xmm0)?;
            a.addsd(xmm9, xmm3)
        }),
        Loop::new("integer to floating point", 1, |a| {
            for target in [xmm4, xmm5] {
                a.pxor(xmm0, xmm0)?;
                a.cvtsi2sd(xmm0, rcx)?;
                a.mulsd(xmm0, xmm1)?;
                a.addsd(target, xmm0)?;
                a.add(rcx, rbx)?;
            }
            Ok(())
        }),
        Loop::new("maximum", 1, |a| {
            for at in 0..4 {
                a.movsd_2(xmm0, qword_ptr(rbp + at * 8))?;
                a.mulsd(xmm0, xmm1)?;
                a.maxsd(xmm2, xmm0)?;
            }
            Ok(())
        }),
    ]
}

/// A step of a product of matrices: four numbers times four, added to sums in registers.
fn product(a: &mut CodeAssembler) -> Emitted {
    a.movapd(xmm12, xmmword_ptr(rbp))?;
    a.movapd(xmm13, xmmword_ptr(rbp + 16))?;
    for at in 0..4 {
        let (one, other) = (VECTORS[2 * at], VECTORS[2 * at + 1]);
        a.movsd_2(xmm14, qword_ptr(rbp + 64 + at * 8))?;
        a.unpcklpd(xmm14, xmm14)?;
        a.movapd(xmm15, xmm14)?;
        a.mulpd(xmm15, xmm12)?;
        a.addpd(one, xmm15)?;
        a.mulpd(xmm14, xmm13)?;
        a.addpd(other, xmm14)?;
    }
    Ok(())
}

/// The same with the sums in memory, and a jump after each of the four numbers.
fn product_in_memory(a: &mut CodeAssembler) -> Emitted {
    a.movapd(xmm12, xmmword_ptr(rbp))?;
    a.movapd(xmm13, xmmword_ptr(rbp + 16))?;
    a.mov(rax, rbp)?;
    for at in 0..4 {
        let mut next = a.create_label();
        a.movsd_2(xmm14, qword_ptr(rbp + 64 + at * 8))?;
        a.movapd(xmm15, xmm14)?;
        a.add(rax, 32)?;
        a.unpcklpd(xmm15, xmm15)?;
        a.movapd(xmm14, xmm15)?;
        a.mulpd(xmm15, xmm12)?;
        a.mulpd(xmm14, xmm13)?;
        a.addpd(xmm15, xmmword_ptr(rax + 1024))?;
        a.addpd(xmm14, xmmword_ptr(rax + 1040))?;
        a.movaps(xmmword_ptr(rax + 1024), xmm15)?;
        a.movaps(xmmword_ptr(rax + 1040), xmm14)?;
        a.jmp(next)?;
        a.nop()?;
        a.set_label(&mut next)?;
    }
    a.nop()
}

fn integers() -> Vec<Loop> {
    vec![
        Loop::new("hash of words", 1, |a| {
            for at in 0..4 {
                a.mov(rcx, qword_ptr(rbp + at * 8))?;
                a.xor(rax, rcx)?;
                a.imul_2(rax, r8)?;
                a.mov(rdx, rax)?;
                a.shr(rdx, 29)?;
                a.xor(rax, rdx)?;
            }
            Ok(())
        }),
        Loop::new("table walk", 1, |a| {
            times(a, 4, |a| {
                a.mov(rdx, rax)?;
                a.and(edx, 255)?;
                a.mov(rdx, qword_ptr(rbp + rdx * 8))?;
                a.shr(rax, 8)?;
                a.xor(rax, rdx)
            })
        }),
        Loop::new("rotations and sums", 1, |a| {
            for (one, other) in [(rax, rcx), (rcx, rdx), (rdx, rsi), (rsi, rax)] {
                a.add(one, other)?;
                a.ror(one, 11)?;
                a.xor(other, one)?;
                a.lea(r9, qword_ptr(one + other * 2 + 3))?;
                a.add(r10, r9)?;
            }
            Ok(())
        }),
        Loop::new("sums of a list in the first level", 1, |a| {
            times(a, 4, |a| {
                a.mov(r11, qword_ptr(r11))?;
                a.add(rax, r11)?;
                a.add(rcx, rbx)
            })
        })
        .with(list),
        Loop::new("remainder", 1, |a| {
            a.lea(rax, qword_ptr(rcx + 12_345))?;
            a.xor(edx, edx)?;
            a.div(r9)?;
            a.add(r10, rdx)?;
            a.add(rcx, rbx)
        })
        .with(|a| a.mov(r9, 97u64)),
        Loop::new("selection", 1, |a| {
            for at in 0..4 {
                a.mov(rdx, qword_ptr(rbp + at * 8))?;
                a.cmp(rdx, rax)?;
                a.cmovg(rax, rdx)?;
                a.cmovl(rcx, rdx)?;
            }
            Ok(())
        }),
    ]
}

/// A list of one element at R11.
fn list(a: &mut CodeAssembler) -> Emitted {
    a.lea(r11, qword_ptr(rbp + 2048))?;
    a.mov(qword_ptr(r11), r11)
}

fn streams() -> Vec<Loop> {
    vec![
        Loop::new("sum of two arrays", 1, |a| {
            for at in [0, 16, 32, 48] {
                a.movupd(xmm0, xmmword_ptr(r12 + r13 + at))?;
                a.mulpd(xmm0, xmm1)?;
                a.addpd(xmm0, xmmword_ptr(r12 + r13 + 4096 + at))?;
                a.movupd(xmmword_ptr(r12 + r13 + 8192 + at), xmm0)?;
            }
            advance(a)
        })
        .with(start),
        Loop::new("copy of words", 1, |a| {
            for at in 0..8 {
                a.mov(rax, qword_ptr(r12 + r13 + at * 8))?;
                a.mov(qword_ptr(r12 + r13 + 4096 + at * 8), rax)?;
            }
            advance(a)
        })
        .with(start),
        Loop::new("packed sums of bytes", 1, |a| {
            for at in [0, 16, 32, 48] {
                a.movdqu(xmm0, xmmword_ptr(r12 + r13 + at))?;
                a.pcmpeqb(xmm0, xmm2)?;
                a.psubb(xmm3, xmm0)?;
                a.pshufd(xmm4, xmm0, 0x4e)?;
                a.por(xmm5, xmm4)?;
            }
            advance(a)
        })
        .with(start),
        Loop::new("counters in memory", 1, |a| {
            for at in 0..4 {
                a.add(qword_ptr(rbp + at * 8), rbx)?;
                a.add(rax, qword_ptr(rbp + 64 + at * 8))?;
            }
            Ok(())
        }),
        Loop::new("sum on the stack", 1, |a| {
            a.movsd_2(xmm0, qword_ptr(rbp + 128))?;
            a.mulsd(xmm0, xmm1)?;
            a.addsd(xmm0, qword_ptr(rbp))?;
            a.movsd_2(qword_ptr(rbp), xmm0)
        }),
    ]
}

fn start(a: &mut CodeAssembler) -> Emitted {
    a.mov(r12, rbp)?;
    a.xor(r13, r13)
}

/// Moves R13 to the next line of 4 KiB.
fn advance(a: &mut CodeAssembler) -> Emitted {
    a.add(r13, 64)?;
    a.and(r13, 4095)
}

fn flow() -> Vec<Loop> {
    vec![
        Loop::new("tests that pass", 1, |a| {
            let mut out = a.create_label();
            for at in 0..4 {
                a.mov(rax, qword_ptr(rbp + at * 8))?;
                a.test(rax, rax)?;
                a.js(out)?;
                a.add(rcx, rax)?;
                a.add(rdx, rbx)?;
            }
            a.set_label(&mut out)?;
            a.nop()
        }),
        Loop::new("jumps over branches", 1, |a| {
            for register in [rcx, rdx, rsi, r8] {
                let mut end = a.create_label();
                a.add(register, rbx)?;
                a.xor(eax, eax)?;
                a.lea(r9, qword_ptr(register + 7))?;
                a.add(r10, r9)?;
                a.jmp(end)?;
                a.nop()?;
                a.set_label(&mut end)?;
            }
            a.nop()
        }),
        Loop::new("calls of a function", 1, |a| {
            let (mut function, mut end) = (a.create_label(), a.create_label());
            for at in 0..4 {
                a.mov(rcx, qword_ptr(rbp + at * 8))?;
                a.call(function)?;
                a.add(rdx, rax)?;
            }
            a.jmp(end)?;
            a.set_label(&mut function)?;
            a.push(r12)?;
            a.lea(r12, qword_ptr(rcx + 3))?;
            a.lea(rax, qword_ptr(r12 + rcx))?;
            a.pop(r12)?;
            a.ret()?;
            a.set_label(&mut end)?;
            a.nop()
        }),
    ]
}
