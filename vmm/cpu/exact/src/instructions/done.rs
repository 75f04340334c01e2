//! The results of instructions executed in Rust.
//!
//! Handlers return them; `system` acts on them.

use belljar_cpu::Exit;

/// The result of a handler without an exception.
pub(crate) enum Done {
    /// Continue after the instruction.
    Next,
    /// The handler set RIP.
    Jumped,
    /// Counted, but not complete: the same instruction continues.
    Part,
    /// As `Part`, with an exit to the caller.
    PartExit(Exit),
    /// Complete, with an exit to the caller.
    Exit(Exit),
    /// Neither executed nor counted: exit to the caller, then run it again.
    Again(Exit),
}
