//! The preloaded MPI library, ready to be placed in a guest.
//!
//! One shared object for every MPI implementation: its symbols are indirect
//! functions that resolve to the stubs at the fixed address under Belljar, and to
//! the real functions everywhere else. It needs nothing from any library, libc
//! included, but the dynamic linker.

/// The shared object, to be named in `LD_PRELOAD`.
pub const PRELOAD: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libbelljar.so"));
