//! Sums over records of the user's probes.
//!
//! Times are virtual, of calls that returned; times of a recursive function overlap. Used by
//! [`statistics`](crate::statistics).

use std::collections::BTreeMap;
use std::io;

use belljar_sim::Time;
use serde::Serialize;

use super::Statistics;
use crate::dump::Filter;
use crate::dump::probes::Records;
use crate::table::{Table, count, counted, time};

/// The calls at a probe. Times are in picoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProbeStat {
    /// Its name.
    pub probe: String,
    /// Its file, as the scenario has it.
    pub file: String,
    /// All its calls.
    #[serde(flatten)]
    pub sum: ProbeSum,
    /// By rank, with unknown ranks first.
    pub ranks: Vec<ProbeRankStat>,
}

/// Calls of one rank.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProbeRankStat {
    /// The rank in `MPI_COMM_WORLD`, if known.
    pub rank: Option<u32>,
    /// Its calls.
    #[serde(flatten)]
    pub sum: ProbeSum,
}

/// Number of calls, and their times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ProbeSum {
    /// Calls recorded.
    pub calls: u64,
    /// Calls with an observed return, to which the following figures apply.
    pub returned: u64,
    /// Shortest.
    pub min_ps: u64,
    /// Mean, rounded down.
    pub mean_ps: u64,
    /// Longest.
    pub max_ps: u64,
    /// Sum.
    pub total_ps: u64,
}

impl ProbeSum {
    /// Adds a call, with its duration if it returned.
    pub(crate) fn add(&mut self, took: Option<u64>) {
        self.calls += 1;
        let Some(took) = took else {
            return;
        };
        self.min_ps = match self.returned {
            0 => took,
            _ => self.min_ps.min(took),
        };
        self.returned += 1;
        self.max_ps = self.max_ps.max(took);
        self.total_ps = self.total_ps.saturating_add(took);
        self.mean_ps = self.total_ps / self.returned;
    }
}

impl ProbeStat {
    /// Returns sums over the selected records, for each probe in the order of the scenario.
    pub(crate) fn of(records: &mut Records, filter: &Filter) -> Vec<Self> {
        let header = records.header().clone();
        let mut sums: Vec<BTreeMap<Option<u32>, ProbeSum>> = Vec::new();
        sums.resize_with(header.probes.len(), BTreeMap::new);
        while let Some((record, probe)) = records.next_before(Time::MAX) {
            if !filter.wants_record(&record, probe, &header.trace) {
                continue;
            }
            let frequency = header.trace.frequency(record.node);
            let entry = frequency.time_of(record.entry);
            let took = record
                .exit
                .map(|exit| frequency.time_of(exit).since(entry).as_ps());
            if let Some(ranks) = sums.get_mut(record.probe as usize) {
                ranks.entry(record.rank).or_default().add(took);
            }
        }
        let both = header.probes.into_iter().zip(sums);
        both.map(|(probe, ranks)| Self {
            probe: probe.name,
            file: probe.file,
            sum: together(ranks.values()),
            ranks: ranks
                .into_iter()
                .map(|(rank, sum)| ProbeRankStat { rank, sum })
                .collect(),
        })
        .collect()
    }
}

/// Returns the sum of sums.
fn together<'a>(sums: impl Iterator<Item = &'a ProbeSum>) -> ProbeSum {
    let mut all = ProbeSum::default();
    for sum in sums {
        if sum.returned > 0 {
            all.min_ps = match all.returned {
                0 => sum.min_ps,
                _ => all.min_ps.min(sum.min_ps),
            };
        }
        all.calls += sum.calls;
        all.returned += sum.returned;
        all.max_ps = all.max_ps.max(sum.max_ps);
        all.total_ps = all.total_ps.saturating_add(sum.total_ps);
    }
    all.mean_ps = all.total_ps.checked_div(all.returned).unwrap_or(0);
    all
}

impl Statistics {
    /// Writes the table of probes, if there are any.
    pub(super) fn write_probes(&self, out: &mut dyn io::Write) -> io::Result<()> {
        if self.probes.is_empty() {
            return Ok(());
        }
        writeln!(out, "Probes")?;
        let mut table = Table::new(["probe", "calls", "returned", "min", "mean", "max", "total"]);
        for stat in &self.probes {
            let sum = &stat.sum;
            let time = |ps| match sum.returned {
                0 => "-".to_owned(),
                _ => time(ps),
            };
            table.row(vec![
                stat.probe.clone(),
                count(sum.calls),
                count(sum.returned),
                time(sum.min_ps),
                time(sum.mean_ps),
                time(sum.max_ps),
                time(sum.total_ps),
            ]);
        }
        table.write(out)?;
        if self.unfollowed > 0 {
            let calls = counted(self.unfollowed, "call");
            writeln!(
                out,
                "  of {calls} the return was not followed: too many were open"
            )?;
        }
        writeln!(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_of_sums_are_those_of_all() {
        let (mut one, mut other, mut all) = Default::default();
        for (sum, took) in [(&mut one, Some(7)), (&mut other, Some(3))] {
            ProbeSum::add(sum, took);
            ProbeSum::add(&mut all, took);
        }
        one.add(None);
        all.add(None);
        let empty = ProbeSum::default();
        assert_eq!(together([&one, &empty, &other].into_iter()), all);
        assert_eq!((all.calls, all.returned, all.mean_ps), (3, 2, 5));
        assert_eq!((all.min_ps, all.max_ps, all.total_ps), (3, 7, 10));
    }
}
