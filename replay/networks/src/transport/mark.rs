//! Contents of replayed frames: the connection, and a segment's number or an acknowledgement.
//!
//! They follow the addresses, in bytes that switches do not read. A frame may come from a checkpoint: any bytes are possible. Used by `transport`.

use belljar_fabric::{Frame, MARK_BYTES};
use serde::{Deserialize, Serialize};

use super::receiver::Acknowledgement;
use super::sender::Leaving;

/// Marks the number of a connection in an acknowledgement.
const ACKNOWLEDGES: u32 = 1 << 31;

/// Contents of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Mark {
    /// A segment of a connection. Its data are the rest of the frame.
    Segment(u32, Leaving),
    /// An acknowledgement of segments of a connection.
    Acknowledgement(u32, Acknowledgement),
}

impl Mark {
    /// Returns the number of the connection.
    pub(crate) fn connection(&self) -> u32 {
        match self {
            Self::Segment(number, _) | Self::Acknowledgement(number, _) => *number,
        }
    }
}

/// Creates the frame from one host to another that carries `data` bytes.
pub(super) fn marked(from: u32, to: u32, mark: Mark, data: u32) -> Frame {
    let (connection, number, one, other) = match mark {
        Mark::Segment(connection, segment) => {
            let (first, last) = (u32::from(segment.first), u32::from(segment.last));
            (connection, segment.number, first, last)
        }
        Mark::Acknowledgement(connection, acknowledgement) => {
            let (one, other) = acknowledgement.distances();
            (connection | ACKNOWLEDGES, acknowledgement.known, one, other)
        }
    };
    // Four bytes, then eight, four, four.
    let mut fields = [0; MARK_BYTES];
    fields[..4].copy_from_slice(&connection.to_be_bytes());
    fields[4..12].copy_from_slice(&number.to_be_bytes());
    fields[12..16].copy_from_slice(&one.to_be_bytes());
    fields[16..].copy_from_slice(&other.to_be_bytes());
    Frame::segment(from, to, fields, data)
}

/// Reads the contents of a frame, if it is long enough.
pub(super) fn mark_of(frame: &Frame) -> Option<Mark> {
    let fields = frame.mark()?;
    let four = |at: usize| Some(u32::from_be_bytes(fields.get(at..at + 4)?.try_into().ok()?));
    let number = u64::from_be_bytes(fields.get(4..12)?.try_into().ok()?);
    let (connection, one, other) = (four(0)?, four(12)?, four(16)?);
    if connection & ACKNOWLEDGES == 0 {
        let segment = Leaving {
            number,
            data: 0,
            first: one != 0,
            last: other != 0,
        };
        return Some(Mark::Segment(connection, segment));
    }
    let acknowledgement = Acknowledgement::of(number, (one, other));
    Some(Mark::Acknowledgement(
        connection & !ACKNOWLEDGES,
        acknowledgement,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_come_out_as_they_went_in() {
        let acknowledgement = Acknowledgement {
            known: 1 << 40,
            block: ((1 << 40) + 3, (1 << 40) + 9),
        };
        let segment = Leaving {
            number: 1 << 33,
            data: 0,
            first: false,
            last: true,
        };
        for mark in [
            Mark::Segment(77, segment),
            Mark::Acknowledgement(5, acknowledgement),
        ] {
            assert_eq!(mark_of(&marked(1, 2, mark, 9)), Some(mark));
        }
        assert_eq!(mark_of(&Frame::from(vec![0; 57])), None);
    }
}
