//! HyperX: switches on a grid, each joined to all others along each dimension. J. Ahn, N. Binkert, A. Davis, M. McLaren, R. Schreiber, "HyperX:
//! topology, routing, and packaging of efficient large-scale networks", SC 2009.
//!
//! Links are numbered such that shortest routes are dimension-ordered. Hosts fill the first places, switch by switch. A grid of one
//! dimension is a full mesh. Built for a plan's `topology = "hyperx"`.

use super::cuts::CutRule;
use super::grid::Grid;
use super::{Endpoint, Link, MAX_SWITCHES, PartSpecs, Topology, TopologyError};

/// Parameters of a HyperX, with the paper's letters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HyperX {
    /// Switches along each dimension: S1, S2, ...
    pub dimensions: Vec<u32>,
    /// Places for hosts at each switch: T.
    pub hosts_per_switch: u32,
}

impl HyperX {
    /// Maximum number of hosts.
    pub fn capacity(&self) -> u64 {
        self.grid().capacity()
    }

    fn grid(&self) -> Grid<'_> {
        Grid {
            shape: "HyperX",
            dimensions: &self.dimensions,
            hosts_per_switch: self.hosts_per_switch,
        }
    }

    /// Builds it with hosts in its first places, switch by switch; the first dimension varies fastest.
    ///
    /// # Errors
    /// When the parameters are not valid for a HyperX, there are more hosts than places, or a link has no latency or bandwidth.
    pub fn build(&self, hosts: u32, parts: &PartSpecs) -> Result<Topology, TopologyError> {
        self.check(hosts)?;
        let switches = self.grid().switches() as u32;
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
        let topology = Topology::new(hosts, vec![parts.switch; switches as usize], links)?;
        Ok(topology.cut_by(CutRule::Grid(self.dimensions.clone())))
    }

    fn check(&self, hosts: u32) -> Result<(), TopologyError> {
        let grid = self.grid();
        grid.check_dimensions()?;
        let degree: u64 = self
            .dimensions
            .iter()
            .map(|size| u64::from(*size) - 1)
            .sum();
        let links = grid.switches().saturating_mul(degree) / 2;
        if grid.switches() > MAX_SWITCHES as u64 || links > MOST_LINKS {
            return Err(grid.refuse(format!(
                "{} switches with {links} links are too many",
                grid.switches()
            )));
        }
        grid.check_room(hosts)
    }
}

/// Limit on links between switches.
const MOST_LINKS: u64 = 1 << 22;
