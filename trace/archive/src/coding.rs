//! Encoding of numbers and sequences as bits: an arithmetic coder, and models of recurring values.
//!
//! The coding does not depend on the meaning of the numbers. Used by the sections of chunks: structure, operands and
//! times.

/// The arithmetic coder.
pub(crate) mod coder;
/// Numbers that recur in their context.
pub(crate) mod column;
/// Sequences as a grammar with repetitions.
pub(crate) mod grammar;
