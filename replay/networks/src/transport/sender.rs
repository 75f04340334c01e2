//! The sending end of a connection: choice of the next segment, and detection of losses.
//!
//! Messages form one stream of segments, and each message begins with a new segment. Losses are found by RACK and tail loss probes (RFC 8985) with selective
//! acknowledgements (RFC 2018), and else by the retransmission timeout (RFC 6298). In recovery the window shrinks by proportional rate reduction (RFC 6937). Used by
//! `transport` for each segment and acknowledgement.

/// Acknowledgements.
mod acknowledged;
/// Losses and their repair.
mod recovery;
/// Checks of states.
mod soundness;

use std::collections::VecDeque;

use belljar_sim::{Span, Time};
use serde::{Deserialize, Serialize};

use super::congestion::Congestion;
use super::receiver::offered;
use super::rtt::RoundTrip;
use crate::message::{SEGMENT, frames_of};
use recovery::{RecoveryPhase, Timer};

/// A sent segment that is not covered by a cumulative acknowledgement.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct SentSegment {
    /// The time at which it was last sent.
    sent: Time,
    data: u16,
    /// True for the first segment of a message.
    first: bool,
    /// True for the last segment of a message.
    last: bool,
    fate: Fate,
    /// True if it was sent more than once.
    repeated: bool,
}

/// State of a segment at its sender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Fate {
    UnderWay,
    /// It has arrived, though not all segments before it have.
    Come,
    Lost,
    /// It was lost, and is in flight again.
    Again,
}

/// A message with segments that were never sent.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Unsent {
    /// Remaining bytes.
    bytes: u64,
    /// True if no segment of it was sent.
    whole: bool,
}

/// A segment in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Leaving {
    /// Its number among those of the connection.
    pub(super) number: u64,
    /// Bytes; only known when it leaves.
    pub(super) data: u64,
    pub(super) first: bool,
    pub(super) last: bool,
}

/// The sending end of a connection.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Sender {
    unsent: VecDeque<Unsent>,
    /// Number of segments of all messages so far.
    queued: u64,
    /// The next segment that was never sent.
    next: u64,
    /// All segments before this one have arrived.
    known: u64,
    /// From `known` to `next`.
    flight: VecDeque<SentSegment>,
    come: u64,
    lost: u64,
    again: u64,
    congestion: Congestion,
    trip: RoundTrip,
    phase: RecoveryPhase,
    /// Among the segments that have arrived, the one that was sent last: its time of sending, its number, and its round trip.
    newest: (Time, u64, Span),
    /// True if a tail loss probe is due: one segment leaves beyond the window.
    probe: bool,
    /// True if a probe has left, without a new acknowledgement since.
    probed: bool,
    timer: Option<(Time, Timer)>,
    /// True if the window was full when segments in flight were last counted.
    limited: bool,
    /// Most segments in flight since the one before this number was sent.
    most: u64,
    most_until: u64,
    /// True from the first loss on.
    has_lost: bool,
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
            phase: RecoveryPhase::Open,
            newest: (Time::ZERO, 0, Span::ZERO),
            probe: false,
            probed: false,
            timer: None,
            limited: false,
            most: 0,
            most_until: 0,
            has_lost: false,
        }
    }
}

impl Sender {
    /// Records the round trip of the handshake.
    pub(super) fn shook_hands(&mut self, trip: Span) {
        self.trip.sample(trip);
    }

    /// Adds a message of this many bytes, and returns the number after its last segment.
    pub(super) fn push(&mut self, bytes: u64) -> u64 {
        self.unsent.push_back(Unsent { bytes, whole: true });
        self.queued += frames_of(bytes);
        self.queued
    }

    /// True if a segment was ever lost.
    pub(super) fn has_lost(&self) -> bool {
        self.has_lost
    }

    /// Returns the number of segments of all messages so far.
    pub(super) fn queued(&self) -> u64 {
        self.queued
    }

    /// Returns the number of distinct sent segments.
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
        self.flight.push_back(SentSegment {
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
        if self.phase == RecoveryPhase::Open || self.timer.is_none() {
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
        if let RecoveryPhase::Recovery { sent, .. } = &mut self.phase {
            *sent += 1;
        }
    }

    /// Records the fullest use of the window since a round trip (RFC 7661).
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

    /// True if the window, and not the program, bounds the segments in flight.
    fn is_limited(&self) -> bool {
        let half = self.congestion.is_slow_start() && self.congestion.window() < 2 * self.most;
        self.limited || half
    }

    /// Returns the time at which the timer expires.
    pub(super) fn due(&self) -> Option<Time> {
        self.timer.map(|(time, _)| time)
    }
}
