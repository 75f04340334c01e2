//! `[nodes.timing]`: the time model, as a scenario's file defines it.
//!
//! Numbers as written; `time_model` checks the sizes of caches, and makes the engine's model.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::scenario::quantity::Bytes;

/// A time model.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct TimingTable {
    /// Cycles by class of instructions. Absent classes have their defaults; without this table every
    /// instruction costs `cycles-per-instruction`.
    pub costs: Option<BTreeMap<String, f64>>,
    /// The processor whose core is modelled: a built-in name, or the path of a file that ends in `.toml`, relative to
    /// the scenario's file. Not with `costs`.
    pub processor: Option<String>,
    /// False if only the core of the processor is modelled: all accesses then hit the first level.
    pub memory: Option<bool>,
    /// One page of so many is modelled in the processor's caches and stands for the others: 1, 2, 4, 8 or 16. The default
    /// is 1, all pages; more are faster and less exact.
    pub memory_sample: Option<u32>,
    /// Caches; not modelled when absent. Not with `processor`, which has its own.
    pub caches: Option<CachesTable>,
}

/// Data caches and memory.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CachesTable {
    /// First level.
    pub l1d: FirstCache,
    /// Second level, if present.
    pub l2: Option<FartherCache>,
    /// Third level, if present; needs a second.
    pub l3: Option<FartherCache>,
    /// Cycles of an access that misses all caches, in addition to its instruction's cost.
    pub memory_latency: u32,
}

/// The first level of caches, whose hits add no cost to their instructions.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FirstCache {
    /// Its size.
    pub size: Bytes,
    /// Its associativity.
    pub ways: u32,
}

/// A level of caches after the first.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FartherCache {
    /// Its size.
    pub size: Bytes,
    /// Its associativity.
    pub ways: u32,
    /// Cycles of a hit, in addition to its instruction's cost.
    pub latency: u32,
}
