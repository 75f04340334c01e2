//! Contents of replayed frames: the connection, and a segment's number or an acknowledgement.
//!
//! They stand after the addresses, in bytes that no switch reads. A frame may come from a checkpoint: any bytes are possible. Called by `transport`.

use belljar_fabric::{Frame, headers};

use super::receiver::Acknowledgement;
use super::sender::Leaving;

/// Position of the contents in a frame: four bytes, then eight, four, four.
const MARK: usize = 38;
/// Marks the number of a connection in an acknowledgement.
const ACKNOWLEDGES: u32 = 1 << 31;

/// Contents of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    /// A segment of a connection. Its data are the frame's rest.
    Segment(u32, Leaving),
    /// An acknowledgement of segments of a connection.
    Acknowledgement(u32, Acknowledgement),
}

/// The frame from one host to another that carries so many bytes of data.
pub(super) fn marked(from: u32, to: u32, mark: Mark, data: u64) -> Frame {
    let mut frame = headers(from, to);
    let (connection, number, one, other) = match mark {
        Mark::Segment(connection, segment) => {
            let (first, last) = (u32::from(segment.first), u32::from(segment.last));
            (connection, segment.number, first, last)
        }
        Mark::Acknowledgement(connection, Acknowledgement { known, block }) => {
            let distance = |number: u64| number.saturating_sub(known).min(u64::from(u32::MAX));
            let (one, other) = (distance(block.0) as u32, distance(block.1) as u32);
            (connection | ACKNOWLEDGES, known, one, other)
        }
    };
    let fields = frame[MARK..].split_at_mut(4);
    fields.0.copy_from_slice(&connection.to_be_bytes());
    fields.1[..8].copy_from_slice(&number.to_be_bytes());
    fields.1[8..12].copy_from_slice(&one.to_be_bytes());
    fields.1[12..16].copy_from_slice(&other.to_be_bytes());
    Frame::padded(frame, data as u32)
}

/// The contents of a frame, if it is long enough to have any.
pub(super) fn mark_of(frame: &[u8]) -> Option<Mark> {
    let four = |at: usize| Some(u32::from_be_bytes(frame.get(at..at + 4)?.try_into().ok()?));
    let eight = frame.get(MARK + 4..MARK + 12)?.try_into().ok()?;
    let number = u64::from_be_bytes(eight);
    let (connection, one, other) = (four(MARK)?, four(MARK + 12)?, four(MARK + 16)?);
    if connection & ACKNOWLEDGES == 0 {
        let segment = Leaving {
            number,
            data: 0,
            first: one != 0,
            last: other != 0,
        };
        return Some(Mark::Segment(connection, segment));
    }
    let far = |distance: u32| number.saturating_add(u64::from(distance));
    let acknowledgement = Acknowledgement {
        known: number,
        block: (far(one), far(other)),
    };
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
            assert_eq!(mark_of(marked(1, 2, mark, 9).head()), Some(mark));
        }
        assert_eq!(mark_of(&[0; 57]), None);
    }
}
