//! The trampolines load every byte of vector registers, and use narrow loads if the upper parts are
//! zero.
#![allow(clippy::print_stderr)]

use super::*;
use crate::processor::x87::tells_what_is_in_use;
use belljar_translate::context::Vector;

/// Bits of XINUSE: upper halves of YMM0 to YMM15, of ZMM0 to ZMM15.
const UPPER_YMM: u64 = 1 << 2;
const UPPER_ZMM: u64 = 1 << 6;

/// A substitute for a guest: queries the state in use, and returns it in RAX.
#[unsafe(naked)]
unsafe extern "sysv64" fn ask() {
    naked_asm!(
        "mov ecx, 1",
        "xgetbv",
        "jmp qword ptr gs:[{leave}]",
        leave = const offset_of!(Context, leave),
    )
}

/// Passes `vectors` through the trampoline of this width, and checks that they are unchanged.
/// Returns the state that the processor reported as in use meanwhile.
fn pass(width: Vectors, vectors: [[u8; 64]; 32]) -> u64 {
    let trampoline = Trampoline::new(width);
    let mut context = Context::mapped().unwrap();
    context.vectors = vectors.map(Vector);
    context.target = ask as *const () as u64;
    context.leave = trampoline.leave_address();
    point_at(&mut context);
    // SAFETY: GS points at a context whose target leaves at once through this trampoline, and the
    // host has its registers. This thread handles no signal meanwhile.
    unsafe { trampoline.pass() };
    for (number, (passed, vector)) in context.vectors.iter().zip(vectors).enumerate() {
        assert_eq!(passed.0, vector, "vector {number} through {width:?}");
    }
    context.gpr[0]
}

/// Registers with distinct bytes, below `bytes`.
fn filled(registers: usize, bytes: usize) -> [[u8; 64]; 32] {
    let byte = |register: usize, at: usize| {
        let used = register < registers && at < bytes;
        u8::from(used) * (register * 7 + at + 1) as u8
    };
    std::array::from_fn(|register| std::array::from_fn(|at| byte(register, at)))
}

/// True if the host has registers of this width and reports the state in use.
fn host_has(width: Vectors) -> bool {
    let has = match width {
        Vectors::Xmm => true,
        Vectors::Ymm => is_x86_feature_detected!("avx"),
        Vectors::Zmm => is_x86_feature_detected!("avx512bw"),
    };
    let tells = tells_what_is_in_use();
    if !has || !tells {
        eprintln!("SKIPPED: {width:?} here: {has}; XGETBV tells what is in use: {tells}");
    }
    has && tells
}

#[test]
fn narrow_code_finds_no_wide_register_in_use() {
    for (width, wide) in [
        (Vectors::Ymm, UPPER_YMM),
        (Vectors::Zmm, UPPER_YMM | UPPER_ZMM),
    ] {
        if !host_has(width) {
            continue;
        }
        // A processor that always reports them as in use is skipped, too.
        let clean = pass(Vectors::Xmm, filled(16, 16));
        if clean & wide != 0 {
            eprintln!("SKIPPED: this processor says that wide registers are always in use");
            continue;
        }
        assert_eq!(pass(width, filled(16, 16)) & wide, 0, "{width:?}");
    }
}

#[test]
fn every_byte_of_a_wide_register_is_loaded() {
    for (width, registers, bytes) in [
        (Vectors::Xmm, 16, 16),
        (Vectors::Ymm, 16, 32),
        (Vectors::Zmm, 32, 64),
    ] {
        if !host_has(width) {
            continue;
        }
        pass(width, filled(registers, bytes));
        for (register, byte) in (0..registers).flat_map(|one| (0..bytes).map(move |at| (one, at))) {
            let mut vectors = [[0; 64]; 32];
            vectors[register][byte] = 0x40;
            pass(width, vectors);
        }
    }
}
