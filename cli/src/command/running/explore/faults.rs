//! Failures that an exploration injects, each in a run of its own.
//!
//! Times are those of calls of the base run: in the middle of a call, and between two calls, by turns. So they cover the states of a job
//! evenly, however long its phases last. A lost frame is the first one of a send to another node. A job that notices the failure and ends with an error passes, because MPI offers no more by default.
//! Called by `explore`, after the orders.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Result, bail};
use belljar_archive::TraceReader;
use belljar_job::{Communicators, communicators};
use belljar_mpi::Boundary;
use belljar_sim::figures::decimal;
use belljar_trace::{Direction, Event, TRACE_FILE};
use clap::ValueEnum;
use serde::Serialize;

/// A kind of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum FaultKind {
    /// A rank's process ends by SIGKILL.
    Kill,
    /// A rank's node stops for good, as without power.
    Die,
    /// A rank's node loses power, and starts again after a time.
    Restart,
    /// A rank's node pauses.
    Pause,
    /// The link of a rank's node fails for a time.
    Link,
    /// A frame of a rank's message is lost.
    Loss,
}

/// A failure at a time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Fault {
    pub(super) kind: FaultKind,
    /// The rank, and its node.
    pub(super) rank: u32,
    pub(super) node: u32,
    /// The node to which the lost frame goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) to: Option<u32>,
    /// Virtual time, in picoseconds.
    pub(super) at_ps: u64,
    /// Length in picoseconds; `None` for a failure without an end.
    pub(super) for_ps: Option<u64>,
    /// The call of the rank at that time, in words.
    pub(super) place: String,
}

/// The failures that a user wants.
#[derive(Clone, Debug)]
pub(super) struct FaultChoice {
    pub(super) kinds: Vec<FaultKind>,
    /// All ranks, if there are none.
    pub(super) ranks: Vec<u32>,
    /// Times for each rank and kind.
    pub(super) times: usize,
    /// Length of pauses, of failures of links and of times without power, in picoseconds.
    pub(super) length_ps: u64,
}

/// A call of a rank.
struct OwnCall {
    name: &'static str,
    boundary: Option<Boundary>,
    entry_ps: u64,
    end_ps: u64,
    /// Another node to which it sends.
    to: Option<u32>,
}

impl FaultKind {
    /// Its name in scenarios.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Kill => "kill",
            Self::Die => "die",
            Self::Restart => "restart",
            Self::Pause => "pause",
            Self::Link => "link",
            Self::Loss => "loss",
        }
    }

    /// Time that a job has after the failure, in picoseconds: several timeouts of TCP. The launcher of Open MPI takes 2 s to end a job
    /// whose process was killed.
    pub(super) fn recovery_ps(self) -> u64 {
        match self {
            Self::Kill => 5_000_000_000_000,
            Self::Die | Self::Restart | Self::Pause | Self::Link | Self::Loss => 1_000_000_000_000,
        }
    }

    /// True if the job loses a rank.
    pub(super) fn loses_rank(self) -> bool {
        matches!(self, Self::Kill | Self::Die | Self::Restart)
    }
}

impl Fault {
    /// In words.
    pub(super) fn words(&self) -> String {
        let at = decimal(self.at_ps as f64 / 1e12, 9);
        let (rank, node, place) = (self.rank, self.node, &self.place);
        match self.kind {
            FaultKind::Kill => format!("rank {rank} is killed at {at} s, {place}"),
            FaultKind::Die => {
                format!("node {node} stops at {at} s; rank {rank} is {place}")
            }
            FaultKind::Restart => {
                format!(
                    "node {node} loses power at {at} s and starts again; rank {rank} is {place}"
                )
            }
            FaultKind::Pause => {
                format!("node {node} pauses at {at} s; rank {rank} is {place}")
            }
            FaultKind::Link => {
                format!("the link of node {node} fails at {at} s; rank {rank} is {place}")
            }
            FaultKind::Loss => {
                let to = self.to.unwrap_or_default();
                format!(
                    "the first frame from node {node} to node {to} from {at} s on is lost; rank {rank} is {place}"
                )
            }
        }
    }
}

/// The failures of `wanted` for the run in `directory`, in the order of kinds, ranks and times.
///
/// # Errors
/// If the trace cannot be read, or a wanted rank has no calls.
pub(super) fn faults(directory: &Path, wanted: &FaultChoice) -> Result<Vec<Fault>> {
    let ranks = calls(directory)?;
    let unknown = wanted.ranks.iter().find(|rank| !ranks.contains_key(rank));
    if let Some(rank) = unknown {
        bail!(
            "--fault-ranks {rank}: the base run has no calls of this rank between MPI_Init and MPI_Finalize; it has them of ranks {:?}",
            ranks.keys().collect::<Vec<_>>()
        );
    }
    let mut all = Vec::new();
    for kind in &wanted.kinds {
        for (rank, (node, calls)) in &ranks {
            let is_meant = wanted.ranks.is_empty() || wanted.ranks.contains(rank);
            if !is_meant {
                continue;
            }
            let times = match kind {
                FaultKind::Loss => sends(calls, wanted.times),
                _ => times(calls, wanted.times),
            };
            let has_length = matches!(
                kind,
                FaultKind::Restart | FaultKind::Pause | FaultKind::Link
            );
            all.extend(times.into_iter().map(|(at_ps, place, to)| Fault {
                kind: *kind,
                rank: *rank,
                node: *node,
                to,
                at_ps,
                for_ps: has_length.then_some(wanted.length_ps),
                place,
            }));
        }
    }
    let has_loss = all.iter().any(|fault| fault.kind == FaultKind::Loss);
    if wanted.kinds.contains(&FaultKind::Loss) && !has_loss {
        bail!(
            "--faults loss: no rank of these sends a message to another node in the base run; leave loss out"
        );
    }
    Ok(all)
}

/// The calls of each rank of the first job between `MPI_Init` and `MPI_Finalize`, with the rank's node.
fn calls(directory: &Path) -> Result<BTreeMap<u32, (u32, Vec<OwnCall>)>> {
    let path = directory.join(TRACE_FILE);
    let communicators = communicators(&path)?;
    let mut reader = TraceReader::open(&path)?;
    let header = reader.header().clone();
    let mut ranks: BTreeMap<u32, (u32, Vec<OwnCall>)> = BTreeMap::new();
    for event in reader.by_ref().filter(|event| event.depth == 0) {
        let Some(exit) = event.exit else {
            continue;
        };
        let ps = |cycles| header.frequency(event.node).time_of(cycles).as_ps();
        let call = OwnCall {
            name: event.name(),
            boundary: event.meaning().boundary(),
            entry_ps: ps(event.entry),
            end_ps: ps(exit),
            to: destination(&event, &communicators),
        };
        let own = ranks.entry(event.rank).or_insert((event.node, Vec::new()));
        if own.0 == event.node {
            own.1.push(call);
        }
    }
    for (_, calls) in ranks.values_mut() {
        calls.sort_by_key(|call| call.entry_ps);
        let first = calls
            .iter()
            .rposition(|call| call.boundary == Some(Boundary::Start));
        calls.drain(..first.map_or(0, |at| at + 1));
        calls.retain(|call| call.boundary != Some(Boundary::End));
    }
    ranks.retain(|_, (_, calls)| !calls.is_empty());
    Ok(ranks)
}

/// The first other node to which a call sends a message.
fn destination(event: &Event, communicators: &Communicators) -> Option<u32> {
    let process = (event.node, event.process);
    let sends = event.transfers.iter();
    let mut sends = sends.filter(|it| it.direction == Direction::Send && !it.is_access());
    sends.find_map(|transfer| {
        let receiver = communicators.peer(process, transfer.communicator?, transfer.peer)?;
        let node = communicators.node(receiver);
        node.filter(|node| *node != event.node)
    })
}

/// A time in picoseconds, the rank's call then in words, and the node to which a lost frame goes.
type FaultTime = (u64, String, Option<u32>);

/// The entries of at most `most` calls that send to another node.
fn sends(calls: &[OwnCall], most: usize) -> Vec<FaultTime> {
    let sends: Vec<&OwnCall> = calls.iter().filter(|call| call.to.is_some()).collect();
    let number = most.min(sends.len());
    let chosen = (0..number).map(|at| sends[at * sends.len() / number]);
    chosen
        .map(|call| (call.entry_ps, format!("in {}", call.name), call.to))
        .collect()
}

/// At most `most` times, in the middle of a call and between two calls by turns, each with words for it.
fn times(calls: &[OwnCall], most: usize) -> Vec<FaultTime> {
    let number = most.min(2 * calls.len());
    let mut times: Vec<FaultTime> = (0..number)
        .map(|at| {
            let call = &calls[at * calls.len() / number];
            let before = (at * calls.len() / number).checked_sub(1);
            let before = before.map(|before| calls[before].end_ps.min(call.entry_ps));
            match (at % 2, before) {
                (1, Some(end_ps)) => (
                    end_ps.midpoint(call.entry_ps),
                    format!("before {}", call.name),
                    None,
                ),
                _ => (
                    call.entry_ps.midpoint(call.end_ps),
                    format!("in {}", call.name),
                    None,
                ),
            }
        })
        .collect();
    times.sort();
    times.dedup();
    times
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_in_calls_and_between_them() {
        let call = |name, entry_ps, end_ps| OwnCall {
            name,
            boundary: None,
            entry_ps,
            end_ps,
            to: None,
        };
        let calls = [
            call("MPI_Send", 100, 200),
            call("MPI_Recv", 300, 500),
            call("MPI_Barrier", 500, 600),
        ];
        let text = |most| {
            let times = times(&calls, most).into_iter();
            times
                .map(|(at, place, _)| format!("{at} {place}"))
                .collect::<Vec<_>>()
        };
        assert_eq!(text(1), ["150 in MPI_Send"]);
        assert_eq!(text(2), ["150 in MPI_Send", "250 before MPI_Recv"]);
        assert_eq!(
            text(60),
            [
                "150 in MPI_Send",
                "250 before MPI_Recv",
                "400 in MPI_Recv",
                "500 before MPI_Barrier",
                "550 in MPI_Barrier"
            ]
        );
        assert!(times(&[], 4).is_empty());
    }

    #[test]
    fn lost_frames_are_those_of_sends_to_other_nodes() {
        let calls: Vec<OwnCall> = (0..12)
            .map(|at| OwnCall {
                name: "MPI_Send",
                boundary: None,
                entry_ps: at * 100,
                end_ps: at * 100 + 50,
                to: (at % 3 == 0).then_some(at as u32),
            })
            .collect();
        let chosen = |most| -> Vec<(u64, Option<u32>)> {
            let sends = sends(&calls, most).into_iter();
            sends.map(|(at, _, to)| (at, to)).collect()
        };
        let all = [0, 300, 600, 900].map(|at| (at, Some(at as u32 / 100)));
        assert_eq!(chosen(9), all);
        assert_eq!(chosen(2), [all[0], all[2]]);
        assert!(sends(&calls[1..3], 4).is_empty());
    }
}
