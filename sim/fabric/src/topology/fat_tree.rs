//! Fat trees: extended generalized fat trees, XGFT(h; m1..mh; w1..wh), after Öhring,
//! Ibel, Das and Kumar, "On generalized fat trees", IPPS 1995.
//!
//! Level 0 has the hosts. Each place of level *i* has m*i* children and each place of level *i* - 1 has w*i* parents. A place is named by one digit per level:
//! digit *i* counts children if the place is below level *i*, and parents otherwise; two places of neighbouring levels are linked if they agree in all other
//! digits.

use super::{Endpoint, Link, MAX_SWITCHES, PartSpecs, Topology, TopologyError};

/// Parameters of a fat tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FatTree {
    /// Children of each switch, from the lowest level up: m1, m2, ...
    pub children: Vec<u32>,
    /// Parents of each place, from the hosts up: w1, which must be 1, w2, ...
    pub parents: Vec<u32>,
}

impl FatTree {
    /// The fat tree of switches with `ports` ports each, which carries
    /// `ports`^3 / 4 hosts at full bandwidth (Al-Fares, Loukissas and Vahdat,
    /// "A scalable, commodity data center network architecture", SIGCOMM 2008):
    /// XGFT(3; k/2, k/2, k; 1, k/2, k/2).
    ///
    /// # Errors
    /// When `ports` is odd, or below 2.
    pub fn of_ports(ports: u32) -> Result<Self, TopologyError> {
        if ports < 2 || !ports.is_multiple_of(2) {
            return Err(refuse(format!(
                "its switches have {ports} ports; that must be an even number"
            )));
        }
        let half = ports / 2;
        Ok(Self {
            children: vec![half, half, ports],
            parents: vec![1, half, half],
        })
    }

    /// The `arity`-ary `levels`-tree (F. Petrini, M. Vanneschi, "k-ary n-trees: high performance networks for massively parallel architectures", IPPS 1997), which
    /// carries `arity`^`levels` hosts at full bandwidth: XGFT(n; k, ..., k; 1, k, ..., k).
    ///
    /// # Errors
    /// When there are no levels, or more than eight.
    pub fn k_ary(arity: u32, levels: u32) -> Result<Self, TopologyError> {
        if !(1..=8).contains(&levels) {
            return Err(refuse(format!(
                "it has {levels} levels; that must be 1 to 8"
            )));
        }
        let mut parents = vec![arity; levels as usize];
        parents[0] = 1;
        Ok(Self {
            children: vec![arity; levels as usize],
            parents,
        })
    }

    /// The smallest [`of_ports`](Self::of_ports) with room for `hosts`.
    ///
    /// # Errors
    /// When no tree that can be built is large enough.
    pub fn for_hosts(hosts: u32) -> Result<Self, TopologyError> {
        let room = |ports: u64| ports * ports * ports / 4;
        let ports = (1..=256).map(|half| 2 * half);
        let enough = ports
            .into_iter()
            .find(|&ports| room(ports) >= u64::from(hosts));
        Self::of_ports(enough.ok_or_else(|| refuse(format!("{hosts} hosts are too many")))? as u32)
    }

    /// Maximum number of hosts.
    pub fn capacity(&self) -> u64 {
        product(&self.children)
    }

    /// Builds it with hosts in its first places; the others stay empty.
    ///
    /// # Errors
    /// When the parameters are not valid for a fat tree, there are more hosts than places, or a link
    /// has no latency or bandwidth.
    pub fn build(&self, hosts: u32, parts: &PartSpecs) -> Result<Topology, TopologyError> {
        self.check(hosts)?;
        let places: Vec<u64> = (0..=self.children.len())
            .map(|level| self.places(level))
            .collect();
        let switches = places[1..]
            .iter()
            .fold(0_u64, |sum, &level| sum.saturating_add(level));
        if switches > MAX_SWITCHES as u64 {
            return Err(refuse(format!("{switches} switches are too many")));
        }
        let mut links = Vec::new();
        let mut first = 0;
        for level in 0..self.children.len() {
            let populated = if level == 0 {
                u64::from(hosts)
            } else {
                places[level]
            };
            for place in 0..populated {
                let near = match level {
                    0 => Endpoint::Host(place as u32),
                    _ => Endpoint::Switch((first - places[level] + place) as u32),
                };
                let spec = if level == 0 { parts.link } else { parts.uplink };
                links.extend(self.parents_of(level, place).map(|parent| Link {
                    ends: [near, Endpoint::Switch((first + parent) as u32)],
                    spec,
                }));
            }
            first += places[level + 1];
        }
        let tree = Topology::new(hosts, vec![parts.switch; switches as usize], links)?;
        Ok(tree.levelled(self.divisors()))
    }

    /// D-mod-K (Zahavi, Johnson, Kerbyson and Lang, "Optimized InfiniBand fat-tree routing for shift all-to-all communication patterns", 2010): at level *l* the
    /// link up to destination *d* is number floor(*d* / (w1 ... w*l*)) mod w*l+1*.
    fn divisors(&self) -> Vec<u64> {
        let levels = 1..=self.children.len();
        levels
            .flat_map(|level| {
                let divisor = product(&self.parents[..level]);
                (0..self.places(level)).map(move |_| divisor)
            })
            .collect()
    }

    fn check(&self, hosts: u32) -> Result<(), TopologyError> {
        let (children, parents) = (&self.children, &self.parents);
        if children.is_empty() || children.len() != parents.len() || children.len() > 8 {
            return Err(refuse(format!(
                "children has {} levels and parents {}; give both the same number, 1 to 8",
                children.len(),
                parents.len()
            )));
        }
        if children
            .iter()
            .chain(parents)
            .any(|&number| number == 0 || number > 4096)
        {
            return Err(refuse("children and parents must be from 1 to 4096".into()));
        }
        if parents[0] != 1 {
            return Err(refuse(format!(
                "its hosts have {} parents; a host has one link, so parents must begin with 1",
                parents[0]
            )));
        }
        if self.capacity() < u64::from(hosts) {
            return Err(refuse(format!(
                "it has room for {} hosts, not {hosts}; give its switches more children or ports",
                self.capacity()
            )));
        }
        Ok(())
    }

    /// Number of places at a level.
    fn places(&self, level: usize) -> u64 {
        product(&self.children[level..]).saturating_mul(product(&self.parents[..level]))
    }

    /// The parents of a place, by their numbers in the level above: all places that agree with it in every digit except the digit of the level above.
    fn parents_of(&self, level: usize, place: u64) -> impl Iterator<Item = u64> + use<> {
        let below = product(&self.parents[..level]);
        let children = u64::from(self.children[level]);
        let parents = u64::from(self.parents[level]);
        let (low, high) = (place % below, place / below / children);
        (0..parents).map(move |digit| (high * parents + digit) * below + low)
    }
}

fn product(numbers: &[u32]) -> u64 {
    numbers.iter().fold(1, |product: u64, &number| {
        product.saturating_mul(u64::from(number))
    })
}

fn refuse(reason: String) -> TopologyError {
    TopologyError::Shape {
        shape: "fat tree",
        reason,
    }
}
