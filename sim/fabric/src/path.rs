//! Whole ways through a network, without sending anything.
//!
//! A way is what a frame would take while all links work. Called by models of networks that have no frames.

use belljar_sim::Seed;

use crate::network::Direction;
use crate::routing::{Router, Routing, RoutingError};
use crate::topology::{Endpoint, LinkId, Topology};

/// Finds ways through a topology.
#[derive(Clone, Debug)]
pub struct Paths {
    router: Router,
}

impl Paths {
    /// Ways as `routing` chooses them, hashes from `seed`.
    ///
    /// # Errors
    /// When the topology is none for the routing.
    pub fn new(topology: &Topology, routing: Routing, seed: u64) -> Result<Self, RoutingError> {
        let router = Router::new(topology, routing, Seed(seed))?;
        Ok(Self { router })
    }

    /// The links over which `frame` goes from host `from` to host `to`, with the directions, in order. Empty where both are the same.
    ///
    /// # Panics
    /// When there is no such host.
    pub fn between(
        &mut self,
        topology: &Topology,
        from: u32,
        to: u32,
        frame: &[u8],
    ) -> Vec<(LinkId, Direction)> {
        let mut path = Vec::new();
        if from == to {
            return path;
        }
        path.push((topology.link_of(from), Direction::Up));
        let mut switch = topology.switch_of(from);
        while let Some(link) = self.router.towards(topology, switch, to, frame) {
            let ends = topology.links()[link as usize].ends;
            let here = Endpoint::Switch(switch);
            let direction = match ends[0] == here {
                true => Direction::Up,
                false => Direction::Down,
            };
            path.push((link, direction));
            match topology.links()[link as usize].other_end(here) {
                Endpoint::Switch(next) => switch = next,
                Endpoint::Host(_) => break,
            }
        }
        path
    }
}

#[cfg(test)]
mod tests {
    use belljar_sim::Span;

    use super::*;
    use crate::link::LinkSpec;
    use crate::topology::SwitchSpec;

    #[test]
    fn ways_lead_from_host_to_host() {
        let link = LinkSpec {
            bandwidth: 10_000_000_000,
            latency: Span::from_us(1),
        };
        let switch = SwitchSpec {
            latency: Span::from_ns(300),
            queue_bytes: 1 << 19,
        };
        let tree = Topology::tree(8, 2, link, link, switch).unwrap();
        let mut paths = Paths::new(&tree, Routing::Shortest, 0).unwrap();
        for from in 0..8u32 {
            for to in 0..8u32 {
                let path = paths.between(&tree, from, to, &[]);
                let levels = 32 - (from ^ to).leading_zeros() as usize;
                assert_eq!(path.len(), 2 * levels, "{from} to {to}");
                let Some(((first, _), (last, direction))) = path.first().zip(path.last()) else {
                    continue;
                };
                assert_eq!(*first, tree.link_of(from));
                assert_eq!((*last, *direction), (tree.link_of(to), Direction::Down));
            }
        }
    }
}
