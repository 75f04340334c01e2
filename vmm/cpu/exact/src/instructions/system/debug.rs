//! Debug registers (Intel SDM vol. 3, 18.2).
//!
//! DR6 and DR7 read back with their fixed bits. Traps are only delivered at instruction boundaries,
//! where `dispatch` calls `trap`; `breakpoints` finds matching breakpoints.

use belljar_cpu::Exit;
use belljar_translate::architecture::vector;
use iced_x86::Instruction;

use crate::processor::state::Fault;
use crate::processor::vcpu::ExactVcpu;
use crate::processor::vcpu::left::Next;

/// CR4.DE: DR4 and DR5 are not aliases of DR6 and DR7.
const CR4_DE: u64 = 1 << 3;
/// DR6: B0 to B3, BD, BS and BT; other bits read as one, except for bit 12.
const STATUS_KNOWN: u64 = 0xe00f;
const STATUS_FIXED: u64 = 0xffff_0ff0;
/// B0 to B3: only for the latest breakpoints, as on processors.
pub(super) const STATUS_BREAKPOINTS: u64 = 15;
const STATUS_GENERAL_DETECT: u64 = 1 << 13;
const STATUS_SINGLE_STEP: u64 = 1 << 14;
/// DR7: all but reserved bits; bit 10 reads as one.
const CONTROL_KNOWN: u64 = 0xffff_23ff;
const CONTROL_FIXED: u64 = 1 << 10;
const CONTROL_GENERAL_DETECT: u64 = 1 << 13;

impl ExactVcpu {
    /// MOV with a debug register.
    pub(super) fn move_debug(&mut self, instruction: &Instruction) -> Result<(), Fault> {
        let (target, source) = (instruction.op0_register(), instruction.op1_register());
        let reads = source.is_dr();
        let mut number = if reads { source } else { target }.number();
        if number > 7 {
            return Err(Fault::invalid_opcode());
        }
        if matches!(number, 4 | 5) {
            if self.state.system.cr4 & CR4_DE != 0 {
                return Err(Fault::invalid_opcode());
            }
            number += 2;
        }
        if self.state.debug[7] & CONTROL_GENERAL_DETECT != 0 {
            self.state.debug[6] |= STATUS_GENERAL_DETECT;
            return Err(Fault::plain(vector::DEBUG));
        }
        if reads {
            let value = self.state.debug[number];
            self.set_register(target, value);
            return Ok(());
        }
        let value = self.register(source);
        if number >= 6 && value >> 32 != 0 {
            return Err(Fault::protection(0));
        }
        self.state.debug[number] = match number {
            6 => value & STATUS_KNOWN | STATUS_FIXED,
            7 => value & CONTROL_KNOWN | CONTROL_FIXED,
            _ => value,
        };
        Ok(())
    }

    /// Delivers the debug exception after an instruction: for the breakpoints `hits`, which replace
    /// earlier ones in DR6, and for a single step.
    pub(crate) fn trap(&mut self, hits: u64, stepping: bool) -> Next {
        let step = if stepping { STATUS_SINGLE_STEP } else { 0 };
        self.state.debug[6] = self.state.debug[6] & !STATUS_BREAKPOINTS | hits | step;
        self.deliver(Fault::plain(vector::DEBUG))
    }

    /// As [`trap`](Self::trap), after an instruction with an exit for the caller, including HLT.
    /// After a WRMSR, which may still be refused, no trap is delivered.
    pub(crate) fn trap_behind(&mut self, exit: Exit, hits: u64, stepping: bool) -> Option<Exit> {
        if matches!(exit, Exit::MsrWrite { .. } | Exit::Shutdown(_)) {
            return Some(exit);
        }
        self.state.halted = false;
        match self.trap(hits, stepping) {
            Next::Exit(shutdown) => Some(shutdown),
            _ => (exit != Exit::Halt).then_some(exit),
        }
    }

    /// Updates debug registers when a debug exception is delivered.
    pub(crate) fn enter_debug(&mut self) {
        self.state.debug[7] &= !CONTROL_GENERAL_DETECT;
    }
}
