//! Far jumps, calls and returns, and IRET, in every mode (Intel SDM vol. 3, 5.8 and 6.14; vol. 2,
//! "IRET"). Task switches and virtual-8086 mode are not supported: requests for them raise #GP.

use belljar_cpu::{Segment, SegmentRegister};
use belljar_translate::architecture::flag;
use iced_x86::{Code, Instruction, Mnemonic, OpKind};

use super::segments::CodeDescriptor;
use crate::memory::access::Stop;
use crate::processor::mmu::is_canonical;
use crate::processor::state::Fault;
use crate::processor::vcpu::ExactVcpu;

/// Operand size in bytes of a far transfer.
fn operand_size(instruction: &Instruction) -> usize {
    match instruction.code() {
        Code::Iretw | Code::Retfw | Code::Retfw_imm16 => 2,
        Code::Jmp_m1616 | Code::Call_m1616 | Code::Jmp_ptr1616 | Code::Call_ptr1616 => 2,
        Code::Iretq | Code::Retfq | Code::Retfq_imm16 | Code::Jmp_m1664 | Code::Call_m1664 => 8,
        _ => 4,
    }
}

fn refuse(selector: u16) -> Fault {
    Fault::protection(u32::from(selector) & !3)
}

impl ExactVcpu {
    /// Loads CS in real mode, where the selector determines the base.
    pub(crate) fn set_real_code(&mut self, selector: u16) {
        let segment = self.state.segment_mut(SegmentRegister::Cs);
        segment.selector = selector;
        segment.base = u64::from(selector) << 4;
    }

    /// The target of a far transfer to `rip`: outside 64-bit code, the bits above the lower 32 are
    /// ignored, as on Intel's processors.
    fn target_in(&self, code: &CodeDescriptor, rip: u64) -> Result<u64, Fault> {
        let to_long = self.state.is_long_active() && code.is_long();
        let rip = if to_long { rip } else { rip & 0xffff_ffff };
        self.check_target(code, rip)?;
        Ok(rip)
    }

    /// Checks that `rip` is valid in the code segment `code`.
    pub(crate) fn check_target(&self, code: &CodeDescriptor, rip: u64) -> Result<(), Fault> {
        let good = if self.state.is_long_active() && code.is_long() {
            is_canonical(rip)
        } else {
            rip <= u64::from(code.limit())
        };
        if good {
            Ok(())
        } else {
            Err(Fault::protection(0))
        }
    }

    /// The code segment of a far return or IRET, if it may return there.
    fn return_descriptor(&mut self, selector: u16) -> Result<CodeDescriptor, Fault> {
        let requested = (selector & 3) as u8;
        if requested < self.state.privilege() {
            return Err(refuse(selector));
        }
        let code = self.load_code_descriptor(selector)?;
        let reachable = if code.is_conforming() {
            code.own_level() <= requested
        } else {
            code.own_level() == requested
        };
        if reachable {
            Ok(code)
        } else {
            Err(refuse(selector))
        }
    }

    pub(crate) fn iret(&mut self, instruction: &Instruction) -> Result<(), Stop> {
        let size = operand_size(instruction);
        let bytes = size as u64;
        if !self.state.is_protected() {
            return self.iret_real(size);
        }
        let rip = self.peek(0, size)?;
        let cs = self.peek(bytes, size)? as u16;
        let rflags = self.peek(2 * bytes, size)?;
        let to_virtual =
            rflags & flag::VM != 0 && self.state.privilege() == 0 && !self.state.is_long_active();
        if self.state.flags & flag::NT != 0 || to_virtual {
            return Err(Fault::protection(0).into());
        }
        let level = (cs & 3) as u8;
        let previous = self.state.privilege();
        let takes_stack = self.state.is_long() || level > previous;
        let code = self.return_descriptor(cs)?;
        let rip = self.target_in(&code, rip)?;
        let stack = if takes_stack {
            let rsp = self.peek(3 * bytes, size)?;
            let ss = self.peek(4 * bytes, size)? as u16;
            Some((rsp, self.return_stack(ss, level, &code)?))
        } else {
            None
        };
        self.pop_flags(rflags, size);
        self.state.in_nmi = false;
        // Code breakpoints ignore the next instruction.
        self.state.flags |= rflags & flag::RF;
        match stack {
            Some((rsp, ss)) => self.go_outward(cs, &code, rsp, ss),
            None => {
                self.drop_stack(3 * bytes);
                self.set_code_segment(cs, &code);
            }
        }
        self.state.rip = rip;
        if level > previous {
            self.drop_inner_segments(level);
        }
        Ok(())
    }

    fn iret_real(&mut self, size: usize) -> Result<(), Stop> {
        let bytes = size as u64;
        let rip = self.peek(0, size)?;
        let cs = self.peek(bytes, size)? as u16;
        let rflags = self.peek(2 * bytes, size)?;
        self.drop_stack(3 * bytes);
        self.pop_flags(rflags, size);
        self.state.in_nmi = false;
        // Code breakpoints ignore the next instruction.
        self.state.flags |= rflags & flag::RF;
        self.set_real_code(cs);
        self.state.rip = rip & 0xffff_ffff;
        Ok(())
    }

    /// Checks a stack segment for a return, without loading it.
    fn return_stack(
        &mut self,
        ss: u16,
        level: u8,
        code: &CodeDescriptor,
    ) -> Result<Segment, Fault> {
        let to_long = self.state.is_long_active() && code.is_long();
        if ss & !3 == 0 {
            if to_long && level != 3 && (ss & 3) as u8 == level {
                return Ok(Segment {
                    selector: ss,
                    base: 0,
                    limit: u32::MAX,
                    attributes: 0x4093 | u16::from(level) << 5,
                });
            }
            return Err(Fault::protection(0));
        }
        self.stack_segment(ss, level)
    }

    /// Loads CS, SS and the stack pointer of a return to an outer level, or of any return that pops
    /// them all.
    fn go_outward(&mut self, cs: u16, code: &CodeDescriptor, rsp: u64, ss: Segment) {
        self.set_code_segment(cs, code);
        *self.state.segment_mut(SegmentRegister::Ss) = ss;
        if self.state.is_long() {
            self.context.gpr[4] = rsp;
        } else {
            self.set_stack_pointer(rsp);
        }
    }

    /// Sets data segments of inner levels to null, for a return to an outer level.
    pub(crate) fn drop_inner_segments(&mut self, level: u8) {
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

    pub(crate) fn far_return(&mut self, instruction: &Instruction) -> Result<(), Stop> {
        let size = operand_size(instruction);
        let bytes = size as u64;
        let rip = self.peek(0, size)?;
        let cs = self.peek(bytes, size)? as u16;
        let extra = if instruction.op_count() == 1 {
            u64::from(instruction.immediate16())
        } else {
            0
        };
        let after = 2 * bytes + extra;
        if !self.state.is_protected() {
            self.drop_stack(after);
            self.set_real_code(cs);
            self.state.rip = rip;
            return Ok(());
        }
        let code = self.return_descriptor(cs)?;
        let rip = self.target_in(&code, rip)?;
        let level = (cs & 3) as u8;
        if level > self.state.privilege() {
            let rsp = self.peek(after, size)?;
            let ss = self.peek(after + bytes, size)? as u16;
            let ss = self.return_stack(ss, level, &code)?;
            self.go_outward(cs, &code, rsp, ss);
            self.drop_stack(extra);
            self.drop_inner_segments(level);
        } else {
            self.drop_stack(after);
            self.set_code_segment(cs, &code);
        }
        self.state.rip = rip;
        Ok(())
    }

    /// The far pointer of a jump or call: offset and selector.
    fn far_pointer(&mut self, instruction: &Instruction, size: usize) -> Result<(u64, u16), Stop> {
        match instruction.op0_kind() {
            OpKind::FarBranch16 => Ok((
                u64::from(instruction.far_branch16()),
                instruction.far_branch_selector(),
            )),
            OpKind::FarBranch32 => Ok((
                u64::from(instruction.far_branch32()),
                instruction.far_branch_selector(),
            )),
            _ => {
                let rip = self.load_at(instruction, 0, size)?;
                let selector = self.load_at(instruction, size as u64, 2)? as u16;
                Ok((rip, selector))
            }
        }
    }

    pub(crate) fn far_jump(&mut self, instruction: &Instruction) -> Result<(), Stop> {
        let size = operand_size(instruction);
        let calls = instruction.mnemonic() == Mnemonic::Call;
        let (rip, selector) = self.far_pointer(instruction, size)?;
        if !self.state.is_protected() {
            if calls {
                self.push_far_return(instruction, size)?;
            }
            self.set_real_code(selector);
            self.state.rip = rip;
            return Ok(());
        }
        let level = self.state.privilege();
        let code = self.load_code_descriptor(selector)?;
        let reachable = if code.is_conforming() {
            code.own_level() <= level
        } else {
            (selector & 3) as u8 <= level && code.own_level() == level
        };
        if !reachable {
            return Err(refuse(selector).into());
        }
        let rip = self.target_in(&code, rip)?;
        if calls {
            self.push_far_return(instruction, size)?;
        }
        self.set_code_segment(selector & !3 | u16::from(level), &code);
        self.state.rip = rip;
        Ok(())
    }

    fn push_far_return(&mut self, instruction: &Instruction, size: usize) -> Result<(), Stop> {
        let old = u64::from(self.state.segment(SegmentRegister::Cs).selector);
        let rsp = self.context.gpr[4];
        self.push(old, size)?;
        self.push(instruction.next_ip(), size).inspect_err(|_| {
            self.context.gpr[4] = rsp;
        })
    }
}
