//! Operations of communicators whose members share nodes.
//!
//! MPICH executes some operations on each node and among nodes, one after the other. A [`NodeComposition`], named by the library's tables, is a sequence of [`Stage`]s,
//! each an algorithm on a part of the communicator. Members of a stage are the ranks of a node, the first rank of each node, or two ranks that pass the result. The
//! library's table for networks chooses all algorithms, including those on a node: the third table names operations in shared memory, which runs of MPICH 4.0.2 do not
//! use. Sources: `ch4_coll_impl.h`, `bcast_intra_smp.c` and `reduce_intra_smp.c` of MPICH 4.0, and messages of its runs. Used by `tables`.

use belljar_mpi::Operation;
use serde::{Deserialize, Serialize};

use crate::algorithm::Algorithm;
use crate::call::Call;

/// An operation on nodes and among nodes, by MPICH's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum NodeComposition {
    /// A barrier on each node, one among first ranks, and a release on each node.
    Barrier,
    /// To the first rank of the root's node, among first ranks, then on each node.
    BroadcastFirstRank,
    /// On the root's node, among first ranks, then on all other nodes.
    BroadcastRootNode,
    /// A reduction on each node, an operation among first ranks, and a broadcast on each node.
    Allreduce,
    /// A reduction on each node, one among first ranks to rank 0, and the result to the root.
    ReduceFirstRank,
    /// A reduction on all nodes except the root's, one among first ranks, then one on the root's node.
    ReduceRootNode,
}

/// Names in MPICH's tables, in lower case and without the `I` of nonblocking forms.
const NAMES: [(&str, NodeComposition); 10] = [
    (
        "mpidi_barrier_intra_composition_alpha",
        NodeComposition::Barrier,
    ),
    (
        "mpidi_bcast_intra_composition_alpha",
        NodeComposition::BroadcastFirstRank,
    ),
    (
        "mpidi_bcast_intra_composition_beta",
        NodeComposition::BroadcastRootNode,
    ),
    (
        "mpidi_allreduce_intra_composition_alpha",
        NodeComposition::Allreduce,
    ),
    (
        "mpidi_reduce_intra_composition_alpha",
        NodeComposition::ReduceFirstRank,
    ),
    (
        "mpidi_reduce_intra_composition_beta",
        NodeComposition::ReduceRootNode,
    ),
    ("mpir_barrier_intra_smp", NodeComposition::Barrier),
    ("mpir_bcast_intra_smp", NodeComposition::BroadcastFirstRank),
    ("mpir_allreduce_intra_smp", NodeComposition::Allreduce),
    ("mpir_reduce_intra_smp", NodeComposition::ReduceRootNode),
];

impl NodeComposition {
    /// Returns the composition with this name in MPICH's tables; `None` for an unknown one, or one that leaves the whole communicator to an algorithm.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let name = name.to_ascii_lowercase().replace("_sched_", "_");
        let name = name.replace("mpir_i", "mpir_");
        let found = NAMES.iter().find(|(own, _)| *own == name);
        found.map(|(_, composition)| *composition)
    }

    /// Returns the stages of a member's call; `choose` returns the algorithm of a stage. `None` if an algorithm is unknown.
    pub(crate) fn stages(
        self,
        call: &Call,
        nodes: &Nodes,
        choose: impl Fn(&Call) -> Option<Algorithm>,
    ) -> Option<Vec<Stage>> {
        let member = MemberCall { call, nodes };
        let (broadcast, reduction) = (Operation::Broadcast, Operation::Reduce);
        let on_root_node = nodes.of[call.root as usize] == nodes.of[call.rank as usize];
        let first = nodes.first_rank(call.root);
        let local_root = nodes.local_rank(call.root);
        let stages = match self {
            Self::Barrier => [
                member.on_node(Operation::Barrier, 0),
                member.among(Operation::Barrier),
                member
                    .on_node(broadcast, 0)
                    .map(UnresolvedStage::with_a_byte),
            ],
            Self::BroadcastFirstRank => [
                member.passed([call.root, first]),
                member.among(broadcast),
                member.on_node(broadcast, 0),
            ],
            Self::BroadcastRootNode => [
                member
                    .on_node(broadcast, local_root)
                    .filter(|_| on_root_node),
                member.among(broadcast),
                member.on_node(broadcast, 0).filter(|_| !on_root_node),
            ],
            Self::Allreduce => [
                member.on_node(reduction, 0),
                member.among(Operation::Allreduce),
                member.on_node(broadcast, 0),
            ],
            Self::ReduceFirstRank => [
                member.on_node(reduction, 0),
                member.among_to(reduction, 0),
                member.passed([0, call.root]),
            ],
            Self::ReduceRootNode => [
                member.on_node(reduction, 0).filter(|_| !on_root_node),
                member.among(reduction),
                member
                    .on_node(reduction, local_root)
                    .filter(|_| on_root_node),
            ],
        };
        let stages = stages.into_iter().flatten();
        stages.map(|part| part.stage(&choose)).collect()
    }
}

/// The nodes of a communicator's members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nodes {
    /// The node of each rank.
    of: Vec<u32>,
    /// The lowest rank of each node, ascending.
    first: Vec<u32>,
}

impl Nodes {
    /// Creates them from each member's node, in the order of ranks.
    pub fn new(of: Vec<u32>) -> Self {
        let mut seen = std::collections::BTreeSet::new();
        let ranks = (0..).zip(&of);
        let first = ranks.filter(|(_, node)| seen.insert(**node));
        Self {
            first: first.map(|(rank, _)| rank).collect(),
            of,
        }
    }

    /// True if no two members share a node.
    pub fn are_separate(&self) -> bool {
        self.first.len() == self.of.len()
    }

    /// True if all members are on one node.
    pub(crate) fn are_one(&self) -> bool {
        self.first.len() == 1
    }

    /// True if members share a node: MPICH then divides the communicator by nodes.
    pub(crate) fn divide(&self) -> bool {
        !self.are_separate()
    }

    /// True if the ranks of each node are consecutive.
    pub(crate) fn are_consecutive(&self) -> bool {
        let changes = self.of.windows(2).filter(|pair| pair[0] != pair[1]);
        changes.count() + 1 == self.first.len()
    }

    /// Returns the mean number of members of a node, rounded up.
    pub(crate) fn members_per_node(&self) -> u64 {
        self.of.len().div_ceil(self.first.len().max(1)) as u64
    }

    /// Returns the number of members.
    pub(crate) fn members(&self) -> usize {
        self.of.len()
    }

    /// Returns the ranks on the node of a rank, ascending.
    fn beside(&self, rank: u32) -> Vec<u32> {
        let node = self.of[rank as usize];
        let ranks = (0..).zip(&self.of);
        ranks
            .filter(|(_, own)| **own == node)
            .map(|(rank, _)| rank)
            .collect()
    }

    /// Returns the first rank of a rank's node.
    fn first_rank(&self, rank: u32) -> u32 {
        let node = self.of[rank as usize];
        let found = self.of.iter().position(|own| *own == node);
        found.unwrap_or(0) as u32
    }

    /// Returns the position of a rank among those of its node.
    fn local_rank(&self, rank: u32) -> u32 {
        let node = self.of[rank as usize];
        let before = self.of[..rank as usize].iter();
        before.filter(|own| **own == node).count() as u32
    }
}

/// An algorithm on a part of a communicator.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Stage {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// The member's call of it, in which ranks are indices into `ranks`.
    pub call: Call,
    /// Ranks in the whole communicator.
    pub ranks: Vec<u32>,
}

impl Stage {
    /// True if its ranks and its call are valid for a communicator of this many members.
    pub fn is_sound(&self, members: u32) -> bool {
        self.call.is_sound()
            && self.call.members as usize == self.ranks.len()
            && self.ranks.iter().all(|rank| *rank < members)
    }
}

/// A stage whose algorithm is not chosen yet, unless it is fixed.
struct UnresolvedStage {
    algorithm: Option<Algorithm>,
    call: Call,
    ranks: Vec<u32>,
}

impl UnresolvedStage {
    /// Adds a byte of data, for a release of waiting ranks.
    fn with_a_byte(mut self) -> Self {
        (self.call.count, self.call.element) = (1, 1);
        self
    }

    fn stage(self, choose: impl Fn(&Call) -> Option<Algorithm>) -> Option<Stage> {
        Some(Stage {
            algorithm: match self.algorithm {
                Some(algorithm) => algorithm,
                None => choose(&self.call)?,
            },
            call: self.call,
            ranks: self.ranks,
        })
    }
}

/// A member's call, and the nodes of all members.
struct MemberCall<'a> {
    call: &'a Call,
    nodes: &'a Nodes,
}

impl MemberCall<'_> {
    /// Returns an operation of these ranks, if the member is one, and not the only one.
    fn part(&self, operation: Operation, ranks: Vec<u32>, root: u32) -> Option<UnresolvedStage> {
        let own = ranks.iter().position(|rank| *rank == self.call.rank)? as u32;
        (ranks.len() > 1).then(|| UnresolvedStage {
            algorithm: None,
            call: Call {
                operation,
                members: ranks.len() as u32,
                rank: own,
                root,
                ..self.call.clone()
            },
            ranks,
        })
    }

    /// Returns an operation on the member's node.
    fn on_node(&self, operation: Operation, root: u32) -> Option<UnresolvedStage> {
        self.part(operation, self.nodes.beside(self.call.rank), root)
    }

    /// Returns an operation among the first ranks of nodes.
    fn among(&self, operation: Operation) -> Option<UnresolvedStage> {
        self.among_to(operation, self.call.root)
    }

    /// Returns an operation among the first ranks of nodes, with the root's node containing this rank.
    fn among_to(&self, operation: Operation, root: u32) -> Option<UnresolvedStage> {
        let root = self.nodes.first_rank(root);
        let ranks = self.nodes.first.clone();
        let root = ranks.iter().position(|rank| *rank == root).unwrap_or(0);
        self.part(operation, ranks, root as u32)
    }

    /// Returns data passed from one rank to another.
    fn passed(&self, [from, to]: [u32; 2]) -> Option<UnresolvedStage> {
        let part = self.part(Operation::Broadcast, vec![from, to], 0);
        part.filter(|_| from != to).map(|part| UnresolvedStage {
            algorithm: Some(Algorithm::BroadcastBinomial),
            ..part
        })
    }
}

#[cfg(test)]
mod tests;
