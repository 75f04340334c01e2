//! How an instruction that is carried out in Rust ended.
//!
//! Handlers answer with it; `system` acts on it.

use belljar_cpu::Exit;

/// How a helper ended when nothing went wrong.
pub(crate) enum Done {
    /// Continue after the instruction.
    Next,
    /// The helper set RIP.
    Jumped,
    /// Counted, but not done: the same instruction continues.
    Part,
    /// As `Part`; then tell the caller.
    PartExit(Exit),
    /// Done; then tell the caller.
    Exit(Exit),
    /// Not done and not counted: ask the caller, then run it again.
    Again(Exit),
}
