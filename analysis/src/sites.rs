//! Statistics by call site, and by transition from one call site to the next.
//!
//! A call site is a place in the program from which an MPI function is called: the frames of the call's stack, as many as the
//! trace has or as are asked for. A transition is what a thread does from the return of one call to the
//! entry of its next: the program's own work there. Names of functions and lines come from whoever asks, as files are not a trace's
//! affair. Made by `collect`, shown by `render`; called by `belljar trace sites`.

/// Gathers statistics, event by event.
mod collect;
/// Numbers for call sites.
pub(crate) mod number;
/// By call site of probes.
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

/// Statistics by call site. Only calls that the program itself made count. Times are virtual, in picoseconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct CallSites {
    /// Frames that tell call sites apart, at most; 0 for a trace that has none.
    pub frames: u8,
    /// Time in all calls.
    pub total_ps: u64,
    /// Call sites, those with the largest total time first.
    pub sites: Vec<SiteStat>,
    /// Transitions, those with the largest total time first.
    pub transitions: Vec<TransitionStat>,
    /// Call sites of probes, those with the largest total time first, then with the most calls; empty where the run had none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub probes: Vec<ProbeSiteStat>,
    /// Calls at sites that are more than were kept, those of probes among them.
    pub beyond: u64,
    /// Transitions that are more than were kept.
    pub transitions_beyond: u64,
}

/// The calls of one function from one call site.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct SiteStat {
    /// Its number, from 1 in this order.
    pub site: u32,
    /// The function that is called.
    pub function: &'static str,
    /// Where it is called, and where that function is called, and so on. Empty where the trace does not tell.
    pub frames: Vec<SiteFrame>,
    /// Calls.
    pub calls: u64,
    /// Calls that returned; the times are over these.
    pub returned: u64,
    /// Bytes that went out of the callers' buffers.
    pub sent: u64,
    /// Bytes that came into them.
    pub received: u64,
    /// Sum of times.
    pub total_ps: u64,
    /// Mean, rounded down.
    pub mean_ps: u64,
    /// Shortest.
    pub min_ps: u64,
    /// Longest.
    pub max_ps: u64,
    /// How much of the sum was waiting for somebody.
    pub waiting_ps: u64,
}

/// What threads do from calls at one site to calls at another.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct TransitionStat {
    /// The site of the call that returned.
    pub from: u32,
    /// The site of the call that was entered next.
    pub to: u32,
    /// How many times.
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
    /// Names the places of all frames in files.
    pub fn name(&mut self, mut names: FrameNames<'_>) {
        let frames = self.sites.iter_mut().flat_map(|site| &mut site.frames);
        let of_probes = self.probes.iter_mut().flat_map(|site| &mut site.frames);
        let frames = frames.chain(of_probes);
        frames.for_each(|frame| names.name(frame));
    }
}

/// Statistics by call site of the wanted calls of the trace at `path`, told apart by at most `frames` frames (all
/// that it has without a number), and whether it is complete. A transition counts where the call
/// that ends it is wanted.
///
/// # Errors
/// [`TraceError`] when the file cannot be read as a trace.
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
    finished(collector, (path, reader.state().clone()), filter, frames)
}

/// The sites of a trace all of whose events `collector` saw, with those of what is beside the trace.
pub(crate) fn finished(
    collector: SiteCollector<'_>,
    (path, mut state): (&Path, TraceState),
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
