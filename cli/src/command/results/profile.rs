//! `belljar profile`: shows the functions that processors were running, by samples of a run with `[profile]`.
//!
//! Functions get their names after the run, from the files of its image and workload. Without them, addresses appear by
//! file. Called by `main`.

use std::fs::{self};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use belljar_analysis::{Comparable, Lines, Several, Shape, phase_spans, time_words};
use belljar_cluster::results::run_directory::SCENARIO_FILE;
use belljar_cluster::results::stream::PROFILE_FOLDER;
use belljar_files::OutputFile;
use belljar_profile::{Filter, Format, KernelFunctions, Named, Split, State, Tally};
use belljar_sim::figures::percent;
use belljar_symbols::Symbols;
use clap::{Args, ValueEnum};

use super::trace::{PhaseChoice, RunFiles, time, trace_file};
use crate::command::output::show;

#[derive(Args)]
#[command(
    after_help = "Example: belljar run scenarios/hpl-4.toml --set profile.every=100us --out hpl-profile\n         \
                        belljar profile hpl-profile --rank 0 --svg hpl.svg"
)]
pub(crate) struct ProfileArguments {
    /// Run directories; several give a table side by side.
    #[arg(required = true, value_name = "DIR")]
    directories: Vec<PathBuf>,
    /// Print folded stacks, a line for each, for other tools.
    #[arg(long, conflicts_with = "json")]
    folded: bool,
    /// Print JSON, with all functions.
    #[arg(long)]
    json: bool,
    /// Write the profile in the form that `pprof` reads.
    #[arg(long, value_name = "FILE")]
    pprof: Option<PathBuf>,
    /// Draw a flame graph into this file.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Keep stacks of different nodes, or ranks, apart.
    #[arg(long, value_name = "BY")]
    by: Option<By>,
    /// Select samples of this node; repeatable.
    #[arg(long, value_name = "NODE")]
    node: Vec<u32>,
    /// Select samples of this rank's process; repeatable.
    #[arg(long, value_name = "RANK")]
    rank: Vec<u32>,
    /// Select samples from this virtual time, such as `1.5 s`.
    #[arg(long, value_name = "TIME")]
    from: Option<String>,
    /// Select samples before this virtual time.
    #[arg(long, value_name = "TIME")]
    to: Option<String>,
    /// Select samples before, in or after the main loop.
    ///
    /// They are samples of ranks. `belljar trace loops` defines the main loop.
    #[arg(long, value_enum)]
    phase: Option<PhaseChoice>,
}

/// Criterion that keeps stacks apart.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum By {
    Node,
    Rank,
}

/// `belljar profile`.
pub(crate) fn profile(arguments: &ProfileArguments) -> Result<ExitCode> {
    let [directory] = arguments.directories.as_slice() else {
        return several(arguments);
    };
    let (named, state) = named(arguments, directory)?;
    for (path, format) in [
        (&arguments.pprof, Format::Pprof),
        (&arguments.svg, Format::Svg),
    ] {
        if let Some(path) = path {
            let written = write(&named, format, path);
            written.with_context(|| format!("cannot write {}", path.display()))?;
        }
    }
    let format = match (arguments.folded, arguments.json) {
        (true, _) => Format::Folded,
        (_, true) => Format::Json,
        _ => Format::Table,
    };
    show(|out| named.write(format, out))?;
    remark(state);
    Ok(ExitCode::SUCCESS)
}

/// The profiles of several runs, next to each other.
fn several(arguments: &ProfileArguments) -> Result<ExitCode> {
    if arguments.folded || arguments.pprof.is_some() || arguments.svg.is_some() {
        bail!("--folded, --pprof and --svg are for one run at a time; leave out the others");
    }
    let mut found = Vec::new();
    for directory in &arguments.directories {
        let (named, state) = named(arguments, directory)?;
        remark(state);
        found.push((directory.display().to_string(), Shares(named)));
    }
    let found = Several(found);
    show(|out| match arguments.json {
        true => found.write_json(out),
        false => found.write(out),
    })?;
    Ok(ExitCode::SUCCESS)
}

/// The selected samples of a run, with functions' names.
fn named(arguments: &ProfileArguments, directory: &Path) -> Result<(Named, State)> {
    let trace = trace_file(directory);
    let spans = arguments
        .phase
        .map(|choice| phase_spans(&trace, choice.phase()));
    let filter = Filter {
        spans: spans.transpose()?,
        nodes: arguments.node.clone(),
        ranks: arguments.rank.clone(),
        from: time("--from", arguments.from.as_deref())?.map(|time| time.as_ps()),
        to: time("--to", arguments.to.as_deref())?.map(|time| time.as_ps()),
    };
    let files = match RunFiles::of(&directory.join(SCENARIO_FILE)) {
        Ok(files) => Some(files),
        Err(error) => {
            warning!("functions are not named: {error:#}");
            None
        }
    };
    let (tally, state) = read(directory, tally(filter, files.as_ref()))?;
    let split = match arguments.by {
        None => Split::None,
        Some(By::Node) => Split::Node,
        Some(By::Rank) => Split::Rank,
    };
    let named = name(&tally, split, files.as_ref());
    let filtered = !arguments.node.is_empty()
        || !arguments.rank.is_empty()
        || arguments.from.is_some()
        || arguments.to.is_some()
        || arguments.phase.is_some();
    if filtered && named.samples() == 0 {
        bail!(
            "{}: no sample matches the filter (--node, --rank, --from, --to and --phase together)",
            directory.display()
        );
    }
    Ok((named, state))
}

/// Prints notes about an unfinished run.
fn remark(state: State) {
    if state == State::Cut {
        note!("note: the run is unfinished; these are its samples so far");
    }
}

/// The profile of one run of several.
struct Shares(Named);

impl Comparable for Shares {
    const SHAPES: &'static [Shape] = &[
        Shape::new("All samples", "figure", &[""]),
        Shape::new("Functions", "function", &["self", "time", "total"]),
    ];

    fn told(&self) -> Vec<Lines> {
        let profile = &self.0;
        let all = profile.samples();
        let share = |part: u64| percent(part, all);
        let time = |samples: u64| time_words(samples.saturating_mul(profile.every));
        let whole = [
            ("samples", all.to_string()),
            ("one each", time_words(profile.every)),
            ("time", time(all)),
        ];
        let whole = whole.map(|(name, value)| (name.to_owned(), vec![value]));
        let rows = profile.rows();
        let functions = rows.iter().map(|row| {
            let cells = vec![share(row.own), time(row.own), share(row.total)];
            (row.name.to_owned(), cells)
        });
        vec![whole.to_vec(), functions.collect()]
    }

    fn json(&self, out: &mut dyn Write) -> io::Result<()> {
        self.0.write(Format::Json, out)
    }
}

/// A file that exists after the end of a run only.
const SUMMARY: &str = "summary.json";

/// True if a run has a profile.
pub(in crate::command) fn is_there(directory: &Path) -> bool {
    directory.join(PROFILE_FOLDER).is_dir()
}

/// An empty tally for the samples that a filter selects, with the names of a run's kernels.
pub(in crate::command) fn tally(filter: Filter, files: Option<&RunFiles>) -> Tally {
    let kernels = kernels(files).into_iter();
    kernels.fold(Tally::new(filter), |tally, (first, kernel)| {
        tally.with_kernel(first, kernel)
    })
}

/// All profiles of a run.
pub(in crate::command) fn read(directory: &Path, mut tally: Tally) -> Result<(Tally, State)> {
    let folder = directory.join(PROFILE_FOLDER);
    if !folder.is_dir() {
        bail!(
            "{} has no profile: run with --set profile.every=100us",
            directory.display()
        );
    }
    let failed = || format!("cannot read {}", folder.display());
    let mut paths = Vec::new();
    for entry in fs::read_dir(&folder).with_context(failed)? {
        let path = entry.with_context(failed)?.path();
        if path.extension().is_some_and(|end| end == "bjp") {
            paths.push(path);
        }
    }
    paths.sort();
    let mut state = State::Whole;
    for path in paths {
        if belljar_profile::read(&path, &mut tally)? == State::Cut {
            if directory.join(SUMMARY).exists() {
                warning!(
                    "{} is damaged: it ends within a record, although the run has ended",
                    path.display()
                );
            }
            state = State::Cut;
        }
    }
    Ok((tally, state))
}

/// The functions of the kernels of nodes from these numbers on, as far as their names are known.
fn kernels(files: Option<&RunFiles>) -> Vec<(u32, KernelFunctions)> {
    let symbols = files.map_or_else(|| Ok(Vec::new()), RunFiles::kernel_symbols);
    let symbols = symbols.unwrap_or_else(|error| {
        warning!("the kernel's functions are not named: {error:#}");
        Vec::new()
    });
    let each = symbols.into_iter().map(|(first, symbols)| {
        let ranges = symbols.map(|symbols| symbols.ranges());
        (first, ranges.unwrap_or_default())
    });
    each.collect()
}

/// The stacks with names of functions, as far as the run's files exist.
pub(in crate::command) fn name(tally: &Tally, split: Split, files: Option<&RunFiles>) -> Named {
    let Some(files) = files else {
        return tally.name(split, |_, _| Vec::new());
    };
    let mut symbols = Symbols::new(files);
    tally.name(split, |file, address| {
        let places = symbols.places(&file.path, &file.build_id, address);
        places
            .into_iter()
            .filter_map(|place| place.function)
            .collect()
    })
}

fn write(named: &Named, format: Format, path: &Path) -> io::Result<()> {
    let mut file = OutputFile::create(path)?;
    named.write(format, &mut file)?;
    file.finish()
}
