//! Into translated code and out of it.
//!
//! Translated code owns every general register, the flags, the vector registers
//! that the guest has, MXCSR and the x87; it never touches the host stack, so the guest's RSP stands in
//! the host's. The GS base points at the [`Context`] for as long as a run lasts.
//! The x87 stays the guest's through all exits of a run: compiled host code does
//! not use it.
#![allow(unsafe_code)]

use std::arch::x86_64::__cpuid_count;
use std::arch::{asm, is_x86_feature_detected, naked_asm};
use std::cell::Cell;
use std::mem::offset_of;
use std::sync::LazyLock;

use crate::context::Context;
use crate::features::Vectors;

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

/// The way into translated code and the way out of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Door {
    enter: unsafe extern "sysv64" fn(),
    leave: unsafe extern "sysv64" fn(),
    width: Vectors,
}

impl Door {
    /// The one that keeps registers of this width.
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

    /// The width that it keeps.
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
    /// The GS base must point at a [`Context`] whose `target` is the host address of
    /// translated code, and the host's signal stack must be set up, as the stack
    /// pointer is the guest's meanwhile. The host must have these vector registers.
    pub(crate) unsafe fn pass(self) {
        // SAFETY: as the caller promises.
        unsafe { (self.enter)() }
    }
}

/// One line for each general register that stands in its like: before the register,
/// between the register and its slot's offset, behind that.
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

/// A door: `$load` and `$save` are assembly for the vector registers.
macro_rules! door {
    ($name:ident, $load:literal, $save:literal) => {
        mod $name {
            use super::*;

            /// See [`Door::pass`].
            #[unsafe(naked)]
            pub(super) unsafe extern "sysv64" fn enter() {
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
                    // POPFQ would take as long: OF by an addition, the rest by SAHF.
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
            pub(super) unsafe extern "sysv64" fn leave() {
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
                    // The host does not care which exceptions there were, only what is masked
                    // and how results are rounded.
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

door!(
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
// Behind the saves, clean upper halves: host code that is not encoded with VEX is
// slow otherwise.
door!(
    ymm,
    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
    vmovaps ymm\\n, gs:[{vectors} + 64 * \\n]
    .endr
    /* {masks} */",
    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15
    vmovaps gs:[{vectors} + 64 * \\n], ymm\\n
    .endr
    vzeroupper
    /* {masks} */"
);
door!(
    zmm,
    ".irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
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

impl FxImage {
    /// Whether its x87 is as after reset, registers too.
    fn is_initial(&self) -> bool {
        const CONTROL: [u8; 24] = {
            let mut bytes = [0; 24];
            [bytes[0], bytes[1]] = 0x37fu16.to_le_bytes();
            bytes
        };
        self.0[..24] == CONTROL && self.0[32..160] == [0; 128]
    }
}

/// The guest's x87 while host code runs.
#[derive(Clone)]
pub(crate) struct X87 {
    image: FxImage,
    /// Whether it is as after reset, which it mostly is, and a turn has no time to compare.
    initial: bool,
}

impl X87 {
    /// The state after reset.
    pub(crate) fn reset() -> Self {
        Self {
            image: FxImage::reset(),
            initial: true,
        }
    }

    /// The state as FXSAVE has it.
    pub(crate) fn bytes(&self) -> &[u8; 512] {
        &self.image.0
    }

    /// Has `change` change the state.
    pub(crate) fn change(&mut self, change: impl FnOnce(&mut [u8; 512])) {
        change(&mut self.image.0);
        self.initial = self.image.is_initial();
    }
}

thread_local! {
    /// Whether this thread's x87 is as after reset, as every run leaves it.
    static CLEAN: Cell<bool> = const { Cell::new(false) };
}

/// Points GS at `context` and loads the guest's x87; vector registers are the context's.
pub(crate) fn begin_run(context: &mut Context, x87: &X87) {
    let base = std::ptr::from_mut(context) as u64;
    // SAFETY: the construction of a vCPU checked that user code may write the GS
    // base, which no other code of the process uses.
    unsafe { asm!("wrgsbase {}", in(reg) base, options(nostack, preserves_flags)) };
    // Most turns are short and most guests leave the x87 alone: loading it would take
    // longer than all else that begins a run.
    if !(x87.initial && CLEAN.get()) {
        load_x87(&x87.image);
    }
}

/// Saves the guest's x87 and gives the host a clean one.
pub(crate) fn end_run(context: &mut Context, x87: &mut X87) {
    CLEAN.set(true);
    if context.x87_used == 0 {
        debug_assert!(is_live(x87), "code changed the x87 and did not say so");
        if !x87.initial {
            load_x87(&FxImage::reset());
        }
        return;
    }
    context.x87_used = 0;
    if x87_is_initial() {
        if !x87.initial {
            *x87 = X87::reset();
        }
        return;
    }
    save_x87(&mut x87.image);
    x87.initial = x87.image.is_initial();
    // Not FNINIT, which leaves what is in the registers.
    load_x87(&FxImage::reset());
}

/// Whether the x87 is in the state that is kept.
fn is_live(x87: &X87) -> bool {
    let mut live = FxImage::reset();
    save_x87(&mut live);
    live.0[..6] == x87.image.0[..6] && live.0[32..160] == x87.image.0[32..160]
}

/// Whether the processor says that the x87 is as after reset, its registers too: its bit
/// in XINUSE (Intel SDM vol. 1, 13.6). It may say no where that is so.
fn x87_is_initial() -> bool {
    static TELLS: LazyLock<bool> = LazyLock::new(tells_what_is_in_use);
    if !*TELLS {
        return false;
    }
    let in_use: u32;
    // SAFETY: the processor has XGETBV with ECX 1, as was just checked.
    unsafe {
        asm!("xgetbv", in("ecx") 1, out("eax") in_use, out("edx") _,
            options(nomem, nostack, preserves_flags));
    }
    in_use & 1 == 0
}

/// Whether XGETBV tells with ECX 1 which state is in use (CPUID leaf 0xd, subleaf 1).
fn tells_what_is_in_use() -> bool {
    const XGETBV_1: u32 = 1 << 2;
    is_x86_feature_detected!("xsave") && __cpuid_count(0xd, 1).eax & XGETBV_1 != 0
}

/// Copies the live x87 state into `fx`, without host addresses: the last
/// instruction's and operand's pointers become zero. MXCSR and XMM fields are not
/// the guest's.
pub(crate) fn save_x87(fx: &mut FxImage) {
    // SAFETY: `fx` is 512 writable, 16-byte aligned bytes; FXSAVE changes no register.
    unsafe { asm!("fxsave64 [{}]", in(reg) fx.0.as_mut_ptr(), options(nostack)) };
    fx.0[6..24].fill(0);
    for register in fx.0[32..160].chunks_exact_mut(16) {
        register[10..].fill(0);
    }
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
