//! Hot code under a processor model: the same time as instruction by instruction.

use belljar_cpu::{Exit, InstructionSet, Level, Vcpu};
use belljar_exact::Timing;
use belljar_exact_testing::bare::{DATA, Guest, assemble, is_pooled};
use iced_x86::code_asm::*;

use super::{agree, timing};

/// Rounds of [`branching`]: most run in hot code.
const ROUNDS: u32 = 4000;

/// Jumps that depend on random numbers, an inner loop, direct and indirect calls, and accesses across pages.
fn branching(a: &mut CodeAssembler) -> Result<(), IcedError> {
    let [
        mut again,
        mut inner,
        mut skip,
        mut function,
        mut other,
        mut start,
        mut far,
    ] = [(); 7].map(|()| a.create_label());
    a.jmp(start)?;
    a.set_label(&mut function)?;
    a.push(rbx)?;
    a.add(rax, qword_ptr(rsp + 8))?;
    a.pop(rbx)?;
    a.ret()?;
    a.set_label(&mut other)?;
    a.xor(rax, rbp)?;
    a.ret()?;
    a.set_label(&mut start)?;
    a.mov(ebp, ROUNDS)?;
    a.mov(r12, 0x5851_f42d_4c95_7f2du64)?;
    a.mov(r13d, 1)?;
    a.set_label(&mut again)?;
    a.imul_2(r13, r12)?;
    a.add(r13, 0x1234_5677)?;
    a.mov(rdx, r13)?;
    a.shr(rdx, 40)?;
    a.mov(esi, edx)?;
    a.and(esi, 0x7fff)?;
    a.add(qword_ptr(rsi + DATA as i32), rdx)?;
    a.mov(ecx, 3)?;
    a.set_label(&mut inner)?;
    a.add(rax, rcx)?;
    a.dec(ecx)?;
    a.jnz(inner)?;
    a.test(edx, 0x10)?;
    a.jz(skip)?;
    a.call(function)?;
    a.set_label(&mut skip)?;
    a.lea(rdi, ptr(function))?;
    a.lea(rbx, ptr(other))?;
    a.test(edx, 0x60)?;
    a.cmovz(rdi, rbx)?;
    a.call(rdi)?;
    a.test(ebp, 0x3f)?;
    a.jnz(far)?;
    a.add(rax, 7)?;
    a.set_label(&mut far)?;
    // So many jumps determine the history. The carry is used after the last one.
    for _ in 0..16 {
        a.test(r12, r12)?;
        a.jz(far)?;
    }
    a.push(rdx)?;
    a.cmp(r13d, edx)?;
    a.jz(far)?;
    a.adc(rax, qword_ptr(rsp))?;
    a.pop(rdx)?;
    a.dec(ebp)?;
    a.jnz(again)?;
    a.hlt()
}

/// Hot code, with and without memory: the same time as instruction by instruction, and the same number of
/// mispredictions.
#[test]
fn traces_have_no_effect() {
    let code = assemble(branching);
    // Guests with AVX-512 leave no register for the counter. Not every host has it.
    let wide = InstructionSet::from(Level::V4);
    for (has_memory, set) in [
        (true, InstructionSet::default()),
        (false, InstructionSet::default()),
        (false, wide),
    ] {
        if belljar_exact::host_requirements(&set).is_err() {
            continue;
        }
        let timing = Timing {
            has_memory,
            ..timing()
        };
        let make = || Guest::with_timing(&code, timing.clone(), &set);
        agree(make);
        let (mut whole, mut single) = (make(), make());
        assert_eq!(whole.run(1 << 40), Exit::Halt);
        let is_hot = whole.vcpu.statistics().promoted > 0;
        assert!(has_memory || is_hot || is_pooled());
        while single.vcpu.run(u64::MAX).unwrap() != Exit::Halt {
            single.vcpu.stop_at(single.vcpu.retired() + 1);
        }
        let [whole, single] = [whole, single].map(|guest| guest.vcpu.account().unwrap());
        assert_eq!(whole, single);
        assert!(whole.branch > u64::from(ROUNDS), "{whole:?}");
    }
}
