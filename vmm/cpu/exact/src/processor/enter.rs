//! Entry into translated code and exit from it.
//!
//! Translated code owns every general register, the flags, the vector registers that the guest has, MXCSR and the
//! x87; it never uses the host stack, so the host's RSP holds the guest's. The GS base points at the
//! [`Context`](belljar_translate::context::Context) for as long as a run lasts. The x87 holds the guest's state
//! through all exits of a run, see [`x87`](crate::processor::x87).
#![allow(unsafe_code)]

use std::arch::{asm, naked_asm};
use std::mem::offset_of;

use belljar_translate::context::Context;
use belljar_translate::guest::features::Vectors;

/// The entry into translated code and the exit from it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Trampoline {
    enter: unsafe extern "sysv64" fn(),
    leave: unsafe extern "sysv64" fn(),
    width: Vectors,
}

impl Trampoline {
    /// The trampoline that saves registers of this width.
    pub(crate) fn new(vectors: Vectors) -> Self {
        match vectors {
            Vectors::Xmm => Self {
                enter: xmm::enter,
                leave: xmm::leave,
                width: vectors,
            },
            Vectors::Ymm => Self {
                enter: ymm::enter,
                leave: ymm::leave,
                width: vectors,
            },
            Vectors::Zmm => Self {
                enter: zmm::enter,
                leave: zmm::leave,
                width: vectors,
            },
        }
    }

    /// The width that it saves.
    pub(crate) fn width(self) -> Vectors {
        self.width
    }

    /// Host address of the code that leaves translated code.
    pub(crate) fn leave_address(self) -> u64 {
        self.leave as usize as u64
    }

    /// Loads the guest's registers and jumps to `context.target`; returns when
    /// translated code leaves.
    ///
    /// # Safety
    /// The GS base must point at a [`Context`] whose `target` is the host address of translated code. The host's
    /// signal stack must be set up, as the stack pointer is the guest's meanwhile. The host must have these vector
    /// registers.
    pub(crate) unsafe fn pass(self) {
        // SAFETY: by the contract of this function.
        unsafe { (self.enter)() }
    }
}

/// One line for each general register with the same host register: text before the register, between the register and
/// its slot's offset, and after that.
macro_rules! each_general {
    ($line:ident) => {
        concat!(
            $line!("rax", "0"),
            $line!("rcx", "8"),
            $line!("rdx", "16"),
            $line!("rbx", "24"),
            $line!("rsp", "32"),
            $line!("rbp", "40"),
            $line!("rsi", "48"),
            $line!("rdi", "56"),
            $line!("r8", "64"),
            $line!("r9", "72"),
            $line!("r10", "80"),
            $line!("r11", "88"),
            $line!("r12", "96"),
            $line!("r13", "104"),
        )
    };
}

macro_rules! load_general {
    ($register:literal, $offset:literal) => {
        concat!("mov ", $register, ", gs:[{gpr} + ", $offset, "]\n")
    };
}

macro_rules! save_general {
    ($register:literal, $offset:literal) => {
        concat!("mov gs:[{gpr} + ", $offset, "], ", $register, "\n")
    };
}

/// A trampoline: `$load` and `$save` are assembly for the vector registers.
macro_rules! trampoline {
    ($name:ident, $load:literal, $save:literal) => {
        mod $name {
            use super::*;

            /// See [`Trampoline::pass`].
            #[unsafe(naked)]
            pub(crate) unsafe extern "sysv64" fn enter() {
                naked_asm!(
                    "push rbx",
                    "push rbp",
                    "push r12",
                    "push r13",
                    "push r14",
                    "push r15",
                    // Loading MXCSR takes longer than all other registers together.
                    "stmxcsr gs:[{host_mxcsr}]",
                    "mov eax, gs:[{guest_mxcsr}]",
                    "cmp eax, gs:[{host_mxcsr}]",
                    "je 2f",
                    "ldmxcsr gs:[{guest_mxcsr}]",
                    "2:",
                    $load,
                    "mov gs:[{host_rsp}], rsp",
                    // POPFQ would take as long: OF is set by an addition, the others by SAHF.
                    "mov rax, gs:[{flags}]",
                    "mov ecx, eax",
                    "shr ecx, 11",
                    "and ecx, 1",
                    "mov ah, al",
                    "add cl, 127",
                    "sahf",
                    each_general!(load_general),
                    "mov r14, gs:[{scratch}]",
                    "mov r15, gs:[{scratch} + 8]",
                    "jmp qword ptr gs:[{target}]",
                    host_mxcsr = const offset_of!(Context, host_mxcsr),
                    guest_mxcsr = const offset_of!(Context, guest_mxcsr),
                    vectors = const offset_of!(Context, vectors),
                    masks = const offset_of!(Context, masks),
                    host_rsp = const offset_of!(Context, host_rsp),
                    flags = const offset_of!(Context, flags),
                    gpr = const offset_of!(Context, gpr),
                    scratch = const offset_of!(Context, scratch),
                    target = const offset_of!(Context, target),
                )
            }

            /// The end of every visit to translated code: saves the guest's registers
            /// and returns from `enter`.
            ///
            /// # Safety
            /// Only reached by a jump from translated code that `enter` entered.
            #[unsafe(naked)]
            pub(crate) unsafe extern "sysv64" fn leave() {
                naked_asm!(
                    each_general!(save_general),
                    "mov gs:[{scratch}], r14",
                    "mov gs:[{scratch} + 8], r15",
                    "mov rsp, gs:[{host_rsp}]",
                    "lahf",
                    "seto al",
                    "movzx ecx, ah",
                    "movzx eax, al",
                    "shl eax, 11",
                    "or eax, ecx",
                    "mov gs:[{flags}], rax",
                    $save,
                    // Recorded exceptions do not matter to the host, only masks and rounding.
                    "stmxcsr gs:[{guest_mxcsr}]",
                    "mov eax, gs:[{guest_mxcsr}]",
                    "xor eax, gs:[{host_mxcsr}]",
                    "test eax, 0xffc0",
                    "jz 2f",
                    "ldmxcsr gs:[{host_mxcsr}]",
                    "2:",
                    "pop r15",
                    "pop r14",
                    "pop r13",
                    "pop r12",
                    "pop rbp",
                    "pop rbx",
                    "ret",
                    host_mxcsr = const offset_of!(Context, host_mxcsr),
                    guest_mxcsr = const offset_of!(Context, guest_mxcsr),
                    vectors = const offset_of!(Context, vectors),
                    masks = const offset_of!(Context, masks),
                    host_rsp = const offset_of!(Context, host_rsp),
                    flags = const offset_of!(Context, flags),
                    gpr = const offset_of!(Context, gpr),
                    scratch = const offset_of!(Context, scratch),
                )
            }
        }
    };
}

trampoline!(
    xmm,
    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
    movaps xmm\\n, gs:[{vectors} + 64 * \\n]
    .endr
    /* {masks} */",
    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
    movaps gs:[{vectors} + 64 * \\n], xmm\\n
    .endr
    /* {masks} */"
);
// After the saves, clear upper halves: host code without VEX is slow otherwise. So is guest code, and processors
// decide by whether a wide instruction wrote a register, regardless of the value: upper halves that are all zero are
// cleared by a narrow load. They are checked here, because handlers write vectors too.
trampoline!(
    ymm,
    "vmovaps xmm0, gs:[{vectors} + 16]
    vmovaps xmm1, gs:[{vectors} + 64 + 16]
    .irp n, 2,4,6,8,10,12,14
    vpor xmm0, xmm0, gs:[{vectors} + 64 * \\n + 16]
    vpor xmm1, xmm1, gs:[{vectors} + 64 * \\n + 64 + 16]
    .endr
    vpor xmm0, xmm0, xmm1
    vptest xmm0, xmm0
    jnz 3f
    .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
    vmovaps xmm\\n, gs:[{vectors} + 64 * \\n]
    .endr
    jmp 4f
    3:
    .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
    vmovaps ymm\\n, gs:[{vectors} + 64 * \\n]
    .endr
    4:
    /* {masks} */",
    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
    vmovaps gs:[{vectors} + 64 * \\n], ymm\\n
    .endr
    vzeroupper
    /* {masks} */"
);
// ZMM16 and above have no legacy instructions, so they can be used for the check.
trampoline!(
    zmm,
    "vmovdqa64 zmm16, gs:[{vectors}]
    vmovdqa64 zmm17, gs:[{vectors} + 64]
    .irp n, 2,4,6,8,10,12,14
    vporq zmm16, zmm16, gs:[{vectors} + 64 * \\n]
    vporq zmm17, zmm17, gs:[{vectors} + 64 * \\n + 64]
    .endr
    vporq zmm16, zmm16, zmm17
    vptestmq k1, zmm16, zmm16
    kmovw eax, k1
    test al, 0xfc
    jnz 3f
    .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
    vmovaps xmm\\n, gs:[{vectors} + 64 * \\n]
    .endr
    jmp 4f
    3:
    .irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
    vmovaps zmm\\n, gs:[{vectors} + 64 * \\n]
    .endr
    4:
    .irp n, 16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
    vmovaps zmm\\n, gs:[{vectors} + 64 * \\n]
    .endr
    .irp n, 0,1,2,3,4,5,6,7
    kmovq k\\n, gs:[{masks} + 8 * \\n]
    .endr",
    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
    vmovaps gs:[{vectors} + 64 * \\n], zmm\\n
    .endr
    .irp n, 0,1,2,3,4,5,6,7
    kmovq gs:[{masks} + 8 * \\n], k\\n
    .endr
    vzeroupper"
);

/// Points GS at `context`.
pub(crate) fn point_at(context: &mut Context) {
    let base = std::ptr::from_mut(context) as u64;
    // SAFETY: the construction of a vCPU checked that user code may write the GS
    // base, which no other code of the process uses.
    unsafe { asm!("wrgsbase {}", in(reg) base, options(nostack, preserves_flags)) };
}

#[cfg(test)]
mod tests;
