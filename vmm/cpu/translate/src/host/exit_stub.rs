//! Exit stubs: the places at which a block leaves translated code, and what each needs.
//!
//! The emitter makes them; `store` and `pool` number them, and `visit` serves them.

use iced_x86::Instruction;

/// Index of a block.
pub type BlockId = u32;

/// Index of an exit stub.
pub type ExitStubId = u32;

/// Blocks and exit stubs with this bit in their number belong to a
/// pool, the others to the store.
pub const POOLED: u32 = 1 << 31;

/// How the first instructions of a TLB check left the scratch registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CheckForm {
    /// S0 is the address XOR the tag, S1 the entry's byte offset.
    Xor,
    /// S0 is the address minus the tag, S1 the entry's index.
    Difference,
}

/// Which slot was to be filled often, and what for the last time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refill {
    /// Its number.
    pub slot: u32,
    /// Bytes that its group covers.
    pub span: u16,
    /// Whether the group writes.
    pub write: bool,
}

/// What left translated code, and what it needs.
#[derive(Clone, Debug)]
pub enum ExitStubKind {
    /// The budget does not cover this block.
    Stop,
    /// More stub instructions than a magic call needs.
    FreeSpent,
    /// An access missed the TLB. Continues at `resume` with a page offset in S0 and
    /// a host page in S1; a store into the bounce buffer continues at `bounce`.
    Miss {
        /// Bytes accessed.
        size: u16,
        /// Whether the operand is written.
        write: bool,
        /// How the check left the scratch registers.
        form: CheckForm,
        /// Host address at which the block continues.
        resume: u64,
        /// The same for a store into the bounce buffer.
        bounce: u64,
    },
    /// A store into the bounce buffer was carried out; continues at `resume`. What a
    /// call pushes is followed by its jump alone, which still holds when the store
    /// changed this very block.
    Commit {
        /// Bytes stored.
        size: u16,
        /// Host address at which the block continues.
        resume: u64,
        /// It is what a call pushes.
        call: bool,
    },
    /// A jump to `target` whose `rel32`, or in a pool whose cell, at host address `hole`
    /// leads to `stub`, which leaves, as long as it is not linked. A `plain` one leads to
    /// a block that checks each access by itself.
    Link {
        /// RIP that it leads to.
        target: u64,
        /// Host address of what linking changes.
        hole: u64,
        /// Host address of the exit stub.
        stub: u64,
        /// It must not lead to hot code.
        plain: bool,
    },
    /// The block was run so often that it is worth more work.
    Hot,
    /// A group's slot, whose check found nothing in the TLB for the `span` bytes at
    /// the address in S0. Continues at `resume`, with the address in S0, once the TLB
    /// has them.
    Group {
        /// Bytes that the group covers.
        span: u16,
        /// Whether the group writes.
        write: bool,
        /// Host address at which the block continues.
        resume: u64,
    },
    /// A group's slot was to be filled often, the last time for the bytes at the address
    /// in S0.
    Refilled(Refill),
    /// Carried out in Rust.
    Helper(Box<Instruction>),
    /// Raises an exception; the bytes are not an instruction that is offered.
    Fault {
        /// Its vector.
        vector: u8,
    },
}

/// A place at which a block leaves translated code.
#[derive(Clone, Debug)]
pub struct ExitStub {
    /// The block that it belongs to.
    pub block: BlockId,
    /// The instruction in execution.
    pub index: u16,
    /// Its block has guest registers elsewhere than usual.
    pub allocates: bool,
    /// The addresses in `kind` count from the page that runs.
    pub relative: bool,
    /// What it needs.
    pub kind: ExitStubKind,
}
