//! Queues and wires of links without impairments, one for each direction.
//!
//! A frame waits for the frames that were sent before it, and is lost if it finds no space. Frames of one direction must be sent in the order of time. Results equal
//! those of the fabric's ports, which also have impairments. A direction's state fits a line of a processor's cache; the frames that wait are only counted one by
//! one where they may exceed the queue's capacity. Used by the network of fixed routes for each frame and link.

use std::collections::VecDeque;

use belljar_fabric::{Endpoint, Topology, wire_bytes};
use belljar_sim::{Span, Time};
use serde::{Deserialize, Serialize};

use crate::transport::MOST_COUNTED;

/// Capacity of a host's queue in bytes, as in the fabric.
const HOST_QUEUE_BYTES: u64 = 64 << 20;

/// Properties that many directions share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PortSpec {
    /// Time from a frame's arrival at the switch until it is in the queue; zero at a host.
    before: Span,
    bandwidth: u64,
    latency: Span,
    /// Bytes of the queue, including the frame on the wire.
    capacity: u64,
}

/// A direction of a link.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(64))]
struct Port {
    /// The time at which the wire becomes idle.
    free: Time,
    /// The time at which the first frame since the wire was idle leaves.
    first: Time,
    /// Bytes of the frames that may be in the queue.
    queued: u64,
    /// Frames, bytes and time on the wire so far.
    frames: u64,
    bytes: u64,
    busy: Span,
    spec: u32,
    /// Bytes of the first frame since the wire was idle; 0 once it has been removed.
    first_bytes: u32,
    /// True if frames wait behind the first one.
    waits: bool,
}

/// The rest of a direction's state, which is seldom needed.
#[derive(Clone, Debug, Default)]
struct Backlog {
    /// Frames behind the first one: the time at which each leaves, and its bytes.
    waiting: VecDeque<(Time, u32)>,
    dropped: u64,
}

/// The frames that a direction carried and lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct PortLoad {
    pub(crate) frames: u64,
    pub(crate) bytes: u64,
    pub(crate) busy: Span,
    pub(crate) dropped: u64,
}

/// The state of a direction, as plain values.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PortState {
    free: Time,
    waiting: Vec<(Time, u32)>,
    load: PortLoad,
}

impl PortState {
    /// True if a direction can have this state.
    fn is_sound(&self) -> bool {
        let load = &self.load;
        let mut waiting = self.waiting.iter();
        self.waiting.is_sorted_by_key(|(leaves, _)| *leaves)
            && waiting.all(|(leaves, _)| *leaves <= self.free)
            && load.frames.max(load.bytes).max(load.dropped) <= MOST_COUNTED
    }
}

/// All directions of all links, by twice the link's number, plus one for downwards.
#[derive(Clone, Debug)]
pub(super) struct Ports {
    ports: Vec<Port>,
    specs: Vec<PortSpec>,
    backlogs: Vec<Backlog>,
}

impl Ports {
    /// Creates the idle ports of a topology.
    pub(super) fn new(topology: &Topology) -> Self {
        let (mut ports, mut specs) = (Vec::new(), Vec::new());
        for (link, of) in (0..).zip(topology.links()) {
            for end in of.ends {
                let (before, capacity) = match end {
                    Endpoint::Host(_) => (Span::ZERO, HOST_QUEUE_BYTES),
                    Endpoint::Switch(switch) => (
                        topology.switches()[switch as usize].latency,
                        topology.queue_of(link, switch),
                    ),
                };
                let spec = PortSpec {
                    before,
                    bandwidth: of.spec.bandwidth,
                    latency: of.spec.latency,
                    capacity,
                };
                let known = specs.iter().rposition(|known| *known == spec);
                let number = known.unwrap_or_else(|| {
                    specs.push(spec);
                    specs.len() - 1
                });
                ports.push(Port {
                    spec: number as u32,
                    ..Port::default()
                });
            }
        }
        Self {
            backlogs: vec![Backlog::default(); ports.len()],
            specs,
            ports,
        }
    }

    /// Returns the number of directions.
    pub(super) fn len(&self) -> usize {
        self.ports.len()
    }

    /// Returns the least time from a frame's arrival at any switch, or its sending by any host, to its arrival at the next end of a link.
    pub(super) fn least_passage(&self) -> Span {
        let specs = self.specs.iter();
        let passages = specs.map(|it| it.latency + Span::of_transfer(wire_bytes(0), it.bandwidth));
        passages.min().unwrap_or(Span::ZERO)
    }

    /// Sends a frame that a host sends, or that arrives at a switch, at `now`. Returns the arrival of its last bit at the link's other end, unless the queue is full.
    pub(super) fn send(&mut self, number: u32, now: Time, length: u32) -> Option<Time> {
        let port = &mut self.ports[number as usize];
        let spec = &self.specs[port.spec as usize];
        let ready = now + spec.before;
        let bytes = u64::from(length);
        let idle = port.free <= ready;
        if idle {
            port.queued = 0;
            port.first_bytes = 0;
            if std::mem::take(&mut port.waits) {
                self.backlogs[number as usize].waiting.clear();
            }
        }
        if port.queued.saturating_add(bytes) > spec.capacity {
            port.drain(&mut self.backlogs[number as usize], ready);
            if port.queued.saturating_add(bytes) > spec.capacity {
                self.backlogs[number as usize].dropped += 1;
                return None;
            }
        }
        let busy = Span::of_transfer(wire_bytes(length as usize), spec.bandwidth);
        let start = ready.max(port.free);
        let leaves = start + busy;
        if idle {
            port.first = leaves;
            port.first_bytes = length;
        } else {
            let backlog = &mut self.backlogs[number as usize];
            if backlog.waiting.len() == backlog.waiting.capacity() {
                port.drain(backlog, ready);
            }
            port.waits = true;
            backlog.waiting.push_back((leaves, length));
        }
        port.free = leaves;
        port.queued += bytes;
        port.frames += 1;
        port.bytes += bytes;
        port.busy = port.busy + leaves.since(start);
        Some(leaves + spec.latency)
    }

    /// Returns the load of a direction.
    pub(super) fn load(&self, number: u32) -> PortLoad {
        let port = &self.ports[number as usize];
        PortLoad {
            frames: port.frames,
            bytes: port.bytes,
            busy: port.busy,
            dropped: self.backlogs[number as usize].dropped,
        }
    }

    /// Returns the load that one frame is.
    pub(super) fn load_of(&self, number: u32, length: u32) -> PortLoad {
        let spec = &self.specs[self.ports[number as usize].spec as usize];
        PortLoad {
            frames: 1,
            bytes: length.into(),
            busy: Span::of_transfer(wire_bytes(length as usize), spec.bandwidth),
            dropped: 0,
        }
    }

    /// Returns the state of all directions.
    pub(super) fn save(&self) -> Vec<PortState> {
        let all = (0..).zip(self.ports.iter().zip(&self.backlogs));
        let state = |(number, (port, backlog)): (u32, (&Port, &Backlog))| {
            let first = (port.first_bytes > 0).then_some((port.first, port.first_bytes));
            PortState {
                free: port.free,
                waiting: first
                    .into_iter()
                    .chain(backlog.waiting.iter().copied())
                    .collect(),
                load: self.load(number),
            }
        };
        all.map(state).collect()
    }

    /// Continues from an untrusted state, and returns true if it fits these ports.
    pub(super) fn restore(&mut self, states: Vec<PortState>) -> bool {
        if states.len() != self.ports.len() || !states.iter().all(PortState::is_sound) {
            return false;
        }
        let all = self.ports.iter_mut().zip(&mut self.backlogs);
        for ((port, backlog), state) in all.zip(states) {
            let waiting = state.waiting.iter();
            let queued = waiting.fold(0, |sum: u64, (_, bytes)| sum + u64::from(*bytes));
            *port = Port {
                free: state.free,
                queued,
                frames: state.load.frames,
                bytes: state.load.bytes,
                busy: state.load.busy,
                waits: !state.waiting.is_empty(),
                spec: port.spec,
                ..Port::default()
            };
            backlog.waiting = state.waiting.into();
            backlog.dropped = state.load.dropped;
        }
        true
    }
}

impl Port {
    /// Removes frames that have left at `now`.
    fn drain(&mut self, backlog: &mut Backlog, now: Time) {
        if self.first <= now {
            self.queued -= u64::from(std::mem::take(&mut self.first_bytes));
        }
        while let Some((leaves, bytes)) = backlog.waiting.front()
            && *leaves <= now
        {
            self.queued -= u64::from(*bytes);
            backlog.waiting.pop_front();
        }
    }
}

impl PortLoad {
    /// The load of a lost frame.
    pub(super) const DROP: Self = Self {
        frames: 0,
        bytes: 0,
        busy: Span::ZERO,
        dropped: 1,
    };

    /// Removes a part.
    pub(super) fn without(self, part: Self) -> Self {
        Self {
            frames: self.frames.saturating_sub(part.frames),
            bytes: self.bytes.saturating_sub(part.bytes),
            busy: Span::from_ps(self.busy.as_ps().saturating_sub(part.busy.as_ps())),
            dropped: self.dropped.saturating_sub(part.dropped),
        }
    }
}
