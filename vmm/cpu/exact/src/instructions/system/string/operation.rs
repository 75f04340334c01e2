//! Decoded string instructions: operation and registers.
//!
//! A plain value, made from the instruction and constant over its repetitions. Used by the loop
//! that executes them.

use iced_x86::{Instruction, Mnemonic as M, OpKind, Register};

/// The operation on each element.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
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
    pub(super) operation: Operation,
    pub(super) size: usize,
    pub(super) repeat: bool,
    /// With REPNE, stop at equal; otherwise at unequal.
    pub(super) until_equal: bool,
    pub(super) source_base: u64,
    pub(super) target_base: u64,
    /// Bytes of an address, and of the counter.
    pub(super) address_size: usize,
}

pub(super) fn parse(instruction: &Instruction) -> Option<(Operation, usize)> {
    Some(match instruction.mnemonic() {
        M::Movsb => (Operation::Move, 1),
        M::Movsw => (Operation::Move, 2),
        M::Movsd => (Operation::Move, 4),
        M::Movsq => (Operation::Move, 8),
        M::Stosb => (Operation::Store, 1),
        M::Stosw => (Operation::Store, 2),
        M::Stosd => (Operation::Store, 4),
        M::Stosq => (Operation::Store, 8),
        M::Lodsb => (Operation::Load, 1),
        M::Lodsw => (Operation::Load, 2),
        M::Lodsd => (Operation::Load, 4),
        M::Lodsq => (Operation::Load, 8),
        M::Scasb => (Operation::Scan, 1),
        M::Scasw => (Operation::Scan, 2),
        M::Scasd => (Operation::Scan, 4),
        M::Scasq => (Operation::Scan, 8),
        M::Cmpsb => (Operation::Compare, 1),
        M::Cmpsw => (Operation::Compare, 2),
        M::Cmpsd => (Operation::Compare, 4),
        M::Cmpsq => (Operation::Compare, 8),
        M::Insb => (Operation::Input, 1),
        M::Insw => (Operation::Input, 2),
        M::Insd => (Operation::Input, 4),
        M::Outsb => (Operation::Output, 1),
        M::Outsw => (Operation::Output, 2),
        M::Outsd => (Operation::Output, 4),
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
