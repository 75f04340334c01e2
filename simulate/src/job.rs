//! Jobs: their arrivals, their needs, and their traffic.
//!
//! Times are nanoseconds from the beginning of the simulation. Created by readers of mixes and workload logs; read by the simulation.

use std::sync::Arc;

use serde::Serialize;

/// Nanoseconds from the beginning of the simulation.
pub type Nanos = u64;

/// A job.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Its name, which need not be unique.
    pub name: Arc<str>,
    /// The time of its submission.
    pub arrival: Nanos,
    /// The number of its processes.
    pub ranks: u32,
    /// Its duration.
    pub duration: Nanos,
    /// Its user's estimate of the duration, which schedulers use. The job is terminated then.
    pub estimate: Nanos,
    /// Waiting jobs with higher priority are first.
    pub priority: i64,
    /// The traffic of its processes while it runs.
    pub traffic: Arc<JobTraffic>,
    /// The index of a traced run that represents it, for callers with traced runs.
    pub run: Option<usize>,
}

/// The traffic between processes of a job: constant flows while the job runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct JobTraffic {
    /// Distinct pairs of ranks, and bits a second from the first to the second.
    pub flows: Vec<RankFlow>,
}

/// The flow from one process to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RankFlow {
    /// The sender's rank.
    pub from: u32,
    /// The receiver's.
    pub to: u32,
    /// Bits a second.
    pub rate: u64,
}

/// A named pattern of communication.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// No traffic.
    Silent,
    /// Each rank sends to the next, the last one to the first.
    Ring,
    /// Each rank sends to its four neighbours in the most square grid, which is a torus.
    Stencil,
    /// Each rank sends to all others, the same rate to each.
    AllToAll,
    /// Each rank sends to rank XOR 1, 2, 4 and so on, as far as these exist: dimensions of a hypercube.
    Hypercube,
    /// Rank `i` of the most square grid's row `r` and column `c` sends to the rank of row `c` and column `r`, if the grid is square.
    Transpose,
}

impl JobTraffic {
    /// Returns the traffic of a pattern among this many ranks, with `rate` bits a second sent by each in total.
    pub fn of(pattern: Pattern, ranks: u32, rate: u64) -> Self {
        let flows = (0..ranks).flat_map(|from| {
            let mut others = partners(pattern, ranks, from);
            others.retain(|to| *to != from && *to < ranks);
            others.sort_unstable();
            others.dedup();
            let each = rate.checked_div(others.len() as u64).unwrap_or(0);
            others.into_iter().map(move |to| RankFlow {
                from,
                to,
                rate: each,
            })
        });
        Self {
            flows: flows.collect(),
        }
    }

    /// Returns the bits a second of all pairs together.
    pub fn rate(&self) -> u64 {
        let rates = self.flows.iter().map(|flow| flow.rate);
        rates.fold(0, u64::saturating_add)
    }
}

/// Returns the receivers of a rank.
fn partners(pattern: Pattern, ranks: u32, from: u32) -> Vec<u32> {
    match pattern {
        Pattern::Silent => Vec::new(),
        Pattern::Ring => vec![(from + 1) % ranks.max(1)],
        Pattern::Stencil => {
            let [rows, columns] = grid(ranks);
            let (row, column) = (from / columns, from % columns);
            let at = |row: u32, column: u32| row % rows * columns + column % columns;
            vec![
                at(row + rows - 1, column),
                at(row + 1, column),
                at(row, column + columns - 1),
                at(row, column + 1),
            ]
        }
        Pattern::AllToAll => (0..ranks).collect(),
        Pattern::Hypercube => (0..32)
            .map(|bit| from ^ (1 << bit))
            .filter(|to| *to < ranks)
            .collect(),
        Pattern::Transpose => {
            let [rows, columns] = grid(ranks);
            match rows == columns {
                true => vec![from % columns * columns + from / columns],
                false => Vec::new(),
            }
        }
    }
}

/// Returns rows and columns of the most square grid with this many positions.
fn grid(places: u32) -> [u32; 2] {
    let mut rows = (f64::from(places).sqrt() as u32).max(1);
    while !places.is_multiple_of(rows) {
        rows -= 1;
    }
    [rows, (places / rows).max(1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flows(pattern: Pattern, ranks: u32) -> Vec<(u32, u32, u64)> {
        let traffic = JobTraffic::of(pattern, ranks, 120);
        let flows = traffic.flows.iter();
        flows.map(|flow| (flow.from, flow.to, flow.rate)).collect()
    }

    #[test]
    fn patterns_are_what_their_names_say() {
        assert_eq!(flows(Pattern::Silent, 4), []);
        assert_eq!(
            flows(Pattern::Ring, 3),
            [(0, 1, 120), (1, 2, 120), (2, 0, 120)]
        );
        // Two rows of three: the neighbours above and below are the same.
        assert_eq!(
            flows(Pattern::Stencil, 6)[..3],
            [(0, 1, 40), (0, 2, 40), (0, 3, 40)]
        );
        assert_eq!(flows(Pattern::AllToAll, 4).len(), 12);
        assert_eq!(
            flows(Pattern::Hypercube, 3),
            [(0, 1, 60), (0, 2, 60), (1, 0, 120), (2, 0, 120)]
        );
        assert_eq!(flows(Pattern::Transpose, 4), [(1, 2, 120), (2, 1, 120)]);
        assert_eq!(flows(Pattern::Transpose, 6), []);
        for pattern in [Pattern::Ring, Pattern::Stencil, Pattern::AllToAll] {
            assert_eq!(flows(pattern, 1), [], "{pattern:?}");
            assert_eq!(flows(pattern, 0), [], "{pattern:?}");
        }
    }
}
