//! Control transfers that change privilege or code segment.
//!
//! These are SYSCALL, SYSENTER and their returns, INT n, IRET, far transfers and ENTER; `table`
//! calls them. Translated code usually executes SYSCALL and SYSRET of 64-bit kernels: `visit`
//! permits that before it enters translated code, and completes them afterwards.

use belljar_cpu::{Registers, Segment, SegmentRegister};
use belljar_translate::architecture::{efer, flag};
use belljar_translate::context::{ARITHMETIC, ENTERED_KERNEL, NOT_CROSSED};
use belljar_translate::guest::mode::Mode;
use iced_x86::{Code, Instruction, Mnemonic};

use super::operand::{check_stack_address, mask};
use crate::instructions::done::Done;
use crate::memory::access::Stop;
use crate::processor::mmu::is_canonical;
use crate::processor::state::{Entered, Fault};
use crate::processor::vcpu::ExactVcpu;

/// Far jumps, calls and returns.
mod far;
/// Segment registers and descriptors.
mod segments;

pub(crate) use segments::CodeDescriptor;

/// Flat 64-bit code, as SYSCALL and SYSRET load it regardless of the GDT.
fn flat_code(selector: u16, level: u8) -> Segment {
    Segment {
        selector,
        base: 0,
        limit: u32::MAX,
        attributes: 0xa09b | u16::from(level) << 5,
    }
}

/// Flat 32-bit code, loaded in the same way.
fn flat_code_32(selector: u16, level: u8) -> Segment {
    Segment {
        attributes: 0xc09b | u16::from(level) << 5,
        ..flat_code(selector, level)
    }
}

/// Flat data for SS, loaded in the same way.
fn flat_stack(selector: u16, level: u8) -> Segment {
    Segment {
        selector,
        base: 0,
        limit: u32::MAX,
        attributes: 0xc093 | u16::from(level) << 5,
    }
}

/// Size in bytes of the values that ENTER pushes.
fn frame_word(instruction: &Instruction) -> usize {
    match instruction.code() {
        Code::Enterw_imm16_imm8 => 2,
        Code::Enterd_imm16_imm8 => 4,
        _ => 8,
    }
}

impl ExactVcpu {
    pub(super) fn control_transfer(&mut self, instruction: &Instruction) -> Result<Done, Stop> {
        match instruction.mnemonic() {
            Mnemonic::Syscall => self.syscall(instruction.next_ip())?,
            Mnemonic::Sysret | Mnemonic::Sysretq => self.sysret(instruction)?,
            Mnemonic::Sysenter => self.sysenter()?,
            Mnemonic::Sysexit | Mnemonic::Sysexitq => self.sysexit(instruction)?,
            Mnemonic::Iret | Mnemonic::Iretd | Mnemonic::Iretq => self.iret(instruction)?,
            Mnemonic::Int => {
                self.software_interrupt(instruction.immediate8(), instruction.next_ip())?
            }
            Mnemonic::Int3 => self.software_interrupt(3, instruction.next_ip())?,
            Mnemonic::Int1 => self.debug_interrupt(instruction.next_ip())?,
            Mnemonic::Retf => self.far_return(instruction)?,
            Mnemonic::Jmp | Mnemonic::Call => self.far_jump(instruction)?,
            Mnemonic::Enter => {
                self.enter_frame(instruction)?;
                return Ok(Done::Next);
            }
            _ => return Err(Fault::invalid_opcode().into()),
        }
        Ok(Done::Jumped)
    }

    /// SYSCALL, in 64-bit code only, as on Intel's processors.
    fn syscall(&mut self, next_rip: u64) -> Result<(), Fault> {
        if self.state.system.efer & efer::SCE == 0 || !self.state.is_long() {
            return Err(Fault::invalid_opcode());
        }
        self.context.gpr[Registers::RCX] = next_rip;
        self.context.gpr[Registers::R11] = self.rflags() & !flag::RF;
        let masked = self.rflags() & !self.state.msrs.sfmask;
        self.set_rflags(masked & !flag::RF);
        self.enter_system_segments();
        self.state.rip = self.state.msrs.lstar;
        self.state.entered = Entered::SystemCall;
        Ok(())
    }

    /// CS and SS after SYSCALL.
    fn enter_system_segments(&mut self) {
        let selector = (self.state.msrs.star >> 32) as u16 & !3;
        *self.state.segment_mut(SegmentRegister::Cs) = flat_code(selector, 0);
        *self.state.segment_mut(SegmentRegister::Ss) = flat_stack(selector.wrapping_add(8), 0);
    }

    /// CS and SS after SYSRET.
    fn leave_system_segments(&mut self, to_long: bool) {
        let selector = (self.state.msrs.star >> 48) as u16;
        self.enter_flat(selector, 16, 3, to_long);
    }

    /// Permits translated code to execute SYSCALL and SYSRET itself, if they behave as kernels
    /// usually configure them, and if no event is due after them.
    pub(crate) fn open_crossing(&mut self, mode: Mode) {
        const CLEARED: u64 = flag::SYSTEM | ARITHMETIC;
        let usual =
            self.state.system.efer & efer::SCE != 0 && self.state.msrs.sfmask & CLEARED == CLEARED;
        let awaited = self.context.window_wanted != 0 || self.stops.nmi_window_wanted;
        // A cache model separates lines by privilege level.
        let open = usual && !awaited && !self.has_caches() && self.knows_both_sides(mode);
        self.context.crossing_closed = u64::from(!open);
        self.context.system_entry = self.state.msrs.lstar;
    }

    /// Completes a SYSCALL or SYSRET that translated code executed.
    pub(crate) fn settle_crossing(&mut self) {
        match std::mem::replace(&mut self.context.crossed, NOT_CROSSED) {
            NOT_CROSSED => return,
            ENTERED_KERNEL => self.enter_system_segments(),
            _ => self.leave_system_segments(true),
        }
        self.state.flags = self.context.pushed_flags;
    }

    fn sysret(&mut self, instruction: &Instruction) -> Result<(), Fault> {
        if self.state.system.efer & efer::SCE == 0 || !self.state.is_long() {
            return Err(Fault::invalid_opcode());
        }
        self.require_supervisor()?;
        let target = self.context.gpr[Registers::RCX];
        let to_long = instruction.mnemonic() == Mnemonic::Sysretq;
        if to_long && !is_canonical(target) {
            return Err(Fault::protection(0));
        }
        let rflags = self.context.gpr[Registers::R11];
        self.set_rflags(rflags & !flag::RF);
        self.leave_system_segments(to_long);
        self.state.rip = if to_long {
            target
        } else {
            target & 0xffff_ffff
        };
        self.state.entered = Entered::SystemCall;
        Ok(())
    }

    /// Loads CS from `selector`, plus `step` for 64-bit code, and SS from the selector after the
    /// one of 32-bit code.
    fn enter_flat(&mut self, selector: u16, step: u16, level: u8, to_long: bool) {
        let requested = u16::from(level);
        let code = selector.wrapping_add(if to_long { step } else { 0 }) | requested;
        *self.state.segment_mut(SegmentRegister::Cs) = if to_long {
            flat_code(code, level)
        } else {
            flat_code_32(code, level)
        };
        let stack = selector.wrapping_add(8) | requested;
        *self.state.segment_mut(SegmentRegister::Ss) = flat_stack(stack, level);
    }

    fn sysenter(&mut self) -> Result<(), Fault> {
        let [cs, esp, eip] = self.state.msrs.sysenter;
        let selector = cs as u16 & !3;
        if !self.state.is_protected() || selector == 0 {
            return Err(Fault::protection(0));
        }
        let to_long = self.state.is_long_active();
        let mask = if to_long { u64::MAX } else { 0xffff_ffff };
        self.context.interrupt_flag = 0;
        self.state.flags &= !flag::RF;
        self.enter_flat(selector, 0, 0, to_long);
        self.context.gpr[Registers::RSP] = esp & mask;
        self.state.rip = eip & mask;
        Ok(())
    }

    fn sysexit(&mut self, instruction: &Instruction) -> Result<(), Fault> {
        let selector = self.state.msrs.sysenter[0] as u16 & !3;
        if !self.state.is_protected() || selector == 0 || self.state.privilege() != 0 {
            return Err(Fault::protection(0));
        }
        let to_long = instruction.mnemonic() == Mnemonic::Sysexitq;
        let (rip, rsp) = (
            self.context.gpr[Registers::RDX],
            self.context.gpr[Registers::RCX],
        );
        if to_long && !(is_canonical(rip) && is_canonical(rsp)) {
            return Err(Fault::protection(0));
        }
        // 32-bit code is 16 above SYSENTER's, 64-bit code 32 above; SS follows each.
        let first = selector.wrapping_add(if to_long { 32 } else { 16 });
        self.enter_flat(first, 0, 3, to_long);
        let mask = if to_long { u64::MAX } else { 0xffff_ffff };
        self.state.rip = rip & mask;
        self.context.gpr[Registers::RSP] = rsp & mask;
        Ok(())
    }

    fn enter_frame(&mut self, instruction: &Instruction) -> Result<(), Stop> {
        let size = frame_word(instruction);
        let level = instruction.immediate8_2nd() & 31;
        let (rsp, rbp) = (self.context.gpr[4], self.context.gpr[5]);
        if let Err(stop) = self.push_frame_links(size, level, rbp) {
            self.context.gpr[4] = rsp;
            return Err(stop);
        }
        let pushed = u64::from(level);
        let frame = self.context.gpr[4].wrapping_add(pushed * size as u64);
        let room = u64::from(instruction.immediate16());
        let sp = self.context.gpr[4].wrapping_sub(room);
        if let Err(stop) = self.check_stack(sp, size) {
            self.context.gpr[4] = rsp;
            return Err(stop);
        }
        let size = if self.state.is_long() { 8 } else { size };
        let slot = &mut self.context.gpr[5];
        *slot = *slot & !mask(size) | frame & mask(size);
        if size == 4 {
            *slot &= mask(4);
        }
        self.set_stack_pointer(sp);
        Ok(())
    }

    /// Checks that the new end of the stack is writable.
    fn check_stack(&mut self, sp: u64, size: usize) -> Result<(), Stop> {
        let at = self.state.stack_address(sp);
        self.check_aligned(at, size)?;
        self.check_writable(at, 1)
    }

    fn push_frame_links(&mut self, size: usize, level: u8, rbp: u64) -> Result<(), Stop> {
        self.push_link(rbp & mask(size), size)?;
        let frame = self.context.gpr[4];
        for link in 1..u64::from(level) {
            let at = self
                .state
                .stack_address(rbp.wrapping_sub(link * size as u64));
            self.check_aligned(at, size)?;
            let value = self.load_from_stack(at, size)?;
            self.push_link(value, size)?;
        }
        if level > 0 {
            self.push_link(frame & mask(size), size)?;
        }
        Ok(())
    }

    fn push_link(&mut self, value: u64, size: usize) -> Result<(), Stop> {
        let sp = self.context.gpr[4].wrapping_sub(size as u64);
        self.check_aligned(self.state.stack_address(sp), size)?;
        self.push(value, size)
    }

    /// #SS or #AC for an access of ENTER, which precedes the accesses' own faults.
    fn check_aligned(&self, at: u64, size: usize) -> Result<(), Fault> {
        check_stack_address(at, size)?;
        if self.checks_alignment() && !at.is_multiple_of(size as u64) {
            return Err(Fault::alignment());
        }
        Ok(())
    }
}
