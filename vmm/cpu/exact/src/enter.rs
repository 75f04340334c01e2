//! Into translated code and out of it.
//!
//! Translated code owns every general register, the flags, XMM0 to XMM15, MXCSR
//! and the x87; it never touches the host stack, so the guest's RSP stands in
//! the host's. The GS base points at the [`Context`] for as long as a run lasts.
//! The x87 stays the guest's through all exits of a run: compiled host code does
//! not use it.
#![allow(unsafe_code)]

use std::arch::{asm, naked_asm};
use std::mem::offset_of;

use crate::context::Context;

/// An FXSAVE image.
#[repr(C, align(16))]
#[derive(Clone)]
pub(crate) struct FxImage(pub [u8; 512]);

impl FxImage {
    /// The state after reset (Intel SDM vol. 1, 10.5.1.1): control word 0x37f
    /// after FNINIT, MXCSR 0x1f80.
    pub(crate) fn reset() -> Self {
        let mut image = Self([0; 512]);
        image.0[0..2].copy_from_slice(&0x37fu16.to_le_bytes());
        image.0[24..28].copy_from_slice(&0x1f80u32.to_le_bytes());
        image
    }
}

/// Loads the guest's registers and jumps to `context.target`; returns when
/// translated code leaves through [`leave`].
///
/// # Safety
/// The GS base must point at a [`Context`] whose `target` is the host address of
/// translated code, and the host's signal stack must be set up, as the stack
/// pointer is the guest's meanwhile.
#[unsafe(naked)]
pub(crate) unsafe extern "sysv64" fn enter() {
    naked_asm!(
        "push rbx",
        "push rbp",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "stmxcsr gs:[{host_mxcsr}]",
        "ldmxcsr gs:[{guest_mxcsr}]",
        "movaps xmm0, gs:[{xmm}]",
        "movaps xmm1, gs:[{xmm} + 16]",
        "movaps xmm2, gs:[{xmm} + 32]",
        "movaps xmm3, gs:[{xmm} + 48]",
        "movaps xmm4, gs:[{xmm} + 64]",
        "movaps xmm5, gs:[{xmm} + 80]",
        "movaps xmm6, gs:[{xmm} + 96]",
        "movaps xmm7, gs:[{xmm} + 112]",
        "movaps xmm8, gs:[{xmm} + 128]",
        "movaps xmm9, gs:[{xmm} + 144]",
        "movaps xmm10, gs:[{xmm} + 160]",
        "movaps xmm11, gs:[{xmm} + 176]",
        "movaps xmm12, gs:[{xmm} + 192]",
        "movaps xmm13, gs:[{xmm} + 208]",
        "movaps xmm14, gs:[{xmm} + 224]",
        "movaps xmm15, gs:[{xmm} + 240]",
        "mov gs:[{host_rsp}], rsp",
        "push qword ptr gs:[{flags}]",
        "popfq",
        "mov rax, gs:[{gpr}]",
        "mov rcx, gs:[{gpr} + 8]",
        "mov rdx, gs:[{gpr} + 16]",
        "mov rbx, gs:[{gpr} + 24]",
        "mov rsp, gs:[{gpr} + 32]",
        "mov rbp, gs:[{gpr} + 40]",
        "mov rsi, gs:[{gpr} + 48]",
        "mov rdi, gs:[{gpr} + 56]",
        "mov r8, gs:[{gpr} + 64]",
        "mov r9, gs:[{gpr} + 72]",
        "mov r10, gs:[{gpr} + 80]",
        "mov r11, gs:[{gpr} + 88]",
        "mov r12, gs:[{gpr} + 96]",
        "mov r13, gs:[{gpr} + 104]",
        "mov r14, gs:[{scratch}]",
        "mov r15, gs:[{scratch} + 8]",
        "jmp qword ptr gs:[{target}]",
        host_mxcsr = const offset_of!(Context, host_mxcsr),
        guest_mxcsr = const offset_of!(Context, guest_mxcsr),
        xmm = const offset_of!(Context, xmm),
        host_rsp = const offset_of!(Context, host_rsp),
        flags = const offset_of!(Context, flags),
        gpr = const offset_of!(Context, gpr),
        scratch = const offset_of!(Context, scratch),
        target = const offset_of!(Context, target),
    )
}

/// The end of every visit to translated code: saves the guest's registers and
/// returns from [`enter`].
///
/// # Safety
/// Only reached by a jump from translated code that was entered by [`enter`].
#[unsafe(naked)]
pub(crate) unsafe extern "sysv64" fn leave() {
    naked_asm!(
        "mov gs:[{gpr}], rax",
        "mov gs:[{gpr} + 8], rcx",
        "mov gs:[{gpr} + 16], rdx",
        "mov gs:[{gpr} + 24], rbx",
        "mov gs:[{gpr} + 32], rsp",
        "mov gs:[{gpr} + 40], rbp",
        "mov gs:[{gpr} + 48], rsi",
        "mov gs:[{gpr} + 56], rdi",
        "mov gs:[{gpr} + 64], r8",
        "mov gs:[{gpr} + 72], r9",
        "mov gs:[{gpr} + 80], r10",
        "mov gs:[{gpr} + 88], r11",
        "mov gs:[{gpr} + 96], r12",
        "mov gs:[{gpr} + 104], r13",
        "mov gs:[{scratch}], r14",
        "mov gs:[{scratch} + 8], r15",
        "mov rsp, gs:[{host_rsp}]",
        "pushfq",
        "pop qword ptr gs:[{flags}]",
        "movaps gs:[{xmm}], xmm0",
        "movaps gs:[{xmm} + 16], xmm1",
        "movaps gs:[{xmm} + 32], xmm2",
        "movaps gs:[{xmm} + 48], xmm3",
        "movaps gs:[{xmm} + 64], xmm4",
        "movaps gs:[{xmm} + 80], xmm5",
        "movaps gs:[{xmm} + 96], xmm6",
        "movaps gs:[{xmm} + 112], xmm7",
        "movaps gs:[{xmm} + 128], xmm8",
        "movaps gs:[{xmm} + 144], xmm9",
        "movaps gs:[{xmm} + 160], xmm10",
        "movaps gs:[{xmm} + 176], xmm11",
        "movaps gs:[{xmm} + 192], xmm12",
        "movaps gs:[{xmm} + 208], xmm13",
        "movaps gs:[{xmm} + 224], xmm14",
        "movaps gs:[{xmm} + 240], xmm15",
        "stmxcsr gs:[{guest_mxcsr}]",
        "ldmxcsr gs:[{host_mxcsr}]",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbp",
        "pop rbx",
        "ret",
        host_mxcsr = const offset_of!(Context, host_mxcsr),
        guest_mxcsr = const offset_of!(Context, guest_mxcsr),
        xmm = const offset_of!(Context, xmm),
        host_rsp = const offset_of!(Context, host_rsp),
        flags = const offset_of!(Context, flags),
        gpr = const offset_of!(Context, gpr),
        scratch = const offset_of!(Context, scratch),
    )
}

/// Points GS at `context` and loads the guest's x87 and MXCSR from `fx`; XMM
/// registers are the context's.
pub(crate) fn begin_run(context: &mut Context, fx: &FxImage) {
    let base = std::ptr::from_mut(context) as u64;
    // SAFETY: the construction of a vCPU checked that user code may write the GS
    // base, which no other code of the process uses; `fx` is 512 aligned bytes in
    // FXSAVE format; the host's MXCSR is put back at once.
    unsafe {
        asm!("wrgsbase {}", in(reg) base, options(nostack, preserves_flags));
        asm!(
            "stmxcsr [{save}]",
            "fxrstor64 [{fx}]",
            "ldmxcsr [{save}]",
            save = in(reg) &raw mut context.host_mxcsr,
            fx = in(reg) fx.0.as_ptr(),
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
            out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
            out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
            out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
            options(nostack)
        );
    }
}

/// Saves the guest's x87 into `fx` and gives the host a clean one.
pub(crate) fn end_run(fx: &mut FxImage) {
    save_x87(fx);
    // SAFETY: FNINIT only resets the x87, which is the guest's until here.
    unsafe { asm!("fninit", options(nostack, nomem)) };
}

/// Copies the live x87 state into `fx`, without host addresses: the last
/// instruction's and operand's pointers become zero. MXCSR and XMM fields are not
/// the guest's.
pub(crate) fn save_x87(fx: &mut FxImage) {
    // SAFETY: `fx` is 512 writable, 16-byte aligned bytes; FXSAVE changes no register.
    unsafe { asm!("fxsave64 [{}]", in(reg) fx.0.as_mut_ptr(), options(nostack)) };
    fx.0[6..24].fill(0);
    fx.0[416..512].fill(0);
}

/// Loads the x87 from `fx`, leaving XMM and MXCSR alone.
pub(crate) fn load_x87(fx: &FxImage) {
    let mut image = fx.clone();
    let mut mxcsr = 0u32;
    // SAFETY: `image` is a valid FXSAVE image: its MXCSR is replaced by the live
    // one, so that no reserved bit can be set; vector registers are declared lost.
    unsafe {
        asm!("stmxcsr [{}]", in(reg) &raw mut mxcsr, options(nostack, preserves_flags));
        image.0[24..28].copy_from_slice(&mxcsr.to_le_bytes());
        asm!(
            "fxrstor64 [{fx}]",
            fx = in(reg) image.0.as_ptr(),
            out("xmm0") _, out("xmm1") _, out("xmm2") _, out("xmm3") _,
            out("xmm4") _, out("xmm5") _, out("xmm6") _, out("xmm7") _,
            out("xmm8") _, out("xmm9") _, out("xmm10") _, out("xmm11") _,
            out("xmm12") _, out("xmm13") _, out("xmm14") _, out("xmm15") _,
            options(nostack)
        );
    }
}
