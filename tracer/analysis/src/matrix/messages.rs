//! Collective operations as the library's messages, by its own tables.
//!
//! Each member's call alone tells which messages it sends. Calls that are the same are counted, and made messages of together.
//! Called for each collective call of a trace, and once more at its end.

use std::collections::BTreeMap;

use belljar_abi::Base;
use belljar_collectives::{Algorithm, Call, Choice, Library, Operation, Tables};
use belljar_trace::{Collective, Event, Implementation};

use super::AlgorithmTraffic;
use super::passed;
use super::sums::{Pairs, Sum, Unknown, is_plausible};
use crate::communicators::{Communicators, Members, ProcessKey};

/// Different calls that are kept until they are made messages of.
const MOST_CALLS: usize = 1 << 14;

/// Pieces in them, at most.
const MOST_PIECES: usize = 1 << 22;

/// What a process's own reductions are.
#[derive(Clone, Copy, Debug, Default)]
struct Reductions {
    commutative: bool,
    others: bool,
}

/// Makes messages of collective calls.
#[derive(Debug)]
pub(super) struct Expander<'a> {
    communicators: &'a Communicators,
    tables: &'a Tables,
    /// How often each call was made, by the communicator's number for all, with one of its members' own.
    calls: BTreeMap<(u32, Algorithm, Call), u64>,
    /// Pieces in them.
    pieces: usize,
    members: BTreeMap<u32, Members>,
    /// Whether a communicator has one member on each node.
    spread: BTreeMap<u32, bool>,
    reductions: BTreeMap<ProcessKey, Reductions>,
    algorithms: BTreeMap<(Operation, Algorithm), (u64, Sum)>,
}

impl<'a> Expander<'a> {
    pub(super) fn new(communicators: &'a Communicators, tables: &'a Tables) -> Self {
        Self {
            communicators,
            tables,
            calls: BTreeMap::new(),
            pieces: 0,
            members: BTreeMap::new(),
            spread: BTreeMap::new(),
            reductions: BTreeMap::new(),
            algorithms: BTreeMap::new(),
        }
    }

    /// Notes the reductions that an event makes or uses.
    pub(super) fn learn(&mut self, event: &Event) {
        if event.name() == "MPI_Op_create" || event.name() == "MPI_Op_create_c" {
            let own = self
                .reductions
                .entry((event.node, event.process))
                .or_default();
            match passed::word(event, "commute") {
                Some(0) => own.others = true,
                _ => own.commutative = true,
            }
        }
    }

    /// Takes a member's call into account.
    pub(super) fn take(
        &mut self,
        event: &Event,
        operation: Operation,
        collective: &Collective,
        pairs: &mut Pairs,
    ) -> Result<(), Unknown> {
        let own = match self.tables.library() {
            Library::Mpich => Implementation::Mpich,
            Library::OpenMpi => Implementation::OpenMpi,
        };
        if event.implementation != own {
            return Err(Unknown::Library);
        }
        let process = (event.node, event.process);
        let number = collective.communicator.ok_or(Unknown::Peer)?;
        if self.communicators.remote_members(process, number).is_some() {
            return Err(Unknown::Intercommunicator);
        }
        let identity = self.communicators.identity(process, number);
        let identity = identity.ok_or(Unknown::Peer)?;
        let members = self.communicators.members(process, number);
        let members = members.ok_or(Unknown::Peer)?;
        let rank = self
            .communicators
            .rank(process, number)
            .ok_or(Unknown::Peer)?;
        if !is_plausible(self.communicators, members.len()) {
            return Err(Unknown::Peer);
        }
        // Open MPI's rules do not ask where ranks are.
        if own == Implementation::Mpich && !self.is_spread(identity, members) {
            return Err(Unknown::Nodes);
        }
        let call = passed::call(event, operation, collective, (members.len(), rank))?;
        let call = self.with_reduction(call, event)?;
        if call.members == 1 {
            return Ok(());
        }
        let algorithm = match self.tables.choose(&call) {
            Choice::Known(algorithm) => algorithm,
            Choice::Unknown(_) | Choice::None => return Err(Unknown::Algorithm),
        };
        self.members
            .entry(identity)
            .or_insert_with(|| members.clone());
        let pieces = call.sent.len() + call.received.len();
        let count = self.calls.entry((identity, algorithm, call)).or_insert(0);
        if *count == 0 {
            self.pieces += pieces;
        }
        *count += 1;
        if self.calls.len() > MOST_CALLS || self.pieces > MOST_PIECES {
            self.expand(pairs);
        }
        Ok(())
    }

    /// Whether no two members are on one node.
    fn is_spread(&mut self, identity: u32, members: &Members) -> bool {
        if let Some(spread) = self.spread.get(&identity) {
            return *spread;
        }
        let nodes = members.iter().map(|member| self.communicators.node(member));
        let mut nodes: Vec<Option<u32>> = nodes.collect();
        let all = nodes.len();
        nodes.sort_unstable();
        nodes.dedup();
        let spread = nodes.len() == all && nodes.iter().all(Option::is_some);
        self.spread.insert(identity, spread);
        spread
    }

    /// The call with what is known of its reduction, if it has one.
    fn with_reduction(&self, call: Call, event: &Event) -> Result<Call, Unknown> {
        let parameters = event.description().parameters;
        let op = parameters.iter().position(|it| it.base == Base::Op);
        let Some(handle) = op.and_then(|index| event.arguments.get(index)) else {
            return Ok(call);
        };
        if is_built_in(event.implementation, *handle) {
            return Ok(call);
        }
        let own = self.reductions.get(&(event.node, event.process));
        if own.is_none_or(|own| !own.others) && event.implementation == Implementation::OpenMpi {
            // Its handles do not tell whose they are. MPI's own are commutative as far as reductions of several take them.
            return Ok(call);
        }
        let commutative = match own.copied().unwrap_or_default() {
            Reductions {
                commutative: true,
                others: false,
            } => true,
            Reductions {
                commutative: false,
                others: true,
            } => false,
            _ => return Err(Unknown::Reduction),
        };
        Ok(Call {
            built_in: false,
            commutative,
            ..call
        })
    }

    /// Makes messages of the calls that are kept.
    pub(super) fn expand(&mut self, pairs: &mut Pairs) {
        self.pieces = 0;
        for ((identity, algorithm, call), count) in std::mem::take(&mut self.calls) {
            let Some(members) = self.members.get(&identity) else {
                continue;
            };
            let entry = self
                .algorithms
                .entry((call.operation, algorithm))
                .or_default();
            entry.0 += count;
            let Some(own) = members.get(call.rank) else {
                continue;
            };
            for (to, bytes) in algorithm.schedule(&call).sends() {
                let bytes = bytes.saturating_mul(count);
                entry.1.add(count, bytes);
                if let Some(to) = members.get(to) {
                    pairs.add(own, to, count, bytes);
                }
            }
        }
    }

    /// What the library took for which operation.
    pub(super) fn algorithms(&self) -> Vec<AlgorithmTraffic> {
        let algorithms = self.algorithms.iter();
        let algorithms =
            algorithms.map(|((operation, algorithm), (calls, sum))| AlgorithmTraffic {
                operation: operation.name(),
                algorithm: algorithm.name(),
                calls: *calls,
                messages: sum.messages,
                bytes: sum.bytes,
            });
        algorithms.collect()
    }
}

/// Whether a reduction is one of MPI's own: the two bits at the top of MPICH's handles say so.
pub(super) fn is_built_in(implementation: Implementation, handle: u64) -> bool {
    implementation == Implementation::Mpich && handle as u32 >> 30 == 1
}
