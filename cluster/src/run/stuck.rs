//! Detection of jobs in which no rank can proceed, while their run is in progress.
//!
//! The watch looks at multiples of a span of virtual time. Once no MPI call has begun or ended in the span before, all nodes stand at the
//! time of the next look. The run ends there if nothing but a rank can wake any process, no other thread has run since the look before,
//! and the analysis of all calls finds every rank stuck. A process may be
//! woken by frames in the network, by delays of the scenario, by a running thread, and by a thread that waits with a timeout or whose
//! process has a timer; the run continues then. The guests' kernels give processes and waits, and nothing changes in the guests. The
//! coordinator asks the watch between rounds; a command supplies the analysis.

/// Processes and waits, from the guests' kernels.
mod kernels;
/// Objects of a process, by its dynamic linker.
mod linked;

use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::path::PathBuf;
use std::sync::Arc;

use belljar_sim::{Span, Time};
use belljar_trace::{LostProcess, TRACE_FILE};
use serde::{Deserialize, Serialize};

use crate::plan::Plan;
use crate::results::run_directory::RunDirectory;
use crate::run::ending::Closing;
use crate::run::error::RunError;
use crate::scenario::engine::Engine;
use kernels::Kernels;
pub(crate) use kernels::WaitingThreads;

/// Virtual time between two looks. Three without a call precede a verdict.
const EVERY: Span = Span::from_ms(200);
/// Largest trace that is analysed during its run.
pub(crate) const MOST_BYTES: u64 = 1 << 30;

/// The calls of a run so far, for the analysis.
#[derive(Debug)]
pub struct CallsSoFar<'a> {
    /// A trace that ends at the present time.
    pub trace: &'a Arc<File>,
    /// The path of the run's own trace, for errors.
    pub path: PathBuf,
    /// The present time.
    pub now: Time,
    /// MPI processes that have ended.
    pub lost: &'a [LostProcess],
}

/// The analysis of a run's calls so far.
pub trait CallAnalysis: Send {
    /// Returns a sentence on the ranks if none can proceed.
    fn stuck_ranks(&mut self, calls: &CallsSoFar<'_>) -> Option<String>;

    /// Returns the messages that wait, and the calls of all ranks, as text.
    ///
    /// # Errors
    /// The reason in words.
    fn queues(&mut self, calls: &CallsSoFar<'_>) -> Result<String, String>;
}

/// The state at the last look.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct LastLook {
    /// Threads besides those in calls, and how often each has run; `None` if one may act by itself.
    threads: Option<WaitingThreads>,
    /// True if the analysis has seen these calls.
    is_judged: bool,
}

/// The state of a watch, so that a resumed run looks at the same times with the same results.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct StuckState {
    next: Time,
    is_exact: bool,
    last: LastLook,
}

/// Looks for jobs in which no rank can proceed.
pub struct StuckWatch {
    analysis: Box<dyn CallAnalysis>,
    kernels: Kernels,
    trace: File,
    path: PathBuf,
    /// The copy of the trace that the analysis reads.
    copy: Option<File>,
    /// The time of the next look.
    next: Time,
    /// True if all nodes must stand at that time.
    is_exact: bool,
    last: LastLook,
    /// The end of the scenario's delays.
    delays_end: Time,
    /// False if stuck ranks do not end the run.
    ends_run: bool,
}

/// The parts of a watch that exist before the sandbox is active.
pub struct StuckWatchFiles {
    kernels: Kernels,
    copy: File,
}

impl StuckWatchFiles {
    /// Opens the files for a run of `plan`; `None` if its ranks cannot be watched, or a file cannot be opened.
    pub fn open(plan: &Plan) -> Option<Self> {
        let trace = &plan.trace;
        let is_whole = trace.functions.is_empty()
            && trace.from.is_none()
            && trace.until.is_none()
            && trace.sample.is_empty()
            && trace.collect.is_none();
        if !trace.enabled || !is_whole || plan.engine != Engine::Exact {
            return None;
        }
        Some(Self {
            kernels: Kernels::open(plan).ok()?,
            copy: tempfile::tempfile().ok()?,
        })
    }

    /// The watch of a run in `directory`.
    ///
    /// # Errors
    /// If the trace cannot be opened.
    pub fn watch(
        self,
        plan: &Plan,
        directory: &RunDirectory,
        analysis: Box<dyn CallAnalysis>,
    ) -> Result<StuckWatch, RunError> {
        Ok(StuckWatch {
            analysis,
            kernels: self.kernels,
            trace: directory.open_file(TRACE_FILE)?,
            path: directory.path().join(TRACE_FILE),
            copy: Some(self.copy),
            next: Time::ZERO,
            is_exact: false,
            last: LastLook::default(),
            delays_end: plan.delays.end(),
            ends_run: plan.stops_when_stuck,
        })
    }
}

impl StuckWatch {
    /// Its state.
    pub(crate) fn save(&self) -> StuckState {
        StuckState {
            next: self.next,
            is_exact: self.is_exact,
            last: self.last.clone(),
        }
    }

    /// Continues at a state of an earlier watch of the same run.
    pub(crate) fn load(&mut self, state: StuckState) {
        self.next = state.next;
        self.is_exact = state.is_exact;
        self.last = state.last;
    }

    /// The time of the next look.
    pub(crate) fn next(&self) -> Time {
        match self.ends_run {
            true => self.next,
            false => Time::MAX,
        }
    }

    /// The time that no node passes before the next look.
    pub(crate) fn hold(&self) -> Time {
        match self.is_exact {
            true => self.next(),
            false => Time::MAX,
        }
    }

    /// Sets the next look behind `now`; with `is_exact`, all nodes stand at its time.
    pub(crate) fn go_on(&mut self, now: Time, is_exact: bool, closing: &Closing) {
        let next = Self::last_look(now).as_ps().checked_add(EVERY.as_ps());
        self.next = next.map_or(Time::MAX, |next| closing.reachable(Time::from_ps(next)));
        self.is_exact = is_exact;
    }

    /// The time of the last look up to `now`.
    pub(crate) fn last_look(now: Time) -> Time {
        Time::from_ps(now.as_ps() / EVERY.as_ps() * EVERY.as_ps())
    }

    /// True if no call has begun or ended in the span before `look`, by the time `changed` at which one last did.
    pub(crate) fn is_quiet(&mut self, look: Time, changed: Time) -> bool {
        let is_quiet = changed + EVERY <= look;
        if !is_quiet {
            self.last = LastLook::default();
        }
        is_quiet
    }

    /// True once no thread besides those in calls has run between two looks, and the analysis has not seen the calls yet.
    pub(crate) fn is_still(&mut self, threads: Option<WaitingThreads>) -> bool {
        let is_same = threads.is_some() && threads == self.last.threads;
        self.last.threads = threads;
        is_same && !self.last.is_judged
    }

    /// True if delays of the scenario may still wake a process at `now`.
    pub(crate) fn has_delays(&self, now: Time) -> bool {
        self.delays_end >= now
    }

    /// The kernels of the run's nodes.
    pub(crate) fn kernels(&mut self) -> &mut Kernels {
        &mut self.kernels
    }

    /// The run's trace, and the file for its copy.
    pub(crate) fn take_files(&mut self) -> Option<(&File, File)> {
        // Threads with guests may not query metadata.
        let length = (&self.trace).seek(SeekFrom::End(0));
        let is_small = length.is_ok_and(|length| length <= MOST_BYTES);
        let copy = self.copy.take_if(|_| is_small)?;
        Some((&self.trace, copy))
    }

    /// Asks the analysis about the calls in `copy`, of a run at `now`.
    pub(crate) fn judge(&mut self, copy: File, now: Time, lost: &[LostProcess]) -> Option<String> {
        self.last.is_judged = true;
        self.analyse(copy, now, lost, |analysis, calls| {
            analysis.stuck_ranks(calls)
        })
    }

    /// The messages that wait, by the calls in `copy`.
    ///
    /// # Errors
    /// The reason in words.
    pub(crate) fn queues(
        &mut self,
        copy: File,
        now: Time,
        lost: &[LostProcess],
    ) -> Result<String, String> {
        self.analyse(copy, now, lost, |analysis, calls| analysis.queues(calls))
    }

    fn analyse<T>(
        &mut self,
        copy: File,
        now: Time,
        lost: &[LostProcess],
        work: impl FnOnce(&mut dyn CallAnalysis, &CallsSoFar<'_>) -> T,
    ) -> T {
        let trace = Arc::new(copy);
        let calls = CallsSoFar {
            trace: &trace,
            path: self.path.clone(),
            now,
            lost,
        };
        let result = work(&mut *self.analysis, &calls);
        self.copy = Arc::try_unwrap(trace).ok();
        result
    }
}
