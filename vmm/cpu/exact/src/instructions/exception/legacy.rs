//! Exceptions and interrupts outside long mode: the interrupt vector table of real
//! mode, and the gates of protected mode (Intel SDM vol. 3, 6.12 and 21.1.4).
//!
//! Values are pushed before a register is loaded, so that a fault in between leaves the registers
//! unchanged. `exception` calls this when EFER.LMA is clear.

use belljar_cpu::{Segment, SegmentRegister};
use belljar_translate::architecture::{attribute, flag, vector};

use super::{EventSource, IN_IDT};
use crate::processor::state::Fault;
use crate::processor::vcpu::ExactVcpu;

/// An interrupt or trap gate of 16 or 32 bits.
struct Gate {
    selector: u16,
    offset: u64,
    /// Size of pushed values in bytes: 2 or 4.
    size: usize,
    /// True if it leaves IF unchanged.
    is_trap: bool,
}

/// A stack for pushing values, before registers are loaded.
struct Stack {
    segment: Segment,
    sp: u64,
}

impl Stack {
    fn mask(&self) -> u64 {
        if self.segment.attributes & attribute::BIG != 0 {
            0xffff_ffff
        } else {
            0xffff
        }
    }

    fn address(&self) -> u64 {
        self.segment.base.wrapping_add(self.sp & self.mask()) & 0xffff_ffff
    }
}

impl ExactVcpu {
    pub(super) fn enter_legacy_handler(
        &mut self,
        number: u8,
        error: Option<u32>,
        source: EventSource,
    ) -> Result<(), Fault> {
        if self.state.is_protected() {
            self.enter_gate(number, error, source)
        } else {
            self.enter_real_handler(number)
        }
    }

    fn enter_real_handler(&mut self, number: u8) -> Result<(), Fault> {
        let idt = self.state.idt();
        let at = u64::from(number) * 4;
        if at + 3 > u64::from(idt.limit) {
            return Err(Fault::protection(0));
        }
        let mut entry = [0; 4];
        self.system_read(idt.base.wrapping_add(at), &mut entry)?;
        let mut stack = self.current_stack();
        let cs = u64::from(self.state.segment(SegmentRegister::Cs).selector);
        for value in [self.rflags(), cs, self.state.rip] {
            self.push_on(&mut stack, value, 2)?;
        }
        self.set_stack_pointer(stack.sp);
        self.set_real_code(u16::from_le_bytes([entry[2], entry[3]]));
        self.state.rip = u64::from(u16::from_le_bytes([entry[0], entry[1]]));
        self.context.interrupt_flag = 0;
        self.state.flags &= !(flag::TF | flag::AC | flag::RF);
        self.state.shadow = false;
        Ok(())
    }

    fn current_stack(&self) -> Stack {
        Stack {
            segment: *self.state.segment(SegmentRegister::Ss),
            sp: self.context.gpr[4],
        }
    }

    fn push_on(&mut self, stack: &mut Stack, value: u64, size: usize) -> Result<(), Fault> {
        stack.sp = stack.sp.wrapping_sub(size as u64);
        self.system_write(stack.address(), &value.to_le_bytes()[..size])
    }

    fn legacy_gate(&mut self, number: u8, source: EventSource) -> Result<Gate, Fault> {
        let idt = self.state.idt();
        let external = source.external_bit();
        let refuse = |vector| Fault {
            vector,
            error: Some(u32::from(number) << 3 | IN_IDT | external),
            address: None,
        };
        let at = u64::from(number) * 8;
        if at + 7 > u64::from(idt.limit) {
            return Err(refuse(vector::PROTECTION));
        }
        let mut raw = [0; 8];
        self.system_read(idt.base.wrapping_add(at) & 0xffff_ffff, &mut raw)?;
        let word = |at: usize| u16::from_le_bytes([raw[at], raw[at + 1]]);
        let level = raw[5] >> 5 & 3;
        let size = match raw[5] & 0x1f {
            6 | 7 => 2,
            14 | 15 => 4,
            _ => return Err(refuse(vector::PROTECTION)),
        };
        if source == EventSource::Software && level < self.state.privilege() {
            return Err(refuse(vector::PROTECTION));
        }
        if raw[5] & 0x80 == 0 {
            return Err(refuse(vector::NOT_PRESENT));
        }
        let high = if size == 4 { u64::from(word(6)) } else { 0 };
        Ok(Gate {
            selector: word(2),
            offset: u64::from(word(0)) | high << 16,
            size,
            is_trap: raw[5] & 1 != 0,
        })
    }

    fn enter_gate(
        &mut self,
        number: u8,
        error: Option<u32>,
        source: EventSource,
    ) -> Result<(), Fault> {
        let gate = self.legacy_gate(number, source)?;
        let code = self.gate_code(gate.selector)?;
        let old_level = self.state.privilege();
        let level = if code.is_conforming() {
            old_level
        } else {
            code.own_level()
        };
        let old = self.current_stack();
        let mut stack = if level < old_level {
            self.inner_stack(level)?
        } else {
            self.current_stack()
        };
        self.check_target(&code, gate.offset)?;
        let mut rflags = self.rflags();
        if source == (EventSource::Exception { restarts: true }) {
            rflags |= flag::RF;
        }
        if level < old_level {
            let selector = u64::from(old.segment.selector);
            self.push_on(&mut stack, selector, gate.size)?;
            self.push_on(&mut stack, old.sp, gate.size)?;
        }
        let cs = u64::from(self.state.segment(SegmentRegister::Cs).selector);
        for value in [rflags, cs, self.state.rip] {
            self.push_on(&mut stack, value, gate.size)?;
        }
        if let Some(error) = error {
            self.push_on(&mut stack, u64::from(error), gate.size)?;
        }
        *self.state.segment_mut(SegmentRegister::Ss) = stack.segment;
        self.set_code_segment(gate.selector & !3 | u16::from(level), &code);
        self.set_stack_pointer(stack.sp);
        self.state.rip = gate.offset;
        self.state.flags &= !(flag::TF | flag::NT | flag::RF | flag::VM);
        if !gate.is_trap {
            self.context.interrupt_flag = 0;
        }
        self.state.shadow = false;
        Ok(())
    }

    /// The stack for an inner level in the task-state segment, which has 16 or 32 bits.
    fn inner_stack(&mut self, level: u8) -> Result<Stack, Fault> {
        let task = *self.state.segment(SegmentRegister::Tr);
        let is_wide = task.attributes & 8 != 0;
        let (at, bytes) = if is_wide {
            (4 + 8 * u64::from(level), 6)
        } else {
            (2 + 4 * u64::from(level), 4)
        };
        if at + bytes - 1 > u64::from(task.limit) {
            return Err(invalid_task(task.selector));
        }
        let mut raw = [0; 6];
        let raw = &mut raw[..bytes as usize];
        self.system_read(task.base.wrapping_add(at) & 0xffff_ffff, raw)?;
        let (sp, ss) = raw.split_at(raw.len() - 2);
        let sp = sp
            .iter()
            .rev()
            .fold(0, |all, &byte| all << 8 | u64::from(byte));
        let selector = u16::from_le_bytes([ss[0], ss[1]]);
        let segment = self
            .stack_segment(selector, level)
            .map_err(|fault| match fault.vector {
                vector::PROTECTION => invalid_task(selector),
                _ => fault,
            })?;
        Ok(Stack { segment, sp })
    }
}

fn invalid_task(selector: u16) -> Fault {
    Fault {
        vector: vector::INVALID_TASK,
        error: Some(u32::from(selector) & !3),
        address: None,
    }
}
