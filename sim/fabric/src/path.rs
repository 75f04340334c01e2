//! Paths through a network, without sending frames.
//!
//! A path is the one that a frame would take while all links work. Called by network models without frames.

use crate::network::{Direction, direction_from};
use crate::routing::{Passing, Router, Routes, RoutingError};
use crate::topology::{Endpoint, LinkId, Topology};

/// Finds paths through a topology.
#[derive(Clone, Debug)]
pub struct Paths {
    router: Router,
}

impl Paths {
    /// Creates a finder of the paths that `routes` chooses.
    ///
    /// # Errors
    /// When the topology does not fit the routing.
    pub fn new(topology: &Topology, routes: &Routes) -> Result<Self, RoutingError> {
        let router = Router::new(topology, routes)?;
        Ok(Self { router })
    }

    /// The link that a packet for host `to` takes at `switch`, whose links have the queues `load`; `None` without a path.
    ///
    /// # Panics
    /// When there is no such host.
    pub fn next(
        &mut self,
        topology: &Topology,
        switch: u32,
        to: u32,
        load: &dyn Fn(LinkId, Direction) -> u64,
    ) -> Option<(LinkId, Direction)> {
        let direction = |link| direction_from(topology, switch, link);
        let passing = Passing {
            switch,
            host: to,
            frame: &[],
            via: None,
            enters: false,
            salt: 0,
        };
        let waits = |link| load(link, direction(link));
        let (link, _) = self.router.towards(topology, passing, &waits)?;
        Some((link, direction(link)))
    }

    /// The links that begin a shortest path from `switch` to host `to`.
    ///
    /// # Panics
    /// When there is no such host.
    pub fn choices(&mut self, topology: &Topology, switch: u32, to: u32) -> Vec<LinkId> {
        match topology.switch_of(to) {
            own if own == switch => vec![topology.link_of(to)],
            own => self.router.links_towards(topology, switch, own),
        }
    }

    /// The links of `frame` from host `from` to host `to`, with their directions, in order. Empty if both hosts are the same. `load` is the queue of a link in a
    /// direction, in any unit, for load-dependent routings; `salt` distinguishes frames of a flow.
    ///
    /// # Panics
    /// When there is no such host.
    pub fn between(
        &mut self,
        topology: &Topology,
        from: u32,
        to: u32,
        frame: &[u8],
        salt: u64,
        load: &dyn Fn(LinkId, Direction) -> u64,
    ) -> Vec<(LinkId, Direction)> {
        let mut path = Vec::new();
        if from == to {
            return path;
        }
        path.push((topology.link_of(from), Direction::Up));
        let mut passing = Passing {
            switch: topology.switch_of(from),
            host: to,
            frame,
            via: None,
            enters: true,
            salt,
        };
        loop {
            let here = Endpoint::Switch(passing.switch);
            let direction = |link| direction_from(topology, passing.switch, link);
            let waits = |link| load(link, direction(link));
            let Some((link, via)) = self.router.towards(topology, passing, &waits) else {
                break;
            };
            path.push((link, direction(link)));
            match topology.links()[link as usize].other_end(here) {
                Endpoint::Switch(next) => passing.switch = next,
                Endpoint::Host(_) => break,
            }
            (passing.via, passing.enters) = (via, false);
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
        let mut paths = Paths::new(&tree, &Routes::default()).unwrap();
        for from in 0..8u32 {
            for to in 0..8u32 {
                let path = paths.between(&tree, from, to, &[], 0, &|_, _| 0);
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
