//! Finds the first instruction at which two runs differ.
//!
//! The hashes of two runs bound the instructions of a node between which they diverge. Both
//! scenarios are run again up to there, with more frequent samples of that node. This repeats
//! until one instruction remains, with equal states before it and different ones after it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use belljar_files::{Registration, read_input_text};
use belljar_sim::Time;
use tempfile::TempDir;

use crate::host::sandbox::{Reach, Sandbox};
use crate::observe::progress::{ProgressDisplay, Showing};
use crate::observe::watch::{NodeSample, Probe, STATE_FOLDER, StateLine, read_state_lines};
use crate::plan::Plan;
use crate::plan::error::PlanError;
use crate::results::run_directory::{RunDirectory, RunDirectoryError, SCENARIO_FILE};
use crate::run::coordinator::{Run, Setup};
use crate::run::error::RunError;
use crate::scenario::{Scenario, ScenarioError, of_run_directory};

/// Samples of a node in each repetition.
const LOOKS: u64 = 24;
/// Maximum number of listed pages of memory.
const PAGES: usize = 8;

/// Errors of comparing two runs.
#[derive(Debug, thiserror::Error)]
pub enum BisectError {
    /// A file of a run is missing.
    #[error("cannot read {path}: {reason}; give directories of runs with --state-hash")]
    Read {
        /// The file.
        path: PathBuf,
        /// The host's reason.
        reason: io::Error,
    },
    /// A file of hashes is invalid.
    #[error("{path}: {reason}; run the scenario again with --state-hash")]
    Format {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// The runs hashed their nodes at different instructions, or have different nodes.
    #[error(
        "node {node} has no hashes at the same instructions in both runs; make both with the same --state-hash N and number of nodes"
    )]
    Apart {
        /// The node.
        node: u32,
    },
    /// The repetitions differ at other points than the runs.
    #[error(
        "{one} and {two} were repeated, but unlike in their hashes, node {node} does not differ within {instructions} instructions; either one run only ended earlier, or a run was made by another version, image or kind of host"
    )]
    Unlike {
        /// The first run.
        one: PathBuf,
        /// The second run.
        two: PathBuf,
        /// The node.
        node: u32,
        /// Instructions retired at that point.
        instructions: u64,
    },
    /// The scenario in a run directory is not usable.
    #[error(transparent)]
    Scenario(#[from] ScenarioError),
    /// Its image or network is not usable.
    #[error(transparent)]
    Plan(#[from] PlanError),
    /// A repetition failed.
    #[error(transparent)]
    Run(#[from] RunError),
    /// A repetition cannot write its files.
    #[error(transparent)]
    Directory(#[from] RunDirectoryError),
    /// The host gives no temporary folder.
    #[error("cannot make a temporary folder: {0}")]
    Temporary(io::Error),
}

/// The first difference of two runs.
#[derive(Debug)]
pub struct Difference {
    /// The node.
    pub node: u32,
    /// Both states at the last equal boundary; `None` if they differ before the first
    /// instruction.
    pub before: Option<[NodeSample; 2]>,
    /// Both states one instruction later.
    pub after: [NodeSample; 2],
}

/// Bounds for the difference of a node, from both runs' hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Interval {
    node: u32,
    /// Instructions at the last equal states, if there are any.
    equal: Option<u64>,
    /// Instructions at the first differing states.
    differ: u64,
    /// The clocks at that point, in cycles.
    cycles: (u64, u64),
}

/// One of two runs, to be repeated.
struct Repeatable {
    directory: PathBuf,
    plan: Plan,
    lines: Vec<Vec<StateLine>>,
}

/// The folder for repetitions, and the sandbox of their guests.
struct Workspace {
    folder: TempDir,
    _registration: Registration,
    sandbox: Option<Sandbox>,
}

impl Workspace {
    /// Each repetition reads its image and its scenario, and may make its snapshot; the first
    /// one confines the process.
    fn new(sandbox: Option<&Sandbox>) -> Result<Self, BisectError> {
        let folder = tempfile::tempdir().map_err(BisectError::Temporary)?;
        let mut reach = Reach::nothing()
            .reading(Path::new("/"))
            .writing(folder.path())
            .renaming_in(folder.path().parent().unwrap_or(Path::new("/")));
        // If they are missing, the repetition reports it.
        for kept in ["snapshots", "files"] {
            if let Ok(kept) = belljar_images::user_folder(kept)
                && fs::create_dir_all(&kept).is_ok()
            {
                reach = reach.writing(&kept);
            }
        }
        let reaching = |sandbox: &Sandbox| sandbox.clone().reaching(reach).repeating();
        let sandbox = sandbox.map(reaching).transpose().map_err(RunError::from)?;
        Ok(Self {
            _registration: Registration::of_folder(folder.path()),
            folder,
            sandbox,
        })
    }
}

/// Compares the runs in two directories; `tell` receives descriptions of the steps. `None` if
/// all hashes are equal.
///
/// # Errors
/// See [`BisectError`].
pub fn bisect(
    directories: [&Path; 2],
    sandbox: Option<&Sandbox>,
    tell: &mut dyn FnMut(&str),
) -> Result<Option<Difference>, BisectError> {
    let runs = [load(directories[0])?, load(directories[1])?];
    let workspace = Workspace::new(sandbox)?;
    let mut intervals = Vec::new();
    let nodes = runs[0].lines.len().max(runs[1].lines.len());
    for node in 0..nodes {
        let of = |run: usize| runs[run].lines.get(node).map_or(&[][..], Vec::as_slice);
        intervals.extend(first_difference(node as u32, of(0), of(1))?);
    }
    let Some(first) = intervals.iter().map(|interval| interval.cycles.1).min() else {
        return Ok(None);
    };
    // An interval that begins after the end of another one cannot contain the first
    // difference.
    intervals.retain(|interval| interval.cycles.0 < first || interval.equal.is_none());
    let mut found: Option<Difference> = None;
    for interval in intervals {
        let difference = narrow(&runs, interval, &workspace, tell)?;
        let earlier = |other: &Difference| difference.time() < other.time();
        if found.as_ref().is_none_or(earlier) {
            found = Some(difference);
        }
    }
    Ok(found)
}

impl Difference {
    /// The virtual time of the first differing states.
    pub fn time(&self) -> Time {
        self.after[0].time.min(self.after[1].time)
    }
}

fn load(directory: &Path) -> Result<Repeatable, BisectError> {
    let read = |path: &Path| {
        read_input_text(path).map_err(|reason| BisectError::Read {
            path: path.to_owned(),
            reason,
        })
    };
    let path = directory.join(SCENARIO_FILE);
    let scenario = Scenario::parse(&path, &of_run_directory(read(&path)?), &[])?;
    let plan = Plan::resolve(&scenario, &path)?;
    let mut lines = Vec::new();
    for node in 0..plan.nodes {
        let path = directory.join(STATE_FOLDER).join(format!("node{node}.txt"));
        let text = read(&path)?;
        lines.push(read_state_lines(&text).map_err(|reason| BisectError::Format { path, reason })?);
    }
    Ok(Repeatable {
        directory: directory.to_owned(),
        plan,
        lines,
    })
}

/// The first difference among lines of the same instructions.
fn first_difference(
    node: u32,
    one: &[StateLine],
    two: &[StateLine],
) -> Result<Option<Interval>, BisectError> {
    let mut equal: Option<&StateLine> = None;
    for (one, two) in one.iter().zip(two) {
        if one.instructions != two.instructions {
            // One run ended here.
            break;
        }
        if one.hashes != two.hashes {
            return Ok(Some(Interval {
                node,
                equal: equal.map(|line| line.instructions),
                differ: one.instructions,
                cycles: (
                    equal.map_or(0, |line| line.cycles),
                    one.cycles.min(two.cycles),
                ),
            }));
        }
        equal = Some(one);
    }
    let ends = (one.last(), two.last());
    match (equal, ends) {
        (Some(equal), (Some(one), Some(two))) if one.instructions != two.instructions => {
            Ok(Some(Interval {
                node,
                equal: Some(equal.instructions),
                differ: one.instructions.min(two.instructions),
                cycles: (equal.cycles, one.cycles.min(two.cycles)),
            }))
        }
        (Some(_), _) => Ok(None),
        _ => Err(BisectError::Apart { node }),
    }
}

/// Repeats both runs until one instruction is left.
fn narrow(
    runs: &[Repeatable; 2],
    mut interval: Interval,
    workspace: &Workspace,
    tell: &mut dyn FnMut(&str),
) -> Result<Difference, BisectError> {
    loop {
        let low = interval.equal.unwrap_or(interval.differ);
        let width = interval.differ - low;
        let step = width.div_ceil(LOOKS).max(1);
        let mut points: Vec<u64> = (low..interval.differ).step_by(step as usize).collect();
        points.push(interval.differ);
        tell(&format!(
            "node {}: looking at {} places from instruction {low} to {}",
            interval.node,
            points.len(),
            interval.differ
        ));
        let samples = [
            repeat(&runs[0], interval.node, &points, &[], workspace)?,
            repeat(&runs[1], interval.node, &points, &[], workspace)?,
        ];
        let pairs = || samples[0].iter().zip(&samples[1]);
        let differ = pairs().position(|(one, two)| !one.agrees(two));
        let Some(differ) = differ else {
            return Err(unlike(runs, interval));
        };
        let at = |index: usize| [samples[0][index].clone(), samples[1][index].clone()];
        let before = differ.checked_sub(1).map(at);
        if before.is_none() && interval.equal.is_some() {
            return Err(unlike(runs, interval));
        }
        if step == 1 {
            let pages = differing_pages(&at(differ));
            let point = [samples[0][differ].instructions];
            let last = |run: &Repeatable| {
                let mut samples = repeat(run, interval.node, &point, &pages, workspace)?;
                samples.pop().ok_or_else(|| unlike(runs, interval))
            };
            return Ok(Difference {
                node: interval.node,
                before,
                after: [last(&runs[0])?, last(&runs[1])?],
            });
        }
        interval.equal = before.map(|[sample, _]| sample.instructions);
        interval.differ = samples[0][differ].instructions;
    }
}

fn unlike(runs: &[Repeatable; 2], interval: Interval) -> BisectError {
    BisectError::Unlike {
        one: runs[0].directory.clone(),
        two: runs[1].directory.clone(),
        node: interval.node,
        instructions: interval.differ,
    }
}

fn differing_pages([one, two]: &[NodeSample; 2]) -> Vec<u64> {
    let pairs = one.memory.iter().zip(&two.memory);
    let differing = pairs.filter(|(one, two)| one != two);
    differing.map(|((page, _), _)| *page).take(PAGES).collect()
}

/// Runs a plan until all samples of its node are taken.
fn repeat(
    run: &Repeatable,
    node: u32,
    points: &[u64],
    pages: &[u64],
    workspace: &Workspace,
) -> Result<Vec<NodeSample>, BisectError> {
    let folder = tempfile::tempdir_in(workspace.folder.path()).map_err(BisectError::Temporary)?;
    let sandbox = workspace.sandbox.as_ref();
    let directory = RunDirectory::create(Some(&folder.path().join("run")), "bisect")?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = threads.clamp(1, run.plan.nodes as usize);
    let mut repetition = Run::prepare(Setup {
        plan: &run.plan,
        directory: Some(&directory),
        threads,
        sandbox,
        checkpoints: None,
        exchange: None,
    })?;
    repetition.probe(
        node,
        Probe {
            points: points.iter().copied().collect(),
            pages: pages.to_vec(),
            samples: Vec::new(),
        },
    );
    let mut progress = ProgressDisplay::start(Showing::Nothing);
    repetition.go_in(sandbox, &AtomicBool::new(false), &mut progress)?;
    Ok(repetition.take_samples(node))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(hashes: &[(u64, &str)]) -> Vec<StateLine> {
        let line = |&(instructions, hash): &(u64, &str)| StateLine {
            instructions,
            cycles: instructions * 2,
            hashes: (hash.to_owned(), "same".to_owned()),
        };
        hashes.iter().map(line).collect()
    }

    fn interval(equal: Option<u64>, differ: u64) -> Option<Interval> {
        Some(Interval {
            node: 3,
            equal,
            differ,
            cycles: (equal.unwrap_or(0) * 2, differ * 2),
        })
    }

    #[test]
    fn the_first_difference_lies_between_the_last_equal_line_and_the_next() {
        let one = lines(&[(0, "a"), (10, "b"), (20, "c"), (25, "d")]);
        let find = |two: &[(u64, &str)]| first_difference(3, &one, &lines(two)).unwrap();
        assert_eq!(find(&[(0, "a"), (10, "b"), (20, "c"), (25, "d")]), None);
        assert_eq!(
            find(&[(0, "a"), (10, "x"), (20, "c"), (25, "d")]),
            interval(Some(0), 10)
        );
        assert_eq!(find(&[(0, "x"), (10, "x")]), interval(None, 0));
        // One run ends earlier, and is equal until then.
        assert_eq!(
            find(&[(0, "a"), (10, "b"), (18, "x")]),
            interval(Some(10), 18)
        );
        assert!(first_difference(3, &one, &[]).is_err());
    }
}
