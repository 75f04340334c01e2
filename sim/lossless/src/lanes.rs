//! The virtual lane of each link of a path.
//!
//! A packet that occupies the buffer behind one link waits for the next link of its path: that is a dependency between links.
//! Where dependencies form a circle, packets can wait for each other for ever (Dally and Seitz, "Deadlock-Free Message Routing in
//! Multiprocessor Interconnection Networks", 1987). A depth-first search marks the dependencies that close circles, the datelines,
//! and a path takes the next lane at each of them. No circle contains links of different strongly connected components, so a path
//! begins with lane 0 again where it enters another component: a torus with routing by dimensions needs two lanes.

use std::collections::{BTreeMap, BTreeSet};

use belljar_fabric::{Direction, LinkId, Paths, Routes, Routing, RoutingError, Topology};

use crate::Hop;

/// The virtual lanes that the routes of a topology need, so that no links can wait for each other in a circle.
///
/// # Errors
/// When the topology does not fit the routing.
pub fn lanes_needed(topology: &Topology, routes: &Routes) -> Result<u32, RoutingError> {
    let mut paths = Paths::new(topology, routes)?;
    // Paths go up and then down, so that no dependencies form a circle.
    if topology.has_levels() {
        return Ok(1);
    }
    let is_by_switch = routes.routing == Routing::Shortest;
    Ok(Datelines::new(topology, &mut paths, is_by_switch, 2).needed)
}

/// The hosts whose paths have all dependencies: one of each switch if paths depend on switches only.
fn ends(topology: &Topology, is_by_switch: bool) -> Vec<u32> {
    let mut switches = BTreeSet::new();
    let mut is_first = |host: &u32| switches.insert(topology.switch_of(*host));
    (0..topology.hosts())
        .filter(|host| is_first(host) || !is_by_switch)
        .collect()
}

/// Dependencies of a routing, as far as they decide on lanes.
#[derive(Debug, Default)]
pub(crate) struct Datelines {
    lanes: u8,
    /// Dependencies that close circles.
    marks: BTreeSet<(u32, u32)>,
    /// The strongly connected component of each port.
    components: BTreeMap<u32, u32>,
    /// The lanes that paths take if there are enough.
    needed: u32,
}

impl Datelines {
    /// Finds the datelines of all paths of a topology, which depend on the hosts' switches only if `is_by_switch`. With one lane there
    /// is nothing to find.
    pub(crate) fn new(
        topology: &Topology,
        paths: &mut Paths,
        is_by_switch: bool,
        lanes: u8,
    ) -> Self {
        let mut found = Self {
            lanes,
            needed: 1,
            ..Self::default()
        };
        if lanes < 2 {
            return found;
        }
        let mut search = Search::default();
        let mut all = Vec::new();
        let ends = ends(topology, is_by_switch);
        for &from in &ends {
            for &to in ends.iter().filter(|to| **to != from) {
                let path = paths.between(topology, from, to, &[], 0, &|_, _| 0);
                let ports: Vec<u32> = path.iter().map(port).collect();
                for pair in ports.windows(2) {
                    search.next.entry(pair[0]).or_default().insert(pair[1]);
                }
                all.push(path);
            }
        }
        search.run();
        found.marks = search.marks;
        found.components = search.components;
        found.needed = all.iter().map(|path| found.count(path)).max().unwrap_or(1);
        found
    }

    /// The lanes that a path takes if there are enough.
    fn count(&self, path: &[(LinkId, Direction)]) -> u32 {
        self.steps(path).max().unwrap_or(0) + 1
    }

    /// The datelines behind each link of a path, since the path entered the link's component.
    fn steps(&self, path: &[(LinkId, Direction)]) -> impl Iterator<Item = u32> {
        let mut last: Option<u32> = None;
        let mut crossed = 0;
        path.iter().map(port).map(move |port| {
            if let Some(last) = last {
                let is_same = self.components.get(&last) == self.components.get(&port);
                let crosses = self.marks.contains(&(last, port));
                crossed = if is_same {
                    crossed + u32::from(crosses)
                } else {
                    0
                };
            }
            last = Some(port);
            crossed
        })
    }

    /// A path with its lanes.
    pub(crate) fn lanes(&self, path: &[(LinkId, Direction)]) -> Vec<Hop> {
        let most = u32::from(self.lanes.saturating_sub(1));
        let hop = |((link, direction), step): (&(LinkId, Direction), u32)| Hop {
            link: *link,
            direction: *direction,
            lane: step.min(most) as u8,
        };
        path.iter().zip(self.steps(path)).map(hop).collect()
    }
}

/// The number of a link's port.
fn port((link, direction): &(LinkId, Direction)) -> u32 {
    link * 2 + direction.index() as u32
}

/// Tarjan's search for strongly connected components, without recursion, and with the edges to ports that are being visited.
#[derive(Debug, Default)]
struct Search {
    next: BTreeMap<u32, BTreeSet<u32>>,
    /// The order in which ports were found, and the first port that each one reaches.
    index: BTreeMap<u32, (u32, u32)>,
    /// Ports whose component is not known yet.
    open: Vec<u32>,
    components: BTreeMap<u32, u32>,
    marks: BTreeSet<(u32, u32)>,
}

impl Search {
    fn run(&mut self) {
        let starts: Vec<u32> = self.next.keys().copied().collect();
        for start in starts {
            if !self.index.contains_key(&start) {
                self.visit(start);
            }
        }
    }

    fn enter(&mut self, port: u32, path: &mut Vec<(u32, Vec<u32>)>) {
        let number = self.index.len() as u32;
        self.index.insert(port, (number, number));
        self.open.push(port);
        let next = self.next.get(&port).into_iter().flatten().rev().copied();
        path.push((port, next.collect()));
    }

    fn visit(&mut self, start: u32) {
        let mut path = Vec::new();
        self.enter(start, &mut path);
        while let Some((port, rest)) = path.last_mut() {
            let port = *port;
            let Some(next) = rest.pop() else {
                path.pop();
                self.leave(port, path.last().map(|(port, _)| *port));
                continue;
            };
            match self.index.get(&next).copied() {
                None => self.enter(next, &mut path),
                Some((number, _)) if !self.components.contains_key(&next) => {
                    if path.iter().any(|(on_path, _)| *on_path == next) {
                        self.marks.insert((port, next));
                    }
                    self.reach(port, number);
                }
                Some(_) => {}
            }
        }
    }

    fn reach(&mut self, port: u32, first: u32) {
        if let Some((_, reached)) = self.index.get_mut(&port) {
            *reached = first.min(*reached);
        }
    }

    /// All ports behind `port` are visited.
    fn leave(&mut self, port: u32, parent: Option<u32>) {
        let (number, reached) = self.index.get(&port).copied().unwrap_or_default();
        if let Some(parent) = parent {
            self.reach(parent, reached);
        }
        if number == reached {
            while let Some(member) = self.open.pop() {
                self.components.insert(member, number);
                if member == port {
                    break;
                }
            }
        }
    }
}
