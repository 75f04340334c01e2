//! Meetings in which each process depends on some of the others.
//!
//! Between two groups, a process depends on processes of the other group (MPI-4.0, 6.2.2); among neighbours, on its
//! sources (MPI-4.0, 8.6). A trace does not contain neighbours in graphs, so such a part is counted as unresolved. Used
//! by `collective`.

use std::collections::{BTreeMap, BTreeSet};

use belljar_job::{Member, ProcessKey};
use belljar_mpi::Operation;
use belljar_trace::{Collective, Event, Peer, Who};

use super::super::WaitKind;
use super::super::calls::Cause;
use super::super::dependency::{DependencyNode, Needed};
use super::WaitCollector;
use super::collective::{Came, Dependence, kind};

/// The last process that a part depends on, and the dependence.
type Waited = (Option<Came>, Option<Needed>);

/// The processes that one process depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Partial {
    /// No other process.
    Nobody,
    /// All of the remote group of the communicator to which this process gives this number.
    Group(WaitKind, ProcessKey, u32),
    /// The root in the other group.
    Root(Option<Member>),
    /// The neighbours in the grid of the communicator to which this process gives this number.
    Grid(ProcessKey, u32),
}

impl WaitCollector<'_> {
    /// Returns the processes that an event's process depends on, in an operation in which these differ by process.
    pub(super) fn partial(&mut self, event: &Event, collective: &Collective) -> Option<Partial> {
        let process = (event.node, event.process);
        let Some(number) = collective.communicator else {
            return Some(Partial::Nobody);
        };
        if collective.operation.is_some_and(Operation::is_neighborhood) {
            let grid = self.communicators.grid_neighbors(process, number);
            self.unresolved += u64::from(grid.is_none());
            return Some(grid.map_or(Partial::Nobody, |_| Partial::Grid(process, number)));
        }
        let remote = self.communicators.remote_members(process, number)?;
        let of_root = collective.received.who == Who::Root;
        Some(match collective.root {
            None => Partial::Group(kind(collective), process, number),
            Some(Peer::Root) if of_root => Partial::Group(WaitKind::EarlyReduce, process, number),
            Some(Peer::Rank(root)) if !of_root => Partial::Root(remote.get(root)),
            Some(_) => Partial::Nobody,
        })
    }

    /// Handles a complete meeting in which each process depends on some of the others.
    pub(super) fn gathered_partly(&mut self, parts: &[Came]) {
        // By the first process of each group: its last process, and the dependence on the whole group.
        let mut groups: BTreeMap<Option<Member>, Waited> = BTreeMap::new();
        for own in parts {
            let Dependence::Own(partial) = own.dependence else {
                continue;
            };
            let (kind, waited) = match partial {
                Partial::Nobody => (WaitKind::AllToAll, (None, None)),
                Partial::Root(root) => {
                    let root = parts.iter().filter(|came| Some(came.member) == root);
                    (WaitKind::LateBroadcast, self.last(root))
                }
                Partial::Grid(process, number) => {
                    let slots = self.communicators.grid_neighbors(process, number);
                    let slots: Vec<Member> = slots.into_iter().flatten().flatten().collect();
                    let others = parts.iter().filter(|came| slots.contains(&came.member));
                    let others = others.filter(|came| came.member != own.member);
                    (WaitKind::AllToAll, self.last(others))
                }
                Partial::Group(kind, process, number) => {
                    let remote = self.communicators.remote_members(process, number);
                    let first = remote.and_then(|remote| remote.get(0));
                    let known = groups.get(&first).copied();
                    let waited = known.unwrap_or_else(|| {
                        let remote = remote.into_iter().flat_map(|remote| remote.iter());
                        let remote: BTreeSet<Member> = remote.take(parts.len()).collect();
                        self.last(parts.iter().filter(|came| remote.contains(&came.member)))
                    });
                    groups.insert(first, waited);
                    (kind, waited)
                }
            };
            let cause = waited.0.map(|last| Cause {
                at: last.at,
                kind,
                by: last.member,
                thread: last.thread,
            });
            self.resolve(own.operation, (cause, waited.1));
        }
    }

    /// Returns the last of these processes, and the dependence on all of them if dependencies are kept.
    fn last<'c>(&mut self, others: impl Iterator<Item = &'c Came>) -> Waited {
        let others: Vec<Came> = others.copied().collect();
        let Some(last) = others.iter().max_by_key(|came| came.at).copied() else {
            return (None, None);
        };
        let needed = match others[..] {
            _ if self.calls.dependencies.is_none() => None,
            [only] => Some(only.needed(DependencyNode::process(only.member))),
            _ => Some(self.meeting(&others, last)),
        };
        (Some(last), needed)
    }
}
