//! Number of free hosts over time, with reservations.
//!
//! The profile is a step function from now on. Its steps are in blocks, each with its lowest and highest value: a search skips blocks in which no step or every step has
//! enough hosts, and a reservation changes whole blocks at once. Used by conservative backfilling.

/// Bounds of reservations' times.
mod bounds;

use super::{Queue, Running, WaitingJob};
use crate::job::Nanos;
use bounds::StartBounds;

/// Most steps of a block. Blocks are as short as the list of blocks for profiles of some ten thousand steps.
const BLOCK_STEPS: usize = 64;

/// Number of free hosts from a time on, until the next step. [`BlockHead::reserved`] is not subtracted.
#[derive(Clone, Copy, Debug)]
struct ProfileStep {
    time: Nanos,
    free: u32,
}

/// A block's summary, apart from its steps so that a search reads only summaries.
#[derive(Clone, Copy, Debug)]
struct BlockHead {
    /// The time of its first step.
    start: Nanos,
    /// The fewest and the most free hosts of its steps.
    least: u32,
    most: u32,
    /// Hosts to subtract from each of its steps.
    reserved: u32,
}

/// Number of free hosts from each time on.
#[derive(Debug)]
pub(super) struct FreeHostProfile {
    /// As many as there are `blocks`.
    heads: Vec<BlockHead>,
    /// Steps in the order of time; no block is empty.
    blocks: Vec<Vec<ProfileStep>>,
    /// Reservations so far: no later and larger one is before them.
    bounds: StartBounds,
}

impl FreeHostProfile {
    /// Returns the profile of running jobs, which end at their users' estimates.
    pub(super) fn of(queue: Queue<'_>) -> Self {
        let Queue { now, free, .. } = queue;
        let mut ends: Vec<Running> = queue.running.to_vec();
        ends.sort_unstable_by_key(|job| job.ends);
        let mut steps = vec![ProfileStep { time: now, free }];
        for job in ends {
            let last = steps[steps.len() - 1];
            // Overdue jobs may end at once.
            let time = job.ends.max(now);
            let free = last.free + job.hosts;
            match last.time == time {
                true => steps.last_mut().into_iter().for_each(|it| it.free = free),
                false => steps.push(ProfileStep { time, free }),
            }
        }
        let blocks: Vec<_> = steps.chunks(BLOCK_STEPS / 2).map(<[_]>::to_vec).collect();
        let heads = blocks.iter().map(|block| head(block, 0)).collect();
        Self {
            heads,
            blocks,
            bounds: StartBounds::default(),
        }
    }

    /// Returns the number of hosts that are free now.
    pub(super) fn free_now(&self) -> u32 {
        let first = self.heads.first().zip(self.blocks.first());
        first.map_or(0, |(head, block)| block[0].free - head.reserved)
    }

    /// Returns the earliest time at which a job can begin and has its hosts for its duration; `None` if never.
    pub(super) fn first(&self, job: &WaitingJob) -> Option<Nanos> {
        let bound = self.bounds.of(job);
        let number = self.block_of(bound);
        let mut from: Option<Nanos> = None;
        for (head, block) in self.heads[number..].iter().zip(&self.blocks[number..]) {
            let over = |time: Nanos, from: Option<Nanos>| {
                from.is_some_and(|began| time >= began.saturating_add(job.estimate))
            };
            if over(head.start, from) {
                break;
            }
            if head.most < job.hosts {
                from = None;
                continue;
            }
            if head.least >= job.hosts && head.start >= bound {
                from = from.or(Some(head.start));
                continue;
            }
            // Not above the block's highest value, which is free, so the sum is a number of hosts.
            let hosts = job.hosts + head.reserved;
            for step in block.iter().filter(|step| step.time >= bound) {
                if over(step.time, from) {
                    return from;
                }
                from = match step.free >= hosts {
                    true => from.or(Some(step.time)),
                    false => None,
                };
            }
        }
        from
    }

    /// Reserves hosts from a time that [`first`](Self::first) returned, for a job's duration.
    pub(super) fn reserve(&mut self, at: Nanos, job: &WaitingJob) {
        let ends = at.saturating_add(job.estimate);
        self.bounds.add(job, at);
        self.split_at(at);
        self.split_at(ends);
        let first = self.block_of(at);
        for (head, block) in self.heads[first..]
            .iter_mut()
            .zip(&mut self.blocks[first..])
            .take_while(|(head, _)| head.start < ends)
        {
            let whole = head.start >= at && block.last().is_some_and(|step| step.time < ends);
            if whole {
                head.reserved += job.hosts;
                head.least -= job.hosts;
                head.most -= job.hosts;
                continue;
            }
            for step in block.iter_mut() {
                if (at..ends).contains(&step.time) {
                    step.free -= job.hosts;
                }
            }
            *head = self::head(block, head.reserved);
        }
    }

    /// Makes `time`, which is not before now, the time of a step.
    fn split_at(&mut self, time: Nanos) {
        let number = self.block_of(time);
        let block = &mut self.blocks[number];
        let place = block.partition_point(|step| step.time < time);
        if block.get(place).is_some_and(|step| step.time == time) {
            return;
        }
        let Some(before) = place.checked_sub(1).map(|before| block[before]) else {
            return;
        };
        block.insert(place, ProfileStep { time, ..before });
        if block.len() > BLOCK_STEPS {
            let second = block.split_off(BLOCK_STEPS / 2);
            let reserved = self.heads[number].reserved;
            self.heads[number] = head(block, reserved);
            self.heads.insert(number + 1, head(&second, reserved));
            self.blocks.insert(number + 1, second);
        }
    }

    /// Returns the last block that begins at a time or before it.
    fn block_of(&self, time: Nanos) -> usize {
        let after = self.heads.partition_point(|head| head.start <= time);
        after.saturating_sub(1)
    }
}

/// Returns a block's summary, with this many hosts to subtract from its steps.
fn head(block: &[ProfileStep], reserved: u32) -> BlockHead {
    let free = || block.iter().map(|step| step.free - reserved);
    BlockHead {
        start: block.first().map_or(0, |step| step.time),
        least: free().min().unwrap_or(0),
        most: free().max().unwrap_or(0),
        reserved,
    }
}

#[cfg(test)]
mod tests;
