//! Errors of MPI use in one recorded run.
//!
//! Each check reads the calls as their processes made them, with the facts of `belljar-job` on matching, meetings and
//! completions. A finding names the calls of all sides with rank, arguments and call site. Checks are conservative: missing
//! knowledge is never an error, and a check that a trace does not allow is listed as not made. Used by `belljar trace check`
//! and `belljar check-mpi`.

/// Arguments that no call may have.
mod arguments;
/// Overlapping buffers of operations in progress.
mod buffers;
/// Passes each event to all checks.
mod collect;
/// Order and arguments of collective operations.
mod collectives;
/// Calls outside of epochs on windows.
mod epochs;
/// Findings, and their calls.
mod finding;
/// Errors that the MPI library reported.
mod library;
/// Calls before the start and after the end of MPI.
mod lifetime;
/// Data of matched messages.
mod messages;
/// Objects that are never freed.
mod objects;
/// Causal order of a run: message races and sends that need buffering.
mod order;
/// As text and as JSON.
mod render;
/// Requests from their start to their completion.
mod requests;
/// Data that calls describe: bytes and classes of datatypes.
mod signature;

use std::path::Path;

use belljar_archive::TraceReader;
use belljar_job::communicators;
use belljar_trace::{LostProcess, TraceError, TraceState};
use serde::Serialize;

use crate::causes::hang::{JobRank, hang};
use crate::dump::frames::{FrameNames, SiteFrame};

use buffers::accesses::Accesses;
use collect::CheckCollector;
pub use finding::{FindingKind, Severity};
pub use order::observed_run;

/// A call of a finding, or an access of a program to memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct CheckedCall {
    /// The process.
    #[serde(flatten)]
    pub of: JobRank,
    /// Its node.
    pub node: u32,
    /// The function; `load` or `store` for an access.
    pub function: &'static str,
    /// Its arguments, without addresses; the length of an access.
    pub arguments: String,
    /// Its entry, in picoseconds.
    pub entry_ps: u64,
    /// The call site, or the instruction with its callers; empty if the trace has none.
    pub site: Vec<SiteFrame>,
}

/// An error of MPI use.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Its severity.
    pub severity: Severity,
    /// Its kind.
    pub kind: FindingKind,
    /// A sentence on the first occurrence.
    pub text: String,
    /// The calls of the first occurrence, one for each side.
    pub calls: Vec<CheckedCall>,
    /// The number of occurrences at these call sites.
    pub count: u64,
}

/// A check that was not made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Unchecked {
    /// The check.
    pub check: &'static str,
    /// The reason.
    pub reason: String,
}

/// Knowledge of a run besides its trace.
#[derive(Clone, Debug, Default)]
pub struct RunFacts {
    /// The run's end, if it is known to be later than the last call, in picoseconds.
    pub end_ps: Option<u64>,
    /// The standard error of the workload, in which MPI libraries report errors.
    pub stderr: Option<String>,
    /// The reason that the trace lacks calls, if it does.
    pub missing: Option<String>,
    /// Processes that have ended, without those that a launcher ended after a failure.
    pub lost: Vec<LostProcess>,
    /// The end of the job, if the run recorded it.
    pub end: Option<JobEnd>,
}

/// How a job ended.
#[derive(Clone, Debug, Default)]
pub struct JobEnd {
    /// The exit code of the workload; `None` if it had not ended when the run did.
    pub exit_code: Option<i64>,
    /// All processes that had ended, unless the workload ended well.
    pub ended: Vec<LostProcess>,
}

/// The result of all checks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MpiCheck {
    /// Findings: errors, then warnings, then notes, in the order of their first occurrence.
    pub findings: Vec<Finding>,
    /// Checks that were not made.
    pub unchecked: Vec<Unchecked>,
    /// The number of calls that were checked.
    pub calls: u64,
    /// The number of processes.
    pub processes: u64,
    /// A sentence on a job that failed or did not end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

impl MpiCheck {
    /// True if a finding is an error.
    pub fn has_errors(&self) -> bool {
        let mut findings = self.findings.iter();
        findings.any(|finding| finding.severity == Severity::Error)
    }
}

/// Checks the trace at `path`. Names of call sites come from `names`.
///
/// # Errors
/// Returns [`TraceError`] if the file cannot be read as a trace.
pub fn check(
    path: &Path,
    run: &RunFacts,
    names: Option<FrameNames<'_>>,
) -> Result<(MpiCheck, TraceState), TraceError> {
    let communicators = communicators(path)?;
    let mut reader = TraceReader::open(path)?;
    let header = reader.header().clone();
    let accesses = Accesses::beside(path)?;
    let is_partial = run.missing.is_some();
    let mut collector = CheckCollector::new(&header, &communicators, accesses, is_partial);
    for event in reader.by_ref() {
        collector.observe(&event);
    }
    let state = reader.state().clone();
    let (hang, _) = hang(path, run.end_ps, &run.lost, None)?;
    let is_whole = state == TraceState::Complete;
    Ok((collector.finish(run, is_whole, &hang, names), state))
}

#[cfg(test)]
mod tests;
