//! Placement of ranks: the options of `belljar replay`.
//!
//! Ranks are those of each job's `MPI_COMM_WORLD`, hosts the nodes of the network. Called by `replay`.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use belljar_fabric::Topology;
use belljar_program::Program;
use clap::Args;

use super::hostfile::{filled, listed, slots};

#[derive(Args, Clone, Default)]
pub(crate) struct PlacementArguments {
    /// Placement of ranks: block, cyclic or a file.
    ///
    /// `block` fills one node after the other, `cyclic` takes nodes in turn, and a file has the node of each rank, one a line.
    /// The default is the placement of the trace.
    #[arg(long, value_name = "block|cyclic|FILE", conflicts_with = "hostfile")]
    pub(super) mapping: Option<String>,
    /// Hostfile of MPICH or Open MPI, filled in order.
    #[arg(long, value_name = "FILE")]
    pub(super) hostfile: Option<PathBuf>,
    /// Ranks on each node; for `cyclic`, a maximum.
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) ranks_per_node: Option<u32>,
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
