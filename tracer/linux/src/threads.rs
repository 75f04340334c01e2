//! Registers of threads that do not run at present: where the kernel saved them.
//!
//! At its entry into the kernel, a thread's general registers are stored as `struct pt_regs` at the top of its kernel
//! stack. Vector registers are in the thread's own area, which begins with the format of FXSAVE.

use crate::tasks::{Kernel, Thread};

/// Bytes of a kernel stack (`THREAD_SIZE`).
const STACK: u64 = 16 << 10;
/// Registers in `struct pt_regs`.
const SAVED: usize = 21;
/// Bytes above `struct pt_regs`: none, or those of FRED (`TOP_OF_KERNEL_STACK_PADDING`).
const PADDINGS: [u64; 2] = [0, 16];
/// Selectors of user code and data.
const USER_CODE: u64 = 0x33;
const USER_DATA: u64 = 0x2b;
/// Bytes of an area of FXSAVE.
const FXSAVE: usize = 512;
/// Offset of the registers in `struct fpstate`, after its sizes and masks, aligned to 64 bytes.
const REGISTERS: u64 = 64;

/// General registers of user code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UserRegisters {
    /// In the processor's order: RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8 to R15.
    pub general: [u64; 16],
    /// RIP.
    pub rip: u64,
    /// RFLAGS.
    pub flags: u64,
    /// Selectors of the code and stack segments.
    pub code: u16,
    /// The selector of the stack segment.
    pub stack: u16,
    /// Bases of the segments FS and GS.
    pub fs_base: u64,
    /// The base of segment GS.
    pub gs_base: u64,
    /// The number of the system call that the thread is in; all ones outside of one.
    pub system_call: u64,
}

/// x87 and SSE registers, in the format of FXSAVE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VectorRegisters(pub [u8; FXSAVE]);

impl Kernel<'_> {
    /// The registers with which `thread` entered the kernel; `None` for a thread of the kernel, or one that the kernel
    /// has not saved.
    pub fn saved(&self, thread: &Thread) -> Option<UserRegisters> {
        let of = &self.layout.task;
        let field = |offset: u64| self.space.word(thread.task.wrapping_add(offset));
        let stack = field(of.stack)?;
        let (fs_base, gs_base) = (field(of.fs_base)?, field(of.gs_base)?);
        PADDINGS.iter().find_map(|padding| {
            let top = stack.wrapping_add(STACK - padding);
            let bytes = self
                .space
                .read(top.wrapping_sub(8 * SAVED as u64), 8 * SAVED)?;
            let mut words = [0; SAVED];
            for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
                *word = u64::from_le_bytes(bytes.try_into().ok()?);
            }
            of_frame(&words, fs_base, gs_base)
        })
    }

    /// The vector registers that the kernel saved for `thread` when it last stopped running.
    pub fn saved_vectors(&self, thread: &Thread) -> Option<VectorRegisters> {
        let of = &self.layout.task;
        let at = thread.task.wrapping_add(of.vectors);
        let at = match of.vectors_apart {
            true => self.space.word(at)?.wrapping_add(REGISTERS),
            false => at,
        };
        let bytes = self.space.read(at, FXSAVE)?;
        Some(VectorRegisters(bytes.try_into().ok()?))
    }

    /// The exit code that the kernel has recorded for `thread`: a status as `wait` returns it.
    pub fn exit_code(&self, thread: &Thread) -> Option<u32> {
        let at = thread.task.wrapping_add(self.layout.task.exit_code);
        self.space.half(at)
    }
}

/// User registers of a `pt_regs`; `None` if it is not one.
fn of_frame(words: &[u64; SAVED], fs_base: u64, gs_base: u64) -> Option<UserRegisters> {
    let [
        r15,
        r14,
        r13,
        r12,
        bp,
        bx,
        r11,
        r10,
        r9,
        r8,
        ax,
        cx,
        dx,
        si,
        di,
        call,
        ip,
        cs,
        flags,
        sp,
        ss,
    ] = *words;
    (cs & 0xffff == USER_CODE && ss & 0xffff == USER_DATA).then_some(UserRegisters {
        general: [
            ax, cx, dx, bx, sp, bp, si, di, r8, r9, r10, r11, r12, r13, r14, r15,
        ],
        rip: ip,
        flags,
        code: USER_CODE as u16,
        stack: USER_DATA as u16,
        fs_base,
        gs_base,
        system_call: call,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_of_user_code_is_recognized_by_its_selectors() {
        let mut words: [u64; SAVED] = std::array::from_fn(|index| 100 + index as u64);
        assert_eq!(of_frame(&words, 1, 2), None);
        (words[17], words[20]) = (USER_CODE, USER_DATA);
        let registers = of_frame(&words, 1, 2).unwrap();
        assert_eq!(registers.rip, 116);
        // RSP, RDI and R15.
        assert_eq!(registers.general[4], 119);
        assert_eq!(registers.general[7], 114);
        assert_eq!(registers.general[15], 100);
        assert_eq!((registers.fs_base, registers.system_call), (1, 115));
    }
}
