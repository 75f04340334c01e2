//! The tables of caches, translation buffers, prefetchers and overlap in a processor file.
//!
//! Sizes are such that a level's sets are a power of two. Levels after the first two are optional, and each needs the
//! one before it. `file` calls `parameters`.

use serde::Deserialize;

use super::{Limits, ProcessorError};
use crate::processor::{
    CacheParameters, LineCost, MemoryParameters, OverlapParameters, PrefetchParameters,
    TranslationParameters,
};

/// Names of levels.
const LEVELS: [&str; 4] = ["l1d", "l2", "l3", "l4"];

/// The most cores that share a level.
const MOST_CORES: u32 = 1024;

/// `[caches]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CachesTable {
    l1d: FirstTable,
    l2: LevelTable,
    l3: Option<LevelTable>,
    l4: Option<LevelTable>,
    memory: CostTable,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct FirstTable {
    kib: u32,
    ways: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct LevelTable {
    kib: u32,
    ways: u32,
    latency: u32,
    line_ticks: u32,
    miss_ticks: u32,
    #[serde(default)]
    shared_ticks: u32,
    cores: Option<u32>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct CostTable {
    latency: u32,
    line_ticks: u32,
    miss_ticks: u32,
    #[serde(default)]
    shared_ticks: u32,
}

/// `[tlb]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct TlbTable {
    first: u32,
    second: u32,
    second_ways: u32,
    latency: u32,
    walk: u32,
}

/// `[prefetch]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PrefetchTable {
    lines: u32,
    strides: u32,
}

/// `[overlap]`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct OverlapTable {
    hidden: u32,
    queue: u32,
}

impl Limits<'_> {
    /// The parameters of caches and memory of a core with this window.
    pub(super) fn caches(
        &self,
        caches: &CachesTable,
        tlb: &TlbTable,
        prefetch: &PrefetchTable,
        overlap: &OverlapTable,
        window: u32,
    ) -> Result<MemoryParameters, ProcessorError> {
        if caches.l4.is_some() && caches.l3.is_none() {
            return Err(ProcessorError::Keys {
                file: self.file.to_owned(),
                table: "caches",
                reason: "has l4 and lacks",
                key: "l3".to_owned(),
                known: LEVELS.join(", "),
            });
        }
        let first = CacheParameters {
            bytes: self.kib("l1d", caches.l1d.kib, caches.l1d.ways)?,
            ways: caches.l1d.ways,
            cores: None,
            cost: LineCost::default(),
        };
        let mut levels = vec![first];
        let farther = [Some(&caches.l2), caches.l3.as_ref(), caches.l4.as_ref()];
        for (name, level) in LEVELS[1..].iter().zip(farther) {
            let Some(level) = level else {
                continue;
            };
            let cost = [level.latency, level.line_ticks, level.miss_ticks];
            let shared = level.shared_ticks;
            if *name == "l2" && shared > 0 {
                self.within("caches.l2.shared-ticks", shared, 0, 0)?;
            }
            if let Some(cores) = level.cores {
                let most = if *name == "l2" { 1 } else { MOST_CORES };
                self.within(&format!("caches.{name}.cores"), cores, 1, most)?;
            }
            levels.push(CacheParameters {
                bytes: self.kib(name, level.kib, level.ways)?,
                ways: level.ways,
                cores: level.cores,
                cost: self.line_cost(name, cost, shared)?,
            });
        }
        let memory = &caches.memory;
        let cost = [memory.latency, memory.line_ticks, memory.miss_ticks];
        Ok(MemoryParameters {
            levels,
            beyond: self.line_cost("memory", cost, memory.shared_ticks)?,
            translations: self.translations(tlb)?,
            prefetch: PrefetchParameters {
                lines: self.within("prefetch.lines", prefetch.lines, 0, 64)?,
                strides: self.within("prefetch.strides", prefetch.strides, 0, 64)?,
            },
            overlap: OverlapParameters {
                window,
                hidden: self.within("overlap.hidden", overlap.hidden, 0, 10_000)?,
                queue: self.within("overlap.queue", overlap.queue, 0, 10_000)?,
            },
            sample: 1,
        })
    }

    /// Bytes of a level that can be divided into sets.
    fn kib(&self, name: &str, kib: u32, ways: u32) -> Result<u64, ProcessorError> {
        let key = |part| format!("caches.{name}.{part}");
        self.within(&key("kib"), kib, 4, 1 << 20)?;
        self.within(&key("ways"), ways, 1, 64)?;
        let lines = u64::from(kib) * 16;
        let sets = lines / u64::from(ways);
        let divides = lines.is_multiple_of(ways.into()) && sets.is_power_of_two() && sets >= 64;
        if !divides {
            return Err(ProcessorError::Sets {
                file: self.file.to_owned(),
                key: key("kib"),
                value: kib,
                ways,
            });
        }
        Ok(u64::from(kib) << 10)
    }

    fn line_cost(
        &self,
        name: &str,
        [latency, line, miss]: [u32; 3],
        shared: u32,
    ) -> Result<LineCost, ProcessorError> {
        let key = |part| format!("caches.{name}.{part}");
        Ok(LineCost {
            latency: self.within(&key("latency"), latency, 0, 100_000)?,
            line_ticks: self.within(&key("line-ticks"), line, 0, 1_000_000)?.into(),
            miss_ticks: self
                .within(&key("miss-ticks"), miss, line, 1_000_000)?
                .into(),
            shared_ticks: self.within(&key("shared-ticks"), shared, 0, line)?.into(),
        })
    }

    fn translations(&self, tlb: &TlbTable) -> Result<TranslationParameters, ProcessorError> {
        let ways = self.within("tlb.second-ways", tlb.second_ways, 1, 64)?;
        let second = self.within("tlb.second", tlb.second, ways, 1 << 16)?;
        if !second.is_multiple_of(ways) || !(second / ways).is_power_of_two() {
            return Err(ProcessorError::Sets {
                file: self.file.to_owned(),
                key: "tlb.second".to_owned(),
                value: second,
                ways,
            });
        }
        Ok(TranslationParameters {
            first: self.within("tlb.first", tlb.first, 4, 256)?,
            second,
            second_ways: ways,
            latency: self.within("tlb.latency", tlb.latency, 0, 1000)?,
            walk: self.within("tlb.walk", tlb.walk, tlb.latency, 10_000)?,
        })
    }
}
