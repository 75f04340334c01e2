//! Link figures over time, by windows of equal length.
//!
//! A window is returned once it can't change any more, so figures do not depend on rounds. Filled by the
//! fabric for each frame; the coordinator takes them for `links.csv`.

use std::collections::BTreeMap;

use belljar_sim::{Span, Time};
use serde::{Deserialize, Serialize};

use crate::link::{Exit, MOST_COUNTED, Passage, Refusal};

/// Figures of one direction of a link in one time window. An event at the boundary of two windows belongs
/// to the later one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkWindow {
    /// Frames whose last bit was sent, including those lost at random.
    pub frames: u64,
    /// Bytes of these frames, without preamble, checksum and gap.
    pub bytes: u64,
    /// Longest queue, in bytes, including the frame on the wire.
    pub longest_queue: u64,
    /// Bytes in the queue just before the window's end.
    pub queue: u64,
    /// Frames dropped because the queue was full.
    pub drops: u64,
    /// Frames lost on the wire at random.
    pub lost: u64,
    /// Frames lost because the link failed or was down.
    pub failed: u64,
    /// Time during which the wire was busy, in picoseconds.
    pub busy_ps: u64,
    /// Bytes that entered the queue, and that left it.
    entered: u64,
    left: u64,
}

impl LinkWindow {
    /// True if a window can have these figures.
    fn is_sound(&self) -> bool {
        let counts = [
            self.frames,
            self.bytes,
            self.drops,
            self.lost,
            self.failed,
            self.busy_ps,
            self.entered,
            self.left,
        ];
        counts.iter().all(|&count| count <= MOST_COUNTED)
    }
}

/// Figures of one direction of a link in one window. Windows without events and with an empty queue have no
/// record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkRecord {
    /// Start of the window.
    pub start: Time,
    /// Twice the link's number, plus one for the direction down.
    pub port: u32,
    /// The figures.
    pub window: LinkWindow,
}

/// Windows that may still change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Windows {
    length: u64,
    /// By number of window and port.
    open: BTreeMap<(u64, u32), LinkWindow>,
    /// Bytes in each port's queue at the end of the last returned window.
    queues: Vec<u64>,
}

/// Windows as plain values.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct WindowsState {
    open: Vec<((u64, u32), LinkWindow)>,
    queues: Vec<u64>,
}

impl Windows {
    /// Windows of `length`, which is not zero, for `ports` directions of links.
    pub(crate) fn new(length: Span, ports: usize) -> Self {
        Self {
            length: length.as_ps().max(1),
            open: BTreeMap::new(),
            queues: vec![0; ports],
        }
    }

    /// Records a frame of `bytes`, sent to `port` at `now`, and its outcome.
    pub(crate) fn note(
        &mut self,
        port: u32,
        now: Time,
        bytes: u64,
        outcome: &Result<Passage, Refusal>,
    ) {
        let passage = match outcome {
            Ok(passage) => passage,
            Err(Refusal::Full) => return self.at(port, now).drops += 1,
            Err(Refusal::Down) => return self.at(port, now).failed += 1,
        };
        let window = self.at(port, now);
        window.entered += bytes;
        window.longest_queue = window.longest_queue.max(passage.queued);
        self.note_busy(port, passage.start.as_ps(), passage.leaves.as_ps());
        let window = self.at(port, passage.leaves);
        window.left += bytes;
        if passage.exit == Exit::Failed {
            window.failed += 1;
        } else {
            window.frames += 1;
            window.bytes += bytes;
            window.lost += u64::from(passage.exit == Exit::Lost);
        }
    }

    /// Distributes the time from `start` to `end` over windows.
    fn note_busy(&mut self, port: u32, mut start: u64, end: u64) {
        while start < end {
            let number = start / self.length;
            let next = ((number + 1).saturating_mul(self.length)).min(end);
            self.open.entry((number, port)).or_default().busy_ps += next - start;
            start = next;
        }
    }

    fn at(&mut self, port: u32, time: Time) -> &mut LinkWindow {
        let number = time.as_ps() / self.length;
        self.open.entry((number, port)).or_default()
    }

    /// Returns windows that can't change any more once everything before `settled` is known, ordered by
    /// time and port.
    pub(crate) fn take(&mut self, settled: Time) -> impl Iterator<Item = LinkRecord> {
        let whole = match settled {
            Time::MAX => u64::MAX,
            settled => settled.as_ps() / self.length,
        };
        std::iter::from_fn(move || {
            let entry = self.open.first_entry()?;
            let (number, port) = *entry.key();
            if number >= whole {
                return None;
            }
            let mut window = entry.remove();
            let queue = &mut self.queues[port as usize];
            window.longest_queue = window.longest_queue.max(*queue);
            *queue = (*queue + window.entered).saturating_sub(window.left);
            window.queue = *queue;
            Some(LinkRecord {
                start: Time::from_ps(number.saturating_mul(self.length)),
                port,
                window,
            })
        })
    }

    pub(crate) fn save(&self) -> WindowsState {
        WindowsState {
            open: self
                .open
                .iter()
                .map(|(key, window)| (*key, *window))
                .collect(),
            queues: self.queues.clone(),
        }
    }

    /// Continues from `state`; false if it is of other links.
    pub(crate) fn restore(&mut self, state: WindowsState) -> bool {
        let ports = self.queues.len();
        if state.queues.len() != ports
            || state
                .open
                .iter()
                .any(|((_, port), _)| *port as usize >= ports)
            || !state.open.iter().all(|(_, window)| window.is_sound())
            || state.queues.iter().any(|&queue| queue > MOST_COUNTED)
        {
            return false;
        }
        self.open = state.open.into_iter().collect();
        self.queues = state.queues;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn passage(start: u64, leaves: u64, queued: u64) -> Result<Passage, Refusal> {
        Ok(Passage {
            start: Time::from_ps(start),
            leaves: Time::from_ps(leaves),
            queued,
            exit: Exit::Arrives(Time::from_ps(leaves + 5)),
        })
    }

    #[test]
    fn busy_time_is_shared_out_and_the_queue_carried_over() {
        let mut windows = Windows::new(Span::from_ps(10), 2);
        windows.note(1, Time::from_ps(8), 100, &passage(8, 23, 100));
        windows.note(1, Time::from_ps(9), 50, &passage(23, 30, 150));
        windows.note(0, Time::from_ps(31), 7, &Err(Refusal::Full));
        assert_eq!(windows.take(Time::from_ps(9)).count(), 0);
        let all: Vec<LinkRecord> = windows.take(Time::MAX).collect();
        let figures: Vec<_> = all
            .iter()
            .map(|record| {
                let window = record.window;
                let queues = (window.longest_queue, window.queue);
                (
                    record.start.as_ps(),
                    record.port,
                    window.frames,
                    queues,
                    window.busy_ps,
                )
            })
            .collect();
        assert_eq!(
            figures,
            [
                (0, 1, 0, (150, 150), 2),
                (10, 1, 0, (150, 150), 10),
                (20, 1, 1, (150, 50), 10),
                (30, 0, 0, (0, 0), 0),
                // The second frame's last bit is sent exactly at this window's start.
                (30, 1, 1, (50, 0), 0),
            ]
        );
        assert_eq!(all[3].window.drops, 1);
    }

    #[test]
    fn only_settled_windows_are_given_out() {
        let mut windows = Windows::new(Span::from_ps(10), 1);
        windows.note(0, Time::from_ps(1), 60, &passage(1, 4, 60));
        windows.note(0, Time::from_ps(12), 60, &passage(12, 15, 60));
        assert_eq!(windows.take(Time::from_ps(19)).count(), 1);
        let state = windows.save();
        let mut other = Windows::new(Span::from_ps(10), 1);
        assert!(other.restore(state.clone()));
        assert!(!Windows::new(Span::from_ps(10), 2).restore(state));
        assert_eq!(other, windows);
        assert_eq!(windows.take(Time::from_ps(20)).count(), 1);
    }
}
