//! Breakpoints at magic instructions: debug registers, or INT3s.
//!
//! The kind is fixed when a vCPU is created: `means` chooses it, `cpuid` reports it to the preloaded
//! library, and `calls` converts stops to magic exits.

use belljar_abi::{FACT_ADDRESS, MAGIC_ADDRESS, MAGIC_CPUID, MAGIC_INT3};
use belljar_cpu::CpuError;
use kvm_bindings::{
    KVM_GUESTDBG_ENABLE, KVM_GUESTDBG_USE_HW_BP, KVM_GUESTDBG_USE_SW_BP, kvm_guest_debug,
    kvm_guest_debug_arch,
};
use kvm_ioctls::VcpuFd;

use crate::host::machine::failed;

/// Breakpoints 0 and 1 of DR7, globally enabled, on execution (which requires a length of one byte),
/// with the bit that is always set.
const EXECUTION_AT_BOTH: u64 = 1 << 1 | 1 << 3 | 1 << 10;

/// The mechanism that stops a guest at the traced library's magic instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breakpoints {
    /// Debug registers, which the guest then cannot use. The magic instructions are CPUIDs, as under
    /// every engine.
    Hardware,
    /// INT3s, which the library uses as magic instructions if CPUID says so. Each INT3 of the
    /// guest's own costs an exit and an entry.
    Int3,
}

impl Breakpoints {
    /// The bytes of the library's magic instruction.
    pub(crate) fn magic(self) -> [u8; 2] {
        match self {
            Self::Hardware => MAGIC_CPUID,
            Self::Int3 => MAGIC_INT3,
        }
    }

    /// The request to KVM, with `more` flags.
    pub(crate) fn request(self, more: u32) -> kvm_guest_debug {
        let mut registers = [0; 8];
        let kind = match self {
            Self::Hardware => {
                registers[0] = MAGIC_ADDRESS;
                registers[1] = FACT_ADDRESS;
                registers[7] = EXECUTION_AT_BOTH;
                KVM_GUESTDBG_USE_HW_BP
            }
            Self::Int3 => KVM_GUESTDBG_USE_SW_BP,
        };
        kvm_guest_debug {
            control: KVM_GUESTDBG_ENABLE | kind | more,
            pad: 0,
            arch: kvm_guest_debug_arch {
                debugreg: registers,
            },
        }
    }

    /// Makes the vCPU stop before the magic instructions.
    pub(crate) fn watch(self, vcpu: &VcpuFd) -> Result<(), CpuError> {
        vcpu.set_guest_debug(&self.request(0))
            .map_err(failed("set breakpoints at the traced library"))
    }
}

impl std::fmt::Display for Breakpoints {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Hardware => "hardware breakpoints",
            Self::Int3 => "INT3",
        })
    }
}
