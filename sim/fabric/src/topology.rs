//! Hosts, switches and links.
//!
//! A [`Topology`] is always valid: every host has one link, to a switch, the graph is connected, and every link has latency and bandwidth. Built
//! for a plan; read by the fabric, routes and distances.

use belljar_sim::Span;
use serde::{Deserialize, Serialize};

use crate::link::LinkSpec;
use cuts::CutRule;

/// Validation of topologies.
mod check;
/// Cuts of a network into two halves.
mod cuts;
/// Dragonflies: groups of switches, each joined to all others.
mod dragonfly;
/// Extended generalized fat trees.
mod fat_tree;
/// Switches on a grid.
mod grid;
/// HyperX: switches on a grid, joined to all others along each dimension.
mod hyperx;
/// Measures of a network: its diameter and its bisection.
mod measure;
/// Slim Flies: paths of two links at most.
mod slim_fly;
/// Tori: switches on a grid whose edges are joined.
mod torus;
/// Tori: grids of switches with wrap-around links.
mod tree;

pub use check::TopologyError;
pub use dragonfly::{Dragonfly, GlobalPorts, GlobalWiring};
pub use fat_tree::FatTree;
pub use hyperx::HyperX;
pub use measure::{Bisection, Measures};
pub use slim_fly::SlimFly;
pub use torus::Torus;

/// Index of a link in its topology.
pub type LinkId = u32;

/// One end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Endpoint {
    /// A node's NIC.
    Host(u32),
    /// A switch.
    Switch(u32),
}

/// A bidirectional link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Link {
    /// The two ends; for a host's link the host comes first.
    pub ends: [Endpoint; 2],
    /// Bandwidth and latency.
    pub spec: LinkSpec,
}

impl Link {
    /// The end that is not `near`.
    pub fn other_end(&self, near: Endpoint) -> Endpoint {
        let [first, second] = self.ends;
        if first == near { second } else { first }
    }
}

/// Properties of a switch: it forwards a frame once the last bit arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwitchSpec {
    /// From the arrival of the last bit to the departure of the first bit by an idle port.
    pub latency: Span,
    /// Queue capacity of each output port in bytes.
    pub queue_bytes: u64,
}

/// Properties of the parts of a regular topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartSpecs {
    /// Links between hosts and switches.
    pub link: LinkSpec,
    /// Links between switches.
    pub uplink: LinkSpec,
    /// Switches.
    pub switch: SwitchSpec,
}

impl PartSpecs {
    /// The links of hosts to switches, `per_switch` hosts on each.
    pub(super) fn links_of_hosts(&self, hosts: u32, per_switch: u32) -> Vec<Link> {
        (0..hosts)
            .map(|host| Link {
                ends: [Endpoint::Host(host), Endpoint::Switch(host / per_switch)],
                spec: self.link,
            })
            .collect()
    }
}

/// Default cost of a link.
const USUAL_COST: u8 = 1;

/// Hosts, switches and links. Every host has one link, to a switch, and the switches are connected; there may be loops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    hosts: u32,
    switches: Vec<SwitchSpec>,
    links: Vec<Link>,
    /// Routing cost, by link.
    costs: Vec<u8>,
    /// Queue capacity of a link's ports at switches in bytes, if it differs from the switches' own.
    queues: Vec<Option<u64>>,
    /// By switch, in ascending order.
    switch_links: Vec<Vec<LinkId>>,
    /// By host.
    host_links: Vec<LinkId>,
    /// Divisor of a destination's number at each switch under D-mod-K.
    divisors: Option<Vec<u64>>,
    /// Names of hosts and of switches, if there are any.
    names: Option<[Vec<String>; 2]>,
    /// The cuts that are tried for the bisection.
    cut_rule: CutRule,
    /// A dragonfly's global ports.
    global_ports: Option<GlobalPorts>,
    /// Attributes in the network's file that a topology does not support.
    unread: Vec<String>,
}

/// Limit on a topology's switches.
pub(crate) const MAX_SWITCHES: usize = 1 << 16;
impl Topology {
    /// Creates a topology from its parts. All links have cost 1.
    ///
    /// # Errors
    /// When a link has an end that does not exist, has no latency or bandwidth, a host has not exactly one link, or the graph is not connected.
    pub fn new(
        hosts: u32,
        switches: Vec<SwitchSpec>,
        links: Vec<Link>,
    ) -> Result<Self, TopologyError> {
        Self::with_names(hosts, switches, links, None)
    }

    /// Like [`new`](Self::new), with names of hosts and switches: one for each, all different.
    ///
    /// # Errors
    /// As for [`new`](Self::new); and when names are missing.
    pub fn with_names(
        hosts: u32,
        switches: Vec<SwitchSpec>,
        links: Vec<Link>,
        names: Option<[Vec<String>; 2]>,
    ) -> Result<Self, TopologyError> {
        let shape = |reason: &str| TopologyError::Shape {
            shape: "network",
            reason: reason.to_owned(),
        };
        if switches.len() > MAX_SWITCHES {
            return Err(shape("it has more than 65 536 switches"));
        }
        if let Some([of_hosts, of_switches]) = &names
            && (of_hosts.len() != hosts as usize || of_switches.len() != switches.len())
        {
            return Err(shape("a host or a switch has no name"));
        }
        let mut topology = Self {
            costs: vec![USUAL_COST; links.len()],
            queues: vec![None; links.len()],
            switch_links: vec![Vec::new(); switches.len()],
            host_links: Vec::new(),
            divisors: None,
            hosts,
            switches,
            links,
            names,
            cut_rule: CutRule::Graph,
            global_ports: None,
            unread: Vec::new(),
        };
        topology.check_links()?;
        topology.attach()?;
        topology.check_connected()?;
        Ok(topology)
    }

    /// Sets the divisor of D-mod-K at each switch of a tree with leaves in the order of subtrees.
    pub(crate) fn levelled(mut self, divisors: Vec<u64>) -> Self {
        self.divisors = Some(divisors);
        self.cut_by(CutRule::Numbered)
    }

    /// Sets the rule for cuts into halves that fits the shape.
    fn cut_by(mut self, rule: CutRule) -> Self {
        self.cut_rule = rule;
        self
    }

    /// Attributes of nodes and links in the network's file that a topology does not support, sorted: `link delay`.
    #[must_use]
    pub fn unread_attributes(&self) -> &[String] {
        &self.unread
    }

    /// Sets the attributes in the network's file that a topology does not support.
    pub fn set_unread_attributes(&mut self, attributes: Vec<String>) {
        self.unread = attributes;
    }

    /// The global ports of a dragonfly; `None` for other shapes.
    pub fn global_ports(&self) -> Option<GlobalPorts> {
        self.global_ports
    }

    /// Sets a link's cost; routes have the least sum of costs.
    ///
    /// # Errors
    /// When `cost` is 0.
    ///
    /// # Panics
    /// When there is no such link.
    pub fn set_cost(&mut self, link: LinkId, cost: u8) -> Result<(), TopologyError> {
        if cost == 0 {
            let ends = self.ends_of(&self.links[link as usize]);
            return Err(TopologyError::NoCost(ends));
        }
        self.costs[link as usize] = cost;
        Ok(())
    }

    /// Sets the queue capacity of switches' ports to `link` to `bytes`, instead of the switches' own.
    pub fn set_queue(&mut self, link: LinkId, bytes: u64) {
        if let Some(queue) = self.queues.get_mut(link as usize) {
            *queue = Some(bytes);
        }
    }

    /// Moves hosts to other places: host `i` gets the place of host `places[i]`.
    ///
    /// # Errors
    /// When `places` is not a permutation.
    pub fn placed(mut self, places: &[u32]) -> Result<Self, TopologyError> {
        let mut of_place = vec![None; self.hosts as usize];
        for (host, place) in (0..).zip(places) {
            match of_place.get_mut(*place as usize) {
                Some(of) if of.is_none() => *of = Some(host),
                _ => return Err(TopologyError::Places(*place)),
            }
        }
        if places.len() != self.hosts as usize {
            return Err(TopologyError::PlacesCount {
                places: places.len(),
                hosts: self.hosts,
            });
        }
        for link in &mut self.links {
            for end in &mut link.ends {
                if let Endpoint::Host(place) = end {
                    *place = of_place[*place as usize].unwrap_or(*place);
                }
            }
        }
        let links = std::mem::take(&mut self.host_links);
        self.host_links = places.iter().map(|place| links[*place as usize]).collect();
        if let Some([hosts, _]) = &mut self.names {
            let names = std::mem::take(hosts);
            *hosts = places
                .iter()
                .map(|place| names[*place as usize].clone())
                .collect();
        }
        Ok(self)
    }

    /// Replaces each link's properties by the result of `of`. Results without bandwidth are ignored, and latency is at least a picosecond.
    #[must_use]
    pub fn with_links(mut self, mut of: impl FnMut(LinkSpec) -> LinkSpec) -> Self {
        for link in &mut self.links {
            let spec = of(link.spec);
            if spec.bandwidth > 0 {
                let latency = spec.latency.max(Span::from_ps(1));
                link.spec = LinkSpec { latency, ..spec };
            }
        }
        self
    }

    /// Replaces each switch's properties by the result of `of`.
    #[must_use]
    pub fn with_switches(mut self, mut of: impl FnMut(SwitchSpec) -> SwitchSpec) -> Self {
        for switch in &mut self.switches {
            *switch = of(*switch);
        }
        self
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

    /// Routing costs, by link.
    pub fn costs(&self) -> &[u8] {
        &self.costs
    }

    /// The links at `switch`, in ascending order.
    pub fn links_at(&self, switch: u32) -> &[LinkId] {
        &self.switch_links[switch as usize]
    }

    /// The link of `host`.
    pub fn link_of(&self, host: u32) -> LinkId {
        self.host_links[host as usize]
    }

    /// The switch of `host`.
    pub fn switch_of(&self, host: u32) -> u32 {
        let link = &self.links[self.host_links[host as usize] as usize];
        match link.other_end(Endpoint::Host(host)) {
            Endpoint::Switch(switch) | Endpoint::Host(switch) => switch,
        }
    }

    /// True if D-mod-K and S-mod-K can be used, because switches have levels.
    pub fn has_levels(&self) -> bool {
        self.divisors.is_some()
    }

    /// Divisor of a destination's number at each switch under D-mod-K, if switches have levels.
    pub(crate) fn divisors(&self) -> Option<&[u64]> {
        self.divisors.as_deref()
    }

    /// Queue capacity of a switch's port to `link` in bytes.
    pub fn queue_of(&self, link: LinkId, switch: u32) -> u64 {
        self.queues[link as usize].unwrap_or(self.switches[switch as usize].queue_bytes)
    }

    /// A name for a host or switch, such as `switch0`.
    pub fn place_name(&self, place: Endpoint) -> String {
        let (kind, number, word) = match place {
            Endpoint::Host(host) => (0, host, "host"),
            Endpoint::Switch(switch) => (1, switch, "switch"),
        };
        let given = self.names.as_ref();
        given.map_or_else(
            || format!("{word}{number}"),
            |names| names[kind][number as usize].clone(),
        )
    }

    /// A name for a link, such as `host3-switch0`; further links between the same ends are `switch0-switch1.2` and so on.
    pub fn link_name(&self, link: LinkId) -> String {
        let [near, far] = self.links[link as usize].ends;
        let name = format!("{}-{}", self.place_name(near), self.place_name(far));
        let Endpoint::Switch(switch) = far else {
            return name;
        };
        let joins = |other: &&LinkId| {
            let ends = self.links[**other as usize].ends;
            ends == [near, far] || ends == [far, near]
        };
        let before = self.links_at(switch).iter().filter(joins);
        match before.take_while(|&&other| other < link).count() {
            0 => name,
            more => format!("{name}.{}", more + 1),
        }
    }

    /// The least time from the sending of a frame by any host to its last bit's arrival at a switch.
    pub fn hop(&self) -> Span {
        self.host_links
            .iter()
            .map(|&link| self.links[link as usize].spec)
            .map(|spec| spec.latency + spec.transmission(0))
            .min()
            .unwrap_or(Span::ZERO)
    }

    /// The least time from the sending of a frame by any host to its arrival at another: within it, no host can affect another. Computed as the
    /// time to the nearest switch, through it, and back down.
    pub fn lookahead(&self) -> Span {
        let through = self.switches.iter().map(|switch| switch.latency).min();
        self.hop() + through.unwrap_or(Span::ZERO) + self.hop()
    }
}

#[cfg(test)]
mod tests;
