//! What an engine tells of a run.
//!
//! Nothing in it is part of a run's results: it says how an engine fared, and what to distrust.
//! Nodes add up what their processors' engines tell, and the summary has it.

use serde::{Deserialize, Serialize};

/// An instruction that the engine does not implement, met by the guest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unimplemented {
    /// Where it was met first.
    pub rip: u64,
    /// The bytes there, as far as they could be read.
    pub bytes: Vec<u8>,
    /// How often it was met.
    pub count: u64,
}

/// What the name of a counter begins with that is not a sum but a maximum.
const WORST: &str = "worst_";

/// What an engine tells of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EngineReport {
    /// Instructions met that raised #UD because they are not implemented.
    pub unimplemented: Vec<Unimplemented>,
    /// Stubs were made to count, because the guest abused that they do not.
    pub stubs_abused: bool,
    /// What to know before trusting the results, besides that.
    pub warnings: Vec<String>,
    /// The engine's own counters, by name. They add up, but for those whose names begin
    /// with `worst_`, of which the highest counts.
    pub counters: Vec<(&'static str, u64)>,
}

impl EngineReport {
    /// Two counts under the same name as one: the worst of what is called so, or the sum.
    pub fn together(name: &str, one: u64, other: u64) -> u64 {
        if name.starts_with(WORST) {
            one.max(other)
        } else {
            one + other
        }
    }

    /// Adds what another processor's engine tells.
    pub fn add(&mut self, other: Self) {
        for met in other.unimplemented {
            let known = self.unimplemented.iter_mut();
            match known.into_iter().find(|known| known.rip == met.rip) {
                Some(known) => known.count += met.count,
                None => self.unimplemented.push(met),
            }
        }
        self.stubs_abused |= other.stubs_abused;
        // Several processors may say the same.
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
