//! The parameters of a processor.
//!
//! A processor is read from a TOML file, and every value is checked against its limits: a value of this type can be
//! simulated. `paths` and `schedule` read it; scenarios name built-in processors or files.

use crate::class::{PortGroup, UopClass};

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
    /// Cycles without dispatch after a taken jump.
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

/// Repeated string instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Text {
    /// Bytes that REP MOVS and REP STOS write in a cycle.
    pub bytes_per_cycle: u32,
    /// Ticks of an element of other string instructions.
    pub element: u32,
}

/// A processor's parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Processor {
    /// Its name.
    pub name: String,
    /// The name or path by which it was loaded, for messages.
    pub origin: String,
    /// Origin and date of the numbers.
    pub measured: String,
    /// A hash of the file's text.
    pub digest: u64,
    /// Front end, window and retirement.
    pub core: Core,
    /// Loads and stores.
    pub memory: Memory,
    /// Repeated string instructions.
    pub text: Text,
    /// Operations of each port group in a cycle, by [`PortGroup`].
    pub(crate) ports: [u32; PortGroup::ALL.len()],
    /// By [`UopClass`].
    pub(crate) classes: [ClassCost; UopClass::ALL.len()],
}

impl Processor {
    /// The name and the hash, as results state them.
    pub fn identity(&self) -> String {
        format!("{} ({:016x})", self.name, self.digest)
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
