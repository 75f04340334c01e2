//! Where ranks are placed: the options of `belljar replay`, and hostfiles.
//!
//! Ranks are those of each job's `MPI_COMM_WORLD`, hosts the nodes of the network. Hostfiles are MPICH's (`host:slots`) and Open MPI's (`host
//! slots=n`); hosts are named by their number, as `node3` or `3`, or as the topology names them. Called by `replay`.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use belljar_fabric::{Endpoint, Topology};
use belljar_program::Program;
use clap::Args;

#[derive(Args, Default)]
pub(crate) struct PlacementArguments {
    /// How ranks are placed: `block` fills one node after the other, `cyclic` goes round, or a file with the node of each rank, one a line. As they
    /// were when absent.
    #[arg(long, value_name = "block|cyclic|FILE", conflicts_with = "hostfile")]
    mapping: Option<String>,
    /// A hostfile of MPICH or Open MPI, whose slots are filled in order.
    #[arg(long, value_name = "FILE")]
    hostfile: Option<PathBuf>,
    /// Ranks on each node, for `block`; for `cyclic`, at most.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
    ranks_per_node: Option<u32>,
}

impl PlacementArguments {
    /// The host of each process.
    pub(super) fn hosts(&self, program: &Program, topology: &Topology) -> Result<Vec<u32>> {
        let ranks = program.processes.iter().map(|process| process.rank);
        let count = ranks.clone().max().map_or(0, |last| last + 1);
        let places = match (&self.hostfile, self.mapping.as_deref()) {
            (Some(file), _) => filled(&slots(file, topology)?, count, file)?,
            (None, Some("block")) => self.block(count, topology.hosts())?,
            (None, Some("cyclic")) => self.cyclic(count, topology.hosts())?,
            (None, Some(file)) => listed(Path::new(file), count, topology)?,
            (None, None) if self.ranks_per_node.is_some() => self.block(count, topology.hosts())?,
            (None, None) => {
                let nodes = program.processes.iter().map(|process| process.node);
                return Ok(nodes.collect());
            }
        };
        Ok(ranks.map(|rank| places[rank as usize]).collect())
    }

    fn block(&self, count: u32, hosts: u32) -> Result<Vec<u32>> {
        let each = self.ranks_per_node.unwrap_or(count.div_ceil(hosts.max(1)));
        if u64::from(each) * u64::from(hosts) < u64::from(count) {
            bail!("{count} ranks, {each} on each node, need more than the network's {hosts} nodes");
        }
        Ok((0..count).map(|rank| rank / each.max(1)).collect())
    }

    fn cyclic(&self, count: u32, hosts: u32) -> Result<Vec<u32>> {
        let nodes = match self.ranks_per_node {
            Some(each) => count.div_ceil(each).max(1),
            None => hosts.min(count).max(1),
        };
        if nodes > hosts {
            bail!("{count} ranks need {nodes} nodes, and the network has {hosts}");
        }
        Ok((0..count).map(|rank| rank % nodes).collect())
    }
}

/// The host that a name means.
fn host_of(name: &str, topology: &Topology) -> Option<u32> {
    let number = name.strip_prefix("node").unwrap_or(name).parse().ok();
    let named =
        || (0..topology.hosts()).find(|host| topology.place_name(Endpoint::Host(*host)) == name);
    number
        .filter(|number| *number < topology.hosts())
        .or_else(named)
}

/// Hosts with their slots, in the order of a hostfile.
fn slots(path: &Path, topology: &Topology) -> Result<Vec<(u32, u32)>> {
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut hosts = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.split('#').next().unwrap_or("").trim();
        if line.is_empty() {
            continue;
        }
        let place = || format!("{}, line {number}", path.display());
        let (host, slots) = entry(line).with_context(place)?;
        let host = host_of(host, topology)
            .with_context(|| format!("{}: the network has no host {host:?}", place()))?;
        hosts.push((host, slots));
    }
    Ok(hosts)
}

/// A line of a hostfile: `host`, `host:slots`, `host slots=n max_slots=m`.
fn entry(line: &str) -> Result<(&str, u32)> {
    let mut words = line.split_whitespace();
    let first = words.next().unwrap_or("");
    let (host, mut slots) = match first.rsplit_once(':') {
        Some((host, slots)) => (host, slots.parse().context("slots are a number")?),
        None => (first, 1),
    };
    for word in words {
        match word.split_once('=') {
            Some(("slots", value)) => slots = value.parse().context("slots are a number")?,
            Some(_) => {}
            None => bail!(
                "{word:?} is not understood: hosts are written as host, host:4 or host slots=4"
            ),
        }
    }
    Ok((host, slots))
}

/// Ranks in the slots of hosts, in order.
fn filled(slots: &[(u32, u32)], count: u32, path: &Path) -> Result<Vec<u32>> {
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
fn listed(path: &Path, count: u32, topology: &Topology) -> Result<Vec<u32>> {
    let text = fs::read_to_string(path).with_context(|| {
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
        let (rank, host) = match line.strip_prefix("rank ") {
            Some(rest) => {
                let (rank, rest) = rest.split_once('=').with_context(place)?;
                let rank: usize = rank.trim().parse().with_context(place)?;
                (rank, rest.split_whitespace().next().unwrap_or(""))
            }
            None => (next, line),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostfiles_of_both_libraries_are_read() {
        for (line, host, slots) in [
            ("csews1", "csews1", 1),
            ("csews1:4", "csews1", 4),
            ("csews1 slots=8 max_slots=16", "csews1", 8),
        ] {
            assert_eq!(entry(line).unwrap(), (host, slots), "{line}");
        }
        assert!(entry("a b").is_err());
        assert!(entry("a:x").is_err());
    }

    #[test]
    fn slots_are_filled_in_order() {
        let path = Path::new("hosts");
        assert_eq!(filled(&[(3, 2), (1, 2)], 3, path).unwrap(), [3, 3, 1]);
        let error = filled(&[(3, 2)], 3, path).unwrap_err().to_string();
        assert_eq!(error, "hosts has 2 slots, and there are 3 ranks");
    }
}
