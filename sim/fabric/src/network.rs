//! Frames in transit: a topology in operation.
//!
//! Deliveries are a function of the topology, the settings and the frames that hosts send, not of the steps of [`Fabric::advance`]. Events of one time have a total
//! order. Driven by the coordinator between rounds.

use std::sync::Arc;
use std::vec::Drain;

use belljar_sim::{EventKey, EventQueue, Seed, Span, Time};
use serde::{Deserialize, Serialize};

use crate::frame::Frame;
use crate::hold::{Hold, Holds};
use crate::impairment::Impairment;
use crate::link::{LinkStatistics, Port, PortSpec, PortState};
use crate::loss::{FrameLoss, FrameLosses, LossCount};
use crate::routing::{ForwardingTables, Router, Routes, Routing, RoutingError};
use crate::topology::{Endpoint, LinkId, Topology};
use crate::windows::{LinkRecord, Windows};
use crate::wire::{Wire, WireCount, WirePair};

/// Frames on their way through switches and links.
mod forwarding;
/// A fabric's running state as plain values.
mod state;

pub use state::{FabricState, RestoreError};

/// Direction along a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Direction {
    /// From the first end to the second: up, away from the host.
    Up,
    /// From the second end to the first.
    Down,
}

impl Direction {
    /// 0 for up, 1 for down.
    pub fn index(self) -> usize {
        match self {
            Self::Up => 0,
            Self::Down => 1,
        }
    }
}

/// A frame that arrives at a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Arrival of its last bit.
    pub time: Time,
    /// Destination host.
    pub host: u32,
    /// Traffic class of the frame.
    pub traffic: TrafficClass,
    /// The frame.
    pub frame: Frame,
}

/// Class of traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TrafficClass {
    /// Traffic of nodes.
    Nodes,
    /// Traffic between hosts without guests: it affects nodes only through queues.
    Background,
}

/// A frame seen on a watched link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Captured {
    /// Time at which its first bit is on the wire.
    pub time: Time,
    /// The link.
    pub link: LinkId,
    /// Its direction.
    pub direction: Direction,
    /// The frame.
    pub frame: Frame,
}

/// Settings of a topology's operation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// Routing rule.
    pub routing: Routing,
    /// The user's tables, if [`Routing::Tables`] is chosen.
    pub tables: Option<Arc<ForwardingTables>>,
    /// Seed of random numbers and hashes.
    pub seed: u64,
    /// Impairments of links; no link may occur twice.
    pub impairments: Vec<(LinkId, Impairment)>,
    /// Frames of nodes that wait in the sender's network card.
    pub holds: Vec<Hold>,
    /// Frames of nodes that are lost.
    pub losses: Vec<FrameLoss>,
    /// Length of the time windows of [`Fabric::take_records`]; no figures are kept if absent.
    pub statistics: Option<Span>,
}

impl Settings {
    /// Checks that `topology` can be operated with these settings.
    ///
    /// # Errors
    /// When the topology does not fit the routing.
    pub fn check(&self, topology: &Topology) -> Result<(), RoutingError> {
        Router::new(topology, &self.routes()).map(drop)
    }

    /// The routing settings.
    pub fn routes(&self) -> Routes {
        Routes {
            routing: self.routing,
            seed: self.seed,
            tables: self.tables.clone(),
        }
    }
}

/// Capacity of a host's NIC queue in bytes: a driver's ring of large frames.
const HOST_QUEUE_BYTES: u64 = 64 << 20;

/// Kinds of events at one time: frames that hosts send precede frames that arrive at switches.
const KIND_SENT: u8 = 0;
const KIND_ARRIVAL: u8 = 1;

#[derive(Clone, Debug)]
enum NetworkEvent {
    /// A host sends a frame.
    Sent { host: u32, frame: Frame },
    /// A frame's last bit reaches a switch over a link.
    Arrival {
        link: LinkId,
        direction: Direction,
        /// A switch to pass before the destination's.
        via: Option<u32>,
        frame: Frame,
    },
}

/// A failure or repair of a link.
#[derive(Clone, Copy, Debug)]
struct Change {
    time: Time,
    link: LinkId,
    works: bool,
}

/// A topology in operation.
pub struct Fabric {
    topology: Topology,
    /// By link, then by direction.
    ports: Vec<[Port; 2]>,
    router: Router,
    holds: Holds,
    losses: FrameLosses,
    events: EventQueue<NetworkEvent>,
    /// Events of background traffic: no node receives any of it, so nodes need not wait for it.
    background: EventQueue<NetworkEvent>,
    /// In order of time.
    changes: Vec<Change>,
    /// Number of past changes.
    changed: usize,
    /// Frames without a path to their destination.
    unroutable: u64,
    watched: Vec<bool>,
    captured: Vec<Captured>,
    deliveries: Vec<Delivery>,
    windows: Option<Windows>,
    wire: Wire,
}

impl Fabric {
    /// Starts a topology at time zero, without impairments; frames are routed over the links with the lowest numbers.
    pub fn new(topology: Topology) -> Self {
        let settings = Settings::default();
        let router = Router::for_any(&topology);
        Self::assemble(topology, &settings, router)
    }

    /// Starts a topology at time zero.
    ///
    /// # Errors
    /// When the topology does not fit the routing.
    pub fn with_settings(topology: Topology, settings: &Settings) -> Result<Self, RoutingError> {
        let router = Router::new(&topology, &settings.routes())?;
        Ok(Self::assemble(topology, settings, router))
    }

    fn assemble(topology: Topology, settings: &Settings, router: Router) -> Self {
        let mut impairments: Vec<Option<Arc<Impairment>>> = vec![None; topology.links().len()];
        for (link, impairment) in &settings.impairments {
            if let Some(place) = impairments.get_mut(*link as usize) {
                *place = Some(Arc::new(impairment.clone()));
            }
        }
        let port = |link: LinkId, direction: Direction| {
            let of = &topology.links()[link as usize];
            let capacity = match of.ends[direction.index()] {
                Endpoint::Host(_) => HOST_QUEUE_BYTES,
                Endpoint::Switch(switch) => topology.queue_of(link, switch),
            };
            let spec = PortSpec {
                link: of.spec,
                capacity,
                number: u64::from(port_number(link, direction)),
                seed: Seed(settings.seed),
                impairment: impairments[link as usize].clone(),
            };
            Port::new(spec, PortState::default())
        };
        let links = 0..topology.links().len() as LinkId;
        let ports: Vec<[Port; 2]> = links
            .map(|link| [port(link, Direction::Up), port(link, Direction::Down)])
            .collect();
        let length = settings.statistics.filter(|&length| length > Span::ZERO);
        Self {
            router,
            windows: length.map(|length| Windows::new(length, ports.len() * 2)),
            watched: vec![false; ports.len()],
            holds: Holds::new(&settings.holds),
            losses: FrameLosses::new(&settings.losses),
            ports,
            events: EventQueue::new(),
            background: EventQueue::new(),
            changes: changes(&impairments),
            changed: 0,
            unroutable: 0,
            captured: Vec::new(),
            deliveries: Vec::new(),
            wire: Wire::default(),
            topology,
        }
    }

    /// Its topology.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Keeps a copy of every frame on `link` for [`take_captured`](Self::take_captured).
    pub fn watch(&mut self, link: LinkId) {
        if let Some(watched) = self.watched.get_mut(link as usize) {
            *watched = true;
        }
    }

    /// Frames on watched links since the last call, in the order in which they entered the ports' queues.
    pub fn take_captured(&mut self) -> Vec<Captured> {
        std::mem::take(&mut self.captured)
    }

    /// Figures of each link, by direction.
    pub fn statistics(&self) -> Vec<[LinkStatistics; 2]> {
        let of = |ports: &[Port; 2]| ports.each_ref().map(|port| port.state.statistics);
        self.ports.iter().map(of).collect()
    }

    /// Figures of links in the time windows that end at `settled` or before and that were not taken yet, ordered by time, link and direction. `settled` is the time
    /// before which hosts have sent all their frames; `Time::MAX` takes all the rest.
    pub fn take_records(&mut self, settled: Time) -> impl Iterator<Item = LinkRecord> {
        let windows = self.windows.iter_mut();
        windows.flat_map(move |windows| windows.take(settled))
    }

    /// Frames that were dropped because failures left no path to their destination.
    pub fn unroutable(&self) -> u64 {
        self.unroutable
    }

    /// Traffic that nodes' NICs sent so far, for each pair of hosts with any, in order.
    pub fn wire(&self) -> impl Iterator<Item = (WirePair, WireCount)> {
        self.wire.pairs()
    }

    /// Chosen losses, with the number of frames that each took so far.
    pub fn chosen_losses(&self) -> &[LossCount] {
        self.losses.counts()
    }

    /// `host` sends a frame at `time`. Frames of one host must come in order of
    /// time; `sequence` counts them.
    pub fn send(&mut self, time: Time, host: u32, sequence: u64, frame: Frame) {
        let time = self.holds.release(time, host, &frame);
        self.send_as(TrafficClass::Nodes, time, host, sequence, frame);
    }

    /// The same for a host without a guest, which sends no frames to nodes. A host uses only one of both functions.
    pub fn send_background(&mut self, time: Time, host: u32, sequence: u64, frame: Frame) {
        self.send_as(TrafficClass::Background, time, host, sequence, frame);
    }

    /// Sends a frame at `time` without an event: the fabric has no event before `time`, and its events at `time` follow the frame. Frames of all hosts must come in order
    /// of time, and frames of one host in their order. For hosts that wait until the fabric reaches their time.
    pub fn send_first(&mut self, time: Time, host: u32, frame: Frame) {
        debug_assert!(self.next_time().is_none_or(|next| next >= time));
        self.change(time);
        let link = self.topology.link_of(host);
        let traffic = TrafficClass::Background;
        self.transmit(time, link, Direction::Up, None, frame, traffic);
    }

    fn send_as(
        &mut self,
        traffic: TrafficClass,
        time: Time,
        host: u32,
        sequence: u64,
        frame: Frame,
    ) {
        let key = EventKey {
            time,
            kind: KIND_SENT,
            source: host,
            sequence,
        };
        self.queue(traffic)
            .push(key, NetworkEvent::Sent { host, frame });
    }

    fn queue(&mut self, traffic: TrafficClass) -> &mut EventQueue<NetworkEvent> {
        match traffic {
            TrafficClass::Nodes => &mut self.events,
            TrafficClass::Background => &mut self.background,
        }
    }

    /// Time of the next event.
    #[inline]
    pub fn next_time(&self) -> Option<Time> {
        match (self.events.next_time(), self.background.next_time()) {
            (Some(own), Some(other)) => Some(own.min(other)),
            (own, other) => own.or(other),
        }
    }

    /// Time of the next event that may affect a node.
    pub fn next_for_nodes(&self) -> Option<Time> {
        self.events.next_time()
    }

    /// The next event before `end`, of all traffic in one order.
    fn pop_before(&mut self, end: Time) -> Option<(EventKey, NetworkEvent, TrafficClass)> {
        let traffic = match (self.events.is_empty(), self.background.is_empty()) {
            (_, true) => TrafficClass::Nodes,
            (true, false) => TrafficClass::Background,
            _ if self.background.next_key() < self.events.next_key() => TrafficClass::Background,
            _ => TrafficClass::Nodes,
        };
        let (key, event) = self.queue(traffic).pop_before(end)?;
        Some((key, event, traffic))
    }

    /// Handles all events before `end`. Returns the frames that started on their last link meanwhile, with their arrival times: for each host in order of time.
    ///
    /// May run ahead of hosts that still send: a frame that a host sends at `t` reaches no switch before `t + hop()`. With hosts at `t` the fabric may thus advance to `t
    /// + hop()`, and then every arrival before `t + lookahead()` is known.
    pub fn advance(&mut self, end: Time) -> Drain<'_, Delivery> {
        while let Some((key, event, traffic)) = self.pop_before(end) {
            self.change(key.time);
            match event {
                NetworkEvent::Sent { host, frame } => {
                    self.leave_card(key.time, host, frame, traffic);
                }
                NetworkEvent::Arrival {
                    link,
                    direction,
                    via,
                    frame,
                } => self.forward(key.time, link, direction, via, frame, traffic),
            }
        }
        self.deliveries.drain(..)
    }

    /// Applies failures and repairs of links up to `time`.
    fn change(&mut self, time: Time) {
        while let Some(change) = self.changes.get(self.changed)
            && change.time <= time
        {
            self.router.set_working(change.link, change.works);
            self.changed += 1;
        }
    }

    /// The least time from a host's sending to the last bit's arrival at its switch.
    pub fn hop(&self) -> Span {
        self.topology.hop()
    }

    /// The least time from sending to arrival between two hosts.
    pub fn lookahead(&self) -> Span {
        self.topology.lookahead()
    }
}

/// Direction of a link away from a switch.
pub(crate) fn direction_from(topology: &Topology, switch: u32, link: LinkId) -> Direction {
    match topology.links()[link as usize].ends[0] == Endpoint::Switch(switch) {
        true => Direction::Up,
        false => Direction::Down,
    }
}

fn port_number(link: LinkId, direction: Direction) -> u32 {
    link * 2 + direction.index() as u32
}

/// All failures and repairs, ordered by time and link.
fn changes(impairments: &[Option<Arc<Impairment>>]) -> Vec<Change> {
    let mut changes = Vec::new();
    for (impairment, link) in impairments.iter().zip(0..) {
        for outage in impairment.iter().flat_map(|impairment| &impairment.outages) {
            for (time, works) in [(outage.from, false), (outage.until, true)] {
                changes.push(Change { time, link, works });
            }
        }
    }
    // A repair and a failure at one time keep the order of their outages.
    changes.sort_by_key(|change| (change.time, change.link));
    changes
}
