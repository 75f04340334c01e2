//! What bounds a run, in a sentence each: computing, waiting, uneven work, the network.
//!
//! Each sentence has the numbers that it is made of, which are those of the analyses. Made for a [`Report`](crate::Report).

use belljar_analysis::{Statistics, time_words};
use serde::Serialize;

use crate::{Summary, Traced};

/// A sentence, with the section that says more.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Verdict {
    /// What it is about.
    pub(crate) about: &'static str,
    pub(crate) sentence: String,
    /// The element's name of the section.
    pub(crate) section: &'static str,
    /// Its share in thousandths, of which the page draws a bar.
    pub(crate) thousandths: u64,
}

fn thousandths(part: u64, of: u64) -> u64 {
    let share = u128::from(part) * 1000 / u128::from(of.max(1));
    share.min(1000) as u64
}

fn percent(thousandths: u64) -> String {
    format!("{}.{} %", thousandths / 10, thousandths % 10)
}

/// Sums over all ranks: outside MPI, in MPI.
fn sums(statistics: &Statistics) -> (u64, u64) {
    let ranks = statistics.ranks.iter();
    ranks.fold((0u64, 0u64), |(compute, mpi), rank| {
        (
            compute.saturating_add(rank.compute_ps),
            mpi.saturating_add(rank.mpi_ps),
        )
    })
}

/// All sentences.
pub(crate) fn verdicts(traced: &Traced, summary: Option<&Summary>) -> Vec<Verdict> {
    let (compute, mpi) = sums(&traced.statistics);
    let all = compute.saturating_add(mpi);
    let own = thousandths(compute, all);
    let path = &traced.path;
    let length = path.to_ps.saturating_sub(path.from_ps);
    let outside = path
        .ranks
        .iter()
        .fold(0u64, |sum, rank| sum.saturating_add(rank.compute_ps));
    let waiting = traced.waiting.ranks.iter();
    let waiting = waiting.fold(0u64, |sum, rank| sum.saturating_add(rank.waiting_ps));
    let mut verdicts = vec![
        Verdict {
            about: "Computing",
            sentence: format!(
                "Ranks spend {} of their time outside MPI; of the critical path, which lasts {}, {} is outside MPI.",
                percent(own),
                time_words(length),
                percent(thousandths(outside, length)),
            ),
            section: "calls",
            thousandths: own,
        },
        Verdict {
            about: "Waiting",
            sentence: wait_words(traced, waiting, mpi, all),
            section: "waiting",
            thousandths: thousandths(waiting, all),
        },
        imbalance(&traced.statistics),
        network(traced, summary, mpi.saturating_sub(waiting), all),
    ];
    let most = traced
        .statistics
        .functions
        .first()
        .filter(|most| most.total_ps > 0);
    if let Some(most) = most {
        let share = thousandths(most.total_ps, mpi);
        verdicts[0].sentence.push_str(&format!(
            " Of the time in MPI, {} takes {}.",
            most.function,
            percent(share)
        ));
    }
    verdicts
}

fn wait_words(traced: &Traced, waiting: u64, mpi: u64, all: u64) -> String {
    let most = traced
        .waiting
        .kinds
        .iter()
        .max_by_key(|kind| kind.waiting_ps);
    let cause = most
        .filter(|most| most.waiting_ps > 0)
        .map_or_else(String::new, |most| {
            format!(
                " Most of it, {}, is {}: {} calls.",
                percent(thousandths(most.waiting_ps, waiting)),
                most.kind.name(),
                most.calls
            )
        });
    format!(
        "{} of the time in MPI, which is {} of all time, is waiting for another rank.{cause}",
        percent(thousandths(waiting, mpi)),
        percent(thousandths(waiting, all)),
    )
}

fn imbalance(statistics: &Statistics) -> Verdict {
    let ranks = &statistics.ranks;
    let count = ranks.len().max(1) as u64;
    let mean = ranks
        .iter()
        .fold(0u64, |sum, rank| sum.saturating_add(rank.compute_ps))
        / count;
    let most = ranks.iter().max_by_key(|rank| rank.compute_ps);
    let beyond = most.map_or(0, |most| most.compute_ps.saturating_sub(mean));
    let share = thousandths(beyond, most.map_or(0, |most| most.compute_ps));
    Verdict {
        about: "Uneven work",
        sentence: match most {
            Some(most) => format!(
                "Rank {} computes longest, {}; the mean is {}. With even work it would take {} less.",
                most.rank,
                time_words(most.compute_ps),
                time_words(mean),
                percent(share),
            ),
            None => "No rank called MPI.".to_owned(),
        },
        section: "ranks",
        thousandths: share,
    }
}

fn network(traced: &Traced, summary: Option<&Summary>, moving: u64, all: u64) -> Verdict {
    let busiest = summary.and_then(|summary| {
        let links = summary.links.iter();
        let both = links.flat_map(|link| [(link, &link.up), (link, &link.down)]);
        both.max_by_key(|(_, side)| side.busy_ps)
    });
    let first = traced.statistics.ranks.len();
    let link = busiest.map_or_else(String::new, |(link, side)| {
        let length = traced.path.to_ps.saturating_sub(traced.path.from_ps);
        format!(
            " The busiest link, {}, carried something for {}, {} of the program's time; {} frames were dropped on it.",
            link.link,
            time_words(side.busy_ps),
            percent(thousandths(side.busy_ps, length)),
            side.drops,
        )
    });
    let share = thousandths(moving, all);
    Verdict {
        about: "Network",
        sentence: format!(
            "{} of all time of {first} ranks is in MPI without waiting: moving data, and what the library and the kernel do for it.{link}",
            percent(share)
        ),
        section: "links",
        thousandths: share,
    }
}
