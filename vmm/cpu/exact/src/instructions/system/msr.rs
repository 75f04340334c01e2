//! Model-specific registers that belong to the processor itself.
//!
//! An access to a register outside the processor, such as the local APIC's, exits to the machine,
//! which may refuse it with #GP. `table` calls these functions for RDMSR and WRMSR, `saved` for the
//! values.

use belljar_cpu::{Exit, Registers};
use iced_x86::{Instruction, Mnemonic};

use crate::instructions::done::Done;
use crate::memory::access::Stop;
use crate::processor::mmu::is_canonical;
use crate::processor::state::Fault;
use crate::processor::vcpu::ExactVcpu;
use crate::processor::vcpu::devices::Answer;

const TSC: u32 = 0x10;
const APIC_BASE: u32 = 0x1b;
const APIC_ENABLE: u64 = 1 << 11;
/// The leaf whose EDX has the bit of the local APIC.
const LEAF_FEATURES: u32 = 1;
const FEATURE_APIC: u32 = 1 << 9;
const SYSENTER_CS: u32 = 0x174;
const SYSENTER_EIP: u32 = 0x176;
const MISC_ENABLE: u32 = 0x1a0;
const MTRR_CAP: u32 = 0xfe;
const MTRR_VARIABLE: u32 = 0x200;
const MTRR_VARIABLE_LAST: u32 = 0x20f;
const PAT: u32 = 0x277;
const MTRR_DEFAULT: u32 = 0x2ff;
const EFER: u32 = 0xc000_0080;
const STAR: u32 = 0xc000_0081;
const LSTAR: u32 = 0xc000_0082;
const CSTAR: u32 = 0xc000_0083;
const SFMASK: u32 = 0xc000_0084;
const FS_BASE: u32 = 0xc000_0100;
const GS_BASE: u32 = 0xc000_0101;
const KERNEL_GS_BASE: u32 = 0xc000_0102;
const TSC_AUX: u32 = 0xc000_0103;
/// Eight variable ranges, fixed ranges, write combining.
const MTRR_CAP_VALUE: u64 = 8 | 1 << 8 | 1 << 10;

/// The index of a fixed-range MTRR.
fn fixed_mtrr(index: u32) -> Option<usize> {
    match index {
        0x250 => Some(0),
        0x258 | 0x259 => Some((index - 0x258 + 1) as usize),
        0x268..=0x26f => Some((index - 0x268 + 3) as usize),
        _ => None,
    }
}

/// The registers that only hold a value, in the order in which they are saved.
fn plain_msrs() -> impl Iterator<Item = u32> {
    let fixed = [0x250, 0x258, 0x259].into_iter().chain(0x268..=0x26f);
    (SYSENTER_CS..=SYSENTER_EIP)
        .chain([MISC_ENABLE, PAT, MTRR_DEFAULT])
        .chain([STAR, LSTAR, CSTAR, SFMASK, KERNEL_GS_BASE, TSC_AUX])
        .chain(MTRR_VARIABLE..=MTRR_VARIABLE_LAST)
        .chain(fixed)
}

impl ExactVcpu {
    /// All registers whose value is not part of other state.
    pub(crate) fn saved_msrs(&self) -> Vec<(u32, u64)> {
        plain_msrs()
            .filter_map(|index| Some((index, self.read_msr(index)?)))
            .collect()
    }

    /// Loads the values that [`saved_msrs`](Self::saved_msrs) returned; false if the registers
    /// differ, or if a value is invalid.
    pub(crate) fn load_msrs(&mut self, saved: &[(u32, u64)]) -> bool {
        plain_msrs().eq(saved.iter().map(|(index, _)| *index))
            && saved
                .iter()
                .all(|&(index, value)| self.write_msr(index, value) == Ok(true))
    }

    pub(super) fn msr(&mut self, instruction: &Instruction) -> Result<Done, Stop> {
        self.require_supervisor()?;
        let index = self.context.gpr[Registers::RCX] as u32;
        if instruction.mnemonic() == Mnemonic::Wrmsr {
            self.write_msr_instruction(index)
        } else {
            self.read_msr_instruction(index)
        }
    }

    fn read_msr_instruction(&mut self, index: u32) -> Result<Done, Stop> {
        let value = match self.read_msr(index) {
            Some(value) => value,
            None => match self.take_answer() {
                Answer::Value(value) => value,
                Answer::Refused => return Err(Fault::protection(0).into()),
                Answer::None => return Ok(Done::Again(Exit::MsrRead { index })),
            },
        };
        self.context.gpr[Registers::RAX] = value & 0xffff_ffff;
        self.context.gpr[Registers::RDX] = value >> 32;
        Ok(Done::Next)
    }

    fn write_msr_instruction(&mut self, index: u32) -> Result<Done, Stop> {
        let gpr = &self.context.gpr;
        let value = gpr[Registers::RAX] & 0xffff_ffff | gpr[Registers::RDX] << 32;
        if self.write_msr(index, value)? {
            return Ok(Done::Next);
        }
        self.pending.refusable = Some(self.state.rip);
        self.state.apic_was_off = self.state.apic_off;
        if index == APIC_BASE {
            self.state.apic_off = value & APIC_ENABLE == 0;
        }
        Ok(Done::Exit(Exit::MsrWrite { index, value }))
    }

    /// Hides a disabled local APIC in CPUID's `answer` (Intel SDM volume 3, "Enabling or Disabling
    /// the Local APIC").
    pub(super) fn show_apic(&self, leaf: u32, answer: &mut [u32; 4]) {
        if leaf == LEAF_FEATURES && self.state.apic_off {
            answer[3] &= !FEATURE_APIC;
        }
    }

    fn read_msr(&self, index: u32) -> Option<u64> {
        let msrs = &self.state.msrs;
        Some(match index {
            TSC => self.tsc(),
            SYSENTER_CS..=SYSENTER_EIP => msrs.sysenter[(index - SYSENTER_CS) as usize],
            MISC_ENABLE => msrs.misc_enable,
            MTRR_CAP => MTRR_CAP_VALUE,
            MTRR_VARIABLE..=MTRR_VARIABLE_LAST => {
                msrs.mtrr_variable[(index - MTRR_VARIABLE) as usize]
            }
            PAT => msrs.pat,
            MTRR_DEFAULT => msrs.mtrr_default,
            EFER => self.state.system.efer,
            STAR => msrs.star,
            LSTAR => msrs.lstar,
            CSTAR => msrs.cstar,
            SFMASK => msrs.sfmask,
            FS_BASE => self.context.fs_base,
            GS_BASE => self.context.gs_base,
            KERNEL_GS_BASE => self.context.kernel_gs_base,
            TSC_AUX => msrs.tsc_aux,
            _ => msrs.mtrr_fixed[fixed_mtrr(index)?],
        })
    }

    /// Writes a register; returns false if it is not the processor's.
    fn write_msr(&mut self, index: u32, value: u64) -> Result<bool, Fault> {
        let is_address = matches!(index, LSTAR | CSTAR | FS_BASE | GS_BASE | KERNEL_GS_BASE);
        if is_address && !is_canonical(value) {
            return Err(Fault::protection(0));
        }
        let now = self.clock.at(self.ticks_now());
        let msrs = &mut self.state.msrs;
        match index {
            TSC => self.clock.tsc_offset = value.wrapping_sub(now),
            SYSENTER_CS..=SYSENTER_EIP => msrs.sysenter[(index - SYSENTER_CS) as usize] = value,
            MISC_ENABLE => msrs.misc_enable = value,
            MTRR_CAP => return Err(Fault::protection(0)),
            MTRR_VARIABLE..=MTRR_VARIABLE_LAST => {
                msrs.mtrr_variable[(index - MTRR_VARIABLE) as usize] = value
            }
            PAT => msrs.pat = value,
            MTRR_DEFAULT => msrs.mtrr_default = value,
            EFER => self.set_efer(value)?,
            STAR => msrs.star = value,
            LSTAR => msrs.lstar = value,
            CSTAR => msrs.cstar = value,
            SFMASK => msrs.sfmask = value,
            FS_BASE => {
                self.context.fs_base = value;
                self.settle_buffers();
            }
            GS_BASE => self.context.gs_base = value,
            KERNEL_GS_BASE => self.context.kernel_gs_base = value,
            TSC_AUX => msrs.tsc_aux = value,
            _ => match fixed_mtrr(index) {
                Some(place) => msrs.mtrr_fixed[place] = value,
                None => return Ok(false),
            },
        }
        Ok(true)
    }
}
