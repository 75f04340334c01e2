//! A vCPU's registers at a magic instruction or probe.
//!
//! Numbers of registers are those of the instruction encoding. The runner provides the registers; the tracer reads arguments and results from them.

use belljar_trace::Account;

use crate::calls::Space;

pub(crate) const RAX: usize = 0;
pub(crate) const RBX: usize = 3;
pub(crate) const RSP: usize = 4;
pub(crate) const RSI: usize = 6;
pub(crate) const RDI: usize = 7;
pub(crate) const R11: usize = 11;

/// The registers that carry the first six arguments, in order (System V ABI, 3.2.3).
pub(crate) const ARGUMENT_REGISTERS: [usize; 6] = [RDI, RSI, 2, 1, 8, 9];

/// The page-table root in CR3; the bits around it are flags and the PCID, which Linux
/// changes at will.
pub(crate) const SPACE_MASK: u64 = 0x000f_ffff_ffff_f000;

/// Most processes that are kept; the oldest are forgotten first.
pub(crate) const MAX_PROCESSES: usize = 1 << 12;

/// A vCPU's registers, and its account, at a magic exit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MagicRegisters {
    /// General registers, indexed by their number in the instruction encoding.
    pub gpr: [u64; 16],
    /// Address of the magic instruction or probe.
    pub rip: u64,
    /// The low halves of XMM0 to XMM7; zeros if unused.
    pub scalars: [u64; 8],
    /// CR3, which identifies the address space.
    pub cr3: u64,
    /// The base of FS, which identifies the thread.
    pub fs_base: u64,
    /// The node's account so far, under a time model.
    pub account: Option<Account>,
}

/// RBX, RBP and R12 to R15, which a function must preserve (System V ABI, 3.2.1).
const KEPT_REGISTERS: [usize; 6] = [RBX, 5, 12, 13, 14, 15];

impl MagicRegisters {
    /// Returns the address space.
    pub(crate) fn space(&self) -> Space {
        self.cr3 & SPACE_MASK
    }

    /// Returns the registers that a function preserves for its caller.
    pub(crate) fn kept(&self) -> [u64; 6] {
        KEPT_REGISTERS.map(|register| self.gpr[register])
    }
}
