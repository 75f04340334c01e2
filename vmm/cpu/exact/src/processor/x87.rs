//! The x87, which holds the guest's state for the whole of a run, through all exits: compiled host
//! code does not use it.
//!
//! A thread's x87 is in its reset state between runs. Most guests' is, too, and is then neither
//! loaded nor saved. `apart` calls this at the beginning and the end of a run, and instructions
//! that save or load the x87 in between.
#![allow(unsafe_code)]

use std::arch::x86_64::__cpuid_count;
use std::arch::{asm, is_x86_feature_detected};
use std::cell::Cell;
use std::sync::LazyLock;

use belljar_translate::context::Context;

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

impl FxImage {
    /// True if its x87 is in the reset state, including registers.
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
    /// True if it is in the reset state: usual, and cached because comparing takes too long for a
    /// turn.
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

    /// The state in FXSAVE's format.
    pub(crate) fn bytes(&self) -> &[u8; 512] {
        &self.image.0
    }

    /// True if it is in the reset state.
    pub(crate) fn is_initial(&self) -> bool {
        self.initial
    }

    /// Applies `change` to the state, and then keeps only the parts that a processor keeps:
    /// otherwise the visible state would depend on its first use. Not during a run.
    pub(crate) fn change(&mut self, change: impl FnOnce(&mut [u8; 512])) {
        change(&mut self.image.0);
        load_x87(&self.image);
        save_x87(&mut self.image);
        load_x87(&FxImage::reset());
        self.initial = self.image.is_initial();
    }
}

thread_local! {
    /// True if this thread's x87 is in the reset state, as every run leaves it.
    static CLEAN: Cell<bool> = const { Cell::new(false) };
}

/// Marks this thread's x87 as modified; its contents are not used any more.
pub(crate) fn spoil_x87() {
    CLEAN.set(false);
}

/// True if the live x87 is in the reset state, including registers.
pub(crate) fn is_reset() -> bool {
    if x87_is_initial() {
        return true;
    }
    let mut live = FxImage::reset();
    save_x87(&mut live);
    live.is_initial()
}

/// Loads the guest's x87, unless it is loaded already: most turns are short, most guests do not use
/// it, and loading would take longer than all other work at a run's beginning.
pub(crate) fn begin_x87(x87: &X87) {
    if !(x87.initial && CLEAN.get()) {
        load_x87(&x87.image);
    }
}

/// Saves the guest's x87 after a run, and resets the host's.
pub(crate) fn end_x87(context: &mut Context, x87: &mut X87) {
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
    // Not FNINIT, which keeps the registers' contents.
    load_x87(&FxImage::reset());
}

/// True if the live x87 equals the saved state.
fn is_live(x87: &X87) -> bool {
    let mut live = FxImage::reset();
    save_x87(&mut live);
    live.0[..6] == x87.image.0[..6] && live.0[32..160] == x87.image.0[32..160]
}

/// True if the processor reports that the x87 is in its reset state, including registers: its bit
/// in XINUSE (Intel SDM vol. 1, 13.6). It may be false for the reset state.
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

/// True if XGETBV with ECX 1 reports the state in use (CPUID leaf 0xd, subleaf 1).
pub(crate) fn tells_what_is_in_use() -> bool {
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

/// Loads the x87 from `fx`, without XMM registers and MXCSR.
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

/// True if the x87's status word has an unmasked exception, which the next waiting instruction
/// raises.
pub(crate) fn has_pending(image: &FxImage) -> bool {
    image.0[2] & 0x80 != 0
}

pub(crate) const ST_OFFSET: usize = 32;
