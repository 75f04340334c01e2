//! An MPI library's choice of algorithms.
//!
//! MPICH's tables are decision trees in JSON: keys are conditions, tried in order, and the value of the first that holds is the next tree, without backtracking. A leaf
//! names an algorithm. A library has three tables; the one for networks names `MPIR_` algorithms, and the one above it *compositions* on nodes and among nodes. With one
//! rank on each node, that table passes every blocking operation of a communicator unchanged to the network's. The third one is for shared memory, and not read. Open
//! MPI's rules are in its code, and here (`open_mpi`). Files are untrusted: they are parsed once, into trees of bounded size. Used by the analysis of traffic.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};

use crate::algorithm::Algorithm;
use belljar_mpi::Operation;

use crate::call::Call;
use crate::library;
use crate::nodes::{NodeComposition, Nodes, Stage};
use crate::open_mpi;

/// The condition of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Condition {
    Any,
    /// True for an intracommunicator. All calls are on intracommunicators.
    Intra(bool),
    /// True if some ranks of the communicator share a node.
    Hierarchy,
    /// True if all ranks are on one node.
    OneNode,
    Collective(String),
    MembersBelow(u64),
    MembersUpTo(u64),
    MembersPowerOfTwo,
    CountUpTo(u64),
    CountBelowPowerOfTwo,
    BytesBelow(u64),
    BytesUpTo(u64),
    TotalBelow(u64),
    TotalUpTo(u64),
    Commutative(bool),
    BuiltIn(bool),
    InPlace(bool),
    EqualPieces(bool),
    NodesConsecutive(bool),
    MembersPerNodeUpTo(u64),
    MultiThreaded(bool),
    /// The name of an algorithm.
    Take(String),
}

/// Creates a condition from the bound in its key.
type Bounded = fn(u64) -> Condition;

/// Conditions with the trees that follow them, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Tree(Vec<(Condition, Tree)>);

/// The decision tables of a library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tables {
    kind: LibraryTables,
}

/// The tables of a library.
#[derive(Clone, Debug, PartialEq, Eq)]
enum LibraryTables {
    Mpich {
        network: Tree,
        /// The table above it, if the library has one.
        compositions: Option<Tree>,
    },
    OpenMpi,
}

/// The MPI library of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// MPICH, with its own tables.
    Mpich,
    /// Open MPI 4.1, whose rules are built in.
    OpenMpi,
}

/// A table's choice for a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// This algorithm is used.
    Known(Algorithm),
    /// The member executes these stages, one after the other.
    Staged(NodeComposition, Vec<Stage>),
    /// An unknown algorithm with this name is used.
    Unknown(String),
    /// There is no choice for such calls.
    None,
}

/// An error in finding tables.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// The file is not a library of a known kind.
    #[error(
        "the library has no decision tables: MPICH has them from version 4.0 on, and of Open MPI version 4.1 is known"
    )]
    Missing,
    /// The tables are malformed.
    #[error("the library's decision table cannot be read: {0}")]
    Unreadable(#[from] serde_json::Error),
}

impl Tables {
    /// Reads the tables from the bytes of a library's file.
    ///
    /// # Errors
    /// Returns an error if there are none, or if they cannot be read.
    pub fn of_library(library: &[u8]) -> Result<Self, TableError> {
        let documents = library::documents(library);
        let find = |name: &[u8]| {
            documents
                .iter()
                .find(|document| library::has(document, name))
        };
        if let Some(document) = find(b"algorithm=MPIR_") {
            let mut tables = Self::parse(document)?;
            if let LibraryTables::Mpich { compositions, .. } = &mut tables.kind {
                let document = find(b"composition=MPIDI_");
                *compositions = document.map(|it| serde_json::from_slice(it)).transpose()?;
            }
            return Ok(tables);
        }
        if open_mpi::is_library(library) {
            return Ok(Self::open_mpi());
        }
        Err(TableError::Missing)
    }

    /// Parses the network's table in a JSON document.
    ///
    /// # Errors
    /// Returns an error if it is not JSON, or has unknown keys.
    pub fn parse(document: &[u8]) -> Result<Self, TableError> {
        let network = serde_json::from_slice(document)?;
        let compositions = None;
        Ok(Self {
            kind: LibraryTables::Mpich {
                network,
                compositions,
            },
        })
    }

    /// Returns the rules of Open MPI 4.1.
    pub fn open_mpi() -> Self {
        Self {
            kind: LibraryTables::OpenMpi,
        }
    }

    /// Returns the library of the tables.
    pub fn library(&self) -> Library {
        match self.kind {
            LibraryTables::Mpich { .. } => Library::Mpich,
            LibraryTables::OpenMpi => Library::OpenMpi,
        }
    }

    /// Returns the library's choice for a call on an intracommunicator with one rank on each node.
    pub fn choose(&self, call: &Call) -> Choice {
        match &self.kind {
            LibraryTables::Mpich { network, .. } => known(network.find(call, None)),
            LibraryTables::OpenMpi => {
                let algorithm = open_mpi::choose(call);
                algorithm.map_or(Choice::None, Choice::Known)
            }
        }
    }

    /// Returns the library's choice for a call on an intracommunicator whose ranks are on these nodes. Open MPI's rules do not depend on nodes.
    pub fn choose_on(&self, call: &Call, nodes: &Nodes) -> Choice {
        let LibraryTables::Mpich {
            network,
            compositions,
        } = &self.kind
        else {
            return self.choose(call);
        };
        let fits = call.is_sound() && nodes.members() == call.members as usize;
        if nodes.are_separate() || !fits {
            return self.choose(call);
        }
        let above = compositions.as_ref().filter(|_| !call.nonblocking);
        let above = above.and_then(|tree| tree.find(call, Some(nodes)));
        let staged = |name: &str| {
            let composition = NodeComposition::named(name)?;
            let of_stage = |call: &Call| match self.choose(call) {
                Choice::Known(algorithm) => Some(algorithm),
                _ => None,
            };
            let stages = composition.stages(call, nodes, of_stage);
            Some(stages.map_or(Choice::None, |stages| Choice::Staged(composition, stages)))
        };
        if let Some(choice) = above.and_then(staged) {
            return choice;
        }
        let name = network.find(call, Some(nodes));
        name.and_then(staged).unwrap_or_else(|| known(name))
    }
}

/// Returns the algorithm of a name in a table.
fn known(name: Option<&str>) -> Choice {
    match name {
        None => Choice::None,
        Some(name) => match Algorithm::named(name) {
            Some(algorithm) => Choice::Known(algorithm),
            None => Choice::Unknown(name.to_owned()),
        },
    }
}

impl Tree {
    /// Returns the name at the leaf for a call of a communicator on these nodes, by default one for each rank.
    fn find(&self, call: &Call, nodes: Option<&Nodes>) -> Option<&str> {
        let mut tree = self;
        // A communicator's trees are pruned when it is created, as far as conditions only depend on the communicator. There "less" is evaluated literally; later, MPICH
        // 4.0 compares numbers of members by "no more than".
        let mut made = true;
        loop {
            let holds = |(condition, _): &&(Condition, Tree)| {
                made &= condition.is_of_communicator();
                condition.holds(call, nodes, made)
            };
            match tree.0.iter().find(holds)? {
                (Condition::Take(name), _) => return Some(name),
                (_, next) => tree = next,
            }
        }
    }
}

impl Condition {
    /// True if it only depends on the communicator and the operation.
    fn is_of_communicator(&self) -> bool {
        matches!(
            self,
            Self::Any
                | Self::Intra(_)
                | Self::Hierarchy
                | Self::OneNode
                | Self::Collective(_)
                | Self::MembersBelow(_)
                | Self::MembersUpTo(_)
                | Self::MembersPowerOfTwo
                | Self::NodesConsecutive(_)
                | Self::MembersPerNodeUpTo(_)
        )
    }

    fn holds(&self, call: &Call, nodes: Option<&Nodes>, made: bool) -> bool {
        let members = u64::from(call.members);
        match self {
            Self::Any | Self::Take(_) => true,
            Self::Intra(intra) => *intra,
            Self::Hierarchy => nodes.is_some_and(Nodes::divide),
            Self::OneNode => nodes.is_some_and(Nodes::are_one),
            Self::Collective(name) => {
                let form = if call.nonblocking { "i" } else { "" };
                name.strip_prefix(form) == Some(call.operation.name())
            }
            Self::MembersBelow(bound) if made => members < *bound,
            Self::MembersBelow(bound) | Self::MembersUpTo(bound) => members <= *bound,
            Self::MembersPowerOfTwo => members.is_power_of_two(),
            Self::CountUpTo(bound) => call.count <= *bound,
            Self::CountBelowPowerOfTwo => call.count < 1 << members.max(1).ilog2(),
            Self::BytesBelow(bound) => call.bytes() < *bound,
            Self::BytesUpTo(bound) => call.bytes() <= *bound,
            Self::TotalBelow(bound) => total(call) < *bound,
            Self::TotalUpTo(bound) => total(call) <= *bound,
            Self::Commutative(is) => call.commutative == *is,
            Self::BuiltIn(is) => call.built_in == *is,
            Self::InPlace(is) => call.in_place == *is,
            Self::EqualPieces(are) => {
                let pieces = call.sent.get(..call.members as usize).unwrap_or(&call.sent);
                pieces.windows(2).all(|pair| pair[0] == pair[1]) == *are
            }
            Self::NodesConsecutive(are) => {
                nodes.is_some_and(|it| it.divide() && it.are_consecutive()) == *are
            }
            Self::MembersPerNodeUpTo(bound) => *bound >= nodes.map_or(1, Nodes::members_per_node),
            Self::MultiThreaded(is) => !is,
        }
    }

    fn named(key: &str) -> Option<Self> {
        let number = |text: &str| text.parse().ok();
        if let Some(name) = key.strip_prefix("collective=") {
            return Some(Self::Collective(name.to_owned()));
        }
        for name in ["algorithm=", "composition="] {
            if let Some(name) = key.strip_prefix(name) {
                return Some(Self::Take(name.to_owned()));
            }
        }
        if key.starts_with("comm_hierarchy=") && !key.ends_with("=any") {
            return Some(match key {
                "comm_hierarchy=flat" => Self::Any,
                _ => Self::Hierarchy,
            });
        }
        let bounded: [(&str, Bounded); 8] = [
            ("comm_size<=", Self::MembersUpTo),
            ("comm_size<", Self::MembersBelow),
            ("count<=", Self::CountUpTo),
            ("avg_msg_size<=", Self::BytesUpTo),
            ("avg_msg_size<", Self::BytesBelow),
            ("total_msg_size<=", Self::TotalUpTo),
            ("total_msg_size<", Self::TotalBelow),
            ("comm_avg_ppn<=", Self::MembersPerNodeUpTo),
        ];
        if key == "count<pow2" {
            return Some(Self::CountBelowPowerOfTwo);
        }
        for (name, condition) in bounded {
            if let Some(bound) = key.strip_prefix(name) {
                return number(bound).map(condition);
            }
        }
        let (name, value) = key.split_once('=')?;
        let is = match value {
            "yes" => Some(true),
            "no" => Some(false),
            _ => None,
        };
        Some(match (name, value, is) {
            (_, "any", _) => Self::Any,
            ("comm_type", "intra", _) => Self::Intra(true),
            ("comm_type", "inter", _) => Self::Intra(false),
            ("comm_size", "pow2", _) => Self::MembersPowerOfTwo,
            ("comm_size", "node_comm_size", _) => Self::OneNode,
            ("is_commutative", _, Some(is)) => Self::Commutative(is),
            ("is_op_built_in", _, Some(is)) => Self::BuiltIn(is),
            ("is_sendbuf_inplace", _, Some(is)) => Self::InPlace(is),
            ("is_block_regular", _, Some(is)) => Self::EqualPieces(is),
            ("is_node_consecutive", _, Some(is)) => Self::NodesConsecutive(is),
            ("is_multi_threaded", _, Some(is)) => Self::MultiThreaded(is),
            _ => return None,
        })
    }
}

/// Returns all bytes, as defined by the tables: for the nonblocking reduce-scatter with equal blocks, MPICH 4.0 uses elements instead of bytes.
fn total(call: &Call) -> u64 {
    if call.nonblocking && call.operation == Operation::ReduceScatterBlock {
        return call.count.saturating_mul(call.members.into());
    }
    call.total_bytes()
}

impl<'de> Deserialize<'de> for Tree {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Branches;

        impl<'de> Visitor<'de> for Branches {
            type Value = Tree;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("conditions and what follows from them")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Tree, A::Error> {
                let mut branches = Vec::new();
                while let Some(key) = map.next_key::<String>()? {
                    let condition: String = key.split_whitespace().collect();
                    let condition = Condition::named(&condition).ok_or_else(|| {
                        A::Error::custom(format!("the condition {key:?} is unknown"))
                    })?;
                    branches.push((condition, map.next_value()?));
                }
                Ok(Tree(branches))
            }
        }

        deserializer.deserialize_map(Branches)
    }
}

#[cfg(test)]
mod tests;
