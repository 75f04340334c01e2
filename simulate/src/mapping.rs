//! Mapping of a job's processes to its hosts.
//!
//! Used by the simulation when a job has got its hosts. Each host takes at most `slots` processes.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use belljar_fabric::Topology;

use crate::job::JobTraffic;
use crate::memory::Memory;

/// A mapping's input.
#[derive(Clone, Copy, Debug)]
pub struct Placing<'a> {
    /// Number of processes.
    pub ranks: u32,
    /// The job's hosts, in the order of their selection: distinct, and enough for all processes.
    pub hosts: &'a [u32],
    /// Most processes on each host.
    pub slots: u32,
    /// Their traffic.
    pub traffic: &'a JobTraffic,
    /// The network.
    pub topology: &'a Topology,
}

/// Places processes. Implement it for a custom policy.
pub trait MappingPolicy: Memory {
    /// Returns the host of each process.
    fn place(&mut self, placing: Placing<'_>) -> Vec<u32>;
}

/// Fills one host after the other.
#[derive(Clone, Copy, Debug, Default)]
pub struct Block;

impl Memory for Block {}

impl MappingPolicy for Block {
    fn place(&mut self, placing: Placing<'_>) -> Vec<u32> {
        let slots = placing.slots.max(1);
        let host = |rank: u32| placing.hosts[(rank / slots) as usize % placing.hosts.len()];
        (0..placing.ranks).map(host).collect()
    }
}

/// Distributes processes round robin.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cyclic;

impl Memory for Cyclic {}

impl MappingPolicy for Cyclic {
    fn place(&mut self, placing: Placing<'_>) -> Vec<u32> {
        let host = |rank: u32| placing.hosts[rank as usize % placing.hosts.len()];
        (0..placing.ranks).map(host).collect()
    }
}

/// Places the process with the most traffic to placed ones next, on the host with a free slot from which that traffic crosses the fewest
/// switches.
#[derive(Clone, Copy, Debug, Default)]
pub struct Greedy;

impl Memory for Greedy {}

impl MappingPolicy for Greedy {
    fn place(&mut self, placing: Placing<'_>) -> Vec<u32> {
        let ranks = placing.ranks as usize;
        let mut with: Vec<Vec<(usize, u64)>> = vec![Vec::new(); ranks];
        for flow in &placing.traffic.flows {
            let (from, to) = (flow.from as usize, flow.to as usize);
            if from < ranks && to < ranks {
                with[from].push((to, flow.rate));
                with[to].push((from, flow.rate));
            }
        }
        let totals = with
            .iter()
            .map(|partners| partners.iter().map(|(_, rate)| *rate).sum());
        let totals: Vec<u64> = totals.collect();
        // Traffic of each process with placed ones.
        let mut drawn = vec![0_u64; ranks];
        let mut waiting: BTreeSet<(u64, u64, Reverse<usize>)> = (0..ranks)
            .map(|rank| (0, totals[rank], Reverse(rank)))
            .collect();
        let mut places: Vec<Option<usize>> = vec![None; ranks];
        let mut open = OpenHosts::of(placing);
        while let Some((_, _, Reverse(rank))) = waiting.pop_last() {
            let partners = with[rank].iter();
            let placed = partners.filter_map(|(other, rate)| Some((places[*other]?, *rate)));
            let Some(host) = open.nearest(placed) else {
                break;
            };
            places[rank] = Some(host);
            open.take(host);
            for (other, rate) in &with[rank] {
                let more = drawn[*other].saturating_add(*rate);
                let key = |drawn| (drawn, totals[*other], Reverse(*other));
                if waiting.remove(&key(drawn[*other])) {
                    waiting.insert(key(more));
                }
                drawn[*other] = more;
            }
        }
        let host = |place: Option<usize>| placing.hosts[place.unwrap_or(0)];
        places.into_iter().map(host).collect()
    }
}

/// Switches that traffic crosses within a switch, and to another one, as weights of its rate.
const WITHIN_SWITCH: u128 = 1;
const BEYOND_SWITCH: u128 = 3;

/// Hosts with free slots, by their positions among the job's hosts.
struct OpenHosts {
    /// Free slots.
    left: Vec<u32>,
    switches: Vec<u32>,
    all: BTreeSet<usize>,
    by_switch: BTreeMap<u32, BTreeSet<usize>>,
}

impl OpenHosts {
    fn of(placing: Placing<'_>) -> Self {
        let hosts = placing.hosts.iter();
        let switches: Vec<u32> = hosts
            .map(|host| placing.topology.switch_of(*host))
            .collect();
        let mut by_switch: BTreeMap<u32, BTreeSet<usize>> = BTreeMap::new();
        for (host, switch) in switches.iter().enumerate() {
            by_switch.entry(*switch).or_default().insert(host);
        }
        Self {
            left: vec![placing.slots.max(1); switches.len()],
            all: (0..switches.len()).collect(),
            switches,
            by_switch,
        }
    }

    /// Returns the host, the first of several, from which traffic to these hosts crosses the fewest switches; `None` if all are full. Hosts without a partner differ only
    /// by their switch, so the first one of each partner's switch and the first one of all are enough.
    fn nearest(&self, placed: impl Iterator<Item = (usize, u64)>) -> Option<usize> {
        let mut total = 0;
        let mut on_host: BTreeMap<usize, u128> = BTreeMap::new();
        let mut on_switch: BTreeMap<u32, u128> = BTreeMap::new();
        for (host, rate) in placed {
            let rate = u128::from(rate);
            total += rate * BEYOND_SWITCH;
            *on_host.entry(host).or_default() += rate * WITHIN_SWITCH;
            *on_switch.entry(self.switches[host]).or_default() +=
                rate * (BEYOND_SWITCH - WITHIN_SWITCH);
        }
        let cost = |host: &usize| {
            let near = on_switch.get(&self.switches[*host]).copied().unwrap_or(0);
            total - near - on_host.get(host).copied().unwrap_or(0)
        };
        let partners = on_host.keys().copied().filter(|host| self.left[*host] > 0);
        let switches = on_switch.keys().filter_map(|it| self.by_switch.get(it));
        let firsts = switches
            .chain([&self.all])
            .filter_map(|hosts| hosts.first().copied());
        partners
            .chain(firsts)
            .min_by_key(|host| (cost(host), *host))
    }

    /// Takes a slot.
    fn take(&mut self, host: usize) {
        self.left[host] -= 1;
        if self.left[host] == 0 {
            self.all.remove(&host);
            if let Some(hosts) = self.by_switch.get_mut(&self.switches[host]) {
                hosts.remove(&host);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::job::RankFlow;
    use crate::shapes::two_levels;

    /// Places each next process by comparing all of them, and all hosts, as the reference.
    fn compared(placing: Placing<'_>) -> Vec<u32> {
        let ranks = placing.ranks as usize;
        let mut with: Vec<Vec<(usize, u64)>> = vec![Vec::new(); ranks];
        for flow in &placing.traffic.flows {
            with[flow.from as usize].push((flow.to as usize, flow.rate));
            with[flow.to as usize].push((flow.from as usize, flow.rate));
        }
        let mut places: Vec<Option<usize>> = vec![None; ranks];
        let mut left = vec![placing.slots; placing.hosts.len()];
        let mut drawn = vec![0_u64; ranks];
        for _ in 0..ranks {
            let waiting = (0..ranks).filter(|rank| places[*rank].is_none());
            let total = |rank: usize| with[rank].iter().map(|(_, rate)| *rate).sum::<u64>();
            let key = |rank: &usize| (drawn[*rank], total(*rank), Reverse(*rank));
            let rank = waiting.max_by_key(key).unwrap();
            let cost = |host: usize| {
                let placed = with[rank].iter();
                let placed = placed.filter_map(|(other, rate)| Some((places[*other]?, rate)));
                let costs = placed.map(|(other, rate)| {
                    let [here, there] = [host, other].map(|at| placing.hosts[at]);
                    rate * distance(placing.topology, here, there)
                });
                costs.sum::<u64>()
            };
            let open = (0..left.len()).filter(|host| left[*host] > 0);
            let host = open.min_by_key(|host| (cost(*host), *host)).unwrap();
            places[rank] = Some(host);
            left[host] -= 1;
            for (other, rate) in &with[rank] {
                drawn[*other] += *rate;
            }
        }
        let host = |place: Option<usize>| placing.hosts[place.unwrap()];
        places.into_iter().map(host).collect()
    }

    /// On one host, below one switch, or further.
    fn distance(topology: &Topology, one: u32, other: u32) -> u64 {
        let switch = |host| topology.switch_of(host);
        match (one == other, switch(one) == switch(other)) {
            (true, _) => 0,
            (_, true) => 1,
            _ => 3,
        }
    }

    proptest! {
        #[test]
        fn greedy_places_as_by_comparing_all(
            hosts in Just((0..8).collect::<Vec<u32>>()).prop_shuffle(),
            few in 1..9_usize,
            slots in 1..4_u32,
            less in 0..8_u32,
            flows in prop::collection::vec((any::<u32>(), any::<u32>(), 0..4_u64), 0..60),
        ) {
            let topology = two_levels();
            let hosts = &hosts[..few];
            let ranks = (few as u32 * slots).saturating_sub(less).max(1);
            let flows = flows.into_iter();
            let flows = flows.map(|(from, to, rate)| RankFlow { from: from % ranks, to: to % ranks, rate });
            let traffic = JobTraffic { flows: flows.collect() };
            let placing = Placing { ranks, hosts, slots, traffic: &traffic, topology: &topology };
            prop_assert_eq!(Greedy.place(placing), compared(placing));
        }
    }

    #[test]
    fn mappings_place_as_they_say() {
        let topology = two_levels();
        // Ranks 0 and 2 exchange most, as do 1 and 3; 0 and 1 exchange a little.
        let flow = |from, to, rate| RankFlow { from, to, rate };
        let traffic = JobTraffic {
            flows: vec![flow(0, 2, 100), flow(3, 1, 90), flow(0, 1, 1)],
        };
        let placing = |hosts, slots| Placing {
            ranks: 4,
            hosts,
            slots,
            traffic: &traffic,
            topology: &topology,
        };
        let two = [6, 1];
        assert_eq!(Block.place(placing(&two, 2)), [6, 6, 1, 1]);
        assert_eq!(Cyclic.place(placing(&two, 2)), [6, 1, 6, 1]);
        assert_eq!(Greedy.place(placing(&two, 2)), [6, 1, 6, 1]);
        // Hosts 1 and 2 are below one switch, 5 and 6 below the other.
        let four = [1, 5, 2, 6];
        let places = Greedy.place(placing(&four, 1));
        let switch = |rank: usize| topology.switch_of(places[rank]);
        assert_eq!(switch(0), switch(2));
        assert_eq!(switch(1), switch(3));
        assert_ne!(switch(0), switch(1));
    }
}
