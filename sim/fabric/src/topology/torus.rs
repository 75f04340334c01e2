//! Tori: switches on a grid whose edges are joined.
//!
//! Links are numbered such that shortest routes are dimension-ordered. Hosts fill the first places, switch
//! by switch. Built for a plan's `topology = "torus"`.

use super::{Endpoint, Link, MAX_SWITCHES, PartSpecs, Topology, TopologyError};

/// The numbers that make a torus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Torus {
    /// Switches along each dimension.
    pub dimensions: Vec<u32>,
    /// Places for hosts at each switch.
    pub hosts_per_switch: u32,
}

impl Torus {
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

    /// Builds it with hosts in its first places, switch by switch; the first dimension
    /// counts fastest. A dimension of two switches has one link between them.
    ///
    /// Links of the first dimension have the lowest numbers, and shortest routes take
    /// the lowest of equal ways: they go along the first dimension to the end, then along
    /// the second: dimension-ordered routing (Dally and Seitz, 1987).
    ///
    /// # Errors
    /// When the numbers make no torus, there are more hosts than places, or a link has
    /// no latency or bandwidth.
    pub fn build(&self, hosts: u32, parts: &PartSpecs) -> Result<Topology, TopologyError> {
        self.check(hosts)?;
        let switches = self.switches() as u32;
        let mut links = parts.links_of_hosts(hosts, self.hosts_per_switch);
        let mut stride = 1;
        for &size in &self.dimensions {
            for switch in 0..switches {
                let at = switch / stride % size;
                let next = switch - at * stride + (at + 1) % size * stride;
                // One link joins two, and none joins one to itself.
                if size > 2 || (size == 2 && at == 0) {
                    links.push(Link {
                        ends: [Endpoint::Switch(switch), Endpoint::Switch(next)],
                        spec: parts.uplink,
                    });
                }
            }
            stride *= size;
        }
        Topology::new(hosts, vec![parts.switch; switches as usize], links)
    }

    fn check(&self, hosts: u32) -> Result<(), TopologyError> {
        let refuse = |reason: String| {
            Err(TopologyError::Shape {
                shape: "torus",
                reason,
            })
        };
        if self.dimensions.is_empty() || self.dimensions.len() > 8 || self.dimensions.contains(&0) {
            return refuse("give it 1 to 8 dimensions of at least 1 switch each".into());
        }
        if self.switches() > MAX_SWITCHES as u64 {
            return refuse(format!("{} switches are too many", self.switches()));
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
