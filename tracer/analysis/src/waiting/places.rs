//! Waiting by call site and by phase of the program.
//!
//! Each call has a label of its site and its phase, and sums are over labels: so that whatever is asked for, the trace is read
//! once for it, with its communicators known. Phases take two readings before. Called by `belljar trace wait` and by `diff`.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::path::Path;

use belljar_archive::TraceReader;
use belljar_job::{Communicators, communicators};
use belljar_trace::{TraceError, TraceState};

use super::calls::LabelSum;
use super::{PhaseWait, SiteWait, WaitCollector, Waiting};
use crate::dump::Filter;
use crate::dump::frames::FrameNames;
use crate::phases::ProgramPhase;
use crate::sites::number::SiteNumbers;

/// By what waiting is told besides what every result has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitBy {
    /// Sites are told apart by so many frames at most; `None`: by as many as the trace has.
    pub frames: Option<u8>,
    /// Phases of the program, too.
    pub phases: bool,
}

/// Waiting times in the wanted calls of the trace at `path`, and whether it is complete. All calls are matched, wanted
/// or not.
///
/// # Errors
/// [`TraceError`] when the file cannot be read as a trace.
pub fn waiting(
    path: &Path,
    filter: &Filter,
    by: WaitBy,
) -> Result<(Waiting, TraceState), TraceError> {
    let (mut waiting, state) = measured(path, &communicators(path)?, filter, by)?;
    waiting.sites.retain(|site| site.waited > 0);
    Ok((waiting, state))
}

/// The same of a trace with these communicators, with sites that never waited, too.
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
    for event in reader.by_ref() {
        let counts = filter.wants(&event, &header);
        let site = match counts && frames > 0 {
            true => sites.number(&event),
            false => 0,
        };
        let phase = phases.as_ref().map(|phases| phases.phase(&event));
        collector.observe_labelled(&event, counts, label(site, phase));
    }
    let labels = collector.labelled();
    let mut waiting = collector.finish();
    if let Some(phases) = phases {
        waiting.phases = by_phase(&labels, phases.spans(&header));
    }
    waiting.sites = by_site(&labels, &sites);
    Ok((waiting, reader.state().clone()))
}

/// The waiting times of a trace all of whose events `collector` saw, each labelled with its number among `sites`.
pub(crate) fn by_labels(mut collector: WaitCollector<'_>, sites: &SiteNumbers) -> Waiting {
    let labels = collector.labelled();
    let mut waiting = collector.finish();
    waiting.sites = by_site(&labels, sites);
    waiting.sites.retain(|site| site.waited > 0);
    waiting
}

/// A call's label: its phase's number in the upper half, its site's in the lower.
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
    // Equal ones in the order in which they came up.
    stats.sort_by_key(|stat| Reverse(stat.waiting_ps));
    stats
}

impl Waiting {
    /// Names the places of all frames in files.
    pub fn name(&mut self, names: &mut FrameNames<'_>) {
        let frames = self.sites.iter_mut().flat_map(|site| &mut site.frames);
        frames.for_each(|frame| names.name(frame));
    }
}
