//! The operations of each port group in each cycle.
//!
//! Cycles are entries of a ring, with the cycle for which they are valid: older ones are empty. `schedule` takes the
//! first cycle in which a group, and the wider group that it belongs to, has a free place.

use crate::class::PortGroup;
use crate::processor::Processor;

/// Cycles in the ring: more than any operation is ahead of others in practice.
const CYCLES: usize = 2048;
const GROUPS: usize = PortGroup::ALL.len();

#[derive(Clone, Copy, Debug)]
struct Cycle {
    number: u64,
    taken: [u8; GROUPS],
}

/// The operations of each port group.
#[derive(Debug)]
pub(super) struct Calendar {
    cycles: Box<[Cycle]>,
    limits: [u8; GROUPS],
}

impl Calendar {
    pub(super) fn new(processor: &Processor) -> Self {
        let none = Cycle {
            number: u64::MAX,
            taken: [0; GROUPS],
        };
        Self {
            cycles: vec![none; CYCLES].into(),
            limits: PortGroup::ALL.map(|group| processor.ports(group) as u8),
        }
    }

    fn cycle(&mut self, number: u64) -> &mut Cycle {
        let cycle = &mut self.cycles[number as usize % CYCLES];
        if cycle.number != number {
            *cycle = Cycle {
                number,
                taken: [0; GROUPS],
            };
        }
        cycle
    }

    /// Takes a place of `group` for `occupancy` cycles: the first free one is `from` or later and returned, and the
    /// others are the next free ones. A divider thus works without gaps, in which no whole division would fit.
    pub(super) fn take(&mut self, group: PortGroup, from: u64, occupancy: u32) -> u64 {
        let mut at = from;
        while !self.is_free(group, at) {
            at += 1;
        }
        if let Some(wider) = group.wider() {
            self.cycle(at).taken[wider as usize] += 1;
        }
        let limit = self.limits[group as usize];
        let (mut left, mut number) = (occupancy, at);
        while left > 0 {
            let taken = &mut self.cycle(number).taken[group as usize];
            if *taken < limit {
                *taken += 1;
                left -= 1;
            }
            number += 1;
        }
        at
    }

    /// True if `group`, and the wider group that it belongs to, have a place in cycle `at`.
    fn is_free(&mut self, group: PortGroup, at: u64) -> bool {
        let limits = self.limits;
        let taken = &self.cycle(at).taken;
        let free = |group: PortGroup| taken[group as usize] < limits[group as usize];
        free(group) && group.wider().is_none_or(free)
    }

    /// Takes a place of a load.
    pub(super) fn load(&mut self, vector: bool, from: u64) -> u64 {
        let group = if vector {
            PortGroup::VectorLoad
        } else {
            PortGroup::Load
        };
        self.take(group, from, 1)
    }

    /// Takes a place of a store.
    pub(super) fn store(&mut self, from: u64) -> u64 {
        self.take(PortGroup::Store, from, 1)
    }
}
