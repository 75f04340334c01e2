//! InfiniBand's reaction to congestion: an index into a table of delays.
//!
//! Each notification raises the index of a queue pair by `CCTI_Increase`, up to the end of the table. Each time that `CCTI_Timer` is over, the index
//! falls by one, down to `CCTI_Min`. The delay after a packet is a multiple of the packet's own time on the link. InfiniBand Architecture
//! Specification volume 1, annex A10.

use belljar_sim::{Span, Time};
use serde::{Deserialize, Serialize};

/// Units of delays in one time of a packet: entries have a multiplier and a shift of three bits at most.
pub const DELAY_UNITS: u64 = 8;

/// Settings of all queue pairs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableSettings {
    /// Steps of the index for a notification (`CCTI_Increase`).
    pub increase: u16,
    /// Time after which the index falls by one (`CCTI_Timer`). Not zero.
    pub timer: Span,
    /// The least index (`CCTI_Min`), within the table.
    pub least: u16,
    /// The delay after a packet for each index, in eighths of the packet's time on the link. Not empty.
    pub delays: Vec<u32>,
}

impl TableSettings {
    fn last(&self) -> u16 {
        u16::try_from(self.delays.len().saturating_sub(1)).unwrap_or(u16::MAX)
    }

    /// Periods of the timer that are over. It runs from time zero, for all queue pairs.
    fn periods(&self, now: Time) -> u64 {
        now.as_ps() / self.timer.as_ps().max(1)
    }
}

/// The state of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TableState {
    index: u16,
    /// Periods of the timer that are in the index.
    periods: u64,
}

impl TableState {
    /// The state without congestion.
    pub(crate) fn new(settings: &TableSettings, now: Time) -> Self {
        Self {
            index: settings.least.min(settings.last()),
            periods: settings.periods(now),
        }
    }

    /// The index falls with the timer.
    fn catch_up(&mut self, settings: &TableSettings, now: Time) {
        let periods = settings.periods(now);
        let over = periods.saturating_sub(self.periods);
        let fallen = u64::from(self.index).saturating_sub(over);
        // The index only falls, so that it stays in its range.
        self.index = u16::try_from(fallen)
            .unwrap_or(u16::MAX)
            .max(settings.least)
            .min(settings.last());
        self.periods = self.periods.max(periods);
    }

    pub(crate) fn notify(&mut self, settings: &TableSettings, now: Time) {
        self.catch_up(settings, now);
        let raised = self.index.saturating_add(settings.increase);
        self.index = raised.min(settings.last());
    }

    /// The delay after a packet that takes `own` on the link.
    pub(crate) fn delay(&mut self, settings: &TableSettings, now: Time, own: Span) -> Span {
        self.catch_up(settings, now);
        let units = settings.delays.get(usize::from(self.index)).copied();
        let product = u128::from(own.as_ps()) * u128::from(units.unwrap_or(0));
        let delay = product / u128::from(DELAY_UNITS);
        Span::from_ps(u64::try_from(delay).unwrap_or(u64::MAX >> 1))
    }
}
