//! Methods that find a placement without playing it.
//!
//! All of them depend only on the traffic, the latencies of routes, and the number of slots of each host; ties go to the lower number. Used by the search.

use belljar_networks::Latencies;
use belljar_sim::Random;

use super::traffic::Traffic;

/// The input of the methods.
pub(super) struct Ground<'t> {
    traffic: &'t Traffic,
    latencies: Latencies,
    hosts: u32,
    slots: u32,
}

/// Most passes over all pairs that improve a cut.
const PASSES: usize = 8;

impl<'t> Ground<'t> {
    pub(super) fn new(traffic: &'t Traffic, latencies: Latencies, hosts: u32, slots: u32) -> Self {
        Self {
            traffic,
            latencies,
            hosts,
            slots,
        }
    }

    fn count(&self) -> usize {
        self.traffic.with.len()
    }

    /// True if no host has more processes than slots.
    pub(super) fn fits(&self, placement: &[u32]) -> bool {
        let mut taken = vec![0; self.hosts as usize];
        placement.iter().all(|host| {
            let Some(own) = taken.get_mut(*host as usize) else {
                return false;
            };
            *own += 1;
            *own <= self.slots
        })
    }

    /// Returns frames times latency, summed over pairs, in picoseconds.
    pub(super) fn weight(&mut self, placement: &[u32]) -> u64 {
        let mut sum = 0u64;
        for (process, with) in self.traffic.with.iter().enumerate() {
            for (other, frames) in with.range(process as u32..) {
                let way = self
                    .latencies
                    .between(placement[process], placement[*other as usize]);
                sum = sum.saturating_add(way.as_ps().saturating_mul(*frames));
            }
        }
        sum
    }

    /// Fills one host after the other.
    pub(super) fn block(&self) -> Vec<u32> {
        let slots = self.slots;
        (0..self.count() as u32)
            .map(|process| process / slots)
            .collect()
    }

    /// Returns a round robin over as few hosts as possible.
    pub(super) fn cyclic(&self) -> Vec<u32> {
        let count = self.count() as u32;
        let hosts = count.div_ceil(self.slots).max(1);
        (0..count).map(|process| process % hosts).collect()
    }

    /// Places the process with the most traffic to placed ones next, on the free slot nearest to them.
    pub(super) fn greedy(&mut self) -> Vec<u32> {
        let count = self.count();
        let mut placed: Vec<Option<u32>> = vec![None; count];
        let mut free = vec![self.slots; self.hosts as usize];
        for _ in 0..count {
            let bound = |process: usize| {
                let with = self.traffic.with[process].iter();
                let with = with.filter(|(other, _)| placed[**other as usize].is_some());
                with.fold(0u64, |sum, (_, frames)| sum.saturating_add(*frames))
            };
            let open = (0..count).filter(|process| placed[*process].is_none());
            let next = open.max_by_key(|process| {
                (
                    bound(*process),
                    self.traffic.all(*process),
                    std::cmp::Reverse(*process),
                )
            });
            let Some(next) = next else { break };
            let mut best: Option<(u64, u32)> = None;
            for host in 0..self.hosts {
                if free[host as usize] == 0 {
                    continue;
                }
                let mut cost = 0u64;
                for (other, frames) in &self.traffic.with[next] {
                    if let Some(there) = placed[*other as usize] {
                        let way = self.latencies.between(host, there).as_ps();
                        cost = cost.saturating_add(way.saturating_mul(*frames));
                    }
                }
                if best.is_none_or(|(least, _)| cost < least) {
                    best = Some((cost, host));
                }
            }
            if let Some((_, host)) = best {
                placed[next] = Some(host);
                free[host as usize] -= 1;
            }
        }
        placed.into_iter().map(|host| host.unwrap_or(0)).collect()
    }

    /// Hosts are halved by their distances to two that are far from each other, processes by low traffic, and so on in each half.
    pub(super) fn bisection(&mut self) -> Vec<u32> {
        let mut placement = vec![0; self.count()];
        let needed = (self.count() as u32).div_ceil(self.slots);
        let hosts = (0..needed.min(self.hosts)).collect();
        let processes = (0..self.count() as u32).collect();
        let mut open: Vec<(Vec<u32>, Vec<u32>)> = vec![(hosts, processes)];
        while let Some((hosts, processes)) = open.pop() {
            if let [host] = hosts[..] {
                for process in processes {
                    placement[process as usize] = host;
                }
                continue;
            }
            let (near, far) = self.halves(&hosts);
            let room = near.len() * self.slots as usize;
            let share = processes.len() * near.len() / hosts.len();
            let spill = processes
                .len()
                .saturating_sub(far.len() * self.slots as usize);
            let (first, second) = self.cut(processes, share.clamp(spill, room));
            open.push((near, first));
            open.push((far, second));
        }
        placement
    }

    /// Returns hosts near one, and the others, which are near one far from it.
    fn halves(&mut self, hosts: &[u32]) -> (Vec<u32>, Vec<u32>) {
        let first = hosts[0];
        let far = |latencies: &mut Latencies, from: u32| {
            let ways = hosts
                .iter()
                .map(|host| (latencies.between(from, *host), *host));
            ways.max_by_key(|(way, host)| (*way, std::cmp::Reverse(*host)))
                .map_or(first, |(_, host)| host)
        };
        let one = far(&mut self.latencies, first);
        let other = far(&mut self.latencies, one);
        let mut all: Vec<(i64, u32)> = Vec::new();
        for host in hosts {
            let to = |latencies: &mut Latencies, end| latencies.between(end, *host).as_ps() as i64;
            let nearer = to(&mut self.latencies, other) - to(&mut self.latencies, one);
            all.push((nearer, *host));
        }
        all.sort_unstable();
        let mut hosts: Vec<u32> = all.into_iter().map(|(_, host)| host).collect();
        let far = hosts.split_off(hosts.len() / 2);
        (hosts, far)
    }

    /// Splits the processes into `first` and the others, with little traffic between both parts: swaps of a pair, as long as one helps (B. Kernighan, S.
    /// Lin, 1970).
    fn cut(&self, processes: Vec<u32>, first: usize) -> (Vec<u32>, Vec<u32>) {
        let mut side = vec![None; self.count()];
        for (index, process) in processes.iter().enumerate() {
            side[*process as usize] = Some(index >= first);
        }
        // The reduction of the cut if the process moved to the other side.
        let gain = |side: &[Option<bool>], process: u32| {
            let own = side[process as usize];
            let with = self.traffic.with[process as usize].iter();
            with.fold(0i64, |sum, (other, frames)| {
                let frames = i64::try_from(*frames).unwrap_or(i64::MAX);
                match side[*other as usize] {
                    None => sum,
                    there if there == own => sum.saturating_sub(frames),
                    _ => sum.saturating_add(frames),
                }
            })
        };
        for _ in 0..PASSES {
            let mut changed = false;
            for one in &processes {
                let own = side[*one as usize];
                let gains = |other: &&u32| side[**other as usize] != own;
                let best = processes.iter().filter(gains).map(|other| {
                    let between = self.traffic.with[*one as usize].get(other).copied();
                    let between = i64::try_from(between.unwrap_or(0)).unwrap_or(i64::MAX);
                    let both = gain(&side, *one).saturating_add(gain(&side, *other));
                    (both.saturating_sub(between.saturating_mul(2)), *other)
                });
                let best = best.max_by_key(|(gain, other)| (*gain, std::cmp::Reverse(*other)));
                if let Some((_, other)) = best.filter(|(gain, _)| *gain > 0) {
                    side.swap(*one as usize, other as usize);
                    changed = true;
                }
            }
            if !changed {
                break;
            }
        }
        let is_first = |process: &u32| side[*process as usize] == Some(false);
        processes.into_iter().partition(is_first)
    }

    /// Returns the placement with two processes of different hosts swapped, or one moved to a free slot.
    pub(super) fn swapped(&self, placement: &[u32], random: &mut Random) -> Vec<u32> {
        let mut placement = placement.to_vec();
        let count = placement.len();
        if count == 0 {
            return placement;
        }
        let mut draw = |below: usize| (random.next_u64() % below.max(1) as u64) as usize;
        let one = draw(count);
        let host = draw(self.hosts as usize) as u32;
        let there: Vec<usize> = (0..count)
            .filter(|process| placement[*process] == host)
            .collect();
        if there.len() < self.slots as usize {
            placement[one] = host;
        } else {
            let other = there[draw(there.len())];
            placement.swap(one, other);
        }
        placement
    }
}
