//! The state of all hosts as plain values, checked before use.
//!
//! With the topology and the hosts' pace it determines all further events. A state may come from an untrusted file. Used for checkpoints of runs with background
//! traffic.

use belljar_sim::Time;
use serde::{Deserialize, Serialize};

use super::connection::Connections;
use super::event::Event;
use super::host::Host;
use super::limits::MOST_COUNTED;

/// The mutable state of sending and receiving hosts.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct TransportState {
    pub(super) hosts: Vec<Host>,
    pub(super) connections: Connections,
    /// Future events, in order; empty while hosts are active.
    pub(super) events: Vec<(Time, Event)>,
}

impl TransportState {
    /// Creates the state of this many hosts that have sent nothing.
    pub(super) fn of_hosts(hosts: u32) -> Self {
        Self {
            hosts: vec![Host::default(); hosts as usize],
            connections: Connections::of_hosts(hosts),
            ..Self::default()
        }
    }

    /// True if it is a possible state of this many hosts.
    pub(super) fn is_sound(&self, hosts: u32) -> bool {
        let connections = self.connections.len();
        let own = self.hosts.iter().all(|host| {
            let mut waiting = host.urgent.iter().chain(&host.usual);
            host.frames.max(host.dropped) <= MOST_COUNTED
                && host.arriving.iter().is_sorted()
                && waiting.all(|number| *number < connections)
        });
        let events = self.events.iter().all(|(_, event)| {
            let known = |of: &u32| *of < connections;
            match event {
                Event::Leave(host) => *host < hosts,
                Event::Acknowledged(of, _) | Event::Comes(of, _) | Event::Taken(of, _) => known(of),
                Event::Delayed(of) | Event::Expire(of) => known(of),
            }
        });
        self.hosts.len() == hosts as usize && self.connections.is_sound(hosts) && own && events
    }
}
