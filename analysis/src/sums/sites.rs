//! Statistics by call site, and by transition from one call site to the next.
//!
//! A call site is a location in the program from which an MPI function is called: the frames of the call's stack, limited by the
//! trace and by the request. A transition is the time of a thread from the return of one call to the entry of its next: the
//! program's own work there. Names of functions and lines come from the caller, as files are not part of a trace. Computed by
//! `collect`, shown by `render`; used by `belljar trace sites`.

/// Collection of statistics, event by event.
mod collect;
/// Numbers for call sites.
pub(crate) mod number;
/// Statistics by call site of probes.
mod probes;
/// Statistics as text, JSON and CSV.
mod render;

use std::path::Path;

use belljar_archive::TraceReader;
use belljar_job::communicators;
use belljar_trace::{TraceError, TraceState};
use serde::Serialize;

use crate::dump::Filter;
use crate::dump::frames::{FrameNames, SiteFrame};
use crate::dump::probes::Records;
pub(crate) use collect::SiteCollector;
pub use probes::ProbeSiteStat;

/// Statistics by call site. Only calls by the program itself count. Times are virtual, in picoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CallSites {
    /// Most frames by which call sites are distinguished; 0 for a trace without frames.
    pub frames: u8,
    /// Time in all calls.
    pub total_ps: u64,
    /// Call sites, in descending order of total time.
    pub sites: Vec<SiteStat>,
    /// Transitions, in descending order of total time.
    pub transitions: Vec<TransitionStat>,
    /// Call sites of probes, in descending order of total time, then of calls; empty if the run had no probes.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub probes: Vec<ProbeSiteStat>,
    /// Calls at sites beyond the limit, including those of probes.
    pub beyond: u64,
    /// Transitions beyond the limit.
    pub transitions_beyond: u64,
}

/// The calls of one function from one call site.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SiteStat {
    /// Its number, from 1 in this order.
    pub site: u32,
    /// The function that is called.
    pub function: &'static str,
    /// The call's address, the address at which its function was called, and so on. Empty if the trace has no call sites.
    pub frames: Vec<SiteFrame>,
    /// Calls.
    pub calls: u64,
    /// Calls that returned, to which the times apply.
    pub returned: u64,
    /// Bytes that left the callers' buffers.
    pub sent: u64,
    /// Bytes that entered the callers' buffers.
    pub received: u64,
    /// Sum of times.
    pub total_ps: u64,
    /// Mean, rounded down.
    pub mean_ps: u64,
    /// Shortest.
    pub min_ps: u64,
    /// Longest.
    pub max_ps: u64,
    /// The part of the sum that was waiting.
    pub waiting_ps: u64,
}

/// The time of threads from calls at one site to calls at another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TransitionStat {
    /// The site of the call that returned.
    pub from: u32,
    /// The site of the call that was entered next.
    pub to: u32,
    /// The number of times.
    pub count: u64,
    /// Sum of times from the return to the entry.
    pub total_ps: u64,
    /// Mean, rounded down.
    pub mean_ps: u64,
    /// Shortest.
    pub min_ps: u64,
    /// Longest.
    pub max_ps: u64,
    /// Harmonic mean, in seconds; an interval counts as at least one cycle.
    pub harmonic_mean_s: f64,
}

impl CallSites {
    /// Names the functions of all frames in files.
    pub fn name(&mut self, mut names: FrameNames<'_>) {
        let frames = self.sites.iter_mut().flat_map(|site| &mut site.frames);
        let of_probes = self.probes.iter_mut().flat_map(|site| &mut site.frames);
        let frames = frames.chain(of_probes);
        frames.for_each(|frame| names.name(frame));
    }
}

/// Computes statistics by call site of the selected calls of the trace at `path`, distinguished by at most `frames` frames (all
/// frames if `None`), and returns whether it is complete. A transition counts if the call that ends it is selected.
///
/// # Errors
/// Returns [`TraceError`] if the file cannot be read as a trace.
pub fn call_sites(
    path: &Path,
    filter: &Filter,
    frames: Option<u8>,
) -> Result<(CallSites, TraceState), TraceError> {
    let communicators = communicators(path)?;
    let mut reader = TraceReader::open(path)?;
    let header = reader.header().clone();
    let recorded = reader.contents().frames;
    let frames = frames.map_or(recorded, |frames| frames.min(recorded));
    let mut collector = SiteCollector::new(&header, &communicators, frames);
    for event in reader.by_ref() {
        collector.observe(&event, filter.wants(&event, &header));
    }
    finished(collector, path, reader.state().clone(), filter, frames)
}

/// Completes the sites of a trace, after `collector` has seen all events, with those of the files next to the trace.
pub(crate) fn finished(
    collector: SiteCollector<'_>,
    path: &Path,
    mut state: TraceState,
    filter: &Filter,
    frames: u8,
) -> Result<(CallSites, TraceState), TraceError> {
    let mut sites = collector.finish();
    if let Some(mut records) = Records::beside(path)? {
        let (of_probes, beyond) = probes::sites(&mut records, filter, frames);
        sites.probes = of_probes;
        sites.beyond = sites.beyond.saturating_add(beyond);
        state = records.state(state);
    }
    Ok((sites, state))
}

#[cfg(test)]
mod tests;
