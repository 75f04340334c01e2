//! Losses of chosen frames: given frames of a flow are lost on the sender's link.
//!
//! A frame is chosen by its place in the flow from one host to another, either among all frames of the flow or among those from a time on. The place depends on
//! the frames before it, so the number of lost frames is part of a fabric's state. A lost frame occupies the sender's link and arrives nowhere, so no frame
//! arrives earlier than without the loss. Checked when a plan is made; called by `network` for each frame that a host puts onto its link.

use belljar_sim::Time;
use serde::{Deserialize, Serialize};

use crate::frame::Frame;

/// The first frame of a chosen loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum LossStart {
    /// The first one that leaves the card at this time or later.
    At(Time),
    /// The frame with this number in the flow, from 1.
    Frame(u64),
}

/// Successive frames from a host to another one that are lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct FrameLoss {
    /// Sending host.
    pub from: u32,
    /// Destination host.
    pub to: u32,
    /// The first lost frame.
    pub start: LossStart,
    /// Number of lost frames.
    pub frames: u64,
}

/// A chosen loss and its frames so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LossCount {
    /// The loss.
    pub loss: FrameLoss,
    /// Frames that it took.
    pub lost: u64,
    /// Time at which the first of them left the card; `None` without one.
    pub first: Option<Time>,
}

/// All chosen losses of a fabric, in order.
#[derive(Clone, Debug, Default)]
pub(crate) struct FrameLosses {
    counts: Vec<LossCount>,
}

impl FrameLosses {
    pub(crate) fn new(losses: &[FrameLoss]) -> Self {
        let mut sorted = losses.to_vec();
        sorted.sort_unstable();
        let begin = |loss| LossCount {
            loss,
            lost: 0,
            first: None,
        };
        Self {
            counts: sorted.into_iter().map(begin).collect(),
        }
    }

    /// The loss that takes a frame of host `from` that leaves the card at `time`, if one does; `sent` is the number of frames of the same flow before it.
    pub(crate) fn of(
        &self,
        time: Time,
        from: u32,
        frame: &Frame,
        sent: impl Fn(u32) -> u64,
    ) -> Option<usize> {
        if self.counts.is_empty() {
            return None;
        }
        let to = frame.destination().filter(|to| !to.is_group())?;
        let to = to.host_index()?;
        let takes = |count: &LossCount| {
            let begins = match count.loss.start {
                LossStart::At(at) => at <= time,
                LossStart::Frame(number) => number <= sent(to) + 1,
            };
            (count.loss.from, count.loss.to) == (from, to)
                && begins
                && count.lost < count.loss.frames
        };
        self.counts.iter().position(takes)
    }

    /// Counts a frame that loss `index` took.
    pub(crate) fn note(&mut self, index: usize, time: Time) {
        if let Some(count) = self.counts.get_mut(index) {
            count.lost += 1;
            count.first = count.first.or(Some(time));
        }
    }

    /// All losses with their frames so far.
    pub(crate) fn counts(&self) -> &[LossCount] {
        &self.counts
    }

    /// The losses that took frames, for saving. Other losses may be exchanged when a run continues.
    pub(crate) fn save(&self) -> Vec<LossCount> {
        let begun = self.counts.iter().filter(|count| count.lost > 0);
        begun.copied().collect()
    }

    /// Restores saved counts; false if they are not those of losses here.
    pub(crate) fn restore(&mut self, saved: &[LossCount]) -> bool {
        for count in &mut self.counts {
            (count.lost, count.first) = (0, None);
        }
        saved.iter().all(|saved| {
            let mut known = self.counts.iter_mut();
            let known = known.find(|count| count.loss == saved.loss && count.lost == 0);
            let is_sound =
                saved.lost > 0 && saved.lost <= saved.loss.frames && saved.first.is_some();
            known.filter(|_| is_sound).is_some_and(|count| {
                *count = *saved;
                true
            })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::Mac;

    fn loss(from: u32, start: LossStart, frames: u64) -> FrameLoss {
        FrameLoss {
            from,
            to: 0,
            start,
            frames,
        }
    }

    fn frame(to: Mac) -> Frame {
        let mut bytes = vec![0; 60];
        bytes[..6].copy_from_slice(&to.0);
        Frame::padded(bytes, 0)
    }

    /// The places of lost frames among frames of host `from` to host 0, one in each picosecond from 1 on.
    fn places(losses: &mut FrameLosses, from: u32, frames: u64) -> Vec<u64> {
        let own = frame(Mac::of_host(0));
        let lost = (1..=frames).filter(|number| {
            let time = Time::from_ps(*number);
            let index = losses.of(time, from, &own, |_| number - 1);
            index.inspect(|index| losses.note(*index, time)).is_some()
        });
        lost.collect()
    }

    #[test]
    fn chosen_frames_of_the_flow_are_lost() {
        let at = |ps| LossStart::At(Time::from_ps(ps));
        let all = [
            loss(1, at(7), 2),
            loss(1, LossStart::Frame(3), 1),
            loss(2, at(2), 1),
        ];
        let mut losses = FrameLosses::new(&all);
        assert_eq!(places(&mut losses, 1, 20), [3, 7, 8]);
        assert_eq!(places(&mut losses, 3, 20), []);
        let to_all = frame(Mac([0xff; 6]));
        let of = |to: &Frame| losses.of(Time::from_ps(9), 2, to, |_| 0);
        assert_eq!([of(&to_all), of(&frame(Mac::of_host(5)))], [None, None]);
        assert!(of(&frame(Mac::of_host(0))).is_some());
        let firsts = losses.counts().iter();
        let firsts: Vec<_> = firsts.map(|count| (count.lost, count.first)).collect();
        let first = |ps| Some(Time::from_ps(ps));
        assert_eq!(firsts, [(2, first(7)), (1, first(3)), (0, None)]);
    }

    #[test]
    fn a_restored_state_continues_and_a_damaged_one_is_refused() {
        let all = [
            loss(1, LossStart::Frame(3), 4),
            loss(2, LossStart::Frame(1), 1),
        ];
        let mut losses = FrameLosses::new(&all);
        assert_eq!(places(&mut losses, 1, 4), [3, 4]);
        let saved = losses.save();
        // A loss that took no frame may be another one.
        let mut other = FrameLosses::new(&all[..1]);
        assert!(other.restore(&saved));
        assert_eq!(places(&mut other, 1, 20), [3, 4]);
        assert!(!FrameLosses::new(&all[1..]).restore(&saved));
        assert!(!other.restore(&[saved[0], saved[0]]));
        for lost in [0, 5] {
            assert!(!other.restore(&[LossCount { lost, ..saved[0] }]));
        }
    }
}
