//! What is connected to what.

use belljar_sim::Span;

use crate::link::LinkSpec;

/// Index of a link in its topology.
pub type LinkId = u32;

/// One end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Endpoint {
    /// A node's NIC.
    Host(u32),
    /// A switch.
    Switch(u32),
}

/// A link, each way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The two ends; for a host's link the host comes first.
    pub ends: [Endpoint; 2],
    /// Bandwidth and latency.
    pub spec: LinkSpec,
}

/// What a switch is: it forwards a frame once the last bit is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchSpec {
    /// From the last bit in to the first bit out of an idle port.
    pub latency: Span,
    /// Bytes that may wait at each output port.
    pub queue_bytes: u64,
}

/// Hosts, switches and links, without loops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    hosts: u32,
    switches: Vec<SwitchSpec>,
    links: Vec<Link>,
}

/// Why a topology cannot be.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    /// A link names something that does not exist.
    #[error("link {link} leads to {end:?}, which does not exist")]
    NoSuchEnd {
        /// The link.
        link: LinkId,
        /// What it names.
        end: Endpoint,
    },
    /// A host has none, or more than one.
    #[error("host {host} has {links} links; it must have exactly one")]
    HostLinks {
        /// The host.
        host: u32,
        /// How many it has.
        links: usize,
    },
    /// There is more than one way, or none, between two places.
    #[error("the switches do not form one tree: {links} links between {places} places")]
    NotATree {
        /// Links.
        links: usize,
        /// Hosts and switches.
        places: usize,
    },
    /// A switch of a tree needs a port downward.
    #[error("a tree needs at least 2 hosts to a switch, not {0}")]
    Fanout(u32),
    /// A link without latency would leave the nodes no time to run on their own.
    #[error("link {0} has no latency; give it at least 1 ns")]
    NoLatency(LinkId),
    /// A link that carries nothing.
    #[error("link {0} has no bandwidth; give it at least 1 bit per second")]
    NoBandwidth(LinkId),
}

impl Topology {
    /// A topology from its parts.
    ///
    /// # Errors
    /// When it is not a tree whose leaves are the hosts.
    pub fn new(
        hosts: u32,
        switches: Vec<SwitchSpec>,
        links: Vec<Link>,
    ) -> Result<Self, TopologyError> {
        let topology = Self {
            hosts,
            switches,
            links,
        };
        topology.check()?;
        Ok(topology)
    }

    /// All hosts on one switch.
    ///
    /// # Errors
    /// When the link has no latency or bandwidth.
    pub fn star(hosts: u32, link: LinkSpec, switch: SwitchSpec) -> Result<Self, TopologyError> {
        let links = (0..hosts)
            .map(|host| Link {
                ends: [Endpoint::Host(host), Endpoint::Switch(0)],
                spec: link,
            })
            .collect();
        Self::new(hosts, vec![switch], links)
    }

    /// A tree of switches: `fanout` hosts on each leaf switch, `fanout` switches
    /// below each inner one, up to a single root. `uplink` connects switches.
    ///
    /// # Errors
    /// When `fanout` is below 2, or a link has no latency or bandwidth.
    pub fn tree(
        hosts: u32,
        fanout: u32,
        link: LinkSpec,
        uplink: LinkSpec,
        switch: SwitchSpec,
    ) -> Result<Self, TopologyError> {
        if fanout < 2 {
            return Err(TopologyError::Fanout(fanout));
        }
        let mut links = Vec::new();
        let mut level: Vec<Endpoint> = (0..hosts).map(Endpoint::Host).collect();
        let mut switches = 0;
        let mut spec = link;
        loop {
            let mut above = Vec::new();
            for group in level.chunks(fanout as usize) {
                let parent = Endpoint::Switch(switches);
                switches += 1;
                above.push(parent);
                links.extend(group.iter().map(|&child| Link {
                    ends: [child, parent],
                    spec,
                }));
            }
            if above.len() <= 1 {
                break;
            }
            level = above;
            spec = uplink;
        }
        Self::new(hosts, vec![switch; switches as usize], links)
    }

    /// Number of hosts.
    pub fn hosts(&self) -> u32 {
        self.hosts
    }

    /// The switches.
    pub fn switches(&self) -> &[SwitchSpec] {
        &self.switches
    }

    /// The links.
    pub fn links(&self) -> &[Link] {
        &self.links
    }

    /// A name for a link, such as `host3-switch0`.
    pub fn link_name(&self, link: LinkId) -> String {
        let name = |end| match end {
            Endpoint::Host(host) => format!("host{host}"),
            Endpoint::Switch(switch) => format!("switch{switch}"),
        };
        let [near, far] = self.links[link as usize].ends;
        format!("{}-{}", name(near), name(far))
    }

    /// The least time between the sending of a frame by any host and its last bit's
    /// arrival at a switch.
    pub fn hop(&self) -> Span {
        self.links
            .iter()
            .filter(|link| matches!(link.ends[0], Endpoint::Host(_)))
            .map(|link| link.spec.latency + link.spec.transmission(0))
            .min()
            .unwrap_or(Span::ZERO)
    }

    /// The least time between the sending of a frame by any host and its arrival
    /// at another: within it, no host can hear of what another one does now. Up to
    /// the nearest switch, through it, and down again.
    pub fn lookahead(&self) -> Span {
        let through = self.switches.iter().map(|switch| switch.latency).min();
        self.hop() + through.unwrap_or(Span::ZERO) + self.hop()
    }

    fn check(&self) -> Result<(), TopologyError> {
        for (link, id) in self.links.iter().zip(0..) {
            for end in link.ends {
                let exists = match end {
                    Endpoint::Host(host) => host < self.hosts,
                    Endpoint::Switch(switch) => (switch as usize) < self.switches.len(),
                };
                if !exists {
                    return Err(TopologyError::NoSuchEnd { link: id, end });
                }
            }
            if link.spec.latency == Span::ZERO {
                return Err(TopologyError::NoLatency(id));
            }
            if link.spec.bandwidth == 0 {
                return Err(TopologyError::NoBandwidth(id));
            }
        }
        for host in 0..self.hosts {
            let end = Endpoint::Host(host);
            let links = self
                .links
                .iter()
                .filter(|link| link.ends.contains(&end))
                .count();
            if links != 1 {
                return Err(TopologyError::HostLinks { host, links });
            }
        }
        let places = self.hosts as usize + self.switches.len();
        if self.links.len() + 1 != places || self.reachable() != places {
            return Err(TopologyError::NotATree {
                links: self.links.len(),
                places,
            });
        }
        Ok(())
    }

    fn reachable(&self) -> usize {
        let mut seen = vec![Endpoint::Switch(0)];
        let mut next = 0;
        while let Some(&place) = seen.get(next) {
            next += 1;
            for link in &self.links {
                let [near, far] = link.ends;
                let other = if near == place {
                    far
                } else if far == place {
                    near
                } else {
                    continue;
                };
                if !seen.contains(&other) {
                    seen.push(other);
                }
            }
        }
        seen.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINK: LinkSpec = LinkSpec {
        bandwidth: 1_000_000_000,
        latency: Span::from_us(5),
    };
    const SWITCH: SwitchSpec = SwitchSpec {
        latency: Span::from_ns(500),
        queue_bytes: 100_000,
    };

    #[test]
    fn a_tree_of_nine_hosts_by_three_has_four_switches() {
        let tree = Topology::tree(9, 3, LINK, LINK, SWITCH).unwrap();
        assert_eq!(tree.switches().len(), 4);
        assert_eq!(tree.links().len(), 12);
    }

    #[test]
    fn lookahead_is_the_shortest_way_of_the_shortest_frame() {
        let star = Topology::star(2, LINK, SWITCH).unwrap();
        // Twice 5 us and 84 bytes at 8 ns, and the switch.
        assert_eq!(star.lookahead(), Span::from_ns(2 * (5_000 + 672) + 500));
    }

    #[test]
    fn loops_and_loose_ends_are_refused() {
        let link = |near, far| Link {
            ends: [near, far],
            spec: LINK,
        };
        let (a, b) = (Endpoint::Switch(0), Endpoint::Switch(1));
        let links = vec![link(Endpoint::Host(0), a), link(a, b), link(b, a)];
        let looped = Topology::new(1, vec![SWITCH; 2], links);
        assert!(matches!(looped, Err(TopologyError::NotATree { .. })));
        let loose = Topology::new(1, vec![SWITCH], vec![]);
        assert!(matches!(loose, Err(TopologyError::HostLinks { .. })));
        assert_eq!(
            Topology::tree(4, 1, LINK, LINK, SWITCH),
            Err(TopologyError::Fanout(1))
        );
    }
}
