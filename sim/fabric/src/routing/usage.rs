//! Links between switches that no route uses.
//!
//! For each destination's switch, a walk from all switches with hosts marks the links that the configured
//! routing takes, and the links that begin any least-cost path. Destinations are visited until all links are
//! marked, or a limit on steps is reached. Called for warnings; routes do not depend on it.

use super::costs::costs_towards;
use super::{Router, Routes, Routing, RoutingError, switches_of_hosts};
use crate::network::direction_from;
use crate::topology::{Endpoint, LinkId, Topology};

/// Steps after which use in one direction suffices for each link.
const ENOUGH: u64 = 1 << 23;
/// Limit on steps: somewhat more than half a second.
const MOST: u64 = 1 << 25;

/// Usage of links between switches while all links work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkUsage {
    /// Links between switches.
    pub links: u32,
    /// Links on a least-cost path that no route of the configured routing uses.
    pub idle: u32,
    /// Links that such routes use in one direction only. Not counted for networks with very many links.
    pub half_idle: u32,
    /// Links that cost more than another path between their ends, so that least-cost routings do not use
    /// them.
    pub costly: u32,
    /// The first idle link, or otherwise the first costly one.
    pub example: Option<LinkId>,
    /// Switches with hosts to which routes were followed, and the number of all such switches: fewer if the
    /// limit on steps was reached.
    pub followed: [u32; 2],
}

impl LinkUsage {
    /// Follows the routes of a topology.
    ///
    /// # Errors
    /// When the topology does not fit the routing, or tables are missing.
    pub fn of(topology: &Topology, routes: &Routes) -> Result<Self, RoutingError> {
        let router = Router::new(topology, routes)?;
        let mut survey = Survey::new(topology, router);
        survey.follow();
        let mut usage = survey.count();
        survey.count_costly(&mut usage);
        Ok(usage)
    }
}

/// By link: use in each direction.
type Marks = Vec<[bool; 2]>;

struct Survey<'a> {
    topology: &'a Topology,
    router: Router,
    /// Switches with hosts, and the hosts of each.
    sources: Vec<(u32, Vec<u32>)>,
    /// Links used by the configured routing.
    taken: Marks,
    /// Links on least-cost paths.
    possible: Marks,
    /// Links between switches that are not yet used in any direction, and unused directions.
    missing: [usize; 2],
    links: usize,
    followed: u32,
    steps: u64,
}

/// Least-cost paths to a switch: by switch, the links that begin one.
struct LeastCostPaths {
    target: u32,
    candidates: Vec<Vec<LinkId>>,
    /// By switch, the number of the last walk that passed it.
    passed: Vec<u32>,
    walk: u32,
}

impl<'a> Survey<'a> {
    fn new(topology: &'a Topology, router: Router) -> Self {
        let switches = switches_of_hosts(topology);
        let mut sources: Vec<(u32, Vec<u32>)> =
            switches.into_iter().map(|it| (it, Vec::new())).collect();
        for host in 0..topology.hosts() {
            let switch = topology.switch_of(host);
            if let Ok(at) = sources.binary_search_by_key(&switch, |(it, _)| *it) {
                sources[at].1.push(host);
            }
        }
        let between = |link: &&crate::topology::Link| matches!(link.ends[0], Endpoint::Switch(_));
        let links = topology.links().iter().filter(between).count();
        let none = vec![[false; 2]; topology.links().len()];
        Self {
            topology,
            router,
            sources,
            taken: none.clone(),
            possible: none,
            missing: [links, 2 * links],
            links,
            followed: 0,
            steps: 0,
        }
    }

    /// Follows routes to all switches with hosts, in an order that is spread over the network.
    fn follow(&mut self) {
        let count = self.sources.len();
        let stride = stride(count);
        if self.takes_all() || count < 2 {
            return;
        }
        for number in 0..count {
            let [links, directions] = self.missing;
            let enough = directions == 0 || (links == 0 && self.steps > ENOUGH);
            if enough || self.steps > MOST {
                return;
            }
            self.follow_to(number * stride % count);
            self.followed += 1;
        }
    }

    /// True if the configured routing uses every least-cost path.
    fn takes_all(&self) -> bool {
        use Routing::{Adaptive, Ecmp, Random, Ugal, Valiant};
        let routing = self.router.routes.routing;
        matches!(routing, Ecmp | Random | Valiant | Adaptive | Ugal)
    }

    fn follow_to(&mut self, number: usize) {
        let target = self.sources[number].0;
        self.router.prepare(self.topology, target);
        let mut ways = self.ways(target);
        // Rows of all destinations together may be large.
        self.router.rows[target as usize] = None;
        let others: Vec<usize> = (0..self.sources.len()).filter(|it| *it != number).collect();
        match self.router.routes.routing {
            Routing::SModK => {
                for other in others {
                    let (from, hosts) = self.sources[other].clone();
                    for host in hosts {
                        ways.walk += 1;
                        self.walk(&mut ways, from, host);
                    }
                }
            }
            Routing::DModK | Routing::Tables => {
                for host in self.sources[number].1.clone() {
                    ways.walk += 1;
                    for other in &others {
                        self.walk(&mut ways, self.sources[*other].0, host);
                    }
                }
            }
            _ => {
                ways.walk += 1;
                for other in others {
                    self.walk(&mut ways, self.sources[other].0, 0);
                }
            }
        }
    }

    /// Finds the least-cost paths to a switch from all others with hosts, and marks their links.
    fn ways(&mut self, target: u32) -> LeastCostPaths {
        let count = self.topology.switches().len();
        let mut candidates: Vec<Vec<LinkId>> = vec![Vec::new(); count];
        let mut seen = vec![false; count];
        let mut open: Vec<u32> = self.sources.iter().map(|(switch, _)| *switch).collect();
        open.iter().for_each(|switch| seen[*switch as usize] = true);
        while let Some(switch) = open.pop() {
            self.steps += self.topology.links_at(switch).len() as u64;
            if switch == target {
                continue;
            }
            let own = self.router.least_cost(self.topology, switch, target);
            for &link in &own {
                let direction = direction_from(self.topology, switch, link);
                self.possible[link as usize][direction.index()] = true;
                let far = self.topology.links()[link as usize].other_end(Endpoint::Switch(switch));
                if let Endpoint::Switch(far) = far
                    && !std::mem::replace(&mut seen[far as usize], true)
                {
                    open.push(far);
                }
            }
            candidates[switch as usize] = own;
        }
        // Cost computation visited all links.
        self.steps += self.topology.links().len() as u64;
        LeastCostPaths {
            target,
            candidates,
            passed: vec![0; count],
            walk: 0,
        }
    }

    /// Follows a route from a switch up to a switch that the same walk has passed.
    fn walk(&mut self, ways: &mut LeastCostPaths, mut switch: u32, host: u32) {
        while switch != ways.target && ways.passed[switch as usize] != ways.walk {
            ways.passed[switch as usize] = ways.walk;
            self.steps += 1;
            let own = &ways.candidates[switch as usize];
            let link = match self.router.routes.routing {
                Routing::Tables => {
                    let tables = self.router.tables();
                    tables.and_then(|tables| tables.towards(switch, host))
                }
                Routing::DModK | Routing::SModK => {
                    let divisors = self.topology.divisors();
                    let divisor = divisors.map_or(1, |all| all[switch as usize]);
                    let wanted = u64::from(host) / divisor % own.len().max(1) as u64;
                    own.get(wanted as usize).copied()
                }
                _ => own.first().copied(),
            };
            let Some(link) = link else { return };
            self.take(switch, link);
            match self.topology.links()[link as usize].other_end(Endpoint::Switch(switch)) {
                Endpoint::Switch(far) => switch = far,
                Endpoint::Host(_) => return,
            }
        }
    }

    fn take(&mut self, switch: u32, link: LinkId) {
        let direction = direction_from(self.topology, switch, link).index();
        let marks = &mut self.taken[link as usize];
        if !std::mem::replace(&mut marks[direction], true) {
            self.missing[1] -= 1;
            self.missing[0] -= usize::from(!marks[1 - direction]);
        }
    }

    fn count(&self) -> LinkUsage {
        let all = self.sources.len() as u32;
        let mut usage = LinkUsage {
            links: self.links as u32,
            followed: match self.followed {
                0 => [all; 2],
                some => [some, all],
            },
            ..LinkUsage::default()
        };
        if self.takes_all() {
            return usage;
        }
        let whole = self.followed == all;
        for (link, (taken, possible)) in (0..).zip(self.taken.iter().zip(&self.possible)) {
            let missing = |at: usize| possible[at] && !taken[at];
            match (taken.contains(&true), missing(0), missing(1)) {
                (false, false, false) | (true, false, false) => {}
                (false, ..) => {
                    usage.idle += 1;
                    usage.example.get_or_insert(link);
                }
                (true, ..) => usage.half_idle += u32::from(whole),
            }
        }
        usage
    }

    /// Counts links for which a cheaper path exists.
    fn count_costly(&mut self, usage: &mut LinkUsage) {
        let (links, costs) = (self.topology.links(), self.topology.costs());
        // The links between a dragonfly's groups cost more by design, although no path avoids them.
        let by_rule = self.topology.global_ports().is_some();
        if by_rule || self.router.routes.routing == Routing::Tables {
            return;
        }
        let least = costs.iter().copied().min().unwrap_or(1);
        let mut known: Option<(u32, Box<[u32]>)> = None;
        for (id, (link, cost)) in (0..).zip(links.iter().zip(costs)) {
            let ([Endpoint::Switch(near), Endpoint::Switch(far)], true) =
                (link.ends, *cost > least)
            else {
                continue;
            };
            let row = match known.take() {
                Some((switch, row)) if switch == near => row,
                _ if self.steps > MOST => return,
                _ => {
                    self.steps += links.len() as u64;
                    costs_towards(self.topology, &self.router.works, near)
                }
            };
            if row[far as usize] < u32::from(*cost) {
                usage.costly += 1;
                usage.example.get_or_insert(id);
            }
            known = Some((near, row));
        }
    }
}

/// A step that visits each of `count` indices once, alternating near and far ones.
fn stride(count: usize) -> usize {
    let divides = |one: usize, other: usize| {
        let (mut one, mut other) = (one, other);
        while other > 0 {
            (one, other) = (other, one % other);
        }
        one == 1
    };
    // Near the golden ratio, which spreads every prefix of the sequence.
    let from = count * 5 / 8 + 1;
    (from..from + count)
        .find(|step| divides(*step, count))
        .unwrap_or(1)
}

#[cfg(test)]
mod tests;
