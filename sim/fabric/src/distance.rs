//! Least times between hosts.
//!
//! A time here is never longer than a frame's, so nodes may run that far without synchronisation. Computed
//! once per topology, for the bounds of rounds and for the placement of nodes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use belljar_sim::Span;

use crate::topology::{Endpoint, Topology};

/// Limit on access switches for which the distance of each pair is stored: 8 MiB. Above it, the distance of
/// neighbours is used for different switches, which is never too long.
const MOST_PAIRED: usize = 1024;

/// The least times of frames between the hosts of a topology, over all paths that a routing could choose:
/// with empty queues, frames of minimum size, and no jitter.
///
/// They satisfy the triangle inequality: no path through a third host is shorter.
#[derive(Clone, Debug)]
pub struct Distances {
    /// For each host, the index of its access switch among the switches with hosts.
    access: Vec<u32>,
    /// For each host, the time from sending to the last bit's arrival at its switch.
    hops: Vec<Span>,
    /// For each access switch, its latency.
    through: Vec<Span>,
    /// From the last bit's arrival at one access switch until the frame is ready at another one's ports,
    /// including both switches' latencies; row by row. Empty if there are too many switches.
    between: Vec<Span>,
    /// The least of them between two different switches.
    least_between: Span,
    nearest: Vec<Span>,
    tails: Vec<Span>,
    longest: Span,
}

impl Distances {
    /// Computes distances in `topology`: a shortest-path search (Dijkstra) from each access switch.
    pub fn new(topology: &Topology) -> Self {
        Self::with_delay(topology, Span::ZERO)
    }

    /// The same with an additional `delay` on every way between two hosts.
    pub fn with_delay(topology: &Topology, delay: Span) -> Self {
        let (access, hops, switches) = access_switches(topology);
        let through: Vec<Span> = switches
            .iter()
            .map(|&switch| topology.switches()[switch as usize].latency + delay)
            .collect();
        let mut distances = Self {
            access,
            hops,
            through,
            between: Vec::new(),
            least_between: Span::ZERO,
            nearest: Vec::new(),
            tails: Vec::new(),
            longest: Span::ZERO,
        };
        distances.search(topology, &switches, delay);
        distances.note_extremes();
        distances
    }

    /// Distances of `hosts` hosts that are all `least` apart, or a picosecond less.
    pub fn uniform(hosts: u32, least: Span) -> Self {
        let half = Span::from_ps(least.as_ps() / 2);
        let mut distances = Self {
            access: vec![0; hosts as usize],
            hops: vec![half; hosts as usize],
            through: vec![Span::ZERO],
            between: vec![Span::ZERO],
            least_between: Span::MAX,
            nearest: Vec::new(),
            tails: Vec::new(),
            longest: Span::ZERO,
        };
        distances.note_extremes();
        distances
    }

    fn search(&mut self, topology: &Topology, switches: &[u32], delay: Span) {
        let neighbours = neighbours(topology);
        let keep = switches.len() <= MOST_PAIRED;
        let mut least = Span::MAX;
        for (row, &from) in switches.iter().enumerate() {
            let reached = shortest(topology, &neighbours, from);
            for (column, &to) in switches.iter().enumerate() {
                let span = reached[to as usize] + delay;
                if keep {
                    self.between.push(span);
                }
                if row != column {
                    least = least.min(span);
                    self.longest = self.longest.max(span);
                }
            }
        }
        self.least_between = least;
    }

    /// Computes frequently used values: each host's nearest neighbour, and the longest time.
    fn note_extremes(&mut self) {
        let mut first: Vec<[(Span, u32); 2]> = vec![[(Span::MAX, u32::MAX); 2]; self.through.len()];
        for (host, hop) in (0..).zip(&self.hops) {
            let pair = &mut first[self.access[host as usize] as usize];
            if *hop < pair[0].0 {
                *pair = [(*hop, host), pair[0]];
            } else if *hop < pair[1].0 {
                pair[1] = (*hop, host);
            }
        }
        let groups = self.through.len();
        let slowest = self.hops.iter().copied().max().unwrap_or(Span::ZERO);
        let widest = self.through.iter().copied().max().unwrap_or(Span::ZERO);
        self.longest = slowest + self.longest.max(widest) + slowest;
        // From one access switch to the nearest host at another.
        let outside: Vec<Span> = (0..groups)
            .map(|from| {
                let others = (0..groups).filter(|to| *to != from);
                let to_host = |to: usize| self.way(from, to) + first[to][0].0;
                others.map(to_host).min().unwrap_or(Span::MAX)
            })
            .collect();
        self.nearest = (0..self.hops.len() as u32)
            .map(|host| {
                let group = self.access[host as usize] as usize;
                let beside = first[group].iter().find(|(_, other)| *other != host);
                let beside = beside.map_or(Span::MAX, |(hop, _)| self.through[group] + *hop);
                self.hops[host as usize] + beside.min(outside[group])
            })
            .collect();
        let hosts = self.access.iter().zip(&self.hops);
        let tail = |(access, hop): (&u32, &Span)| self.through[*access as usize] + *hop;
        self.tails = hosts.map(tail).collect();
    }

    /// The number of access switches with hosts.
    pub fn switches(&self) -> usize {
        self.through.len()
    }

    /// A host's access switch, by index, and the time of a frame between the host and the switch, in either
    /// direction.
    pub fn access(&self, host: u32) -> (usize, Span) {
        let host = host as usize;
        (self.access[host] as usize, self.hops[host])
    }

    /// The least time from the last bit's arrival at an access switch until the frame is ready at the ports
    /// of another or the same switch; both by index.
    pub fn way(&self, from: usize, to: usize) -> Span {
        match self.between.get(from * self.through.len() + to) {
            _ if from == to => self.through[from],
            Some(&span) => span,
            None => self.least_between,
        }
    }

    /// The least time from sending at `from` to the last bit's arrival at `to`; for a host and itself, the
    /// time to a neighbour on the same switch.
    pub fn least(&self, from: u32, to: u32) -> Span {
        let [(start, up), (end, down)] = [from, to].map(|host| self.access(host));
        up + self.way(start, end) + down
    }

    /// The least time from a host's sending to arrival at its nearest neighbour; [`Span::MAX`] if there is
    /// no other host.
    pub fn nearest(&self, host: u32) -> Span {
        self.nearest[host as usize]
    }

    /// The least time from the last bit's arrival at any switch to its arrival at `host`.
    pub fn tail(&self, host: u32) -> Span {
        self.tails[host as usize]
    }

    /// The least time from any host's sending to the last bit's arrival at its switch.
    pub fn hop(&self) -> Span {
        self.hops.iter().copied().min().unwrap_or(Span::ZERO)
    }

    /// An upper bound on the least times between any two hosts: an action of one host can affect all others
    /// after this time.
    pub fn longest(&self) -> Span {
        self.longest
    }
}

/// Access switch by host, time to it by host, and the switches with hosts.
fn access_switches(topology: &Topology) -> (Vec<u32>, Vec<Span>, Vec<u32>) {
    let hosts = topology.hosts() as usize;
    let mut switch_of = vec![0u32; hosts];
    let mut hops = vec![Span::ZERO; hosts];
    for link in topology.links() {
        let host_and_switch = match link.ends {
            [Endpoint::Host(host), Endpoint::Switch(switch)]
            | [Endpoint::Switch(switch), Endpoint::Host(host)] => (host, switch),
            _ => continue,
        };
        let (host, switch) = host_and_switch;
        switch_of[host as usize] = switch;
        hops[host as usize] = link.spec.latency + link.spec.transmission(0);
    }
    let mut switches = switch_of.clone();
    switches.sort_unstable();
    switches.dedup();
    let index = |switch: &u32| switches.binary_search(switch).unwrap_or(0) as u32;
    let access = switch_of.iter().map(index).collect();
    (access, hops, switches)
}

/// By switch: neighbouring switches, with the least time over the link.
fn neighbours(topology: &Topology) -> Vec<Vec<(u32, Span)>> {
    let mut neighbours = vec![Vec::new(); topology.switches().len()];
    for link in topology.links() {
        if let [Endpoint::Switch(one), Endpoint::Switch(other)] = link.ends {
            let span = link.spec.latency + link.spec.transmission(0);
            neighbours[one as usize].push((other, span));
            neighbours[other as usize].push((one, span));
        }
    }
    neighbours
}

/// Least times from the last bit's arrival at `from` until the frame is ready to leave each switch;
/// [`Span::MAX`] if unreachable.
fn shortest(topology: &Topology, neighbours: &[Vec<(u32, Span)>], from: u32) -> Vec<Span> {
    let latency = |switch: u32| topology.switches()[switch as usize].latency;
    let mut known = vec![Span::MAX; neighbours.len()];
    let mut open = BinaryHeap::from([Reverse((latency(from), from))]);
    known[from as usize] = latency(from);
    while let Some(Reverse((span, switch))) = open.pop() {
        if span > known[switch as usize] {
            continue;
        }
        for &(next, over) in &neighbours[switch as usize] {
            let there = span + over + latency(next);
            if there < known[next as usize] {
                known[next as usize] = there;
                open.push(Reverse((there, next)));
            }
        }
    }
    known
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::LinkSpec;
    use crate::topology::SwitchSpec;

    fn link(latency: u64) -> LinkSpec {
        LinkSpec {
            // Negligible transmission time.
            bandwidth: u64::MAX,
            latency: Span::from_ns(latency),
        }
    }

    const SWITCH: SwitchSpec = SwitchSpec {
        latency: Span::from_ns(300),
        queue_bytes: 1 << 20,
    };

    fn rounded(span: Span) -> u64 {
        span.as_ps() / 1000
    }

    #[test]
    fn in_a_star_all_are_two_hops_and_a_switch_apart() {
        let distances = Distances::new(&Topology::star(4, link(1000), SWITCH).unwrap());
        assert_eq!(rounded(distances.least(0, 3)), 2300);
        assert_eq!(rounded(distances.nearest(2)), 2300);
        assert_eq!(rounded(distances.longest()), 2300);
        assert_eq!(rounded(distances.tail(1)), 1300);
    }

    #[test]
    fn in_a_tree_the_way_leads_over_the_root() {
        let topology = Topology::tree(4, 2, link(1000), link(5000), SWITCH).unwrap();
        let distances = Distances::new(&topology);
        assert_eq!(rounded(distances.least(0, 1)), 2300);
        assert_eq!(rounded(distances.least(0, 2)), 2000 + 3 * 300 + 2 * 5000);
        assert_eq!(rounded(distances.nearest(3)), 2300);
        assert_eq!(rounded(distances.longest()), 12_900);
    }

    #[test]
    fn a_lone_host_has_no_neighbour() {
        let distances = Distances::new(&Topology::star(1, link(1000), SWITCH).unwrap());
        assert_eq!(distances.nearest(0), Span::MAX);
    }

    #[test]
    fn of_two_hosts_on_two_switches_each_is_the_others_nearest() {
        let topology = Topology::tree(3, 2, link(1000), link(5000), SWITCH).unwrap();
        let distances = Distances::new(&topology);
        assert_eq!(distances.nearest(2), distances.least(2, 0));
    }
}
