//! Which way frames go.
//!
//! Every switch knows what each of its links leads to. For a destination's switch, a
//! *row* holds what it costs to get there from every switch; the candidates at a switch
//! are the links that lead to a switch from which it costs exactly that much less. Costs
//! fall along every way, so no frame goes in circles; one that goes over another switch first, as Valiant's do, falls twice.
//! Rows are computed when first needed,
//! and forgotten when links fail or come back: what they say depends on the topology and
//! on which links work, never on when they were computed. Tables of the user's stand for all of that.

/// Links that begin ways of least cost.
mod candidates;
/// What ways cost.
mod costs;
/// Tables of the user's.
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

/// How one of several ways is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Routing {
    /// Of links that begin a way of least cost, the one with the lowest number.
    #[default]
    Shortest,
    /// Equal-cost multipath (RFC 2992's hash over what tells flows apart, RFC 6438's
    /// fields): candidate number floor(H n / 2^64) of n, with H the XXH3-64 hash of the
    /// frame's [flow key](FlowKey) under seed `scenario seed XOR rotate(switch, 32)`.
    /// All frames of a flow take one way.
    Ecmp,
    /// Candidate number floor(d / D) mod n of n, with d the destination host's number
    /// and D what belongs to the switch's level (Zahavi et al., 2010). For topologies
    /// whose switches have levels.
    DModK,
    /// The same with the source host's number.
    SModK,
    /// As ECMP, with the numbers of source and destination host in the flow key's place: one way for each pair of hosts.
    Random,
    /// First to a switch with hosts that chance chooses, but for the source's and the destination's, and from there to the destination (L. Valiant, "A
    /// scheme for fast parallel communication", 1982), as ECMP each. Chance is the hash of the frame's flow key: all frames of a flow take one way.
    Valiant,
    /// Of links that begin a way of least cost, the one whose port is free first; each frame for itself.
    Adaptive,
    /// As adaptive, but over a switch that chance chooses for each frame where the way over it looks shorter at the first switch: where its
    /// port's queue times its cost is less than that of the way of least cost (UGAL-L; J. Kim, W. Dally, S. Scott, D. Abts, "Technology-driven,
    /// highly-scalable dragonfly topology", 2008).
    Ugal,
    /// As tables of the user's say.
    Tables,
}

impl Routing {
    /// Whether frames of a flow may take different ways, by what waits for links.
    pub fn looks_at_load(self) -> bool {
        matches!(self, Self::Adaptive | Self::Ugal)
    }
}

/// Why frames cannot be routed so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RoutingError {
    /// D-mod-K or S-mod-K without levels.
    #[error(
        "d-mod-k and s-mod-k need switches that have levels: a star, tree or fat tree; choose shortest or ecmp"
    )]
    NoLevels,
    /// Tables, and none there.
    #[error("tables is chosen, and there are none")]
    NoTables,
}

/// How ways are chosen.
#[derive(Clone, Debug, Default)]
pub struct Routes {
    /// By which rule.
    pub routing: Routing,
    /// Where hashes come from.
    pub seed: u64,
    /// The user's tables, where [`Routing::Tables`] is the rule.
    pub tables: Option<Arc<ForwardingTables>>,
}

/// A frame at a switch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Passing<'a> {
    pub(crate) switch: u32,
    /// Where it is to go.
    pub(crate) host: u32,
    pub(crate) frame: &'a [u8],
    /// The switch that it has to pass first.
    pub(crate) via: Option<u32>,
    /// It comes from its host: this is its first switch.
    pub(crate) enters: bool,
    /// Tells frames of one flow apart, for what each has chosen for itself.
    pub(crate) salt: u64,
}

/// How long the queue of a switch's port to a link is, in picoseconds on the wire.
pub(crate) type Load<'a> = &'a dyn Fn(LinkId) -> u64;

/// Where a frame goes from a switch: the link, and the switch that it has yet to pass before its own.
pub(crate) type Next = (LinkId, Option<u32>);

/// Routes over the links that work at present.
#[derive(Clone, Debug)]
pub(crate) struct Router {
    routes: Routes,
    works: Vec<bool>,
    /// By destination's switch: what it costs from each switch.
    rows: Vec<Option<Box<[u32]>>>,
    candidates: Candidates,
    /// Links over which frames to groups go: a spanning tree.
    tree: Option<Vec<bool>>,
    /// Switches with hosts, which frames may be sent over.
    detours: Vec<u32>,
}

impl Router {
    /// A router for when all links work.
    ///
    /// # Errors
    /// When the topology is none for the routing, or tables are missing.
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

    /// A link fails, or works again.
    pub(crate) fn set_working(&mut self, link: LinkId, works: bool) {
        self.works[link as usize] = works;
        self.forget();
    }

    /// All links work.
    pub(crate) fn reset(&mut self) {
        self.works.fill(true);
        self.forget();
    }

    fn forget(&mut self) {
        self.rows.iter_mut().for_each(|row| *row = None);
        self.candidates.clear();
        self.tree = None;
    }

    /// Where a frame goes from the switch that it is at, whose ports have such queues; `None` when no way is left.
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

    /// True if ways depend on more of a frame than its destination.
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

    /// One of the links that begin a way of least cost to the switch `target`.
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
                // Of ports that are free at the same time, flows take different ones.
                let first = scale(self.flow_hash(at), links.len());
                let (before, after) = links.split_at(first);
                let turned = after.iter().chain(before).copied();
                return turned.min_by_key(|link| load(*link));
            }
        };
        links.get(wanted).copied()
    }

    /// The switch over which a frame goes that is at its first switch, if not straight to its own.
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

    /// What it costs to get from one switch to another.
    fn cost(&mut self, topology: &Topology, from: u32, to: u32) -> u32 {
        self.prepare(topology, to);
        self.row(to)
            .get(from as usize)
            .copied()
            .unwrap_or(UNREACHABLE)
    }

    /// Works out what it costs to get to a switch, if nobody did.
    fn prepare(&mut self, topology: &Topology, target: u32) {
        self.rows[target as usize]
            .get_or_insert_with(|| costs_towards(topology, &self.works, target));
    }

    fn row(&self, target: u32) -> &[u32] {
        self.rows[target as usize].as_deref().unwrap_or_default()
    }

    /// Finds the links at a switch that begin a way of least cost to another switch, unless they are known.
    fn find(&mut self, topology: &Topology, switch: u32, target: u32) {
        if self.candidates.of(switch, target).is_none() {
            self.prepare(topology, target);
            let found = self.least_cost(topology, switch, target);
            self.candidates.insert(switch, target, &found);
        }
    }

    /// The links at a switch that begin a way of least cost to another, in ascending order; none where nobody [prepared](Self::prepare) that.
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

    /// Whether frames to groups go over `link`: over all hosts' links, and over those
    /// between switches that breadth-first search from the lowest-numbered switch of each
    /// connected part finds first.
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

/// The number of the host that sends a frame; 0 where nobody knows it.
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
