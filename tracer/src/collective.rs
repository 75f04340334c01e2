//! What goes into and comes out of a process in a collective operation.
//!
//! Counted are the bytes of a process's own buffers (MPI-4.0, chapter 6), each once:
//! what an algorithm makes of them is not.

use crate::arguments::Arguments;
use crate::event::{Amount, Collective, Phase, Who};
use crate::process::{Communicator, Datatypes};

/// A family of collective operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    Barrier,
    Broadcast,
    Gather,
    GatherV,
    Scatter,
    ScatterV,
    AllGather,
    AllGatherV,
    AllToAll,
    AllToAllV,
    AllToAllW,
    Reduce,
    /// And its prefixes, `Scan` and `Exscan`: everyone gives and gets as much.
    AllReduce,
    ReduceScatter,
    ReduceScatterBlock,
    NeighborAllGather,
    NeighborAllGatherV,
    NeighborAllToAll,
    NeighborAllToAllV,
    NeighborAllToAllW,
}

impl Operation {
    /// The family of a blocking function's name without `MPI_`.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "Barrier" => Self::Barrier,
            "Bcast" => Self::Broadcast,
            "Gather" => Self::Gather,
            "Gatherv" => Self::GatherV,
            "Scatter" => Self::Scatter,
            "Scatterv" => Self::ScatterV,
            "Allgather" => Self::AllGather,
            "Allgatherv" => Self::AllGatherV,
            "Alltoall" => Self::AllToAll,
            "Alltoallv" => Self::AllToAllV,
            "Alltoallw" => Self::AllToAllW,
            "Reduce" => Self::Reduce,
            "Allreduce" | "Scan" | "Exscan" => Self::AllReduce,
            "Reduce_scatter" => Self::ReduceScatter,
            "Reduce_scatter_block" => Self::ReduceScatterBlock,
            "Neighbor_allgather" => Self::NeighborAllGather,
            "Neighbor_allgatherv" => Self::NeighborAllGatherV,
            "Neighbor_alltoall" => Self::NeighborAllToAll,
            "Neighbor_alltoallv" => Self::NeighborAllToAllV,
            "Neighbor_alltoallw" => Self::NeighborAllToAllW,
            _ => return None,
        })
    }
}

/// What is known of the communicator and its datatypes when the call is made.
struct Scene<'a, 'b> {
    arguments: &'a mut Arguments<'b>,
    communicator: Option<&'a Communicator>,
    datatypes: &'a Datatypes,
}

/// Reads what a call of `operation` gives and gets.
pub(crate) fn read(
    operation: Operation,
    phase: Phase,
    arguments: &mut Arguments<'_>,
    communicator: Option<&Communicator>,
    datatypes: &Datatypes,
) -> Collective {
    let root = arguments
        .int("root")
        .map(|root| arguments.implementation.peer(root));
    let mut scene = Scene {
        arguments,
        communicator,
        datatypes,
    };
    let (sent, received) = scene.amounts(operation);
    Collective {
        phase,
        communicator: communicator.map(|communicator| communicator.number),
        root,
        sent,
        received,
    }
}

const NOTHING: Amount = Amount {
    bytes: Some(0),
    each: false,
    who: Who::Everyone,
};

fn amount(bytes: Option<u64>) -> Amount {
    Amount { bytes, ..NOTHING }
}

impl Amount {
    fn each(self) -> Self {
        Self { each: true, ..self }
    }

    fn only(self, who: Who) -> Self {
        Self { who, ..self }
    }
}

impl Scene<'_, '_> {
    fn amounts(&mut self, operation: Operation) -> (Amount, Amount) {
        match operation {
            Operation::Barrier => (NOTHING, NOTHING),
            Operation::Broadcast => {
                let data = self.simple("count", "datatype");
                (data.only(Who::Root), data.only(Who::Others))
            }
            Operation::Gather | Operation::GatherV => self.gather(operation),
            Operation::Scatter | Operation::ScatterV => self.scatter(operation),
            Operation::AllGather | Operation::AllGatherV => self.all_gather(operation),
            Operation::AllToAll | Operation::AllToAllV | Operation::AllToAllW => {
                self.all_to_all(operation)
            }
            Operation::Reduce => {
                let data = self.simple("count", "datatype");
                (data, data.only(Who::Root))
            }
            Operation::AllReduce => {
                let data = self.simple("count", "datatype");
                (data, data)
            }
            Operation::ReduceScatter => {
                let members = self.members();
                let all = self.vector("recvcounts", "datatype", members);
                (all, self.own_entry("recvcounts", "datatype"))
            }
            Operation::ReduceScatterBlock => {
                let block = self.simple("recvcount", "datatype");
                (block.each(), block)
            }
            Operation::NeighborAllGather
            | Operation::NeighborAllGatherV
            | Operation::NeighborAllToAll
            | Operation::NeighborAllToAllV
            | Operation::NeighborAllToAllW => self.neighbors(operation),
        }
    }

    fn gather(&mut self, operation: Operation) -> (Amount, Amount) {
        let sent = if self.in_place("sendbuf") {
            NOTHING
        } else {
            self.simple("sendcount", "sendtype")
        };
        let received = if operation == Operation::Gather {
            self.simple("recvcount", "recvtype").each()
        } else {
            let members = self.members_at_root();
            self.vector("recvcounts", "recvtype", members)
        };
        (sent, received.only(Who::Root))
    }

    fn scatter(&mut self, operation: Operation) -> (Amount, Amount) {
        let sent = if operation == Operation::Scatter {
            self.simple("sendcount", "sendtype").each()
        } else {
            let members = self.members_at_root();
            self.vector("sendcounts", "sendtype", members)
        };
        let received = if self.in_place("recvbuf") {
            NOTHING
        } else {
            self.simple("recvcount", "recvtype")
        };
        (sent.only(Who::Root), received)
    }

    fn all_gather(&mut self, operation: Operation) -> (Amount, Amount) {
        let in_place = self.in_place("sendbuf");
        if operation == Operation::AllGather {
            let block = self.simple("recvcount", "recvtype");
            let sent = if in_place {
                block
            } else {
                self.simple("sendcount", "sendtype")
            };
            return (sent, block.each());
        }
        let sent = if in_place {
            self.own_entry("recvcounts", "recvtype")
        } else {
            self.simple("sendcount", "sendtype")
        };
        let members = self.members();
        (sent, self.vector("recvcounts", "recvtype", members))
    }

    fn all_to_all(&mut self, operation: Operation) -> (Amount, Amount) {
        let members = self.members();
        let received = match operation {
            Operation::AllToAll => self.simple("recvcount", "recvtype").each(),
            Operation::AllToAllV => self.vector("recvcounts", "recvtype", members),
            _ => self.typed_vector("recvcounts", "recvtypes", members),
        };
        if self.in_place("sendbuf") {
            return (received, received);
        }
        let sent = match operation {
            Operation::AllToAll => self.simple("sendcount", "sendtype").each(),
            Operation::AllToAllV => self.vector("sendcounts", "sendtype", members),
            _ => self.typed_vector("sendcounts", "sendtypes", members),
        };
        (sent, received)
    }

    fn neighbors(&mut self, operation: Operation) -> (Amount, Amount) {
        let neighbors = self
            .communicator
            .and_then(|communicator| communicator.neighbors);
        let (sources, destinations) = (
            neighbors.map(|(sources, _)| u64::from(sources)),
            neighbors.map(|(_, destinations)| u64::from(destinations)),
        );
        let times = |block: Amount, count: Option<u64>| {
            let bytes = block.bytes.zip(count);
            amount(bytes.map(|(bytes, count)| bytes.saturating_mul(count)))
        };
        match operation {
            Operation::NeighborAllGather | Operation::NeighborAllToAll => {
                let block = self.simple("sendcount", "sendtype");
                let sent = times(block, destinations);
                let block = self.simple("recvcount", "recvtype");
                (sent, times(block, sources))
            }
            Operation::NeighborAllGatherV => {
                let block = self.simple("sendcount", "sendtype");
                let received = self.vector("recvcounts", "recvtype", sources);
                (times(block, destinations), received)
            }
            Operation::NeighborAllToAllV => {
                let sent = self.vector("sendcounts", "sendtype", destinations);
                (sent, self.vector("recvcounts", "recvtype", sources))
            }
            _ => {
                let sent = self.typed_vector("sendcounts", "sendtypes", destinations);
                (sent, self.typed_vector("recvcounts", "recvtypes", sources))
            }
        }
    }

    fn in_place(&self, buffer: &str) -> bool {
        let word = self.arguments.word(buffer);
        word.is_some_and(|word| self.arguments.implementation.in_place(word))
    }

    /// With how many processes data is exchanged; `None` when it is not known.
    fn members(&self) -> Option<u64> {
        self.communicator?.partners().map(u64::from)
    }

    /// [`members`](Self::members) where this process is known to be the root: elsewhere
    /// the arrays mean nothing and may not exist.
    fn members_at_root(&self) -> Option<u64> {
        let root = self.arguments.int("root")?;
        let root = self.arguments.implementation.peer(root);
        self.communicator?
            .is_me(root)
            .then(|| self.members())
            .flatten()
    }

    fn size(&self, datatype: &str) -> Option<u64> {
        let handle = self.arguments.word(datatype)?;
        self.datatypes.size(handle)
    }

    fn simple(&self, count: &str, datatype: &str) -> Amount {
        let parts = self.arguments.count(count).zip(self.size(datatype));
        amount(parts.map(|(count, size)| count.saturating_mul(size)))
    }

    fn vector(&mut self, counts: &str, datatype: &str, members: Option<u64>) -> Amount {
        let size = self.size(datatype);
        let counts = self.counts(counts, members);
        let bytes = counts.zip(size).map(|(counts, size)| {
            let total = counts.into_iter().fold(0u64, u64::saturating_add);
            total.saturating_mul(size)
        });
        amount(bytes)
    }

    fn typed_vector(&mut self, counts: &str, types: &str, members: Option<u64>) -> Amount {
        let counts = self.counts(counts, members);
        let types = members.and_then(|members| self.arguments.handles(types, members));
        let bytes = counts.zip(types).and_then(|(counts, types)| {
            counts
                .into_iter()
                .zip(types)
                .try_fold(0u64, |sum, (count, handle)| {
                    // The type of an empty piece means nothing.
                    let size = if count == 0 {
                        0
                    } else {
                        self.datatypes.size(handle)?
                    };
                    Some(sum.saturating_add(count.saturating_mul(size)))
                })
        });
        amount(bytes)
    }

    /// This process's own entry of an array.
    fn own_entry(&mut self, counts: &str, datatype: &str) -> Amount {
        let size = self.size(datatype);
        let rank = self.communicator.and_then(|communicator| communicator.rank);
        let members = self.members();
        let count = self.counts(counts, members).and_then(|counts| {
            let rank = usize::try_from(rank?).ok()?;
            counts.get(rank).copied()
        });
        amount(
            count
                .zip(size)
                .map(|(count, size)| count.saturating_mul(size)),
        )
    }

    fn counts(&mut self, name: &str, members: Option<u64>) -> Option<Vec<u64>> {
        let members = members?;
        let counts = self.arguments.integers(name, members)?;
        if (counts.len() as u64) < members {
            return None;
        }
        Some(
            counts
                .into_iter()
                .map(|count| u64::try_from(count).unwrap_or(0))
                .collect(),
        )
    }
}
