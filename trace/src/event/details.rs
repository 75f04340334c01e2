//! What a call tells besides that replay needs: displacements in buffers, windows, groups of epochs, partitioned requests, bounds of datatypes.
//!
//! Most calls have nothing of it. It is no part of an event's encoding, so records of earlier versions of the trace stay as they
//! are; the trace has it with a call's signature. Made by tracers, used by whoever writes, reads or lists events.

use bincode::{Decode, Encode};
use serde::Serialize;

use crate::codec::not_encoded;
use crate::object::Datatype;

/// What a call tells besides.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode, Serialize)]
pub struct Details {
    /// The window that it is about, by the process's own number, from 0 in the order in which windows were made.
    pub window: Option<u32>,
    /// The datatype at the target of an access to a window.
    pub target_datatype: Option<Datatype>,
    /// Where in the buffer that is sent from each member's or neighbour's piece begins, in the order of
    /// [`Amount::pieces`](crate::Amount::pieces): in elements of the datatype, or in bytes where pieces have datatypes of their own.
    pub send_displacements: Vec<i64>,
    /// The same of the buffer that is received into.
    pub receive_displacements: Vec<i64>,
    /// The bounds of the datatype that it made, or asked about where they were not known.
    pub bounds: Option<Bounds>,
    /// The group with which it begins an epoch on a window (`MPI_Win_post`, `MPI_Win_start`), by the process's own number.
    pub group: Option<u32>,
    /// The partitioned requests that it prepares, starts, makes partitions of ready or asks about, by the process's own numbers, which stay
    /// the same however often a request is started; of several transfers one by one, `None` for those that are not partitioned.
    pub partitioned: Vec<Option<u32>>,
    /// Whether a call that asks if something is over was told that it is (`MPI_Win_test`, `MPI_Parrived`).
    pub over: bool,
    /// The persistent requests that the call prepares or starts, by the process's own numbers: those of its transfers, in
    /// their order, then those of its collective operations. Numbers count from 0 in the order of preparation. A started operation is the one that the call with the same number prepared.
    /// Empty in traces of versions before 14.
    pub persistent: Vec<u32>,
}

/// Where elements of a datatype begin and end, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode, Serialize)]
pub struct Bounds {
    /// Its lower bound.
    pub lower: i64,
    /// From one element to the next.
    pub extent: i64,
}

/// Details as versions 11 and 12 of the trace have them: without groups of epochs and partitioned requests.
#[derive(Clone, Debug, Encode, Decode)]
pub struct UngroupedDetails {
    window: Option<u32>,
    target_datatype: Option<Datatype>,
    send_displacements: Vec<i64>,
    receive_displacements: Vec<i64>,
    bounds: Option<Bounds>,
}

impl From<UngroupedDetails> for Details {
    fn from(earlier: UngroupedDetails) -> Self {
        Self {
            window: earlier.window,
            target_datatype: earlier.target_datatype,
            send_displacements: earlier.send_displacements,
            receive_displacements: earlier.receive_displacements,
            bounds: earlier.bounds,
            ..Self::default()
        }
    }
}

/// Details as version 13 of the trace has them: without numbers of persistent requests.
#[derive(Clone, Debug, Encode, Decode)]
pub struct UnnumberedDetails {
    ungrouped: UngroupedDetails,
    group: Option<u32>,
    partitioned: Vec<Option<u32>>,
    over: bool,
}

impl From<UnnumberedDetails> for Details {
    fn from(earlier: UnnumberedDetails) -> Self {
        Self {
            group: earlier.group,
            partitioned: earlier.partitioned,
            over: earlier.over,
            ..earlier.ungrouped.into()
        }
    }
}

/// [`Details`] of a call, if it has any. Not encoded with an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Detailed(pub Option<Box<Details>>);

impl Detailed {
    /// `details`, or nothing where they say nothing.
    pub fn of(details: Details) -> Self {
        Self((details != Details::default()).then(|| Box::new(details)))
    }
}

not_encoded!(Detailed);
