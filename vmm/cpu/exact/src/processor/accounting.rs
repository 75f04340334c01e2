//! A time model in use: the cost of each instruction, the guest's caches, and accumulated costs.
//!
//! A vCPU has one if its scenario models time. `memory::accounting` charges its prices, `memory::lines` uses its
//! caches.

use belljar_pipeline::memory::SharedCaches;
use belljar_translate::context::LineFilter;
use belljar_translate::prices::classes::Prices;
use belljar_translate::prices::timing::Timing;

use crate::processor::accounting::caches::Caches;
use crate::processor::accounting::memory::MemoryModel;
use crate::processor::accounting::path::PathModel;

/// The model of the guest's caches.
pub(crate) mod caches;
/// Caches and memory of a processor model.
pub(crate) mod memory;
/// The guest's path under a processor model.
pub(crate) mod path;

/// A time model in use.
pub(crate) struct Accounting {
    pub prices: Prices,
    pub caches: Option<Caches>,
    /// The processor model, which replaces `prices`.
    pub path: Option<PathModel>,
    /// The caches and memory of the processor model.
    pub memory: Option<MemoryModel>,
    /// Cycles spent in caches and memory so far.
    pub spent_in_caches: u64,
    pub spent_in_memory: u64,
}

impl Accounting {
    /// The time model `timing` of a vCPU whose code iced decodes under `decoder_options`, with the caches of its node.
    pub(crate) fn new(timing: &Timing, decoder_options: u32, shared: &mut SharedCaches) -> Self {
        let processor = timing.processor.as_ref();
        Self {
            path: processor.map(|processor| PathModel::new(processor, decoder_options)),
            prices: Prices::new(&timing.costs),
            memory: processor
                .filter(|_| timing.has_memory)
                .map(|processor| MemoryModel::new(&processor.caches, shared)),
            caches: timing
                .caches
                .as_ref()
                .filter(|_| processor.is_none())
                .map(Caches::new),
            spent_in_caches: 0,
            spent_in_memory: 0,
        }
    }

    /// The tables in which translated code checks lines, if caches are modelled.
    pub(crate) fn filter(&self) -> Option<LineFilter> {
        match (&self.memory, &self.caches) {
            (Some(_), _) => Some(LineFilter::Wide),
            (None, Some(_)) => Some(LineFilter::Narrow),
            (None, None) => None,
        }
    }
}
