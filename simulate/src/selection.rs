//! Selection of free hosts for a job.
//!
//! Used by the simulation when a job starts. A policy may find none although enough are free; then the job continues to wait.

use std::collections::BTreeMap;

use belljar_fabric::Topology;
use belljar_sim::{Random, decode, encode};

use crate::memory::Memory;

/// The hosts, with the free ones marked.
#[derive(Clone, Debug)]
pub struct Hosts {
    free: Vec<bool>,
    count: u32,
}

impl Hosts {
    /// Creates this many hosts, all free.
    pub fn new(count: u32) -> Self {
        Self {
            free: vec![true; count as usize],
            count,
        }
    }

    /// Returns the number of free hosts.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Returns the free hosts, in order.
    pub fn free(&self) -> impl Iterator<Item = u32> + '_ {
        (0..)
            .zip(&self.free)
            .filter(|(_, free)| **free)
            .map(|(host, _)| host)
    }

    pub(crate) fn take(&mut self, hosts: &[u32]) {
        self.set(hosts, false);
    }

    pub(crate) fn give_back(&mut self, hosts: &[u32]) {
        self.set(hosts, true);
    }

    fn set(&mut self, hosts: &[u32], free: bool) {
        for host in hosts {
            if let Some(own) = self.free.get_mut(*host as usize)
                && *own != free
            {
                *own = free;
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
        let mut by_switch: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for host in hosts.free() {
            by_switch
                .entry(topology.switch_of(host))
                .or_default()
                .push(host);
        }
        let enough = by_switch
            .values()
            .filter(|free| free.len() >= count as usize);
        if let Some(tightest) = enough.min_by_key(|free| free.len()) {
            return Some(tightest[..count as usize].to_vec());
        }
        let mut most: Vec<&Vec<u32>> = by_switch.values().collect();
        most.sort_by_key(|free| std::cmp::Reverse(free.len()));
        let all = most.into_iter().flatten().copied();
        Some(all.take(count as usize).collect())
    }
}

#[cfg(test)]
mod tests {
    use belljar_sim::Seed;

    use super::*;
    use crate::shapes::two_levels;

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
