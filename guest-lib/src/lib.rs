//! The preloaded MPI library, ready to be placed in a guest.
//!
//! One shared object for every MPI implementation: its symbols are indirect
//! functions that resolve to the stubs at the fixed address under Belljar, and to
//! the real functions everywhere else. It needs nothing from any library, libc
//! included, but the dynamic linker.

/// The shared object, to be named in `LD_PRELOAD`.
pub const PRELOAD: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libbelljar.so"));

/// A shared object without code that has the versions of glibc up to 2.33: it stands for the parts of glibc that have been in
/// `libc.so.6` since 2.34, where a program needs one by its old name.
pub const FORMER_PART: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libpart.so"));
