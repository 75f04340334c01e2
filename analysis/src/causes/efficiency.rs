//! Efficiencies of a parallel program, as products: parallel efficiency is load balance times communication efficiency, and that is
//! serialisation times transfer.
//!
//! They are the metrics of the POP Centre of Excellence (<https://pop-coe.eu/node/69>), after C. Rosas, J. Giménez and J. Labarta,
//! "Scalability prediction for fundamental performance factors" (2014), over the [main part](belljar_job::MainPart) of a job. Useful
//! computation of a rank is its time outside MPI, between its `MPI_Init` and its `MPI_Finalize`, on the thread that called MPI first.
//! The time on an ideal network is not in a trace: the caller computes it by a replay. Several runs also have a computation scaling and
//! a global efficiency. Used by `belljar trace stat`.

/// Efficiencies as text.
mod render;

use std::collections::{BTreeMap, BTreeSet};

use belljar_job::{MainPart, ProcessKey};
use belljar_mpi::Boundary;
use belljar_trace::{Event, TraceHeader};
use serde::Serialize;

/// Two runs are of one size if their sums differ by less than this share.
const SAME_SIZE: f64 = 0.15;

/// Efficiencies of one run's main part. Shares are from 0 to 1.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Efficiency {
    /// Processes with at least one call.
    pub processes: u64,
    /// The main part, in picoseconds.
    pub main_ps: u64,
    /// Useful computation of all processes.
    pub useful_ps: u64,
    /// The maximum useful computation of one process.
    pub most_useful_ps: u64,
    /// The main part on an ideal network, if requested.
    pub ideal_ps: Option<u64>,
    /// Mean useful computation over the maximum.
    pub load_balance: Option<f64>,
    /// The maximum useful computation over the main part.
    pub communication: Option<f64>,
    /// Mean useful computation over the main part: load balance times communication efficiency.
    pub parallel: Option<f64>,
    /// The maximum useful computation over the main part on an ideal network.
    pub serialisation: Option<f64>,
    /// The main part on an ideal network over the main part.
    pub transfer: Option<f64>,
    /// Comparison of problem sizes of several runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scaling: Option<Scaling>,
    /// Ratio of useful computation of the first run to this run's; may be above 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub computation_scaling: Option<f64>,
    /// Parallel efficiency times computation scaling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub global: Option<f64>,
    /// Reasons to doubt the figures.
    pub warnings: Vec<String>,
}

/// Growth of the problem with ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scaling {
    /// The total problem size is constant.
    Strong,
    /// The problem size per rank is constant.
    Weak,
}

impl Efficiency {
    /// Adds the main part on an ideal network, in picoseconds.
    pub fn on_ideal(&mut self, ideal_ps: u64) {
        self.ideal_ps = Some(ideal_ps);
        self.serialisation = share(self.most_useful_ps, ideal_ps);
        self.transfer = share(ideal_ps, self.main_ps);
        if ideal_ps > self.main_ps {
            self.warnings.push(
                "transfer efficiency is above 1: the ideal network takes longer than the run"
                    .to_owned(),
            );
        }
        if ideal_ps < self.most_useful_ps {
            self.warnings.push(
                "serialisation efficiency is above 1: the replay lacks calls of the trace"
                    .to_owned(),
            );
        }
    }

    /// Compares with the first of several runs.
    pub fn compare(&mut self, first: &Self, scaling: Scaling) {
        let scaled = match scaling {
            Scaling::Strong => share(first.useful_ps, self.useful_ps),
            Scaling::Weak => {
                let own = u128::from(self.useful_ps) * u128::from(first.processes);
                let other = u128::from(first.useful_ps) * u128::from(self.processes);
                (own > 0).then(|| rounded(other as f64 / own as f64))
            }
        };
        self.scaling = Some(scaling);
        self.computation_scaling = scaled;
        let both = self.parallel.zip(scaled);
        self.global = both.map(|(parallel, scaled)| rounded(parallel * scaled));
    }

    /// Returns the scaling of two runs with different numbers of ranks. It is strong if the total useful computation is equal, and weak
    /// if the useful computation of each rank is equal. `None` if neither or both hold.
    pub fn scaling(&self, other: &Self) -> Option<Scaling> {
        let same = |a: f64, b: f64| (a - b).abs() <= SAME_SIZE * a.max(b) && a > 0.0;
        let each = |own: &Self| own.useful_ps as f64 / own.processes.max(1) as f64;
        let strong = same(self.useful_ps as f64, other.useful_ps as f64);
        let weak = same(each(self), each(other));
        match (strong, weak) {
            (true, false) => Some(Scaling::Strong),
            (false, true) => Some(Scaling::Weak),
            _ => None,
        }
    }
}

fn share(part: u64, of: u64) -> Option<f64> {
    (of > 0).then(|| rounded(part as f64 / of as f64))
}

/// Rounds to six decimal places.
fn rounded(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

/// Times of one process.
#[derive(Clone, Copy, Debug)]
struct ProcessTimes {
    /// The first thread that called MPI.
    thread: u32,
    /// The return of that thread's last call, in picoseconds.
    left: u64,
    useful: u64,
    started: bool,
    ended: bool,
}

/// Collects efficiencies from all calls of a trace, in its order.
#[derive(Clone, Debug)]
pub(crate) struct EfficiencyCollector<'a> {
    header: &'a TraceHeader,
    main: MainPart<ProcessKey>,
    processes: BTreeMap<ProcessKey, ProcessTimes>,
    /// Processes with several threads that call MPI.
    threaded: BTreeSet<ProcessKey>,
}

impl<'a> EfficiencyCollector<'a> {
    pub(crate) fn new(header: &'a TraceHeader) -> Self {
        Self {
            header,
            main: MainPart::default(),
            processes: BTreeMap::new(),
            threaded: BTreeSet::new(),
        }
    }

    /// Adds a call of the program.
    pub(crate) fn observe(&mut self, event: &Event) {
        let frequency = self.header.frequency(event.node);
        let time = |cycles: u64| frequency.time_of(cycles).as_ps();
        let key = (event.node, event.process);
        let (entry, exit) = (time(event.entry), time(event.exit.unwrap_or(event.entry)));
        self.main.take(key, event.function, entry, exit);
        let process = self.processes.entry(key).or_insert(ProcessTimes {
            thread: event.thread,
            left: entry,
            useful: 0,
            started: false,
            ended: false,
        });
        if process.thread != event.thread {
            self.threaded.insert(key);
            return;
        }
        if !process.ended {
            let work = entry.saturating_sub(process.left);
            process.useful = process.useful.saturating_add(work);
        }
        if event.calls() > 1 && !process.ended {
            process.useful = process.useful.saturating_add(time(event.outside()));
        }
        process.left = process.left.max(exit);
        match event.meaning().boundary() {
            Some(Boundary::Start) if !process.started => {
                (process.started, process.useful) = (true, 0);
            }
            Some(Boundary::End) => process.ended = true,
            _ => {}
        }
    }

    /// Returns the efficiencies.
    pub(crate) fn finish(&self) -> Efficiency {
        let processes = self.processes.len() as u64;
        let each = self.processes.values().map(|process| process.useful);
        let useful_ps = each.clone().fold(0, u64::saturating_add);
        let most = each.max().unwrap_or(0);
        let main_ps = self.main.span();
        let mean = useful_ps as f64 / processes.max(1) as f64;
        let of_mean = |of: u64| (of > 0).then(|| rounded(mean / of as f64));
        let mut warnings = Vec::new();
        let starts = self.processes.values();
        let open = starts.filter(|it| !it.started || !it.ended).count() as u64;
        if open > 0 {
            warnings.push(format!(
                "{} here and {} by first and last calls",
                belljar_sim::figures::counted_as(
                    open,
                    "process does not start and end MPI",
                    "processes do not start and end MPI"
                ),
                belljar_sim::figures::plural(open, "counts", "count")
            ));
        }
        if !self.threaded.is_empty() {
            let count = self.threaded.len() as u64;
            warnings.push(format!(
                "{} MPI from several threads: computation is that of the first",
                belljar_sim::figures::counted_as(count, "process calls", "processes call")
            ));
        }
        if most > main_ps {
            warnings.push(
                "a process computes longer than the main part lasts: clocks do not agree"
                    .to_owned(),
            );
        }
        Efficiency {
            processes,
            main_ps,
            useful_ps,
            most_useful_ps: most,
            load_balance: of_mean(most),
            communication: share(most, main_ps),
            parallel: of_mean(main_ps),
            warnings,
            ..Efficiency::default()
        }
    }
}

#[cfg(test)]
mod tests;
