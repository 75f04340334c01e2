//! Slim Flies: nearly as many switches as possible with paths of at most two links between any two. M. Besta, T. Hoefler, "Slim Fly: a cost effective low-diameter
//! network topology", SC 2014; the graphs are those of B. McKay, M. Miller and J. Siran (1998), for prime orders.
//!
//! Switches are (0, x, y) and (1, m, c) with coordinates modulo q. Switches of the first kind are joined if y and y' differ by an element of a set X, those of the
//! second if c and c' differ by an element of a set X', and (0, x, y) to (1, m, c) if y = m x + c. Built for a plan's `topology = "slim-fly"`.

use super::{Endpoint, Link, MAX_SWITCHES, PartSpecs, Topology, TopologyError};

/// Parameters of a Slim Fly, with the paper's letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlimFly {
    /// q: a prime of at least 5. There are 2 q^2 switches.
    pub order: u32,
    /// Places for hosts at each switch: p.
    pub hosts_per_switch: u32,
}

impl SlimFly {
    /// Maximum number of hosts.
    pub fn capacity(&self) -> u64 {
        let order = u64::from(self.order);
        (2 * order * order).saturating_mul(self.hosts_per_switch.into())
    }

    /// Builds it with hosts in its first places, switch by switch.
    ///
    /// # Errors
    /// When the order is not such a prime, there are more hosts than places, or a link has no latency or bandwidth.
    pub fn build(&self, hosts: u32, parts: &PartSpecs) -> Result<Topology, TopologyError> {
        self.check(hosts)?;
        let q = self.order;
        let mut links = parts.links_of_hosts(hosts, self.hosts_per_switch);
        let mut join = |one: u32, other: u32| {
            links.push(Link {
                ends: [one, other].map(Endpoint::Switch),
                spec: parts.uplink,
            });
        };
        let place = |half: u32, across: u32, along: u32| (half * q + across) * q + along;
        for (half, set) in (0..).zip(self.sets()) {
            for across in 0..q {
                for one in 0..q {
                    let others = (one + 1..q).filter(|other| set[(other - one) as usize]);
                    others.for_each(|other| {
                        join(place(half, across, one), place(half, across, other));
                    });
                }
            }
        }
        for x in 0..q {
            for m in 0..q {
                for c in 0..q {
                    let y = (u64::from(m) * u64::from(x) + u64::from(c)) % u64::from(q);
                    join(place(0, x, y as u32), place(1, m, c));
                }
            }
        }
        let switches = 2 * q as usize * q as usize;
        Topology::new(hosts, vec![parts.switch; switches], links)
    }

    /// X and X', as membership by number. Both are closed under negation.
    fn sets(&self) -> [Vec<bool>; 2] {
        let q = self.order;
        let root = u64::from(primitive_root(q));
        let mut powers = vec![1u32];
        for _ in 1..q - 1 {
            let last = powers[powers.len() - 1];
            powers.push((u64::from(last) * root % u64::from(q)) as u32);
        }
        let w = (q as usize).div_ceil(4);
        let is_first = |exponent: usize| match q % 4 {
            1 => exponent.is_multiple_of(2),
            // The exponents of the second half are those of the first plus an odd number.
            _ => exponent.is_multiple_of(2) == (exponent < 2 * w - 1),
        };
        let is_second = |exponent: usize| match q % 4 {
            1 => !exponent.is_multiple_of(2),
            // The last exponent, 4w - 2, is excluded: it is the power of 0 again.
            _ => exponent == 0 || exponent.is_multiple_of(2) != (exponent < 2 * w),
        };
        let set = |is: &dyn Fn(usize) -> bool| {
            let mut set = vec![false; q as usize];
            for (exponent, power) in powers.iter().enumerate() {
                set[*power as usize] |= is(exponent);
            }
            set
        };
        [set(&is_first), set(&is_second)]
    }

    fn check(&self, hosts: u32) -> Result<(), TopologyError> {
        let refuse = |reason: String| {
            Err(TopologyError::Shape {
                shape: "Slim Fly",
                reason,
            })
        };
        let q = self.order;
        let prime = q >= 5
            && (2..)
                .take_while(|it| it * it <= q)
                .all(|it| !q.is_multiple_of(it));
        if !prime {
            return refuse(format!(
                "its order is {q}; that must be a prime of 5 and more"
            ));
        }
        let switches = 2 * u64::from(q) * u64::from(q);
        if switches > MAX_SWITCHES as u64 {
            return refuse(format!("{switches} switches are too many"));
        }
        if self.hosts_per_switch == 0 || self.capacity() < u64::from(hosts) {
            return refuse(format!(
                "it has room for {} hosts, not {hosts}; give it a larger order or more hosts per switch",
                self.capacity()
            ));
        }
        Ok(())
    }
}

/// The least number whose powers are all numbers from 1 to `prime` - 1, modulo `prime`.
fn primitive_root(prime: u32) -> u32 {
    let is_root = |root: &u32| {
        let (mut power, mut order) = (u64::from(*root), 1);
        while power != 1 {
            power = power * u64::from(*root) % u64::from(prime);
            order += 1;
        }
        order == prime - 1
    };
    (2..prime).find(is_root).unwrap_or(1)
}
