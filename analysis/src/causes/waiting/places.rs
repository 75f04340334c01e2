//! Waiting by call site and by phase of the program.
//!
//! Each call has a label of its site and its phase, and sums are over labels. One pass over the trace, with known
//! communicators, therefore suffices for any combination. Phases need two earlier passes. Used by `belljar trace wait` and by
//! `diff`.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;

use belljar_archive::TraceReader;
use belljar_job::{Communicators, communicators};
use belljar_trace::{TraceError, TraceState};

use super::calls::LabelSum;
use super::delays::PlaceNames;
use super::{PhaseWait, SiteWait, WaitCollector, Waiting};
use crate::dump::Filter;
use crate::dump::frames::FrameNames;
use crate::structure::phases::ProgramPhase;
use crate::sums::sites::number::SiteNumbers;

/// Additional dimensions of the result.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitBy {
    /// Most frames by which sites are distinguished; `None` for all frames of the trace.
    pub frames: Option<u8>,
    /// True to add phases of the program.
    pub phases: bool,
    /// True to add the root causes of waits.
    pub delays: bool,
    /// True to add root causes by loop; needs `delays`.
    pub loops: bool,
}

/// Computes waiting times in the selected calls of the trace at `path`, and returns whether it is complete. All calls are
/// matched, selected or not.
///
/// # Errors
/// Returns [`TraceError`] if the file cannot be read as a trace.
pub fn waiting(
    path: &Path,
    filter: &Filter,
    by: WaitBy,
) -> Result<(Waiting, TraceState), TraceError> {
    let (mut waiting, state) = measured(path, &communicators(path)?, filter, by)?;
    waiting.sites.retain(|site| site.waited > 0);
    Ok((waiting, state))
}

/// Computes the same for a trace with these communicators, including sites without waits.
pub(crate) fn measured(
    path: &Path,
    communicators: &Communicators,
    filter: &Filter,
    by: WaitBy,
) -> Result<(Waiting, TraceState), TraceError> {
    let phases = by.phases.then(|| crate::phases(path)).transpose()?;
    let mut reader = TraceReader::open(path)?;
    let header = reader.header().clone();
    let recorded = reader.contents().frames;
    let frames = by.frames.map_or(recorded, |frames| frames.min(recorded));
    let mut sites = SiteNumbers::new(frames);
    let mut collector = WaitCollector::new(&header, communicators);
    if by.delays {
        collector = collector.with_delays();
    }
    let mut loops = match by.delays && by.loops {
        true => Some(crate::structure::loops::found(path, communicators)?),
        false => None,
    };
    for event in reader.by_ref() {
        let counts = filter.wants(&event, &header);
        let site = match counts && frames > 0 {
            true => sites.number(&event),
            false => 0,
        };
        let phase = phases.as_ref().map(|phases| phases.phase(&event));
        let around = loops.as_mut().map(|loops| loops.around(&event));
        let around = around.unwrap_or_default();
        collector.observe_in(&event, counts, label(site, phase), around);
    }
    let labels = collector.labelled();
    let names = loops.map(|loops| loops.names(&header, communicators));
    let mut waiting = rooted(collector, &sites, names.as_deref());
    if let Some(phases) = phases {
        waiting.phases = by_phase(&labels, phases.spans(&header));
    }
    waiting.sites = by_site(&labels, &sites);
    Ok((waiting, reader.state().clone()))
}

/// Returns the waiting times, with root causes by site and by loop if they were followed.
fn rooted(
    mut collector: WaitCollector<'_>,
    sites: &SiteNumbers,
    loops: Option<&[String]>,
) -> Waiting {
    let delays = collector.costs(&PlaceNames {
        sites: Some(sites),
        loops,
    });
    collector.finish_with(delays)
}

/// Returns the waiting times of a trace, after `collector` has seen all events, each labelled with its number among `sites`,
/// in loops of these names.
pub(crate) fn by_labels(
    mut collector: WaitCollector<'_>,
    sites: &SiteNumbers,
    loops: Option<&[String]>,
) -> Waiting {
    let labels = collector.labelled();
    let mut waiting = rooted(collector, sites, loops);
    waiting.sites = by_site(&labels, sites);
    waiting.sites.retain(|site| site.waited > 0);
    waiting
}

/// Returns a call's label: its phase's number in the upper half, its site's in the lower.
fn label(site: u32, phase: Option<ProgramPhase>) -> u64 {
    let phase = phase.map_or(0, |phase| phase as u64);
    phase << 32 | u64::from(site)
}

fn by_phase(labels: &BTreeMap<u64, LabelSum>, spans: [u64; 3]) -> Vec<PhaseWait> {
    let phases = ProgramPhase::ALL.into_iter().zip(spans);
    let phases = phases.map(|(phase, time_ps)| {
        let first = label(0, Some(phase));
        let own = labels.range(first..=first | u64::from(u32::MAX));
        let sum = own.fold(LabelSum::default(), |sum, (_, own)| sum.and(own));
        let (waited, waiting_ps) = sum.waited();
        PhaseWait {
            phase,
            time_ps,
            calls: sum.calls,
            waited,
            total_ps: sum.total,
            waiting_ps,
            kinds: sum.kinds(),
        }
    });
    phases.collect()
}

fn by_site(labels: &BTreeMap<u64, LabelSum>, sites: &SiteNumbers) -> Vec<SiteWait> {
    let mut sums: BTreeMap<u32, LabelSum> = BTreeMap::new();
    for (label, own) in labels {
        let site = *label as u32;
        if site > 0 {
            let sum = sums.entry(site).or_default();
            *sum = std::mem::take(sum).and(own);
        }
    }
    let stats = sums.iter().map(|(number, sum)| {
        let (function, frames) = sites.shown(*number);
        let (waited, waiting_ps) = sum.waited();
        SiteWait {
            function,
            frames,
            calls: sum.calls,
            waited,
            total_ps: sum.total,
            waiting_ps,
            kinds: sum.kinds(),
        }
    });
    let mut stats: Vec<SiteWait> = stats.collect();
    // Ties are in the order of appearance.
    stats.sort_by_key(|stat| Reverse(stat.waiting_ps));
    stats
}

impl Waiting {
    /// Names the functions of all frames in files.
    pub fn name(&mut self, names: &mut FrameNames<'_>) {
        let frames = self.sites.iter_mut().flat_map(|site| &mut site.frames);
        let codes = self.delays.iter_mut().flat_map(|delays| &mut delays.codes);
        let places = codes.flat_map(|code| code.from.iter_mut().chain(&mut code.to));
        let frames = frames.chain(places.flat_map(|place| &mut place.frames));
        frames.for_each(|frame| names.name(frame));
    }
}
