//! Frames on their way.

use std::collections::BTreeMap;

use belljar_sim::{EventKey, EventQueue, Span, Time};

use crate::frame::{Frame, Mac};
use crate::link::{LinkStatistics, Port};
use crate::topology::{Endpoint, LinkId, Topology};

/// Which way along a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// From the first end to the second: up, away from the host.
    Up,
    /// From the second end to the first.
    Down,
}

impl Direction {
    fn index(self) -> usize {
        match self {
            Self::Up => 0,
            Self::Down => 1,
        }
    }
}

/// A frame that arrives at a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// When its last bit is in.
    pub time: Time,
    /// Where.
    pub host: u32,
    /// What.
    pub frame: Frame,
}

/// A frame seen on a watched link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// When its first bit is on the wire.
    pub time: Time,
    /// The link.
    pub link: LinkId,
    /// Which way it went.
    pub direction: Direction,
    /// What.
    pub frame: Frame,
}

/// Bytes that may wait in a host's NIC: a driver's ring of large frames.
const HOST_QUEUE_BYTES: u64 = 64 << 20;

/// A frame whose last bit reaches a place over a link.
#[derive(Clone, Debug)]
struct Arrival {
    link: LinkId,
    direction: Direction,
    frame: Frame,
}

/// Kinds of event at one time: frames that hosts send come before those that are
/// already on their way.
const KIND_SENT: u8 = 0;
const KIND_ARRIVAL: u8 = 1;

/// A topology in operation.
pub struct Fabric {
    topology: Topology,
    /// By link, then by direction.
    ports: Vec<[Port; 2]>,
    /// For each switch and host, the link towards it.
    routes: Vec<Vec<LinkId>>,
    /// Links at each switch.
    switch_links: Vec<Vec<LinkId>>,
    host_links: Vec<LinkId>,
    hosts_by_mac: BTreeMap<Mac, u32>,
    events: EventQueue<Event>,
    sequence: u64,
    watched: Vec<bool>,
    captured: Vec<Captured>,
    deliveries: Vec<Delivery>,
}

#[derive(Clone, Debug)]
enum Event {
    Sent { host: u32, frame: Frame },
    Arrival(Arrival),
}

impl Fabric {
    /// Sets a topology in operation at time zero.
    pub fn new(topology: Topology) -> Self {
        let ports = topology
            .links()
            .iter()
            .map(|link| {
                let port = |from| Port::new(link.spec, queue_of(&topology, from));
                [port(link.ends[0]), port(link.ends[1])]
            })
            .collect();
        let at = |place| links_at(&topology, place);
        let switches = 0..topology.switches().len() as u32;
        let switch_links: Vec<Vec<LinkId>> = switches
            .map(|switch| at(Endpoint::Switch(switch)))
            .collect();
        let host_links: Vec<LinkId> = (0..topology.hosts())
            .filter_map(|host| at(Endpoint::Host(host)).first().copied())
            .collect();
        let hosts_by_mac = (0..topology.hosts())
            .map(|host| (Mac::of_host(host), host))
            .collect();
        Self {
            ports,
            routes: routes(&topology, &switch_links),
            switch_links,
            host_links,
            hosts_by_mac,
            events: EventQueue::new(),
            sequence: 0,
            watched: vec![false; topology.links().len()],
            captured: Vec::new(),
            deliveries: Vec::new(),
            topology,
        }
    }

    /// What it was made from.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Keeps a copy of every frame on `link` for [`take_captured`](Self::take_captured).
    pub fn watch(&mut self, link: LinkId) {
        if let Some(watched) = self.watched.get_mut(link as usize) {
            *watched = true;
        }
    }

    /// Frames on watched links since the last call, in the order in which they
    /// entered their wires' queues.
    pub fn take_captured(&mut self) -> Vec<Captured> {
        std::mem::take(&mut self.captured)
    }

    /// What each link carried, by direction.
    pub fn statistics(&self) -> Vec<[LinkStatistics; 2]> {
        let of = |ports: &[Port; 2]| [ports[0].statistics, ports[1].statistics];
        self.ports.iter().map(of).collect()
    }

    /// `host` sends a frame at `time`. Frames of one host must come in order of
    /// time; `sequence` counts them.
    pub fn send(&mut self, time: Time, host: u32, sequence: u64, frame: Frame) {
        let key = EventKey {
            time,
            kind: KIND_SENT,
            source: host,
            sequence,
        };
        self.events.push(key, Event::Sent { host, frame });
    }

    /// When the next thing happens in the fabric.
    pub fn next_time(&self) -> Option<Time> {
        self.events.next_time()
    }

    /// Lets everything happen that happens before `end`. Returns what starts on its
    /// last link meanwhile, with the time at which it will arrive: for each host in
    /// order of time.
    ///
    /// May run ahead of hosts that still send: what a host sends at `t` reaches no
    /// switch before `t + hop()`, so with hosts at `t` the fabric may advance to
    /// `t + hop()`, and then every arrival before `t + lookahead()` is known.
    pub fn advance(&mut self, end: Time) -> Vec<Delivery> {
        while let Some((key, event)) = self.events.pop_before(end) {
            match event {
                Event::Sent { host, frame } => {
                    let link = self.host_links[host as usize];
                    self.transmit(key.time, link, Direction::Up, frame);
                }
                Event::Arrival(arrival) => self.forward(key.time, arrival),
            }
        }
        std::mem::take(&mut self.deliveries)
    }

    fn far_end(&self, link: LinkId, direction: Direction) -> Endpoint {
        let ends = self.topology.links()[link as usize].ends;
        match direction {
            Direction::Up => ends[1],
            Direction::Down => ends[0],
        }
    }

    /// Addresses are known from the start: no switch floods what it has not learnt.
    fn forward(&mut self, time: Time, arrival: Arrival) {
        let Endpoint::Switch(switch) = self.far_end(arrival.link, arrival.direction) else {
            return;
        };
        let ready = time + self.topology.switches()[switch as usize].latency;
        let Some(destination) = Mac::destination(&arrival.frame) else {
            return;
        };
        if destination.is_group() {
            for link in self.switch_links[switch as usize].clone() {
                if link != arrival.link {
                    self.leave(ready, switch, link, arrival.frame.clone());
                }
            }
        } else if let Some(&host) = self.hosts_by_mac.get(&destination) {
            let link = self.routes[switch as usize][host as usize];
            if link != arrival.link {
                self.leave(ready, switch, link, arrival.frame);
            }
        }
    }

    fn leave(&mut self, ready: Time, switch: u32, link: LinkId, frame: Frame) {
        let ends = self.topology.links()[link as usize].ends;
        let direction = if ends[0] == Endpoint::Switch(switch) {
            Direction::Up
        } else {
            Direction::Down
        };
        self.transmit(ready, link, direction, frame);
    }

    fn transmit(&mut self, ready: Time, link: LinkId, direction: Direction, frame: Frame) {
        let port = &mut self.ports[link as usize][direction.index()];
        let Some(passage) = port.send(ready, frame.len()) else {
            return;
        };
        if self.watched[link as usize] {
            self.captured.push(Captured {
                time: passage.start,
                link,
                direction,
                frame: frame.clone(),
            });
        }
        if let Endpoint::Host(host) = self.far_end(link, direction) {
            self.deliveries.push(Delivery {
                time: passage.arrival,
                host,
                frame,
            });
            return;
        }
        let key = EventKey {
            time: passage.arrival,
            kind: KIND_ARRIVAL,
            source: link * 2 + direction.index() as u32,
            sequence: self.sequence,
        };
        self.sequence += 1;
        self.events.push(
            key,
            Event::Arrival(Arrival {
                link,
                direction,
                frame,
            }),
        );
    }

    /// The least time from a host's sending to a switch's having the whole frame.
    pub fn hop(&self) -> Span {
        self.topology.hop()
    }

    /// The least time from sending to arrival between two hosts.
    pub fn lookahead(&self) -> Span {
        self.topology.lookahead()
    }
}

fn queue_of(topology: &Topology, from: Endpoint) -> u64 {
    match from {
        Endpoint::Host(_) => HOST_QUEUE_BYTES,
        Endpoint::Switch(switch) => topology.switches()[switch as usize].queue_bytes,
    }
}

fn links_at(topology: &Topology, place: Endpoint) -> Vec<LinkId> {
    let touches = |(link, id): (&crate::Link, LinkId)| link.ends.contains(&place).then_some(id);
    topology
        .links()
        .iter()
        .zip(0..)
        .filter_map(touches)
        .collect()
}

/// In a tree there is one way: for each host, walk outward from it and note at
/// each switch the link it was reached over.
fn routes(topology: &Topology, switch_links: &[Vec<LinkId>]) -> Vec<Vec<LinkId>> {
    let mut routes = vec![vec![0; topology.hosts() as usize]; switch_links.len()];
    for host in 0..topology.hosts() {
        let mut open: Vec<(Endpoint, Option<LinkId>)> = vec![(Endpoint::Host(host), None)];
        while let Some((place, over)) = open.pop() {
            let links = match place {
                Endpoint::Host(host) if over.is_none() => links_at(topology, Endpoint::Host(host)),
                Endpoint::Host(_) => continue,
                Endpoint::Switch(switch) => {
                    if let Some(link) = over {
                        routes[switch as usize][host as usize] = link;
                    }
                    switch_links[switch as usize].clone()
                }
            };
            for link in links.into_iter().filter(|&link| Some(link) != over) {
                let [near, far] = topology.links()[link as usize].ends;
                open.push((if near == place { far } else { near }, Some(link)));
            }
        }
    }
    routes
}
