//! Steps of the critical path: it covers all time, and leaves a process only for one that this one depended on.
//!
//! A path is right if each of its steps is a dependency of the job at its time, in a call of the process that depends. Called by the
//! comparison of a trace.

use std::path::Path;

use belljar_analysis::{PathStretch, critical_path};
use belljar_archive::TraceReader;
use belljar_trace::TraceError;

use super::{Difference, Differences};
use crate::truth::Truth;

/// Picoseconds of a cycle.
const CYCLE: u64 = 1000;

pub(super) fn check(truth: &Truth, path: &Path) -> Result<Vec<Difference>, TraceError> {
    let (found, _) = critical_path(path, false)?;
    let mut differences = Differences::new("path");
    let expected = extent(path)?;
    let total = (found.from_ps / CYCLE, found.to_ps / CYCLE);
    differences.unless(total == expected, || {
        format!("it is from {total:?} instead of {expected:?}")
    });
    let stretches = &found.stretches;
    let first = stretches.first().map(|it| it.from_ps);
    let last = stretches.last().map(|it| it.to_ps);
    differences.unless(
        (first, last) == (Some(found.from_ps), Some(found.to_ps)),
        || format!("its stretches are from {first:?} to {last:?}"),
    );
    let steps = stretches.windows(2);
    for step in steps {
        if let [from, to] = step {
            check_step(truth, from, to, &mut differences);
        }
    }
    Ok(differences.all)
}

/// The first entry and the last exit of all calls, in cycles.
fn extent(path: &Path) -> Result<(u64, u64), TraceError> {
    let mut reader = TraceReader::open(path)?;
    let mut extent = (u64::MAX, 0);
    for event in reader.by_ref() {
        let exit = event.exit.unwrap_or(event.entry);
        extent = (extent.0.min(event.entry), extent.1.max(exit));
    }
    Ok(extent)
}

/// Compares the step from one stretch to the next, which is on another process.
fn check_step(truth: &Truth, from: &PathStretch, to: &PathStretch, differences: &mut Differences) {
    let at = to.from_ps / CYCLE;
    differences.unless(from.to_ps == to.from_ps, || {
        format!("it has a gap from {} to {at}", from.to_ps / CYCLE)
    });
    let right = truth.depends(to.rank, from.rank, at);
    differences.unless(right && truth.is_inside(to.rank, at), || {
        format!(
            "rank {} does not depend on rank {} at {at}",
            to.rank, from.rank
        )
    });
}
