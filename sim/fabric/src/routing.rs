//! Which way frames go.
//!
//! Every switch knows what each of its links leads to. For a destination's switch, a
//! *row* holds what it costs to get there from every switch; the candidates at a switch
//! are the links that lead to a switch from which it costs exactly that much less. Costs
//! fall along every way, so no frame goes in circles. Rows are computed when first needed,
//! and forgotten when links fail or come back: what they say depends on the topology and
//! on which links work, never on when they were computed.

use std::collections::VecDeque;

use belljar_sim::Seed;
use serde::{Deserialize, Serialize};
use twox_hash::XxHash3_64;

use crate::flow::FlowKey;
use crate::topology::{Endpoint, LinkId, Topology};

/// How one of several ways of least cost is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Routing {
    /// The link with the lowest number.
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
}

/// Why frames cannot be routed so.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RoutingError {
    /// D-mod-K without levels.
    #[error(
        "d-mod-k needs switches that have levels: a star, tree or fat tree; choose shortest or ecmp"
    )]
    NoLevels,
}

/// What a place costs that cannot be reached.
const UNREACHABLE: u32 = u32::MAX;

/// Routes over the links that work at present.
#[derive(Clone, Debug)]
pub(crate) struct Router {
    routing: Routing,
    seed: Seed,
    works: Vec<bool>,
    /// By destination's switch: what it costs from each switch.
    rows: Vec<Option<Box<[u32]>>>,
    /// Links over which frames to groups go: a spanning tree.
    tree: Option<Vec<bool>>,
}

impl Router {
    /// A router for when all links work.
    ///
    /// # Errors
    /// When the topology is none for `routing`.
    pub(crate) fn new(
        topology: &Topology,
        routing: Routing,
        seed: Seed,
    ) -> Result<Self, RoutingError> {
        if routing == Routing::DModK && topology.divisors().is_none() {
            return Err(RoutingError::NoLevels);
        }
        Ok(Self {
            routing,
            seed,
            ..Self::for_any(topology)
        })
    }

    /// A router for any topology, over the links with the lowest numbers.
    pub(crate) fn for_any(topology: &Topology) -> Self {
        Self {
            routing: Routing::Shortest,
            seed: Seed(0),
            works: vec![true; topology.links().len()],
            rows: vec![None; topology.switches().len()],
            tree: None,
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
        self.tree = None;
    }

    /// The link over which `switch` sends `frame` towards `host`; `None` when no way is
    /// left.
    pub(crate) fn towards(
        &mut self,
        topology: &Topology,
        switch: u32,
        host: u32,
        frame: &[u8],
    ) -> Option<LinkId> {
        let target = topology.switch_of(host);
        if target == switch {
            return Some(topology.link_of(host));
        }
        let row = self.rows[target as usize]
            .get_or_insert_with(|| costs_towards(topology, &self.works, target));
        let here = Candidates {
            topology,
            works: &self.works,
            row,
            switch,
        };
        let wanted = match self.routing {
            Routing::Shortest => 0,
            Routing::Ecmp => {
                let seed = self.seed.0 ^ u64::from(switch).rotate_left(32);
                let hash = XxHash3_64::oneshot_with_seed(seed, FlowKey::of(frame).as_bytes());
                scale(hash, here.links().count())
            }
            Routing::DModK => {
                let divisor = topology.divisors().map_or(1, |all| all[switch as usize]);
                let count = here.links().count().max(1) as u64;
                (u64::from(host) / divisor % count) as usize
            }
        };
        here.links().nth(wanted)
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

/// A switch that looks for the way towards another.
struct Candidates<'a> {
    topology: &'a Topology,
    works: &'a [bool],
    row: &'a [u32],
    switch: u32,
}

impl Candidates<'_> {
    /// The links that begin a way of least cost, in ascending order.
    fn links(&self) -> impl Iterator<Item = LinkId> {
        let cost = self.row[self.switch as usize];
        let leads = move |&link: &LinkId| {
            let far = self.topology.links()[link as usize].other_end(Endpoint::Switch(self.switch));
            let Endpoint::Switch(far) = far else {
                return false;
            };
            let step = u32::from(self.topology.costs()[link as usize]);
            let rest = self.row[far as usize];
            self.works[link as usize] && rest != UNREACHABLE && rest + step == cost
        };
        let all = self.topology.links_at(self.switch).iter();
        all.copied().filter(leads)
    }
}

/// What it costs to get to `target` from every switch. Costs of links are small whole
/// numbers, so open switches wait in buckets by cost (Dial, 1969).
fn costs_towards(topology: &Topology, works: &[bool], target: u32) -> Box<[u32]> {
    const BUCKETS: usize = u8::MAX as usize + 1;
    let mut row = vec![UNREACHABLE; topology.switches().len()].into_boxed_slice();
    row[target as usize] = 0;
    let mut buckets = vec![Vec::new(); BUCKETS];
    buckets[0].push(target);
    let (mut cost, mut waiting) = (0_u32, 1);
    while waiting > 0 {
        while let Some(switch) = buckets[cost as usize % BUCKETS].pop() {
            waiting -= 1;
            if row[switch as usize] != cost {
                continue;
            }
            for &link in topology.links_at(switch) {
                let far = topology.links()[link as usize].other_end(Endpoint::Switch(switch));
                let reached = cost + u32::from(topology.costs()[link as usize]);
                if let Endpoint::Switch(far) = far
                    && works[link as usize]
                    && reached < row[far as usize]
                {
                    row[far as usize] = reached;
                    buckets[reached as usize % BUCKETS].push(far);
                    waiting += 1;
                }
            }
        }
        cost += 1;
    }
    row
}

fn spanning_tree(topology: &Topology, works: &[bool]) -> Vec<bool> {
    let mut tree = vec![false; topology.links().len()];
    for host in 0..topology.hosts() {
        tree[topology.link_of(host) as usize] = true;
    }
    let mut seen = vec![false; topology.switches().len()];
    for root in 0..seen.len() as u32 {
        if std::mem::replace(&mut seen[root as usize], true) {
            continue;
        }
        let mut open = VecDeque::from([root]);
        while let Some(switch) = open.pop_front() {
            for &link in topology.links_at(switch) {
                let far = topology.links()[link as usize].other_end(Endpoint::Switch(switch));
                if let Endpoint::Switch(far) = far
                    && works[link as usize]
                    && !std::mem::replace(&mut seen[far as usize], true)
                {
                    tree[link as usize] = true;
                    open.push_back(far);
                }
            }
        }
    }
    tree
}
