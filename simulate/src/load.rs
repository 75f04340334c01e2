//! The load of links: bits a second now, and over time.
//!
//! Links are directions of links of the topology, numbered by twice the link's number, plus one for downwards. Sums are of integers, so that adding and removing a flow
//! leaves no remainder. Mean and variance over links are kept as sums, and the highest load as the highest of each block of links. A change costs the same on any network:
//! it updates its block's highest load, or marks the block if that was its own. [`Loads::at`] recomputes marked blocks. Used by the simulation.

use serde::{Deserialize, Serialize};

use crate::job::Nanos;

/// Directions of links, and their load.
#[derive(Clone, Debug)]
pub struct Loads {
    links: Vec<LinkLoad>,
    /// The capacity of links.
    capacity: Vec<u64>,
    /// The highest load of each [`BLOCK_LINKS`] links, and whether it must be recomputed.
    highest: Vec<(u64, bool)>,
    sum: u128,
    squares: f64,
}

/// Links that share a highest load.
const BLOCK_LINKS: usize = 128;

/// A link's load until now.
#[derive(Clone, Copy, Debug, Default)]
struct LinkLoad {
    /// Bits a second.
    now: u64,
    /// Bits carried until `since`.
    carried: f64,
    since: Nanos,
    /// The highest load until now.
    most: u64,
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
        let links = self.links.iter();
        LoadsState {
            links: links
                .map(|link| (link.now, link.carried, link.since, link.most))
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
        self.squares = state.squares;
        let links = state.links.iter();
        let links = links.map(|(now, carried, since, most)| LinkLoad {
            now: *now,
            carried: *carried,
            since: *since,
            most: *most,
        });
        self.links = links.collect();
        self.sum = self.links.iter().map(|link| u128::from(link.now)).sum();
        // A block's highest load is a bound until it is recomputed.
        self.highest.fill((u64::MAX, true));
        true
    }

    /// Creates links of these capacities, without load.
    pub fn new(capacity: Vec<u64>) -> Self {
        let links = capacity.len();
        Self {
            links: vec![LinkLoad::default(); links],
            highest: vec![(0, false); links.div_ceil(BLOCK_LINKS)],
            capacity,
            sum: 0,
            squares: 0.0,
        }
    }

    /// Returns a link's current load, in bits a second.
    pub fn of(&self, link: u32) -> u64 {
        self.links.get(link as usize).map_or(0, |link| link.now)
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
        let Some(link) = self.links.get_mut(at) else {
            return;
        };
        let was = std::mem::replace(&mut link.now, rate);
        if link.since != time {
            let lasted = time.saturating_sub(link.since);
            link.carried += was as f64 * lasted as f64 / 1e9;
            link.since = time;
        }
        link.most = link.most.max(rate);
        self.sum = self.sum + u128::from(rate) - u128::from(was);
        self.squares += (rate as f64).powi(2) - (was as f64).powi(2);
        let (highest, recompute) = &mut self.highest[at / BLOCK_LINKS];
        if rate >= *highest {
            (*highest, *recompute) = (rate, false);
        } else if was == *highest {
            *recompute = true;
        }
    }

    /// Returns the highest load of a link.
    fn highest(&mut self) -> u64 {
        let blocks = self.links.chunks(BLOCK_LINKS).zip(&mut self.highest);
        let each = blocks.map(|(links, (highest, recompute))| {
            if *recompute {
                let loads = links.iter().map(|link| link.now);
                (*highest, *recompute) = (loads.max().unwrap_or(0), false);
            }
            *highest
        });
        each.max().unwrap_or(0)
    }

    /// Returns the load of all links at `time`.
    pub fn at(&mut self, time: Nanos) -> Load {
        let links = self.links.len().max(1) as f64;
        let mean = self.sum as f64 / links;
        let maximum = self.highest();
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
        let links = self.links.iter().zip(&self.capacity);
        let each = links.map(|(link, capacity)| {
            let rest = link.now as f64 * time.saturating_sub(link.since) as f64 / 1e9;
            LinkUse {
                mean: (link.carried + rest) / seconds,
                maximum: link.most,
                capacity: *capacity,
            }
        });
        each.collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_highest_load_is_that_of_all_links(
            changes in prop::collection::vec((0..300_u32, any::<bool>(), 0..20_u64, any::<bool>()), 0..400),
            restored in 0..400_usize,
        ) {
            let mut loads = Loads::new(vec![100; 300]);
            for (step, (link, up, rate, query)) in changes.into_iter().enumerate() {
                let time = step as Nanos;
                match up {
                    true => loads.add(time, link, rate),
                    false => loads.remove(time, link, rate),
                }
                if step == restored {
                    let state = loads.save();
                    loads = Loads::new(vec![100; 300]);
                    prop_assert!(loads.restore(time, &state));
                }
                if query {
                    let all = (0..300).map(|link| loads.of(link)).max();
                    prop_assert_eq!(Some(loads.at(time).maximum), all);
                }
            }
        }
    }

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
