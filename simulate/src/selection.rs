//! Selection of free hosts for a job.
//!
//! Used by the simulation when a job starts. A policy may find none although enough are free; then the job continues to wait.

use belljar_fabric::Topology;
use belljar_sim::{Random, decode, encode};

use crate::memory::Memory;

/// The hosts, with the free ones marked.
#[derive(Clone, Debug)]
pub struct Hosts {
    /// A bit for each host, set if it is free.
    free: Vec<u64>,
    hosts: u32,
    count: u32,
}

impl Hosts {
    /// Creates this many hosts, all free.
    pub fn new(count: u32) -> Self {
        let mut free = vec![u64::MAX; count.div_ceil(u64::BITS) as usize];
        if let Some(last) = free.last_mut() {
            *last >>= count.next_multiple_of(u64::BITS) - count;
        }
        Self {
            free,
            hosts: count,
            count,
        }
    }

    /// Returns the number of free hosts.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Returns the free hosts, in order.
    pub fn free(&self) -> impl Iterator<Item = u32> + '_ {
        let words = (0..).step_by(u64::BITS as usize).zip(&self.free);
        words.flat_map(|(first, word): (u32, &u64)| {
            let rest = std::iter::successors(Some(*word), |left| Some(left & left.checked_sub(1)?));
            let rest = rest.take_while(|left| *left != 0);
            rest.map(move |left| first + left.trailing_zeros())
        })
    }

    pub(crate) fn take(&mut self, hosts: &[u32]) {
        self.set(hosts, false);
    }

    pub(crate) fn give_back(&mut self, hosts: &[u32]) {
        self.set(hosts, true);
    }

    fn set(&mut self, hosts: &[u32], free: bool) {
        for host in hosts.iter().filter(|host| **host < self.hosts) {
            let word = &mut self.free[(host / u64::BITS) as usize];
            let bit = 1 << (host % u64::BITS);
            if (*word & bit != 0) != free {
                *word ^= bit;
                self.count = if free { self.count + 1 } else { self.count - 1 };
            }
        }
    }
}

/// Chooses hosts. Implement it for a custom policy.
pub trait Selection: Memory {
    /// Selects this many of the free hosts; `None` if the policy has none to give now.
    fn select(&mut self, count: u32, hosts: &Hosts, topology: &Topology) -> Option<Vec<u32>>;
}

/// Selects the first free hosts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Linear;

impl Memory for Linear {}

impl Selection for Linear {
    fn select(&mut self, count: u32, hosts: &Hosts, _: &Topology) -> Option<Vec<u32>> {
        (hosts.count() >= count).then(|| hosts.free().take(count as usize).collect())
    }
}

/// Selects random free hosts, all equally likely.
#[derive(Clone, Debug)]
pub struct Anywhere(pub Random);

impl Memory for Anywhere {
    fn save(&self) -> Vec<u8> {
        // The position in a stream of random numbers takes a few bytes.
        encode(&self.0).unwrap_or_default()
    }

    fn restore(&mut self, saved: &[u8]) -> bool {
        let random = decode(saved).map(|random| self.0 = random);
        random.is_ok()
    }
}

impl Selection for Anywhere {
    fn select(&mut self, count: u32, hosts: &Hosts, _: &Topology) -> Option<Vec<u32>> {
        let mut free: Vec<u32> = hosts.free().collect();
        if free.len() < count as usize {
            return None;
        }
        // The first steps of a shuffle (R. Fisher and F. Yates, 1938).
        for place in 0..count as usize {
            let rest = (free.len() - place) as u64;
            let other = place + ((u128::from(self.0.next_u64()) * u128::from(rest)) >> 64) as usize;
            free.swap(place, other);
        }
        free.truncate(count as usize);
        Some(free)
    }
}

/// Selects the first consecutive free hosts.
#[derive(Clone, Copy, Debug, Default)]
pub struct Contiguous;

impl Memory for Contiguous {}

impl Selection for Contiguous {
    fn select(&mut self, count: u32, hosts: &Hosts, _: &Topology) -> Option<Vec<u32>> {
        let mut run: Vec<u32> = Vec::new();
        if count == 0 {
            return Some(run);
        }
        for host in hosts.free() {
            if run.last().is_some_and(|last| last + 1 != host) {
                run.clear();
            }
            run.push(host);
            if run.len() == count as usize {
                return Some(run);
            }
        }
        None
    }
}

/// Selects hosts of as few switches as possible: among switches with enough, the one with the fewest free hosts; otherwise, those with
/// most free hosts first.
#[derive(Clone, Copy, Debug, Default)]
pub struct TopologyAware;

impl Memory for TopologyAware {}

impl Selection for TopologyAware {
    fn select(&mut self, count: u32, hosts: &Hosts, topology: &Topology) -> Option<Vec<u32>> {
        if hosts.count() < count {
            return None;
        }
        let mut free: Vec<(u32, u32)> = hosts
            .free()
            .map(|host| (topology.switch_of(host), host))
            .collect();
        // Most topologies number hosts by switch already, for which a stable sort takes one pass.
        free.sort_by_key(|(switch, _)| *switch);
        let by_switch = free.chunk_by(|one, other| one.0 == other.0);
        let own = |free: &[(u32, u32)]| -> Vec<u32> {
            let first = free.iter().take(count as usize);
            first.map(|(_, host)| *host).collect()
        };
        let enough = by_switch
            .clone()
            .filter(|free| free.len() >= count as usize);
        if let Some(tightest) = enough.min_by_key(|free| free.len()) {
            return Some(own(tightest));
        }
        let mut most: Vec<&[(u32, u32)]> = by_switch.collect();
        most.sort_by_key(|free| std::cmp::Reverse(free.len()));
        Some(own(&most.concat()))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use belljar_sim::Seed;
    use proptest::prelude::*;

    use super::*;
    use crate::shapes::two_levels;

    proptest! {
        #[test]
        fn free_hosts_are_those_given_back(
            count in 0..200_u32,
            steps in prop::collection::vec((any::<bool>(), prop::collection::vec(0..220_u32, 0..80)), 0..20),
        ) {
            let mut hosts = Hosts::new(count);
            let mut free: BTreeSet<u32> = (0..count).collect();
            for (take, some) in steps {
                match take {
                    true => hosts.take(&some),
                    false => hosts.give_back(&some),
                }
                for host in some.into_iter().filter(|host| *host < count) {
                    match take {
                        true => free.remove(&host),
                        false => free.insert(host),
                    };
                }
                prop_assert!(hosts.free().eq(free.iter().copied()));
                prop_assert_eq!(hosts.count() as usize, free.len());
            }
        }

        #[test]
        fn hosts_of_few_switches_are_those_of_all_switches(taken in any::<u8>(), count in 0..9_u32) {
            let topology = two_levels();
            let mut hosts = Hosts::new(8);
            let taken: Vec<u32> = (0..8).filter(|host| taken >> host & 1 == 1).collect();
            hosts.take(&taken);
            let mut by_switch: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
            for host in hosts.free() {
                by_switch.entry(topology.switch_of(host)).or_default().push(host);
            }
            let mut most: Vec<&Vec<u32>> = by_switch.values().collect();
            most.sort_by_key(|free| std::cmp::Reverse(free.len()));
            let enough = by_switch.values().filter(|free| free.len() >= count as usize);
            let all = match enough.min_by_key(|free| free.len()) {
                Some(tightest) => tightest.clone(),
                None => most.into_iter().flatten().copied().collect(),
            };
            let first = (hosts.count() >= count).then(|| all[..count as usize].to_vec());
            prop_assert_eq!(TopologyAware.select(count, &hosts, &topology), first);
        }
    }

    #[test]
    fn policies_choose_as_they_say() {
        // Two switches with four hosts each.
        let topology = two_levels();
        let mut hosts = Hosts::new(8);
        hosts.take(&[0, 2, 5]);
        assert_eq!(hosts.count(), 5);
        let linear = Linear.select(3, &hosts, &topology);
        assert_eq!(linear, Some(vec![1, 3, 4]));
        assert_eq!(Contiguous.select(2, &hosts, &topology), Some(vec![3, 4]));
        assert_eq!(Contiguous.select(3, &hosts, &topology), None);
        // Switch 0 has hosts 1 and 3, switch 1 hosts 4, 6 and 7.
        let aware = TopologyAware.select(2, &hosts, &topology);
        assert_eq!(aware, Some(vec![1, 3]));
        let aware = TopologyAware.select(4, &hosts, &topology);
        assert_eq!(aware, Some(vec![4, 6, 7, 1]));
        let mut random = Anywhere(Random::new(Seed(1), "test", 0));
        let mut counts = [0; 8];
        for _ in 0..1000 {
            let mut chosen = random.select(2, &hosts, &topology).unwrap();
            chosen.sort_unstable();
            chosen.dedup();
            assert_eq!(chosen.len(), 2);
            for host in chosen {
                counts[host as usize] += 1;
            }
        }
        // Each of five is in two of five choices.
        for (host, count) in counts.into_iter().enumerate() {
            let taken = [0, 2, 5].contains(&host);
            assert!(taken == (count == 0), "{counts:?}");
            assert!(taken || (330..470).contains(&count), "{counts:?}");
        }
        assert!(random.select(6, &hosts, &topology).is_none());
        hosts.give_back(&[0, 2, 5]);
        assert_eq!(hosts.count(), 8);
    }
}
