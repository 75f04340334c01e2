//! `[nodes.timing]`: the time model as a scenario's file says it.
//!
//! Numbers as they were written; whether caches of such a size can be is checked by `time_model`, which
//! makes the engine's model of them.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;

use crate::scenario::quantity::Bytes;

/// A time model.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TimingTable {
    /// Cycles by class of instructions. Classes that are not named have their defaults;
    /// without this table every instruction costs `cycles-per-instruction`.
    pub costs: Option<BTreeMap<String, f64>>,
    /// The caches; not modelled when absent.
    pub caches: Option<CachesTable>,
}

/// Data caches and memory.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CachesTable {
    /// The first level.
    pub l1d: FirstCache,
    /// The second, if there is one.
    pub l2: Option<FartherCache>,
    /// The third, if there is one; needs a second.
    pub l3: Option<FartherCache>,
    /// Cycles of an access that misses all of them, besides its instruction's cost.
    pub memory_latency: u32,
}

/// The first level of caches, whose hits cost nothing besides their instructions.
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
    /// Cycles of a hit besides its instruction's cost.
    pub latency: u32,
}
