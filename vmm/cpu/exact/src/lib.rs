//! The exact engine: a deterministic x86-64 to x86-64 binary translator.
//!
//! A block of guest code is [decoded](belljar_translate::guest::decode), [analysed](belljar_translate::guest::analyse), its
//! instructions [rewritten](belljar_translate::host::rewrite) and [emitted](belljar_translate::host::emit) as host code, and kept in
//! a [store](code::store) that links blocks and forgets them when their bytes change. The run
//! loop ([dispatch](run::dispatch)) visits translated code until something needs it. Retired
//! instructions are counted exactly, and time is nothing but their number: a run
//! is a function of the guest's memory and of what its devices answer.
//!
//! The rooms, from top to bottom. Each imports from those below it alone; what one does with a vCPU
//! that another does too is a method of [`ExactVcpu`].
//!
//! | room | what is in it |
//! |---|---|
//! | [`run`] | the run loop and the `Vcpu` trait |
//! | [`instructions`] | instructions, exceptions and interrupts in Rust |
//! | [`find`] | which code runs next |
//! | [`memory`] | accesses that translated code could not do |
//! | [`processor`] | the vCPU's state, the host's processor |
//! | [`code`] | translated code that is kept |
//! | [`belljar_translate`] | a crate of its own: guest code into host code |

/// Translated code that is kept: a node's own, and the pool's.
mod code;
/// Which code runs next: found, translated, shared, or made hot.
mod find;
/// Host code of samples, compared with text files.
#[cfg(test)]
mod golden;
/// Instructions, exceptions and interrupts that are carried out in Rust.
mod instructions;
/// Accesses to guest memory that translated code could not do by itself.
mod memory;
/// The guest's processor as a value, and the host's as the engine uses it.
mod processor;
/// Runs: from the caller's request to the exit that it gets.
mod run;

#[cfg(test)]
extern crate self as belljar_exact;

pub use belljar_translate::prices::cost_class::CostClass;
pub use belljar_translate::prices::timing::{
    CacheLevel, CacheModel, Costs, LEVEL_NAMES, LINE_BYTES, TICKS_PER_CYCLE, Timing, TimingError,
};
pub use code::pool::CodePool;
pub use code::share::CodeShare;
pub use processor::clock::CyclesPerInstruction;
pub use processor::host::host_requirements;
pub use processor::statistics::Statistics;
pub use processor::vcpu::{ExactConfig, ExactVcpu, VectorState};
pub use run::interface::RANDOM_STREAM;
pub use run::saved::ENGINE_NAME;
