//! What messages a collective call becomes.
//!
//! As the program calls it, a collective operation says who gives whom how much (`stated`). The MPI library makes messages of it by an
//! algorithm, which its own tables choose by what the call passes (`passed`); what a persistent operation passes stands in the call that
//! prepared it (`prepared`). [`Expansion`] sees each event of a trace in order, and says of any collective call which algorithm is taken.
//! Called by the analysis of traffic and by replay.

/// What a call passes to a collective operation.
pub(crate) mod passed;
/// What persistent collective operations were prepared by.
mod prepared;
/// Collective operations as the program called them.
pub(crate) mod stated;

use std::collections::BTreeMap;

use belljar_collectives::{Algorithm, Call, Choice, Library, Nodes, Stage, Tables};
use belljar_mpi::{Base, CallKind, Object, Operation};
use belljar_trace::{Collective, Event, Implementation, MpiLibrary, standard_abi};

use crate::communicators::{Communicators, Member, Members, ProcessKey};
use prepared::Prepared;

/// Why it is not known what messages a call becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unknown {
    /// The trace does not tell whom the communicator joins.
    Peer,
    /// The trace does not tell the bytes.
    Bytes,
    /// The trace does not tell each member's part.
    Pieces,
    /// It was started by `MPI_Start`, and what was prepared does not tell which operation it is.
    Persistent,
    /// Its communicator joins two groups.
    Intercommunicator,
    /// Neighbours are not those of a grid.
    Neighbors,
    /// The library is another than that of the tables.
    Library,
    /// The trace does not have the nodes of all members.
    Nodes,
    /// The library's tables say nothing, or name an algorithm that is not known.
    Algorithm,
    /// The trace does not tell whether the program's own reduction is commutative.
    Reduction,
    /// There are too many pairs.
    Pairs,
}

impl Unknown {
    /// What is not known, and why, for people.
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

/// What a process's own reductions are.
#[derive(Clone, Copy, Debug, Default)]
struct Reductions {
    commutative: bool,
    others: bool,
}

/// A member's part in a collective operation, as the library carries it out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expanded {
    /// The communicator, by the number that all of its members have for it.
    pub communicator: u32,
    /// The algorithm that is taken.
    pub algorithm: Algorithm,
    /// What the member passes.
    pub call: Call,
    /// The stages that the member goes through where ranks share nodes, in place of the algorithm; else empty.
    pub stages: Vec<Stage>,
}

/// Says what messages collective calls become.
#[derive(Debug)]
pub struct Expansion<'a> {
    communicators: &'a Communicators,
    tables: Option<&'a Tables>,
    /// The nodes of a communicator's members; `None` where they are not known.
    nodes: BTreeMap<u32, Option<Nodes>>,
    reductions: BTreeMap<ProcessKey, Reductions>,
    prepared: Prepared,
}

impl<'a> Expansion<'a> {
    /// Nothing seen yet of the trace whose communicators these are; with the tables of the library that ran, if they are at hand.
    pub fn new(communicators: &'a Communicators, tables: Option<&'a Tables>) -> Self {
        Self {
            communicators,
            tables,
            nodes: BTreeMap::new(),
            reductions: BTreeMap::new(),
            prepared: Prepared::default(),
        }
    }

    /// Whether it knows tables of the library that ran.
    pub fn has_tables(&self) -> bool {
        self.tables.is_some()
    }

    /// Notes what an event says of later ones: the reductions that it makes, the operations that it prepares.
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

    /// Which operation `collective` of `event` is, and the call that says what is passed to it: `event` itself, or the one that
    /// prepared what it starts.
    ///
    /// # Errors
    /// When it is not known what prepared it.
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

    /// Tells `to` whom the caller of `collective` gives how many bytes, as the program calls it.
    ///
    /// # Errors
    /// When the trace does not tell.
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

    /// How the library carries out `collective` of `event`, where it is one among all members of a communicator; `None` for one among
    /// neighbours, who exchange straight what they call for, and for a communicator of one.
    ///
    /// # Errors
    /// When it is not known.
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
            // Its rules do not ask where ranks are.
            None if own == MpiLibrary::OpenMpi => tables.choose(&call),
            None => return Err(Unknown::Nodes),
        };
        expanded(choice, identity, call)
    }

    /// The same by these tables, whichever library ran, and as if each member were on a node of its own.
    ///
    /// # Errors
    /// When it is not known.
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

    /// The communicator and the member's call; `None` for an operation among neighbours, and for a communicator with one member.
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
        let call = passed::call(event, operation, collective, (members.len(), rank))?;
        let call = self.with_reduction(call, event)?;
        Ok((call.members > 1).then_some((identity, call)))
    }

    /// The communicator's number for all of its members, these, and the caller's rank among them.
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
        let is_open_mpi = event.implementation == Implementation::OpenMpi;
        if own.is_none_or(|own| !own.others) && is_open_mpi {
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

/// Members of a communicator that are believed of a trace that has fewer processes.
const MEMBERS_BELIEVED: usize = 1 << 12;

/// Whether a communicator may have so many members: a trace of a few bytes could claim any number.
pub(crate) fn is_plausible(communicators: &Communicators, members: u32) -> bool {
    members as usize <= communicators.processes().max(MEMBERS_BELIEVED)
}
