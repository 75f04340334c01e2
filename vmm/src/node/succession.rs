//! Succession: a node that takes the place of another one, which lost power.
//!
//! The new node is a clone of the same snapshot as the old one was. Its clock advances to the time of its start without execution.
//! Counters of the node continue those of the old one, so that they only grow. Called by the owner of both nodes.

use belljar_cpu::{Cycles, TimeAccount};
use belljar_devices::virtio::NetCounters;
use belljar_sim::Time;
use serde::{Deserialize, Serialize};

use super::Node;

/// Counters of the nodes whose place a node took.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct EarlierCounters {
    /// Instructions that the old node had retired beyond those of the new one at its start.
    pub(super) retired: u64,
    /// Frames that the old node's card dropped.
    dropped: u64,
    /// Accounts of the old node at its end, and of the new one at its start.
    accounts: Option<[TimeAccount; 2]>,
}

impl EarlierCounters {
    /// The node's account, from that of its processors.
    pub(super) fn account(&self, own: TimeAccount) -> TimeAccount {
        self.accounts
            .map_or(own, |[old, begin]| own.continuing(old, begin))
    }

    /// The counters of the node's card, from those of its present one.
    pub(super) fn net(&self, own: NetCounters) -> NetCounters {
        NetCounters {
            dropped: own.dropped.saturating_add(self.dropped),
            ..own
        }
    }
}

impl Node {
    /// Takes the place of `old` at time `from`, up to which `old` has no event left: deliveries from then on are for this node, and earlier
    /// ones are lost. Both must be of the same configuration.
    pub fn succeed(&mut self, old: &mut Self, from: Time) {
        self.disturb();
        old.disturb();
        let begin = self.frequency.cycle_at(from);
        let aligned = match self.rotation.has_slices() {
            true => self.rotation.begin(begin),
            false => begin,
        };
        old.skip_to(aligned);
        self.skip_to(aligned);
        while let Some(at) = old.arrivals.next() {
            let arrival = old.arrivals.pop_due(at);
            if let Some(arrival) = arrival.filter(|_| at >= begin) {
                self.arrivals.push(at, arrival);
            }
        }
        self.earlier = EarlierCounters {
            retired: old.retired().saturating_sub(self.retired()),
            dropped: old.net_counters().dropped,
            accounts: old.account().zip(self.account()).map(<[_; 2]>::from),
        };
        self.counts = old.counts;
        if let (Some(noise), Some(counts)) = (&mut self.noise, old.noise()) {
            noise.go_on(counts);
        }
        self.sampling = old.sampling.take();
        let msrs = std::mem::take(&mut old.devices.unknown_msrs);
        self.devices.unknown_msrs.extend(msrs);
    }

    /// Advances all clocks that are before `cycle`, the begin of a slice, without execution.
    fn skip_to(&mut self, cycle: Cycles) {
        for processor in &mut self.processors {
            processor.vcpu.skip_to(cycle);
        }
        if self.rotation.has_slices() && self.rotation.end < cycle {
            self.rotation.end = cycle;
            self.rotation.current = 0;
        }
    }
}
