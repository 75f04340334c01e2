//! Congestion control of queue pairs.
//!
//! With control, a pair puts each packet of data on the link only when the one before it has left and its delay is over, so that a notification
//! takes effect at the next packet. A receiver of a marked packet notifies the sender: by its next acknowledgement for requests of reliable
//! connections with InfiniBand's own control, and by a notification packet for all else. Requester, responder and datagrams call this module; a
//! card without control has none of it.

use belljar_congestion::{CongestionControl, Notifier, Throttle};
use belljar_sim::{Span, Time};
use belljar_verbs::{FIRST_MULTICAST, Opcode, Operation, Packet, Service, wire_bytes};
use serde::{Deserialize, Serialize};

use crate::Step;
use crate::due::Due;
use crate::management::PARTITION;
use crate::pair::{PairService, QueuePair};

/// Bytes of data of a notification, all zero.
const NOTIFICATION_BYTES: usize = 16;
/// Pairs with figures of their own. Further ones share the figures of pair [`OTHER_PAIRS`].
const MOST_COUNTED: usize = 1 << 16;
/// The number under which all further pairs are counted.
const OTHER_PAIRS: u32 = u32::MAX;

/// Figures of a pair's congestion control.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PairCongestion {
    /// Local identifier of its peer; zero for datagrams.
    pub peer: u16,
    /// Marked packets received.
    pub marked: u64,
    /// Notifications sent to senders, in acknowledgements or by themselves.
    pub notifications_sent: u64,
    /// Notifications received.
    pub notifications_received: u64,
    /// Time for which packets waited for the pair's delay, in picoseconds.
    pub delay_ps: u64,
}

/// A pair's congestion control.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(crate) struct PairPace {
    throttle: Throttle,
    notifier: Notifier,
    /// When the last packet of data has left, and when the next one may begin.
    left: Time,
    next: Time,
    /// Since when a packet waits for its delay.
    waits_since: Option<Time>,
    /// A marked request has come since the last acknowledgement.
    is_marked: bool,
    /// The end of a delay is in the list of due events.
    is_timed: bool,
}

impl Step<'_> {
    /// True if the next packet of a pair's data may be prepared now. If not, the pair continues when its delay is nearly over. Packets are ready
    /// from `at` on.
    pub(crate) fn may_send(&mut self, pair: &mut QueuePair, at: Time) -> bool {
        let Some(begin) = self.preparation_of(pair, at) else {
            return true;
        };
        if !std::mem::replace(&mut pair.pace.is_timed, true) {
            self.core.due.push(begin, Due::Pace(pair.number));
        }
        false
    }

    /// The time at which the next packet of a pair's data must be prepared; `None` if that is now.
    pub(crate) fn preparation_of(&mut self, pair: &mut QueuePair, at: Time) -> Option<Time> {
        self.config.congestion.as_ref()?;
        // The card reads the data while the packet before is on the link.
        let delays = &self.config.delays;
        let lead = delays.answer + delays.fetch + Span::of_transfer(pair.mtu() as u64, delays.bus);
        if pair.pace.next <= self.now + lead {
            return None;
        }
        let pace = &mut pair.pace;
        let ready = at.max(pace.left);
        pace.waits_since.get_or_insert(ready);
        let begin = pace.next.as_ps().saturating_sub(lead.as_ps());
        Some(Time::from_ps(begin).max(self.now))
    }

    /// A delay is nearly over.
    pub(crate) fn end_delay(&mut self, pair: &mut QueuePair) {
        pair.pace.is_timed = false;
        self.proceed(pair, self.now + self.config.delays.answer);
    }

    /// The time from which a packet of data that is ready at `at` may be on the link: after the one before it and its delay.
    pub(crate) fn paced(&mut self, pair: &mut QueuePair, packet: &Packet, at: Time) -> Time {
        let Some(control) = self.config.congestion.clone() else {
            return at;
        };
        let line = self.config.identity.rate;
        let bytes = wire_bytes(packet.to_bytes().len());
        let pace = &mut pair.pace;
        let ready = pace.waits_since.take().unwrap_or(at.max(pace.left));
        let at = at.max(pace.next);
        let most = pace.next.since(pace.left);
        let delay = at.since(ready).min(most);
        pace.left = at + Span::of_transfer(bytes, line);
        pace.next = pace.left + pace.throttle.delay(&control, at, bytes, line);
        if delay > Span::ZERO {
            let figures = self.congestion_figures(pair);
            figures.delay_ps = figures.delay_ps.saturating_add(delay.as_ps());
        }
        at
    }

    /// Marks and notifications of a packet that arrived for a pair.
    pub(crate) fn note_congestion(&mut self, pair: &mut QueuePair, packet: &Packet) {
        let Some(control) = self.config.congestion.clone() else {
            return;
        };
        let is_datagram = packet.opcode.service == Service::Datagram;
        let has_peer = matches!(
            pair.service(),
            PairService::Reliable | PairService::Unreliable
        );
        if has_peer && packet.from != pair.peer_lid() {
            return;
        }
        if packet.notifies {
            let line = self.config.identity.rate;
            pair.pace.throttle.notify(&control, self.now, line);
            self.congestion_figures(pair).notifications_received += 1;
        }
        if !packet.is_marked {
            return;
        }
        self.congestion_figures(pair).marked += 1;
        let is_request = matches!(
            packet.opcode.operation,
            Operation::Send { .. } | Operation::Write { .. }
        );
        let is_acknowledged = is_request && packet.opcode.service == Service::Reliable;
        if is_acknowledged && matches!(*control, CongestionControl::Iba(_)) {
            pair.pace.is_marked = true;
            return;
        }
        let sender = match is_datagram {
            true => (packet.from, packet.extensions.source),
            false => (packet.from, pair.peer()),
        };
        let is_due = pair.pace.notifier.notifies(&control, sender, self.now);
        if is_due && packet.to < FIRST_MULTICAST {
            self.congestion_figures(pair).notifications_sent += 1;
            self.send_notification(packet, sender.1);
        }
    }

    /// Notifies the sender of a marked packet, which is this pair of its card.
    fn send_notification(&mut self, marked: &Packet, queue_pair: u32) {
        let packet = Packet {
            level: marked.level,
            to: marked.from,
            from: self.config.identity.lid,
            opcode: Opcode {
                service: Service::Notification,
                operation: Operation::Notify,
            },
            partition: PARTITION,
            notifies: true,
            queue_pair,
            payload: vec![0; NOTIFICATION_BYTES],
            ..Packet::default()
        };
        self.put_on_link(packet, self.now + self.config.delays.answer);
    }

    /// True if the next acknowledgement of a pair notifies its peer.
    pub(crate) fn takes_mark(&mut self, pair: &mut QueuePair) -> bool {
        let is_marked = std::mem::take(&mut pair.pace.is_marked);
        if is_marked {
            self.congestion_figures(pair).notifications_sent += 1;
        }
        is_marked
    }

    fn congestion_figures(&mut self, pair: &QueuePair) -> &mut PairCongestion {
        let all = &mut self.core.congestion;
        let is_counted = all.len() < MOST_COUNTED || all.contains_key(&pair.number);
        let number = if is_counted { pair.number } else { OTHER_PAIRS };
        let figures = all.entry(number).or_default();
        if matches!(
            pair.service(),
            PairService::Reliable | PairService::Unreliable
        ) && is_counted
        {
            figures.peer = pair.peer_lid();
        }
        figures
    }
}
