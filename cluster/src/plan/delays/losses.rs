//! From a scenario's `[[network.lose]]` to losses of chosen frames.
//!
//! Called by `delays`.

use belljar_fabric::{FrameLoss, LossStart};
use belljar_sim::figures::counted;
use belljar_sim::{Span, Time};

use super::{DelayPlan, fail, interval, pair_exists};
use crate::plan::error::PlanError;
use crate::scenario::LossTable;

/// Most frames that one table loses.
const MOST_LOST: u64 = 1_000_000;

impl DelayPlan {
    pub(super) fn lose(&mut self, table: &LossTable, nodes: u32) -> Result<(), PlanError> {
        let keys = ["network.lose.from", "network.lose.to"];
        let (from, to, frames) = (table.from, table.to, table.frames);
        pair_exists(keys, from, to, nodes)?;
        if !(1..=MOST_LOST).contains(&frames) {
            return fail("network.lose.frames", frames, "from 1 to 1000000");
        }
        let start = match (&table.at, table.frame) {
            (Some(at), None) => {
                let keys = ["network.lose.at", "network.lose.frames"];
                LossStart::At(interval(keys, at.0, Span::from_ps(1))?.0)
            }
            (None, Some(0)) => return fail("network.lose.frame", 0, "at least 1"),
            (None, Some(number)) => LossStart::Frame(number),
            (Some(_), Some(number)) => {
                return fail(
                    "network.lose.frame",
                    number,
                    "left out with network.lose.at",
                );
            }
            (None, None) => {
                let limits = "given, or network.lose.frame instead";
                return fail("network.lose.at", "left out", limits);
            }
        };
        let loss = FrameLoss {
            from,
            to,
            start,
            frames,
        };
        if self.losses.iter().any(|other| share_frames(other, &loss)) {
            let limits =
                "not among the frames of another network.lose of the same nodes; raise its frames";
            return match start {
                LossStart::At(at) => fail("network.lose.at", at, limits),
                LossStart::Frame(number) => fail("network.lose.frame", number, limits),
            };
        }
        self.note(begin(start), loss_words(&loss));
        self.losses.push(loss);
        Ok(())
    }
}

/// True if two losses of the same nodes begin at the same time, or name the same frames by number.
fn share_frames(one: &FrameLoss, other: &FrameLoss) -> bool {
    (one.from, one.to) == (other.from, other.to)
        && match (one.start, other.start) {
            (LossStart::Frame(first), LossStart::Frame(second)) => {
                first < second.saturating_add(other.frames)
                    && second < first.saturating_add(one.frames)
            }
            (first, second) => first == second,
        }
}

/// The time before which a loss takes no frame.
pub(super) fn begin(start: LossStart) -> Time {
    match start {
        LossStart::At(at) => at,
        LossStart::Frame(_) => Time::ZERO,
    }
}

/// A loss of chosen frames in words.
pub(crate) fn loss_words(loss: &FrameLoss) -> String {
    let FrameLoss {
        from, to, frames, ..
    } = loss;
    let frames = counted(*frames, "frame");
    let flow = format!("loss of {frames} from node {from} to node {to}");
    match loss.start {
        LossStart::At(at) => format!("{flow}, from {at} on"),
        LossStart::Frame(number) => format!("{flow}, from number {number} on"),
    }
}
