//! A fabric's running state as plain values.
//!
//! With the topology and the settings it determines all future events. A state may come from an untrusted
//! file, so it is checked before it is used. Called for checkpoints.

use std::collections::BTreeSet;

use belljar_sim::{EventKey, EventQueue, Time};
use serde::{Deserialize, Serialize};

use super::{Captured, Direction, Fabric, KIND_ARRIVAL, KIND_SENT, NetworkEvent};
use crate::frame::Frame;
use crate::link::{Port, PortState};
use crate::loss::LossCount;
use crate::topology::LinkId;
use crate::windows::WindowsState;
use crate::wire::{Wire, WireState};

/// The state of a [`Fabric`]: frames in transit, queues, figures, positions of random streams, and working
/// links. With the topology and the settings it determines all future events. Times are picoseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FabricState {
    /// By link, then by direction.
    ports: Vec<[PortState; 2]>,
    events: Vec<EventState>,
    /// Events of background traffic.
    background: Vec<EventState>,
    /// Number of past failures and repairs.
    changed: u64,
    unroutable: u64,
    watched: Vec<LinkId>,
    captured: Vec<CapturedState>,
    windows: Option<WindowsState>,
    wire: WireState,
    /// Chosen losses that took frames.
    losses: Vec<LossCount>,
}

/// A frame in transit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct EventState {
    time: Time,
    /// The source host or direction of a link.
    source: u32,
    sequence: u64,
    /// The link that it arrives over; `None` for a frame that a host is about to send.
    over: Option<(LinkId, Direction)>,
    /// A switch to pass before the destination's.
    via: Option<u32>,
    frame: Frame,
}

/// A frame that was captured and not taken yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct CapturedState {
    time: Time,
    link: LinkId,
    direction: Direction,
    frame: Frame,
}

/// An error of restoring a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RestoreError {
    /// It was saved from another network.
    #[error(
        "the network's state has {saved} {what} and the network {actual}; it was saved from another scenario"
    )]
    Other {
        /// The items whose number differs.
        what: &'static str,
        /// Number in the state.
        saved: usize,
        /// Number in the network.
        actual: usize,
    },
    /// The state is not valid.
    #[error("the network's state is damaged: {0}")]
    Damaged(&'static str),
}

impl Fabric {
    /// The running state. Frames that [`advance`](Self::advance) returned are not part of it.
    pub fn save(&self) -> FabricState {
        let ports = self.ports.iter();
        let captured = self.captured.iter().map(|captured| CapturedState {
            time: captured.time,
            link: captured.link,
            direction: captured.direction,
            frame: captured.frame.clone(),
        });
        let watched = self.watched.iter().zip(0..);
        FabricState {
            ports: ports
                .map(|pair| pair.each_ref().map(|port| port.state.clone()))
                .collect(),
            events: save_events(&self.events),
            background: save_events(&self.background),
            changed: self.changed as u64,
            unroutable: self.unroutable,
            watched: watched
                .filter_map(|(&watched, link)| watched.then_some(link))
                .collect(),
            captured: captured.collect(),
            windows: self.windows.as_ref().map(super::Windows::save),
            wire: self.wire.save(),
            losses: self.losses.save(),
        }
    }

    /// Continues from `state`, which was saved from a fabric with the same topology and settings. A state
    /// may come from an untrusted file.
    ///
    /// # Errors
    /// When it was saved from another network, or is damaged. The fabric is then in an unspecified state
    /// and must not be used.
    pub fn restore(&mut self, state: FabricState) -> Result<(), RestoreError> {
        let links = self.ports.len();
        let same = |what, saved, actual| {
            let other = RestoreError::Other {
                what,
                saved,
                actual,
            };
            (saved == actual).then_some(()).ok_or(other)
        };
        same("links", state.ports.len(), links)?;
        let kept = |kept: bool| usize::from(kept);
        same(
            "tables of figures",
            kept(state.windows.is_some()),
            kept(self.windows.is_some()),
        )?;
        self.check(&state)?;
        if let (Some(windows), Some(saved)) = (&mut self.windows, state.windows)
            && !windows.restore(saved)
        {
            return Err(RestoreError::Damaged(
                "figures that cannot be, or of no link",
            ));
        }
        let wire = Wire::restored(state.wire, self.topology.hosts());
        self.wire = wire.ok_or(RestoreError::Damaged(
            "traffic of hosts that do not exist, or twice of the same",
        ))?;
        if !self.losses.restore(&state.losses) {
            return Err(RestoreError::Damaged(
                "losses of chosen frames that the scenario does not have",
            ));
        }
        for (ports, saved) in self.ports.iter_mut().zip(state.ports) {
            for (port, saved) in ports.iter_mut().zip(saved) {
                *port = Port::new(port.spec().clone(), saved);
            }
        }
        self.watched = vec![false; links];
        for link in state.watched {
            self.watched[link as usize] = true;
        }
        self.captured = state
            .captured
            .into_iter()
            .map(CapturedState::restored)
            .collect();
        self.deliveries.clear();
        self.unroutable = state.unroutable;
        self.restore_links(state.changed as usize);
        self.events = restored_events(state.events)?;
        self.background = restored_events(state.background)?;
        Ok(())
    }

    fn check(&self, state: &FabricState) -> Result<(), RestoreError> {
        let (links, hosts) = (self.ports.len(), self.topology.hosts());
        let switches = self.topology.switches().len() as u32;
        let exists = |link: LinkId| (link as usize) < links;
        let mut all = state.events.iter().chain(&state.background);
        let events = all.all(|event| match event.over {
            Some((link, _)) => exists(link) && event.via.is_none_or(|via| via < switches),
            None => event.source < hosts,
        });
        let mut captured = state.captured.iter();
        let named = events
            && state.watched.iter().all(|&link| exists(link))
            && captured.all(|captured| exists(captured.link));
        if !named {
            return Err(RestoreError::Damaged(
                "it names a link, host or switch that does not exist",
            ));
        }
        if state.changed > self.changes.len() as u64 {
            return Err(RestoreError::Damaged("more links failed than do"));
        }
        if !state.ports.iter().flatten().all(PortState::is_sound) {
            return Err(RestoreError::Damaged(
                "a queue is longer than what is in it",
            ));
        }
        Ok(())
    }

    /// Sets links to their state after the first `changed` failures and repairs.
    fn restore_links(&mut self, changed: usize) {
        self.router.reset();
        for change in &self.changes[..changed] {
            self.router.set_working(change.link, change.works);
        }
        self.changed = changed;
    }
}

fn save_events(events: &EventQueue<NetworkEvent>) -> Vec<EventState> {
    let all = events.iter();
    all.map(|(key, event)| save_event(&key, event)).collect()
}

fn restored_events(saved: Vec<EventState>) -> Result<EventQueue<NetworkEvent>, RestoreError> {
    let mut events = EventQueue::new();
    let mut keys = BTreeSet::new();
    for event in saved {
        let (key, event) = event.restored();
        if !keys.insert(key) {
            return Err(RestoreError::Damaged("a frame is there twice"));
        }
        events.push(key, event);
    }
    Ok(events)
}

fn save_event(key: &EventKey, event: &NetworkEvent) -> EventState {
    let (over, via, frame) = match event {
        NetworkEvent::Sent { frame, .. } => (None, None, frame),
        NetworkEvent::Arrival {
            link,
            direction,
            via,
            frame,
        } => (Some((*link, *direction)), *via, frame),
    };
    EventState {
        time: key.time,
        source: key.source,
        sequence: key.sequence,
        over,
        via,
        frame: frame.clone(),
    }
}

impl EventState {
    fn restored(self) -> (EventKey, NetworkEvent) {
        let frame = self.frame;
        let (kind, event) = match self.over {
            Some((link, direction)) => {
                let event = NetworkEvent::Arrival {
                    link,
                    direction,
                    via: self.via,
                    frame,
                };
                (KIND_ARRIVAL, event)
            }
            None => {
                let host = self.source;
                (KIND_SENT, NetworkEvent::Sent { host, frame })
            }
        };
        let key = EventKey {
            time: self.time,
            kind,
            source: self.source,
            sequence: self.sequence,
        };
        (key, event)
    }
}

impl CapturedState {
    fn restored(self) -> Captured {
        Captured {
            time: self.time,
            link: self.link,
            direction: self.direction,
            frame: self.frame,
        }
    }
}
