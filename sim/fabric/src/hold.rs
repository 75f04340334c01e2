//! Frames held in a network card: a flow's frames wait there for a given time.
//!
//! A hold is a function of a frame's sender, its destination and the time at which the sender gave it to its card; a fabric keeps
//! no state for it. Frames of a flow keep their order, because all of them wait for the same end. A hold only adds delay, so no
//! frame arrives before the least time that lookahead relies on. Checked when a plan is made; called by `network` for each frame.

use belljar_sim::Time;

use crate::frame::Frame;

/// Frames from a host to another one that wait in the sender's network card.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Hold {
    /// Sending host.
    pub from: u32,
    /// Destination host.
    pub to: u32,
    /// Start: frames that are sent from here on wait.
    pub at: Time,
    /// End, at which waiting frames leave the card in their order.
    pub until: Time,
}

/// All holds of a fabric, by flow and start.
#[derive(Clone, Debug, Default)]
pub(crate) struct Holds {
    sorted: Vec<Hold>,
}

impl Holds {
    pub(crate) fn new(holds: &[Hold]) -> Self {
        let mut sorted = holds.to_vec();
        sorted.sort_unstable();
        Self { sorted }
    }

    /// The time at which a frame leaves the card of host `from` that gave it to the card at `time`. Frames to groups never wait.
    pub(crate) fn release(&self, time: Time, from: u32, frame: &Frame) -> Time {
        if self.sorted.is_empty() {
            return time;
        }
        let to = frame.destination().filter(|to| !to.is_group());
        let Some(to) = to.and_then(|to| to.host_index()) else {
            return time;
        };
        let own = self.sorted.iter();
        let own = own.filter(|hold| (hold.from, hold.to) == (from, to));
        // Holds are in the order of their starts: one that begins in another one extends it.
        own.fold(time, |time, hold| {
            match (hold.at..hold.until).contains(&time) {
                true => hold.until,
                false => time,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Mac;

    fn at(ps: u64) -> Time {
        Time::from_ps(ps)
    }

    fn hold(from: u32, to: u32, start: u64, end: u64) -> Hold {
        Hold {
            from,
            to,
            at: at(start),
            until: at(end),
        }
    }

    fn frame(to: Mac) -> Frame {
        let mut bytes = vec![0; 60];
        bytes[..6].copy_from_slice(&to.0);
        Frame::padded(bytes, 0)
    }

    #[test]
    fn frames_of_the_flow_wait_until_the_end() {
        let holds = Holds::new(&[hold(1, 0, 10, 20), hold(2, 0, 5, 50)]);
        let to_zero = frame(Mac::of_host(0));
        let released = |time, from| holds.release(at(time), from, &to_zero).as_ps();
        let times = [9, 10, 19, 20, 21].map(|time| released(time, 1));
        assert_eq!(times, [9, 20, 20, 20, 21]);
        assert_eq!([released(10, 2), released(10, 3)], [50, 10]);
        let to_one = frame(Mac::of_host(1));
        assert_eq!(holds.release(at(10), 2, &to_one), at(10));
        let to_all = frame(Mac([0xff; 6]));
        assert_eq!(holds.release(at(10), 1, &to_all), at(10));
    }

    #[test]
    fn holds_that_follow_each_other_keep_the_order() {
        let holds = Holds::new(&[hold(1, 0, 20, 40), hold(1, 0, 10, 20), hold(1, 0, 30, 35)]);
        let to_zero = frame(Mac::of_host(0));
        let released: Vec<u64> = (0..60)
            .map(|time| holds.release(at(time), 1, &to_zero).as_ps())
            .collect();
        assert!(released.is_sorted(), "{released:?}");
        assert_eq!((released[9], released[10], released[39]), (9, 40, 40));
    }
}
