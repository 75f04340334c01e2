//! Numbers of OTF2's records, from the format's specification (OTF2 3.0, `OTF2_Events.h` and `OTF2_Definitions.h`).
//!
//! Each number is defined once, for the reader and the writer.

use belljar_collectives::Operation;

/// Kinds of event records.
pub(crate) mod event {
    pub(crate) const TIME: u8 = 0x05;
    pub(crate) const ATTRIBUTES: u8 = 0x06;
    pub(crate) const ENTER: u8 = 0x0c;
    pub(crate) const LEAVE: u8 = 0x0d;
    pub(crate) const SEND: u8 = 0x0e;
    pub(crate) const ISEND: u8 = 0x0f;
    pub(crate) const ISEND_COMPLETE: u8 = 0x10;
    pub(crate) const IRECV_REQUEST: u8 = 0x11;
    pub(crate) const RECV: u8 = 0x12;
    pub(crate) const IRECV: u8 = 0x13;
    pub(crate) const REQUEST_TEST: u8 = 0x14;
    pub(crate) const REQUEST_CANCELLED: u8 = 0x15;
    pub(crate) const COLLECTIVE_BEGIN: u8 = 0x16;
    pub(crate) const COLLECTIVE_END: u8 = 0x17;
    /// A kind of OpenMP, without a length.
    pub(crate) const OMP_FORK: u8 = 0x18;
    pub(crate) const OMP_TASKS: [u8; 3] = [0x1c, 0x1d, 0x1e];
    pub(crate) const WINDOW_CREATE: u8 = 0x23;
    pub(crate) const WINDOW_DESTROY: u8 = 0x24;
    pub(crate) const PUT: u8 = 0x2e;
    pub(crate) const GET: u8 = 0x2f;
    pub(crate) const ATOMIC: u8 = 0x30;
    pub(crate) const CONTEXT_ENTER: u8 = 0x42;
    pub(crate) const CONTEXT_LEAVE: u8 = 0x43;
    pub(crate) const COLLECTIVE_REQUEST: u8 = 0x55;
    pub(crate) const COLLECTIVE_COMPLETE: u8 = 0x56;
    /// The last kind of the format's version 3.
    pub(crate) const LAST: u8 = 0x5c;
    /// Matched probes and matched receives, which are not read.
    pub(crate) const MATCHED: std::ops::RangeInclusive<u8> = 0x59..=0x5c;
}

/// Kinds of global definitions.
pub(crate) mod definition {
    pub(crate) const CLOCK: u8 = 0x05;
    pub(crate) const STRING: u8 = 0x0a;
    pub(crate) const ATTRIBUTE: u8 = 0x0b;
    pub(crate) const SYSTEM_TREE_NODE: u8 = 0x0c;
    pub(crate) const LOCATION_GROUP: u8 = 0x0d;
    pub(crate) const LOCATION: u8 = 0x0e;
    pub(crate) const REGION: u8 = 0x0f;
    pub(crate) const GROUP: u8 = 0x12;
    pub(crate) const COMM: u8 = 0x16;
    pub(crate) const RMA_WIN: u8 = 0x18;
    pub(crate) const CALLING_CONTEXT: u8 = 0x22;
    pub(crate) const INTER_COMM: u8 = 0x2b;
}

/// Storage of an archive: files in a folder.
pub(crate) const POSIX: u8 = 1;
/// Compression of an archive: none.
pub(crate) const NOT_COMPRESSED: u8 = 1;

/// The type of attributes that are calling contexts.
pub(crate) const CALLING_CONTEXT_TYPE: u8 = 21;

/// Returns the format's number of an operation.
pub(crate) fn collective_code(operation: Operation) -> u8 {
    match operation {
        Operation::Barrier => 0,
        Operation::Broadcast => 1,
        Operation::Gather => 2,
        Operation::Gatherv => 3,
        Operation::Scatter => 4,
        Operation::Scatterv => 5,
        Operation::Allgather => 6,
        Operation::Allgatherv => 7,
        Operation::Alltoall => 8,
        Operation::Alltoallv => 9,
        Operation::Alltoallw => 10,
        Operation::Allreduce => 11,
        Operation::Reduce => 12,
        Operation::ReduceScatter => 13,
        Operation::Scan => 14,
        Operation::Exscan => 15,
        Operation::ReduceScatterBlock => 16,
        // The format has no operations among neighbours, and the source leaves them out.
        Operation::NeighborAllgather
        | Operation::NeighborAllgatherv
        | Operation::NeighborAlltoall
        | Operation::NeighborAlltoallv
        | Operation::NeighborAlltoallw => u8::MAX,
    }
}
