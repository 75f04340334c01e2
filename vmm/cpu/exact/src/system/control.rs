//! Control and debug registers, cache and TLB control.

use iced_x86::{Instruction, Mnemonic, Register};

use super::Done;
use crate::access::Stop;
use crate::state::{Fault, cr0, cr4, efer};
use crate::vcpu::ExactVcpu;
use belljar_cpu::{Exit, Feature};

/// CR4 bits whose features CPUID offers at every level: TSD, DE, PSE, PAE, MCE, PGE, PCE, OSFXSR, OSXMMEXCPT.
const CR4_KNOWN: u64 = 0b111_1111_1111 & !0b11 | 0b100;
const CR4_PAE: u64 = 1 << 5;
/// CR4 bits that change what cached translations mean: PSE, PAE, PGE.
const CR4_PAGING: u64 = 1 << 4 | 1 << 5 | 1 << 7;
const CR0_PE: u64 = 1;
const CR0_ET: u64 = 1 << 4;

impl ExactVcpu {
    pub(super) fn control_instruction(&mut self, instruction: &Instruction) -> Result<Done, Stop> {
        match instruction.mnemonic() {
            Mnemonic::Smsw => {
                let value = self.state.system.cr0;
                self.write_operand(instruction, 0, value)?;
                return Ok(Done::Next);
            }
            _ => self.require_supervisor()?,
        }
        match instruction.mnemonic() {
            Mnemonic::Clts => {
                let value = self.state.system.cr0 & !cr0::TS;
                self.set_cr0(value)?;
            }
            Mnemonic::Lmsw => {
                let value = self.read_operand(instruction, 0)? & 0xf;
                let kept = self.state.system.cr0;
                self.set_cr0(kept & !0xe | value)?;
            }
            Mnemonic::Invlpg => {
                let linear = self.linear(instruction);
                self.flush_page(linear);
            }
            Mnemonic::Invd | Mnemonic::Wbinvd => {}
            _ => return self.move_control(instruction),
        }
        Ok(Done::Next)
    }

    fn move_control(&mut self, instruction: &Instruction) -> Result<Done, Stop> {
        let (target, source) = (instruction.op0_register(), instruction.op1_register());
        if source.is_cr() {
            let value = self.read_control(source)?;
            self.set_register(target, value);
        } else if source.is_dr() {
            let value = self.state.debug[source.number()];
            self.set_register(target, value);
        } else if target.is_dr() {
            self.state.debug[target.number()] = self.register(source);
        } else {
            let value = self.register(source);
            self.write_control(target, value)?;
            if target == Register::CR8 {
                return Ok(Done::Exit(Exit::TaskPriority));
            }
        }
        Ok(Done::Next)
    }

    fn read_control(&self, register: Register) -> Result<u64, Fault> {
        let system = &self.state.system;
        match register {
            Register::CR0 => Ok(system.cr0),
            Register::CR2 => Ok(system.cr2),
            Register::CR3 => Ok(system.cr3),
            Register::CR4 => Ok(system.cr4),
            Register::CR8 => Ok(self.state.cr8),
            _ => Err(Fault::invalid_opcode()),
        }
    }

    fn write_control(&mut self, register: Register, value: u64) -> Result<(), Fault> {
        match register {
            Register::CR0 => self.set_cr0(value)?,
            Register::CR2 => self.state.system.cr2 = value,
            Register::CR3 => {
                self.state.system.cr3 = value;
                self.flush_translations();
            }
            Register::CR4 => self.set_cr4(value)?,
            Register::CR8 if value < 16 => self.state.cr8 = value,
            Register::CR8 => return Err(Fault::protection(0)),
            _ => return Err(Fault::invalid_opcode()),
        }
        Ok(())
    }

    /// Long mode is all there is: paging and protection stay on.
    fn set_cr0(&mut self, value: u64) -> Result<(), Fault> {
        let valid = value & CR0_PE != 0 && value & cr0::PG != 0 && value >> 32 == 0;
        if !valid {
            return Err(Fault::protection(0));
        }
        let changed = value ^ self.state.system.cr0;
        self.state.system.cr0 = value | CR0_ET;
        if changed & cr0::WP != 0 {
            self.flush_translations();
        }
        self.settle_features();
        Ok(())
    }

    fn set_cr4(&mut self, value: u64) -> Result<(), Fault> {
        let mut known = CR4_KNOWN;
        if self.instruction_set.has(Feature::Xsave) {
            known |= cr4::OSXSAVE;
        }
        if value & !known != 0 || value & CR4_PAE == 0 {
            return Err(Fault::protection(0));
        }
        let changed = value ^ self.state.system.cr4;
        self.state.system.cr4 = value;
        if changed & CR4_PAGING != 0 {
            self.flush_translations();
        }
        self.settle_features();
        Ok(())
    }

    /// EFER: long mode stays on.
    pub(super) fn set_efer(&mut self, value: u64) -> Result<(), Fault> {
        if value & !efer::KNOWN != 0 || value & efer::LME == 0 {
            return Err(Fault::protection(0));
        }
        let changed = value ^ self.state.system.efer;
        self.state.system.efer = value | efer::LMA;
        if changed & efer::NXE != 0 {
            self.flush_translations();
        }
        Ok(())
    }
}
