//! A report of a run, as one HTML file that needs no network.
//!
//! A [`Report`] takes results of analyses; [`TraceAnalyses`] computes them from a trace, together with its timeline. Everything is in the file: packed data, the
//! script that unpacks and draws it, and the style. Data of a run is never HTML. Missing data of a run is `None`, and its section says how to get it. This
//! crate depends neither on guests nor on the command line. Used by `belljar report`.

/// Congestion control of cards.
mod congestion;
/// Stacks of a profile as a tree.
mod flame;
/// Loads of links over time.
mod links;
/// Traffic matrices.
mod matrix;
/// Encoding of data for a page.
mod pack;
/// The page around the data.
mod page;
/// Calls over time.
mod timeline;
/// The verdict on a run's bounds.
mod verdict;

pub use congestion::{CardTotal, CongestionTotal};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use belljar_analysis::{
    Analyses, CallSites, CriticalPath, FrameNames, LoopStructure, Matrix, Statistics, Survey,
    TraceDiff, Waiting,
};
use belljar_collectives::Tables;
use belljar_profile::Named;
use belljar_trace::{TraceError, TraceState};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use pack::{Packed, PackedNumbers};
pub use timeline::Detail;
use timeline::{Timeline, TimelineBuilder};

/// Most call sites in a table.
const MOST_SITES: usize = 300;
/// Most classes of ranks whose loops are shown.
const MOST_CLASSES: usize = 16;
/// Most stretches of the critical path that are drawn, the longest ones.
const MOST_STRETCHES: usize = 200_000;

/// An error in writing a report.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The table of links' loads cannot be read.
    #[error("cannot read {}: {reason}; it is no table of a run's links", path.display())]
    Links {
        /// The file.
        path: PathBuf,
        /// The fault.
        reason: String,
    },
    /// The page cannot be written.
    #[error("cannot write the report: {0}")]
    Output(#[from] io::Error),
}

/// Totals of one direction of a link, as in `summary.json`.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LinkSide {
    /// Frames; `None` if unknown, as in a replay.
    pub frames: Option<u64>,
    /// Their bytes.
    pub bytes: u64,
    /// Frames lost at a full queue.
    pub drops: u64,
    /// The longest queue, in bytes; `None` if unknown.
    pub longest_queue: Option<u64>,
    /// The time for which it was busy, in picoseconds of virtual time.
    pub busy_ps: u64,
}

/// Totals of a link.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LinkTotal {
    /// Its name.
    pub link: String,
    /// Away from the end named first.
    pub up: LinkSide,
    /// Towards it.
    pub down: LinkSide,
}

/// A node.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct SummaryNode {
    /// Its number.
    pub node: u32,
    /// Its group, if nodes differ.
    pub group: Option<String>,
    /// Its InfiniBand card, if it has one.
    #[serde(skip_serializing)]
    pub infiniband: Option<CardTotal>,
}

/// The contents of `summary.json` that a report needs.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Summary {
    /// The reason why the run ended, in words.
    pub ending: String,
    /// Virtual time at its end, in picoseconds.
    pub virtual_time_ps: u64,
    /// MPI calls recorded.
    pub mpi_calls: u64,
    /// The means of tracing, if any.
    pub traced_by: Option<String>,
    /// The nodes.
    pub nodes: Vec<SummaryNode>,
    /// The load of links.
    pub links: Vec<LinkTotal>,
    /// Warnings about the results.
    pub warnings: Vec<String>,
}

/// An output of a run, or the end of it.
#[derive(Clone, Debug, Serialize)]
pub struct RunOutput {
    /// Its name.
    pub name: String,
    /// The text.
    pub text: String,
    /// Bytes omitted before it.
    pub left_out: u64,
}

/// Results of analyses of a trace.
#[derive(Debug)]
pub struct TraceAnalyses {
    timeline: Timeline,
    /// Sums by function and rank.
    pub statistics: Statistics,
    /// Waiting of ranks for each other.
    pub waiting: Waiting,
    /// The critical path.
    pub path: CriticalPath,
    /// Loops, if they could be found.
    pub loops: Option<LoopStructure>,
    /// By call site; `None` if the trace has no call sites.
    pub sites: Option<CallSites>,
    /// The fault of the trace, if it is not whole.
    pub incomplete: Option<String>,
}

/// Traffic matrices, with the subject of each.
pub type Matrices = Vec<(&'static str, Matrix)>;

/// All data of a run.
#[derive(Debug, Default)]
pub struct RunData {
    /// Its name.
    pub name: String,
    /// Facts about the run and its machine: names and values.
    pub facts: Vec<(String, String)>,
    /// Its scenario's text.
    pub scenario: String,
    /// Its totals.
    pub summary: Option<Summary>,
    /// Analyses of its trace.
    pub traced: Option<TraceAnalyses>,
    /// Traffic matrices, with the subject of each.
    pub matrices: Matrices,
    /// The file of its links' loads.
    pub links: Option<PathBuf>,
    /// Samples of its processors.
    pub profile: Option<Named>,
    /// Outputs to consoles and files.
    pub outputs: Vec<RunOutput>,
}

/// A report of a run, or of two side by side.
#[derive(Debug, Default)]
pub struct Report {
    /// The run.
    pub run: RunData,
    /// Another run.
    pub other: Option<RunData>,
    /// Differences between their traces.
    pub diff: Option<TraceDiff>,
    /// Keys and options with different values.
    pub changed: Vec<ChangedKey>,
}

/// A key of a scenario, or an option of a replay, with its value in both runs; `None` if unset.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ChangedKey {
    /// The key, with its tables.
    pub key: String,
    /// Its value in the first run.
    pub a: Option<String>,
    /// Its value in the second run.
    pub b: Option<String>,
}

impl Report {
    /// Writes the page.
    ///
    /// # Errors
    /// Returns [`ReportError`] if the table of links cannot be read, or if `out` fails.
    pub fn write(&self, out: &mut dyn Write) -> Result<(), ReportError> {
        let runs: Vec<&RunData> = std::iter::once(&self.run).chain(&self.other).collect();
        let mut elements: Vec<(String, Packed)> = Vec::new();
        let mut described = Vec::new();
        for (run, letter) in runs.into_iter().zip(["a", "b"]) {
            let mut add = |name: &str, packed| elements.push((format!("{letter}-{name}"), packed));
            described.push(run.describe(&mut add)?);
        }
        let data = json!({
            "version": env!("CARGO_PKG_VERSION"),
            "runs": described,
            "diff": self.diff,
            "changed": self.changed,
        });
        let data = Packed::of(data.to_string().as_bytes());
        page::write(out, |out| {
            data.write("data", out)?;
            let mut elements = elements.iter();
            elements.try_for_each(|(name, packed)| packed.write(name, out))
        })?;
        Ok(())
    }
}

impl RunData {
    /// Returns the run's data; large parts become separate elements.
    fn describe(&self, add: &mut dyn FnMut(&str, Packed)) -> Result<Value, ReportError> {
        let mut matrices = Vec::new();
        for (by, matrix) in &self.matrices {
            let (about, cells) = matrix::drawn(by, matrix);
            add(&format!("matrix-{}", matrices.len()), cells);
            matrices.push(about);
        }
        let loads = self.links.as_deref().map(links::read).transpose()?;
        let traced = self.traced.as_ref();
        Ok(json!({
            "name": self.name,
            "facts": self.facts,
            "scenario": self.scenario,
            "summary": self.summary,
            "traced": traced.map(|traced| traced.describe(self.summary.as_ref(), add)),
            "matrices": matrices,
            "loads": loads,
            "flame": self.profile.as_ref().map(|profile| json!({
                "every": profile.every,
                "points": profile.points,
                "busy": profile.busy,
                "tree": flame::tree(profile),
            })),
            "outputs": self.outputs,
        }))
    }
}

impl TraceAnalyses {
    /// Runs all analyses of the trace at `trace`, and computes its traffic matrices. Collective operations become messages by the library's `tables`,
    /// locations in programs are named by `names`, and `detail` selects the calls that are shown individually.
    ///
    /// # Errors
    /// Returns [`ReportError`] if the file cannot be read as a trace, or if there are no threads or no disk space for analysing it.
    pub fn read(
        trace: &Path,
        tables: Option<&Tables>,
        names: FrameNames<'_>,
        detail: Detail,
    ) -> Result<(Self, Matrices), ReportError> {
        let survey = Survey::read(trace)?;
        let mut making = TimelineBuilder::new(&survey, detail);
        let found = survey.analyses(tables, &mut |event| making.observe(event))?;
        let timeline = making.finish();
        Ok(Self::of(found, timeline, names))
    }

    fn of(found: Analyses, timeline: Timeline, mut names: FrameNames<'_>) -> (Self, Matrices) {
        let (mut waiting, mut path) = (found.waiting, found.path);
        // Only locations shown on the page are looked up.
        waiting.sites.truncate(MOST_SITES);
        path.sites.truncate(MOST_SITES);
        waiting.name(&mut names);
        path.name(&mut names);
        let mut sites = found.sites;
        if let Some(sites) = &mut sites {
            sites.name(names);
        }
        let others = [("message", found.messages), ("seen", found.seen)];
        let others = others.into_iter();
        let others = others.filter_map(|(by, matrix)| Some((by, matrix?)));
        let matrices = std::iter::once(("call", found.called)).chain(others);
        let own = Self {
            timeline,
            statistics: found.statistics,
            waiting,
            path,
            loops: Some(found.loops),
            sites,
            incomplete: match found.state {
                TraceState::Incomplete { reason, .. } => Some(reason),
                _ => None,
            },
        };
        (own, matrices.collect())
    }

    fn describe(&self, summary: Option<&Summary>, add: &mut dyn FnMut(&str, Packed)) -> Value {
        let timeline = &self.timeline;
        add("levels", timeline.levels.clone());
        add("sums", timeline.sums.clone());
        for (index, packed) in &timeline.pages {
            add(&format!("page-{}", index.page), packed.clone());
        }
        add("path", stretches(&self.path));
        // The matrix contains this.
        let statistics = Statistics {
            traffic: Vec::new(),
            ..self.statistics.clone()
        };
        let sites = self.sites.as_ref().map(|sites| {
            let shown = sites.sites.iter().take(MOST_SITES);
            json!({
                "frames": sites.frames,
                "total": sites.total_ps,
                "count": sites.sites.len(),
                "sites": shown.collect::<Vec<_>>(),
            })
        });
        let loops = self.loops.as_ref().map(|loops| {
            let classes = loops.classes.iter().take(MOST_CLASSES);
            json!({
                "count": loops.classes.len(),
                "classes": classes.collect::<Vec<_>>(),
                "balance": loops.balance,
            })
        });
        json!({
            "verdicts": verdict::verdicts(self, summary),
            "statistics": statistics,
            "waiting": self.waiting,
            "path": self.path,
            "loops": loops,
            "sites": sites,
            "incomplete": self.incomplete,
            "timeline": timeline.about,
        })
    }
}

/// Encodes the stretches of the critical path, in the order of time: jobs, ranks, begins and ends.
fn stretches(path: &CriticalPath) -> Packed {
    let mut longest = path.stretches.clone();
    longest.sort_by_key(|stretch| std::cmp::Reverse(stretch.to_ps.saturating_sub(stretch.from_ps)));
    longest.truncate(MOST_STRETCHES);
    longest.sort_by_key(|stretch| stretch.from_ps);
    let mut numbers = PackedNumbers::default();
    numbers.push(longest.len() as u64);
    let mut before = 0;
    for stretch in longest {
        numbers.push(stretch.job.into());
        numbers.push(stretch.rank.into());
        numbers.push(stretch.from_ps.saturating_sub(before));
        numbers.push(stretch.to_ps.saturating_sub(stretch.from_ps));
        before = stretch.from_ps;
    }
    numbers.packed()
}
