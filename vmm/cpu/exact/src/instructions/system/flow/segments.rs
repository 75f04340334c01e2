//! Segment registers and descriptor tables (Intel SDM vol. 3, chapters 3 and 5).
//!
//! A descriptor is checked for type, privilege and presence before a register is loaded, in the
//! manual's order, which determines the exception. MOV and POP with segment registers, far
//! transfers, gates and the LGDT family use this.

use belljar_cpu::{DescriptorTable, Segment, SegmentRegister};
use belljar_translate::architecture::vector;
use iced_x86::{Code, Instruction, Mnemonic, OpKind, Register};

use crate::instructions::done::Done;
use crate::memory::access::Stop;
use crate::processor::mmu::is_canonical;
use crate::processor::state::Fault;
use crate::processor::vcpu::ExactVcpu;

/// A present code-segment descriptor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CodeDescriptor {
    raw: u64,
}

impl CodeDescriptor {
    /// Its privilege level.
    pub(crate) fn own_level(&self) -> u8 {
        (self.raw >> 45 & 3) as u8
    }

    pub(crate) fn is_conforming(&self) -> bool {
        self.raw & CONFORMING != 0
    }

    pub(crate) fn is_long(&self) -> bool {
        self.raw & LONG != 0
    }

    /// The highest offset in it.
    pub(crate) fn limit(&self) -> u32 {
        segment_of(0, self.raw).limit
    }
}

const PRESENT: u64 = 1 << 47;
const CODE_OR_DATA: u64 = 1 << 44;
const EXECUTABLE: u64 = 1 << 43;
const CONFORMING: u64 = 1 << 42;
const LONG: u64 = 1 << 53;
const BIG: u64 = 1 << 54;

/// The segment that a descriptor describes.
fn segment_of(selector: u16, raw: u64) -> Segment {
    let base = raw >> 16 & 0xff_ffff | raw >> 32 & 0xff00_0000;
    let mut limit = (raw & 0xffff | raw >> 32 & 0xf_0000) as u32;
    if raw >> 55 & 1 != 0 {
        limit = limit << 12 | 0xfff;
    }
    Segment {
        selector,
        base,
        limit,
        attributes: (raw >> 40 & 0xf0ff) as u16,
    }
}

fn register_of(register: Register) -> SegmentRegister {
    match register {
        Register::ES => SegmentRegister::Es,
        Register::CS => SegmentRegister::Cs,
        Register::SS => SegmentRegister::Ss,
        Register::DS => SegmentRegister::Ds,
        Register::FS => SegmentRegister::Fs,
        _ => SegmentRegister::Gs,
    }
}

impl ExactVcpu {
    /// The visible part of a segment register.
    pub(crate) fn selector(&self, register: Register) -> u16 {
        self.state.segment(register_of(register)).selector
    }

    /// Reads descriptor `selector` of the GDT or LDT; `fault` is the exception for an invalid one.
    fn descriptor(&mut self, selector: u16, fault: u8, bytes: u64) -> Result<(u64, u64), Fault> {
        let refuse = Fault {
            vector: fault,
            error: Some(u32::from(selector) & !3),
            address: None,
        };
        let (base, limit) = if selector & 4 != 0 {
            let ldt = self.state.segment(SegmentRegister::Ldt);
            (ldt.base, u64::from(ldt.limit))
        } else {
            (
                self.state.system.gdt.base,
                u64::from(self.state.system.gdt.limit),
            )
        };
        let at = u64::from(selector & !7);
        if selector & !3 == 0 || at + bytes - 1 > limit {
            return Err(refuse);
        }
        let mut raw = [0u8; 16];
        self.system_read(base.wrapping_add(at), &mut raw[..bytes as usize])?;
        let [low, high] = [0, 8].map(|at| {
            raw[at..at + 8]
                .iter()
                .rev()
                .fold(0, |all, &byte| all << 8 | u64::from(byte))
        });
        Ok((low, high))
    }

    /// A code descriptor for a gate or a far transfer. The caller must check privileges.
    pub(crate) fn load_code_descriptor(&mut self, selector: u16) -> Result<CodeDescriptor, Fault> {
        let (raw, _) = self.descriptor(selector, vector::PROTECTION, 8)?;
        let error = Some(u32::from(selector) & !3);
        let refuse = |vector| Fault {
            vector,
            error,
            address: None,
        };
        let contradicts = self.state.is_long_active() && raw & (LONG | BIG) == LONG | BIG;
        if raw & CODE_OR_DATA == 0 || raw & EXECUTABLE == 0 || contradicts {
            return Err(refuse(vector::PROTECTION));
        }
        if raw & PRESENT == 0 {
            return Err(refuse(vector::NOT_PRESENT));
        }
        Ok(CodeDescriptor { raw })
    }

    /// Loads CS. Outside long mode, the descriptor's L bit is ignored.
    pub(crate) fn set_code_segment(&mut self, selector: u16, code: &CodeDescriptor) {
        *self.state.segment_mut(SegmentRegister::Cs) = segment_of(selector, code.raw);
    }

    /// Checks a stack segment for code at `level`, without loading it.
    pub(crate) fn stack_segment(&mut self, selector: u16, level: u8) -> Result<Segment, Fault> {
        let segment = self.data_segment(selector, true, level)?;
        Ok(segment)
    }

    /// Sets SS to the null selector, as when a 64-bit handler is entered from an outer level.
    pub(crate) fn set_null_stack(&mut self, level: u8) {
        *self.state.segment_mut(SegmentRegister::Ss) = Segment {
            selector: u16::from(level),
            base: 0,
            limit: u32::MAX,
            attributes: 0x4093 | u16::from(level) << 5,
        };
    }

    /// Loads a data or stack segment register.
    pub(crate) fn load_segment(&mut self, register: Register, selector: u16) -> Result<(), Fault> {
        let is_stack = register == Register::SS;
        if register == Register::CS {
            return Err(Fault::invalid_opcode());
        }
        let level = self.state.privilege();
        let segment = if !self.state.is_protected() {
            // Real mode only changes the base, so a limit of 4 GiB persists there.
            Segment {
                selector,
                base: u64::from(selector) << 4,
                ..*self.state.segment(register_of(register))
            }
        } else if selector & !3 == 0 {
            let may_be_null = self.state.is_long() && level != 3 && (selector & 3) as u8 == level;
            if is_stack && !may_be_null {
                return Err(Fault::protection(0));
            }
            Segment {
                selector,
                attributes: if is_stack {
                    0x4093 | (selector & 3) << 5
                } else {
                    0
                },
                ..Segment::default()
            }
        } else {
            self.data_segment(selector, is_stack, level)?
        };
        match register {
            Register::FS => {
                self.context.fs_base = segment.base;
                self.settle_buffers();
            }
            Register::GS => self.context.gs_base = segment.base,
            _ => {}
        }
        *self.state.segment_mut(register_of(register)) = segment;
        Ok(())
    }

    fn data_segment(
        &mut self,
        selector: u16,
        is_stack: bool,
        wanted: u8,
    ) -> Result<Segment, Fault> {
        let (raw, _) = self.descriptor(selector, vector::PROTECTION, 8)?;
        let error = Some(u32::from(selector) & !3);
        let level = (raw >> 45 & 3) as u8;
        let requested = (selector & 3) as u8;
        let executable = raw & EXECUTABLE != 0;
        let second_bit = raw >> 41 & 1 != 0;
        let usable = raw & CODE_OR_DATA != 0
            && if is_stack {
                !executable && second_bit && requested == wanted && level == wanted
            } else {
                let conforming = executable && raw & CONFORMING != 0;
                (!executable || second_bit) && (conforming || level >= wanted.max(requested))
            };
        if !usable {
            return Err(Fault::protection(u32::from(selector) & !3));
        }
        if raw & PRESENT == 0 {
            return Err(Fault {
                vector: if is_stack {
                    vector::STACK
                } else {
                    vector::NOT_PRESENT
                },
                error,
                address: None,
            });
        }
        Ok(segment_of(selector, raw))
    }

    pub(crate) fn segment_instruction(&mut self, instruction: &Instruction) -> Result<Done, Stop> {
        use Mnemonic as M;
        let wants_protection = matches!(
            instruction.mnemonic(),
            M::Ltr | M::Lldt | M::Str | M::Sldt | M::Lar | M::Lsl | M::Verr | M::Verw
        );
        if wants_protection && !self.state.is_protected() {
            return Err(Fault::invalid_opcode().into());
        }
        match instruction.mnemonic() {
            Mnemonic::Lgdt | Mnemonic::Lidt => self.load_table(instruction)?,
            Mnemonic::Sgdt => self.store_table(instruction, self.state.system.gdt)?,
            Mnemonic::Sidt => self.store_table(instruction, self.state.system.idt)?,
            Mnemonic::Ltr | Mnemonic::Lldt => self.load_system_segment(instruction)?,
            Mnemonic::Str => self.store_selector(instruction, SegmentRegister::Tr)?,
            Mnemonic::Sldt => self.store_selector(instruction, SegmentRegister::Ldt)?,
            Mnemonic::Swapgs if !self.state.is_long() => {
                return Err(Fault::invalid_opcode().into());
            }
            Mnemonic::Swapgs => {
                self.require_supervisor()?;
                let context = &mut *self.context;
                std::mem::swap(&mut context.gs_base, &mut context.kernel_gs_base);
            }
            Mnemonic::Lar | Mnemonic::Lsl | Mnemonic::Verr | Mnemonic::Verw => {
                self.probe_segment(instruction)?
            }
            M::Lfs | M::Lgs | M::Lss | M::Les | M::Lds => self.load_far_pointer(instruction)?,
            _ => return Err(Fault::invalid_opcode().into()),
        }
        Ok(Done::Next)
    }

    fn load_table(&mut self, instruction: &Instruction) -> Result<(), Stop> {
        self.require_supervisor()?;
        let limit = self.load_at(instruction, 0, 2)? as u16;
        let base = match instruction.code() {
            Code::Lgdt_m1664 | Code::Lidt_m1664 => self.load_at(instruction, 2, 8)?,
            Code::Lgdt_m1632_16 | Code::Lidt_m1632_16 => {
                self.load_at(instruction, 2, 4)? & 0xff_ffff
            }
            _ => self.load_at(instruction, 2, 4)?,
        };
        let is_bad = self.state.is_long() && !is_canonical(base);
        if is_bad {
            return Err(Fault::protection(0).into());
        }
        let table = DescriptorTable { base, limit };
        if instruction.mnemonic() == Mnemonic::Lgdt {
            self.state.system.gdt = table;
        } else {
            self.state.system.idt = table;
        }
        Ok(())
    }

    fn store_table(
        &mut self,
        instruction: &Instruction,
        table: DescriptorTable,
    ) -> Result<(), Stop> {
        self.store_at(instruction, 0, u64::from(table.limit), 2)?;
        let size = if self.state.is_long() { 8 } else { 4 };
        self.store_at(instruction, 2, table.base, size)
    }

    fn store_selector(
        &mut self,
        instruction: &Instruction,
        register: SegmentRegister,
    ) -> Result<(), Stop> {
        let selector = u64::from(self.state.segment(register).selector);
        if instruction.op0_kind() == OpKind::Memory {
            return self.store_at(instruction, 0, selector, 2);
        }
        self.set_register(instruction.op0_register(), selector);
        Ok(())
    }

    fn load_system_segment(&mut self, instruction: &Instruction) -> Result<(), Stop> {
        self.require_supervisor()?;
        let is_task = instruction.mnemonic() == Mnemonic::Ltr;
        let register = if is_task {
            SegmentRegister::Tr
        } else {
            SegmentRegister::Ldt
        };
        let selector = self.read_operand(instruction, 0)? as u16;
        if selector & !3 == 0 {
            if is_task {
                return Err(Fault::protection(0).into());
            }
            *self.state.segment_mut(register) = Segment {
                selector,
                ..Segment::default()
            };
            return Ok(());
        }
        let is_wide = self.state.is_long_active();
        let bytes = if is_wide { 16 } else { 8 };
        let (raw, high) = self.descriptor(selector, vector::PROTECTION, bytes)?;
        let kind = raw >> 40 & 0x1f;
        let wanted: &[u64] = match (is_task, is_wide) {
            (false, _) => &[2],
            (true, true) => &[9],
            (true, false) => &[1, 9],
        };
        if !wanted.contains(&kind) || selector & 4 != 0 {
            return Err(Fault::protection(u32::from(selector) & !3).into());
        }
        if raw & PRESENT == 0 {
            return Err(Stop::Fault(Fault {
                vector: vector::NOT_PRESENT,
                error: Some(u32::from(selector) & !3),
                address: None,
            }));
        }
        let mut segment = segment_of(selector, raw);
        if is_wide {
            segment.base |= high << 32;
            if !is_canonical(segment.base) {
                return Err(Fault::protection(u32::from(selector) & !3).into());
            }
        }
        if is_task {
            const BUSY: u8 = 2;
            segment.attributes |= u16::from(BUSY);
            let at = self
                .state
                .system
                .gdt
                .base
                .wrapping_add(u64::from(selector & !7) + 5);
            self.system_write(at, &[(raw >> 40) as u8 | BUSY])?;
        }
        *self.state.segment_mut(register) = segment;
        Ok(())
    }

    /// LAR, LSL, VERR, VERW: report on a descriptor in ZF, without a fault.
    fn probe_segment(&mut self, instruction: &Instruction) -> Result<(), Stop> {
        const ZF: u64 = 1 << 6;
        let mnemonic = instruction.mnemonic();
        let source = u32::from(matches!(mnemonic, Mnemonic::Lar | Mnemonic::Lsl));
        let selector = self.read_operand(instruction, source)? as u16;
        self.context.flags &= !ZF;
        let Ok((raw, _)) = self.descriptor(selector, vector::PROTECTION, 8) else {
            return Ok(());
        };
        let segment = segment_of(selector, raw);
        let level = (raw >> 45 & 3) as u8;
        let reachable = level >= self.state.privilege().max((selector & 3) as u8)
            || raw & (CONFORMING | EXECUTABLE) == CONFORMING | EXECUTABLE;
        let memory = raw & CODE_OR_DATA != 0;
        let second_bit = raw >> 41 & 1 != 0;
        let executable = raw & EXECUTABLE != 0;
        let good = reachable
            && match mnemonic {
                Mnemonic::Verr => memory && (!executable || second_bit),
                Mnemonic::Verw => memory && !executable && second_bit,
                _ => memory || matches!(raw >> 40 & 15, 2 | 9 | 11),
            };
        if !good {
            return Ok(());
        }
        match mnemonic {
            Mnemonic::Lar => self.write_operand(instruction, 0, raw >> 32 & 0x00f0_ff00)?,
            Mnemonic::Lsl => self.write_operand(instruction, 0, u64::from(segment.limit))?,
            _ => {}
        }
        self.context.flags |= ZF;
        Ok(())
    }

    fn load_far_pointer(&mut self, instruction: &Instruction) -> Result<(), Stop> {
        let size = instruction.op0_register().size();
        let offset = self.load_at(instruction, 0, size)?;
        let selector = self.load_at(instruction, size as u64, 2)? as u16;
        let register = match instruction.mnemonic() {
            Mnemonic::Les => Register::ES,
            Mnemonic::Lds => Register::DS,
            Mnemonic::Lfs => Register::FS,
            Mnemonic::Lgs => Register::GS,
            _ => Register::SS,
        };
        self.load_segment(register, selector)?;
        self.set_register(instruction.op0_register(), offset);
        Ok(())
    }
}
