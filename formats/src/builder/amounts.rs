//! Amounts that members send and receive in collective operations, from the figures of the formats.
//!
//! Archives contain the total bytes sent and received by a process. Score-P counts each member that data goes to or comes from, even if the library sends it only
//! once; Belljar's own archives have the contents of the buffers. For operations with pieces of several lengths, only the sum is known: all pieces are assumed to be
//! equal. Used by the readers.

use belljar_mpi::Operation;
use belljar_trace::{Amount, Event, Share, Who};

/// Marks equal pieces, before their number.
const EQUAL: u64 = u64::MAX;
/// Most pieces that are expanded; with more, they are unknown.
const MOST_PIECES: u64 = 1 << 14;

/// The way in which an archive's writer counts bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counting {
    /// The contents of the buffers, like Belljar.
    Buffers,
    /// The bytes to and from each member, like Score-P.
    Members,
}

/// A process's amounts of data in a collective operation, as recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CollectiveAmounts {
    pub(crate) operation: Operation,
    /// Bytes sent and received.
    pub(crate) sent: u64,
    pub(crate) received: u64,
    /// Members of the communicator, and the process's rank among them.
    pub(crate) members: u32,
    pub(crate) rank: u32,
}

/// Operations in the order of OTF2's numbers.
const NUMBERED: [Operation; 17] = [
    Operation::Barrier,
    Operation::Broadcast,
    Operation::Gather,
    Operation::Gatherv,
    Operation::Scatter,
    Operation::Scatterv,
    Operation::Allgather,
    Operation::Allgatherv,
    Operation::Alltoall,
    Operation::Alltoallv,
    Operation::Alltoallw,
    Operation::Allreduce,
    Operation::Reduce,
    Operation::ReduceScatter,
    Operation::Scan,
    Operation::Exscan,
    Operation::ReduceScatterBlock,
];

/// Returns the operation with this number in OTF2. `None` for operations that create objects, and for numbers of later formats.
pub(crate) fn numbered(number: u8) -> Option<Operation> {
    NUMBERED.get(usize::from(number)).copied()
}

/// True if members may have pieces of several lengths, while a trace has only their sum.
pub(crate) fn has_pieces(operation: Operation) -> bool {
    matches!(
        operation,
        Operation::Gatherv
            | Operation::Scatterv
            | Operation::Allgatherv
            | Operation::Alltoallv
            | Operation::Alltoallw
            | Operation::ReduceScatter
    )
}

impl CollectiveAmounts {
    /// Returns the contents of the buffers, for a call.
    pub(crate) fn amounts(self, counting: Counting) -> (Amount, Amount) {
        let whole = |bytes| Amount::whole(Some(bytes));
        let (sent, received) = (self.sent, self.received);
        match self.operation {
            Operation::Barrier => (Amount::NOTHING, Amount::NOTHING),
            Operation::Broadcast => {
                let data = whole(self.broadcast());
                (data.clone().only(Who::Root), data.only(Who::Others))
            }
            Operation::Gather => (whole(sent), self.each(received).only(Who::Root)),
            Operation::Gatherv => (whole(sent), self.pieces(received).only(Who::Root)),
            Operation::Scatter => (self.each(sent).only(Who::Root), whole(received)),
            Operation::Scatterv => (self.pieces(sent).only(Who::Root), whole(received)),
            Operation::Allgather => (whole(self.share(received)), self.each(received)),
            Operation::Allgatherv => {
                let own = match counting {
                    Counting::Buffers => sent,
                    Counting::Members => self.share(sent),
                };
                (whole(own), self.pieces(received))
            }
            Operation::Alltoall => (self.each(sent), self.each(received)),
            Operation::Alltoallv | Operation::Alltoallw => {
                (self.pieces(sent), self.pieces(received))
            }
            Operation::Reduce => {
                let data = whole(match sent {
                    // In place: the root counts the data of all others.
                    0 if counting == Counting::Members => self.of_others(received),
                    _ => sent,
                });
                (data.clone(), data.only(Who::Root))
            }
            Operation::Allreduce => self.both(match counting {
                Counting::Buffers => sent,
                Counting::Members => self.share(received),
            }),
            Operation::Scan | Operation::Exscan => self.both(self.prefix(counting)),
            Operation::ReduceScatter => {
                let own = match counting {
                    Counting::Buffers => received,
                    Counting::Members => self.share(received),
                };
                (self.pieces(sent), whole(own))
            }
            Operation::ReduceScatterBlock => {
                let block = whole(match counting {
                    Counting::Buffers => received,
                    Counting::Members => self.share(received),
                });
                (block.clone().each(Share::Group), block)
            }
            // No supported format contains them.
            Operation::NeighborAllgather
            | Operation::NeighborAllgatherv
            | Operation::NeighborAlltoall
            | Operation::NeighborAlltoallv
            | Operation::NeighborAlltoallw => (Amount::NOTHING, Amount::NOTHING),
        }
    }

    fn both(self, bytes: u64) -> (Amount, Amount) {
        let data = Amount::whole(Some(bytes));
        (data.clone(), data)
    }

    /// Returns the bytes of a broadcast: the root counts those sent to all, every other member those received.
    fn broadcast(self) -> u64 {
        match self.received {
            0 => self.sent,
            received => received,
        }
    }

    /// Returns one of as many parts as there are members; in place, a process only counts the others.
    fn share(self, bytes: u64) -> u64 {
        let members = u64::from(self.members.max(1));
        match bytes.checked_rem(members - 1) {
            Some(0) if !bytes.is_multiple_of(members) => bytes / (members - 1),
            _ => bytes / members,
        }
    }

    /// Returns the data of each other member, if these are counted.
    fn of_others(self, bytes: u64) -> u64 {
        let others = u64::from(self.members).saturating_sub(1);
        bytes.checked_div(others).unwrap_or(0)
    }

    fn each(self, bytes: u64) -> Amount {
        Amount::whole(Some(self.share(bytes))).each(Share::Members)
    }

    /// Returns equal pieces, by their number until they are [expanded](write_out).
    fn pieces(self, bytes: u64) -> Amount {
        Amount {
            bytes: Some(bytes),
            pieces: vec![EQUAL, EQUAL, u64::from(self.members.max(1))],
            share: Share::Whole,
            who: Who::Everyone,
        }
    }

    /// Data goes to members of higher ranks and comes from lower ones.
    fn prefix(self, counting: Counting) -> u64 {
        if counting == Counting::Buffers {
            return self.sent;
        }
        let (members, rank) = (u64::from(self.members.max(1)), u64::from(self.rank));
        let both = self.sent.saturating_add(self.received);
        let inclusive = self.operation == Operation::Scan
            && self.sent.checked_mul(rank + 1)
                == self.received.checked_mul(members.saturating_sub(rank));
        match inclusive {
            true => both / (members + 1),
            false => both.checked_div(members - 1).unwrap_or(both),
        }
    }
}

/// Expands equal pieces of the call's collective operations; the first ones are longer by the remainder. There is a piece for each member, which would take too much
/// space in waiting calls.
pub(crate) fn write_out(event: &mut Event) {
    let parts = event.collectives.iter_mut();
    for amount in parts.flat_map(|it| [&mut it.sent, &mut it.received]) {
        let (Some(bytes), &[EQUAL, EQUAL, members]) = (amount.bytes, amount.pieces.as_slice())
        else {
            continue;
        };
        let (piece, longer) = (bytes / members.max(1), bytes % members.max(1));
        amount.pieces = match members <= MOST_PIECES {
            true => (0..members)
                .map(|member| piece + u64::from(member < longer))
                .collect(),
            false => Vec::new(),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(operation: Operation, sent: u64, received: u64, rank: u32) -> [Option<u64>; 2] {
        let part = CollectiveAmounts {
            operation,
            sent,
            received,
            members: 4,
            rank,
        };
        let (sent, received) = part.amounts(Counting::Members);
        [sent.bytes, received.bytes]
    }

    #[test]
    fn what_score_p_counts_becomes_what_is_in_the_buffers() {
        use Operation::*;
        let all = [
            (Broadcast, (400, 100), 0, [100, 100]),
            (Broadcast, (0, 100), 2, [100, 100]),
            (Allreduce, (32, 32), 1, [8, 8]),
            // In place.
            (Allreduce, (30, 30), 1, [10, 10]),
            (Reduce, (8, 0), 1, [8, 8]),
            (Reduce, (0, 24), 0, [8, 8]),
            (Allgather, (40, 40), 1, [10, 10]),
            (Allgatherv, (40, 100), 1, [10, 100]),
            (Alltoall, (40, 80), 1, [10, 20]),
            (Scan, (24, 16), 1, [8, 8]),
            (Scan, (16, 8), 1, [8, 8]),
            (Exscan, (16, 8), 1, [8, 8]),
            (ReduceScatter, (100, 40), 1, [100, 10]),
            (ReduceScatterBlock, (40, 40), 1, [10, 10]),
        ];
        for (operation, told, rank, expected) in all {
            let expected = expected.map(Some);
            assert_eq!(
                bytes(operation, told.0, told.1, rank),
                expected,
                "{operation:?}"
            );
        }
    }

    #[test]
    fn pieces_are_equal_and_add_up() {
        let part = CollectiveAmounts {
            operation: Operation::Alltoallv,
            sent: 10,
            received: 3,
            members: 4,
            rank: 0,
        };
        let (sent, received) = part.amounts(Counting::Buffers);
        let place = crate::builder::layout::place(0, 1);
        let mut event = crate::builder::calls::blank(place, 0, 0, None);
        let part = belljar_trace::Collective {
            operation: None,
            phase: belljar_trace::Phase::Done,
            communicator: None,
            root: None,
            sent,
            received,
        };
        crate::builder::calls::take_part(&mut event, part);
        write_out(&mut event);
        let part = &event.collectives[0];
        assert_eq!(part.sent.pieces, [3, 3, 2, 2]);
        assert_eq!(part.received.pieces, [1, 1, 1, 0]);
        assert_eq!(part.received.bytes, Some(3));
    }
}
