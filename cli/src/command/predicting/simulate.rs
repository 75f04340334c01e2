//! `belljar simulate`: many jobs on one interconnect, all combinations of a mix's values.
//!
//! All combinations are checked before any is simulated, so that an error appears at once. They are simulated on all processors.
//! Rows follow the order of combinations, and do not depend on the number of processors. Called by `main`.

/// Result files of a simulation.
mod files;
/// Jobs as their messages.
mod messages;
/// The table as Apache Parquet.
mod parquet;
/// Simulation of one combination from its state to its end.
mod play;
/// Pictures of a simulation.
mod plots;
/// Continuation of interrupted simulations.
mod resume;
/// The table of combinations in text.
mod rows;
/// The state of a combination that is being simulated.
mod state;
/// Traffic of traced runs.
mod traced;

use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Mutex, PoisonError};

use anyhow::Result;
use belljar_cli::mix::{Combination, Combinations, Mix, TrafficLevel, combinations};
use belljar_cluster::plan::infiniband::InfinibandPlan;
use belljar_cluster::plan::network_warnings;
use belljar_cluster::scenario::Scenario;
use belljar_cluster::scenario::quantity::Duration;
use belljar_fabric::{Routing, Settings, Topology};
use belljar_files::Folder;
use belljar_simulate::{Job, Measures};
use clap::Args;
use serde::{Deserialize, Serialize};

use crate::command::output::show;
use crate::command::terminal::interrupt;
use crate::command::terminal::watch::{Watch, on_all_processors};
use messages::AllPlayed;
use play::{Outcome, play};
use resume::Results;
use rows::text;
use state::Keeper;
use traced::Runs;

#[derive(Args)]
pub(crate) struct SimulateArguments {
    /// Mix file.
    mix: PathBuf,
    /// New folder for results.
    ///
    /// It gets a folder for each combination, and the table of all.
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Continue an interrupted simulation.
    ///
    /// Finished combinations of the folder are kept, and others continue from their saved states.
    #[arg(long, requires = "out")]
    resume: bool,
    /// Time between saved states, by the host's clock.
    #[arg(long, value_name = "TIME", default_value = "60 s", requires = "out")]
    checkpoint_every: Duration,
    /// Processor of the traced runs' own work: a built-in name or a .toml file.
    ///
    /// It rescales the runs as in `belljar replay`; at level matrix the durations of jobs, with MPI calls as traced.
    #[arg(long, value_name = "NAME")]
    processor: Option<String>,
    /// Print the table as JSON.
    #[arg(long)]
    json: bool,
}

/// A combination's row.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct SimulationRow {
    values: Vec<(String, String)>,
    /// Links and ports of the network without traffic, and the rescaling of own work.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
    #[serde(flatten)]
    measures: Measures,
}

/// A combination that is to be simulated. Its jobs are made when its simulation begins, as the jobs of all combinations would not
/// fit in memory.
struct PendingCombination {
    values: Vec<(String, String)>,
    /// As in the combination's row.
    warnings: Vec<String>,
    mix: Mix,
    jobs: Vec<Job>,
    /// The jobs' runs, at the level of messages.
    played: AllPlayed,
    /// The hosts' InfiniBand cards, if they have them, with a scenario that has them.
    cards: Option<(Scenario, InfinibandPlan)>,
}

/// Jobs, and warnings about them.
type JobsAndWarnings = (Vec<Job>, Vec<String>);

/// A checked combination.
struct Checked {
    values: Vec<(String, String)>,
    warnings: Vec<String>,
    jobs: usize,
}

/// Number of jobs from which a combination is simulated alone.
const MANY_JOBS: usize = 1 << 20;

/// Reads combinations; files that they share are read once.
struct CombinationReader<'p> {
    path: &'p Path,
    all: Combinations,
    runs: Mutex<(Runs, AllPlayed)>,
    /// Held during the simulation of a combination of many jobs.
    alone: Mutex<()>,
}

/// `belljar simulate`.
pub(crate) fn simulate(arguments: &SimulateArguments) -> Result<ExitCode> {
    let path = &arguments.mix;
    let reading = CombinationReader::of(path, arguments.processor.as_deref())?;
    let all = reading.check()?;
    let results = arguments.out.as_deref();
    let results = results.map(|out| Results::open(out, path, arguments.resume));
    let results = results.transpose()?;
    let every = std::time::Duration::from_nanos(arguments.checkpoint_every.0.as_ps() / 1000);
    let rows = simulate_all(
        &reading,
        &all,
        results.as_ref().map(|folder| (folder, every)),
    )?;
    let keys: Vec<String> = all.first().map_or_else(Vec::new, |of| {
        of.values.iter().map(|(key, _)| key.clone()).collect()
    });
    if let Some(results) = &results {
        files::table(results.folder(), "results.csv", &keys, &rows)?;
        parquet::table(results.folder(), "results.parquet", &keys, &rows)?;
    }
    show(|out| match arguments.json {
        true => {
            serde_json::to_writer_pretty(&mut *out, &rows)?;
            writeln!(out)
        }
        false => text(&keys, &rows, out),
    })?;
    if rows.len() == all.len() {
        return Ok(ExitCode::SUCCESS);
    }
    let how = match results.is_some() {
        true => "; continue with the same command and --resume",
        false => "",
    };
    let kept = format!("{} of {} were simulated{how}", rows.len(), all.len());
    Ok(interrupt::report(&kept))
}

/// An error of a combination with the file, and with the combination's values if any vary.
fn described(error: anyhow::Error, path: &Path, values: &[(String, String)]) -> anyhow::Error {
    let values: Vec<String> = values
        .iter()
        .map(|(key, value)| format!("{key} = {value}"))
        .collect();
    let file = path.display().to_string();
    let is_named = error.to_string().starts_with(&file);
    match (is_named, values.is_empty()) {
        (true, true) => error,
        (true, false) => error.context(format!("with {}", values.join(", "))),
        (false, true) => error.context(file),
        (false, false) => error.context(format!("{file} with {}", values.join(", "))),
    }
}

/// Warnings by network: combinations share networks.
#[derive(Default)]
struct NetworkWarnings(BTreeMap<String, Vec<String>>);

impl NetworkWarnings {
    fn of(
        &mut self,
        mix: &Mix,
        (topology, settings): (&Topology, &Settings),
        cards: Option<&(Scenario, InfinibandPlan)>,
    ) -> Result<Vec<String>> {
        let mut settings = settings.clone();
        if mix.is_greedy() {
            // The routing chooses among all paths of minimum cost.
            settings.routing = Routing::Random;
        }
        if let Some((_, cards)) = cards {
            return Ok(messages::warnings(cards));
        }
        let key = format!("{} {:?} {}", mix.hosts, settings.routing, mix.network);
        if let Some(known) = self.0.get(&key) {
            return Ok(known.clone());
        }
        let warnings = network_warnings(topology, &settings)?;
        self.0.insert(key, warnings.clone());
        Ok(warnings)
    }
}

impl<'p> CombinationReader<'p> {
    fn of(path: &'p Path, processor: Option<&str>) -> Result<Self> {
        Ok(Self {
            path,
            all: combinations(path)?,
            runs: Mutex::new((Runs::on_processor(processor), AllPlayed::new())),
            alone: Mutex::new(()),
        })
    }

    /// Reads and checks all combinations, and prints their warnings.
    fn check(&self) -> Result<Vec<Checked>> {
        let mut networks = NetworkWarnings::default();
        let mut known = BTreeSet::new();
        let all = self.all.iter().map(|combination| {
            let values = combination.values.clone();
            let (wanted, said) = self
                .wanted(combination, &mut networks)
                .map_err(|error| described(error, self.path, &values))?;
            let warnings = said.iter().chain(&wanted.warnings);
            known.extend(
                warnings
                    .filter(|line| !known.contains(*line))
                    .cloned()
                    .inspect(|line| warning!("{line}"))
                    .collect::<Vec<_>>(),
            );
            Ok(Checked {
                values: wanted.values,
                warnings: wanted.warnings,
                jobs: wanted.jobs.len(),
            })
        });
        all.collect()
    }

    /// A combination with its jobs, read and checked, and warnings about its jobs.
    fn wanted(
        &self,
        combination: Combination,
        networks: &mut NetworkWarnings,
    ) -> Result<(PendingCombination, Vec<String>)> {
        let path = self.path;
        let mix = Mix::of(path, &combination)?;
        let (topology, settings) = mix.machine(path)?;
        mix.policies(&topology, &settings)?;
        let cards = mix.cards(path)?;
        let mut warnings = networks.of(&mix, (&topology, &settings), cards.as_ref())?;
        let ((jobs, said), played) = self.jobs(&mix)?;
        warnings.extend(self.rescaled(&jobs));
        let wanted = PendingCombination {
            played,
            warnings,
            values: combination.values,
            mix,
            jobs,
            cards,
        };
        Ok((wanted, said))
    }

    /// The jobs of a mix with warnings about them, and their runs.
    fn jobs(&self, mix: &Mix) -> Result<(JobsAndWarnings, AllPlayed)> {
        let mut known = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        let (runs, played) = &mut *known;
        let (mut jobs, said) = mix.jobs(self.path, runs)?;
        let played = match mix.level {
            TrafficLevel::Matrix => AllPlayed::new(),
            TrafficLevel::Message => {
                messages::all_played(&mut jobs, runs, played, mix.infiniband.is_some())?
            }
        };
        Ok(((jobs, said), played))
    }

    /// Warnings about the rescaled work of the jobs' runs.
    fn rescaled(&self, jobs: &[Job]) -> Vec<String> {
        let known = self.runs.lock().unwrap_or_else(PoisonError::into_inner);
        known
            .0
            .warnings(jobs.iter().filter_map(|job| job.run).collect())
    }

    /// The combination of this number, already checked.
    fn get(&self, index: usize, checked: &Checked) -> Result<PendingCombination> {
        let combination = self.all.get(index);
        let mix = Mix::of(self.path, &combination)?;
        let ((jobs, _), played) = self.jobs(&mix)?;
        Ok(PendingCombination {
            cards: mix.cards(self.path)?,
            played,
            warnings: checked.warnings.clone(),
            values: combination.values,
            mix,
            jobs,
        })
    }
}

/// Simulates all combinations on all processors, and saves their states periodically if there is a folder. Returns rows of
/// finished combinations.
fn simulate_all(
    reading: &CombinationReader<'_>,
    all: &[Checked],
    out: Option<(&Results, std::time::Duration)>,
) -> Result<Vec<SimulationRow>> {
    let watch = Watch::of("simulated", Some(all.len() as u64));
    let rows = on_all_processors(all.len(), &watch, |index| {
        let checked = &all[index];
        let alone = || reading.alone.lock().unwrap_or_else(PoisonError::into_inner);
        let _alone = (checked.jobs > MANY_JOBS).then(alone);
        if !watch.continues() {
            return Ok(None);
        }
        let wanted = reading.get(index, checked)?;
        match out {
            None => Ok(one(reading.path, &wanted, None, &watch)?.map(|(_, row)| row)),
            Some((out, every)) => in_folder(reading.path, index, &wanted, out, every, &watch),
        }
    });
    drop(watch);
    let rows: Vec<Option<SimulationRow>> = rows.into_iter().flatten().collect::<Result<_>>()?;
    Ok(rows.into_iter().flatten().collect())
}

/// Returns the row of a finished combination, or simulates it from its state and writes its results into its folder; `None` when
/// stopped.
fn in_folder(
    path: &Path,
    index: usize,
    wanted: &PendingCombination,
    out: &Results,
    every: std::time::Duration,
    watch: &Watch,
) -> Result<Option<SimulationRow>> {
    let folder = out.of(index)?;
    let (topology, settings) = wanted.mix.machine(path)?;
    let of = state::digest(
        out.mix(),
        &wanted.values,
        &topology,
        &settings,
        &wanted.jobs,
        &wanted.played,
    )?;
    let row = match Results::row(&folder, of, &wanted.values) {
        Some(row) => Some(row),
        None => {
            let mut keeper = Keeper::new(&folder, of, every);
            match one(path, wanted, Some(&mut keeper), watch)? {
                None => None,
                Some(((topology, outcome), row)) => {
                    leave(&folder, &topology, wanted, &outcome)?;
                    Results::keep(&folder, of, &row)?;
                    Some(row)
                }
            }
        }
    };
    if row.is_some() {
        state::forget(&folder)?;
    }
    Ok(row)
}

/// Simulates a combination. Returns its machine and outcome; `None` when stopped.
fn one(
    path: &Path,
    wanted: &PendingCombination,
    keeper: Option<&mut Keeper<'_>>,
    watch: &Watch,
) -> Result<Option<((Topology, Outcome), SimulationRow)>> {
    let (topology, settings) = wanted.mix.machine(path)?;
    let Some(outcome) = play(wanted, &topology, &settings, keeper, watch)? else {
        return Ok(None);
    };
    let measures = Measures::of(&outcome.0, &wanted.jobs, topology.hosts());
    let row = SimulationRow {
        values: wanted.values.clone(),
        warnings: wanted.warnings.clone(),
        measures,
    };
    Ok(Some(((topology, outcome), row)))
}

/// Writes the results of a combination into its folder.
fn leave(
    folder: &Folder,
    topology: &Topology,
    wanted: &PendingCombination,
    (simulated, links): &Outcome,
) -> Result<()> {
    let jobs = &wanted.jobs;
    files::write(folder, topology, jobs, simulated)?;
    plots::gantt(folder, topology.hosts(), jobs, simulated)?;
    plots::loads(folder, simulated)?;
    if wanted.mix.level == TrafficLevel::Message {
        files::carried(folder, links)?;
    }
    Ok(())
}
