//! The load of links: bits a second now, and over time.
//!
//! Links are directions of links of the topology, numbered by twice the link's number, plus one for downwards. Sums are of integers, so that adding and removing a flow
//! leaves no remainder. Mean and variance over links are kept as sums, and the highest load by the number of links with each load. The cost of a change therefore does
//! not depend on the size of the network. Used by the simulation.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::job::Nanos;

/// Directions of links, and their load.
#[derive(Clone, Debug)]
pub struct Loads {
    /// Bits a second, by link.
    now: Vec<u64>,
    /// The capacity of links.
    capacity: Vec<u64>,
    /// Bits carried, and the time up to which they are computed.
    carried: Vec<(f64, Nanos)>,
    /// The highest load of each.
    most: Vec<u64>,
    /// Number of links by load.
    counts: BTreeMap<u64, u32>,
    sum: u128,
    squares: f64,
}

/// The load of all links at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Load {
    /// The time, in nanoseconds.
    pub time: Nanos,
    /// Bits a second on the busiest link.
    pub maximum: u64,
    /// Bits a second, mean of all links.
    pub mean: f64,
    /// Variance over links.
    pub variance: f64,
}

/// The load of a link over time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LinkUse {
    /// Bits a second, mean over the time.
    pub mean: f64,
    /// The highest load.
    pub maximum: u64,
    /// Its capacity.
    pub capacity: u64,
}

/// The mutable state of [`Loads`], as plain values.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct LoadsState {
    /// By link: bits a second now, bits carried, the time up to which they are computed, and the highest load.
    links: Vec<(u64, f64, Nanos, u64)>,
    /// A sum whose last bits depend on the order of all changes.
    squares: f64,
}

impl LoadsState {
    /// True if links have this load now.
    pub(crate) fn carries(&self, now: &[u64]) -> bool {
        self.links.iter().map(|(now, ..)| now).eq(now)
    }
}

impl Loads {
    /// Returns the mutable state.
    pub(crate) fn save(&self) -> LoadsState {
        let links = self.now.iter().zip(&self.carried).zip(&self.most);
        LoadsState {
            links: links
                .map(|((now, (carried, since)), most)| (*now, *carried, *since, *most))
                .collect(),
            squares: self.squares,
        }
    }

    /// Continues at `time` from an untrusted `state`, and returns true if it fits these links. Otherwise, nothing has changed.
    #[must_use]
    pub(crate) fn restore(&mut self, time: Nanos, state: &LoadsState) -> bool {
        let amount = |value: f64| value.is_finite() && value >= 0.0;
        let mut links = state.links.iter();
        let sound = state.links.len() == self.capacity.len()
            && state.squares.is_finite()
            && links.all(|(now, carried, since, most)| {
                amount(*carried) && *since <= time && now <= most
            });
        if !sound {
            return false;
        }
        self.counts.clear();
        self.sum = 0;
        self.squares = state.squares;
        for (link, (now, carried, since, most)) in state.links.iter().enumerate() {
            self.now[link] = *now;
            self.carried[link] = (*carried, *since);
            self.most[link] = *most;
            *self.counts.entry(*now).or_default() += 1;
            self.sum += u128::from(*now);
        }
        true
    }

    /// Creates links of these capacities, without load.
    pub fn new(capacity: Vec<u64>) -> Self {
        let links = capacity.len();
        Self {
            now: vec![0; links],
            carried: vec![(0.0, 0); links],
            most: vec![0; links],
            counts: BTreeMap::from([(0, links as u32)]),
            capacity,
            sum: 0,
            squares: 0.0,
        }
    }

    /// Returns a link's current load, in bits a second.
    pub fn of(&self, link: u32) -> u64 {
        self.now.get(link as usize).copied().unwrap_or(0)
    }

    /// Returns a link's capacity.
    pub fn capacity(&self, link: u32) -> u64 {
        self.capacity.get(link as usize).copied().unwrap_or(0)
    }

    /// Increases a link's load from `time` on.
    pub fn add(&mut self, time: Nanos, link: u32, rate: u64) {
        let was = self.of(link);
        self.set(time, link, was.saturating_add(rate));
    }

    /// Decreases a link's load from `time` on.
    pub fn remove(&mut self, time: Nanos, link: u32, rate: u64) {
        let was = self.of(link);
        self.set(time, link, was.saturating_sub(rate));
    }

    fn set(&mut self, time: Nanos, link: u32, rate: u64) {
        let at = link as usize;
        let Some(now) = self.now.get_mut(at) else {
            return;
        };
        let was = std::mem::replace(now, rate);
        let (carried, since) = &mut self.carried[at];
        *carried += was as f64 * time.saturating_sub(*since) as f64 / 1e9;
        *since = time;
        self.most[at] = self.most[at].max(rate);
        self.sum = self.sum + u128::from(rate) - u128::from(was);
        self.squares += (rate as f64).powi(2) - (was as f64).powi(2);
        if let Some(count) = self.counts.get_mut(&was) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&was);
            }
        }
        *self.counts.entry(rate).or_default() += 1;
    }

    /// Returns the load of all links at `time`.
    pub fn at(&self, time: Nanos) -> Load {
        let links = self.now.len().max(1) as f64;
        let mean = self.sum as f64 / links;
        let maximum = self.counts.last_key_value().map_or(0, |(load, _)| *load);
        Load {
            time,
            maximum,
            mean,
            // Rounding may leave a slightly negative value.
            variance: match maximum {
                0 => 0.0,
                _ => (self.squares / links - mean * mean).max(0.0),
            },
        }
    }

    /// Returns the load of each link from the beginning until `time`.
    pub fn uses(&self, time: Nanos) -> Vec<LinkUse> {
        let seconds = time.max(1) as f64 / 1e9;
        let links = (0..).zip(&self.now);
        let each = links.map(|(at, now): (usize, _)| {
            let (carried, since) = self.carried[at];
            let rest = *now as f64 * time.saturating_sub(since) as f64 / 1e9;
            LinkUse {
                mean: (carried + rest) / seconds,
                maximum: self.most[at],
                capacity: self.capacity[at],
            }
        });
        each.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Nanos = 1_000_000_000;

    #[test]
    fn loads_are_sums_and_leave_nothing() {
        let mut loads = Loads::new(vec![10, 10, 10, 10]);
        loads.add(0, 0, 6);
        loads.add(0, 1, 2);
        loads.add(SECOND, 0, 2);
        let load = loads.at(SECOND);
        assert_eq!((load.maximum, load.mean), (8, 2.5));
        // Loads of 8, 2, 0, 0: squares 68 over 4, minus 2.5 squared.
        assert_eq!(load.variance, 10.75);
        loads.remove(3 * SECOND, 0, 6);
        assert_eq!(loads.at(3 * SECOND).maximum, 2);
        loads.remove(4 * SECOND, 0, 2);
        loads.remove(4 * SECOND, 1, 2);
        let load = loads.at(4 * SECOND);
        assert_eq!((load.maximum, load.mean, load.variance), (0, 0.0, 0.0));
        let uses = loads.uses(8 * SECOND);
        // 6 for a second, 8 for two, 2 for one.
        assert_eq!((uses[0].mean, uses[0].maximum), (24.0 / 8.0, 8));
        assert_eq!((uses[1].mean, uses[3].maximum), (1.0, 0));
    }
}
