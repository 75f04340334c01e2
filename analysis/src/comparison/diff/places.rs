//! Differences by cause of waiting, by call site and by phase of the program.
//!
//! A call site is the same in both traces if its frames are at the same addresses of the same files. Rebuilt files have other
//! addresses: there, frames are the same if the names of their functions are. Used by `diff`.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use belljar_job::Communicators;
use belljar_trace::TraceError;

use super::{Both, PhaseDiff, SiteDiff, TraceDiff, WaitDiff};
use crate::causes::waiting::{SiteWait, WaitBy, WaitKind, Waiting, measured};
use crate::dump::Filter;
use crate::dump::frames::{FrameNames, SiteFrame};

/// Adds these differences to a comparison. Both traces are read.
///
/// # Errors
/// Returns [`TraceError`] if a file cannot be read as a trace.
pub(super) fn compare(
    diff: &mut TraceDiff,
    paths: [&Path; 2],
    communicators: &[Communicators; 2],
    phases: bool,
    names: [FrameNames<'_>; 2],
) -> Result<(), TraceError> {
    let by = WaitBy {
        frames: None,
        phases,
        delays: false,
        loops: false,
    };
    let waiting = |side: usize| -> Result<Waiting, TraceError> {
        let everything = Filter::default();
        let (waiting, _) = measured(paths[side], &communicators[side], &everything, by)?;
        Ok(waiting)
    };
    let mut waiting = [waiting(0)?, waiting(1)?];
    for (waiting, mut names) in waiting.iter_mut().zip(names) {
        waiting.name(&mut names);
    }
    diff.waiting = causes(&waiting);
    diff.phases = by_phase(&waiting);
    diff.sites = by_site(&waiting);
    Ok(())
}

fn causes(waiting: &[Waiting; 2]) -> Vec<WaitDiff> {
    let of = |side: usize, kind: WaitKind| {
        let own = waiting[side].kinds.iter().find(|own| own.kind == kind);
        own.map_or((0, 0), |own| (own.calls, own.waiting_ps))
    };
    let all = WaitKind::ALL.into_iter().map(|kind| {
        let (a, b) = (of(0, kind), of(1, kind));
        WaitDiff {
            kind,
            calls: Both { a: a.0, b: b.0 },
            waiting_ps: Both { a: a.1, b: b.1 },
        }
    });
    all.filter(|own| own.calls != Both::default()).collect()
}

fn by_phase([a, b]: &[Waiting; 2]) -> Vec<PhaseDiff> {
    let both = |a, b| Both { a, b };
    let pairs = a.phases.iter().zip(&b.phases);
    let pairs = pairs.map(|(a, b)| PhaseDiff {
        phase: a.phase,
        time_ps: both(a.time_ps, b.time_ps),
        calls: both(a.calls, b.calls),
        total_ps: both(a.total_ps, b.total_ps),
        waiting_ps: both(a.waiting_ps, b.waiting_ps),
    });
    pairs.collect()
}

fn by_site(waiting: &[Waiting; 2]) -> Vec<SiteDiff> {
    if waiting.iter().any(|own| own.sites.is_empty()) {
        return Vec::new();
    }
    let builds = waiting.each_ref().map(|own| builds(&own.sites));
    let same = |object: &str| builds[0].get(object) == builds[1].get(object);
    let mut pairs: BTreeMap<(&'static str, Vec<String>), SiteDiff> = BTreeMap::new();
    for (side, own) in waiting.iter().enumerate() {
        for site in &own.sites {
            let frames = site.frames.iter().map(|frame| place(frame, &same));
            let key = (site.function, frames.collect());
            let pair = pairs.entry(key).or_insert_with(|| SiteDiff {
                function: site.function,
                frames: site.frames.clone(),
                ..SiteDiff::default()
            });
            for (figure, value) in [
                (&mut pair.calls, site.calls),
                (&mut pair.total_ps, site.total_ps),
                (&mut pair.waiting_ps, site.waiting_ps),
            ] {
                let figure = if side == 0 {
                    &mut figure.a
                } else {
                    &mut figure.b
                };
                *figure = figure.saturating_add(value);
            }
        }
    }
    let mut pairs: Vec<SiteDiff> = pairs.into_values().collect();
    // Ties are in the order of their functions and addresses.
    pairs.sort_by_key(|pair| Reverse(pair.total_ps.a.abs_diff(pair.total_ps.b)));
    pairs
}

/// Returns the build IDs of each file.
fn builds(sites: &[SiteWait]) -> BTreeMap<&str, BTreeSet<&str>> {
    let mut builds: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for frame in sites.iter().flat_map(|site| &site.frames) {
        if let Some(object) = &frame.object {
            builds.entry(object).or_default().insert(&frame.build_id);
        }
    }
    builds
}

/// Returns a frame's key, which is equal in both traces.
fn place(frame: &SiteFrame, same: &dyn Fn(&str) -> bool) -> String {
    let object = frame.object.as_deref().unwrap_or_default();
    let functions = frame.places.iter();
    let functions: Option<Vec<&str>> = functions.map(|place| place.function.as_deref()).collect();
    match functions.filter(|functions| !functions.is_empty() && !same(object)) {
        Some(functions) => format!("{object} {}", functions.join(", ")),
        None => format!("{object}+{:#x}", frame.address),
    }
}
