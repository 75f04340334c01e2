//! Caches and memory of a processor model, access by access.
//!
//! Misses and their time are those of `belljar-pipeline`; which accesses there are, and when, is worked out here:
//! each of them goes through the model, in the order of the program.

use belljar_cpu::TimeAccount;
use belljar_exact::TICKS_PER_CYCLE;
use belljar_pipeline::memory::{DataMemory, LineAccess, MissMoment, MissTime, TimeSpent};
use belljar_pipeline::processor::MemoryParameters;

/// The instruction of an access, if it is executed in translated code.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct PlainSite {
    /// Its address.
    pub address: Option<u64>,
    /// True if its address depends on its own earlier data.
    pub recurrent: bool,
    /// Ticks and instructions of its block.
    pub block: Option<(u64, u64)>,
}

/// The caches of a program whose pages are of 4 KiB and map addresses to themselves.
pub(super) struct PlainMemory {
    parameters: MemoryParameters,
    memory: DataMemory,
    time: MissTime,
    spent: TimeSpent,
}

impl PlainMemory {
    pub(super) fn new(parameters: &MemoryParameters) -> Self {
        Self {
            memory: DataMemory::new(parameters),
            parameters: parameters.clone(),
            time: MissTime::default(),
            spent: TimeSpent::default(),
        }
    }

    /// Accesses the line of `at` when `ticks` have passed besides those for memory.
    pub(super) fn access(
        &mut self,
        at: u64,
        loads: bool,
        ticks: u64,
        retired: u64,
        site: &PlainSite,
    ) {
        if !self.memory.models(at) {
            return;
        }
        let found = self.memory.access(&LineAccess {
            linear: at,
            physical: at,
            page_bytes: 4096,
            site: site.address,
        });
        let moment = MissMoment {
            now: ticks + self.spent.total(),
            retired,
            loads,
            recurrent: site.recurrent,
            block: site.block.unwrap_or((1000, 1)),
        };
        self.spent += self.time.spend(&self.parameters, &found, &moment);
    }

    /// Ticks that misses took.
    pub(super) fn spent(&self) -> u64 {
        self.spent.total()
    }

    pub(super) fn write(&self, account: &mut TimeAccount) {
        let cycles = |ticks| ticks / u64::from(TICKS_PER_CYCLE);
        account.caches = cycles(self.spent.caches);
        account.memory = cycles(self.spent.memory);
        account.translation = cycles(self.spent.translation);
        account.bandwidth = cycles(self.spent.bandwidth);
    }
}
