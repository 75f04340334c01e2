//! Routing of frames.
//!
//! Every switch knows the destinations of each of its links. For a destination's switch, a *row* holds the costs of paths to it from every switch. The
//! candidates at a switch are the links to switches from which the cost is lower by exactly the link's cost. Costs fall along every path, so there are
//! no loops; a frame with an intermediate switch, as under Valiant, has two such paths. Rows are computed when first needed, and dropped when links
//! fail or come back: they depend on the topology and on working links, never on the time of their computation. The user's tables replace all of this.

/// Links that begin least-cost paths.
mod candidates;
/// Costs of paths.
mod costs;
/// The user's forwarding tables.
mod tables;
/// Links that routes use.
mod usage;

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_64;

use crate::flow::FlowKey;
use crate::frame::Mac;
use crate::topology::{Endpoint, LinkId, Topology};
use candidates::Candidates;
use costs::{UNREACHABLE, costs_towards, spanning_tree};
pub use tables::{ForwardingTables, TableError};
pub use usage::LinkUsage;

/// Rule for the choice among several paths.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Routing {
    /// The lowest-numbered link that begins a least-cost path.
    #[default]
    Shortest,
    /// Equal-cost multipath (RFC 2992's hash over the fields of a flow, RFC 6438's fields): candidate number floor(H n / 2^64) of n, with H the
    /// XXH3-64 hash of the frame's [flow key](FlowKey) under seed `scenario seed XOR rotate(switch, 32)`. All frames of a flow take one path.
    Ecmp,
    /// Candidate number floor(d / D) mod n of n, with d the destination host's number and D the divisor of the switch's level (Zahavi et al., 2010).
    /// For topologies whose switches have levels.
    DModK,
    /// The same with the source host's number.
    SModK,
    /// Like ECMP, with the numbers of source and destination host instead of the flow key: one path for each pair of hosts.
    Random,
    /// First to a random switch with hosts, other than the source's and the destination's, and from there to the destination (L. Valiant, "A scheme
    /// for fast parallel communication", 1982), both by ECMP. The switch is chosen by the hash of the frame's flow key: all frames of a flow take one
    /// path.
    Valiant,
    /// Among links that begin a least-cost path, the one whose port is idle first; for each frame separately.
    Adaptive,
    /// Like adaptive, but over a switch chosen at random for each frame if that path looks shorter at the first switch. That is the case if its port's
    /// queue times its cost is less than for the least-cost path (UGAL-L; J. Kim, W. Dally, S. Scott, D. Abts, "Technology-driven, highly-scalable
    /// dragonfly topology", 2008).
    Ugal,
    /// The user's tables.
    Tables,
}

impl Routing {
    /// True if frames of a flow may take different paths, depending on queues.
    pub fn looks_at_load(self) -> bool {
        matches!(self, Self::Adaptive | Self::Ugal)
    }
}

/// An error of a routing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RoutingError {
    /// D-mod-K or S-mod-K without levels.
    #[error(
        "d-mod-k and s-mod-k need switches that have levels: a star, tree or fat tree; choose shortest or ecmp"
    )]
    NoLevels,
    /// Tables are chosen but missing.
    #[error("tables is chosen, and there are none")]
    NoTables,
}

/// Routing settings.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    /// Routing rule.
    pub routing: Routing,
    /// Seed of hashes.
    pub seed: u64,
    /// The user's tables, if [`Routing::Tables`] is the rule.
    pub tables: Option<Arc<ForwardingTables>>,
}

/// A frame at a switch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passing<'a> {
    pub(crate) switch: u32,
    /// Destination host.
    pub(crate) host: u32,
    pub(crate) frame: &'a [u8],
    /// A switch to pass first.
    pub(crate) via: Option<u32>,
    /// True at its first switch: it comes from its host.
    pub(crate) enters: bool,
    /// Distinguishes frames of one flow, if each chooses separately.
    pub(crate) salt: u64,
}

/// Queue of a switch's port to a link, in picoseconds on the wire.
pub(crate) type Load<'a> = &'a dyn Fn(LinkId) -> u64;

/// A frame's next hop: the link, and the switch to pass before the destination's.
pub(crate) type Next = (LinkId, Option<u32>);

/// Routes over the links that currently work.
#[derive(Clone, Debug)]
pub(crate) struct Router {
    routes: Routes,
    works: Vec<bool>,
    /// By destination's switch: costs from each switch.
    rows: Vec<Option<Box<[u32]>>>,
    candidates: Candidates,
    /// Links for frames to groups: a spanning tree.
    tree: Option<Vec<bool>>,
    /// Switches with hosts, which are candidates for detours.
    detours: Vec<u32>,
}

impl Router {
    /// A router with all links working.
    ///
    /// # Errors
    /// When the topology does not fit the routing, or tables are missing.
    pub(crate) fn new(topology: &Topology, routes: &Routes) -> Result<Self, RoutingError> {
        match routes.routing {
            Routing::DModK | Routing::SModK if topology.divisors().is_none() => {
                return Err(RoutingError::NoLevels);
            }
            Routing::Tables if routes.tables.is_none() => return Err(RoutingError::NoTables),
            _ => {}
        }
        let detours = match routes.routing {
            Routing::Valiant | Routing::Ugal => switches_of_hosts(topology),
            _ => Vec::new(),
        };
        Ok(Self {
            routes: routes.clone(),
            detours,
            ..Self::for_any(topology)
        })
    }

    /// A router for any topology, over the links with the lowest numbers.
    pub(crate) fn for_any(topology: &Topology) -> Self {
        Self {
            routes: Routes::default(),
            works: vec![true; topology.links().len()],
            rows: vec![None; topology.switches().len()],
            candidates: Candidates::of_switches(topology.switches().len()),
            tree: None,
            detours: Vec::new(),
        }
    }

    /// Marks a link as failed or working.
    pub(crate) fn set_working(&mut self, link: LinkId, works: bool) {
        self.works[link as usize] = works;
        self.forget();
    }

    /// Marks all links as working.
    pub(crate) fn reset(&mut self) {
        self.works.fill(true);
        self.forget();
    }

    fn forget(&mut self) {
        self.rows.iter_mut().for_each(|row| *row = None);
        self.candidates.clear();
        self.tree = None;
    }

    /// A frame's next hop from its current switch, whose ports have the queues `load`; `None` without a path.
    pub(crate) fn towards(
        &mut self,
        topology: &Topology,
        at: Passing<'_>,
        load: Load<'_>,
    ) -> Option<Next> {
        let own = topology.switch_of(at.host);
        let mut via = match at.enters {
            true => self.detour(topology, own, &at, load),
            false => at.via,
        };
        via = via
            .filter(|via| *via != at.switch && self.cost(topology, at.switch, *via) != UNREACHABLE);
        let target = via.unwrap_or(own);
        if target == at.switch {
            return Some((topology.link_of(at.host), None));
        }
        if let Some(tables) = self.tables() {
            let link = tables.towards(at.switch, at.host)?;
            return self.works[link as usize].then_some((link, None));
        }
        self.find(topology, at.switch, target);
        let link = self.choose(topology, target, &at, load)?;
        Some((link, via))
    }

    /// The links at a switch that begin a least-cost path to the switch `target`.
    pub(crate) fn links_towards(
        &mut self,
        topology: &Topology,
        switch: u32,
        target: u32,
    ) -> Vec<LinkId> {
        self.find(topology, switch, target);
        let links = self.candidates.of(switch, target);
        links.map(<[LinkId]>::to_vec).unwrap_or_default()
    }

    /// True if paths depend on more than a frame's destination.
    pub(crate) fn reads_frames(&self) -> bool {
        !matches!(
            self.routes.routing,
            Routing::Shortest | Routing::DModK | Routing::Tables
        )
    }

    fn tables(&self) -> Option<&ForwardingTables> {
        match self.routes.routing {
            Routing::Tables => self.routes.tables.as_deref(),
            _ => None,
        }
    }

    /// Chooses among the links that begin a least-cost path to the switch `target`.
    fn choose(
        &self,
        topology: &Topology,
        target: u32,
        at: &Passing<'_>,
        load: Load<'_>,
    ) -> Option<LinkId> {
        let links = self.candidates.of(at.switch, target)?;
        let by_level = |host: u32| {
            let divisor = topology.divisors().map_or(1, |all| all[at.switch as usize]);
            (u64::from(host) / divisor % links.len().max(1) as u64) as usize
        };
        let wanted = match self.routes.routing {
            Routing::Shortest | Routing::Tables => 0,
            Routing::Ecmp | Routing::Valiant => scale(self.flow_hash(at), links.len()),
            Routing::Random => scale(self.hash(at.switch, &pair(at)), links.len()),
            Routing::DModK => by_level(at.host),
            Routing::SModK => by_level(source(at.frame)),
            Routing::Adaptive | Routing::Ugal => {
                // Among ports that are idle at the same time, different flows take different ones.
                let first = scale(self.flow_hash(at), links.len());
                let (before, after) = links.split_at(first);
                let turned = after.iter().chain(before).copied();
                return turned.min_by_key(|link| load(*link));
            }
        };
        links.get(wanted).copied()
    }

    /// The switch for a detour of a frame at its first switch, if any.
    fn detour(
        &mut self,
        topology: &Topology,
        own: u32,
        at: &Passing<'_>,
        load: Load<'_>,
    ) -> Option<u32> {
        let salt = match self.routes.routing {
            Routing::Valiant => 0,
            Routing::Ugal => at.salt,
            _ => return None,
        };
        if own == at.switch {
            return None;
        }
        let hash = XxHash3_64::oneshot_with_seed(
            self.routes.seed ^ salt,
            FlowKey::of(at.frame).as_bytes(),
        );
        let detours = self.detours.iter().copied();
        let mut others = detours.filter(|it| *it != own && *it != at.switch);
        let via = others.nth(scale(hash, others.clone().count()))?;
        let looks_shorter = self.routes.routing == Routing::Valiant || {
            let costs = [(at.switch, own), (at.switch, via), (via, own)]
                .map(|(from, to)| u64::from(self.cost(topology, from, to)));
            let straight = self.queue(topology, at.switch, own, load);
            let over = self.queue(topology, at.switch, via, load);
            over.saturating_mul(costs[1] + costs[2]) < straight.saturating_mul(costs[0])
        };
        looks_shorter.then_some(via)
    }

    /// The shortest queue towards a switch.
    fn queue(&mut self, topology: &Topology, from: u32, to: u32, load: Load<'_>) -> u64 {
        self.find(topology, from, to);
        let links = self.candidates.of(from, to).unwrap_or_default();
        links
            .iter()
            .map(|link| load(*link))
            .min()
            .unwrap_or(u64::MAX)
    }

    /// The cost of a path between two switches.
    fn cost(&mut self, topology: &Topology, from: u32, to: u32) -> u32 {
        self.prepare(topology, to);
        self.row(to)
            .get(from as usize)
            .copied()
            .unwrap_or(UNREACHABLE)
    }

    /// Computes the costs of paths to a switch, unless they are known.
    fn prepare(&mut self, topology: &Topology, target: u32) {
        self.rows[target as usize]
            .get_or_insert_with(|| costs_towards(topology, &self.works, target));
    }

    fn row(&self, target: u32) -> &[u32] {
        self.rows[target as usize].as_deref().unwrap_or_default()
    }

    /// Finds the links at a switch that begin a least-cost path to another switch, unless they are known.
    fn find(&mut self, topology: &Topology, switch: u32, target: u32) {
        if self.candidates.of(switch, target).is_none() {
            self.prepare(topology, target);
            let found = self.least_cost(topology, switch, target);
            self.candidates.insert(switch, target, &found);
        }
    }

    /// The links at a switch that begin a least-cost path to another, in ascending order; empty unless [prepared](Self::prepare).
    fn least_cost(&self, topology: &Topology, switch: u32, target: u32) -> Vec<LinkId> {
        let row = self.row(target);
        let cost_of = |switch: u32| row.get(switch as usize).copied().unwrap_or(UNREACHABLE);
        let cost = cost_of(switch);
        let leads = |link: &LinkId| {
            let far = topology.links()[*link as usize].other_end(Endpoint::Switch(switch));
            let Endpoint::Switch(far) = far else {
                return false;
            };
            let step = u32::from(topology.costs()[*link as usize]);
            let rest = cost_of(far);
            self.works[*link as usize] && rest != UNREACHABLE && rest + step == cost
        };
        let all = topology.links_at(switch).iter().copied();
        all.filter(leads).collect()
    }

    fn flow_hash(&self, at: &Passing<'_>) -> u64 {
        self.hash(at.switch, FlowKey::of(at.frame).as_bytes())
    }

    fn hash(&self, switch: u32, key: &[u8]) -> u64 {
        let seed = self.routes.seed ^ u64::from(switch).rotate_left(32);
        XxHash3_64::oneshot_with_seed(seed, key)
    }

    /// True if frames to groups use `link`: all hosts' links, and the links between switches that breadth-first search from the lowest-numbered switch
    /// of each connected component finds first.
    pub(crate) fn floods(&mut self, topology: &Topology, link: LinkId) -> bool {
        let tree = self
            .tree
            .get_or_insert_with(|| spanning_tree(topology, &self.works));
        tree[link as usize]
    }
}

/// Maps a hash evenly onto 0 to `count` - 1.
fn scale(hash: u64, count: usize) -> usize {
    ((u128::from(hash) * count as u128) >> 64) as usize
}

/// The number of the host that sent a frame; 0 if unknown.
fn source(frame: &[u8]) -> u32 {
    Mac::source(frame).and_then(Mac::host_index).unwrap_or(0)
}

/// A frame's source and destination, as bytes.
fn pair(at: &Passing<'_>) -> [u8; 8] {
    let mut bytes = [0; 8];
    bytes[..4].copy_from_slice(&source(at.frame).to_be_bytes());
    bytes[4..].copy_from_slice(&at.host.to_be_bytes());
    bytes
}

fn switches_of_hosts(topology: &Topology) -> Vec<u32> {
    let mut switches: Vec<u32> = (0..topology.hosts())
        .map(|host| topology.switch_of(host))
        .collect();
    switches.sort_unstable();
    switches.dedup();
    switches
}
