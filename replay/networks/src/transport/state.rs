//! The state of all hosts as plain values, checked before use.
//!
//! With the topology and the hosts' pace it determines all that follows. A state may come from a file of unknown origin. Called for checkpoints of runs with background
//! traffic.

use belljar_sim::Time;
use serde::{Deserialize, Serialize};

use super::connection::Connections;
use super::event::Event;
use super::host::Host;

/// More than anything can have been counted to in all of representable time.
pub(crate) const MOST_COUNTED: u64 = 1 << 62;

/// All that changes of hosts that send and receive.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct TransportState {
    pub(super) hosts: Vec<Host>,
    pub(super) connections: Connections,
    /// Events to come, in order; empty while hosts are at work.
    pub(super) events: Vec<(Time, Event)>,
}

impl TransportState {
    /// The state of so many hosts that have sent nothing.
    pub(super) fn of_hosts(hosts: u32) -> Self {
        Self {
            hosts: vec![Host::default(); hosts as usize],
            connections: Connections::of_hosts(hosts),
            ..Self::default()
        }
    }

    /// True if it can be a state of so many hosts.
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
