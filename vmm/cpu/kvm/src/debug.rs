//! Breakpoints at the magic instructions: KVM answers CPUID inside the kernel, but stops
//! before an instruction at an address that debug registers name, in every process.

use belljar_abi::{FACT_ADDRESS, FACT_LEAF, MAGIC_ADDRESS};
use belljar_cpu::{Access, CpuError, Exit, Registers, Vcpu};
use kvm_bindings::{
    KVM_GUESTDBG_ENABLE, KVM_GUESTDBG_USE_HW_BP, kvm_guest_debug, kvm_guest_debug_arch,
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
const CPUID: [u8; 2] = [0x0f, 0xa2];
const USER: u8 = 3;

/// Has the vCPU stop before the magic instructions.
pub(crate) fn watch(vcpu: &VcpuFd) -> Result<(), CpuError> {
    let mut registers = [0; 8];
    registers[0] = MAGIC_ADDRESS;
    registers[1] = FACT_ADDRESS;
    registers[7] = EXECUTION_AT_BOTH;
    let wanted = kvm_guest_debug {
        control: KVM_GUESTDBG_ENABLE | KVM_GUESTDBG_USE_HW_BP,
        pad: 0,
        arch: kvm_guest_debug_arch {
            debugreg: registers,
        },
    };
    vcpu.set_guest_debug(&wanted)
        .map_err(failed("set breakpoints at the traced library"))
}

/// The magic exit of a vCPU that stopped before the instruction at linear address `at`;
/// where that is none of the library's, the vCPU goes on over it.
pub(crate) fn magic_exit(vcpu: &mut KvmVcpu, at: u64) -> Result<Option<Exit>, CpuError> {
    if is_magic(vcpu, at)? {
        return Ok(Some(Exit::Magic {
            at: vcpu.clock.now(),
        }));
    }
    vcpu.strangers += 1;
    vcpu.fd.sync_regs_mut().regs.rflags |= RESUME_FLAG;
    vcpu.fd.set_sync_dirty_reg(SyncReg::Register);
    Ok(None)
}

fn is_magic(vcpu: &KvmVcpu, at: u64) -> Result<bool, CpuError> {
    let registers = vcpu.registers();
    let leaf = registers.gpr[Registers::RAX] as u32;
    let known = at == MAGIC_ADDRESS || (at == FACT_ADDRESS && leaf == FACT_LEAF);
    if !known || at != registers.rip || vcpu.kvm_system()?.ss.dpl != USER {
        return Ok(false);
    }
    let mut bytes = [0; 2];
    let place = vcpu.translate(at, Access::Fetch);
    let read = place.map(|place| {
        let ram = &vcpu.machine.ram;
        ram.read_slice(&mut bytes, GuestAddress(place))
    });
    Ok(matches!(read, Some(Ok(()))) && bytes == CPUID)
}
