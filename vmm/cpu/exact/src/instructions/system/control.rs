//! Control and debug registers, cache and TLB control.
//!
//! Reserved or contradictory values raise #GP before anything changes. Changes of address translation or of
//! features are reported to the TLB and to `lookup`. `table` calls this for MOV with control registers,
//! INVLPG, WBINVD and similar instructions.

use belljar_cpu::{Exit, Feature, SegmentRegister, SystemRegisters};
use belljar_translate::architecture::{attribute, cr0, cr4, efer};
use iced_x86::{Instruction, Mnemonic, Register};

use crate::instructions::done::Done;
use crate::memory::access::Stop;
use crate::processor::mmu::has_good_pointers;
use crate::processor::state::Fault;
use crate::processor::vcpu::ExactVcpu;

/// CR4 bits for features of every level: TSD, DE, PSE, PAE, MCE, PGE, PCE, OSFXSR, OSXMMEXCPT.
const CR4_KNOWN: u64 = 0b111_1111_1111 & !0b11 | 0b100;
const CR4_PAE: u64 = 1 << 5;
/// CR4 bits that affect cached translations: PSE, PAE, PGE.
const CR4_PAGING: u64 = 1 << 4 | 1 << 5 | 1 << 7;
/// Defined CR0 bits: PE, MP, EM, TS, ET, NE, WP, AM, NW, CD, PG.
const CR0_KNOWN: u64 = 0xe005_003f;
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
                // LMSW can set PE, but not clear it.
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
        } else if source.is_dr() || target.is_dr() {
            self.move_debug(instruction)?;
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
                let system = SystemRegisters {
                    cr3: value,
                    ..self.state.system
                };
                self.switch_paging(system, true)?;
                self.flush_address_space();
                self.settle_buffers();
                if !self.watchpoints.is_empty() {
                    self.find_watched_pages();
                }
            }
            Register::CR4 => self.set_cr4(value)?,
            Register::CR8 if value < 16 => self.state.cr8 = value,
            Register::CR8 => return Err(Fault::protection(0)),
            _ => return Err(Fault::invalid_opcode()),
        }
        Ok(())
    }

    /// CR0 (Intel SDM vol. 3, 2.5 and 10.8.5). Setting PG with EFER.LME set enters long mode, clearing it
    /// leaves it.
    fn set_cr0(&mut self, value: u64) -> Result<(), Fault> {
        const NW: u64 = 1 << 29;
        const CD: u64 = 1 << 30;
        let old = self.state.system.cr0;
        let paging = value & cr0::PG != 0;
        let contradicts =
            (paging && value & cr0::PE == 0) || value & (NW | CD) == NW || value >> 32 != 0;
        let ends_long_code = !paging && self.state.is_long();
        if contradicts || ends_long_code {
            return Err(Fault::protection(0));
        }
        let mut system = self.state.system;
        system.cr0 = value & CR0_KNOWN | CR0_ET;
        let begins_paging = paging && old & cr0::PG == 0;
        if begins_paging && system.efer & efer::LME != 0 {
            let code = self.state.segment(SegmentRegister::Cs).attributes;
            if system.cr4 & CR4_PAE == 0 || code & attribute::LONG != 0 {
                return Err(Fault::protection(0));
            }
            system.efer |= efer::LMA;
        } else if !paging {
            system.efer &= !efer::LMA;
        }
        self.switch_paging(
            system,
            old & !cr0::PG != system.cr0 & !cr0::PG || begins_paging,
        )?;
        let changed = system.cr0 ^ old;
        if changed & (cr0::WP | cr0::PG | cr0::PE) != 0 {
            self.flush_translations();
        }
        self.settle_features();
        Ok(())
    }

    /// Sets control registers, after a check of PAE's top entries if the change `reloads` them.
    fn switch_paging(&mut self, system: SystemRegisters, reloads: bool) -> Result<(), Fault> {
        if reloads && !has_good_pointers(&self.memory, &system) {
            return Err(Fault::protection(0));
        }
        self.state.system = system;
        Ok(())
    }

    fn set_cr4(&mut self, value: u64) -> Result<(), Fault> {
        let mut known = CR4_KNOWN;
        if self.identity.instruction_set.has(Feature::Xsave) {
            known |= cr4::OSXSAVE;
        }
        let drops_pae = value & CR4_PAE == 0 && self.state.is_long_active();
        if value & !known != 0 || drops_pae {
            return Err(Fault::protection(0));
        }
        let changed = value ^ self.state.system.cr4;
        let system = SystemRegisters {
            cr4: value,
            ..self.state.system
        };
        self.switch_paging(system, changed & CR4_PAGING != 0)?;
        if changed & CR4_PAGING != 0 {
            self.flush_translations();
        }
        self.settle_features();
        Ok(())
    }

    /// EFER. LME may only change while paging is off; LMA follows from the two.
    pub(super) fn set_efer(&mut self, value: u64) -> Result<(), Fault> {
        let old = self.state.system.efer;
        let changed = (value ^ old) & !efer::LMA;
        let while_paging = self.state.system.cr0 & cr0::PG != 0 && changed & efer::LME != 0;
        if value & !efer::KNOWN != 0 || while_paging {
            return Err(Fault::protection(0));
        }
        self.state.system.efer = value & !efer::LMA | old & efer::LMA;
        if changed & efer::NXE != 0 {
            self.flush_translations();
        }
        Ok(())
    }
}
