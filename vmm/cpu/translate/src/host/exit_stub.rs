//! Exit stubs: the exits of a block from translated code, with their operands.
//!
//! The emitter makes them; `store` and `pool` number them, and `visit` handles them.

use bincode::{Decode, Encode};
use iced_x86::Instruction;

/// Index of a block.
pub type BlockId = u32;

/// Index of an exit stub.
pub type ExitStubId = u32;

/// Blocks and exit stubs with this bit in their number belong to a pool, others to the store.
pub const POOLED: u32 = 1 << 31;

/// The contents of the scratch registers after the first instructions of a TLB check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub enum CheckForm {
    /// S0 is the address XOR the tag, S1 the entry's byte offset.
    Xor,
    /// S0 is the address minus the tag, S1 the entry's index.
    Difference,
}

/// A frequently filled slot, with the last access that filled it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Refill {
    /// Its number.
    pub slot: u32,
    /// Bytes that its group covers.
    pub span: u16,
    /// True if the group writes.
    pub write: bool,
}

/// The reason for leaving translated code, with its operands.
#[derive(Clone, Debug)]
pub enum ExitStubKind {
    /// The budget does not cover this block.
    Stop,
    /// There were more stub instructions than a magic call needs.
    FreeSpent,
    /// An access missed the TLB. Continues at `resume` with a page offset in S0 and
    /// a host page in S1; a store into the bounce buffer continues at `bounce`.
    Miss {
        /// Bytes accessed.
        size: u16,
        /// True if the operand is written.
        write: bool,
        /// The contents of the scratch registers after the check.
        form: CheckForm,
        /// Host address at which the block continues.
        resume: u64,
        /// The same for a store into the bounce buffer.
        bounce: u64,
    },
    /// A store into the bounce buffer was executed; continues at `resume`. In a call, only the jump
    /// follows, which is still valid if the store changed this very block.
    Commit {
        /// Bytes stored.
        size: u16,
        /// Host address at which the block continues.
        resume: u64,
        /// True if it is the push of a call.
        call: bool,
    },
    /// An unlinked jump to `target`: its `rel32`, or in a pool its cell, at host address `hole`
    /// leads to `stub`, which leaves. A `plain` one must lead to a block that checks each access by
    /// itself.
    Link {
        /// RIP of the target.
        target: u64,
        /// Host address that linking changes.
        hole: u64,
        /// Host address of the exit stub.
        stub: u64,
        /// True if it must not lead to hot code.
        plain: bool,
    },
    /// The block has run so often that a better translation is worthwhile.
    Hot,
    /// The block is not entered with the context of its path slot. It begins `again` at this host address.
    Path {
        /// Host address before the check of the context.
        again: u64,
    },
    /// An access of a trace that must run by itself: it is the next one, and its block has begun under a processor
    /// model.
    Apart,
    /// A group's slot whose check did not find the `span` bytes at the address in S0 in the TLB.
    /// Continues at `resume`, with the address in S0, once they are in the TLB.
    Group {
        /// Bytes that the group covers.
        span: u16,
        /// True if the group writes.
        write: bool,
        /// Host address at which the block continues.
        resume: u64,
    },
    /// A frequently filled group slot, the last time for the bytes at the address in S0.
    Refilled(Refill),
    /// An instruction to execute in Rust.
    Helper(Box<Instruction>),
    /// Raises an exception; the bytes are not an available instruction.
    Fault {
        /// Its vector.
        vector: u8,
    },
}

/// An exit of a block from translated code.
#[derive(Clone, Debug)]
pub struct ExitStub {
    /// The block that it belongs to.
    pub block: BlockId,
    /// Number of the instruction being executed.
    pub index: u16,
    /// True if its block has guest registers in unusual places.
    pub allocates: bool,
    /// True if the addresses in `kind` are relative to the running page.
    pub relative: bool,
    /// The reason for leaving, with its operands.
    pub kind: ExitStubKind,
}
