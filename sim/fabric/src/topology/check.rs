//! What makes parts a network.
//!
//! Each error names the link or place that is wrong, as people named it. Called by every constructor of a
//! topology, before anybody has it.

use std::collections::VecDeque;

use belljar_sim::Span;

use super::{Endpoint, Link, Topology};

/// Why a topology cannot be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    /// A link names something that does not exist.
    #[error("a link leads to {0:?}, which does not exist")]
    NoSuchEnd(Endpoint),
    /// A host has none, or more than one.
    #[error("{host} has {links} links; it must have exactly one, to a switch")]
    HostLinks {
        /// The host's name.
        host: String,
        /// How many it has.
        links: usize,
    },
    /// A link between two hosts, or from a place to itself.
    #[error("a link joins {0}; it must join a host and a switch, or two switches")]
    Ends(String),
    /// Places that no way leads to.
    #[error("there is no way between {from} and {to}; add links until all places are connected")]
    Unconnected {
        /// A place.
        from: String,
        /// Some of those it cannot reach.
        to: String,
    },
    /// A place that two hosts should have, or that there is not.
    #[error(
        "place {0} is named twice, or is none of the network's; each host needs a place of its own"
    )]
    Places(u32),
    /// Not as many places as hosts.
    #[error("{places} places are named, and there are {hosts} hosts; name one for each")]
    PlacesCount {
        /// Places that are named.
        places: usize,
        /// Hosts that there are.
        hosts: u32,
    },
    /// A switch of a tree needs a port downward.
    #[error("a tree needs at least 2 hosts to a switch, not {0}")]
    Fanout(u32),
    /// A link without latency would leave the nodes no time to run on their own.
    #[error("the link between {0} has no latency; give it at least 1 ns")]
    NoLatency(String),
    /// A link that carries nothing.
    #[error("the link between {0} has no bandwidth; give it at least 1 bit per second")]
    NoBandwidth(String),
    /// A link that costs nothing would let frames go in circles.
    #[error("the link between {0} has cost 0; give it 1 to 255")]
    NoCost(String),
    /// Numbers that make no such shape.
    #[error("a {shape} cannot be: {reason}")]
    Shape {
        /// Its name.
        shape: &'static str,
        /// What is wrong, and what would be right.
        reason: String,
    },
}

/// Places that an error names at most.
const NAMED: usize = 5;

impl Topology {
    pub(super) fn check_links(&self) -> Result<(), TopologyError> {
        for link in &self.links {
            for end in link.ends {
                let exists = match end {
                    Endpoint::Host(host) => host < self.hosts,
                    Endpoint::Switch(switch) => (switch as usize) < self.switches.len(),
                };
                if !exists {
                    return Err(TopologyError::NoSuchEnd(end));
                }
            }
            let [near, far] = link.ends;
            if near == far || matches!(far, Endpoint::Host(_)) {
                return Err(TopologyError::Ends(self.ends_of(link)));
            }
            if link.spec.latency == Span::ZERO {
                return Err(TopologyError::NoLatency(self.ends_of(link)));
            }
            if link.spec.bandwidth == 0 {
                return Err(TopologyError::NoBandwidth(self.ends_of(link)));
            }
        }
        Ok(())
    }

    /// What a link joins, in words.
    pub(super) fn ends_of(&self, link: &Link) -> String {
        let [near, far] = link.ends.map(|end| self.place_name(end));
        format!("{near} and {far}")
    }

    /// Notes which links there are at each place.
    pub(super) fn attach(&mut self) -> Result<(), TopologyError> {
        let mut of_hosts = vec![(0, 0); self.hosts as usize];
        for (link, id) in self.links.iter().zip(0..) {
            for end in link.ends {
                match end {
                    Endpoint::Host(host) => {
                        let (count, last) = &mut of_hosts[host as usize];
                        (*count, *last) = (*count + 1, id);
                    }
                    Endpoint::Switch(switch) => self.switch_links[switch as usize].push(id),
                }
            }
        }
        if let Some(host) = of_hosts.iter().position(|&(count, _)| count != 1) {
            return Err(TopologyError::HostLinks {
                host: self.place_name(Endpoint::Host(host as u32)),
                links: of_hosts[host].0,
            });
        }
        self.host_links = of_hosts.into_iter().map(|(_, link)| link).collect();
        Ok(())
    }

    pub(super) fn check_connected(&self) -> Result<(), TopologyError> {
        if self.switches.is_empty() {
            return Err(TopologyError::Shape {
                shape: "network",
                reason: "it has no switch".into(),
            });
        }
        let mut seen = vec![false; self.switches.len()];
        seen[0] = true;
        let mut open = VecDeque::from([0]);
        while let Some(switch) = open.pop_front() {
            for &link in self.links_at(switch) {
                let far = self.links[link as usize].other_end(Endpoint::Switch(switch));
                if let Endpoint::Switch(far) = far
                    && !std::mem::replace(&mut seen[far as usize], true)
                {
                    open.push_back(far);
                }
            }
        }
        let hosts = (0..self.hosts).map(|host| (Endpoint::Host(host), self.switch_of(host)));
        let switches = (0..seen.len() as u32).map(|switch| (Endpoint::Switch(switch), switch));
        let lost: Vec<String> = hosts
            .chain(switches)
            .filter(|&(_, switch)| !seen[switch as usize])
            .map(|(place, _)| self.place_name(place))
            .collect();
        if lost.is_empty() {
            return Ok(());
        }
        let more = lost.len().saturating_sub(NAMED);
        let mut to = lost[..lost.len() - more].join(", ");
        if more > 0 {
            to.push_str(&format!(" and {more} more"));
        }
        Err(TopologyError::Unconnected {
            from: self.place_name(Endpoint::Switch(0)),
            to,
        })
    }
}
