//! Jobs as their messages, which contend with messages of other jobs.
//!
//! Each traced run is calibrated once, on its own network. Then all jobs are replayed together on the machine's network, each
//! from its start time and hosts. Called by `simulate`.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use belljar_cli::mix::MessageModel;
use belljar_cluster::plan::infiniband::InfinibandPlan;
use belljar_cluster::scenario::Scenario;
use belljar_fabric::{Settings, Topology};
use belljar_networks::LinkLoad;
use belljar_program::Program;
use belljar_replay::{Contention, ContentionState, Costs, Joined, NetworkModel, NextEnd, Setting};
use belljar_sim::Frequency;
use belljar_simulate::{Job, JobProgress, Nanos, Next};

use super::play::Saved;
use super::traced::Runs;
use crate::command::predicting::replay::infiniband;
use crate::command::predicting::replay::job::{Calibrated, Model};

/// Maximum number of calls of a mix's jobs: all of them are in memory together.
const MOST_CALLS: usize = 1 << 26;

/// The runs of a mix's jobs, by number.
pub(super) type AllPlayed = BTreeMap<usize, Arc<Calibrated>>;

/// Nanoseconds from a program's first call to its last return, in the trace.
fn lasted(program: &Program) -> Nanos {
    let first = program.threads.iter().map(|thread| thread.start).min();
    let ends = program.threads.iter().filter_map(|it| it.traced().last());
    let last = ends.map(|(_, exit)| exit).max();
    last.unwrap_or(0)
        .saturating_sub(first.unwrap_or(0))
        .div_ceil(1000)
}

/// The runs of these jobs; runs in `known` are not read again. A job's duration is its whole program's, not only the time of its
/// messages.
pub(super) fn all_played(
    jobs: &mut [Job],
    runs: &Runs,
    known: &mut AllPlayed,
    has_cards: bool,
) -> Result<AllPlayed> {
    let mut all = AllPlayed::new();
    let mut calls = 0;
    for job in jobs {
        let Some(number) = job.run else {
            bail!(
                "job {}: at level message each job is a traced run: give it `traffic = {{ trace = \"DIR\" }}`",
                job.name
            );
        };
        let of = match known.get(&number) {
            Some(of) => Arc::clone(of),
            None => {
                let directory = runs.directory(number);
                let directory = directory.context("a job's run is not known")?;
                let of = Calibrated::on_processor(directory, runs.processor())?;
                known.entry(number).or_insert_with(|| Arc::new(of)).clone()
            }
        };
        check_cards(&of, runs, number, has_cards)?;
        let factor = job.estimate as f64 / job.duration.max(1) as f64;
        job.duration = lasted(&of.program).max(1);
        job.estimate = (job.duration as f64 * factor) as Nanos;
        let ranks = of.program.processes.len();
        if ranks != job.ranks as usize {
            bail!(
                "job {} has {} ranks, and its traced run {ranks}: leave `ranks` away at level message",
                job.name,
                job.ranks
            );
        }
        calls += of
            .program
            .threads
            .iter()
            .map(|it| it.calls.len())
            .sum::<usize>();
        if calls > MOST_CALLS {
            bail!(
                "the jobs make more than {MOST_CALLS} calls together: take fewer, or level matrix"
            );
        }
        all.insert(number, of);
    }
    let mut kinds = all.values().flat_map(|of| {
        let clocks = of.clocks.iter();
        clocks.map(|clock| (*clock, of.costs))
    });
    let first = kinds.next();
    if kinds.any(|other| Some(other) != first) {
        bail!(
            "the jobs' runs differ in their clock or MPI library: at level message all are of one kind"
        );
    }
    Ok(all)
}

/// Refuses a run over another kind of network than the machine's.
fn check_cards(of: &Calibrated, runs: &Runs, number: usize, has_cards: bool) -> Result<()> {
    let directory = runs.directory(number).unwrap_or(Path::new("."));
    match has_cards {
        true => of.with_cards(directory),
        false => of.without_cards(
            directory,
            "machines of `simulate` with a [network] and not [infiniband]",
        ),
    }
}

/// Warnings about the network of cards.
pub(super) fn warnings(cards: &InfinibandPlan) -> Vec<String> {
    let mut warnings = cards.warnings.clone();
    if cards.has_congestion_control() {
        warnings.push(
            "simulated machines have no congestion control: infiniband.congestion has no effect, and messages of congested links are uncertain".to_owned(),
        );
    }
    warnings
}

/// All jobs, joined into one program.
pub(super) fn joined(jobs: &[Job], played: &AllPlayed) -> Joined {
    let mut joined = Joined::default();
    let runs = jobs.iter().filter_map(|job| played.get(&job.run?));
    for of in runs {
        joined.add(&of.program, &of.calibration);
    }
    joined
}

/// The clock of each process of the joined jobs. The cost of a message is a number of cycles, which take the factor of
/// own work.
fn clocks(jobs: &[Job], played: &AllPlayed) -> Vec<Frequency> {
    let runs = jobs.iter().filter_map(|job| played.get(&job.run?));
    let of_run = |of: &Arc<Calibrated>| {
        let factor = of.rescaled.as_ref().map_or(1.0, |found| found.factor);
        let rate = |clock: &Frequency| (clock.as_hz() as f64 / factor).max(1.0) as u64;
        let each = of
            .clocks
            .iter()
            .filter_map(|clock| Frequency::from_hz(rate(clock)));
        each.collect::<Vec<_>>()
    };
    runs.flat_map(of_run).collect()
}

/// The setting of the replay.
pub(super) fn setting(
    jobs: &[Job],
    played: &AllPlayed,
    (topology, settings): (&Topology, &Settings),
    cards: Option<&(Scenario, InfinibandPlan)>,
    model: MessageModel,
) -> Result<Setting> {
    let of = played.values().next().context("there is no job")?;
    let (topology, settings) = (topology.clone(), settings.clone());
    let (network, costs) = match (cards, model) {
        (Some((scenario, plan)), _) => {
            let model = match model {
                MessageModel::Flow => Model::Flow,
                MessageModel::Packet => Model::Packet,
            };
            let rendezvous = Some(infiniband::rendezvous(scenario));
            let costs = Costs {
                rendezvous,
                ..of.costs
            };
            (infiniband::network(plan, model), costs)
        }
        (None, MessageModel::Flow) => (NetworkModel::Flow(topology, settings), of.costs),
        (None, MessageModel::Packet) => (NetworkModel::Packet(topology, settings), of.costs),
    };
    Ok(Setting {
        network,
        costs,
        clocks: match played.values().any(|of| of.rescaled.is_some()) {
            true => clocks(jobs, played),
            // All are equal.
            false => of.clocks.iter().take(1).copied().collect(),
        },
        hosts: Vec::new(),
        scale: 1.0,
    })
}

/// A job ends when all of its ranks have returned from their last calls.
pub(super) struct Messages<'p> {
    contention: Contention<'p>,
    is_kept: bool,
}

impl<'p> Messages<'p> {
    /// A contention of these jobs, before their starts.
    pub(super) fn new(joined: &'p Joined, setting: &'p Setting) -> Result<Self> {
        Ok(Self {
            contention: Contention::new(joined, setting)?,
            // Packets of cards have no saved state.
            is_kept: !matches!(setting.network, NetworkModel::Infiniband(_)),
        })
    }

    /// Loads of the links.
    pub(super) fn links(&self) -> Vec<LinkLoad> {
        self.contention.links()
    }

    /// Restores a state, which is untrusted.
    ///
    /// # Errors
    /// If it is not a state of these jobs on this network.
    pub(super) fn restore(&mut self, state: ContentionState) -> Result<()> {
        Ok(self.contention.restore(state)?)
    }
}

impl JobProgress for Messages<'_> {
    fn begin(&mut self, now: Nanos, job: usize, places: &[u32]) {
        self.contention.begin(now.saturating_mul(1000), job, places);
    }

    fn next_end(&mut self, until: Option<Nanos>) -> Next {
        let until = until.map(|until| until.saturating_mul(1000));
        match self.contention.next_end(until) {
            NextEnd::Job(time, job) => Next::End(time.div_ceil(1000), job),
            NextEnd::Nothing => Next::Nothing,
            NextEnd::NotYet => Next::Pause,
        }
    }
}

impl Saved for Messages<'_> {
    fn save(&self) -> Option<ContentionState> {
        self.contention.save()
    }

    fn is_kept(&self) -> bool {
        self.is_kept
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::predicting::replay::job::Rescaled;
    use belljar_program::Process;
    use belljar_replay::Calibration;
    use belljar_trace::Implementation;

    /// Two jobs of a run whose work takes half as long and one of a run with its own: messages of the first two take
    /// half the cycles, as on a clock of twice the rate.
    #[test]
    fn each_process_has_the_clock_of_its_rescaled_run() {
        let clock = Frequency::from_hz(2_000_000_000).unwrap();
        let process = Process {
            job: 0,
            rank: 0,
            node: 0,
        };
        let run = |ranks: usize, factor: Option<f64>| {
            let program = Program {
                processes: vec![process; ranks],
                ..Program::default()
            };
            Arc::new(Calibrated {
                calibration: Calibration::own(&program),
                program,
                costs: Costs::of(Implementation::Mpich),
                clocks: vec![clock; ranks],
                rescaled: factor.map(|factor| Rescaled {
                    factor,
                    modelled: true,
                    warnings: Vec::new(),
                }),
                has_cards: false,
            })
        };
        let played = AllPlayed::from([(0, run(2, Some(0.5))), (1, run(1, None))]);
        let job = |run| Job {
            name: "".into(),
            arrival: 0,
            ranks: 2,
            duration: 1,
            estimate: 1,
            priority: 0,
            traffic: Arc::default(),
            run: Some(run),
        };
        let found = clocks(&[job(0), job(1), job(0)], &played);
        let rates: Vec<u64> = found
            .iter()
            .map(|clock| clock.as_hz() / 1_000_000_000)
            .collect();
        assert_eq!(rates, [4, 4, 2, 4, 4]);
    }
}
