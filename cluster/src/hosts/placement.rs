//! Placement of nodes on hosts.
//!
//! Nodes at one switch have the lowest latency, so they should share a host: the latency to
//! other hosts' nodes is a host's lookahead, and every frame between hosts is a message. Each
//! host gets a share of the nodes by its processors, within its memory. Nodes are dealt out
//! in an order that keeps neighbours together: a walk over the switches, always to the
//! nearest one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use belljar_fabric::{Endpoint, Topology};

use crate::plan::Plan;
use crate::scenario::Hosts;

/// The resources of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// Its name.
    pub name: String,
    /// Processors; at least 1.
    pub processors: u32,
    /// Bytes of memory for nodes, if known.
    pub memory: Option<u64>,
}

/// Errors of placing nodes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PlacementError {
    /// The hosts are too small.
    #[error(
        "{nodes} nodes of {each} MiB do not fit: the hosts have room for {room}; take more hosts, or fewer or smaller nodes"
    )]
    Room {
        /// Nodes to be placed.
        nodes: u32,
        /// Memory of each, in MiB.
        each: u64,
        /// Nodes that fit.
        room: u64,
    },
    /// A requested placement is invalid.
    #[error("hosts.place: {0}")]
    Wish(String),
}

/// The host number for each node of `plan`.
///
/// # Errors
/// See [`PlacementError`].
pub(super) fn place_nodes(
    plan: &Plan,
    hosts: &[Capacity],
    wishes: &Hosts,
) -> Result<Vec<u32>, PlacementError> {
    // Every node counts as the largest one, so that all fit.
    let memory = plan.kinds().iter().map(|kind| kind.memory).max();
    let likely = plan.likely_memory(memory.unwrap_or(0));
    place(&plan.topology, plan.nodes, likely, hosts, &wishes.place)
}

/// The host number for each node; `wishes` take precedence.
///
/// # Errors
/// See [`PlacementError`].
pub fn place(
    topology: &Topology,
    nodes: u32,
    memory: u64,
    hosts: &[Capacity],
    wishes: &BTreeMap<String, String>,
) -> Result<Vec<u32>, PlacementError> {
    let wished = wished(nodes, hosts, wishes)?;
    let mut room = shares(nodes, memory, hosts, &wished)?;
    let mut placed: Vec<Option<u32>> = wished;
    let mut host = 0;
    for node in in_order(topology, nodes) {
        if placed[node as usize].is_some() {
            continue;
        }
        while room[host] == 0 {
            host += 1;
        }
        room[host] -= 1;
        placed[node as usize] = Some(host as u32);
    }
    Ok(placed.into_iter().flatten().collect())
}

/// The number of switches with nodes of more than one host.
pub fn shared_switches(topology: &Topology, host_of: &[u32]) -> usize {
    let mut hosts: BTreeMap<u32, BTreeSet<u32>> = BTreeMap::new();
    for (node, host) in (0..).zip(host_of) {
        let switch = topology.switch_of(node);
        hosts.entry(switch).or_default().insert(*host);
    }
    hosts.values().filter(|hosts| hosts.len() > 1).count()
}

/// Nodes that `wishes` place.
fn wished(
    nodes: u32,
    hosts: &[Capacity],
    wishes: &BTreeMap<String, String>,
) -> Result<Vec<Option<u32>>, PlacementError> {
    let mut placed = vec![None; nodes as usize];
    for (name, list) in wishes {
        let wish = |why: &str| PlacementError::Wish(format!("{name} = {list:?}: {why}"));
        let host = hosts.iter().position(|host| host.name == *name);
        let host = host.ok_or_else(|| wish("there is no such host"))? as u32;
        for range in list.split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let number = |text: &str| text.trim().parse::<u32>().ok();
            let (Some(first), Some(last)) = (number(first), number(last)) else {
                return Err(wish("nodes are written as \"0-3,7\""));
            };
            for node in first..=last.min(nodes.saturating_sub(1)) {
                if placed[node as usize]
                    .replace(host)
                    .is_some_and(|other| other != host)
                {
                    return Err(wish(&format!("node {node} is on two hosts")));
                }
            }
            if first > last || last >= nodes {
                return Err(wish(&format!(
                    "there are nodes 0 to {}",
                    nodes.saturating_sub(1)
                )));
            }
        }
    }
    Ok(placed)
}

/// The number of further nodes for each host.
fn shares(
    nodes: u32,
    memory: u64,
    hosts: &[Capacity],
    wished: &[Option<u32>],
) -> Result<Vec<u32>, PlacementError> {
    let most = |host: &Capacity| {
        host.memory
            .map_or(u64::from(nodes), |have| have / memory.max(1))
    };
    let limits: Vec<u64> = hosts.iter().map(most).collect();
    let total: u64 = limits.iter().sum();
    let mut held = vec![0_u64; hosts.len()];
    for host in wished.iter().flatten() {
        held[*host as usize] += 1;
    }
    let fits = held.iter().zip(&limits).all(|(held, limit)| held <= limit);
    if total < u64::from(nodes) || !fits {
        return Err(PlacementError::Room {
            nodes,
            each: memory >> 20,
            room: total,
        });
    }
    let mut room = vec![0; hosts.len()];
    let open = wished.iter().filter(|host| host.is_none()).count();
    for _ in 0..open {
        // The next node goes to the host with the fewest nodes for each processor; of equal
        // hosts to the first.
        let load = |host: usize| {
            let nodes = (held[host] + 1) as f64;
            nodes / f64::from(hosts[host].processors.max(1))
        };
        let open = (0..hosts.len()).filter(|&host| held[host] < limits[host]);
        let least = open.min_by(|&one, &other| load(one).total_cmp(&load(other)));
        if let Some(host) = least {
            held[host] += 1;
            room[host] += 1;
        }
    }
    Ok(room)
}

/// Nodes in the order of a breadth-first walk over their switches, from the switch of node 0,
/// always to the nearest unvisited one.
fn in_order(topology: &Topology, nodes: u32) -> Vec<u32> {
    let mut at: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for node in 0..nodes {
        at.entry(topology.switch_of(node)).or_default().push(node);
    }
    let mut order = Vec::new();
    let switches = topology.switches().len();
    let mut here = (nodes > 0).then(|| topology.switch_of(0));
    while let Some(switch) = here {
        order.extend(at.remove(&switch).unwrap_or_default());
        here = nearest(topology, switch, switches, &at);
    }
    // Unreachable nodes follow.
    order.extend(at.into_values().flatten());
    order
}

/// The switch in `left` with the fewest links from `from`.
fn nearest(
    topology: &Topology,
    from: u32,
    switches: usize,
    left: &BTreeMap<u32, Vec<u32>>,
) -> Option<u32> {
    let mut met = vec![false; switches];
    let mut queue = VecDeque::from([from]);
    met[from as usize] = true;
    while let Some(switch) = queue.pop_front() {
        if left.contains_key(&switch) {
            return Some(switch);
        }
        for &link in topology.links_at(switch) {
            let link = topology.links()[link as usize];
            if let Endpoint::Switch(other) = link.other_end(Endpoint::Switch(switch))
                && !std::mem::replace(&mut met[other as usize], true)
            {
                queue.push_back(other);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use belljar_fabric::{LinkSpec, SwitchSpec};
    use belljar_sim::Span;

    fn topology(nodes: u32, fanout: u32) -> Topology {
        let link = LinkSpec {
            bandwidth: 10_000_000_000,
            latency: Span::from_us(1),
        };
        let switch = SwitchSpec {
            latency: Span::from_ns(300),
            queue_bytes: 1 << 20,
        };
        Topology::tree(nodes, fanout, link, link, switch).unwrap()
    }

    fn hosts(processors: &[u32], memory: Option<u64>) -> Vec<Capacity> {
        let host = |(index, &processors): (usize, &u32)| Capacity {
            name: format!("h{index}"),
            processors,
            memory,
        };
        processors.iter().enumerate().map(host).collect()
    }

    fn wishes(list: &[(&str, &str)]) -> BTreeMap<String, String> {
        let owned = |(host, nodes): &(&str, &str)| ((*host).to_owned(), (*nodes).to_owned());
        list.iter().map(owned).collect()
    }

    #[test]
    fn neighbours_share_a_host_and_processors_count() {
        let topology = topology(12, 4);
        let placed = place(
            &topology,
            topology.hosts(),
            1,
            &hosts(&[1, 1, 1], None),
            &wishes(&[]),
        )
        .unwrap();
        assert_eq!(placed, [0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2]);
        assert_eq!(shared_switches(&topology, &placed), 0);
        let placed = place(
            &topology,
            topology.hosts(),
            1,
            &hosts(&[2, 4], None),
            &wishes(&[]),
        )
        .unwrap();
        assert_eq!(placed, [0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1]);
        let placed = place(
            &topology,
            topology.hosts(),
            1,
            &hosts(&[1, 1], None),
            &wishes(&[]),
        )
        .unwrap();
        assert_eq!(shared_switches(&topology, &placed), 1);
    }

    #[test]
    fn memory_is_a_limit() {
        let topology = topology(4, 4);
        let small = Capacity {
            memory: Some(1 << 30),
            ..hosts(&[16], None).remove(0)
        };
        let hosts = [small, hosts(&[1, 1], None).remove(1)];
        let placed = place(&topology, topology.hosts(), 1 << 30, &hosts, &wishes(&[])).unwrap();
        assert_eq!(placed, [0, 1, 1, 1]);
        let error = place(
            &topology,
            topology.hosts(),
            1 << 30,
            &hosts[..1],
            &wishes(&[]),
        )
        .unwrap_err();
        assert!(error.to_string().contains("room for 1;"), "{error}");
    }

    #[test]
    fn wishes_are_kept_or_refused() {
        let topology = topology(4, 2);
        let hosts = hosts(&[1, 1], None);
        let placed =
            |list: &[(&str, &str)]| place(&topology, topology.hosts(), 1, &hosts, &wishes(list));
        assert_eq!(placed(&[("h1", "0,2-2")]).unwrap(), [1, 0, 1, 0]);
        assert_eq!(placed(&[("h1", "0-3")]).unwrap(), [1, 1, 1, 1]);
        for (host, nodes) in [
            ("h2", "0"),
            ("h0", "4"),
            ("h0", "x"),
            ("h0", "3-1"),
            ("h0", "0-9"),
        ] {
            let error = placed(&[(host, nodes)]).unwrap_err();
            assert!(matches!(error, PlacementError::Wish(_)), "{host} {nodes}");
        }
        let error = placed(&[("h0", "0-2"), ("h1", "2")]).unwrap_err();
        assert!(error.to_string().contains("node 2"), "{error}");
    }
}
