//! How numbers and sequences become bits: an arithmetic coder, and models of what recurs.
//!
//! Nothing here knows what the numbers mean. Used by what stands in chunks: structure, operands and times.

/// The arithmetic coder.
pub(crate) mod coder;
/// Numbers that recur in their context.
pub(crate) mod column;
/// Sequences as a grammar with repetitions.
pub(crate) mod grammar;
