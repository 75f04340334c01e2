//! Runs machine code on the host's processor, from and to a given state.
#![allow(dead_code)]

use iced_x86::code_asm::*;
use std::ptr;

/// Linear address of the memory that instructions under test may touch, the same
/// on the host and in the guest.
pub(crate) const ARENA: u64 = 0x1000_0000;
/// Where the code under test saves x87 and vectors.
pub(crate) const FX_AREA: u64 = ARENA + 0xf000;
const STATE: u64 = 0x1100_0000;
const TEXT: u64 = 0x1200_0000;
const MAPPED: usize = 0x1_0000;

/// General registers in encoding order, flags and vectors.
#[derive(Clone, Debug, Default)]
#[repr(C, align(16))]
pub(crate) struct State {
    pub(crate) gpr: [u64; 16],
    pub(crate) xmm: [u128; 16],
    pub(crate) flags: u64,
    host_rsp: u64,
}

/// The instruction between a known x87 state and FXSAVE, as both sides run it.
pub(crate) fn wrap(instruction: &[u8]) -> Vec<u8> {
    // fninit; fld1; fldpi; fldl2e; fldz
    let mut code = vec![0xdb, 0xe3, 0xd9, 0xe8, 0xd9, 0xeb, 0xd9, 0xea, 0xd9, 0xee];
    code.extend_from_slice(instruction);
    // fxsave64 [FX_AREA]
    code.extend_from_slice(&[0x48, 0x0f, 0xae, 0x04, 0x25]);
    code.extend_from_slice(&(FX_AREA as u32).to_le_bytes());
    code
}

/// Without what is not the program's: instruction and operand pointers, the last
/// opcode, the mask of MXCSR, and what is reserved.
pub(crate) fn clean_fx(image: &[u8]) -> Vec<u8> {
    let mut image = image.to_vec();
    image[6..24].fill(0);
    image[28..32].fill(0);
    for register in 0..8 {
        image[32 + register * 16 + 10..48 + register * 16].fill(0);
    }
    image[416..].fill(0);
    image
}

pub(crate) struct Native(());

fn map(at: u64) {
    // SAFETY: a fresh mapping at an address that nothing of this test process uses;
    // MAP_FIXED_NOREPLACE makes sure of it.
    let mapped = unsafe {
        libc::mmap(
            at as *mut libc::c_void,
            MAPPED,
            libc::PROT_READ | libc::PROT_WRITE | libc::PROT_EXEC,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE,
            -1,
            0,
        )
    };
    assert_eq!(mapped as u64, at, "cannot map the test's memory");
}

impl Native {
    pub(crate) fn new() -> Self {
        for at in [ARENA, STATE, TEXT] {
            map(at);
        }
        Self(())
    }

    /// Makes `code` what [`run`](Self::run) runs.
    pub(crate) fn load(&mut self, code: &[u8]) {
        let mut text = prologue();
        text.extend_from_slice(code);
        text.extend_from_slice(&epilogue(TEXT + text.len() as u64));
        // SAFETY: the mapping has room for every function that is built here.
        unsafe { ptr::copy_nonoverlapping(text.as_ptr(), TEXT as *mut u8, text.len()) };
    }

    /// Runs the code: state behind it, the memory window behind it, and its FXSAVE
    /// image, cleaned.
    pub(crate) fn run(
        &mut self,
        state: &State,
        window: u64,
        memory: &[u8],
    ) -> (State, Vec<u8>, Vec<u8>) {
        // SAFETY: all addresses lie in this test's own mappings; the function keeps
        // to the C ABI.
        unsafe {
            ptr::copy_nonoverlapping(state, STATE as *mut State, 1);
            ptr::copy_nonoverlapping(memory.as_ptr(), window as *mut u8, memory.len());
            let function: extern "sysv64" fn() = std::mem::transmute(TEXT as *const ());
            function();
            let after = (*(STATE as *const State)).clone();
            let memory = std::slice::from_raw_parts(window as *const u8, memory.len()).to_vec();
            let fx = std::slice::from_raw_parts(FX_AREA as *const u8, 512);
            (after, memory, clean_fx(fx))
        }
    }
}

const GPR: [AsmRegister64; 16] = [
    rax, rcx, rdx, rbx, rsp, rbp, rsi, rdi, r8, r9, r10, r11, r12, r13, r14, r15,
];
const KEPT: [AsmRegister64; 6] = [rbx, rbp, r12, r13, r14, r15];

fn slot(number: usize) -> AsmMemoryOperand {
    qword_ptr(STATE + number as u64 * 8)
}

fn xmm_slot(number: usize) -> AsmMemoryOperand {
    xmmword_ptr(STATE + 128 + number as u64 * 16)
}

fn flags_slot() -> AsmMemoryOperand {
    qword_ptr(STATE + 128 + 256)
}

fn rsp_slot() -> AsmMemoryOperand {
    qword_ptr(STATE + 128 + 256 + 8)
}

const XMM: [AsmRegisterXmm; 16] = [
    xmm0, xmm1, xmm2, xmm3, xmm4, xmm5, xmm6, xmm7, xmm8, xmm9, xmm10, xmm11, xmm12, xmm13, xmm14,
    xmm15,
];

fn prologue() -> Vec<u8> {
    let mut a = CodeAssembler::new(64).unwrap();
    KEPT.iter().for_each(|&register| a.push(register).unwrap());
    a.mov(rsp_slot(), rsp).unwrap();
    for (number, &register) in XMM.iter().enumerate() {
        a.movaps(register, xmm_slot(number)).unwrap();
    }
    a.push(flags_slot()).unwrap();
    a.popfq().unwrap();
    for (number, &register) in GPR.iter().enumerate() {
        a.mov(register, slot(number)).unwrap();
    }
    a.assemble(TEXT).unwrap()
}

fn epilogue(at: u64) -> Vec<u8> {
    let mut a = CodeAssembler::new(64).unwrap();
    for (number, &register) in GPR.iter().enumerate() {
        a.mov(slot(number), register).unwrap();
    }
    a.mov(rsp, rsp_slot()).unwrap();
    a.pushfq().unwrap();
    a.pop(flags_slot()).unwrap();
    a.fninit().unwrap();
    for (number, &register) in XMM.iter().enumerate() {
        a.movaps(xmm_slot(number), register).unwrap();
    }
    KEPT.iter()
        .rev()
        .for_each(|&register| a.pop(register).unwrap());
    a.ret().unwrap();
    a.assemble(at).unwrap()
}
