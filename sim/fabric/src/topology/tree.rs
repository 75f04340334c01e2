//! Stars and trees: one path between any two hosts.
//!
//! Built for a plan's `topology = "star"` and `"tree"`.

use super::{Endpoint, Link, SwitchSpec, Topology, TopologyError};
use crate::link::LinkSpec;

impl Topology {
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
        Ok(Self::new(hosts, vec![switch], links)?.levelled(vec![1]))
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
        let tree = Self::new(hosts, vec![switch; switches as usize], links)?;
        Ok(tree.levelled(vec![1; switches as usize]))
    }
}
