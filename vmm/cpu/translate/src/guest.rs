//! Guest code as it is understood before any host code is made.
//!
//! Each file answers one question about decoded instructions and changes nothing but them. `emit` and the makers of
//! blocks are the callers.

/// Which class an instruction is of: how it is translated.
pub mod analyse;
/// Bytes into instructions, up to a block's end.
pub mod decode;
/// Which instructions are offered in the state that the guest has switched on.
pub mod features;
/// Which flags are dead where, and what undefined ones are.
pub mod flags;
/// Accesses whose addresses differ by constants, for one check each group.
pub mod groups;
/// Under which circumstances a block is translated, and where its bytes lie.
pub mod mode;
/// Registers exchanged in a trace, so that hot ones have short encodings.
pub mod rename;
/// 16-, 32- and 64-bit code, and null segments.
pub mod size;
/// Loops that move by what a register holds.
pub mod strides;
/// Registers as sums of what they held at the beginning.
pub mod symbols;
/// Sums of registers with factors.
pub mod terms;
