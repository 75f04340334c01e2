//! Links that wait for each other in a circle.
//!
//! A circle never dissolves: each of its buffers holds only packets that wait for room in the next one. Found on request, from the
//! packets that wait; the state of the fabric does not change. Called for the verdict and the summary of a run, and by replays.

use std::collections::{BTreeMap, BTreeSet};

use belljar_fabric::{Direction, LinkId};

use crate::{Lossless, OWN, Parcel};

/// A lane of a port.
type Channel = (u32, u8);

impl<P: Parcel> Lossless<P> {
    /// Links that wait for each other's credits in a circle and will never get them, in the order of waiting; none if every packet
    /// will arrive. Each entry has the virtual lane.
    pub fn circle(&self) -> Option<Vec<(LinkId, Direction, u8)>> {
        let waits = self.stuck();
        let mut channel = *waits.keys().next()?;
        let mut seen: Vec<Channel> = Vec::new();
        let begin = loop {
            if let Some(begin) = seen.iter().position(|other| *other == channel) {
                break begin;
            }
            seen.push(channel);
            channel = *waits.get(&channel)?.first()?;
        };
        let name = |(port, lane): &Channel| {
            let direction = [Direction::Up, Direction::Down][*port as usize % 2];
            (port / 2, direction, *lane)
        };
        Some(seen[begin..].iter().map(name).collect())
    }

    /// Lanes whose far buffer holds only packets that wait for other such lanes, each with those.
    fn stuck(&self) -> BTreeMap<Channel, BTreeSet<Channel>> {
        let mut waits: BTreeMap<Channel, BTreeSet<Channel>> = BTreeMap::new();
        let mut held: BTreeMap<Channel, u64> = BTreeMap::new();
        for (number, port) in (0..).zip(&self.ports) {
            for (lane_number, lane) in (0..).zip(&port.lanes) {
                let packets = lane.waiting.values().flatten();
                for transit in packets.filter(|transit| transit.input != OWN) {
                    let from = (transit.input, transit.input_lane);
                    waits.entry(from).or_default().insert((number, lane_number));
                    *held.entry(from).or_default() += transit.length();
                }
            }
        }
        // Credits of packets that are on their way come back.
        waits.retain(|channel, _| {
            let (number, lane) = *channel;
            let port = &self.ports[number as usize];
            let of_lane = &port.lanes[usize::from(lane)];
            let coming: u64 = of_lane.returns.values().sum();
            let used = self.flow.buffer.saturating_sub(of_lane.credits + coming);
            let is_blocked = !of_lane.waiting.is_empty() && port.attempt.is_none();
            is_blocked && held.get(channel) == Some(&used)
        });
        loop {
            let stuck: BTreeSet<Channel> = waits.keys().copied().collect();
            waits.retain(|_, outputs| outputs.is_subset(&stuck));
            if waits.len() == stuck.len() {
                return waits;
            }
        }
    }
}
