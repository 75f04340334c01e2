//! `belljar trace sites`: statistics by call site, and by transition between call sites.
//!
//! Functions and lines get their names after the run, from the files of its image and workload. Without them, call
//! sites appear by file and address. Called by `trace`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use belljar_analysis::{CallSites, FrameNames, SitePlace};
use belljar_archive::TraceReader;
use belljar_cluster::plan::Plan;
use belljar_cluster::plan::nodes::code::workload_path;
use belljar_cluster::results::run_directory::SCENARIO_FILE;
use belljar_cluster::scenario::{Scenario, of_run_directory};
use belljar_files::read_input_text;
use belljar_symbols::{FileSource, KernelSymbols, Symbols};
use belljar_trace::TraceState;
use belljar_vmm::KernelImage;
use belljar_workload::GuestRoot;
use clap::Args;

use super::collected::warn;
use super::import::imported;
use super::{FilterArguments, filter, results, several, trace_file};

#[derive(Args)]
pub(crate) struct SitesArguments {
    /// Run directories or trace files; several appear side by side.
    #[arg(required = true, value_name = "TRACE")]
    traces: Vec<PathBuf>,
    /// Distinguish call sites by this number of frames.
    ///
    /// The default is all recorded frames.
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u8).range(1..))]
    frames: Option<u8>,
    /// Print transitions between call sites, too.
    ///
    /// With CSV, only transitions are printed.
    #[arg(long)]
    transitions: bool,
    /// Print sites and transitions as JSON.
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print CSV.
    #[arg(long)]
    csv: bool,
    #[command(flatten)]
    filter: FilterArguments,
}

/// `belljar trace sites`.
pub(super) fn sites(arguments: &SitesArguments) -> Result<ExitCode> {
    let of = |path: &Path| named_sites(arguments, path);
    let [trace] = arguments.traces.as_slice() else {
        if arguments.csv || arguments.transitions {
            bail!("--csv and --transitions are for one run at a time; leave out the others");
        }
        return several(&arguments.traces, arguments.json, of);
    };
    let path = trace_file(trace);
    warn(&path)?;
    let (sites, state) = of(&path)?;
    let transitions = arguments.transitions;
    results(&state, |out| match (arguments.json, arguments.csv) {
        (true, _) => sites.write_json(out),
        (_, true) => sites.write_csv(out, transitions),
        _ => sites.write(out, transitions),
    })
}

/// The call sites of a trace, with names.
fn named_sites(arguments: &SitesArguments, path: &Path) -> Result<(CallSites, TraceState)> {
    let filter = filter(&arguments.filter, path)?;
    let (mut sites, state) = belljar_analysis::call_sites(path, &filter, arguments.frames)?;
    if sites.frames == 0 && imported(path) {
        bail!(
            "the trace {} was imported from another tool's, and where calls were made is not read from such",
            path.display()
        );
    }
    if sites.frames == 0 {
        bail!(
            "the trace {} does not tell where calls were made: run with --set trace.frames=3",
            path.display()
        );
    }
    let files = files_of(path);
    sites.name(names(files.as_ref()));
    Ok((sites, state))
}

/// The files that a run's nodes have.
pub(crate) struct RunFiles {
    /// By images.
    roots: Vec<GuestRoot>,
    /// The first node of each group, with its kernel.
    kernels: Vec<(u32, PathBuf)>,
}

impl RunFiles {
    /// The files of the run whose scenario is at `path`.
    pub(crate) fn of(path: &Path) -> Result<Self> {
        let text = read_input_text(path)
            .with_context(|| format!("cannot read the run's scenario {}", path.display()))?;
        let plan = Plan::resolve(&Scenario::parse(path, &of_run_directory(text), &[])?, path)?;
        let roots = plan.images.iter().map(|of| {
            let mut root = GuestRoot::open(&of.image)?;
            for (name, content) in &plan.files {
                root.add(&workload_path(name), content);
            }
            Ok(root)
        });
        let kernels = plan.kinds().iter().map(|kind| {
            let kernel = plan.image_of_kind(kind).image.kernel.clone();
            (kind.first, kernel)
        });
        let mut kernels: Vec<(u32, PathBuf)> = kernels.collect();
        kernels.dedup_by(|next, before| next.1 == before.1);
        Ok(Self {
            roots: roots.collect::<Result<_>>()?,
            kernels,
        })
    }

    /// The functions of the nodes' kernels, each with the number of the first node that runs the kernel. The
    /// following nodes, up to the next entry, run the same kernel.
    pub(crate) fn kernel_symbols(&self) -> Result<Vec<(u32, Option<KernelSymbols>)>> {
        let each = self.kernels.iter().map(|(first, path)| {
            let kernel = KernelImage::open(path)?;
            Ok((*first, KernelSymbols::of(kernel.contents())))
        });
        each.collect()
    }
}

impl FileSource for RunFiles {
    fn find(&self, path: &str, fits: &mut dyn FnMut(&[u8]) -> bool) -> Option<Vec<u8>> {
        let mut found = self.roots.iter().filter_map(|root| root.read(path));
        found.find(|data| fits(data))
    }
}

/// The files of the run whose trace is at `trace`; a warning gives the reason if they are missing.
pub(super) fn files_of(trace: &Path) -> Option<RunFiles> {
    match RunFiles::of(&trace.with_file_name(SCENARIO_FILE)) {
        Ok(files) => Some(files),
        Err(error) => {
            warning!("functions and lines are not named: {error:#}");
            None
        }
    }
}

/// The same, if the trace has call sites.
///
/// # Errors
/// If it cannot be read.
pub(in crate::command) fn traced_files(trace: &Path) -> Result<Option<RunFiles>> {
    let sited = TraceReader::open(trace)?.contents().frames > 0;
    Ok(sited.then(|| files_of(trace)).flatten())
}

/// Names of return addresses, by these files.
pub(in crate::command) fn names(files: Option<&RunFiles>) -> FrameNames<'_> {
    let mut symbols = files.map(|files| Symbols::new(files));
    FrameNames::new(move |file, address| {
        let Some(symbols) = &mut symbols else {
            return Vec::new();
        };
        // The call is before the address that it returns to.
        let within = address.saturating_sub(1);
        let places = symbols.places(&file.path, &file.build_id, within);
        let places = places.into_iter().map(|place| SitePlace {
            function: place.function,
            file: place.file,
            line: place.line,
        });
        places.collect()
    })
}
