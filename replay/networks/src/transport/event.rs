//! Events at hosts, and their order.
//!
//! Future events take four words each, in the order of their times and of the events themselves. Used by `transport`.

use belljar_sim::{Time, Timed};
use serde::{Deserialize, Serialize};

use super::receiver::Acknowledgement;
use super::sender::Leaving;

/// An event at a host. Events at the same time are in the order of these variants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Event {
    /// A sender learns of an acknowledgement.
    Acknowledged(u32, Acknowledgement),
    /// A host has processed a segment.
    Taken(u32, Leaving),
    /// A segment arrives at its host, which processes it at once.
    Comes(u32, Leaving),
    /// A receiver sends a delayed acknowledgement.
    Delayed(u32),
    /// A sender checks its timer.
    Expire(u32),
    /// A host's next frame leaves.
    Leave(u32),
}

/// An event with its time. Equal values are the same event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Due {
    time: Time,
    /// The number of the event's variant, and the number of its connection or host.
    whose: u64,
    /// The number of a segment, or the number before which all have arrived.
    number: u64,
    /// For a segment, its ends; for an acknowledgement, the distances of its block.
    rest: u64,
}

impl Timed for Due {
    fn time(&self) -> Time {
        self.time
    }
}

impl Due {
    pub(super) fn new(time: Time, event: Event) -> Self {
        let of_segment = |segment: Leaving| {
            let ends = u64::from(segment.first) << 1 | u64::from(segment.last);
            (segment.number, ends)
        };
        let (variant, whose, (number, rest)): (u64, u32, (u64, u64)) = match event {
            Event::Acknowledged(of, acknowledgement) => {
                let (first, end) = acknowledgement.distances();
                let rest = u64::from(first) << 32 | u64::from(end);
                (0, of, (acknowledgement.known, rest))
            }
            Event::Taken(of, segment) => (1, of, of_segment(segment)),
            Event::Comes(of, segment) => (2, of, of_segment(segment)),
            Event::Delayed(of) => (3, of, (0, 0)),
            Event::Expire(of) => (4, of, (0, 0)),
            Event::Leave(of) => (5, of, (0, 0)),
        };
        Self {
            time,
            whose: variant << 32 | u64::from(whose),
            number,
            rest,
        }
    }

    pub(super) fn event(&self) -> Event {
        let of = self.whose as u32;
        let segment = || Leaving {
            number: self.number,
            data: 0,
            first: self.rest & 2 != 0,
            last: self.rest & 1 != 0,
        };
        match self.whose >> 32 {
            0 => {
                let distances = ((self.rest >> 32) as u32, self.rest as u32);
                Event::Acknowledged(of, Acknowledgement::of(self.number, distances))
            }
            1 => Event::Taken(of, segment()),
            2 => Event::Comes(of, segment()),
            3 => Event::Delayed(of),
            4 => Event::Expire(of),
            _ => Event::Leave(of),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_come_out_as_they_went_in_and_in_the_order_of_their_variants() {
        let segment = |number, first, last| Leaving {
            number,
            data: 0,
            first,
            last,
        };
        let acknowledgement = |known, block| Acknowledgement { known, block };
        let all = [
            Event::Acknowledged(4, acknowledgement(1 << 40, (1 << 40, 1 << 40))),
            Event::Acknowledged(4, acknowledgement(1 << 40, ((1 << 40) + 2, (1 << 40) + 9))),
            Event::Acknowledged(u32::MAX, acknowledgement(0, (0, 0))),
            Event::Taken(0, segment(1, true, false)),
            Event::Taken(0, segment(1 << 50, false, true)),
            Event::Taken(1, segment(0, true, true)),
            Event::Comes(0, segment(3, false, false)),
            Event::Delayed(9),
            Event::Expire(8),
            Event::Leave(0),
            Event::Leave(7),
        ];
        let due = all.map(|event| Due::new(Time::from_ps(5), event));
        assert!(due.is_sorted_by(|one, other| one < other));
        assert_eq!(due.map(|due| due.event()), all);
        let later = Due::new(Time::from_ps(6), all[0]);
        assert!(due.iter().all(|due| *due < later));
    }
}
