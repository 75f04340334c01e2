//! Breakpoints at the magic instructions: KVM answers CPUID inside the kernel, but exits before an
//! instruction at the address of a debug register, in every process, or at an INT3 at any address.
//!
//! `vcpu` calls this before it enters a guest and after each breakpoint; `breakpoints` has the kind
//! of breakpoint.

use belljar_abi::{
    FACT_ADDRESS, FACT_LEAF, MAGIC_ADDRESS, MAGIC_CPUID, MAGIC_INT3, MAGIC_JUMP, OP_RETURN,
    function_of,
};
use belljar_cpu::{Access, CpuError, Exit, Registers, Vcpu};
use kvm_bindings::KVM_GUESTDBG_INJECT_BP;
use kvm_ioctls::SyncReg;
use vm_memory::{Bytes, GuestAddress};

use crate::host::breakpoints::Breakpoints;
use crate::host::machine::failed;
use crate::vcpu::KvmVcpu;

/// RFLAGS.RF: breakpoints are ignored for the next instruction.
const RESUME_FLAG: u64 = 1 << 16;
const USER: u8 = 3;

/// The instruction at which a vCPU is about to continue.
enum NextInstruction {
    /// A magic instruction with these bytes.
    Magic([u8; 2]),
    /// The magic instruction's page is not mapped, and a call is about to reach it.
    Absent,
    Other,
}

impl KvmVcpu {
    /// The magic exit of a vCPU that happened to be stopped before a magic instruction. Without
    /// this, an interrupt could be taken there first. A processor that returns from the interrupt
    /// with RFLAGS.RF set, such as QEMU's, then executes the instruction without checking
    /// breakpoints.
    pub(crate) fn call_ahead(&mut self) -> Result<Option<Exit>, CpuError> {
        let at = self.fd.sync_regs().regs.rip;
        if !matches!(at, MAGIC_ADDRESS | FACT_ADDRESS) {
            return Ok(None);
        }
        match self.found_at(at)? {
            NextInstruction::Magic(bytes) => Ok(Some(self.call_by(bytes))),
            NextInstruction::Absent if self.means.breakpoints == Breakpoints::Hardware => {
                self.fault_ahead();
                Ok(None)
            }
            NextInstruction::Absent | NextInstruction::Other => Ok(None),
        }
    }

    /// The magic exit of a vCPU that stopped before the instruction at linear address `at`. If the
    /// instruction is not the library's, the vCPU continues as without a breakpoint.
    pub(crate) fn magic_exit(&mut self, at: u64) -> Result<Option<Exit>, CpuError> {
        let found = self.found_at(at)?;
        match (found, self.means.breakpoints) {
            (NextInstruction::Magic(bytes), _) => return Ok(Some(self.call_by(bytes))),
            (NextInstruction::Absent, Breakpoints::Hardware) => self.fault_ahead(),
            (_, Breakpoints::Hardware) => {
                self.strangers += 1;
                self.fd.sync_regs_mut().regs.rflags |= RESUME_FLAG;
                self.fd.set_sync_dirty_reg(SyncReg::Register);
            }
            (_, Breakpoints::Int3) => {
                self.strangers += 1;
                self.reinject()?;
            }
        }
        Ok(None)
    }

    /// The magic exit at a magic instruction with these bytes.
    fn call_by(&mut self, bytes: [u8; 2]) -> Exit {
        self.calls_by_cpuid |= bytes == MAGIC_CPUID;
        Exit::Magic {
            at: self.clock.now(),
        }
    }

    /// Moves a page fault at the magic instruction to the preceding instruction, a jump to it in the
    /// same page. Breakpoints are checked before an instruction is fetched, and a handler returns
    /// from a fault with RFLAGS.RF set: the magic instruction itself would then be executed without
    /// a stop.
    fn fault_ahead(&mut self) {
        self.fd.sync_regs_mut().regs.rip = MAGIC_JUMP;
        self.fd.set_sync_dirty_reg(SyncReg::Register);
    }

    /// Injects the exception of the INT3 at which the guest stands. Setting registers before it
    /// continues cancels that; it then reaches the same INT3 again.
    fn reinject(&mut self) -> Result<(), CpuError> {
        let request = Breakpoints::Int3.request(KVM_GUESTDBG_INJECT_BP);
        // KVM would lose an interrupt that is queued together with it.
        self.interruptible = false;
        self.fd
            .set_guest_debug(&request)
            .map_err(failed("give the guest its own breakpoint"))
    }

    /// The instruction at `at`. A guest that was saved under INT3 continues under hardware
    /// breakpoints, which are checked first.
    fn found_at(&self, at: u64) -> Result<NextInstruction, CpuError> {
        let registers = self.registers();
        let leaf = registers.gpr[Registers::RAX] as u32;
        let known = at == MAGIC_ADDRESS || (at == FACT_ADDRESS && leaf == FACT_LEAF);
        if !known || at != registers.rip || self.kvm_system()?.ss.dpl != USER {
            return Ok(NextInstruction::Other);
        }
        let Some(place) = self.translate(at, Access::Fetch) else {
            let call = at == MAGIC_ADDRESS && is_operation(registers.gpr[Registers::R11]);
            return Ok(if call {
                NextInstruction::Absent
            } else {
                NextInstruction::Other
            });
        };
        let mut bytes = [0; 2];
        let read = self.machine.ram.read_slice(&mut bytes, GuestAddress(place));
        let magic = read.is_ok() && matches!(bytes, MAGIC_CPUID | MAGIC_INT3);
        Ok(if magic {
            NextInstruction::Magic(bytes)
        } else {
            NextInstruction::Other
        })
    }
}

/// True if `r11` is an operation that a stub of the library passes.
fn is_operation(r11: u64) -> bool {
    r11 == OP_RETURN || function_of(r11).is_some()
}
