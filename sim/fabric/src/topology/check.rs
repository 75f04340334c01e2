//! Validation of topologies.
//!
//! Each error names the link, host or switch as the user named it. Called by every constructor of a
//! topology.

use std::collections::VecDeque;

use belljar_sim::Span;

use super::{Endpoint, Link, Topology};

/// An error in a topology.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    /// A link has an end that does not exist.
    #[error("a link leads to {0:?}, which does not exist")]
    NoSuchEnd(Endpoint),
    /// A host has no link, or more than one.
    #[error("{host} has {links} links; it must have exactly one, to a switch")]
    HostLinks {
        /// The host's name.
        host: String,
        /// Its number of links.
        links: usize,
    },
    /// A link between two hosts, or from a host or switch to itself.
    #[error("a link joins {0}; it must join a host and a switch, or two switches")]
    Ends(String),
    /// The graph is not connected.
    #[error("there is no way between {from} and {to}; add links until all places are connected")]
    Unconnected {
        /// The name of a host or switch.
        from: String,
        /// Some of those it cannot reach.
        to: String,
    },
    /// A place that is given twice, or does not exist.
    #[error(
        "place {0} is named twice, or is none of the network's; each host needs a place of its own"
    )]
    Places(u32),
    /// The number of places differs from the number of hosts.
    #[error("{places} places are named, and there are {hosts} hosts; name one for each")]
    PlacesCount {
        /// Number of given places.
        places: usize,
        /// Number of hosts.
        hosts: u32,
    },
    /// A switch of a tree needs at least two downlinks.
    #[error("a tree needs at least 2 hosts to a switch, not {0}")]
    Fanout(u32),
    /// A link without latency: nodes could not run without synchronisation.
    #[error("the link between {0} has no latency; give it at least 1 ns")]
    NoLatency(String),
    /// A link without bandwidth.
    #[error("the link between {0} has no bandwidth; give it at least 1 bit per second")]
    NoBandwidth(String),
    /// A link with cost 0, which would allow loops.
    #[error("the link between {0} has cost 0; give it 1 to 255")]
    NoCost(String),
    /// Parameters that are not valid for a shape.
    #[error("a {shape} cannot be: {reason}")]
    Shape {
        /// Its name.
        shape: &'static str,
        /// The problem and valid values.
        reason: String,
    },
}

/// Limit on names in an error.
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

    /// Describes the ends of a link.
    pub(super) fn ends_of(&self, link: &Link) -> String {
        let [near, far] = link.ends.map(|end| self.place_name(end));
        format!("{near} and {far}")
    }

    /// Collects the links of each host and switch.
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
