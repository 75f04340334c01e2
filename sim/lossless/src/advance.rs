//! Events of hosts and switches, and their handling.
//!
//! A host's link and a switch's links affect each other only by events at least a cable's latency later: a packet's head, and
//! credits. Events of switches may thus be handled before earlier events of hosts, and the outcome does not depend on it.

use std::collections::BTreeSet;

use belljar_fabric::Endpoint;
use belljar_sim::{EventKey, EventQueue, Span, Time};

use crate::{Arrival, Lossless, OWN, Parcel, Path, Transit, before};

/// Events that have not been handled.
#[derive(Debug)]
pub(crate) struct Side<P> {
    /// Packets, at the time at which they are ready for a link.
    pub(crate) ready: EventQueue<Transit<P>>,
    /// Ports that try to send. At equal times after packets, so that all of these take part.
    pub(crate) attempts: BTreeSet<(Time, u32)>,
}

impl<P> Default for Side<P> {
    fn default() -> Self {
        Self {
            ready: EventQueue::new(),
            attempts: BTreeSet::new(),
        }
    }
}

impl<P> Side<P> {
    /// The time of the first event.
    pub(crate) fn next_time(&self) -> Option<Time> {
        let attempt = self.attempts.first().map(|(time, _)| *time);
        self.ready.next_time().into_iter().chain(attempt).min()
    }
}

impl<P: Parcel> Lossless<P> {
    /// Handles all events that no action of a host from `end` minus the least cable on can precede. Returns arrivals, for each host
    /// in order of time.
    pub fn advance(&mut self, end: Time) -> Vec<Arrival<P>> {
        let mut arrivals = Vec::new();
        let ends = [
            before(end, self.cable) + self.delays.before,
            end + self.lead,
        ];
        loop {
            let times = [self.hosts.next_time(), self.switches.next_time()];
            let of_hosts = times[0].filter(|time| *time < ends[0]);
            let of_switches = times[1].filter(|time| *time < ends[1]);
            match (of_hosts, of_switches) {
                (None, None) => break,
                (Some(host), Some(switch)) if switch < host => self.step(false, &mut arrivals),
                (Some(_), _) => self.step(true, &mut arrivals),
                (None, Some(_)) => self.step(false, &mut arrivals),
            }
        }
        // Of different links, which do not know of each other.
        arrivals.sort_by_key(|arrival| arrival.time);
        arrivals
    }

    /// Handles the first event of hosts or of switches.
    fn step(&mut self, of_hosts: bool, arrivals: &mut Vec<Arrival<P>>) {
        let side = match of_hosts {
            true => &mut self.hosts,
            false => &mut self.switches,
        };
        let attempt = side.attempts.first().copied();
        let limit = attempt.map_or(Time::MAX, |(time, _)| time + Span::from_ps(1));
        if let Some((key, transit)) = side.ready.pop_before(limit) {
            self.wait(key.time, transit);
        } else if let Some((time, port)) = side.attempts.pop_first() {
            self.ports[port as usize].attempt = None;
            self.try_to_send(time, port, arrivals);
        }
    }

    /// A packet is ready for its next link.
    fn wait(&mut self, now: Time, mut transit: Transit<P>) {
        let hop = match self.flows {
            Some(_) => self.adaptive_hop(now, &transit),
            None => {
                let path = self.path(transit.from, transit.to);
                path.get(transit.hop).copied()
            }
        };
        let Some(hop) = hop else {
            self.unroutable += 1;
            return;
        };
        transit.lane = hop.lane;
        self.ports[hop.port() as usize].wait(now, transit);
        self.plan_attempt(hop.port());
    }

    /// Finds when a port can next send.
    fn plan_attempt(&mut self, number: u32) {
        let is_of_host = self.is_of_host(number);
        let side = match is_of_host {
            true => &mut self.hosts,
            false => &mut self.switches,
        };
        let port = &mut self.ports[number as usize];
        if let Some(time) = port.attempt {
            side.attempts.remove(&(time, number));
        }
        port.attempt = port.next_attempt();
        side.attempts
            .extend(port.attempt.map(|time| (time, number)));
    }

    /// True if a host sends on this port.
    pub(crate) fn is_of_host(&self, port: u32) -> bool {
        let link = &self.topology.links()[port as usize / 2];
        matches!(link.ends[port as usize % 2], Endpoint::Host(_))
    }

    /// Puts a packet on a link if its wire is idle and a packet has credits.
    fn try_to_send(&mut self, now: Time, number: u32, arrivals: &mut Vec<Arrival<P>>) {
        let Some(mut transit) = self.ports[number as usize].take(now) else {
            self.plan_attempt(number);
            return;
        };
        let spec = self.topology.links()[number as usize / 2].spec;
        let length = transit.length();
        let busy = Span::of_transfer(length, spec.bandwidth);
        self.mark(now, number, &mut transit);
        self.ports[number as usize].send(now, transit.ready, busy, length);
        self.plan_attempt(number);
        if transit.input != OWN {
            self.free(now + busy, (transit.input, transit.input_lane), length);
        }
        if self.switch_behind(number).is_some() {
            self.pass(now, transit, number);
            return;
        }
        let end = now + busy + spec.latency;
        let (lane, to) = (transit.lane, transit.to as usize);
        arrivals.push(self.arrive(end, transit));
        let freed = before(self.written[to], self.delays.after).max(end);
        self.free(freed, (number, lane), length);
    }

    /// The buffer of a lane behind a port's link is free of a packet at `time`.
    fn free(&mut self, time: Time, (number, lane): (u32, u8), length: u64) {
        let back = self.topology.links()[number as usize / 2].spec.latency;
        let port = &mut self.ports[number as usize];
        port.give_back(lane, time + back, length);
        if port.is_waiting() {
            self.plan_attempt(number);
        }
    }

    /// A packet whose first bit leaves `number` at `start` comes through the switch behind.
    fn pass(&mut self, start: Time, mut transit: Transit<P>, number: u32) {
        let out = match self.flows {
            Some(_) => self.fastest_after(number, transit.to),
            None => {
                let path = self.path(transit.from, transit.to);
                let next = path.get(transit.hop + 1).map(|hop| hop.link as usize);
                next.map_or(u64::MAX, |link| self.topology.links()[link].spec.bandwidth)
            }
        };
        let links = self.topology.links();
        let link = &links[number as usize / 2];
        let through = match link.ends[1 - number as usize % 2] {
            Endpoint::Switch(switch) => self.topology.switches()[switch as usize].latency,
            Endpoint::Host(_) => Span::ZERO,
        };
        // A faster output waits until the tail cannot run dry.
        let length = transit.length();
        let slower = link.spec.bandwidth.min(out);
        let late = Span::of_transfer(length, slower) - Span::of_transfer(length, out);
        transit.ready = start + link.spec.latency + through + late;
        transit.hop += 1;
        (transit.input, transit.input_lane) = (number, transit.lane);
        let key = EventKey {
            time: transit.ready,
            kind: 0,
            source: number,
            sequence: self.ports[number as usize].figures.packets,
        };
        self.switches.ready.push(key, transit);
    }

    /// A packet's last bit is at its host at `end`; the card writes it behind the ones before.
    fn arrive(&mut self, end: Time, transit: Transit<P>) -> Arrival<P> {
        let written = &mut self.written[transit.to as usize];
        let data = Span::of_transfer(transit.packet.length() as u64, self.delays.bus);
        *written = (end + self.delays.after).max(*written) + data;
        Arrival {
            time: *written,
            host: transit.to,
            packet: transit.packet,
        }
    }

    /// The links from one host to another.
    pub(crate) fn path(&mut self, from: u32, to: u32) -> Path {
        if let Some(path) = self.known.get(&(from, to)) {
            return path.clone();
        }
        let links = self
            .paths
            .between(&self.topology, from, to, &[], 0, &|_, _| 0);
        let path: Path = self.datelines.lanes(&links).into();
        self.known.insert((from, to), path.clone());
        path
    }
}
