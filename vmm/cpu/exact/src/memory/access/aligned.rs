//! Alignment checks (RFLAGS.AC under CR0.AM, in user mode; Intel SDM, volume 3, 6.15, "Interrupt
//! 17"). While they are enabled, instructions run one by one and are checked before; otherwise they
//! cost nothing. Operands beyond 10 bytes are not checked, which manuals permit, nor are the lanes
//! of gathers and scatters. The images of FNSAVE and similar instructions must be aligned to their
//! words or double words.

use belljar_translate::architecture::{cr0, flag};
use belljar_translate::guest::analyse::helper::is_bit_string;
use belljar_translate::guest::analyse::masked::is_masked;
use belljar_translate::guest::analyse::operands::operand_access;
use belljar_translate::guest::analyse::{InstructionClass, classify};
use iced_x86::{Code, Instruction, Mnemonic, OpAccess, OpKind, Register};

use super::refine::{has_pending_x87, waits_for_x87};
use crate::memory::masked::touched_bytes;
use crate::processor::state::Fault;
use crate::processor::vcpu::ExactVcpu;

/// The largest operand that is checked; the alignment of operands beyond 8 bytes is 8.
const LARGEST: usize = 10;

/// An access that an instruction is about to make.
pub(crate) struct DataAccess {
    pub(crate) linear: u64,
    pub(crate) bytes: usize,
    pub(crate) write: bool,
}

/// The required alignment of an access of `bytes` bytes.
fn boundary(instruction: &Instruction, bytes: usize) -> Option<u64> {
    match instruction.mnemonic() {
        Mnemonic::Fnstenv | Mnemonic::Fldenv | Mnemonic::Fnsave | Mnemonic::Frstor => {
            let words = matches!(bytes, 14 | 94);
            Some(if words { 2 } else { 4 })
        }
        _ if (2..=LARGEST).contains(&bytes) => Some(bytes.next_power_of_two().min(8) as u64),
        _ => None,
    }
}

impl ExactVcpu {
    /// True if misaligned accesses raise #AC.
    pub(crate) fn checks_alignment(&self) -> bool {
        self.state.flags & flag::AC != 0
            && self.state.system.cr0 & cr0::AM != 0
            && self.state.is_user()
    }

    /// The #AC of the instruction at `state.rip`, unless the same access raises another exception
    /// first.
    pub(crate) fn misalignment(&mut self) -> Option<Fault> {
        let (instruction, features) = self.present_instruction();
        let class = classify(&instruction, &features);
        let op_code = instruction.code().op_code();
        if matches!(class, InstructionClass::Fault(_) | InstructionClass::Nop | InstructionClass::Lea)
            || op_code.is_privileged()
            || op_code.is_input_output()
            || instruction.is_vsib()
            // ENTER checks each of its accesses itself.
            || instruction.mnemonic() == Mnemonic::Enter
            || (is_masked(&instruction) && touched_bytes(&instruction, &self.context) == 0)
            || (waits_for_x87(&instruction) && has_pending_x87())
        {
            return None;
        }
        // Under a mask, each element is a separate access.
        let size = if is_masked(&instruction) {
            instruction.memory_size().element_size()
        } else {
            instruction.memory_size().size()
        };
        for access in self.accesses(&instruction, size) {
            let Some(boundary) = boundary(&instruction, access.bytes) else {
                continue;
            };
            let odd = !access.linear.is_multiple_of(boundary);
            let user = self.state.is_user();
            // An unmapped access is a page fault, which also ends the instruction.
            let mapped = [0, access.bytes as u64 - 1].into_iter().all(|end| {
                let linear = access.linear.wrapping_add(end);
                self.data_address(linear, access.write, user).is_ok()
            });
            if !mapped {
                return None;
            }
            if odd {
                return Some(Fault::alignment());
            }
        }
        None
    }

    /// The accesses of an instruction, in order; `size` is its operand's size.
    pub(crate) fn accesses(&self, instruction: &Instruction, size: usize) -> Vec<DataAccess> {
        let mut planned = Vec::new();
        let mut add = |linear, bytes, write| {
            if bytes > 0 {
                planned.push(DataAccess {
                    linear: self.state.wrap_linear(linear),
                    bytes,
                    write,
                });
            }
        };
        for (number, kind) in instruction.op_kinds().enumerate() {
            let access = operand_access(instruction, number as u32);
            let write = !matches!(access, OpAccess::Read | OpAccess::CondRead);
            let segment = self.segment_base(instruction.memory_segment());
            match kind {
                OpKind::Memory if is_bit_string(instruction) => {
                    add(self.bit_address(instruction).0, size, write)
                }
                OpKind::Memory if access != OpAccess::NoMemAccess => {
                    add(self.linear(instruction), size, write)
                }
                OpKind::MemorySegRSI => add(
                    segment.wrapping_add(self.register(Register::RSI)),
                    size,
                    write,
                ),
                OpKind::MemoryESRDI => add(self.register(Register::RDI), size, write),
                _ => {}
            }
        }
        if instruction.mnemonic() == Mnemonic::Leave {
            let bytes = match instruction.code() {
                Code::Leavew => 2,
                Code::Leaved => 4,
                _ => 8,
            };
            add(self.state.stack_address(self.context.gpr[5]), bytes, false);
            return planned;
        }
        let moved = instruction.stack_pointer_increment();
        if instruction.is_stack_instruction() && moved.unsigned_abs() as usize <= 8 {
            let rsp = self.context.gpr[4];
            let bytes = moved.unsigned_abs() as usize;
            if moved < 0 {
                let below = rsp.wrapping_sub(bytes as u64);
                add(self.state.stack_address(below), bytes, true);
            } else {
                add(self.state.stack_address(rsp), bytes, false);
            }
        }
        // A repetition with count zero accesses nothing.
        let repeats = instruction.has_rep_prefix() || instruction.has_repne_prefix();
        if repeats && instruction.is_string_instruction() && self.register(Register::RCX) == 0 {
            planned.clear();
        }
        planned
    }
}
