//! Cuts of a network into two halves of its hosts.
//!
//! Each rule orders the hosts in a few ways, and each order is cut in the middle. Orders follow the
//! switches, not the hosts' numbers, so they do not depend on the placement of hosts. Called by the
//! measures of a topology.

use super::{Endpoint, Topology};

/// Rule for the order of a shape's hosts in cuts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CutRule {
    /// By switch number: subtrees of a tree stay together.
    Numbered,
    /// Along each dimension of a grid of this size.
    Grid(Vec<u32>),
    /// Group by group of this many switches, and across all groups.
    Groups(u32),
    /// A graph without a known structure: by number, outwards from a rim, and by the Fiedler vector.
    Graph,
}

/// Rounds of the iteration towards the Fiedler vector.
const ROUNDS: usize = 64;
/// Limit on links times rounds.
const MOST_STEPS: usize = 1 << 26;

impl Topology {
    /// Orders of the hosts; the halves of a cut are the first and the second half of an order.
    pub(super) fn cut_orders(&self) -> Vec<Vec<u32>> {
        let switches = 0..self.switches().len() as u32;
        let number = |switch: u32| vec![switch];
        let keys: Vec<Vec<Vec<u32>>> = match &self.cut_rule {
            CutRule::Numbered => vec![switches.map(number).collect()],
            CutRule::Grid(sizes) => (0..sizes.len())
                .filter(|along| sizes[*along] > 1 || sizes.iter().all(|size| *size == 1))
                .map(|along| {
                    let key = |switch| coordinates(sizes, along, switch);
                    switches.clone().map(key).collect()
                })
                .collect(),
            CutRule::Groups(size) => {
                let across = |switch: u32| vec![switch % size, switch / size];
                vec![
                    switches.clone().map(number).collect(),
                    switches.map(across).collect(),
                ]
            }
            CutRule::Graph => {
                let rim = self.outwards(0).0;
                let (far_rim, outwards) = self.outwards(rim);
                let backwards = self.outwards(far_rim).1;
                let mut ranks = vec![switches.map(|it| vec![it]).collect(), outwards, backwards];
                ranks.extend(self.spectral());
                ranks
            }
        };
        keys.iter().map(|keys| self.hosts_by(keys)).collect()
    }

    /// True if a smaller cut than the least of these orders may exist.
    pub(super) fn cuts_are_a_sample(&self) -> bool {
        match &self.cut_rule {
            CutRule::Graph => true,
            // For odd sizes, no cut between layers halves the longest dimension.
            CutRule::Grid(sizes) => sizes.iter().max().is_some_and(|it| *it > 1 && it % 2 == 1),
            CutRule::Groups(size) => {
                let groups = self.switches().len() as u32 / size;
                groups > 1 && groups % 2 == 1
            }
            CutRule::Numbered => false,
        }
    }

    fn hosts_by(&self, keys: &[Vec<u32>]) -> Vec<u32> {
        let mut hosts: Vec<u32> = (0..self.hosts()).collect();
        hosts.sort_by_key(|host| &keys[self.switch_of(*host) as usize]);
        hosts
    }

    /// The switch that is farthest from another, and the rank of each switch in breadth-first order.
    fn outwards(&self, from: u32) -> (u32, Vec<Vec<u32>>) {
        let mut ranks = vec![Vec::new(); self.switches().len()];
        let mut order = vec![from];
        ranks[from as usize] = vec![0];
        let mut next = 0;
        while let Some(&switch) = order.get(next) {
            next += 1;
            for far in self.neighbours(switch) {
                if ranks[far as usize].is_empty() {
                    ranks[far as usize] = vec![order.len() as u32];
                    order.push(far);
                }
            }
        }
        (order.last().copied().unwrap_or(from), ranks)
    }

    /// The rank of each switch in the order of the Fiedler vector, the second eigenvector of the graph's
    /// Laplacian (M. Fiedler, 1973), by power iteration; `None` for graphs that are too large.
    fn spectral(&self) -> Option<Vec<Vec<u32>>> {
        let count = self.switches().len();
        if self.links().len().saturating_mul(ROUNDS) > MOST_STEPS || count < 2 {
            return None;
        }
        let edges: Vec<(usize, usize, f64)> = self
            .links()
            .iter()
            .filter_map(|link| match link.ends {
                [Endpoint::Switch(near), Endpoint::Switch(far)] => {
                    let weight = link.spec.bandwidth as f64;
                    Some((near as usize, far as usize, weight))
                }
                _ => None,
            })
            .collect();
        let mut degrees = vec![0.0; count];
        for (near, far, weight) in &edges {
            degrees[*near] += weight;
            degrees[*far] += weight;
        }
        // Twice the highest degree bounds the Laplacian's eigenvalues.
        let bound = 2.0 * degrees.iter().copied().fold(0.0, f64::max);
        let mut vector: Vec<f64> = (0..count).map(|at| at as f64).collect();
        for _ in 0..ROUNDS {
            let mean = vector.iter().sum::<f64>() / count as f64;
            let length = vector
                .iter()
                .map(|it| (it - mean) * (it - mean))
                .sum::<f64>();
            let scale = 1.0 / length.sqrt().max(f64::MIN_POSITIVE);
            vector.iter_mut().for_each(|it| *it = (*it - mean) * scale);
            let own = vector.iter().zip(&degrees);
            let mut next: Vec<f64> = own.map(|(it, degree)| it * (bound - degree)).collect();
            for (near, far, weight) in &edges {
                next[*near] += weight * vector[*far];
                next[*far] += weight * vector[*near];
            }
            vector = next;
        }
        let mut order: Vec<usize> = (0..count).collect();
        order.sort_by(|one, other| vector[*one].total_cmp(&vector[*other]));
        let mut ranks = vec![Vec::new(); count];
        for (rank, switch) in (0..).zip(order) {
            ranks[switch] = vec![rank];
        }
        Some(ranks)
    }
}

/// A switch's coordinates: first in dimension `along`, then in the others from the longest to the
/// shortest. Equal networks thus have equal orders, in whichever order their dimensions are given.
fn coordinates(sizes: &[u32], along: usize, mut switch: u32) -> Vec<u32> {
    let mut own: Vec<(bool, std::cmp::Reverse<u32>, u32)> = Vec::new();
    for (dimension, &size) in sizes.iter().enumerate() {
        own.push((dimension != along, std::cmp::Reverse(size), switch % size));
        switch /= size;
    }
    own.sort_by_key(|(other, size, _)| (*other, *size));
    own.into_iter().map(|(.., coordinate)| coordinate).collect()
}
