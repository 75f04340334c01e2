//! Breakpoints at the magic instructions: KVM answers CPUID inside the kernel, but comes back
//! before an instruction at an address that debug registers name, in every process, or at an
//! INT3, wherever it stands.

use belljar_abi::{
    FACT_ADDRESS, FACT_LEAF, MAGIC_ADDRESS, MAGIC_CPUID, MAGIC_INT3, MAGIC_JUMP, OP_RETURN,
    function_of,
};
use belljar_cpu::{Access, CpuError, Exit, Registers, Vcpu};
use kvm_bindings::{
    KVM_GUESTDBG_ENABLE, KVM_GUESTDBG_INJECT_BP, KVM_GUESTDBG_USE_HW_BP, KVM_GUESTDBG_USE_SW_BP,
    kvm_guest_debug, kvm_guest_debug_arch,
};
use kvm_ioctls::{SyncReg, VcpuFd};
use vm_memory::{Bytes, GuestAddress};

use crate::machine::failed;
use crate::vcpu::KvmVcpu;

/// Breakpoints 0 and 1 of DR7, globally enabled, on execution (which asks for a length of
/// one byte), with the bit that is always set.
const EXECUTION_AT_BOTH: u64 = 1 << 1 | 1 << 3 | 1 << 10;
/// RFLAGS.RF: the next instruction is not looked at.
const RESUME_FLAG: u64 = 1 << 16;
const USER: u8 = 3;

/// What stops a guest at the traced library's magic instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Breakpoints {
    /// Debug registers, which the guest then cannot use. The instructions are CPUIDs, as
    /// under every engine.
    Hardware,
    /// The instructions are INT3s, which the library writes where CPUID asks for them. Each
    /// INT3 of the guest's own costs a way out of it and back.
    Int3,
}

impl Breakpoints {
    /// The bytes of a magic instruction that the library writes.
    pub(crate) fn magic(self) -> [u8; 2] {
        match self {
            Self::Hardware => MAGIC_CPUID,
            Self::Int3 => MAGIC_INT3,
        }
    }

    /// What KVM is to do, with `more` flags.
    fn request(self, more: u32) -> kvm_guest_debug {
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
}

impl std::fmt::Display for Breakpoints {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Hardware => "hardware breakpoints",
            Self::Int3 => "INT3",
        })
    }
}

/// Has the vCPU stop before the magic instructions.
pub(crate) fn watch(vcpu: &VcpuFd, breakpoints: Breakpoints) -> Result<(), CpuError> {
    vcpu.set_guest_debug(&breakpoints.request(0))
        .map_err(failed("set breakpoints at the traced library"))
}

/// What stands where a vCPU is about to continue.
enum Found {
    /// A magic instruction, in its bytes.
    Magic([u8; 2]),
    /// The magic instruction's page is not mapped, and a call is on its way there.
    Absent,
    Other,
}

/// The magic exit of a vCPU that is about to continue with a magic instruction, before which it
/// happened to be stopped. Otherwise an interrupt could be taken there first. A processor
/// that returns from one with RFLAGS.RF set, as that of QEMU does, executes the instruction
/// without looking at breakpoints.
pub(crate) fn call_ahead(vcpu: &mut KvmVcpu) -> Result<Option<Exit>, CpuError> {
    let at = vcpu.fd.sync_regs().regs.rip;
    if !matches!(at, MAGIC_ADDRESS | FACT_ADDRESS) {
        return Ok(None);
    }
    match found_at(vcpu, at)? {
        Found::Magic(bytes) => Ok(Some(call_by(vcpu, bytes))),
        Found::Absent if vcpu.means.breakpoints == Breakpoints::Hardware => {
            fault_ahead(vcpu);
            Ok(None)
        }
        Found::Absent | Found::Other => Ok(None),
    }
}

/// The magic exit of a vCPU that stopped before the instruction at linear address `at`;
/// where that is none of the library's, the vCPU continues as if nobody had looked.
pub(crate) fn magic_exit(vcpu: &mut KvmVcpu, at: u64) -> Result<Option<Exit>, CpuError> {
    let found = found_at(vcpu, at)?;
    match (found, vcpu.means.breakpoints) {
        (Found::Magic(bytes), _) => return Ok(Some(call_by(vcpu, bytes))),
        (Found::Absent, Breakpoints::Hardware) => fault_ahead(vcpu),
        (_, Breakpoints::Hardware) => {
            vcpu.strangers += 1;
            vcpu.fd.sync_regs_mut().regs.rflags |= RESUME_FLAG;
            vcpu.fd.set_sync_dirty_reg(SyncReg::Register);
        }
        (_, Breakpoints::Int3) => {
            vcpu.strangers += 1;
            reinject(vcpu)?;
        }
    }
    Ok(None)
}

/// The magic exit at a magic instruction of these bytes.
fn call_by(vcpu: &mut KvmVcpu, bytes: [u8; 2]) -> Exit {
    vcpu.calls_by_cpuid |= bytes == MAGIC_CPUID;
    Exit::Magic {
        at: vcpu.clock.now(),
    }
}

/// Has the page fault that is to come at the magic instruction come one instruction before it,
/// at a jump to it in the same page. Breakpoints are looked at before an instruction is
/// fetched, and a handler returns from a fault with RFLAGS.RF set: the magic instruction itself
/// would then be executed unseen.
fn fault_ahead(vcpu: &mut KvmVcpu) {
    vcpu.fd.sync_regs_mut().regs.rip = MAGIC_JUMP;
    vcpu.fd.set_sync_dirty_reg(SyncReg::Register);
}

/// Gives the guest the exception of the INT3 before which it stands. Registers that are set
/// before it continues take that back; it then comes to the same INT3 again.
fn reinject(vcpu: &mut KvmVcpu) -> Result<(), CpuError> {
    let request = Breakpoints::Int3.request(KVM_GUESTDBG_INJECT_BP);
    // KVM would lose an interrupt that is queued together with it.
    vcpu.interruptible = false;
    vcpu.fd
        .set_guest_debug(&request)
        .map_err(failed("give the guest its own breakpoint"))
}

/// What stands at `at`. A guest that was saved under INT3 continues under hardware breakpoints,
/// which come first.
fn found_at(vcpu: &KvmVcpu, at: u64) -> Result<Found, CpuError> {
    let registers = vcpu.registers();
    let leaf = registers.gpr[Registers::RAX] as u32;
    let known = at == MAGIC_ADDRESS || (at == FACT_ADDRESS && leaf == FACT_LEAF);
    if !known || at != registers.rip || vcpu.kvm_system()?.ss.dpl != USER {
        return Ok(Found::Other);
    }
    let Some(place) = vcpu.translate(at, Access::Fetch) else {
        let call = at == MAGIC_ADDRESS && is_operation(registers.gpr[Registers::R11]);
        return Ok(if call { Found::Absent } else { Found::Other });
    };
    let mut bytes = [0; 2];
    let read = vcpu.machine.ram.read_slice(&mut bytes, GuestAddress(place));
    let magic = read.is_ok() && matches!(bytes, MAGIC_CPUID | MAGIC_INT3);
    Ok(if magic {
        Found::Magic(bytes)
    } else {
        Found::Other
    })
}

/// Whether `r11` is what a stub of the library puts there.
fn is_operation(r11: u64) -> bool {
    r11 == OP_RETURN || function_of(r11).is_some()
}
