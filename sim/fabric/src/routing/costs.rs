//! Costs of paths, and a spanning tree.
//!
//! Both depend only on the topology and on working links. Computed by the router when first needed.

use std::collections::VecDeque;

use crate::topology::{Endpoint, Topology};

/// The cost of unreachable switches.
pub(super) const UNREACHABLE: u32 = u32::MAX;

/// The costs of paths to `target` from every switch. Costs of links are small integers, so open
/// switches are kept in buckets by cost (Dial, 1969).
pub(super) fn costs_towards(topology: &Topology, works: &[bool], target: u32) -> Box<[u32]> {
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

pub(super) fn spanning_tree(topology: &Topology, works: &[bool]) -> Vec<bool> {
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
