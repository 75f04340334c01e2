//! The preloaded MPI library, to be placed in a guest.
//!
//! One shared object for every MPI implementation: its symbols are indirect functions that resolve to the stubs at the fixed
//! address under Belljar, and to the real functions otherwise. It depends only on the dynamic linker, and on no library, not
//! even libc.

/// The shared object for `LD_PRELOAD`.
pub const PRELOAD: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libbelljar.so"));

/// A shared object without code that defines glibc's versions up to 2.33: a stand-in for the parts of glibc that have been in
/// `libc.so.6` since 2.34, for programs that need one by its old name.
pub const FORMER_PART: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libpart.so"));
