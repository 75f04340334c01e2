//! Dragonflies, after Kim, Dally, Scott and Abts, "Technology-driven, highly-scalable dragonfly topology",
//! ISCA 2008.
//!
//! Every two groups have one link, and links cost such that the cheapest way is the paper's minimal route.
//! Built for a plan's `topology = "dragonfly"`.

use super::{Endpoint, Link, MAX_SWITCHES, PartSpecs, Topology, TopologyError};
use crate::link::LinkSpec;

/// The numbers that make a dragonfly, with the paper's letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dragonfly {
    /// Switches in a group, all linked with each other: a.
    pub switches_per_group: u32,
    /// Places for hosts at each switch: p.
    pub hosts_per_switch: u32,
    /// Links to other groups of each switch: h.
    pub global_links_per_switch: u32,
    /// Groups: g, at most a h + 1.
    pub groups: u32,
    /// What links between groups are.
    pub global_link: LinkSpec,
}

/// What a link between groups costs, where one within a group costs 1: more than the
/// two links within groups that lead to it and away, so that the cheapest way uses one of
/// them only. That is the paper's minimal routing.
const GLOBAL_COST: u8 = 3;

impl Dragonfly {
    /// Hosts for which there is room.
    pub fn capacity(&self) -> u64 {
        let group = u64::from(self.switches_per_group).saturating_mul(self.hosts_per_switch.into());
        group.saturating_mul(self.groups.into())
    }

    /// The fewest groups with room for `hosts`.
    pub fn groups_for(&self, hosts: u32) -> u32 {
        let group = self
            .switches_per_group
            .saturating_mul(self.hosts_per_switch);
        hosts.div_ceil(group.max(1)).max(1)
    }

    /// Builds it with hosts in its first places, switch by switch. Between each two
    /// groups there is one link: global port *j* of group *i* leads to group *j* when
    /// *j* < *i*, else to *j* + 1; ports are counted through the group's switches, and
    /// those for which there is no group stay empty.
    ///
    /// # Errors
    /// When the numbers make no dragonfly, there are more hosts than places, or a link
    /// has no latency or bandwidth.
    pub fn build(&self, hosts: u32, parts: &PartSpecs) -> Result<Topology, TopologyError> {
        self.check(hosts)?;
        let switches = self.switches_per_group * self.groups;
        let mut links = parts.links_of_hosts(hosts, self.hosts_per_switch);
        let between = |near, far, spec| Link {
            ends: [Endpoint::Switch(near), Endpoint::Switch(far)],
            spec,
        };
        for group in 0..self.groups {
            let first = group * self.switches_per_group;
            let all = first..first + self.switches_per_group;
            for near in all.clone() {
                links.extend((near + 1..all.end).map(|far| between(near, far, parts.uplink)));
            }
        }
        let local = links.len();
        for near in 0..self.groups {
            for far in near + 1..self.groups {
                let (here, there) = (self.gate(near, far - 1), self.gate(far, near));
                links.push(between(here, there, self.global_link));
            }
        }
        let all = links.len();
        let mut topology = Topology::new(hosts, vec![parts.switch; switches as usize], links)?;
        for link in local..all {
            topology.set_cost(link as u32, GLOBAL_COST)?;
        }
        Ok(topology)
    }

    /// The switch that has a group's global port.
    fn gate(&self, group: u32, port: u32) -> u32 {
        group * self.switches_per_group + port / self.global_links_per_switch
    }

    fn check(&self, hosts: u32) -> Result<(), TopologyError> {
        let refuse = |reason: String| {
            Err(TopologyError::Shape {
                shape: "dragonfly",
                reason,
            })
        };
        let [a, p, h, g] = [
            self.switches_per_group,
            self.hosts_per_switch,
            self.global_links_per_switch,
            self.groups,
        ]
        .map(u64::from);
        if a == 0 || p == 0 || g == 0 {
            return refuse("its groups need at least one switch with one host".into());
        }
        if a.saturating_mul(g) > MAX_SWITCHES as u64 {
            return refuse(format!("{} switches are too many", a.saturating_mul(g)));
        }
        if g > a * h + 1 {
            return refuse(format!(
                "{a} switches with {h} global links each reach {} other groups, and it has {g} groups; \
                 give it larger groups or more global links",
                a * h
            ));
        }
        if self.capacity() < u64::from(hosts) {
            return refuse(format!(
                "it has room for {} hosts, not {hosts}; give it more groups or larger ones",
                self.capacity()
            ));
        }
        Ok(())
    }
}
