//! Processes and threads of a Linux guest, from its kernel's data in memory.
//!
//! The kernel describes its own structures: names of variables are in its table of symbols (kallsyms), and
//! layouts in its type information (BTF). Both come from the kernel's file, the data from the guest's
//! memory, which is untrusted: lists and texts have limits, and a broken structure yields fewer results.
//! Used by debuggers, and by runs that detect jobs in which no rank can proceed.

/// The kernel's type information.
mod btf;
/// Positions of the variables and members that are needed.
mod layout;
/// Linear addresses of a guest.
mod paging;
/// Processes and threads.
mod tasks;
/// Saved registers of threads.
mod threads;
/// Threads that nothing but another thread can wake.
mod waits;

pub use btf::{Btf, BtfError};
pub use layout::{Layout, LayoutError};
pub use paging::{PhysicalMemory, Space};
pub use tasks::{Kernel, Process, Thread};
pub use threads::{UserRegisters, VectorRegisters};
