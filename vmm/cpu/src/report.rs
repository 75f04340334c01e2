//! Engines' reports of a run.
//!
//! A report is not part of a run's results: it has an engine's counters, and warnings about
//! results. Nodes add up the reports of their processors' engines for the summary.

use serde::{Deserialize, Serialize};

/// An instruction of the guest that the engine does not implement.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unimplemented {
    /// Its first address.
    pub rip: u64,
    /// The bytes there, as far as they are readable.
    pub bytes: Vec<u8>,
    /// The number of times it was executed.
    pub count: u64,
}

/// The prefix of counters that are maxima instead of sums.
const WORST: &str = "worst_";

/// An engine's report of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineReport {
    /// Instructions that raised #UD because they are not implemented.
    pub unimplemented: Vec<Unimplemented>,
    /// True if instructions in stubs are counted, because the guest abused their exemption.
    pub stubs_abused: bool,
    /// Further warnings about the results.
    pub warnings: Vec<String>,
    /// The engine's own counters, by name. They are sums, except for names that begin with
    /// `worst_`, which are maxima.
    pub counters: Vec<(&'static str, u64)>,
}

impl EngineReport {
    /// Combines two values of a counter: the maximum or the sum, by its name.
    pub fn together(name: &str, one: u64, other: u64) -> u64 {
        if name.starts_with(WORST) {
            one.max(other)
        } else {
            one + other
        }
    }

    /// Adds the report of another processor's engine.
    pub fn add(&mut self, other: Self) {
        for met in other.unimplemented {
            let known = self.unimplemented.iter_mut();
            match known.into_iter().find(|known| known.rip == met.rip) {
                Some(known) => known.count += met.count,
                None => self.unimplemented.push(met),
            }
        }
        self.stubs_abused |= other.stubs_abused;
        // Several processors may report the same warning.
        for warning in other.warnings {
            if !self.warnings.contains(&warning) {
                self.warnings.push(warning);
            }
        }
        for (name, count) in other.counters {
            let known = self.counters.iter_mut().find(|(known, _)| *known == name);
            match known {
                Some((_, sum)) => *sum = Self::together(name, *sum, count),
                None => self.counters.push((name, count)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_add_up_by_place_and_by_name() {
        let report = |rip, name, abused| EngineReport {
            unimplemented: vec![Unimplemented {
                rip,
                bytes: Vec::new(),
                count: 2,
            }],
            stubs_abused: abused,
            warnings: vec!["no breakpoints".to_owned()],
            counters: vec![(name, 5)],
        };
        let mut sum = EngineReport::default();
        sum.add(report(7, "misses", false));
        sum.add(report(7, "misses", true));
        sum.add(report(8, "visits", false));
        let met: Vec<(u64, u64)> = sum
            .unimplemented
            .iter()
            .map(|met| (met.rip, met.count))
            .collect();
        assert_eq!(met, [(7, 4), (8, 2)]);
        assert!(sum.stubs_abused);
        assert_eq!(sum.warnings, ["no breakpoints"]);
        sum.add(report(8, "worst_late", false));
        sum.add(report(8, "worst_late", false));
        let counters = [("misses", 10), ("visits", 5), ("worst_late", 5)];
        assert_eq!(sum.counters, counters);
    }
}
