//! Errors of virtual time, if the host's processor generates it.
//!
//! Sums of the kvm engine's counters of all nodes. They depend on the host, so they are in `host.json`;
//! the exact engine has no such errors.

use std::collections::BTreeMap;
use std::fmt;

use belljar_cpu::EngineReport;
use belljar_sim::Span;
use belljar_sim::figures::counted;
use serde::Serialize;

use crate::run::report::NodeReport;

/// The clocks' errors of all nodes together, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ClockSummary {
    /// Times that a node was stopped at the end of its turn.
    pub stops: u64,
    /// Mean time by which it had passed the end.
    pub overrun_ns: u64,
    /// Maximum time by which it had passed the end.
    pub worst_overrun_ns: u64,
    /// Maximum error of a stopped clock at its restart, as measured before the run.
    pub jitter_ns: u64,
    /// Time in which the host ran another program, hidden from guests.
    pub hidden_ns: u64,
    /// Time in which the host ran another program, visible to guests.
    pub seen_ns: u64,
}

impl ClockSummary {
    /// Sums of all nodes.
    pub(super) fn of(reports: &[NodeReport]) -> Self {
        let mut sum = BTreeMap::new();
        for (name, count) in reports.iter().flat_map(|report| &report.counters) {
            let known: &mut u64 = sum.entry(name.as_str()).or_default();
            *known = EngineReport::together(name, *known, *count);
        }
        Self::of_counters(&sum)
    }

    fn of_counters(counters: &BTreeMap<&str, u64>) -> Self {
        let count = |name| counters.get(name).copied().unwrap_or(0);
        let stops = count("stops");
        Self {
            stops,
            overrun_ns: count("overrun_ns") / stops.max(1),
            worst_overrun_ns: count("worst_overrun_ns"),
            jitter_ns: count("worst_jitter_ns"),
            hidden_ns: count("hidden_ns"),
            seen_ns: count("seen_ns"),
        }
    }
}

impl fmt::Display for ClockSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "clocks: stopped {}, {} too late on average, {} at worst; off by {} at most after a stop; the host was elsewhere for {} unnoticed and {} noticed",
            counted(self.stops, "time"),
            Span::from_ns(self.overrun_ns),
            Span::from_ns(self.worst_overrun_ns),
            Span::from_ns(self.jitter_ns),
            Span::from_ns(self.hidden_ns),
            Span::from_ns(self.seen_ns),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_engines_count_is_told_in_units() {
        let counters = [
            ("overrun_ns", 3_000),
            ("stops", 2),
            ("worst_overrun_ns", 2_500),
            ("seen_ns", 7_000_000),
        ];
        let clock = ClockSummary::of_counters(&counters.into());
        assert_eq!((clock.stops, clock.overrun_ns), (2, 1_500));
        let told = clock.to_string();
        assert!(
            told.contains("stopped 2 times, 1.500 us too late"),
            "{told}"
        );
        assert!(told.contains("2.500 us at worst"), "{told}");
        assert!(told.ends_with("unnoticed and 7.000 ms noticed"), "{told}");
    }
}
