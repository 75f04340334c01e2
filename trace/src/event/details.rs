//! Details of a call that a replay does not need: displacements in buffers, windows, groups of epochs, partitioned requests, bounds of datatypes.
//!
//! Most calls have no details. Details are not part of an event's encoding, so records of earlier versions of the trace stay valid; the trace stores them with a call's
//! signature. Created by tracers, used by writers, readers and listings of events.

use bincode::{Decode, Encode};
use serde::Serialize;

use crate::codec::not_encoded;
use crate::object::Datatype;
use crate::typed::CallDatatypes;

/// A call's details.
#[derive(Clone, Debug, Default, PartialEq, Eq, Encode, Decode, Serialize)]
pub struct Details {
    /// The window that the call uses, by the process's own number, from 0 in the order of creation.
    pub window: Option<u32>,
    /// The datatype at the target of an access to a window.
    pub target_datatype: Option<Datatype>,
    /// The offsets of each member's or neighbour's piece in the send buffer, in the order of [`Amount::pieces`](crate::Amount::pieces). They are in elements of the
    /// datatype, or in bytes where each piece has a datatype.
    pub send_displacements: Vec<i64>,
    /// The same for the receive buffer.
    pub receive_displacements: Vec<i64>,
    /// The bounds of the datatype that it created, or queried while they were unknown.
    pub bounds: Option<Bounds>,
    /// The group with which it begins an epoch on a window (`MPI_Win_post`, `MPI_Win_start`), by the process's own number.
    pub group: Option<u32>,
    /// The partitioned requests that it prepares, starts, marks ready or queries, by the process's own numbers, which do not change when a request is restarted. With
    /// several transfers, one entry for each, `None` if not partitioned.
    pub partitioned: Vec<Option<u32>>,
    /// True if the call asked whether an operation is complete and found that it is (`MPI_Win_test`, `MPI_Parrived`).
    pub over: bool,
    /// The persistent requests that the call prepares or starts, by the process's own numbers: those of its transfers, in their order, then those of its collective
    /// operations. Numbers count from 0 in the order of preparation. A started operation is the one prepared by the call with the same number. Empty in traces of
    /// versions before 14.
    pub persistent: Vec<u32>,
    /// Contents of the datatype that it created, and datatypes of its collective operation. Only in traces of version 16.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub datatypes: Option<Box<CallDatatypes>>,
}

impl Details {
    /// Returns them as files of versions 14 and 15 have them.
    pub fn untyped(&self) -> UntypedDetails {
        UntypedDetails {
            unnumbered: UnnumberedDetails {
                ungrouped: UngroupedDetails {
                    window: self.window,
                    target_datatype: self.target_datatype,
                    send_displacements: self.send_displacements.clone(),
                    receive_displacements: self.receive_displacements.clone(),
                    bounds: self.bounds,
                },
                group: self.group,
                partitioned: self.partitioned.clone(),
                over: self.over,
            },
            persistent: self.persistent.clone(),
        }
    }
}

/// Bounds of a datatype's elements, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode, Serialize)]
pub struct Bounds {
    /// Its lower bound.
    pub lower: i64,
    /// Bytes from one element to the next.
    pub extent: i64,
}

/// Details in versions 11 and 12 of the trace, without groups of epochs and partitioned requests.
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

/// Details in version 13 of the trace, without numbers of persistent requests.
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

/// Details in versions 14 and 15 of the trace, without datatypes.
#[derive(Clone, Debug, Encode, Decode)]
pub struct UntypedDetails {
    unnumbered: UnnumberedDetails,
    persistent: Vec<u32>,
}

impl From<UntypedDetails> for Details {
    fn from(earlier: UntypedDetails) -> Self {
        Self {
            persistent: earlier.persistent,
            ..Self::from(earlier.unnumbered)
        }
    }
}

/// [`Details`] of a call, if it has any. Not encoded with an event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Detailed(pub Option<Box<Details>>);

impl Detailed {
    /// Wraps `details`, or `None` if they are empty.
    pub fn of(details: Details) -> Self {
        Self((details != Details::default()).then(|| Box::new(details)))
    }

    /// Removes the contents of datatypes and the datatypes of collective operations, which only some runs record.
    pub fn without_datatypes(self) -> Self {
        match self.0 {
            Some(details) if details.datatypes.is_some() => Self::of(Details {
                datatypes: None,
                ..*details
            }),
            other => Self(other),
        }
    }
}

not_encoded!(Detailed);
