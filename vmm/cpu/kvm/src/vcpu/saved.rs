//! The vCPU's whole state, saved and loaded. It is only architectural state, so any engine can
//! continue with it.
//!
//! A state is only saved when KVM has no pending operation: a transfer or an interrupt under way is
//! completed first, or saving fails. `interface` calls this for `Vcpu::save` and `Vcpu::load`; a
//! part of a loaded state that KVM refuses is an error.

use belljar_cpu::{CpuError, CpuState, Vcpu};
use kvm_bindings::{
    KVM_VCPUEVENT_VALID_SHADOW, KVM_X86_SHADOW_INT_MOV_SS, KVM_X86_SHADOW_INT_STI, kvm_debugregs,
    kvm_vcpu_events, kvm_xcr, kvm_xcrs,
};

use crate::exits::decode::RawExit;
use crate::host::breakpoints::Breakpoints;
use crate::host::ioctl;
use crate::host::machine::failed;
use crate::host::msr;
use crate::state::xstate::Extended;
use crate::vcpu::KvmVcpu;
use crate::vcpu::interface::INTERRUPT_FLAG;

/// This engine's name in saved states.
pub const ENGINE_NAME: &str = "kvm";

/// The mark in a saved state of a guest in which programs call by CPUID. It is absent before the
/// first call, because the library has not queried CPUID yet.
const BY_CPUID: &[u8] = b"calls by cpuid";

/// XCR0 without XSAVE, or before it is enabled.
const XCR0_INITIAL: u64 = 1;

impl KvmVcpu {
    pub(crate) fn save_state(&mut self) -> Result<CpuState, CpuError> {
        self.settle()?;
        let events = self
            .fd
            .get_vcpu_events()
            .map_err(failed("read what the guest waits for"))?;
        let taken = [
            events.exception.injected,
            events.exception.pending,
            events.interrupt.injected,
            events.nmi.injected,
            // Accepted by KVM but held back: a saved state has no field for it.
            events.nmi.pending,
        ];
        if taken.iter().any(|&taken| taken != 0) {
            return Err(amid("is taking an interrupt or exception"));
        }
        let extended = self.extended()?;
        Ok(CpuState {
            registers: self.registers(),
            system: self.system(),
            xcr0: self.xcr0()?,
            debug: self.debug_registers()?,
            task_priority: self.task_priority.into(),
            msrs: msr::read(&self.fd)?,
            vectors: extended.vectors,
            masks: extended.masks,
            mxcsr: extended.mxcsr,
            x87: extended.x87,
            tsc_offset: self.clock.guest_offset,
            cycles: self.clock.now(),
            retired: 0,
            halted: self.halted,
            shadow: events.interrupt.shadow != 0,
            holds_traps: false,
            in_nmi: events.nmi.masked != 0,
            engine_name: ENGINE_NAME.to_owned(),
            engine: if self.calls_by_cpuid {
                BY_CPUID.to_vec()
            } else {
                Vec::new()
            },
        })
    }

    /// Completes the instruction that KVM has begun.
    fn settle(&mut self) -> Result<(), CpuError> {
        if self.is_amid() {
            return Err(amid("has something to tell"));
        }
        // Also writes registers that were set and not used yet.
        match self.end_instruction()? {
            RawExit::Interrupted => Ok(()),
            _ => Err(amid("is in the middle of an instruction")),
        }
    }

    fn extended(&self) -> Result<Extended, CpuError> {
        let area = self
            .fd
            .get_xsave()
            .map_err(failed("read vector registers"))?;
        let wanted = self.instruction_set.state_components();
        Ok(Extended::read(&area, wanted))
    }

    fn xcr0(&self) -> Result<u64, CpuError> {
        let read = self
            .fd
            .get_xcrs()
            .map_err(failed("read extended control registers"))?;
        let listed = &read.xcrs[..(read.nr_xcrs as usize).min(read.xcrs.len())];
        let first = listed.iter().find(|register| register.xcr == 0);
        Ok(first.map_or(XCR0_INITIAL, |register| register.value))
    }

    pub(crate) fn debug_registers(&self) -> Result<[u64; 8], CpuError> {
        let read = self
            .fd
            .get_debug_regs()
            .map_err(failed("read debug registers"))?;
        let [a, b, c, d] = read.db;
        Ok([a, b, c, d, 0, 0, read.dr6, read.dr7])
    }

    /// True if the guest has, or had, breakpoints of its own, which do not work.
    pub(crate) fn misses_breakpoints(&self) -> bool {
        const ENABLED: u64 = 0xff;
        self.missed_breakpoints
            || self.means.breakpoints == Breakpoints::Hardware
                && self
                    .debug_registers()
                    .is_ok_and(|registers| registers[7] & ENABLED != 0)
    }

    pub(crate) fn load_state(&mut self, saved: &CpuState) -> Result<(), CpuError> {
        let wrong = |what: &str| CpuError::State(format!("its {what} are not such"));
        let extended = Extended::of(saved).ok_or_else(|| wrong("vectors"))?;
        if saved.holds_traps {
            return Err(amid("waits with a trap"));
        }
        let by_cpuid = saved.engine_name == ENGINE_NAME && saved.engine == BY_CPUID;
        if by_cpuid && self.means.breakpoints == Breakpoints::Int3 {
            return Err(CpuError::State(
                "its programs are traced by hardware breakpoints, and it is to continue without; set kvm.breakpoints to \"hardware\", or continue it where these work".to_owned(),
            ));
        }
        self.calls_by_cpuid = by_cpuid;
        self.put_system(&saved.system)?;
        self.load_extended(saved.xcr0, &extended)?;
        msr::write(&self.fd, &saved.msrs)?;
        let [a, b, c, d, _, _, dr6, dr7] = saved.debug;
        let debug = kvm_debugregs {
            db: [a, b, c, d],
            dr6,
            dr7,
            ..kvm_debugregs::default()
        };
        self.fd
            .set_debug_regs(&debug)
            .map_err(failed("set debug registers"))?;
        self.load_events(saved)?;
        self.put_registers(&saved.registers);
        self.interruptible &= !saved.shadow;
        self.task_priority = saved.task_priority as u8 & 15;
        self.clock.guest_offset = saved.tsc_offset;
        self.clock.set(saved.cycles);
        self.halted = saved.halted;
        Ok(())
    }

    fn load_extended(&mut self, xcr0: u64, extended: &Extended) -> Result<(), CpuError> {
        let wanted = self.instruction_set.state_components();
        if wanted != 0 {
            let mut registers = kvm_xcrs {
                nr_xcrs: 1,
                ..kvm_xcrs::default()
            };
            registers.xcrs[0] = kvm_xcr {
                xcr: 0,
                reserved: 0,
                value: xcr0,
            };
            self.fd
                .set_xcrs(&registers)
                .map_err(failed("set extended control registers"))?;
        }
        ioctl::set_xsave(&self.fd, &extended.area(wanted)).map_err(failed("set vector registers"))
    }

    fn load_events(&mut self, saved: &CpuState) -> Result<(), CpuError> {
        let mut events = kvm_vcpu_events {
            flags: KVM_VCPUEVENT_VALID_SHADOW,
            ..kvm_vcpu_events::default()
        };
        events.nmi.masked = saved.in_nmi.into();
        if saved.shadow {
            events.interrupt.shadow = shadow_kind(saved.registers.rflags);
        }
        self.fd
            .set_vcpu_events(&events)
            .map_err(failed("set what the guest waits for"))
    }
}

/// The kind of interrupt shadow of a processor with `rflags`. With interrupts disabled it must be a
/// stack segment's: Intel's processors refuse to enter a guest with the other one (SDM volume 3,
/// "Checks on Guest Non-Register State").
fn shadow_kind(rflags: u64) -> u8 {
    let kind = if rflags & INTERRUPT_FLAG == 0 {
        KVM_X86_SHADOW_INT_MOV_SS
    } else {
        KVM_X86_SHADOW_INT_STI
    };
    kind as u8
}

fn amid(what: &str) -> CpuError {
    CpuError::State(format!("the processor {what}; try again a little later"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shadow_with_interrupts_off_is_a_stack_segments() {
        assert_eq!(u32::from(shadow_kind(0x202)), KVM_X86_SHADOW_INT_STI);
        assert_eq!(u32::from(shadow_kind(0x002)), KVM_X86_SHADOW_INT_MOV_SS);
    }
}
