//! The known state of nodes on other hosts.
//!
//! A host reports for each of its nodes the time of its next action, and the number of
//! frames delivered to it by then, of each network. Each host has the whole networks, so it knows all frames
//! for a node, in the same order as the node's host. A frame that was not delivered at the
//! time of the report may make the node act sooner. Until a report counts the frame as
//! delivered, the earlier of the two times holds.

use std::collections::VecDeque;

use belljar_sim::Time;

use super::message::NetworkKind;

/// A node that another host runs.
#[derive(Clone, Debug)]
struct RemoteNode {
    /// The time of its next action, as last reported.
    next: Time,
    /// Deliveries of each network.
    deliveries: [RemoteDeliveries; NetworkKind::COUNT],
}

/// Deliveries of a network to a node that another host runs.
#[derive(Clone, Debug, Default)]
struct RemoteDeliveries {
    /// Frames delivered to it at the last report.
    taken: u64,
    /// Frames for it in this host's network.
    arrived: u64,
    /// Arrival times of undelivered frames, in order.
    waiting: VecDeque<Time>,
}

/// The nodes that others run.
#[derive(Debug)]
pub(crate) struct RemoteNodes {
    nodes: Vec<Option<RemoteNode>>,
}

impl RemoteNodes {
    /// Nodes without reports, which do nothing before `start`; `is_remote` for each node.
    pub(crate) fn new(is_remote: impl Iterator<Item = bool>, start: Time) -> Self {
        let unknown = RemoteNode {
            next: start,
            deliveries: Default::default(),
        };
        Self {
            nodes: is_remote.map(|is| is.then(|| unknown.clone())).collect(),
        }
    }

    /// Takes in a report of the node's host. Returns the time of the node's next action;
    /// `None` if this host runs the node.
    pub(crate) fn told(
        &mut self,
        node: u32,
        next: Time,
        taken: [u64; NetworkKind::COUNT],
    ) -> Option<Time> {
        let of = self.nodes.get_mut(node as usize)?.as_mut()?;
        of.next = next;
        for (of, taken) in of.deliveries.iter_mut().zip(taken) {
            of.taken = of.taken.max(taken);
            let still = of.arrived.saturating_sub(of.taken);
            while of.waiting.len() as u64 > still {
                of.waiting.pop_front();
            }
        }
        Some(of.next())
    }

    /// Counts a frame or packet that reaches the node at `time`. Returns the time of the node's
    /// next action.
    pub(crate) fn arrives(&mut self, node: u32, network: NetworkKind, time: Time) -> Option<Time> {
        let node = self.nodes.get_mut(node as usize)?.as_mut()?;
        let of = &mut node.deliveries[network.index()];
        of.arrived += 1;
        if of.arrived > of.taken {
            of.waiting.push_back(time);
        }
        Some(node.next())
    }
}

impl RemoteNode {
    fn next(&self) -> Time {
        let waiting = self.deliveries.iter();
        let first = waiting.filter_map(|of| of.waiting.front().copied()).min();
        self.next.min(first.unwrap_or(Time::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(time: u64) -> Time {
        Time::from_ps(time)
    }

    fn one() -> RemoteNodes {
        RemoteNodes::new([false, true].into_iter(), at(0))
    }

    #[test]
    fn a_frame_that_the_host_does_not_know_of_wakes_a_node() {
        let mut remote = one();
        assert_eq!(remote.told(1, at(900), [0, 0]), Some(at(900)));
        assert_eq!(
            remote.arrives(1, NetworkKind::Ethernet, at(500)),
            Some(at(500))
        );
        // The report was sent before the frame was known, and received after it.
        assert_eq!(remote.told(1, at(950), [0, 0]), Some(at(500)));
        assert_eq!(
            remote.arrives(1, NetworkKind::Ethernet, at(600)),
            Some(at(500))
        );
        assert_eq!(remote.told(1, at(970), [1, 0]), Some(at(600)));
        assert_eq!(remote.told(1, at(980), [2, 0]), Some(at(980)));
    }

    #[test]
    fn a_host_may_know_of_frames_first() {
        let mut remote = one();
        assert_eq!(remote.told(1, Time::MAX, [2, 0]), Some(Time::MAX));
        assert_eq!(
            remote.arrives(1, NetworkKind::Ethernet, at(10)),
            Some(Time::MAX)
        );
        assert_eq!(
            remote.arrives(1, NetworkKind::Ethernet, at(20)),
            Some(Time::MAX)
        );
        assert_eq!(
            remote.arrives(1, NetworkKind::Ethernet, at(30)),
            Some(at(30))
        );
        assert_eq!(remote.told(1, at(40), [3, 0]), Some(at(40)));
    }

    #[test]
    fn networks_are_counted_apart() {
        let mut remote = one();
        let packet =
            |remote: &mut RemoteNodes, time| remote.arrives(1, NetworkKind::Infiniband, at(time));
        assert_eq!(remote.told(1, at(900), [1, 0]), Some(at(900)));
        assert_eq!(packet(&mut remote, 500), Some(at(500)));
        assert_eq!(
            remote.arrives(1, NetworkKind::Ethernet, at(100)),
            Some(at(500))
        );
        assert_eq!(
            remote.arrives(1, NetworkKind::Ethernet, at(400)),
            Some(at(400))
        );
        assert_eq!(remote.told(1, at(900), [2, 0]), Some(at(500)));
        assert_eq!(remote.told(1, at(900), [2, 1]), Some(at(900)));
    }

    #[test]
    fn own_nodes_and_none_are_nobody_elses() {
        let mut remote = one();
        assert_eq!(remote.told(0, at(1), [0, 0]), None);
        assert_eq!(remote.told(2, at(1), [0, 0]), None);
        assert_eq!(remote.arrives(0, NetworkKind::Ethernet, at(1)), None);
    }
}
