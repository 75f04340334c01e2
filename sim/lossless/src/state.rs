//! The running state as plain values.
//!
//! A loaded state is untrusted: one that does not fit the topology is refused. Checkpoints save and restore it.

use std::collections::BTreeMap;

use belljar_sim::{EventKey, EventQueue, Time};
use serde::{Deserialize, Serialize};

use crate::port::Port;
use crate::{Lossless, PairTraffic, Transit};

/// The saved state of a fabric.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LosslessState {
    ports: Vec<[Port; 2]>,
    written: Vec<Time>,
    sent: Vec<SavedTransit>,
    ready: Vec<SavedTransit>,
    unroutable: u64,
    traffic: BTreeMap<(u32, u32), PairTraffic>,
}

/// A packet in transit: its key, without the kind, and itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SavedTransit {
    key: (Time, u32, u64),
    ends: (u32, u32),
    hop: usize,
    packet: Vec<u8>,
}

/// A state that belongs to another topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RestoreError;

impl std::fmt::Display for RestoreError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the state of the InfiniBand fabric belongs to another topology")
    }
}

impl std::error::Error for RestoreError {}

impl Lossless {
    /// The state of packets and links.
    pub fn save(&self) -> LosslessState {
        LosslessState {
            ports: self.ports.clone(),
            written: self.written.clone(),
            sent: save(&self.sent),
            ready: save(&self.ready),
            unroutable: self.unroutable,
            traffic: self.traffic.clone(),
        }
    }

    /// Loads a state that was saved by a fabric of the same topology.
    ///
    /// # Errors
    /// If the state does not fit it.
    pub fn restore(&mut self, state: LosslessState) -> Result<(), RestoreError> {
        let hosts = self.topology.hosts();
        let fits = |transit: &SavedTransit| {
            let (from, to) = transit.ends;
            from < hosts && to < hosts && from != to
        };
        let mut transits = state.sent.iter().chain(&state.ready);
        let is_like =
            state.ports.len() == self.ports.len() && state.written.len() == self.written.len();
        if !is_like || !transits.all(fits) {
            return Err(RestoreError);
        }
        self.ports = state.ports;
        self.written = state.written;
        self.sent = load(state.sent);
        self.ready = load(state.ready);
        self.unroutable = state.unroutable;
        self.traffic = state.traffic;
        Ok(())
    }
}

fn save(queue: &EventQueue<Transit>) -> Vec<SavedTransit> {
    let saved = queue.iter().map(|(key, transit)| SavedTransit {
        key: (key.time, key.source, key.sequence),
        ends: (transit.from, transit.to),
        hop: transit.hop,
        packet: transit.packet.clone(),
    });
    saved.collect()
}

fn load(saved: Vec<SavedTransit>) -> EventQueue<Transit> {
    let mut queue = EventQueue::new();
    for one in saved {
        let (time, source, sequence) = one.key;
        let key = EventKey {
            time,
            kind: 0,
            source,
            sequence,
        };
        let (from, to) = one.ends;
        let transit = Transit {
            from,
            to,
            hop: one.hop,
            packet: one.packet,
        };
        queue.push(key, transit);
    }
    queue
}
