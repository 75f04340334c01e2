//! Control transfers that change privilege or code segment.

use belljar_cpu::{Registers, Segment, SegmentRegister};
use iced_x86::{Code, Instruction, Mnemonic};

use super::{Done, width};
use crate::access::Stop;
use crate::mmu::is_canonical;
use crate::state::{Fault, efer, flag};
use crate::vcpu::ExactVcpu;

/// Flat 64-bit code, as SYSCALL and SYSRET load it whatever the GDT says.
fn flat_code(selector: u16, level: u8) -> Segment {
    Segment {
        selector,
        base: 0,
        limit: u32::MAX,
        attributes: 0xa09b | u16::from(level) << 5,
    }
}

/// Flat data for SS, likewise.
fn flat_stack(selector: u16, level: u8) -> Segment {
    Segment {
        selector,
        base: 0,
        limit: u32::MAX,
        attributes: 0xc093 | u16::from(level) << 5,
    }
}

impl ExactVcpu {
    pub(super) fn control_transfer(&mut self, instruction: &Instruction) -> Result<Done, Stop> {
        match instruction.mnemonic() {
            Mnemonic::Syscall => self.syscall(instruction.next_ip())?,
            Mnemonic::Sysretq => self.sysret()?,
            Mnemonic::Iretq => self.iret()?,
            Mnemonic::Int => {
                self.software_interrupt(instruction.immediate8(), instruction.next_ip())?
            }
            Mnemonic::Int3 => self.software_interrupt(3, instruction.next_ip())?,
            Mnemonic::Int1 => self.software_interrupt(1, instruction.next_ip())?,
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

    fn syscall(&mut self, next_rip: u64) -> Result<(), Fault> {
        if self.state.system.efer & efer::SCE == 0 {
            return Err(Fault::invalid_opcode());
        }
        self.context.gpr[Registers::RCX] = next_rip;
        self.context.gpr[Registers::R11] = self.rflags() & !flag::RF;
        let masked = self.rflags() & !self.state.msrs.sfmask;
        self.set_rflags(masked & !flag::RF);
        let selector = (self.state.msrs.star >> 32) as u16 & !3;
        *self.state.segment_mut(SegmentRegister::Cs) = flat_code(selector, 0);
        *self.state.segment_mut(SegmentRegister::Ss) = flat_stack(selector.wrapping_add(8), 0);
        self.state.rip = self.state.msrs.lstar;
        Ok(())
    }

    fn sysret(&mut self) -> Result<(), Fault> {
        if self.state.system.efer & efer::SCE == 0 {
            return Err(Fault::invalid_opcode());
        }
        self.require_supervisor()?;
        let target = self.context.gpr[Registers::RCX];
        if !is_canonical(target) {
            return Err(Fault::protection(0));
        }
        let rflags = self.context.gpr[Registers::R11];
        self.set_rflags(rflags & !flag::RF);
        let selector = (self.state.msrs.star >> 48) as u16;
        *self.state.segment_mut(SegmentRegister::Cs) = flat_code(selector.wrapping_add(16) | 3, 3);
        *self.state.segment_mut(SegmentRegister::Ss) = flat_stack(selector.wrapping_add(8) | 3, 3);
        self.state.rip = target;
        Ok(())
    }

    fn iret(&mut self) -> Result<(), Stop> {
        if self.state.flags & flag::NT != 0 {
            return Err(Fault::protection(0).into());
        }
        let mut frame = [0u64; 5];
        for (index, value) in frame.iter_mut().enumerate() {
            *value = self.peek(index as u64 * 8, 8)?;
        }
        let [rip, cs, rflags, rsp, ss] = frame;
        let (cs, ss) = (cs as u16, ss as u16);
        let level = (cs & 3) as u8;
        if level < self.state.privilege() || !is_canonical(rip) {
            return Err(Fault::protection(u32::from(cs) & !3).into());
        }
        let code = self.load_code_descriptor(cs)?;
        let previous = self.state.privilege();
        self.pop_flags_for_return(rflags);
        self.set_code_segment(cs, &code);
        if let Err(fault) = self.load_return_stack(ss, level) {
            let selector = self.state.segment(SegmentRegister::Cs).selector;
            self.state.segment_mut(SegmentRegister::Cs).selector =
                selector & !3 | u16::from(previous);
            return Err(fault.into());
        }
        self.state.rip = rip;
        self.context.gpr[4] = rsp;
        if level > previous {
            self.drop_inner_segments(level);
        }
        Ok(())
    }

    fn pop_flags_for_return(&mut self, rflags: u64) {
        self.pop_flags(rflags & !flag::RF, 8);
    }

    fn load_return_stack(&mut self, ss: u16, level: u8) -> Result<(), Fault> {
        if ss & !3 == 0 && level != 3 {
            self.set_null_stack(level);
            self.state.segment_mut(SegmentRegister::Ss).selector = ss;
            return Ok(());
        }
        self.load_segment(iced_x86::Register::SS, ss)
    }

    /// On a return to an outer level, data segments of inner levels become null.
    fn drop_inner_segments(&mut self, level: u8) {
        use SegmentRegister::{Ds, Es, Fs, Gs};
        for register in [Es, Ds, Fs, Gs] {
            let segment = self.state.segment_mut(register);
            let inner = (segment.attributes >> 5 & 3) < u16::from(level);
            let conforming_code = segment.attributes & 0xc == 0xc;
            if segment.selector & !3 != 0 && inner && !conforming_code {
                *segment = Segment::default();
            }
        }
    }

    fn far_return(&mut self, instruction: &Instruction) -> Result<(), Stop> {
        let size = if instruction.code() == Code::Retfq || instruction.code() == Code::Retfq_imm16 {
            8
        } else {
            4
        };
        let rip = self.peek(0, size)?;
        let cs = self.peek(size as u64, size)? as u16;
        let level = (cs & 3) as u8;
        if level < self.state.privilege() || !is_canonical(rip) {
            return Err(Fault::protection(u32::from(cs) & !3).into());
        }
        let extra = if instruction.op_count() == 1 {
            u64::from(instruction.immediate16())
        } else {
            0
        };
        let code = self.load_code_descriptor(cs)?;
        let after = 2 * size as u64 + extra;
        if level > self.state.privilege() {
            let rsp = self.peek(after, size)?;
            let ss = self.peek(after + size as u64, size)? as u16;
            self.set_code_segment(cs, &code);
            self.load_return_stack(ss, level)?;
            self.context.gpr[4] = rsp.wrapping_add(extra);
            self.drop_inner_segments(level);
        } else {
            self.set_code_segment(cs, &code);
            self.context.gpr[4] = self.context.gpr[4].wrapping_add(after);
        }
        self.state.rip = rip;
        Ok(())
    }

    /// Far jump or call through memory, to 64-bit code at this level.
    fn far_jump(&mut self, instruction: &Instruction) -> Result<(), Stop> {
        let size = match instruction.code() {
            Code::Jmp_m1616 | Code::Call_m1616 => 2,
            Code::Jmp_m1632 | Code::Call_m1632 => 4,
            _ => 8,
        };
        let at = self.linear(instruction);
        let rip = self.load(at, size)?;
        let selector = self.load(at.wrapping_add(size as u64), 2)? as u16;
        let code = self.load_code_descriptor(selector)?;
        let level = self.state.privilege();
        if code.level != level || !is_canonical(rip) {
            return Err(Fault::protection(u32::from(selector) & !3).into());
        }
        if instruction.mnemonic() == Mnemonic::Call {
            let old = u64::from(self.state.segment(SegmentRegister::Cs).selector);
            let rsp = self.context.gpr[4];
            self.push(old, size)?;
            if let Err(stop) = self.push(instruction.next_ip(), size) {
                self.context.gpr[4] = rsp;
                return Err(stop);
            }
        }
        self.set_code_segment(selector & !3 | u16::from(level), &code);
        self.state.rip = rip;
        Ok(())
    }

    fn enter_frame(&mut self, instruction: &Instruction) -> Result<(), Stop> {
        let size = width_of_enter(instruction);
        let level = instruction.immediate8_2nd() & 31;
        let (rsp, rbp) = (self.context.gpr[4], self.context.gpr[5]);
        let result = self.push_frame_links(size, level, rbp);
        let frame = self.context.gpr[4];
        if result.is_err() {
            self.context.gpr[4] = rsp;
            return result;
        }
        let mut pushed = 1;
        if level > 0 {
            pushed += u64::from(level);
        }
        let base = frame.wrapping_add((pushed - 1) * size as u64);
        self.context.gpr[5] = base;
        self.context.gpr[4] = frame.wrapping_sub(u64::from(instruction.immediate16()));
        Ok(())
    }

    fn push_frame_links(&mut self, size: usize, level: u8, rbp: u64) -> Result<(), Stop> {
        self.push(rbp, size)?;
        let frame = self.context.gpr[4];
        for link in 1..u64::from(level) {
            let value = self.load(rbp.wrapping_sub(link * size as u64), size)?;
            self.push(value, size)?;
        }
        if level > 0 {
            self.push(frame, size)?;
        }
        Ok(())
    }
}

fn width_of_enter(instruction: &Instruction) -> usize {
    debug_assert!(width(instruction) > 0);
    if instruction.code() == Code::Enterw_imm16_imm8 {
        2
    } else {
        8
    }
}
