//! What one host knows of nodes that others run.
//!
//! A host tells of each of its nodes when it does anything next, and how many frames it has
//! been given by then. Each host has the whole network, and so knows all frames that a
//! node is going to be given, in the same order as the host that runs it. One that the
//! other had not given to the node when it told of it may make the node act sooner: until
//! it is told that the node has it, the earlier of the two times holds.

use std::collections::VecDeque;

use belljar_sim::Time;

/// A node that another host runs.
#[derive(Clone, Debug)]
struct RemoteNode {
    /// When it does anything next, by what was told.
    next: Time,
    /// Frames that it had been given then.
    taken: u64,
    /// Frames that reached it by what is known here.
    arrived: u64,
    /// When those arrive that it had not been given, in order.
    waiting: VecDeque<Time>,
}

/// The nodes that others run.
#[derive(Debug)]
pub(crate) struct RemoteNodes {
    nodes: Vec<Option<RemoteNode>>,
}

impl RemoteNodes {
    /// Of which nothing is known but that they do nothing before `start`; `is_remote` for
    /// each node.
    pub(crate) fn new(is_remote: impl Iterator<Item = bool>, start: Time) -> Self {
        let unknown = RemoteNode {
            next: start,
            taken: 0,
            arrived: 0,
            waiting: VecDeque::new(),
        };
        Self {
            nodes: is_remote.map(|is| is.then(|| unknown.clone())).collect(),
        }
    }

    /// The node's host tells of it. When it does anything next, as things stand; `None` for
    /// a node that is not another's.
    pub(crate) fn told(&mut self, node: u32, next: Time, taken: u64) -> Option<Time> {
        let of = self.nodes.get_mut(node as usize)?.as_mut()?;
        of.next = next;
        of.taken = of.taken.max(taken);
        let still = of.arrived.saturating_sub(of.taken);
        while of.waiting.len() as u64 > still {
            of.waiting.pop_front();
        }
        Some(of.next())
    }

    /// A frame reaches the node at `time`. When it does anything next, as things stand.
    pub(crate) fn arrives(&mut self, node: u32, time: Time) -> Option<Time> {
        let of = self.nodes.get_mut(node as usize)?.as_mut()?;
        of.arrived += 1;
        if of.arrived > of.taken {
            of.waiting.push_back(time);
        }
        Some(of.next())
    }
}

impl RemoteNode {
    fn next(&self) -> Time {
        let frame = self.waiting.front().copied().unwrap_or(Time::MAX);
        self.next.min(frame)
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
        assert_eq!(remote.told(1, at(900), 0), Some(at(900)));
        assert_eq!(remote.arrives(1, at(500)), Some(at(500)));
        // Told before it knew of the frame, heard after.
        assert_eq!(remote.told(1, at(950), 0), Some(at(500)));
        assert_eq!(remote.arrives(1, at(600)), Some(at(500)));
        assert_eq!(remote.told(1, at(970), 1), Some(at(600)));
        assert_eq!(remote.told(1, at(980), 2), Some(at(980)));
    }

    #[test]
    fn a_host_may_know_of_frames_first() {
        let mut remote = one();
        assert_eq!(remote.told(1, Time::MAX, 2), Some(Time::MAX));
        assert_eq!(remote.arrives(1, at(10)), Some(Time::MAX));
        assert_eq!(remote.arrives(1, at(20)), Some(Time::MAX));
        assert_eq!(remote.arrives(1, at(30)), Some(at(30)));
        assert_eq!(remote.told(1, at(40), 3), Some(at(40)));
    }

    #[test]
    fn own_nodes_and_none_are_nobody_elses() {
        let mut remote = one();
        assert_eq!(remote.told(0, at(1), 0), None);
        assert_eq!(remote.told(2, at(1), 0), None);
        assert_eq!(remote.arrives(0, at(1)), None);
    }
}
