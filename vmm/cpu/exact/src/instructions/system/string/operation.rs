//! Decoded string instructions: operation and registers.
//!
//! A plain value, made from the instruction and constant over its repetitions. Used by the loop
//! that executes them.

use iced_x86::{Instruction, Mnemonic as M, OpKind, Register};

/// The operation on each element.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum StringOperation {
    Move,
    Store,
    Load,
    Scan,
    Compare,
    Input,
    Output,
}

/// A decoded string instruction.
#[derive(Clone, Copy)]
pub(super) struct StringOp {
    pub(super) operation: StringOperation,
    pub(super) size: usize,
    pub(super) repeat: bool,
    /// With REPNE, stop at equal; otherwise at unequal.
    pub(super) until_equal: bool,
    pub(super) source_base: u64,
    pub(super) target_base: u64,
    /// Bytes of an address, and of the counter.
    pub(super) address_size: usize,
}

pub(super) fn parse(instruction: &Instruction) -> Option<(StringOperation, usize)> {
    Some(match instruction.mnemonic() {
        M::Movsb => (StringOperation::Move, 1),
        M::Movsw => (StringOperation::Move, 2),
        M::Movsd => (StringOperation::Move, 4),
        M::Movsq => (StringOperation::Move, 8),
        M::Stosb => (StringOperation::Store, 1),
        M::Stosw => (StringOperation::Store, 2),
        M::Stosd => (StringOperation::Store, 4),
        M::Stosq => (StringOperation::Store, 8),
        M::Lodsb => (StringOperation::Load, 1),
        M::Lodsw => (StringOperation::Load, 2),
        M::Lodsd => (StringOperation::Load, 4),
        M::Lodsq => (StringOperation::Load, 8),
        M::Scasb => (StringOperation::Scan, 1),
        M::Scasw => (StringOperation::Scan, 2),
        M::Scasd => (StringOperation::Scan, 4),
        M::Scasq => (StringOperation::Scan, 8),
        M::Cmpsb => (StringOperation::Compare, 1),
        M::Cmpsw => (StringOperation::Compare, 2),
        M::Cmpsd => (StringOperation::Compare, 4),
        M::Cmpsq => (StringOperation::Compare, 8),
        M::Insb => (StringOperation::Input, 1),
        M::Insw => (StringOperation::Input, 2),
        M::Insd => (StringOperation::Input, 4),
        M::Outsb => (StringOperation::Output, 1),
        M::Outsw => (StringOperation::Output, 2),
        M::Outsd => (StringOperation::Output, 4),
        _ => return None,
    })
}

pub(super) fn address_size(instruction: &Instruction) -> usize {
    let of = |kind| match kind {
        OpKind::MemorySegSI | OpKind::MemorySegDI | OpKind::MemoryESDI => Some(2),
        OpKind::MemorySegESI | OpKind::MemorySegEDI | OpKind::MemoryESEDI => Some(4),
        OpKind::MemorySegRSI | OpKind::MemorySegRDI | OpKind::MemoryESRDI => Some(8),
        _ => None,
    };
    let mut sizes = (0..instruction.op_count()).filter_map(|i| of(instruction.op_kind(i)));
    sizes.next().unwrap_or(8)
}

pub(super) fn pointer(op: StringOp, register: Register) -> Register {
    match (op.address_size, register) {
        (4, Register::RSI) => Register::ESI,
        (4, Register::RDI) => Register::EDI,
        (2, Register::RSI) => Register::SI,
        (2, Register::RDI) => Register::DI,
        _ => register,
    }
}

pub(super) fn counter(op: StringOp) -> Register {
    match op.address_size {
        2 => Register::CX,
        4 => Register::ECX,
        _ => Register::RCX,
    }
}

pub(super) fn accumulator(size: usize) -> Register {
    match size {
        1 => Register::AL,
        2 => Register::AX,
        4 => Register::EAX,
        _ => Register::RAX,
    }
}
