//! Mapping of a job's processes to its hosts.
//!
//! Used by the simulation when a job has got its hosts. Each host takes at most `slots` processes.

use belljar_fabric::Topology;

use crate::job::JobTraffic;
use crate::memory::Memory;

/// A mapping's input.
#[derive(Clone, Copy, Debug)]
pub struct Placing<'a> {
    /// Number of processes.
    pub ranks: u32,
    /// The job's hosts, in the order of their selection: enough for all processes.
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
        let mut places: Vec<Option<usize>> = vec![None; ranks];
        let mut left = vec![placing.slots.max(1); placing.hosts.len()];
        // Traffic of each process with placed ones.
        let mut drawn = vec![0_u64; ranks];
        for _ in 0..ranks {
            let waiting = (0..ranks).filter(|rank| places[*rank].is_none());
            let total = |rank: &usize| with[*rank].iter().map(|(_, rate)| *rate).sum::<u64>();
            let next =
                waiting.max_by_key(|rank| (drawn[*rank], total(rank), std::cmp::Reverse(*rank)));
            let Some(rank) = next else {
                break;
            };
            let cost = |host: usize| {
                let partners = with[rank].iter();
                let placed = partners.filter_map(|(other, rate)| Some((places[*other]?, rate)));
                let costs = placed.map(|(other, rate)| {
                    let [here, there] = [host, other].map(|at| placing.hosts[at]);
                    u128::from(*rate) * u128::from(distance(placing.topology, here, there))
                });
                costs.sum::<u128>()
            };
            let open = (0..left.len()).filter(|host| left[*host] > 0);
            let Some(host) = open.min_by_key(|host| (cost(*host), *host)) else {
                break;
            };
            places[rank] = Some(host);
            left[host] -= 1;
            for (other, rate) in &with[rank] {
                drawn[*other] = drawn[*other].saturating_add(*rate);
            }
        }
        let host = |place: Option<usize>| placing.hosts[place.unwrap_or(0)];
        places.into_iter().map(host).collect()
    }
}

/// Returns the distance of hosts: on one host, below one switch, or further.
fn distance(topology: &Topology, one: u32, other: u32) -> u32 {
    match (
        one == other,
        topology.switch_of(one) == topology.switch_of(other),
    ) {
        (true, _) => 0,
        (_, true) => 1,
        _ => 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::RankFlow;
    use crate::shapes::two_levels;

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
