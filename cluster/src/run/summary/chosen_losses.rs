//! Losses of chosen frames, by the scenario's `[[network.lose]]`.
//!
//! A run in which a table took fewer frames than it has is not the run that its author wanted, so a warning names the table. Called by `summary`.

use belljar_fabric::{Fabric, LossCount, LossStart};
use belljar_sim::Time;
use serde::Serialize;

use crate::plan::delays::loss_words;

/// A loss of chosen frames, and its frames.
#[derive(Debug, Serialize)]
pub struct ChosenLossSummary {
    /// Number of the sending node.
    pub from: u32,
    /// Number of the receiving node.
    pub to: u32,
    /// Virtual time from which frames are lost, in picoseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub at_ps: Option<u64>,
    /// Number of the first lost frame among those of the two nodes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub frame: Option<u64>,
    /// Number of frames to lose.
    pub frames: u64,
    /// Number of lost frames.
    pub lost: u64,
    /// Time at which the first lost frame left its card, in picoseconds.
    pub first_ps: Option<u64>,
}

impl ChosenLossSummary {
    fn of(count: &LossCount) -> Self {
        let loss = &count.loss;
        let (at_ps, frame) = match loss.start {
            LossStart::At(at) => (Some(at.as_ps()), None),
            LossStart::Frame(number) => (None, Some(number)),
        };
        Self {
            from: loss.from,
            to: loss.to,
            at_ps,
            frame,
            frames: loss.frames,
            lost: count.lost,
            first_ps: count.first.map(|time| time.as_ps()),
        }
    }
}

/// All losses of `fabric`.
pub(super) fn summaries(fabric: &Fabric) -> Vec<ChosenLossSummary> {
    let counts = fabric.chosen_losses().iter();
    counts.map(ChosenLossSummary::of).collect()
}

/// Number of chosen frames that were lost.
pub(super) fn lost(fabric: &Fabric) -> u64 {
    let counts = fabric.chosen_losses().iter();
    counts.map(|count| count.lost).sum()
}

/// Warnings about losses that took fewer frames than they have, in a run that ended at `end`. Those that begin later are reported with all such delays.
pub(super) fn warnings(fabric: &Fabric, end: Time) -> impl Iterator<Item = String> {
    let counts = fabric.chosen_losses().iter();
    let is_late = move |start| matches!(start, LossStart::At(at) if at > end);
    let short =
        counts.filter(move |count| count.lost < count.loss.frames && !is_late(count.loss.start));
    short.map(|count| {
        let (words, lost) = (loss_words(&count.loss), count.lost);
        format!("network.lose: {words}: only {lost} came; check its time or number against the run's frames")
    })
}
