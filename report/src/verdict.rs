//! The verdict on a run, in a sentence each: computing, waiting, uneven work, the network, start and end.
//!
//! Shares are of the main part: all ranks' time without the calls that start or end MPI, which have a separate sentence.
//! Each sentence contains the numbers that it is based on, which are those of the analyses. Created for a
//! [`Report`](crate::Report).

use belljar_analysis::{CriticalPath, SiteWait, Statistics, time_words};
use belljar_mpi::meaning_of;
use belljar_sim::figures::{counted, counted_as, percent_of_thousandths as percent};
use serde::Serialize;

use crate::{Summary, TraceAnalyses};

/// A sentence, with the section that has the details.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Verdict {
    /// The subject.
    pub(crate) about: &'static str,
    pub(crate) sentence: String,
    /// The name of the section's element.
    pub(crate) section: &'static str,
    /// Its share in thousandths, which the page draws as a bar.
    pub(crate) thousandths: u64,
}

/// Returns a share in thousandths, at most 1000.
fn thousandths(part: u64, of: u64) -> u64 {
    belljar_sim::figures::thousandths(part, of).min(1000)
}

/// Times of all ranks together, in picoseconds.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    /// Time outside MPI.
    compute: u64,
    /// Time in MPI, without start and end.
    mpi: u64,
    /// The part that is waiting.
    waiting: u64,
    /// Time in calls that start or end MPI.
    start_and_end: u64,
}

impl Sums {
    fn of(traced: &TraceAnalyses) -> Self {
        let mut sums = Self::default();
        for rank in &traced.statistics.ranks {
            let main = rank.mpi_ps.saturating_sub(rank.start_and_end_ps);
            sums.compute = sums.compute.saturating_add(rank.compute_ps);
            sums.mpi = sums.mpi.saturating_add(main);
            sums.start_and_end = sums.start_and_end.saturating_add(rank.start_and_end_ps);
        }
        let waiting = traced.waiting.ranks.iter().map(|rank| rank.waiting_ps);
        sums.waiting = waiting.fold(0, u64::saturating_add);
        sums
    }

    /// Returns the main part.
    fn main(self) -> u64 {
        self.compute.saturating_add(self.mpi)
    }
}

/// Returns all sentences.
pub(crate) fn verdicts(traced: &TraceAnalyses, summary: Option<&Summary>) -> Vec<Verdict> {
    let sums = Sums::of(traced);
    vec![
        computing(traced, sums),
        Verdict {
            about: "Waiting",
            sentence: wait_words(traced, sums),
            section: "waiting",
            thousandths: thousandths(sums.waiting, sums.main()),
        },
        imbalance(&traced.statistics),
        network(traced, summary, sums),
        start_and_end(sums),
    ]
}

fn computing(traced: &TraceAnalyses, sums: Sums) -> Verdict {
    let own = thousandths(sums.compute, sums.main());
    let path = &traced.path;
    let outside = path.ranks.iter().map(|rank| rank.compute_ps);
    let outside = outside.fold(0u64, u64::saturating_add);
    let length = length(path).saturating_sub(path.before_ps);
    let length = length.saturating_sub(path.start_and_end_ps);
    let mut sentence = format!(
        "Ranks spend {} of their time between start and end of MPI outside MPI; of the critical path there, which lasts {}, {} is outside MPI.",
        percent(own),
        time_words(length),
        percent(thousandths(outside.saturating_sub(path.before_ps), length)),
    );
    let functions = traced.statistics.functions.iter();
    let mut functions = functions.filter(|own| !is_boundary(own.function) && own.total_ps > 0);
    if let Some(most) = functions.next() {
        let share = thousandths(most.total_ps, sums.mpi);
        let words = format!(
            " Of the time in MPI, {} takes {}.",
            most.function,
            percent(share)
        );
        sentence.push_str(&words);
    }
    if let Some(efficiency) = &traced.statistics.efficiency
        && let (Some(parallel), Some(balance), Some(communication)) = (
            efficiency.parallel,
            efficiency.load_balance,
            efficiency.communication,
        )
    {
        let words = |share: f64| percent((share * 1000.0).round() as u64);
        let words = format!(
            " Parallel efficiency is {}: load balance {} times communication efficiency {}.",
            words(parallel),
            words(balance),
            words(communication)
        );
        sentence.push_str(&words);
    }
    Verdict {
        about: "Computing",
        sentence,
        section: "calls",
        thousandths: own,
    }
}

/// True for functions that start or end MPI.
fn is_boundary(function: &str) -> bool {
    meaning_of(function).is_some_and(|meaning| meaning.boundary().is_some())
}

/// Returns the length of the critical path, in picoseconds.
fn length(path: &CriticalPath) -> u64 {
    path.to_ps.saturating_sub(path.from_ps)
}

fn start_and_end(sums: Sums) -> Verdict {
    let all = sums.main().saturating_add(sums.start_and_end);
    let share = thousandths(sums.start_and_end, all);
    Verdict {
        about: "Start and end",
        sentence: format!(
            "{} of all ranks' time, {}, is in calls that start or end MPI, waiting in them included. A longer run has no more of it; the other shares are of the time between.",
            percent(share),
            time_words(sums.start_and_end),
        ),
        section: "calls",
        thousandths: share,
    }
}

fn wait_words(traced: &TraceAnalyses, sums: Sums) -> String {
    let most = traced
        .waiting
        .kinds
        .iter()
        .max_by_key(|kind| kind.waiting_ps);
    let cause = most
        .filter(|most| most.waiting_ps > 0)
        .map_or_else(String::new, |most| {
            format!(
                " Most of it, {}, is {}: {}.",
                percent(thousandths(most.waiting_ps, sums.waiting)),
                most.kind.name(),
                counted(most.calls, "call")
            )
        });
    let sites = traced.waiting.sites.iter();
    let mut sites = sites.filter(|site| !is_boundary(site.function) && site.waiting_ps > 0);
    let place = sites.next().and_then(place).unwrap_or_default();
    format!(
        "{} of the time in MPI, which is {} of all time between start and end of MPI, is waiting for another rank.{cause}{place}{}",
        percent(thousandths(sums.waiting, sums.mpi)),
        percent(thousandths(sums.waiting, sums.main())),
        root_cause(traced, sums.waiting).unwrap_or_default(),
    )
}

/// Describes the rank with the highest cost of delays.
fn root_cause(traced: &TraceAnalyses, waiting: u64) -> Option<String> {
    let delays = traced.waiting.delays.as_ref()?;
    let most = delays.ranks.iter().max_by_key(|rank| rank.total_ps)?;
    let share = thousandths(most.total_ps, waiting);
    (most.total_ps > 0).then(|| {
        format!(
            " The root cause of {} of it is rank {}: {} directly and {} along chains of waits.",
            percent(share),
            most.rank,
            time_words(most.direct_ps),
            time_words(most.indirect_ps),
        )
    })
}

/// Returns the source line of a call that waited, if known.
fn place(site: &SiteWait) -> Option<String> {
    let places = site.frames.iter().flat_map(|frame| &frame.places);
    let place = places.into_iter().find(|place| place.file.is_some())?;
    let file = place.file.as_deref()?;
    let file = file.rsplit('/').next().unwrap_or(file);
    let line = place
        .line
        .map_or_else(String::new, |line| format!(":{line}"));
    Some(format!(
        " The calls of {} at {file}{line} wait longest, {}.",
        site.function,
        time_words(site.waiting_ps)
    ))
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

fn network(traced: &TraceAnalyses, summary: Option<&Summary>, sums: Sums) -> Verdict {
    let busiest = summary.and_then(|summary| {
        let links = summary.links.iter();
        let both = links.flat_map(|link| [(link, &link.up), (link, &link.down)]);
        both.max_by_key(|(_, side)| side.busy_ps)
    });
    let link = busiest.map_or_else(String::new, |(link, side)| {
        format!(
            " The busiest link, {}, carried something for {}, {} of the program's time; {} dropped on it.",
            link.link,
            time_words(side.busy_ps),
            percent(thousandths(side.busy_ps, length(&traced.path))),
            counted_as(side.drops, "frame was", "frames were"),
        )
    });
    let share = thousandths(sums.mpi.saturating_sub(sums.waiting), sums.main());
    Verdict {
        about: "Network",
        sentence: format!(
            "{} of the time of {} between start and end of MPI is in MPI without waiting: moving data, and work of the library and the kernel for it.{link}",
            percent(share),
            counted(traced.statistics.ranks.len() as u64, "rank"),
        ),
        section: "links",
        thousandths: share,
    }
}
