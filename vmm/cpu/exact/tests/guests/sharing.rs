//! Translated code that several guests share, probes and watchpoints.

mod buffers;
mod places;
mod pool;
mod probes;
mod saved;
mod vcpus;
mod watchpoints;

use belljar_exact::{Costs, Timing};
use belljar_pipeline::processor::Processor;

/// The time model of a processor with caches.
fn with_caches() -> Timing {
    Timing {
        costs: Costs::default(),
        caches: None,
        processor: Some(Processor::built_in("zen5").unwrap().into()),
        has_memory: true,
    }
}
