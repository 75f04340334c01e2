//! Analyses of guest code before host code is made.
//!
//! Each file answers one question about decoded instructions, without side effects. `emit` and the makers of blocks
//! are the callers.

/// Instruction classes: the ways to translate an instruction.
pub mod analyse;
/// Decodes bytes into instructions, up to a block's end.
pub mod decode;
/// The instructions available in the guest's present state.
pub mod features;
/// Dead flags, and values of undefined flags.
pub mod flags;
/// Accesses whose addresses differ by constants, for one check each group.
pub mod groups;
/// The mode in which a block is translated, and the addresses of its bytes.
pub mod mode;
/// Registers exchanged in a trace, so that hot ones have short encodings.
pub mod rename;
/// 16-, 32- and 64-bit code, and null segments.
pub mod size;
/// Loops whose addresses advance by a register's value.
pub mod strides;
/// Registers as sums of their values at the beginning.
pub mod symbols;
/// Sums of registers with factors.
pub mod terms;
