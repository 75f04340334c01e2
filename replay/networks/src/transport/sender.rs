//! The sending end of a connection: which segment goes next, and which are lost.
//!
//! Messages are one stream of segments, each message from a segment of its own on. Losses are found by RACK and tail loss probes (RFC 8985) with selective acknowledgements (RFC
//! 2018), and else by the retransmission timeout (RFC 6298). In recovery the window shrinks by proportional rate reduction (RFC 6937). Called by `transport` for each segment and
//! acknowledgement.

use std::collections::VecDeque;

use belljar_sim::{Span, Time};
use serde::{Deserialize, Serialize};

use super::congestion::Congestion;
use super::receiver::{Acknowledgement, offered};
use super::rtt::{RoundTrip, expiry};
use super::state::MOST_COUNTED;
use crate::network::{MOST_BYTES, SEGMENT, frames_of};

/// Segments with selective acknowledgements from which earlier ones count as lost at once.
const OVERTAKEN: u64 = 3;

/// A segment that was sent, and that no cumulative acknowledgement covers.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Segment {
    /// When it was sent last.
    sent: Time,
    data: u16,
    /// Begins a message.
    first: bool,
    /// Ends a message.
    last: bool,
    fate: Fate,
    /// It was sent more than once.
    repeated: bool,
}

/// State of a segment at its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Fate {
    UnderWay,
    /// It has come, though not all before it have.
    Come,
    Lost,
    /// It was lost, and is under way again.
    Again,
}

/// A message with segments that were never sent.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Unsent {
    /// Bytes that are left.
    bytes: u64,
    /// No segment of it was sent.
    whole: bool,
}

/// Phase of loss recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Phase {
    Open,
    /// Fast recovery, until all before `high` has come.
    Recovery {
        high: u64,
        /// The window before.
        window: u64,
        delivered: u64,
        sent: u64,
    },
    /// After a timeout, until all before this segment has come.
    Loss {
        high: u64,
    },
}

/// Purpose of a timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Timer {
    Probe,
    Reordering,
    Timeout,
}

/// A segment on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) struct Leaving {
    /// Its number among those of the connection.
    pub(super) number: u64,
    /// Bytes; known where it leaves alone.
    pub(super) data: u64,
    pub(super) first: bool,
    pub(super) last: bool,
}

/// The sending end of a connection.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Sender {
    unsent: VecDeque<Unsent>,
    /// Segments of all messages so far.
    queued: u64,
    /// The next that was never sent.
    next: u64,
    /// All before this one have come.
    known: u64,
    /// From `known` to `next`.
    flight: VecDeque<Segment>,
    come: u64,
    lost: u64,
    again: u64,
    congestion: Congestion,
    trip: RoundTrip,
    phase: Phase,
    /// Of the segments that have come: when the one that was sent last was sent, its number, and its round trip.
    newest: (Time, u64, Span),
    /// A tail loss probe is due: one segment leaves beyond the window.
    probe: bool,
    /// A probe has left, and nothing was acknowledged since.
    probed: bool,
    timer: Option<(Time, Timer)>,
    /// The window was full when segments under way were counted last.
    limited: bool,
    /// Segments under way, at most, since the one before this number was sent.
    most: u64,
    most_until: u64,
}

impl Default for Sender {
    fn default() -> Self {
        Self {
            unsent: VecDeque::new(),
            queued: 0,
            next: 0,
            known: 0,
            flight: VecDeque::new(),
            come: 0,
            lost: 0,
            again: 0,
            congestion: Congestion::default(),
            trip: RoundTrip::default(),
            phase: Phase::Open,
            newest: (Time::ZERO, 0, Span::ZERO),
            probe: false,
            probed: false,
            timer: None,
            limited: false,
            most: 0,
            most_until: 0,
        }
    }
}

impl Sender {
    /// The connection was made in this time.
    pub(super) fn shook_hands(&mut self, trip: Span) {
        self.trip.sample(trip);
    }

    /// A message of so many bytes follows: the number after its last segment.
    pub(super) fn push(&mut self, bytes: u64) -> u64 {
        self.unsent.push_back(Unsent { bytes, whole: true });
        self.queued += frames_of(bytes);
        self.queued
    }

    /// Segments of all messages so far.
    pub(super) fn queued(&self) -> u64 {
        self.queued
    }

    /// Segments that were sent, each once.
    pub(super) fn sent(&self) -> u64 {
        self.next
    }

    fn under_way(&self) -> u64 {
        self.flight.len() as u64 - self.come - self.lost + self.again
    }

    /// True if a segment may leave now.
    pub(super) fn may_send(&self) -> bool {
        if self.probe {
            return true;
        }
        let room = self.under_way() < self.congestion.window();
        room && (self.lost > self.again || self.may_send_new())
    }

    fn may_send_new(&self) -> bool {
        self.next < self.queued && self.next - self.known < offered(self.known)
    }

    /// True if the next segment continues a message.
    pub(super) fn continues(&self) -> bool {
        self.lost > self.again || self.unsent.front().is_some_and(|it| !it.whole)
    }

    /// Sends the next segment, if one may leave.
    pub(super) fn take(&mut self, now: Time) -> Option<Leaving> {
        if std::mem::take(&mut self.probe) {
            return match self.may_send_new() {
                true => self.take_new(now),
                false => self.repeat(now, self.next.checked_sub(1)?),
            };
        }
        if self.under_way() >= self.congestion.window() {
            return None;
        }
        if self.lost > self.again {
            let at = self.flight.iter().position(|it| it.fate == Fate::Lost)?;
            self.flight[at].fate = Fate::Again;
            self.again += 1;
            return self.repeat(now, self.known + at as u64);
        }
        if !self.may_send_new() {
            return None;
        }
        self.take_new(now)
    }

    fn take_new(&mut self, now: Time) -> Option<Leaving> {
        let message = self.unsent.front_mut()?;
        let data = message.bytes.min(SEGMENT);
        let first = std::mem::take(&mut message.whole);
        message.bytes -= data;
        let last = message.bytes == 0;
        if last {
            self.unsent.pop_front();
        }
        if self.flight.is_empty() {
            self.congestion.idle(now, self.trip.timeout());
        }
        self.congestion.sent(now);
        self.flight.push_back(Segment {
            sent: now,
            data: data as u16,
            first,
            last,
            fate: Fate::UnderWay,
            repeated: false,
        });
        let number = self.next;
        self.next += 1;
        self.use_window();
        self.count_sent();
        if self.phase == Phase::Open || self.timer.is_none() {
            self.arm(now);
        }
        Some(Leaving {
            number,
            data,
            first,
            last,
        })
    }

    fn repeat(&mut self, now: Time, number: u64) -> Option<Leaving> {
        let at = usize::try_from(number.checked_sub(self.known)?).ok()?;
        let segment = self.flight.get_mut(at)?;
        segment.sent = now;
        segment.repeated = true;
        let leaving = Leaving {
            number,
            data: u64::from(segment.data),
            first: segment.first,
            last: segment.last,
        };
        self.count_sent();
        if self.timer.is_none() {
            self.arm(now);
        }
        Some(leaving)
    }

    fn count_sent(&mut self) {
        if let Phase::Recovery { sent, .. } = &mut self.phase {
            *sent += 1;
        }
    }

    /// Takes an acknowledgement.
    pub(super) fn acknowledge(&mut self, now: Time, acknowledgement: Acknowledgement) {
        let before = self.come + self.known;
        let known = acknowledgement.known.min(self.next);
        let ordered = known.saturating_sub(self.known);
        let mut sample = None;
        while self.known < known
            && let Some(segment) = self.flight.pop_front()
        {
            self.known += 1;
            match segment.fate {
                Fate::Come => self.come -= 1,
                _ => sample = self.has_come(segment, self.known - 1).or(sample),
            }
        }
        let (first, end) = acknowledgement.block;
        for number in first.max(self.known)..end.min(self.next) {
            let at = (number - self.known) as usize;
            let segment = self.flight[at];
            if segment.fate != Fate::Come {
                sample = self.has_come(segment, number).or(sample);
                self.flight[at].fate = Fate::Come;
                self.come += 1;
            }
        }
        if let Some(sent) = sample {
            let trip = now.since(sent);
            self.trip.sample(trip);
            self.congestion.sample(now, trip, self.known, self.next);
        }
        self.newest.2 = now.since(self.newest.0).min(self.newest.2);
        let delivered = (self.come + self.known).saturating_sub(before);
        self.after(now, ordered, delivered);
    }

    /// A segment has come, which was not known to have: when it was sent, if it was sent once.
    fn has_come(&mut self, segment: Segment, number: u64) -> Option<Time> {
        match segment.fate {
            Fate::Lost => self.lost -= 1,
            Fate::Again => {
                self.lost -= 1;
                self.again -= 1;
            }
            Fate::UnderWay | Fate::Come => {}
        }
        if (segment.sent, number) > (self.newest.0, self.newest.1) {
            self.newest = (segment.sent, number, Span::from_ps(u64::MAX));
        }
        (!segment.repeated).then_some(segment.sent)
    }

    /// Continues after an acknowledgement of so many segments in order, and so many in all.
    fn after(&mut self, now: Time, ordered: u64, delivered: u64) {
        if ordered > 0 {
            self.trip.progress();
            self.probed = false;
        }
        let lost = self.lost;
        let waits = match self.come > 0 || self.phase != Phase::Open {
            true => self.detect(now),
            false => false,
        };
        match self.phase {
            Phase::Recovery { high, .. } if self.known >= high => {
                self.congestion.set_window(self.congestion.threshold());
                self.phase = Phase::Open;
            }
            Phase::Loss { high } if self.known >= high => self.phase = Phase::Open,
            _ => {}
        }
        if self.phase == Phase::Open && self.lost > 0 {
            self.recover();
        }
        match self.phase {
            Phase::Recovery { .. } => {
                self.reduce(ordered > 0 && self.lost <= lost, delivered);
            }
            Phase::Open | Phase::Loss { .. } if ordered > 0 && self.is_limited() => {
                self.congestion.acknowledged(now, delivered);
            }
            _ => {}
        }
        match waits {
            true => self.timer = Some((self.trip.reordering(now), Timer::Reordering)),
            false if ordered > 0 || delivered > 0 => self.arm(now),
            false => {}
        }
    }

    /// Keeps the fullest use of the window since a round trip (RFC 7661).
    fn use_window(&mut self) {
        let under_way = self.under_way();
        let limited = under_way >= self.congestion.window();
        let more = !self.limited && under_way > self.most;
        if limited || more || self.known >= self.most_until {
            self.limited = limited;
            self.most = under_way;
            self.most_until = self.next;
        }
    }

    /// True if the window, and not the program, bounds the segments under way.
    fn is_limited(&self) -> bool {
        let half = self.congestion.is_slow_start() && self.congestion.window() < 2 * self.most;
        self.limited || half
    }

    /// Finds losses by time (RFC 8985, 6.2); true if a segment may turn out to be lost later.
    fn detect(&mut self, now: Time) -> bool {
        let few = self.come < OVERTAKEN && self.phase == Phase::Open;
        let (sent, number, trip) = self.newest;
        let patience = match few {
            true => trip + Span::from_ps(self.trip.least().as_ps() / 4),
            false => trip,
        };
        let mut waits = false;
        for (at, segment) in (self.known..).zip(&mut self.flight) {
            let open = matches!(segment.fate, Fate::UnderWay | Fate::Again);
            if !open || (segment.sent, at) >= (sent, number) {
                continue;
            }
            if now.since(segment.sent) < patience {
                waits = true;
                continue;
            }
            match segment.fate {
                Fate::Again => self.again -= 1,
                _ => self.lost += 1,
            }
            segment.fate = Fate::Lost;
        }
        waits
    }

    /// Fast recovery begins.
    fn recover(&mut self) {
        let window = self.congestion.window();
        self.congestion.reduce();
        self.phase = Phase::Recovery {
            high: self.next,
            window,
            delivered: 0,
            sent: 0,
        };
    }

    /// The window in recovery: proportional rate reduction (RFC 6937), with one segment more in slow start where there is `progress`: something came in order, and
    /// nothing turned out to be lost.
    fn reduce(&mut self, progress: bool, new: u64) {
        let (threshold, under_way) = (self.congestion.threshold(), self.under_way());
        let Phase::Recovery {
            window,
            delivered,
            sent,
            ..
        } = &mut self.phase
        else {
            return;
        };
        *delivered += new;
        let more = match under_way > threshold {
            true => (threshold * *delivered)
                .div_ceil((*window).max(1))
                .saturating_sub(*sent),
            false => {
                let credit = delivered.saturating_sub(*sent).max(new);
                (credit + u64::from(progress)).min(threshold - under_way)
            }
        };
        let more = more.max(u64::from(*sent == 0));
        self.congestion.set_window(under_way + more);
    }

    /// Sets the timer for the segments under way.
    fn arm(&mut self, now: Time) {
        if self.flight.is_empty() {
            self.timer = None;
            return;
        }
        let probes = self.phase == Phase::Open && self.come == 0 && !self.probed;
        self.timer = Some(match probes {
            true => (self.trip.probe(now, self.under_way()), Timer::Probe),
            false => (expiry(now, self.trip.timeout()), Timer::Timeout),
        });
    }

    /// When the timer expires.
    pub(super) fn due(&self) -> Option<Time> {
        self.timer.map(|(time, _)| time)
    }

    /// The timer has expired.
    pub(super) fn expire(&mut self, now: Time) {
        let Some((_, timer)) = self.timer.take() else {
            return;
        };
        match timer {
            Timer::Probe => {
                self.probed = true;
                // The timeout counts from the probe on.
                self.probe = true;
            }
            Timer::Reordering => {
                self.detect(now);
                if self.phase == Phase::Open && self.lost > 0 {
                    self.recover();
                    self.reduce(false, 0);
                }
                self.arm(now);
            }
            Timer::Timeout => self.time_out(now),
        }
    }

    /// All that is under way counts as lost.
    fn time_out(&mut self, now: Time) {
        if !matches!(self.phase, Phase::Loss { .. }) {
            self.congestion.reduce();
        }
        self.phase = Phase::Loss { high: self.next };
        self.congestion.set_window(1);
        self.trip.double();
        self.again = 0;
        self.lost = 0;
        for segment in &mut self.flight {
            if segment.fate != Fate::Come {
                segment.fate = Fate::Lost;
                self.lost += 1;
            }
        }
        self.timer = Some((expiry(now, self.trip.timeout()), Timer::Timeout));
    }

    /// True if these values can be those of a sender.
    pub(super) fn is_sound(&self) -> bool {
        let count = |fate| self.flight.iter().filter(|it| it.fate == fate).count() as u64;
        let (lost, again) = (count(Fate::Lost), count(Fate::Again));
        let unsent: Option<u64> = self.unsent.iter().try_fold(0_u64, |sum, it| {
            let sound = it.bytes <= MOST_BYTES && (it.bytes > 0 || it.whole);
            sound.then(|| sum.saturating_add(frames_of(it.bytes)))
        });
        let segments = self.flight.iter().all(|it| u64::from(it.data) <= SEGMENT);
        self.queued <= MOST_COUNTED
            && self.next <= self.queued
            && unsent == Some(self.queued - self.next)
            && self.next.checked_sub(self.known) == Some(self.flight.len() as u64)
            && self.come == count(Fate::Come)
            && (self.lost, self.again) == (lost + again, again)
            && segments
            && self.congestion.is_sound()
            && self.trip.is_sound()
            && self.most.max(self.most_until).max(self.newest.1) <= MOST_COUNTED
            && self.phase.is_sound()
    }
}

impl Phase {
    fn is_sound(self) -> bool {
        match self {
            Self::Open => true,
            Self::Loss { high } => high <= MOST_COUNTED,
            Self::Recovery {
                high,
                window,
                delivered,
                sent,
            } => {
                let counts = [high, delivered, sent];
                window <= 1 << 20 && counts.iter().all(|it| *it <= MOST_COUNTED >> 20)
            }
        }
    }
}
