//! Statistics of the user's probes by call site.
//!
//! A site is a probe and the frames from which its function is called. Runs that record frames also record them for probes. Calls at sites beyond the
//! limit are counted together. Used by [`call_sites`](crate::call_sites).

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io;

use belljar_sim::Time;
use belljar_trace::Frame;
use serde::Serialize;

use super::CallSites;
use crate::dump::Filter;
use crate::dump::frames::{SiteFrame, lines};
use crate::dump::probes::Records;
use crate::sums::stat::ProbeSum;
use crate::table::{Table, count, time};

/// Most sites that are kept.
const MOST_SITES: usize = 1 << 16;

/// The calls of one probe's function from one call site.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ProbeSiteStat {
    /// The probe's name.
    pub probe: String,
    /// The call's address, the address at which its function was called, and so on.
    pub frames: Vec<SiteFrame>,
    /// Its calls from there.
    #[serde(flatten)]
    pub sum: ProbeSum,
}

/// Returns the sites of all selected records, in descending order of calls, and the calls at sites beyond the limit.
pub(super) fn sites(
    records: &mut Records,
    filter: &Filter,
    frames: u8,
) -> (Vec<ProbeSiteStat>, u64) {
    let header = records.header().clone();
    let mut sums = BTreeMap::<(u32, Vec<Frame>), ProbeSum>::new();
    let mut beyond = 0;
    while let Some((record, probe)) = records.next_before(Time::MAX) {
        let Some(stack) = &record.site.0 else {
            continue;
        };
        if !filter.wants_record(&record, probe, &header.trace) {
            continue;
        }
        let stack = stack.0.iter().take(frames.into()).cloned().collect();
        let key = (record.probe, stack);
        if sums.len() >= MOST_SITES && !sums.contains_key(&key) {
            beyond += 1;
            continue;
        }
        let rate = header.trace.frequency(record.node);
        let entry = rate.time_of(record.entry);
        let took = record.exit.map(|exit| rate.time_of(exit).since(entry));
        let sum = sums.entry(key).or_default();
        sum.add(took.map(|span| span.as_ps()));
    }
    let name = |probe: u32| header.probes.get(probe as usize).map(|it| it.name.clone());
    let mut sites: Vec<ProbeSiteStat> = sums
        .into_iter()
        .map(|((probe, frames), sum)| ProbeSiteStat {
            probe: name(probe).unwrap_or_default(),
            frames: frames.iter().map(SiteFrame::of).collect(),
            sum,
        })
        .collect();
    sites.sort_by_key(|site| Reverse((site.sum.total_ps, site.sum.calls)));
    (sites, beyond)
}

impl CallSites {
    /// Writes the sites of probes, if there are any.
    pub(super) fn write_probes(&self, out: &mut dyn io::Write) -> io::Result<()> {
        if self.probes.is_empty() {
            return Ok(());
        }
        writeln!(out, "\nCall sites of probes")?;
        let mut table = Table::new(["probe", "calls", "returned", "min", "mean", "max", "total"]);
        for site in &self.probes {
            let sum = &site.sum;
            let mut cells = vec![site.probe.clone(), count(sum.calls), count(sum.returned)];
            let times = [sum.min_ps, sum.mean_ps, sum.max_ps, sum.total_ps];
            cells.extend(times.map(|ps| match sum.returned {
                0 => "-".to_owned(),
                _ => time(ps),
            }));
            table.row(cells);
            for line in site.frames.iter().flat_map(lines) {
                table.row(vec![format!("    {line}")]);
            }
        }
        table.write(out)
    }
}
