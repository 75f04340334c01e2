//! DCQCN's reaction to congestion: a rate.
//!
//! A notification cuts the rate by half of the factor alpha, an estimate of how often notifications come. Without notifications the rate rises in
//! three phases, by events of a timer and of a counter of bytes: back to the target by halves, then with the target by a fixed step, then faster.
//! Zhu and others, "Congestion Control for Large-Scale RDMA Deployments" (SIGCOMM 2015), section 3.1 and figure 7.

use belljar_sim::{Span, Time};
use serde::{Deserialize, Serialize};

/// One, as a fraction of 2^32.
const ONE: u64 = 1 << 32;

/// Settings of all queue pairs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RateSettings {
    /// Weight of the newest notification in alpha, in units of 2^-32 (`g`).
    pub gain: u64,
    /// Time without notifications after which alpha falls (`K`). Not zero.
    pub alpha_timer: Span,
    /// Time after which the rate rises (`T`). Not zero.
    pub timer: Span,
    /// Bytes after which the rate rises (`B`). Not zero.
    pub bytes: u64,
    /// Events of the timer or of the counter by which the rate returns to its target (`F`).
    pub recovery: u32,
    /// Step of the target afterwards, in bits per second (`R_AI`).
    pub additive: u64,
    /// Step of the target when both have had so many events, in bits per second (`R_HAI`).
    pub hyper: u64,
    /// The least rate, in bits per second. Not zero.
    pub least: u64,
}

/// The state of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RateState {
    /// Bits per second.
    rate: u64,
    target: u64,
    /// In units of 2^-32.
    alpha: u64,
    /// When alpha falls, and when the timer is over.
    alpha_at: Time,
    timer_at: Time,
    /// Events of the timer and of the counter since the last notification.
    timer_events: u32,
    byte_events: u32,
    /// Bytes since the counter's last event.
    bytes: u64,
}

impl RateState {
    /// The state before the first notification.
    pub(crate) fn new(settings: &RateSettings, now: Time, line: u64) -> Self {
        Self {
            rate: line,
            target: line,
            alpha: ONE,
            alpha_at: now + settings.alpha_timer,
            timer_at: now + settings.timer,
            timer_events: 0,
            byte_events: 0,
            bytes: 0,
        }
    }

    pub(crate) fn notify(&mut self, settings: &RateSettings, now: Time, line: u64) {
        self.catch_up(settings, now, line);
        self.target = self.rate;
        // rate * (1 - alpha / 2)
        let cut = (u128::from(self.rate) * u128::from(self.alpha)) >> 33;
        let cut = u64::try_from(cut).unwrap_or(self.rate);
        self.rate = (self.rate - cut.min(self.rate)).max(settings.least.min(line));
        self.alpha = (self.faded(settings) + settings.gain).min(ONE);
        self.alpha_at = now + settings.alpha_timer;
        self.timer_at = now + settings.timer;
        (self.timer_events, self.byte_events, self.bytes) = (0, 0, 0);
    }

    /// The delay after a packet of `bytes` that begins at `now`, apart from its own time at the link's rate.
    pub(crate) fn delay(
        &mut self,
        settings: &RateSettings,
        now: Time,
        bytes: u64,
        line: u64,
    ) -> Span {
        self.catch_up(settings, now, line);
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes >= settings.bytes {
            // A packet is shorter than the counter's range.
            self.bytes %= settings.bytes.max(1);
            self.byte_events = self.byte_events.saturating_add(1);
            self.rise(settings, line);
        }
        let [own, slow] = [line, self.rate].map(|rate| Span::of_transfer(bytes, rate.max(1)));
        Span::from_ps(slow.as_ps().saturating_sub(own.as_ps()))
    }

    /// Alpha after a time without notifications: (1 - g) alpha.
    fn faded(&self, settings: &RateSettings) -> u64 {
        let part = u128::from(self.alpha) * u128::from(settings.gain) / u128::from(ONE);
        // At least one unit, so that alpha reaches zero.
        let part = u64::try_from(part).unwrap_or(self.alpha).max(1);
        self.alpha.saturating_sub(part)
    }

    /// Applies the events of timers up to `now`. Values of a loaded state are brought into their ranges.
    fn catch_up(&mut self, settings: &RateSettings, now: Time, line: u64) {
        (self.rate, self.target) = (self.rate.min(line), self.target.min(line));
        self.alpha = self.alpha.min(ONE);
        while self.alpha_at <= now && self.alpha > 0 {
            self.alpha = self.faded(settings);
            self.alpha_at += settings.alpha_timer;
        }
        while self.timer_at <= now && (self.rate < line || self.target < line) {
            self.timer_events = self.timer_events.saturating_add(1);
            self.rise(settings, line);
            self.timer_at += settings.timer;
        }
        if self.timer_at <= now {
            // At the link's rate, events have no effect.
            self.timer_at = now + settings.timer;
        }
        if self.alpha_at <= now {
            self.alpha_at = now + settings.alpha_timer;
        }
    }

    /// An event of the timer or of the counter.
    fn rise(&mut self, settings: &RateSettings, line: u64) {
        let [less, more] = {
            let (one, other) = (self.timer_events, self.byte_events);
            [one.min(other), one.max(other)]
        };
        if less > settings.recovery {
            let times = u64::from(less - settings.recovery);
            let step = settings.hyper.saturating_mul(times);
            self.target = self.target.saturating_add(step);
        } else if more > settings.recovery {
            self.target = self.target.saturating_add(settings.additive);
        }
        self.target = self.target.min(line);
        // Rounded up, so that the rate reaches its target.
        self.rate = (self.rate + self.target).div_ceil(2).min(line);
    }
}
