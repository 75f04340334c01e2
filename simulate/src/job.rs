//! Jobs: when they come, what they need, and what they send.
//!
//! Times are nanoseconds from the beginning of the simulation. Made by who reads a mix or a log of a workload; read by the simulation.

use std::sync::Arc;

use serde::Serialize;

/// Nanoseconds from the beginning of the simulation.
pub type Nanos = u64;

/// A job.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// What it is called; several may be called the same.
    pub name: Arc<str>,
    /// When it is submitted.
    pub arrival: Nanos,
    /// Its processes.
    pub ranks: u32,
    /// How long it runs.
    pub duration: Nanos,
    /// How long its user says that it runs, which is what schedulers know. It is ended then.
    pub estimate: Nanos,
    /// Of jobs that wait, those of higher priority are first.
    pub priority: i64,
    /// What its processes send while it runs.
    pub traffic: Arc<Traffic>,
    /// The traced run that it is like, by whoever knows it.
    pub run: Option<usize>,
}

/// What processes of a job send to each other: a constant flow while the job runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Traffic {
    /// Pairs of ranks, each once, and bits a second from the first to the second.
    pub flows: Vec<Flow>,
}

/// What goes from one process to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Flow {
    /// The sender's rank.
    pub from: u32,
    /// The receiver's.
    pub to: u32,
    /// Bits a second.
    pub rate: u64,
}

/// A pattern of communication that has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Pattern {
    /// Nothing is sent.
    Silent,
    /// Each rank sends to the next, the last one to the first.
    Ring,
    /// Each rank sends to its four neighbours in the most square grid, which is a torus.
    Stencil,
    /// Each rank sends to all others, to each as much.
    AllToAll,
    /// Each rank sends to rank XOR 1, 2, 4 and so on, as far as these are there: dimensions of a hypercube.
    Hypercube,
    /// Rank `i` of the most square grid's row `r` and column `c` sends to the rank of row `c` and column `r`, if the grid is square.
    Transpose,
}

impl Traffic {
    /// A pattern among so many ranks, each of which sends `rate` bits a second in all.
    pub fn of(pattern: Pattern, ranks: u32, rate: u64) -> Self {
        let flows = (0..ranks).flat_map(|from| {
            let mut others = partners(pattern, ranks, from);
            others.retain(|to| *to != from && *to < ranks);
            others.sort_unstable();
            others.dedup();
            let each = rate.checked_div(others.len() as u64).unwrap_or(0);
            others.into_iter().map(move |to| Flow {
                from,
                to,
                rate: each,
            })
        });
        Self {
            flows: flows.collect(),
        }
    }

    /// Bits a second of all pairs together.
    pub fn rate(&self) -> u64 {
        let rates = self.flows.iter().map(|flow| flow.rate);
        rates.fold(0, u64::saturating_add)
    }
}

/// To whom a rank sends.
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

/// Rows and columns of the most square grid of so many places.
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
        let traffic = Traffic::of(pattern, ranks, 120);
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
        // Two rows of three: above and below are the same.
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
