//! Frames in transit over fixed routes: each pair of hosts has one route, and links have no impairments.
//!
//! Frames arrive at the same times as in the fabric, which also finds routes frame by frame. A frame takes no memory of its own while it passes a switch: its next
//! direction is a position in a list of all routes. Arrivals at switches are handled day by day (`days`), before hosts reach that day. Arrivals at hosts are thus
//! known early, and hosts take them at their times. Used by the network of frames.

use std::collections::VecDeque;

use belljar_fabric::{Endpoint, HEADERS, Settings, Topology};
use belljar_sim::Time;

use super::days::{Days, Hop};
use super::ports::{PortLoad, Ports};
use crate::transport::{Mark, Outgoing, Transport};

/// Marks the last direction of a route.
const LAST: u32 = 1 << 31;
/// Follows the directions of a route that does not lead to its host.
const NOWHERE: u32 = u32::MAX;
/// Marks the length of a frame that found a full queue.
const DROPPED: u32 = 1 << 31;
/// Marks the length of a frame that found a full card.
const REFUSED: u32 = 1 << 30;

/// An acknowledgement that arrives at a host, after it has been sent over its last link at `known`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Returning {
    pub(super) known: Time,
    pub(super) at: Time,
    pub(super) mark: Mark,
}

/// A network of fixed routes.
#[derive(Clone, Debug)]
pub(super) struct FixedFabric {
    pub(super) ports: Ports,
    pub(super) days: Days,
    /// The directions of all routes, one route after the other.
    routes: Vec<u32>,
    /// By connection: the positions of the routes of its data and of its acknowledgements.
    begins: Vec<[u32; 2]>,
    /// Contents of frames in transit, by number.
    pub(super) frames: Vec<Mark>,
    free: Vec<u32>,
    /// The arrivals of the day taken last.
    today: Vec<Hop>,
    /// The load by frames that were sent ahead of the present time before the state was restored: times, directions, loads.
    pub(super) ahead: Vec<(Time, u32, PortLoad)>,
    /// Acknowledgements in the order in which their frames were sent over the last link.
    pub(super) returning: VecDeque<Returning>,
}

impl FixedFabric {
    /// True if the routes of a network with these settings are fixed.
    pub(super) fn fits(settings: &Settings) -> bool {
        settings.impairments.is_empty() && !settings.routing.looks_at_load()
    }

    /// Creates the idle network of a topology.
    pub(super) fn new(topology: &Topology) -> Self {
        let ports = Ports::new(topology);
        Self {
            days: Days::new(ports.least_passage()),
            ports,
            routes: Vec::new(),
            begins: Vec::new(),
            frames: Vec::new(),
            free: Vec::new(),
            today: Vec::new(),
            ahead: Vec::new(),
            returning: VecDeque::new(),
        }
    }

    /// Returns the time of the next event.
    #[inline]
    pub(super) fn next_time(&self) -> Option<Time> {
        let returning = self.returning.front().map(|it| it.known);
        match (self.days.next_time(), returning) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    /// Sends a frame of a host.
    pub(super) fn send(&mut self, topology: &Topology, sent: &Outgoing, transport: &mut Transport) {
        let Some(begin) = self.begin(topology, sent.mark, transport) else {
            return;
        };
        let length = HEADERS as u32 + sent.data;
        let port = self.routes[begin as usize];
        if let Some(time) = self.ports.send(port & !LAST, sent.time, length) {
            let frame = self.insert(sent.mark);
            self.days.push(Hop {
                time,
                source: port,
                frame,
                position: begin + 1,
                length,
            });
        }
    }

    /// Returns the position of a frame's route.
    pub(super) fn begin(
        &mut self,
        topology: &Topology,
        mark: Mark,
        transport: &mut Transport,
    ) -> Option<u32> {
        while self.begins.len() as u32 <= mark.connection() {
            let links = transport.links_of(self.begins.len() as u32)?;
            self.begins.push(links.map(|links| {
                let begin = self.routes.len() as u32;
                self.routes.extend(&links[..]);
                match self.routes.last_mut() {
                    Some(last) if ends_at_host(topology, *last) => *last |= LAST,
                    // A frame without a way to its host leaves the network at a switch.
                    _ => self.routes.push(NOWHERE),
                }
                begin
            }));
        }
        Some(self.known_begin(mark))
    }

    /// Stores a frame's contents, and returns their number.
    pub(super) fn insert(&mut self, mark: Mark) -> u32 {
        match self.free.pop() {
            Some(number) => {
                self.frames[number as usize] = mark;
                number
            }
            None => {
                self.frames.push(mark);
                self.frames.len() as u32 - 1
            }
        }
    }

    /// Handles the arrivals of the next day: hosts get their segments, and `returning` the acknowledgements.
    pub(super) fn advance(&mut self, transport: &mut Transport) {
        self.days.take(&mut self.today);
        self.ahead.clear();
        for hop in &mut self.today {
            let port = self.routes[hop.position as usize];
            let time = match port {
                NOWHERE => None,
                port => self.ports.send(port & !LAST, hop.time, hop.length),
            };
            let Some(time) = time else {
                hop.length |= DROPPED;
                self.free.push(hop.frame);
                continue;
            };
            if port & LAST == 0 {
                self.days.push(Hop {
                    time,
                    source: port,
                    position: hop.position + 1,
                    ..*hop
                });
                continue;
            }
            self.free.push(hop.frame);
            match self.frames[hop.frame as usize] {
                Mark::Segment(number, segment) => {
                    if !transport.segment_came(time, number, segment) {
                        hop.length |= REFUSED;
                    }
                }
                mark @ Mark::Acknowledgement(..) => self.returning.push_back(Returning {
                    known: hop.time,
                    at: time,
                    mark,
                }),
            }
        }
    }

    /// Hands acknowledgements to hosts that are known until `now`. A sender that has lost a segment learns of later ones with a delay.
    pub(super) fn hand_over(&mut self, now: Time, transport: &mut Transport) {
        while let Some(returning) = self.returning.pop_front_if(|it| it.known <= now) {
            if let Mark::Acknowledgement(number, acknowledgement) = returning.mark {
                transport.acknowledgement_came(returning.at, number, acknowledgement);
            }
        }
    }

    /// Returns the load of each direction, including frames that are sent ahead of the present time.
    pub(super) fn loads(&self) -> Vec<PortLoad> {
        let ports = 0..self.ports.len() as u32;
        ports.map(|port| self.ports.load(port)).collect()
    }

    /// Returns the loads by frames that are sent after `until`, with their times and directions.
    pub(super) fn ahead(&self, until: Time) -> impl Iterator<Item = (Time, u32, PortLoad)> {
        let today = self.today.iter().filter_map(|hop| {
            let port = self.routes[hop.position as usize];
            let length = hop.length & !(DROPPED | REFUSED);
            let load = match hop.length & DROPPED {
                0 => PortLoad {
                    dropped: u64::from(hop.length & REFUSED > 0),
                    ..self.ports.load_of(port & !LAST, length)
                },
                _ => PortLoad::DROP,
            };
            (port != NOWHERE).then_some((hop.time, port & !LAST, load))
        });
        let ahead = today.chain(self.ahead.iter().copied());
        ahead.filter(move |(time, ..)| *time > until)
    }

    /// Returns the position of a route that has been found.
    pub(super) fn known_begin(&self, mark: Mark) -> u32 {
        let way = usize::from(matches!(mark, Mark::Acknowledgement(..)));
        let begins = self.begins.get(mark.connection() as usize);
        begins.map_or(0, |begins| begins[way])
    }

    /// Returns the last of this many directions at the begin of a route, if more follow.
    pub(super) fn passed(&self, begin: u32, links: u32) -> Option<u32> {
        let route = self.routes.get(begin as usize..)?;
        let passed = route.get(..links as usize)?;
        let on = passed.iter().all(|port| port & LAST == 0);
        passed
            .last()
            .copied()
            .filter(|_| on && links < route.len() as u32)
    }
}

/// True if a direction of a link leads to a host.
fn ends_at_host(topology: &Topology, port: u32) -> bool {
    let ends = topology.links()[port as usize / 2].ends;
    matches!(ends[1 - port as usize % 2], Endpoint::Host(_))
}
