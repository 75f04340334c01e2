//! Tori: grids of switches with wrap-around links.
//!
//! Links are numbered such that shortest routes are dimension-ordered. Hosts fill the first places, switch
//! by switch. Built for a plan's `topology = "torus"`.

use super::cuts::CutRule;
use super::grid::Grid;
use super::{Endpoint, Link, MAX_SWITCHES, PartSpecs, Topology, TopologyError};

/// Parameters of a torus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Torus {
    /// Switches along each dimension.
    pub dimensions: Vec<u32>,
    /// Places for hosts at each switch.
    pub hosts_per_switch: u32,
}

impl Torus {
    /// Maximum number of hosts.
    pub fn capacity(&self) -> u64 {
        self.grid().capacity()
    }

    fn grid(&self) -> Grid<'_> {
        Grid {
            shape: "torus",
            dimensions: &self.dimensions,
            hosts_per_switch: self.hosts_per_switch,
        }
    }

    /// Builds it with hosts in its first places, switch by switch; the first dimension varies fastest. A
    /// dimension of two switches has one link between them.
    ///
    /// Links of the first dimension have the lowest numbers, and shortest routes take the lowest-numbered
    /// of equal paths. They finish the first dimension before the second: dimension-ordered routing (Dally
    /// and Seitz, 1987).
    ///
    /// # Errors
    /// When the parameters are not valid for a torus, there are more hosts than places, or a link has no
    /// latency or bandwidth.
    pub fn build(&self, hosts: u32, parts: &PartSpecs) -> Result<Topology, TopologyError> {
        self.check(hosts)?;
        let switches = self.grid().switches() as u32;
        let mut links = parts.links_of_hosts(hosts, self.hosts_per_switch);
        let mut stride = 1;
        for &size in &self.dimensions {
            for switch in 0..switches {
                let at = switch / stride % size;
                let next = switch - at * stride + (at + 1) % size * stride;
                // Two switches have one link, and a single switch none.
                if size > 2 || (size == 2 && at == 0) {
                    links.push(Link {
                        ends: [Endpoint::Switch(switch), Endpoint::Switch(next)],
                        spec: parts.uplink,
                    });
                }
            }
            stride *= size;
        }
        let topology = Topology::new(hosts, vec![parts.switch; switches as usize], links)?;
        Ok(topology.cut_by(CutRule::Grid(self.dimensions.clone())))
    }

    fn check(&self, hosts: u32) -> Result<(), TopologyError> {
        let grid = self.grid();
        grid.check_dimensions()?;
        if grid.switches() > MAX_SWITCHES as u64 {
            let reason = format!("{} switches are too many", grid.switches());
            return Err(grid.refuse(reason));
        }
        grid.check_room(hosts)
    }
}
