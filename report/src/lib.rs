//! What is known of a run, as one HTML file that needs no network.
//!
//! A [`Report`] takes results of analyses; [`Traced`] has them made of a trace, and its timeline with them. Everything is in the file: packed data, which a
//! script unpacks and draws, the script itself, and its style. What comes from a run is data and never HTML. What a run has
//! not got is `None`, and its section says how to get it. Nothing here knows of guests, nor of the command line. Called by
//! `belljar report`.

/// Stacks of a profile as a tree.
mod flame;
/// Loads of links over time.
mod links;
/// Traffic matrices.
mod matrix;
/// Data as a page can hold it.
mod pack;
/// The page around the data.
mod page;
/// Who was in which call when.
mod timeline;
/// What bounds a run.
mod verdict;

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

use pack::{Numbers, Packed};
pub use timeline::Detail;
use timeline::{Making, Timeline};

/// Call sites of a table, at most.
const MOST_SITES: usize = 300;
/// Classes of ranks whose loops are shown, at most.
const MOST_CLASSES: usize = 16;
/// Stretches of the critical path that are drawn, at most: the longest ones.
const MOST_STRETCHES: usize = 200_000;

/// Why there is no report.
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
        /// What is wrong.
        reason: String,
    },
    /// The page cannot be written.
    #[error("cannot write the report: {0}")]
    Output(#[from] io::Error),
}

/// Totals of one direction of a link, as `summary.json` has them.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LinkSide {
    /// Frames; `None` where they are not known, as in a replay.
    pub frames: Option<u64>,
    /// Their bytes.
    pub bytes: u64,
    /// Frames that found the queue full.
    pub drops: u64,
    /// The longest queue, in bytes; `None` where it is not known.
    pub longest_queue: Option<u64>,
    /// For how long it was busy, in picoseconds of virtual time.
    pub busy_ps: u64,
}

/// Totals of a link.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct LinkTotal {
    /// Its name.
    pub link: String,
    /// Away from the end that is named first.
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
    /// Its group, where nodes differ.
    pub group: Option<String>,
}

/// What `summary.json` says, as far as a report needs it.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Summary {
    /// How the run ended, in words.
    pub ending: String,
    /// Virtual time at its end, in picoseconds.
    pub virtual_time_ps: u64,
    /// MPI calls recorded.
    pub mpi_calls: u64,
    /// By which means they were seen, where any were.
    pub traced_by: Option<String>,
    /// The nodes.
    pub nodes: Vec<SummaryNode>,
    /// What links carried.
    pub links: Vec<LinkTotal>,
    /// What to know before trusting the results.
    pub warnings: Vec<String>,
}

/// What a run wrote somewhere, or the end of it.
#[derive(Clone, Debug, Serialize)]
pub struct Output {
    /// Where.
    pub name: String,
    /// The text.
    pub text: String,
    /// Bytes before it that are left out.
    pub left_out: u64,
}

/// Results of analyses of a trace.
#[derive(Debug)]
pub struct Traced {
    timeline: Timeline,
    /// Sums by function and rank.
    pub statistics: Statistics,
    /// Who waited for whom.
    pub waiting: Waiting,
    /// The critical path.
    pub path: CriticalPath,
    /// Loops, where they could be found.
    pub loops: Option<LoopStructure>,
    /// By call site; `None` where the trace does not tell where calls were made.
    pub sites: Option<CallSites>,
    /// What is wrong with the trace, if it is not whole.
    pub incomplete: Option<String>,
}

/// Traffic, by what is counted in each.
pub type Matrices = Vec<(&'static str, Matrix)>;

/// Everything that is known of a run.
#[derive(Debug, Default)]
pub struct Run {
    /// Its name.
    pub name: String,
    /// What ran and on what: names and values.
    pub facts: Vec<(String, String)>,
    /// Its scenario's text.
    pub scenario: String,
    /// Its totals.
    pub summary: Option<Summary>,
    /// Of its trace.
    pub traced: Option<Traced>,
    /// Traffic, by what is counted in each.
    pub matrices: Matrices,
    /// The file of its links' loads.
    pub links: Option<PathBuf>,
    /// Samples of what processors did.
    pub profile: Option<Named>,
    /// What was written to consoles and files.
    pub outputs: Vec<Output>,
}

/// A report of a run, or of two side by side.
#[derive(Debug, Default)]
pub struct Report {
    /// The run.
    pub run: Run,
    /// Another one.
    pub other: Option<Run>,
    /// How their traces differ.
    pub diff: Option<TraceDiff>,
    /// Keys and options with other values.
    pub changed: Vec<ChangedKey>,
}

/// A key of a scenario, or an option of a replay, with its value in both runs; `None` where it is not set.
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
    /// [`ReportError`] when the table of links cannot be read, or `out` takes no more.
    pub fn write(&self, out: &mut dyn Write) -> Result<(), ReportError> {
        let runs: Vec<&Run> = std::iter::once(&self.run).chain(&self.other).collect();
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

impl Run {
    /// The run's data, of which what is large becomes elements of their own.
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

impl Traced {
    /// All analyses of the trace at `trace`, and its traffic, by what is counted. Collective operations become messages by the library's
    /// `tables`, places in programs are named by `names`, and `detail` says which calls are told one by one.
    ///
    /// # Errors
    /// [`ReportError`] when the file cannot be read as a trace, or the host has no threads or no room on its disk to analyse it.
    pub fn read(
        trace: &Path,
        tables: Option<&Tables>,
        names: FrameNames<'_>,
        detail: Detail,
    ) -> Result<(Self, Matrices), ReportError> {
        let survey = Survey::read(trace)?;
        let mut making = Making::new(&survey, detail);
        let found = survey.analyses(tables, &mut |event| making.observe(event))?;
        let timeline = making.finish();
        Ok(Self::of(found, timeline, names))
    }

    fn of(found: Analyses, timeline: Timeline, mut names: FrameNames<'_>) -> (Self, Matrices) {
        let (mut waiting, mut path) = (found.waiting, found.path);
        // Only places that the page shows are looked up.
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
        // The matrix has it.
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

/// Where the critical path is when, in the order of time: jobs, ranks, beginnings and ends.
fn stretches(path: &CriticalPath) -> Packed {
    let mut longest = path.stretches.clone();
    longest.sort_by_key(|stretch| std::cmp::Reverse(stretch.to_ps.saturating_sub(stretch.from_ps)));
    longest.truncate(MOST_STRETCHES);
    longest.sort_by_key(|stretch| stretch.from_ps);
    let mut numbers = Numbers::default();
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
