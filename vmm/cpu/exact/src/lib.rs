//! The exact engine: a deterministic x86-64 to x86-64 binary translator.
//!
//! A block of guest code is [decoded](belljar_translate::guest::decode) and [analysed](belljar_translate::guest::analyse), its
//! instructions are [rewritten](belljar_translate::host::rewrite) and [emitted](belljar_translate::host::emit) as host code. A
//! [store](code::store) keeps and links blocks, and drops them when their bytes change. The run loop ([dispatch](run::dispatch))
//! visits translated code until it needs service. Retired instructions are counted exactly, and time follows from their number: a
//! run is a function of the guest's memory and of its devices' answers.
//!
//! The modules, from top to bottom. Each imports only lower ones; operations on a vCPU that several modules need are methods of
//! [`ExactVcpu`].
//!
//! | module | contents |
//! |---|---|
//! | [`run`] | the run loop and the `Vcpu` trait |
//! | [`instructions`] | instructions, exceptions and interrupts in Rust |
//! | [`find`] | finding the code that runs next |
//! | [`memory`] | accesses beyond translated code's fast path |
//! | [`processor`] | the vCPU's state, the host's processor |
//! | [`code`] | storage of translated code |
//! | [`belljar_translate`] | a separate crate: from guest code to host code |

/// Storage of translated code: a node's own, and the pool's.
mod code;
/// Finds the code that runs next: looks it up, translates it, shares it, or makes it hot.
mod find;
/// Host code of samples, compared with text files.
#[cfg(test)]
mod golden;
/// Instructions, exceptions and interrupts that are executed in Rust.
mod instructions;
/// Accesses to guest memory beyond translated code's fast path.
mod memory;
/// The guest's processor as a value, and the host's as the engine uses it.
mod processor;
/// Runs: from the caller's request to the resulting exit.
mod run;

#[cfg(test)]
extern crate self as belljar_exact;

pub use belljar_translate::prices::cost_class::CostClass;
pub use belljar_translate::prices::timing::{
    CacheLevel, CacheModel, Costs, LEVEL_NAMES, LINE_BYTES, TICKS_PER_CYCLE, Timing, TimingError,
};
pub use code::pool::{CodeKey, CodePool, SavedCodeError, SealedCode};
pub use code::share::CodeShare;
pub use processor::clock::CyclesPerInstruction;
pub use processor::host::host_requirements;
pub use processor::statistics::Statistics;
pub use processor::vcpu::{ExactConfig, ExactVcpu, VectorState};
pub use run::interface::RANDOM_STREAM;
pub use run::saved::ENGINE_NAME;
