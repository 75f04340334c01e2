//! Which algorithm an MPI library takes for which call.
//!
//! MPICH's tables are decision trees in JSON: keys are conditions, tried in order, and the value of the first that holds is
//! the tree that is next; there is no way back. A leaf names an algorithm. A library has three tables; the one for what
//! goes over a network names `MPIR_` algorithms. With one rank on each node the others pass every blocking operation of a
//! communicator to it as it is. Open MPI's rules are in its code, and here (`open_mpi`). A file may hold anything: it is parsed once, into trees of bounded size. Called by the analysis of
//! traffic.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};

use crate::algorithm::Algorithm;
use belljar_mpi::Operation;

use crate::call::Call;
use crate::library;
use crate::open_mpi;

/// What one key asks.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Condition {
    Any,
    /// Whether it is an intracommunicator. Those of calls always are.
    Intra(bool),
    /// Which hierarchy the communicator has. Those with one rank on each node have none.
    Hierarchy,
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

/// Makes a condition of the bound in its key.
type Bounded = fn(u64) -> Condition;

/// Conditions and what follows from them, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Tree(Vec<(Condition, Tree)>);

/// The decision tables of a library.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tables {
    kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    Mpich(Tree),
    OpenMpi,
}

/// Which MPI library tables are of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Library {
    /// MPICH, with its own tables.
    Mpich,
    /// Open MPI 4.1, whose rules are known here.
    OpenMpi,
}

/// What a table says of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Choice {
    /// This algorithm is taken.
    Known(Algorithm),
    /// One of this name is taken, which is not known here.
    Unknown(String),
    /// Nothing is said of such calls.
    None,
}

/// Why there are no tables.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// The file is no library of a known kind.
    #[error(
        "the library has no decision tables: MPICH has them from version 4.0 on, and of Open MPI version 4.1 is known"
    )]
    Missing,
    /// They are not what they should be.
    #[error("the library's decision table cannot be read: {0}")]
    Unreadable(#[from] serde_json::Error),
}

impl Tables {
    /// The tables in the bytes of a library's file.
    ///
    /// # Errors
    /// When there are none, or they cannot be read.
    pub fn of_library(library: &[u8]) -> Result<Self, TableError> {
        let documents = library::documents(library);
        let names = |document: &&&[u8]| {
            let mut windows = document.windows(15);
            windows.any(|window| window == b"algorithm=MPIR_")
        };
        if let Some(document) = documents.iter().find(names) {
            return Self::parse(document);
        }
        if open_mpi::is_library(library) {
            return Ok(Self::open_mpi());
        }
        Err(TableError::Missing)
    }

    /// The table in a JSON document.
    ///
    /// # Errors
    /// When it is no JSON, or has keys that are not known.
    pub fn parse(document: &[u8]) -> Result<Self, TableError> {
        let tree = serde_json::from_slice(document)?;
        Ok(Self {
            kind: Kind::Mpich(tree),
        })
    }

    /// What Open MPI 4.1 goes by.
    pub fn open_mpi() -> Self {
        Self {
            kind: Kind::OpenMpi,
        }
    }

    /// Which library they are of.
    pub fn library(&self) -> Library {
        match self.kind {
            Kind::Mpich(_) => Library::Mpich,
            Kind::OpenMpi => Library::OpenMpi,
        }
    }

    /// What the library takes for a call on an intracommunicator with one rank on each node.
    pub fn choose(&self, call: &Call) -> Choice {
        let mut tree = match &self.kind {
            Kind::Mpich(tree) => tree,
            Kind::OpenMpi => {
                let algorithm = open_mpi::choose(call);
                return algorithm.map_or(Choice::None, Choice::Known);
            }
        };
        // A communicator's trees are cut back when it is made, as far as nothing but the communicator is asked. There
        // "less" is what it says; later, MPICH 4.0 compares numbers of members by "no more".
        let mut made = true;
        loop {
            let mut branches = tree.0.iter();
            let holds = |(condition, _): &&(Condition, Tree)| {
                made &= condition.is_of_communicator();
                condition.holds(call, made)
            };
            match branches.find(holds) {
                None => return Choice::None,
                Some((Condition::Take(name), _)) => {
                    return match Algorithm::named(name) {
                        Some(algorithm) => Choice::Known(algorithm),
                        None => Choice::Unknown(name.clone()),
                    };
                }
                Some((_, next)) => tree = next,
            }
        }
    }
}

impl Condition {
    /// Whether nothing but the communicator and the operation is asked.
    fn is_of_communicator(&self) -> bool {
        matches!(
            self,
            Self::Any
                | Self::Intra(_)
                | Self::Hierarchy
                | Self::Collective(_)
                | Self::MembersBelow(_)
                | Self::MembersUpTo(_)
                | Self::MembersPowerOfTwo
                | Self::NodesConsecutive(_)
                | Self::MembersPerNodeUpTo(_)
        )
    }

    fn holds(&self, call: &Call, made: bool) -> bool {
        let members = u64::from(call.members);
        match self {
            Self::Any | Self::Take(_) => true,
            Self::Intra(intra) => *intra,
            Self::Hierarchy => false,
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
            Self::NodesConsecutive(are) => !are,
            Self::MembersPerNodeUpTo(bound) => *bound >= 1,
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
            ("comm_size", "node_comm_size", _) => Self::Hierarchy,
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

/// All bytes, as the tables mean it: of the nonblocking reduce-scatter with equal blocks MPICH 4.0 takes elements for bytes.
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
