//! Bounds of the earliest times of reservations.
//!
//! Reservations only take hosts away. A job therefore cannot begin before an earlier reservation of a job with at most its hosts and at most its estimate, and a search
//! begins there. Used by the profile of free hosts.

use std::collections::BTreeMap;

use super::WaitingJob;
use crate::job::Nanos;

/// Reservations by their hosts and estimates, as far as they are bounds.
#[derive(Debug)]
pub(super) struct StartBounds {
    /// Those of jobs with exactly these hosts, if that is no power of two.
    equal: BTreeMap<u32, Stairs>,
    /// Those of jobs with at most this power of two of hosts, and more than half of it.
    powers: [Stairs; u32::BITS as usize + 1],
}

impl Default for StartBounds {
    fn default() -> Self {
        Self {
            equal: BTreeMap::new(),
            powers: std::array::from_fn(|_| Stairs::default()),
        }
    }
}

impl StartBounds {
    /// Returns a time before which a job cannot begin.
    pub(super) fn of(&self, job: &WaitingJob) -> Nanos {
        let equal = self.equal.get(&job.hosts);
        let powers = job.hosts.checked_ilog2().map_or(0, |power| power + 1);
        let all = self.powers[..powers as usize].iter().chain(equal);
        all.map(|it| it.until(job.estimate)).max().unwrap_or(0)
    }

    /// Adds a reservation at the earliest time that was possible.
    pub(super) fn add(&mut self, job: &WaitingJob, at: Nanos) {
        let hosts = job.hosts.max(1);
        let above = u32::BITS - (hosts - 1).leading_zeros();
        self.powers[above as usize].add(job.estimate, at);
        if !job.hosts.is_power_of_two() {
            let equal = self.equal.entry(job.hosts).or_default();
            equal.add(job.estimate, at);
        }
    }
}

/// Estimates and times, both ascending: jobs of this estimate or more begin at this time or later.
#[derive(Debug, Default)]
struct Stairs(Vec<(Nanos, Nanos)>);

impl Stairs {
    /// Returns the bound for jobs of an estimate.
    fn until(&self, estimate: Nanos) -> Nanos {
        let above = self.0.partition_point(|(own, _)| *own <= estimate);
        let last = above.checked_sub(1).map(|last| self.0[last].1);
        last.unwrap_or(0)
    }

    /// Adds a bound, unless another one implies it.
    fn add(&mut self, estimate: Nanos, at: Nanos) {
        let from = self.0.partition_point(|(own, _)| *own <= estimate);
        if from
            .checked_sub(1)
            .is_some_and(|below| self.0[below].1 >= at)
        {
            return;
        }
        let rest = &self.0[from..];
        let implied = rest.partition_point(|(_, time)| *time <= at);
        let equal = usize::from(from > 0 && self.0[from - 1].0 == estimate);
        match (from - equal, equal + implied) {
            (place, 0) => self.0.insert(place, (estimate, at)),
            (place, some) => {
                self.0[place] = (estimate, at);
                self.0.drain(place + 1..place + some);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bounds_are_those_of_smaller_jobs(jobs in prop::collection::vec((0..20_u32, 0..20_u64, 0..50_u64), 1..60)) {
            let mut bounds = StartBounds::default();
            let mut all: Vec<(u32, Nanos, Nanos)> = Vec::new();
            for (hosts, estimate, at) in jobs {
                let job = WaitingJob { job: 0, hosts, estimate };
                let smaller = all.iter().filter(|it| it.0 <= hosts && it.1 <= estimate);
                // Jobs of other hosts count by powers of two.
                let counts = |it: &&(u32, Nanos, Nanos)| it.0 == hosts || it.0.max(1).next_power_of_two() <= hosts;
                let bound = smaller.filter(counts).map(|it| it.2).max();
                prop_assert_eq!(bounds.of(&job), bound.unwrap_or(0));
                bounds.add(&job, at);
                all.push((hosts, estimate, at));
            }
        }
    }
}
