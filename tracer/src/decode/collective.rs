//! Amounts that a process sends and receives in a collective operation.
//!
//! They are the bytes of a process's own buffers (MPI-4.0, chapter 6), each counted once, and not the messages of an
//! algorithm.

/// Collective operations with a count for each member or neighbour.
mod vectors;

use belljar_trace::{Amount, CallDatatypes, Collective, Datatype, Details, Phase, Share, Who};

use crate::decode::arguments::Arguments;
use crate::objects::communicators::Communicator;
use crate::objects::datatypes::Datatypes;
use belljar_mpi::Operation;
use vectors::times;

/// The known properties of the communicator and its datatypes at the call.
struct Scene<'a, 'b> {
    arguments: &'a mut Arguments<'b>,
    communicator: Option<&'a Communicator>,
    datatypes: &'a Datatypes,
    /// Most members that a communicator of unknown size can have.
    most: u32,
}

/// Reads the amounts and displacements of a call of `operation`; `most` is the largest possible size of a communicator of
/// unknown size.
pub(crate) fn read(
    operation: Operation,
    phase: Phase,
    arguments: &mut Arguments<'_>,
    communicator: Option<&Communicator>,
    most: u32,
    datatypes: &Datatypes,
) -> (Collective, Details) {
    let root = arguments
        .int("root")
        .map(|root| arguments.implementation.peer(root));
    let mut scene = Scene {
        arguments,
        communicator,
        datatypes,
        most,
    };
    let (sent, received) = scene.amounts(operation);
    let mut details = scene.displacements(&sent, &received);
    details.datatypes = scene.datatypes(&sent, &received);
    let collective = Collective {
        operation: Some(operation),
        phase,
        communicator: communicator.map(|communicator| communicator.number),
        root,
        sent,
        received,
    };
    (collective, details)
}

impl Scene<'_, '_> {
    fn amounts(&mut self, operation: Operation) -> (Amount, Amount) {
        match operation {
            Operation::Barrier => (Amount::NOTHING, Amount::NOTHING),
            Operation::Broadcast => {
                let data = self.simple("count", "datatype");
                (data.clone().only(Who::Root), data.only(Who::Others))
            }
            Operation::Gather | Operation::Gatherv => self.gather(operation),
            Operation::Scatter | Operation::Scatterv => self.scatter(operation),
            Operation::Allgather | Operation::Allgatherv => self.all_gather(operation),
            Operation::Alltoall | Operation::Alltoallv | Operation::Alltoallw => {
                self.all_to_all(operation)
            }
            Operation::Reduce => {
                let data = self.simple("count", "datatype");
                (data.clone(), data.only(Who::Root))
            }
            Operation::Allreduce | Operation::Scan | Operation::Exscan => {
                let data = self.simple("count", "datatype");
                (data.clone(), data)
            }
            Operation::ReduceScatter => {
                let group = self.group();
                let all = self.vector("recvcounts", "datatype", group, Share::Group);
                (all, self.own_entry("recvcounts", "datatype"))
            }
            Operation::ReduceScatterBlock => {
                let block = self.simple("recvcount", "datatype");
                (block.clone().each(Share::Group), block)
            }
            Operation::NeighborAllgather
            | Operation::NeighborAllgatherv
            | Operation::NeighborAlltoall
            | Operation::NeighborAlltoallv
            | Operation::NeighborAlltoallw => self.neighbors(operation),
        }
    }

    fn gather(&mut self, operation: Operation) -> (Amount, Amount) {
        let sent = if self.in_place("sendbuf") {
            Amount::NOTHING
        } else {
            self.simple("sendcount", "sendtype")
        };
        let received = if operation == Operation::Gather {
            self.simple("recvcount", "recvtype").each(Share::Members)
        } else {
            let members = self.members_at_root();
            self.vector("recvcounts", "recvtype", members, Share::Members)
        };
        (sent, received.only(Who::Root))
    }

    fn scatter(&mut self, operation: Operation) -> (Amount, Amount) {
        let sent = if operation == Operation::Scatter {
            self.simple("sendcount", "sendtype").each(Share::Members)
        } else {
            let members = self.members_at_root();
            self.vector("sendcounts", "sendtype", members, Share::Members)
        };
        let received = if self.in_place("recvbuf") {
            Amount::NOTHING
        } else {
            self.simple("recvcount", "recvtype")
        };
        (sent.only(Who::Root), received)
    }

    fn all_gather(&mut self, operation: Operation) -> (Amount, Amount) {
        let in_place = self.in_place("sendbuf");
        if operation == Operation::Allgather {
            let block = self.simple("recvcount", "recvtype");
            let sent = if in_place {
                block.clone()
            } else {
                self.simple("sendcount", "sendtype")
            };
            return (sent, block.each(Share::Members));
        }
        let sent = if in_place {
            self.own_entry("recvcounts", "recvtype")
        } else {
            self.simple("sendcount", "sendtype")
        };
        let members = self.members();
        (
            sent,
            self.vector("recvcounts", "recvtype", members, Share::Members),
        )
    }

    fn all_to_all(&mut self, operation: Operation) -> (Amount, Amount) {
        let members = self.members();
        let received = match operation {
            Operation::Alltoall => self.simple("recvcount", "recvtype").each(Share::Members),
            Operation::Alltoallv => self.vector("recvcounts", "recvtype", members, Share::Members),
            _ => self.typed_vector("recvcounts", "recvtypes", members, Share::Members),
        };
        if self.in_place("sendbuf") {
            return (received.clone(), received);
        }
        let sent = match operation {
            Operation::Alltoall => self.simple("sendcount", "sendtype").each(Share::Members),
            Operation::Alltoallv => self.vector("sendcounts", "sendtype", members, Share::Members),
            _ => self.typed_vector("sendcounts", "sendtypes", members, Share::Members),
        };
        (sent, received)
    }

    fn neighbors(&mut self, operation: Operation) -> (Amount, Amount) {
        use Share::{Destinations, Sources};
        let (sources, destinations) = self.degrees();
        match operation {
            Operation::NeighborAllgather | Operation::NeighborAlltoall => {
                let sent = self.simple("sendcount", "sendtype");
                let received = self.simple("recvcount", "recvtype");
                (
                    times(sent, destinations, Destinations),
                    times(received, sources, Sources),
                )
            }
            Operation::NeighborAllgatherv => {
                let sent = self.simple("sendcount", "sendtype");
                let received = self.vector("recvcounts", "recvtype", sources, Sources);
                (times(sent, destinations, Destinations), received)
            }
            Operation::NeighborAlltoallv => {
                let sent = self.vector("sendcounts", "sendtype", destinations, Destinations);
                let received = self.vector("recvcounts", "recvtype", sources, Sources);
                (sent, received)
            }
            _ => {
                let sent = self.typed_vector("sendcounts", "sendtypes", destinations, Destinations);
                let received = self.typed_vector("recvcounts", "recvtypes", sources, Sources);
                (sent, received)
            }
        }
    }

    /// Returns the datatypes of the call's data; `None` if it has none.
    fn datatypes(&mut self, sent: &Amount, received: &Amount) -> Option<Box<CallDatatypes>> {
        let sent = match self.in_place("sendbuf") {
            true => Vec::new(),
            false => self.side_datatypes("sendtypes", "sendtype", sent),
        };
        let received = match self.in_place("recvbuf") {
            true => Vec::new(),
            false => self.side_datatypes("recvtypes", "recvtype", received),
        };
        let is_known = !sent.is_empty() || !received.is_empty();
        is_known.then(|| {
            Box::new(CallDatatypes {
                made: None,
                sent,
                received,
            })
        })
    }

    /// The datatypes of one side: those of the array `each`, for pieces with data, or that of the argument `one`.
    fn side_datatypes(&mut self, each: &str, one: &str, amount: &Amount) -> Vec<Datatype> {
        if self.arguments.has(each) {
            let count = amount.pieces.len() as u64;
            let handles = self.arguments.handles_there(each, count, false);
            let pieces = amount.pieces.iter().zip(handles);
            let datatypes = pieces.map(|(bytes, handle)| match bytes {
                0 => Datatype::Unknown,
                _ => self.datatypes.get(handle),
            });
            return datatypes.collect();
        }
        let own = self.arguments.word(one);
        let handle = own.or_else(|| self.arguments.word("datatype"));
        handle
            .map(|handle| self.datatypes.get(handle))
            .into_iter()
            .collect()
    }

    fn in_place(&self, buffer: &str) -> bool {
        let word = self.arguments.word(buffer);
        word.is_some_and(|word| self.arguments.implementation.in_place(word))
    }

    fn size(&self, datatype: &str) -> Option<u64> {
        let handle = self.arguments.word(datatype)?;
        self.datatypes.size(handle)
    }

    fn simple(&self, count: &str, datatype: &str) -> Amount {
        let parts = self.arguments.count(count).zip(self.size(datatype));
        Amount::whole(parts.map(|(count, size)| count.saturating_mul(size)))
    }
}
