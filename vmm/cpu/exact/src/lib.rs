//! The exact engine: a deterministic x86-64 to x86-64 binary translator.
//!
//! A block of guest code is [decoded](decode), [analysed](analyse), its
//! instructions [rewritten](rewrite) and [emitted](emit) as host code, and kept in
//! a [store] that links blocks and forgets them when their bytes change. The run
//! loop ([dispatch]) visits translated code until something needs it. Retired
//! instructions are counted exactly, and time is nothing but their number: a run
//! is a function of the guest's memory and of what its devices answer.

mod access;
mod allocation;
mod analyse;
mod apart;
mod asm;
mod beside;
mod block;
mod cache;
mod caches;
mod classes;
mod clock;
mod context;
mod decode;
mod defined;
mod dispatch;
mod emit;
mod enter;
mod exception;
mod explore;
mod explored;
mod features;
mod flags;
mod flush;
#[cfg(test)]
mod golden;
mod groups;
mod guess;
mod host;
mod hot;
mod index;
mod inspect;
mod interface;
mod jumps;
mod ledger;
mod lines;
mod lookup;
mod masked;
mod mmu;
mod pages;
mod pool;
mod probed;
mod refill;
mod relative;
mod rename;
mod rewrite;
mod saved;
mod share;
mod shared;
mod signals;
mod size;
mod state;
mod statistics;
mod store;
mod strides;
mod stubs;
mod symbols;
mod system;
mod terms;
mod timing;
mod trace;
mod vcpu;
mod visit;
mod ways;
mod x87;

#[cfg(test)]
extern crate self as belljar_exact;

pub use classes::CostClass;
pub use clock::CyclesPerInstruction;
pub use host::host_requirements;
pub use interface::RANDOM_STREAM;
pub use pool::CodePool;
pub use saved::ENGINE_NAME;
pub use share::CodeShare;
pub use statistics::Statistics;
pub use timing::{
    CacheLevel, CacheModel, Costs, LEVEL_NAMES, LINE_BYTES, TICKS_PER_CYCLE, Timing, TimingError,
};
pub use vcpu::{ExactConfig, ExactVcpu, VectorState};
