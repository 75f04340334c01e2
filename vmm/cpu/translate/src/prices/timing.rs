//! The time model: costs of instructions, and surcharges of caches.
//!
//! Without one, time is the number of retired instructions times a ratio. With one, each instruction has a
//! [price](crate::prices::timing::Costs), and each line of memory that it accesses is looked up in
//! [caches](crate::prices::timing::CacheModel). Both are functions of the guest's instructions and addresses
//! alone.

use std::sync::Arc;

use belljar_pipeline::processor::Processor;

use crate::prices::cost_class::{COST_CLASSES, CostClass};

/// Ticks per cycle of the vCPU's clock under a time model: the resolution of costs.
pub const TICKS_PER_CYCLE: u32 = 1000;
/// Bytes of a cache line.
pub const LINE_BYTES: u64 = 64;
/// The highest cost of an instruction, in cycles.
const MOST_COST: u32 = 1_000;
/// The highest surcharge of an access, in cycles.
const MOST_LATENCY: u32 = 100_000;
/// The largest number of ways of a cache; a set is searched way by way.
const MOST_WAYS: u32 = 64;
/// The largest size of a cache in bytes.
const MOST_CACHE: u64 = 1 << 30;

/// Errors of a time model.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum TimingError {
    /// A cost is too small, too large or too precise.
    #[error(
        "{what} costs {cycles} cycles; a cost is from 0.001 to 1000 cycles, with three decimals at most"
    )]
    Cost {
        /// The class.
        what: String,
        /// Cycles as written.
        cycles: f64,
    },
    /// The class does not exist.
    #[error("there is no class `{name}` of instructions; classes are {known}")]
    Class {
        /// The name as written.
        name: String,
        /// The existing names.
        known: String,
    },
    /// The cache cannot be divided into sets.
    #[error(
        "cache {level} of {bytes} bytes in {ways} ways: bytes / (64 x ways), its sets, must be a power of two from 2 on, ways 64 and bytes 1 GiB at most"
    )]
    Geometry {
        /// Its name.
        level: &'static str,
        /// Its size.
        bytes: u64,
        /// Its ways.
        ways: u32,
    },
    /// A latency above the limit.
    #[error("{what} takes {latency} cycles; at most 100000 make sense")]
    Latency {
        /// The cache or memory.
        what: &'static str,
        /// Cycles as written.
        latency: u32,
    },
}

/// Costs of instructions, by class, in ticks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Costs {
    ticks: [u32; COST_CLASSES],
    /// True if each element of a string costs as much as the instruction.
    by_element: bool,
}

impl Default for Costs {
    /// Every class at its default.
    fn default() -> Self {
        Self {
            ticks: CostClass::ALL.map(CostClass::default_ticks),
            by_element: true,
        }
    }
}

impl Costs {
    /// Every instruction costs `ticks`; accesses have no surcharge.
    pub fn uniform(ticks: u32) -> Self {
        let cost = |class: CostClass| if class.is_surcharge() { 0 } else { ticks };
        Self {
            ticks: CostClass::ALL.map(cost),
            by_element: false,
        }
    }

    /// Sets the cost of the class called `name`.
    ///
    /// # Errors
    /// [`TimingError`], if there is no such class or the cost is invalid.
    pub fn set(&mut self, name: &str, cycles: f64) -> Result<(), TimingError> {
        let known = CostClass::ALL
            .into_iter()
            .find(|class| class.name() == name);
        let Some(class) = known else {
            let known = CostClass::ALL.map(CostClass::name).join(", ");
            let name = name.to_owned();
            return Err(TimingError::Class { name, known });
        };
        self.ticks[class as usize] = match ticks(cycles) {
            Some(ticks) => ticks,
            None if cycles == 0.0 && class.is_surcharge() => 0,
            None => {
                let what = name.to_owned();
                return Err(TimingError::Cost { what, cycles });
            }
        };
        Ok(())
    }

    /// The cost of a class, in ticks.
    pub fn ticks(&self, class: CostClass) -> u32 {
        self.ticks[class as usize]
    }

    /// True if each element of a string costs as much as the instruction.
    pub(crate) fn by_element(&self) -> bool {
        self.by_element
    }
}

/// Converts cycles to ticks, if they are a whole number of ticks.
fn ticks(cycles: f64) -> Option<u32> {
    let scaled = cycles * f64::from(TICKS_PER_CYCLE);
    let ticks = scaled.round();
    let fits = (1.0..=f64::from(MOST_COST * TICKS_PER_CYCLE)).contains(&ticks);
    (fits && (scaled - ticks).abs() < 1e-6).then_some(ticks as u32)
}

/// A cache level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheLevel {
    /// Its size.
    pub bytes: u64,
    /// Its associativity.
    pub ways: u32,
    /// The surcharge of an access whose line is in this level, in cycles; the first level has none,
    /// regardless of this value.
    pub latency: u32,
}

/// A processor's data caches and memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CacheModel {
    /// From the nearest to the farthest, at most three.
    pub levels: Vec<CacheLevel>,
    /// The surcharge of an access whose line is in no cache, in cycles.
    pub memory: u32,
}

/// The names of levels.
pub const LEVEL_NAMES: [&str; 3] = ["l1d", "l2", "l3"];

impl CacheModel {
    /// Checks every limit.
    ///
    /// # Errors
    /// [`TimingError`] names the level and the limit.
    pub fn check(&self) -> Result<(), TimingError> {
        for (level, what) in self.levels.iter().zip(LEVEL_NAMES) {
            if !level.has_sets() {
                return Err(TimingError::Geometry {
                    level: what,
                    bytes: level.bytes,
                    ways: level.ways,
                });
            }
            check_latency(what, level.latency)?;
        }
        check_latency("memory", self.memory)
    }
}

impl CacheLevel {
    /// Number of sets.
    pub fn sets(&self) -> u64 {
        self.bytes / (LINE_BYTES * u64::from(self.ways))
    }

    fn has_sets(&self) -> bool {
        (1..=MOST_WAYS).contains(&self.ways)
            && self.bytes <= MOST_CACHE
            && self.bytes.is_multiple_of(LINE_BYTES * u64::from(self.ways))
            && self.sets() >= 2
            && self.sets().is_power_of_two()
    }
}

fn check_latency(what: &'static str, latency: u32) -> Result<(), TimingError> {
    if latency > MOST_LATENCY {
        return Err(TimingError::Latency { what, latency });
    }
    Ok(())
}

/// A time model.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Costs of instructions.
    pub costs: Costs,
    /// The caches, if they are modelled.
    pub caches: Option<CacheModel>,
    /// The processor whose core is modelled; costs of instructions then have no effect.
    pub processor: Option<Arc<Processor>>,
    /// True if the processor's caches and memory are modelled; `caches` then has no effect.
    pub has_memory: bool,
}

impl Timing {
    /// Warnings that results under this model need.
    pub fn warnings(&self) -> Vec<String> {
        let processor = self.processor.as_ref();
        let doubt = processor.and_then(|processor| processor.doubt());
        let sample = processor.map_or(1, |processor| processor.caches.sample);
        let sampled = (self.has_memory && sample > 1).then(|| {
            format!(
                "nodes.timing.memory-sample = {sample}: one page of {sample} is modelled and stands for the others; times \
                 in caches and memory are estimates"
            )
        });
        doubt.into_iter().chain(sampled).collect()
    }
}

const _: () = assert!(TICKS_PER_CYCLE as u64 == belljar_pipeline::TICKS_PER_CYCLE);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_have_three_decimals_and_a_name() {
        let mut costs = Costs::default();
        costs.set("integer", 0.25).unwrap();
        assert_eq!(costs.ticks(CostClass::Integer), 250);
        costs.set("load", 0.0).unwrap();
        assert_eq!(costs.ticks(CostClass::Load), 0);
        for wrong in [0.0, -1.0, 0.0005, 0.1234, 1_001.0, f64::NAN, f64::INFINITY] {
            assert!(costs.set("divide", wrong).is_err(), "{wrong}");
        }
        let error = costs.set("float", 1.0).unwrap_err().to_string();
        assert!(
            error.contains("`float`") && error.contains("vector-fp"),
            "{error}"
        );
    }

    #[test]
    fn sets_are_a_power_of_two() {
        let model = |bytes, ways| CacheModel {
            levels: vec![CacheLevel {
                bytes,
                ways,
                latency: 0,
            }],
            memory: 200,
        };
        assert_eq!(model(48 << 10, 12).check(), Ok(()));
        assert_eq!(model(128, 1).check(), Ok(()));
        for (bytes, ways) in [
            (48 << 10, 8),
            (64, 1),
            (0, 1),
            (4096, 0),
            (100, 1),
            (1 << 20, 128),
        ] {
            assert!(model(bytes, ways).check().is_err(), "{bytes} in {ways}");
        }
        let mut slow = model(48 << 10, 12);
        slow.memory = MOST_LATENCY + 1;
        assert!(slow.check().is_err());
    }
}
