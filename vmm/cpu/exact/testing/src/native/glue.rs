//! Code that loads a machine's registers from memory and saves them there.

use iced_x86::code_asm::*;

use crate::machine::{Registers, host_has_masks, host_has_wide};
use std::mem::offset_of;

const GPR: [AsmRegister64; 16] = [
    rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15,
];
const KEPT: [AsmRegister64; 6] = [rbx, rbp, r12, r13, r14, r15];
const YMM: [AsmRegisterYmm; 16] = [
    ymm0, ymm1, ymm2, ymm3, ymm4, ymm5, ymm6, ymm7, ymm8, ymm9, ymm10, ymm11, ymm12, ymm13, ymm14,
    ymm15,
];
const ZMM: [AsmRegisterZmm; 32] = [
    zmm0, zmm1, zmm2, zmm3, zmm4, zmm5, zmm6, zmm7, zmm8, zmm9, zmm10, zmm11, zmm12, zmm13, zmm14,
    zmm15, zmm16, zmm17, zmm18, zmm19, zmm20, zmm21, zmm22, zmm23, zmm24, zmm25, zmm26, zmm27,
    zmm28, zmm29, zmm30, zmm31,
];
const MASKS: [AsmRegisterK; 8] = [k0, k1, k2, k3, k4, k5, k6, k7];

fn at(state: u64, offset: usize) -> u64 {
    state + offset as u64
}

/// The glue for address `base`, and the offset to which code under test returns.
pub(crate) fn build(base: u64, state: u64) -> (Vec<u8>, u64) {
    let mut text = prologue(base, state);
    let landing = base + text.len() as u64;
    text.extend(epilogue(landing, state));
    (text, landing)
}

fn prologue(base: u64, state: u64) -> Vec<u8> {
    let mut a = CodeAssembler::new(64).unwrap();
    KEPT.iter().for_each(|&register| a.push(register).unwrap());
    a.mov(qword_ptr(at(state, offset_of!(Registers, host_rsp))), rsp)
        .unwrap();
    a.fxrstor64(ptr(at(state, offset_of!(Registers, fx))))
        .unwrap();
    let vector = |number: usize| at(state, offset_of!(Registers, vectors) + number * 64);
    if host_has_masks() {
        for (number, &register) in ZMM.iter().enumerate() {
            a.vmovups(register, zmmword_ptr(vector(number))).unwrap();
        }
        for (number, &register) in MASKS.iter().enumerate() {
            let slot = at(state, offset_of!(Registers, masks) + number * 8);
            a.kmovq(register, qword_ptr(slot)).unwrap();
        }
    } else if host_has_wide() {
        for (number, &register) in YMM.iter().enumerate() {
            a.vmovups(register, ymmword_ptr(vector(number))).unwrap();
        }
    }
    a.push(qword_ptr(at(state, offset_of!(Registers, flags))))
        .unwrap();
    a.popfq().unwrap();
    for (number, &register) in GPR.iter().enumerate() {
        a.mov(register, qword_ptr(at(state, number * 8))).unwrap();
    }
    let mut code = a.assemble(base).unwrap();
    let back = base + code.len() as u64 + 5;
    code.push(0xe9);
    code.extend((crate::machine::CODE_AT.wrapping_sub(back) as i32).to_le_bytes());
    code
}

fn epilogue(base: u64, state: u64) -> Vec<u8> {
    let mut a = CodeAssembler::new(64).unwrap();
    for (number, &register) in GPR.iter().enumerate() {
        a.mov(qword_ptr(at(state, number * 8)), register).unwrap();
    }
    a.mov(rsp, qword_ptr(at(state, offset_of!(Registers, host_rsp))))
        .unwrap();
    a.pushfq().unwrap();
    a.pop(qword_ptr(at(state, offset_of!(Registers, flags))))
        .unwrap();
    a.push(2).unwrap();
    a.popfq().unwrap();
    a.fxsave64(ptr(at(state, offset_of!(Registers, fx))))
        .unwrap();
    a.fninit().unwrap();
    let vector = |number: usize| at(state, offset_of!(Registers, vectors) + number * 64);
    if host_has_masks() {
        for (number, &register) in ZMM.iter().enumerate() {
            a.vmovups(zmmword_ptr(vector(number)), register).unwrap();
        }
        for (number, &register) in MASKS.iter().enumerate() {
            let slot = at(state, offset_of!(Registers, masks) + number * 8);
            a.kmovq(qword_ptr(slot), register).unwrap();
        }
    } else if host_has_wide() {
        for (number, &register) in YMM.iter().enumerate() {
            a.vmovups(ymmword_ptr(vector(number)), register).unwrap();
        }
    }
    if host_has_wide() {
        a.vzeroupper().unwrap();
    }
    a.ldmxcsr(dword_ptr(at(state, offset_of!(Registers, host_mxcsr))))
        .unwrap();
    KEPT.iter()
        .rev()
        .for_each(|&register| a.pop(register).unwrap());
    a.ret().unwrap();
    a.assemble(base).unwrap()
}
