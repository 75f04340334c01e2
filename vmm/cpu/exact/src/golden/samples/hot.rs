//! Loops that become hot.
//!
//! Each is made hot, so that its listing is a trace: with groups of accesses, lent registers, side
//! exits and vectors. `golden/samples` has them in its list of files.

use belljar_cpu::Level;
use iced_x86::code_asm::*;

use super::{CODE, CodeSample, looped};

pub(super) fn hot() -> Vec<CodeSample> {
    vec![
        looped("loads from one array", |a| {
            a.mov(rax, qword_ptr(rsi))?;
            a.add(rax, qword_ptr(rsi + 8))?;
            a.add(rax, qword_ptr(rsi + 16))
        }),
        looped("load and store of two arrays", |a| {
            a.mov(rax, qword_ptr(rsi + rcx * 8))?;
            a.mov(qword_ptr(rdi + rcx * 8), rax)?;
            a.inc(ecx)?;
            a.and(ecx, 0xff)
        }),
        looped("carry through the loop", |a| {
            a.adc(rax, qword_ptr(rsi))?;
            a.adc(rdx, qword_ptr(rsi + 8))
        }),
        looped("push and pop", |a| {
            a.push(rax)?;
            a.push(rbx)?;
            a.pop(rdx)?;
            a.pop(rcx)
        }),
        looped("call and return", |a| {
            let (mut function, mut over) = (a.create_label(), a.create_label());
            a.call(function)?;
            a.jmp(over)?;
            a.set_label(&mut function)?;
            a.inc(rax)?;
            a.ret()?;
            a.set_label(&mut over)?;
            a.nop()
        }),
        looped("a jump seldom taken", |a| {
            let mut seldom = a.create_label();
            a.inc(ecx)?;
            a.test(cl, 0xff)?;
            a.jz(seldom)?;
            a.add(rax, rcx)?;
            a.set_label(&mut seldom)?;
            a.nop()
        }),
        looped("names for r14 and r15", |a| {
            a.add(r14, r15)?;
            a.xor(r15, qword_ptr(rsi))?;
            a.lea(r14, ptr(r14 + r15))
        }),
        looped("read, change, write", |a| {
            a.add(qword_ptr(rdi + 8), 1)?;
            a.inc(dword_ptr(rdi))
        }),
        looped("pointers that lead on", |a| {
            a.mov(rsi, qword_ptr(rsi))?;
            a.and(rsi, 0xff8)?;
            a.or(rsi, CODE as i32 * 2)
        }),
        looped("indirect jump at the end", |a| {
            a.lea(rax, ptr(CODE))?;
            a.inc(ecx)?;
            a.jmp(rax)
        }),
        looped("a short loop inside", |a| {
            let mut inner = a.create_label();
            a.mov(ecx, 3)?;
            a.set_label(&mut inner)?;
            a.add(rax, rcx)?;
            a.dec(ecx)?;
            a.jnz(inner)
        })
        .from(0),
    ]
}

pub(super) fn hot_vectors() -> Vec<CodeSample> {
    vec![
        looped("sse triad", |a| {
            a.movapd(xmm0, xmmword_ptr(rsi + rax))?;
            a.mulpd(xmm0, xmm1)?;
            a.addpd(xmm0, xmmword_ptr(rdi + rax))?;
            a.movapd(xmmword_ptr(rdi + rax + 0x1000), xmm0)?;
            a.add(eax, 16)?;
            a.and(eax, 0xff0)
        }),
        looped("three arrays and registers to spare", |a| {
            a.movapd(xmm0, xmmword_ptr(rsi + rax))?;
            a.addpd(xmm0, xmmword_ptr(rdi + rax))?;
            a.movapd(xmmword_ptr(r8 + rax), xmm0)?;
            a.add(rax, 16)
        }),
        looped("avx2 triad", |a| {
            a.vmovapd(ymm0, ymmword_ptr(rsi + rax))?;
            a.vfmadd213pd(ymm0, ymm1, ymmword_ptr(rdi + rax))?;
            a.vmovapd(ymmword_ptr(rdi + rax + 0x1000), ymm0)?;
            a.add(eax, 32)?;
            a.and(eax, 0xfe0)
        })
        .needs(Level::V3),
    ]
}
