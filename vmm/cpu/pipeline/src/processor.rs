//! The parameters of a processor.
//!
//! A processor is read from a TOML file, and every value is checked against its limits: a value of this type can be
//! simulated. `paths` and `schedule` read it; scenarios name built-in processors or files.

use crate::class::{PortGroup, UopClass};
use crate::shared_costs::SharedCosts;

/// Processor files, their limits and their errors.
mod file;

pub use file::{BUILT_IN, ProcessorError};

/// Latency, occupancy and size of a class of micro-operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassCost {
    /// Cycles from the operands to the result.
    pub latency: u32,
    /// Cycles from the operands to the result, if an operation of the same class uses it.
    pub chained: u32,
    /// Cycles for which an operation occupies its port.
    pub occupancy: u32,
    /// Micro-operations that are dispatched and retired.
    pub uops: u32,
}

/// Front end, window and retirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Core {
    /// Micro-operations dispatched in a cycle.
    pub dispatch: u32,
    /// Micro-operations retired in a cycle.
    pub retire: u32,
    /// Micro-operations between dispatch and retirement.
    pub window: u32,
    /// Entries of the schedulers of general and of vector operations.
    pub schedulers: [u32; 2],
    /// Cycles from the resolution of a mispredicted branch to the next dispatch.
    pub mispredict: u32,
    /// Cycles in which the front end follows a taken jump, ahead of dispatch.
    pub taken: u32,
    /// The same after a call.
    pub call: u32,
    /// The same after a return.
    pub returns: u32,
    /// The same after an indirect jump.
    pub indirect: u32,
}

/// Latencies of loads that hit the first level, and of forwarded stores, in cycles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Into general registers, and into vector registers.
    pub load: [u32; 2],
    /// Added for an index register.
    pub indexed: u32,
    /// From a store at the same symbolic address without an index, into a general register.
    pub renamed: u32,
    /// From an uncommitted store, into general registers, and into vector registers.
    pub forward: [u32; 2],
    /// Cycles from a store's retirement until its data is in the first level.
    pub commit: u32,
}

/// The cost of a line from a level of caches or from memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LineCost {
    /// Cycles beyond a hit in the first level.
    pub latency: u32,
    /// Ticks between two lines that are prefetched.
    pub line_ticks: u64,
    /// Ticks between two lines that are not, at addresses that do not depend on each other.
    pub miss_ticks: u64,
    /// Ticks between two lines of all cores that share the path together; zero if cores share no path.
    pub shared_ticks: u64,
}

/// A level of data caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheParameters {
    /// Its size.
    pub bytes: u64,
    /// Its associativity.
    pub ways: u32,
    /// Number of cores that have one together; `None` if each has its own.
    pub cores: Option<u32>,
    /// The cost of its lines; nothing in the first level.
    pub cost: LineCost,
}

impl CacheParameters {
    /// Number of lines.
    pub fn lines(&self) -> u32 {
        (self.bytes / crate::memory::LINE_BYTES) as u32
    }
}

/// Translation buffers of data, which accesses that miss the first level use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TranslationParameters {
    /// Entries of the first buffer, which is fully associative.
    pub first: u32,
    /// Entries and ways of the second one.
    pub second: u32,
    /// See `second`.
    pub second_ways: u32,
    /// Cycles of a hit in the second one, and of a walk through the tables.
    pub latency: u32,
    /// See `latency`.
    pub walk: u32,
}

/// Prefetchers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrefetchParameters {
    /// Lines ahead of a stream.
    pub lines: u32,
    /// Steps ahead of an instruction's stride.
    pub strides: u32,
}

/// Overlap of misses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverlapParameters {
    /// Instructions within which misses overlap: those of the core's window.
    pub window: u32,
    /// The most cycles of a miss that the window hides.
    pub hidden: u32,
    /// Cycles by which moved lines may be ahead of the core.
    pub queue: u32,
}

/// Caches and memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryParameters {
    /// From the first level on.
    pub levels: Vec<CacheParameters>,
    /// The cost of lines that no cache has.
    pub beyond: LineCost,
    /// Translation buffers.
    pub translations: TranslationParameters,
    /// Prefetchers.
    pub prefetch: PrefetchParameters,
    /// Overlap of misses.
    pub overlap: OverlapParameters,
    /// One page of so many is modelled, a power of two; 1 for all pages. Caches and buffers are smaller by this factor.
    pub sample: u32,
}

/// The largest sample: one page of so many.
pub const MOST_SAMPLE: u32 = 16;

impl MemoryParameters {
    /// The same for one page of `sample`, a power of two up to [`MOST_SAMPLE`]: smaller caches and buffers.
    #[must_use]
    pub fn sampled(mut self, sample: u32) -> Self {
        for level in &mut self.levels {
            level.bytes /= u64::from(sample);
        }
        let buffers = &mut self.translations;
        buffers.first = (buffers.first / sample).max(1);
        buffers.second = (buffers.second / sample).max(buffers.second_ways);
        self.sample = sample;
        self
    }

    /// The cost of a line from level number `level`, from 0 on; from memory, if there are fewer.
    pub fn cost_of(&self, level: usize) -> LineCost {
        self.levels
            .get(level)
            .map_or(self.beyond, |level| level.cost)
    }
}

/// Repeated string instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text {
    /// Bytes that REP MOVS and REP STOS write in a cycle.
    pub bytes_per_cycle: u32,
    /// The same if the first byte is at no multiple of 32.
    pub unaligned_bytes_per_cycle: u32,
    /// Cycles before that, if they write more than a line.
    pub start: u32,
    /// Cycles before that, if they write less.
    pub short: u32,
    /// Further cycles if the first byte is at no multiple of 32.
    pub unaligned: u32,
    /// Ticks of an element of other string instructions.
    pub element: u32,
}

impl Text {
    /// Ticks of REP MOVS or REP STOS that writes `bytes` from `address` on, besides the instruction.
    pub fn written(&self, bytes: u64, address: u64) -> u64 {
        let aligned = address.is_multiple_of(32);
        if bytes == 0 {
            return 0;
        }
        let start = match bytes > crate::memory::LINE_BYTES {
            true => self.start,
            false => self.short,
        };
        let (start, rate) = match aligned {
            true => (start, self.bytes_per_cycle),
            false => (start + self.unaligned, self.unaligned_bytes_per_cycle),
        };
        let moved = bytes.saturating_mul(crate::TICKS_PER_CYCLE);
        moved.div_ceil(rate.into()) + u64::from(start) * crate::TICKS_PER_CYCLE
    }
}

/// A processor's parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Processor {
    /// Its name.
    pub name: String,
    /// The name or path by which it was loaded, for messages.
    pub origin: String,
    /// Origin and date of the measurement; `None` if the numbers come from documents.
    pub measured: Option<String>,
    /// The highest level of x86-64 whose instructions it has, from 1 to 4.
    pub level: u32,
    /// A hash of the file's text.
    pub digest: u64,
    /// Front end, window and retirement.
    pub core: Core,
    /// Loads and stores.
    pub memory: Memory,
    /// Repeated string instructions.
    pub text: Text,
    /// Caches and memory beyond the first level.
    pub caches: MemoryParameters,
    /// Costs that were computed for it.
    pub(crate) costs: SharedCosts,
    /// Operations of each port group in a cycle, by [`PortGroup`].
    pub(crate) ports: [u32; PortGroup::ALL.len()],
    /// By [`UopClass`].
    pub(crate) classes: [ClassCost; UopClass::ALL.len()],
}

impl Processor {
    /// The name and the hash, as results state them, and the sample of its pages if not all are modelled.
    pub fn identity(&self) -> String {
        let whole = format!("{} ({:016x})", self.name, self.digest);
        match self.caches.sample {
            1 => whole,
            sample => format!("{whole}, one page of {sample}"),
        }
    }

    /// The warning of results under a processor that was never measured.
    pub fn doubt(&self) -> Option<String> {
        let unmeasured = self.measured.is_none();
        unmeasured.then(|| {
            format!(
                "nobody measured the processor file {}: its numbers are from documents, and its times are estimates",
                self.name
            )
        })
    }

    /// The costs of a class.
    pub fn class(&self, class: UopClass) -> ClassCost {
        self.classes[class as usize]
    }

    /// Operations of a port group in a cycle.
    pub fn ports(&self, group: PortGroup) -> u32 {
        self.ports[group as usize]
    }
}
