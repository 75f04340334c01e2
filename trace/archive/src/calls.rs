//! What is alike in calls of ranks and iterations that do the same.
//!
//! A call becomes a signature by what its thread's calls told before; signatures have numbers in a dictionary. Used alike by
//! the writer and by readers.

/// Signatures by number.
pub(crate) mod dictionary;
/// Calls without what differs between ranks and iterations.
pub(crate) mod signature;
/// What is known of a thread after each call.
pub(crate) mod stream;
