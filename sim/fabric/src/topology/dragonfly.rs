//! Dragonflies, after Kim, Dally, Scott and Abts, "Technology-driven, highly-scalable dragonfly topology",
//! ISCA 2008.
//!
//! Each pair of groups has the same number of links, and costs are set such that the cheapest path is the paper's
//! minimal route. Built for a plan's `topology = "dragonfly"`.

use super::cuts::CutRule;
use super::{Endpoint, Link, MAX_SWITCHES, PartSpecs, Topology, TopologyError};
use crate::link::LinkSpec;

/// The arrangement of the links between groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GlobalWiring {
    /// As many links between each pair of groups as the global ports allow, spread evenly over the groups' switches.
    #[default]
    AllPorts,
    /// One link between each pair of groups, from the groups' lowest global ports.
    OneLink,
}

/// The global ports of a dragonfly's groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GlobalPorts {
    /// Ports of each group.
    pub per_group: u32,
    /// Ports of each group that have a link.
    pub linked: u32,
    /// Number of groups.
    pub groups: u32,
}

/// Parameters of a dragonfly, with the paper's letters.
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
    /// Arrangement of the links between groups.
    pub wiring: GlobalWiring,
    /// Properties of links between groups.
    pub global_link: LinkSpec,
}

/// Cost of a link between groups, where a link within a group costs 1. It is more than the two links within groups
/// before and after it, so that the cheapest path uses only one global link. That is the paper's minimal routing.
const GLOBAL_COST: u8 = 3;

/// Limit on links between switches.
const MOST_LINKS: u64 = 1 << 22;

impl Dragonfly {
    /// Maximum number of hosts.
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

    /// Links between each pair of groups: floor(a h / (g - 1)), or one under [`GlobalWiring::OneLink`].
    pub fn links_between_groups(&self) -> u32 {
        let others = self.groups.saturating_sub(1);
        match self.wiring {
            _ if others == 0 => 0,
            GlobalWiring::AllPorts => self.ports_per_group() / others,
            GlobalWiring::OneLink => 1,
        }
    }

    fn ports_per_group(&self) -> u32 {
        self.switches_per_group
            .saturating_mul(self.global_links_per_switch)
    }

    /// Builds it with hosts in its first places, switch by switch.
    ///
    /// Groups are joined by the absolute arrangement (E. Hastings and others, "Comparing global link arrangements
    /// for Dragonfly networks", CLUSTER 2015). As in SST's merlin, there are several links between each pair of
    /// groups: link *k* between groups *i* and *j* is number *k* (*g* - 1) + *j'* of group *i*, where *j'* is *j*
    /// for *j* < *i*, else *j* - 1. A group's switches take its links in order; if these do not divide evenly, the
    /// first switches have one link more than the last. Ports stay unused if there are too few for another link to
    /// every other group.
    ///
    /// # Errors
    /// When the parameters are not valid for a dragonfly, there are more hosts than places, or a link
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
                for link in 0..self.links_between_groups() {
                    let (here, there) =
                        (self.gate(near, link, far - 1), self.gate(far, link, near));
                    links.push(between(here, there, self.global_link));
                }
            }
        }
        let all = links.len();
        let mut topology = Topology::new(hosts, vec![parts.switch; switches as usize], links)?;
        for link in local..all {
            topology.set_cost(link as u32, GLOBAL_COST)?;
        }
        topology.global_ports = Some(GlobalPorts {
            per_group: self.ports_per_group(),
            linked: self.links_between_groups() * (self.groups - 1),
            groups: self.groups,
        });
        Ok(topology.cut_by(CutRule::Groups(self.switches_per_group)))
    }

    /// The switch of a group at one of its links to another group, which is number `other` among the others.
    fn gate(&self, group: u32, link: u32, other: u32) -> u32 {
        let number = link * (self.groups - 1) + other;
        let switch = match self.wiring {
            GlobalWiring::AllPorts => {
                let all = self.links_between_groups() * (self.groups - 1);
                share_of(number, all, self.switches_per_group)
            }
            GlobalWiring::OneLink => number / self.global_links_per_switch,
        };
        group * self.switches_per_group + switch
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
        let links = a.saturating_mul(g).saturating_mul(a.saturating_add(h)) / 2;
        if links > MOST_LINKS {
            return refuse(format!("{links} links between switches are too many"));
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

/// The part with item `number` of `all`, where the first of `parts` parts have one item more than the last.
fn share_of(number: u32, all: u32, parts: u32) -> u32 {
    let (each, more) = (all / parts, all % parts);
    let in_larger = more * (each + 1);
    match number < in_larger {
        true => number / (each + 1),
        false => more + (number - in_larger) / each,
    }
}
