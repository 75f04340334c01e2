//! Preview of the placement, before any host is contacted.
//!
//! Places nodes as a run would, by the known properties of the hosts, and states whether these are
//! certain. Called by `belljar check`.

use std::collections::BTreeSet;
use std::fmt;

use belljar_fabric::Distances;
use belljar_sim::Span;

use super::list::{HostList, HostListError, StartMethod};
use super::partition::Partition;
use super::placement::{PlacementError, place_nodes, shared_switches};
use crate::plan::Plan;
use crate::scenario::Hosts;

/// Errors of a preview.
#[derive(Debug, thiserror::Error)]
pub enum PreviewError {
    /// The list of hosts is invalid.
    #[error(transparent)]
    List(#[from] HostListError),
    /// The nodes do not fit onto the hosts.
    #[error(transparent)]
    Placement(#[from] PlacementError),
}

/// The expected placement of a plan's nodes. [`Display`](fmt::Display) gives the lines of `belljar check`.
#[derive(Debug)]
pub struct Preview {
    way: StartMethod,
    /// True if the hosts' capacities are known.
    known: bool,
    partition: Partition,
    /// The number of switches with nodes of several hosts, and of all switches with nodes.
    shared: (usize, usize),
    /// The minimum latency between nodes of different hosts.
    apart: Option<Span>,
}

impl Preview {
    /// Places the nodes of `plan` on the hosts that `hosts` requests; `None` if only this one is.
    ///
    /// # Errors
    /// See [`PreviewError`].
    pub fn new(plan: &Plan, hosts: &Hosts) -> Result<Option<Self>, PreviewError> {
        let Some(list) = HostList::of(hosts)? else {
            return Ok(None);
        };
        let (capacities, known) = list.expected();
        let host_of = place_nodes(plan, &capacities, hosts)?;
        let topology = &plan.topology;
        let switches: BTreeSet<u32> = (0..plan.nodes).map(|n| topology.switch_of(n)).collect();
        let shared = (shared_switches(topology, &host_of), switches.len());
        let names = capacities.into_iter().map(|host| host.name).collect();
        let partition = Partition::new(names, host_of);
        let distances = Distances::new(topology);
        let hosts = 0..partition.names().len() as u32;
        let crossings = hosts.filter_map(|host| partition.least_crossing(host, &distances));
        Ok(Some(Self {
            way: list.way(),
            known,
            shared,
            apart: crossings.min(),
            partition,
        }))
    }
}

impl fmt::Display for Preview {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way = match self.way {
            StartMethod::Local => "as processes here".to_owned(),
            StartMethod::Ssh => "by ssh".to_owned(),
            StartMethod::Slurm(job) => format!("of Slurm's job {job}"),
        };
        let names = self.partition.names();
        write!(f, "hosts      {} {way}", names.len())?;
        if !self.known {
            f.write_str(", assumed to be equal: they were not contacted")?;
        }
        let width = names.iter().map(String::len).max().unwrap_or(0);
        for (host, name) in (0..).zip(names) {
            let nodes: Vec<u32> = self.partition.nodes_of(host).collect();
            let nodes = if nodes.is_empty() {
                "no nodes".to_owned()
            } else {
                ranges(&nodes)
            };
            write!(f, "\n           {name:width$}  {nodes}")?;
        }
        let (shared, all) = self.shared;
        write!(
            f,
            "\n           {shared} of {all} switches with nodes of several hosts"
        )?;
        self.apart
            .map_or(Ok(()), |apart| write!(f, ", at least {apart} apart"))
    }
}

/// Ascending numbers as `0-3, 7`.
fn ranges(numbers: &[u32]) -> String {
    let runs = numbers.chunk_by(|one, next| one + 1 == *next);
    let text = runs.map(|run| match run {
        [first, .., last] => format!("{first}-{last}"),
        _ => run.iter().map(u32::to_string).collect(),
    });
    text.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::ranges;

    #[test]
    fn neighbours_are_told_as_ranges() {
        assert_eq!(ranges(&[0, 1, 2, 3, 7, 9, 10]), "0-3, 7, 9-10");
        assert_eq!(ranges(&[5]), "5");
    }
}
