//! Hostfiles, rankfiles and lists with the hosts of ranks.
//!
//! Hostfiles are MPICH's (`host:slots`) and Open MPI's (`host slots=n`), rankfiles Open MPI's; a list has the host of each rank, one a line. Hosts are named by
//! their number, as `node3` or `3`, or as the topology names them. Called by `replay`, `place` and `run`.

use std::path::Path;

use anyhow::{Context, Result, bail};
use belljar_cli::mpirun::request::host_file::{HostSlots, host_file};
use belljar_fabric::{Endpoint, Topology};
use belljar_files::read_input_text;

/// The host of a name.
fn host_of(name: &str, topology: &Topology) -> Option<u32> {
    let number = name.strip_prefix("node").unwrap_or(name).parse().ok();
    let named =
        || (0..topology.hosts()).find(|host| topology.place_name(Endpoint::Host(*host)) == name);
    number
        .filter(|number| *number < topology.hosts())
        .or_else(named)
}

/// The name of a host in files for [`host_of`]: the topology's name, if it has unambiguous names.
pub(super) fn name_of(host: u32, topology: &Topology) -> String {
    let named = topology.place_name(Endpoint::Host(host));
    let is_plain = !named.contains(|letter: char| letter.is_whitespace() || "#=:".contains(letter));
    match is_plain && host_of(&named, topology) == Some(host) && named != format!("host{host}") {
        true => named,
        false => format!("node{host}"),
    }
}

/// Hosts with their slots, in the order of a hostfile.
pub(in crate::command) fn slots(path: &Path, topology: &Topology) -> Result<Vec<(u32, u32)>> {
    let text = read_input_text(path).with_context(|| format!("cannot read {}", path.display()))?;
    let hosts = host_file(&text).with_context(|| path.display().to_string())?;
    let place = |host: HostSlots| {
        let at = host_of(&host.name, topology);
        let absent = || {
            let line = host.line.map(|line| format!(", line {line}"));
            format!(
                "{}{}: the network has no host {:?}",
                path.display(),
                line.unwrap_or_default(),
                host.name
            )
        };
        Ok((at.with_context(absent)?, host.slots))
    };
    hosts.into_iter().map(place).collect()
}

/// Ranks in the slots of hosts, in order.
pub(in crate::command) fn filled(
    slots: &[(u32, u32)],
    count: u32,
    path: &Path,
) -> Result<Vec<u32>> {
    let all = slots
        .iter()
        .map(|(_, slots)| u64::from(*slots))
        .sum::<u64>();
    if all < u64::from(count) {
        bail!(
            "{} has {all} slots, and there are {count} ranks",
            path.display()
        );
    }
    let places = slots
        .iter()
        .flat_map(|(host, slots)| std::iter::repeat_n(*host, *slots as usize));
    Ok(places.take(count as usize).collect())
}

/// The node of each rank, one a line; also of a rankfile of Open MPI (`rank 3=node1 slot=0`).
pub(in crate::command) fn listed(path: &Path, count: u32, topology: &Topology) -> Result<Vec<u32>> {
    let text = read_input_text(path).with_context(|| {
        format!(
            "cannot read {}; a mapping is block, cyclic, or a file",
            path.display()
        )
    })?;
    let mut places = vec![None; count as usize];
    let mut next = 0;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or("").trim();
        if line.is_empty() {
            continue;
        }
        let place = || format!("{}, line {number}", path.display());
        let (rank, host) = match line.strip_prefix("rank") {
            Some(rest) if rest.contains('=') => {
                let (rank, rest) = rest.split_once('=').with_context(place)?;
                let rank: usize = rank.trim().parse().with_context(place)?;
                (rank, rest.split_whitespace().next().unwrap_or(""))
            }
            _ => (next, line),
        };
        next = rank + 1;
        let host = host_of(host, topology)
            .with_context(|| format!("{}: the network has no host {host:?}", place()))?;
        if let Some(own) = places.get_mut(rank) {
            *own = Some(host);
        }
    }
    let missing = places.iter().position(Option::is_none);
    if let Some(rank) = missing {
        bail!("{} does not say where rank {rank} is", path.display());
    }
    Ok(places.into_iter().flatten().collect())
}

/// The place of each of the topology's nodes, for a run whose ranks a file places. The ranks of a node stay together.
///
/// # Errors
/// If the file cannot be read, does not name places, or separates ranks of one node.
pub(in crate::command) fn places(
    path: &Path,
    topology: &Topology,
    ranks_per_node: u32,
) -> Result<Vec<u32>> {
    let each = ranks_per_node.max(1);
    let ranks = listed(path, topology.hosts().saturating_mul(each), topology)?;
    let nodes = ranks.chunks(each as usize);
    nodes
        .zip(0u32..)
        .map(|(ranks, node)| match ranks {
            [first, others @ ..] if others.iter().all(|other| other == first) => Ok(*first),
            _ => bail!(
                "{}: ranks {} to {} are on node {node} and cannot be apart; place them together",
                path.display(),
                node * each,
                (node + 1) * each - 1
            ),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use belljar_fabric::{Link, LinkSpec, SwitchSpec};
    use belljar_sim::Span;

    use super::*;

    #[test]
    fn hosts_are_called_what_is_read_again() {
        let link = LinkSpec {
            bandwidth: 1_000_000_000,
            latency: Span::from_us(1),
        };
        let switch = SwitchSpec {
            latency: Span::from_us(1),
            queue_bytes: 1 << 20,
        };
        let links = (0..4).map(|host| Link {
            ends: [Endpoint::Host(host), Endpoint::Switch(0)],
            spec: link,
        });
        let links: Vec<Link> = links.collect();
        let names = ["csews1", "3", "a b", "node0"].map(str::to_owned).to_vec();
        let names = [names, vec!["switch1".to_owned()]];
        let lab = Topology::with_names(4, vec![switch], links.clone(), Some(names)).unwrap();
        let names = [0, 1, 2, 3].map(|host| name_of(host, &lab));
        assert_eq!(names, ["csews1", "node1", "node2", "node3"]);
        let plain = Topology::new(4, vec![switch], links).unwrap();
        assert_eq!(name_of(3, &plain), "node3");
    }

    #[test]
    fn slots_are_filled_in_order() {
        let path = Path::new("hosts");
        assert_eq!(filled(&[(3, 2), (1, 2)], 3, path).unwrap(), [3, 3, 1]);
        let error = filled(&[(3, 2)], 3, path).unwrap_err().to_string();
        assert_eq!(error, "hosts has 2 slots, and there are 3 ranks");
    }
}
