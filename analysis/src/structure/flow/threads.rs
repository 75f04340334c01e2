//! Descriptions of sets of threads: `all 8 ranks`, `rank % 2 == 0`, `ranks 0-3, 7`.
//!
//! The descriptions are exact: they name these threads and no others, unless they end in `...`. Used for classes of
//! threads and by `loops`.

use std::collections::BTreeMap;

use belljar_job::Communicators;
use serde::Serialize;

use super::collect::ThreadKey;

/// A thread of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct FlowThread {
    /// Its process's MPI program.
    pub job: u32,
    /// Its process's rank in `MPI_COMM_WORLD`.
    pub rank: u32,
    /// Its number, in the order of first calls.
    pub thread: u32,
}

impl FlowThread {
    pub(crate) fn new(key: ThreadKey, rank: u32, communicators: &Communicators) -> Self {
        Self {
            job: communicators.job((key.0, key.1)).unwrap_or(0),
            rank,
            thread: key.2,
        }
    }
}

/// Describes threads.
pub(crate) fn words(threads: &[FlowThread], communicators: &Communicators) -> String {
    let mut groups: BTreeMap<(u32, u32), Vec<u32>> = BTreeMap::new();
    for thread in threads {
        let ranks = groups.entry((thread.job, thread.thread)).or_default();
        ranks.push(thread.rank);
    }
    let texts = groups.iter_mut().map(|((job, thread), ranks)| {
        ranks.sort_unstable();
        ranks.dedup();
        let mut text = rank_words(ranks, communicators.job_size(*job));
        if *thread > 0 {
            text = format!("thread {thread} of {text}");
        }
        if communicators.jobs() > 1 {
            text += &format!(" of job {job}");
        }
        text
    });
    texts.collect::<Vec<_>>().join("; ")
}

/// Describes ranks, which are sorted and distinct, out of `size`.
fn rank_words(ranks: &[u32], size: u32) -> String {
    const SHOWN: usize = 8;
    if let [rank] = ranks {
        return format!("rank {rank}");
    }
    if ranks.len() == size as usize {
        return format!("all {size} ranks");
    }
    let runs = runs(ranks);
    if runs.len() > 2
        && let Some(modulo) = (2..=64).find(|modulo| is_class(ranks, *modulo, size))
    {
        return format!("rank % {modulo} == {}", ranks[0]);
    }
    let shown = runs.iter().take(SHOWN).map(|(from, to)| match from == to {
        true => from.to_string(),
        false => format!("{from}-{to}"),
    });
    let mut text = format!("ranks {}", shown.collect::<Vec<_>>().join(", "));
    if runs.len() > SHOWN {
        text += &format!(", ... ({} ranks)", ranks.len());
    }
    text
}

/// Returns the runs of consecutive ranks.
fn runs(ranks: &[u32]) -> Vec<(u32, u32)> {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for rank in ranks {
        match runs.last_mut() {
            Some((_, to)) if rank - *to == 1 => *to = *rank,
            _ => runs.push((*rank, *rank)),
        }
    }
    runs
}

/// True if the ranks are all ranks below `size` with the same remainder.
fn is_class(ranks: &[u32], modulo: u32, size: u32) -> bool {
    let rest = ranks[0];
    let all = (rest..size).step_by(modulo as usize);
    rest < modulo && all.eq(ranks.iter().copied())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_told_shortly_and_exactly() {
        assert_eq!(rank_words(&[3], 8), "rank 3");
        assert_eq!(rank_words(&[0, 1, 2], 3), "all 3 ranks");
        assert_eq!(rank_words(&[0, 2, 4, 6], 8), "rank % 2 == 0");
        assert_eq!(rank_words(&[1, 4, 7], 9), "rank % 3 == 1");
        assert_eq!(rank_words(&[1, 4, 7], 12), "ranks 1, 4, 7");
        assert_eq!(rank_words(&[1, 2, 3, 9], 12), "ranks 1-3, 9");
        let squares: Vec<u32> = (0..12).map(|root| root * root).collect();
        let told = "ranks 0-1, 4, 9, 16, 25, 36, 49, 64, ... (12 ranks)";
        assert_eq!(rank_words(&squares, 200), told);
    }
}
