//! Messages of collective calls.
//!
//! A collective operation has the semantics of data given by one process to another (`stated`). The MPI library implements it by messages
//! of an algorithm, which its tables select by the call's arguments (`passed`); the arguments of a persistent operation are in the call
//! that prepared it (`prepared`). [`Expansion`] observes each event of a trace in order, and returns the algorithm of a collective call.
//! Called by the analysis of traffic and by replay.

/// Arguments of a collective operation.
pub(crate) mod passed;
/// Calls that prepared persistent collective operations.
mod prepared;
/// Collective operations as the program called them.
pub(crate) mod stated;

use std::collections::BTreeMap;

use belljar_collectives::{Algorithm, Call, Choice, Library, Nodes, Stage, Tables};
use belljar_mpi::{Base, CallKind, Object, Operation};
use belljar_trace::{Collective, Event, Implementation, MpiLibrary, standard_abi};

use crate::communicators::{Communicators, Member, Members, ProcessKey};
use prepared::Prepared;

/// The reason that a call's messages are unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unknown {
    /// The members of the communicator are unknown.
    Peer,
    /// The bytes are unknown.
    Bytes,
    /// The part of each member is unknown.
    Pieces,
    /// It was started by `MPI_Start`, and the call that prepared it is ambiguous.
    Persistent,
    /// It is on an intercommunicator.
    Intercommunicator,
    /// The neighbours are not those of a grid.
    Neighbors,
    /// The tables are of another library.
    Library,
    /// The trace does not have the nodes of all members.
    Nodes,
    /// The library's tables have no entry, or name an unknown algorithm.
    Algorithm,
    /// It is unknown whether the program's own reduction is commutative.
    Reduction,
    /// There are too many pairs.
    Pairs,
}

impl Unknown {
    /// The reason, as a text for users.
    pub fn words(self) -> &'static str {
        match self {
            Self::Peer => "messages or calls on communicators that could not be worked out",
            Self::Bytes => "collective calls whose bytes the trace does not tell",
            Self::Pieces => {
                "collective calls of which the trace has no count for each member: an earlier Belljar wrote it"
            }
            Self::Persistent => {
                "persistent collective operations started, of which it is unknown what prepared them"
            }
            Self::Intercommunicator => "collective calls between groups",
            Self::Neighbors => "calls among neighbours of a graph",
            Self::Library => {
                "collective calls of another MPI library than the one whose tables are read"
            }
            Self::Nodes => "collective calls of ranks whose nodes the trace does not have",
            Self::Algorithm => "collective calls whose algorithm is not known",
            Self::Reduction => {
                "collective calls with an operation of which it is unknown whether it is commutative"
            }
            Self::Pairs => "messages between more pairs of ranks than are kept",
        }
    }
}

/// Kinds of a process's own reductions.
#[derive(Clone, Copy, Debug, Default)]
struct Reductions {
    commutative: bool,
    others: bool,
}

/// A member's part in a collective operation, as the library implements it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expanded {
    /// The communicator, by the number that all members use.
    pub communicator: u32,
    /// The selected algorithm.
    pub algorithm: Algorithm,
    /// The member's arguments.
    pub call: Call,
    /// The member's stages if ranks share nodes, which replace the algorithm; otherwise empty.
    pub stages: Vec<Stage>,
}

/// Finds the messages of collective calls.
#[derive(Debug)]
pub struct Expansion<'a> {
    communicators: &'a Communicators,
    tables: Option<&'a Tables>,
    /// The nodes of a communicator's members; `None` if unknown.
    nodes: BTreeMap<u32, Option<Nodes>>,
    reductions: BTreeMap<ProcessKey, Reductions>,
    prepared: Prepared,
}

impl<'a> Expansion<'a> {
    /// Creates an expansion for a trace with these communicators; with the tables of the library that ran, if available.
    pub fn new(communicators: &'a Communicators, tables: Option<&'a Tables>) -> Self {
        Self {
            communicators,
            tables,
            nodes: BTreeMap::new(),
            reductions: BTreeMap::new(),
            prepared: Prepared::default(),
        }
    }

    /// True if there are tables of the library that ran.
    pub fn has_tables(&self) -> bool {
        self.tables.is_some()
    }

    /// Records an event that later ones depend on: the creation of a reduction, the preparation of an operation.
    pub fn learn(&mut self, event: &Event) {
        self.prepared.learn(event);
        if event.meaning().kind == CallKind::Make(Object::Reduction) {
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

    /// The operation of `collective` of `event`, and the call with its arguments: `event` itself, or the call that prepared the started
    /// operation.
    ///
    /// # Errors
    /// When the call that prepared it is unknown.
    pub fn called<'e>(
        &'e self,
        event: &'e Event,
        collective: &Collective,
    ) -> Result<(&'e Event, Operation), Unknown> {
        if let Some(operation) = event.meaning().collective() {
            return Ok((event, operation));
        }
        let prepared = self.prepared.of(event, collective);
        let prepared = prepared.ok_or(Unknown::Persistent)?;
        let operation = collective.operation.or(prepared.meaning().collective());
        Ok((prepared, operation.ok_or(Unknown::Persistent)?))
    }

    /// Calls `to` with each process to which the caller of `collective` gives data, and the bytes, as the program calls it.
    ///
    /// # Errors
    /// When they are unknown.
    pub fn stated(
        &self,
        event: &Event,
        collective: &Collective,
        to: impl FnMut(Member, u64),
    ) -> Result<(), Unknown> {
        let (event, operation) = self.called(event, collective)?;
        let process = (event.node, event.process);
        stated::each(self.communicators, process, operation, collective, to)
    }

    /// The library's implementation of `collective` of `event`, if it is among all members of a communicator. `None` for neighbourhood
    /// collectives, whose data are exchanged directly, and for a communicator of one.
    ///
    /// # Errors
    /// When it is unknown.
    pub fn expand(
        &mut self,
        event: &Event,
        collective: &Collective,
    ) -> Result<Option<Expanded>, Unknown> {
        let tables = self.tables.ok_or(Unknown::Library)?;
        let own = match tables.library() {
            Library::Mpich => MpiLibrary::Mpich,
            Library::OpenMpi => MpiLibrary::OpenMpi,
        };
        if event.implementation.library() != own {
            return Err(Unknown::Library);
        }
        let (_, members, _) = self.place(event, collective)?;
        let Some((identity, call)) = self.passed(event, collective)? else {
            return Ok(None);
        };
        let choice = match self.nodes(identity, members) {
            Some(nodes) => tables.choose_on(&call, nodes),
            // Its rules do not depend on the nodes of ranks.
            None if own == MpiLibrary::OpenMpi => tables.choose(&call),
            None => return Err(Unknown::Nodes),
        };
        expanded(choice, identity, call)
    }

    /// The same by these tables, for any library, and as if each member were on a node of its own.
    ///
    /// # Errors
    /// When it is unknown.
    pub fn expand_by(
        &self,
        tables: &Tables,
        event: &Event,
        collective: &Collective,
    ) -> Result<Option<Expanded>, Unknown> {
        let Some((identity, call)) = self.passed(event, collective)? else {
            return Ok(None);
        };
        expanded(tables.choose(&call), identity, call)
    }

    /// The communicator and the member's call; `None` for neighbourhood collectives, and for a communicator with one member.
    fn passed(
        &self,
        event: &Event,
        collective: &Collective,
    ) -> Result<Option<(u32, Call)>, Unknown> {
        let (identity, members, rank) = self.place(event, collective)?;
        let (event, operation) = self.called(event, collective)?;
        if operation.is_neighborhood() {
            return Ok(None);
        }
        let call = passed::call(event, operation, collective, members.len(), rank)?;
        let call = self.with_reduction(call, event)?;
        Ok((call.members > 1).then_some((identity, call)))
    }

    /// The communicator's number for all of its members, these members, and the caller's rank.
    fn place(
        &self,
        event: &Event,
        collective: &Collective,
    ) -> Result<(u32, &'a Members, u32), Unknown> {
        let process = (event.node, event.process);
        let number = collective.communicator.ok_or(Unknown::Peer)?;
        if self.communicators.remote_members(process, number).is_some() {
            return Err(Unknown::Intercommunicator);
        }
        let identity = self.communicators.identity(process, number);
        let members = self.communicators.members(process, number);
        let rank = self.communicators.rank(process, number);
        let (Some(identity), Some(members), Some(rank)) = (identity, members, rank) else {
            return Err(Unknown::Peer);
        };
        match is_plausible(self.communicators, members.len()) {
            true => Ok((identity, members, rank)),
            false => Err(Unknown::Peer),
        }
    }

    /// The nodes of a communicator's members.
    fn nodes(&mut self, identity: u32, members: &Members) -> Option<&Nodes> {
        let communicators = self.communicators;
        let nodes = self.nodes.entry(identity).or_insert_with(|| {
            let nodes = members.iter().map(|member| communicators.node(member));
            nodes.collect::<Option<Vec<u32>>>().map(Nodes::new)
        });
        nodes.as_ref()
    }

    /// The call with the known properties of its reduction, if it has one.
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
        let is_open_mpi = event.implementation == Implementation::OpenMpi;
        if own.is_none_or(|own| !own.others) && is_open_mpi {
            // Its handles do not show their owner. MPI's predefined reductions are commutative as far as reductions of several elements
            // use them.
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
}

/// A member's part, by the library's choice for its call.
fn expanded(choice: Choice, communicator: u32, call: Call) -> Result<Option<Expanded>, Unknown> {
    let (algorithm, stages) = match choice {
        Choice::Known(algorithm) => (algorithm, Vec::new()),
        Choice::Staged(composition, stages) => (Algorithm::OnNodes(composition), stages),
        Choice::Unknown(_) | Choice::None => return Err(Unknown::Algorithm),
    };
    Ok(Some(Expanded {
        communicator,
        algorithm,
        call,
        stages,
    }))
}

/// True for a reduction that MPI predefines: the top two bits of MPICH's handles show it, and the constants of the standard ABI.
fn is_built_in(implementation: Implementation, handle: u64) -> bool {
    match implementation {
        Implementation::Mpich => handle as u32 >> 30 == 1,
        Implementation::OpenMpi => false,
        Implementation::StandardAbi(_) => standard_abi::operation(handle).is_some(),
    }
}

/// Accepted number of members of a communicator even if a trace has fewer processes.
const MEMBERS_BELIEVED: usize = 1 << 12;

/// True if a communicator may have as many members: a trace of a few bytes could claim any number.
pub(crate) fn is_plausible(communicators: &Communicators, members: u32) -> bool {
    members as usize <= communicators.processes().max(MEMBERS_BELIEVED)
}
