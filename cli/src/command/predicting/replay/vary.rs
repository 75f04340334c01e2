//! `belljar replay --vary`: replays of one run with all combinations of some values, on all processors, and their table.
//!
//! All combinations are checked before any is replayed, so that an error appears at once. Combinations share the program, by
//! algorithms of collective operations, and its calibration, by model and costs. Rows follow the order of combinations, not of
//! completion. Called by `replay`.

use std::io::{self, Write};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use belljar_analysis::{Table, time_words};
use belljar_cli::sweep::Sweep;
use belljar_files::write_file;
use belljar_replay::{Calibration, Outcome, ReplayError, Setting, calibrate, replay};
use clap::ValueEnum;
use serde::Serialize;

use super::PlayArguments;
use super::doubts::doubts;
use super::job::{Job, JobArguments, Model};
use super::placement::PlacementArguments;
use super::render::change;
use crate::command::output::show;
use crate::command::terminal::interrupt;
use crate::command::terminal::watch::{Watch, on_all_processors};

/// A combination: its values by key, and the resulting options.
struct Combination {
    values: Vec<(String, String)>,
    job: JobArguments,
    placement: PlacementArguments,
}

/// Outcome of a combination.
#[derive(Clone, Debug, Serialize)]
struct ReplayRow {
    values: Vec<(String, String)>,
    total_ps: u64,
    traced_ps: u64,
    /// Time of the program's main part.
    main_ps: u64,
    traced_main_ps: u64,
    /// Sum over all processes.
    mpi_ps: u64,
    waited_ps: u64,
    /// Frames dropped at full queues.
    dropped: u64,
    /// Calls that never returned.
    stuck: usize,
    /// Warnings about its figures.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    warnings: Vec<String>,
}

/// A job, program and calibration that several combinations share.
struct SharedJob<'a> {
    job: Job<'a>,
    calibration: Calibration,
}

/// `belljar replay --vary`.
pub(super) fn vary(job: &JobArguments, arguments: &PlayArguments) -> Result<ExitCode> {
    let sweep = Sweep::parse(&arguments.vary)
        .map_err(|error| anyhow::anyhow!("{}", error.to_string().replace("--set", "--vary")))?;
    let labels = sweep.labels().into_iter().enumerate();
    let all: Vec<Combination> = labels
        .map(|(index, labels)| {
            Combination::of(job, arguments, &sweep, index, labels)
                .with_context(|| format!("with {}", sweep.describe(index)))
        })
        .collect::<Result<_>>()?;
    let (shared, of) = shared(&all)?;
    let mut settings: Vec<(&SharedJob<'_>, Setting)> = Vec::new();
    let mut warnings: Vec<Vec<String>> = Vec::new();
    for ((index, combination), of) in all.iter().enumerate().zip(of) {
        let setting = shared[of].job.on(&combination.job, &combination.placement);
        let setting = setting.with_context(|| format!("with {}", sweep.describe(index)))?;
        let own = &shared[of].job;
        let network = own.network_warnings(&combination.job, &setting)?;
        warnings.push([&own.warnings[..], &network].concat());
        settings.push((&shared[of], setting));
    }
    let outcomes = play(&settings)?;
    let rows = all.iter().zip(warnings).zip(outcomes);
    let rows: Vec<ReplayRow> = rows
        .filter_map(|((of, warnings), played)| {
            let (outcome, doubts) = played?;
            Some(row(of, [warnings, doubts].concat(), &outcome))
        })
        .collect();
    if let Some(path) = &arguments.csv_file {
        write_file(path, csv(&sweep.keys, &rows)?)?;
    }
    show(|out| match arguments.json {
        true => {
            serde_json::to_writer_pretty(&mut *out, &rows)?;
            writeln!(out)
        }
        false => text(&sweep.keys, &rows, out),
    })?;
    if rows.len() < all.len() {
        let kept = format!("{} of {} were played", rows.len(), all.len());
        return Ok(interrupt::report(&kept));
    }
    Ok(match rows.iter().all(|row| row.stuck == 0) {
        true => ExitCode::SUCCESS,
        false => ExitCode::FAILURE,
    })
}

impl Combination {
    fn of(
        job: &JobArguments,
        arguments: &PlayArguments,
        sweep: &Sweep,
        index: usize,
        labels: Vec<String>,
    ) -> Result<Self> {
        let mut own = Self {
            values: Vec::new(),
            job: job.clone(),
            placement: arguments.placement.clone(),
        };
        let values = sweep.combinations.get(index).into_iter().flatten();
        for ((key, value), label) in sweep.keys.iter().zip(values).zip(labels) {
            own.take(key, value, &word(value))?;
            own.values.push((key.clone(), label));
        }
        Ok(own)
    }

    /// Applies the value of a key.
    fn take(&mut self, key: &str, value: &str, word: &str) -> Result<()> {
        let word = word.to_owned();
        match key {
            "collectives" => self.job.collectives = word,
            "processor" => self.job.processor = Some(word),
            "compute-scale" => {
                self.job.compute_scale = word.parse().context("compute-scale is a number")?;
            }
            "costs" => self.job.costs = Some(word.into()),
            "hostfile" => self.placement.hostfile = Some(word.into()),
            "mapping" => self.placement.mapping = Some(word),
            "model" => {
                self.job.model = Model::from_str(&word, true)
                    .map_err(|_| anyhow::anyhow!("no model is called {word}"))?;
            }
            "ranks-per-node" => {
                let each: u32 = word.parse().context("ranks-per-node is a number")?;
                self.placement.ranks_per_node = Some(each.max(1));
            }
            "topology" => self.job.topology = Some(word),
            // Inserted first, so that single keys of the network change the whole one.
            "network" | "infiniband" => self.job.set.insert(0, format!("{key}={value}")),
            key if key.contains('.') => self.job.set.push(format!("{key}={value}")),
            _ => bail!(
                "{key} does not vary: name a key of the scenario, such as network.latency, a whole network or infiniband, or one of collectives, compute-scale, costs, hostfile, \
                 mapping, model, processor, ranks-per-node, topology"
            ),
        }
        Ok(())
    }

    /// Combinations with equal keys share a program and its calibration.
    fn shares(&self) -> (Model, &str, Option<&std::path::Path>) {
        let job = &self.job;
        (job.model, &job.collectives, job.costs.as_deref())
    }
}

/// A TOML value as users write it: texts without quotes.
fn word(value: &str) -> String {
    let parsed = format!("value = {value}").parse::<toml::Table>();
    let text = parsed.ok().and_then(|mut table| table.remove("value"));
    match text {
        Some(toml::Value::String(text)) => text,
        _ => value.to_owned(),
    }
}

/// The shared parts of all combinations, and the index of each combination's part.
fn shared(all: &[Combination]) -> Result<(Vec<SharedJob<'_>>, Vec<usize>)> {
    let mut first: Vec<&Combination> = Vec::new();
    let mut of = Vec::new();
    for combination in all {
        let known = first
            .iter()
            .position(|other| other.shares() == combination.shares());
        of.push(known.unwrap_or(first.len()));
        if known.is_none() {
            first.push(combination);
        }
    }
    let shared = first.into_iter().map(|combination| {
        let job = combination.job.job()?;
        let calibration = calibrate(&job.program, &job.traced()?)?;
        Ok(SharedJob { job, calibration })
    });
    Ok((shared.collect::<Result<_>>()?, of))
}

/// The outcome of a combination, and the warnings about it.
type WithDoubts = (Outcome, Vec<String>);

/// Replays all on all processors, with warnings; `None` for interrupted replays.
fn play(settings: &[(&SharedJob<'_>, Setting)]) -> Result<Vec<Option<WithDoubts>>> {
    let count = settings.len();
    let watch = Watch::of("replays", Some(count as u64));
    let outcomes = on_all_processors(count, &watch, |index| {
        let (shared, setting) = &settings[index];
        let (program, calibration) = (&shared.job.program, &shared.calibration);
        let outcome = replay(program, calibration, setting, || watch.continues())?;
        let doubts = doubts(program, calibration, setting, true, &outcome);
        Ok::<_, ReplayError>((outcome, doubts))
    });
    drop(watch);
    let played = outcomes.into_iter().map(|outcome| {
        let outcome: Option<WithDoubts> = outcome.transpose()?;
        Ok(outcome.filter(|(outcome, _)| !outcome.broken_off))
    });
    played.collect()
}

fn row(combination: &Combination, warnings: Vec<String>, outcome: &Outcome) -> ReplayRow {
    let sum = |of: fn(&belljar_replay::RankOutcome) -> u64| {
        outcome.ranks.iter().map(of).fold(0, u64::saturating_add)
    };
    ReplayRow {
        values: combination.values.clone(),
        total_ps: outcome.total_ps,
        traced_ps: outcome.traced_ps,
        main_ps: outcome.main_ps,
        traced_main_ps: outcome.traced_main_ps,
        mpi_ps: sum(|rank| rank.mpi_ps),
        waited_ps: sum(|rank| rank.waited_ps),
        dropped: outcome.links.iter().map(|link| link.dropped).sum(),
        stuck: outcome.stuck.len(),
        warnings,
    }
}

/// Text for a terminal.
fn text(keys: &[String], rows: &[ReplayRow], out: &mut dyn Write) -> io::Result<()> {
    let heads = [
        "predicted",
        "change",
        "main part",
        "change",
        "in MPI",
        "waiting",
        "dropped",
        "stuck",
    ];
    let mut table = Table::new(keys.iter().map(String::as_str).chain(heads));
    for row in rows {
        let values = row.values.iter().map(|(_, value)| value.clone());
        let figures = [
            time_words(row.total_ps),
            change(row.traced_ps, row.total_ps),
            time_words(row.main_ps),
            change(row.traced_main_ps, row.main_ps),
            time_words(row.mpi_ps),
            time_words(row.waited_ps),
            row.dropped.to_string(),
            row.stuck.to_string(),
        ];
        table.row(values.chain(figures).collect());
    }
    table.write(out)?;
    let of_first = |of: fn(&ReplayRow) -> u64| time_words(rows.first().map_or(0, of));
    writeln!(
        out,
        "traced: {}, main part {}; in MPI and waiting are of all ranks together",
        of_first(|row| row.traced_ps),
        of_first(|row| row.traced_main_ps)
    )?;
    for (warning, of) in grouped(rows) {
        match of.len() == rows.len() {
            true => writeln!(out, "Warning: {warning}")?,
            false => writeln!(out, "Warning for {}: {warning}", of.join("; "))?,
        }
    }
    Ok(())
}

/// The warnings of all rows, each once, with the values of its rows.
fn grouped(rows: &[ReplayRow]) -> Vec<(&str, Vec<String>)> {
    let mut grouped: Vec<(&str, Vec<String>)> = Vec::new();
    for row in rows {
        let values = row.values.iter();
        let values: Vec<String> = values
            .map(|(key, value)| format!("{key}={value}"))
            .collect();
        for warning in &row.warnings {
            let known = grouped.iter().position(|(other, _)| other == warning);
            let index = known.unwrap_or(grouped.len());
            if known.is_none() {
                grouped.push((warning, Vec::new()));
            }
            grouped[index].1.push(values.join(", "));
        }
    }
    grouped
}

/// The table as comma-separated values.
fn csv(keys: &[String], rows: &[ReplayRow]) -> Result<Vec<u8>> {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let figures = [
        "total_ps",
        "traced_ps",
        "main_ps",
        "traced_main_ps",
        "mpi_ps",
        "waited_ps",
        "dropped",
        "stuck",
    ];
    writer.write_record(keys.iter().map(String::as_str).chain(figures))?;
    for row in rows {
        let values = row.values.iter().map(|(_, value)| value.clone());
        let figures = [
            row.total_ps,
            row.traced_ps,
            row.main_ps,
            row.traced_main_ps,
            row.mpi_ps,
            row.waited_ps,
            row.dropped,
        ];
        let figures = figures.map(|figure| figure.to_string());
        let stuck = row.stuck.to_string();
        writer.write_record(values.chain(figures).chain([stuck]))?;
    }
    Ok(writer.into_inner()?)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn single_keys_change_what_a_whole_network_says() {
        let mut combination = Combination {
            values: Vec::new(),
            job: JobArguments::over(Path::new("run"), Model::Packet),
            placement: PlacementArguments::default(),
        };
        let of = [
            ("network.latency", "\"2 us\""),
            ("network", "{ topology = \"star\" }"),
        ];
        for (key, value) in of {
            combination.take(key, value, &word(value)).unwrap();
        }
        assert_eq!(
            combination.job.set,
            [
                "network={ topology = \"star\" }",
                "network.latency=\"2 us\""
            ]
        );
        let error = combination.take("nodes", "{}", "{}").unwrap_err();
        assert!(error.to_string().contains("a whole network"), "{error}");
    }
}
