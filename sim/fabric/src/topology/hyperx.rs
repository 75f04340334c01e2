//! HyperX: switches on a grid, each joined to all others along each dimension. J. Ahn, N. Binkert, A. Davis, M. McLaren, R. Schreiber, "HyperX:
//! topology, routing, and packaging of efficient large-scale networks", SC 2009.
//!
//! Links are numbered such that shortest routes are dimension-ordered. Hosts fill the first places, switch by switch. A grid of one
//! dimension is a full mesh. Built for a plan's `topology = "hyperx"`.

use super::{Endpoint, Link, MAX_SWITCHES, PartSpecs, Topology, TopologyError};

/// The numbers that make a HyperX, with the paper's letters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HyperX {
    /// Switches along each dimension: S1, S2, ...
    pub dimensions: Vec<u32>,
    /// Places for hosts at each switch: T.
    pub hosts_per_switch: u32,
}

impl HyperX {
    /// Hosts for which there is room.
    pub fn capacity(&self) -> u64 {
        self.switches()
            .saturating_mul(u64::from(self.hosts_per_switch))
    }

    fn switches(&self) -> u64 {
        self.dimensions.iter().fold(1, |product: u64, &size| {
            product.saturating_mul(u64::from(size))
        })
    }

    /// Builds it with hosts in its first places, switch by switch; the first dimension counts fastest.
    ///
    /// # Errors
    /// When the numbers make no HyperX, there are more hosts than places, or a link has no latency or bandwidth.
    pub fn build(&self, hosts: u32, parts: &PartSpecs) -> Result<Topology, TopologyError> {
        self.check(hosts)?;
        let switches = self.switches() as u32;
        let mut links = parts.links_of_hosts(hosts, self.hosts_per_switch);
        let mut stride = 1;
        for &size in &self.dimensions {
            for switch in 0..switches {
                let at = switch / stride % size;
                links.extend((at + 1..size).map(|other| Link {
                    ends: [switch, switch + (other - at) * stride].map(Endpoint::Switch),
                    spec: parts.uplink,
                }));
            }
            stride *= size;
        }
        Topology::new(hosts, vec![parts.switch; switches as usize], links)
    }

    fn check(&self, hosts: u32) -> Result<(), TopologyError> {
        let refuse = |reason: String| {
            Err(TopologyError::Shape {
                shape: "HyperX",
                reason,
            })
        };
        if self.dimensions.is_empty() || self.dimensions.len() > 8 || self.dimensions.contains(&0) {
            return refuse("give it 1 to 8 dimensions of at least 1 switch each".into());
        }
        let degree: u64 = self
            .dimensions
            .iter()
            .map(|size| u64::from(*size) - 1)
            .sum();
        let links = self.switches().saturating_mul(degree) / 2;
        if self.switches() > MAX_SWITCHES as u64 || links > MOST_LINKS {
            return refuse(format!(
                "{} switches with {links} links are too many",
                self.switches()
            ));
        }
        if self.hosts_per_switch == 0 || self.capacity() < u64::from(hosts) {
            return refuse(format!(
                "it has room for {} hosts, not {hosts}; give it longer dimensions or more hosts per switch",
                self.capacity()
            ));
        }
        Ok(())
    }
}

/// Links between switches, at most.
const MOST_LINKS: u64 = 1 << 22;
