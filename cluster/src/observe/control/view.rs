//! The state of a run, as its control socket shows it.
//!
//! Observation changes nothing: it reads nodes and fabric between rounds. Called by the coordinator
//! for requests on the control socket.

use std::collections::BTreeMap;

use belljar_fabric::{Fabric, LinkId, LinkStatistics};
use belljar_sim::Time;

use super::{LinkLook, Look, NodeLook};
use crate::run::workers::Workers;

/// Maximum number of links in a look.
const LINKS: usize = 16;

/// Reads the state of a run, and keeps the links' loads of the last look.
#[derive(Debug, Default)]
pub(crate) struct Viewer {
    before: Vec<[LinkStatistics; 2]>,
    at: Time,
}

impl Viewer {
    /// The state of nodes and network at `now`.
    pub(crate) fn look(
        &mut self,
        now: Time,
        nodes: u32,
        workers: &Workers,
        fabric: &Fabric,
    ) -> Look {
        let mut calls: BTreeMap<u16, u64> = BTreeMap::new();
        // The state of nodes on other hosts is unknown here.
        let mut nodes = vec![NodeLook::default(); nodes as usize];
        for runner in workers.runners() {
            let mut own = 0;
            let counters = runner.tracer().map(|tracer| tracer.counters());
            for (&function, &count) in counters.iter().flat_map(|counters| &counters.calls) {
                *calls.entry(function).or_default() += count;
                own += count;
            }
            nodes[runner.index as usize] = NodeLook {
                ready: runner.ready.is_some(),
                ended: runner.ended.is_some(),
                instructions: runner.node().retired(),
                frames: runner.sent,
                calls: own,
            };
        }
        let named = calls.into_iter().filter_map(|(function, count)| {
            let function = belljar_mpi::FUNCTIONS.get(usize::from(function))?;
            Some((function.name.to_owned(), count))
        });
        Look {
            now_ps: now.as_ps(),
            nodes,
            functions: named.collect(),
            links: self.links(now, fabric),
            ..Look::default()
        }
    }

    fn links(&mut self, now: Time, fabric: &Fabric) -> Vec<LinkLook> {
        let statistics = fabric.statistics();
        self.before.resize(statistics.len(), Default::default());
        let passed = now.since(self.at).as_ps();
        let both = statistics.iter().zip(&self.before).zip(0..);
        let mut busiest: Vec<(LinkId, u64, u64, u64)> = both
            .map(|((now, before), link)| {
                let more = |count: fn(&LinkStatistics) -> u64| {
                    let ways = now.iter().zip(before);
                    ways.map(move |(now, before)| count(now).saturating_sub(count(before)))
                };
                let bytes = more(|way| way.bytes).sum();
                let busy = more(|way| way.busy_ps).max().unwrap_or(0);
                let drops = more(|way| way.drops + way.lost + way.failed).sum();
                (link, bytes, busy, drops)
            })
            .filter(|&(_, bytes, _, drops)| bytes + drops > 0)
            .collect();
        busiest.sort_by_key(|&(link, bytes, ..)| (std::cmp::Reverse(bytes), link));
        busiest.truncate(LINKS);
        self.before = statistics;
        self.at = now;
        let named = busiest
            .into_iter()
            .map(|(link, bytes, busy, drops)| LinkLook {
                name: fabric.topology().link_name(link),
                bytes,
                busy: (busy as f64 / passed.max(1) as f64).min(1.0),
                drops,
            });
        named.collect()
    }
}
