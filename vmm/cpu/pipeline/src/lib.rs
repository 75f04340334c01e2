//! The time of blocks of x86-64 code in the core of an out-of-order processor.
//!
//! The cost of a block is a function of its instructions, of the blocks that ran before it, and of a processor's
//! parameters: it does not depend on the host, and all arithmetic is of integers. The exact engine is the caller; it
//! follows the guest's path, and charges the costs.
//!
//! The modules, from top to bottom; each imports only lower ones.
//!
//! | module | contents |
//! |---|---|
//! | [`paths`] | interned contexts of blocks, with the cost of each block after each context |
//! | [`cost`] | the cost of the last block of a path |
//! | [`memory`] | caches, translation buffers and prefetchers, and the time of misses |
//! | `recurrence` | loads whose address depends on their own earlier data |
//! | [`schedule`] | list scheduling of micro-operations in program order |
//! | [`uops`] | the micro-operations of an instruction |
//! | [`processor`] | the parameters of a processor, and their files |
//! | `shared_costs` | costs of paths that all vCPUs of a process share |
//! | [`class`](mod@class) | classes of micro-operations, and ports |

/// Classes of micro-operations, and groups of ports.
pub mod class;
/// The cost of the last block of a path.
pub mod cost;
/// Data caches, translation buffers and prefetchers.
pub mod memory;
/// Interned contexts, and the cost of each block after each context.
pub mod paths;
/// The parameters of a processor.
pub mod processor;
/// Loads whose address depends on their own earlier data.
mod recurrence;
/// List scheduling of micro-operations in program order.
pub mod schedule;
/// Costs of paths that all vCPUs of a process share.
mod shared_costs;
/// The micro-operations of an instruction.
pub mod uops;

/// Ticks per cycle: the resolution of costs.
pub const TICKS_PER_CYCLE: u64 = 1000;
