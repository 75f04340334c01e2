//! Arrival of frames: a host processes them one after the other, and acknowledges them.
//!
//! All frames to a host arrive over its single link, in the order of time. The time at which a frame is processed is therefore known as soon as its arrival is known: it
//! is one event. Used by `transport` for events, and by networks of frames.

use belljar_fabric::Frame;
use belljar_sim::{Span, Time};

use super::Transport;
use super::connection::Connection;
use super::event::Event;
use super::mark::{Mark, mark_of};
use super::receiver::{Acknowledgement, Reply};
use super::rtt::expiry;
use super::sender::Leaving;
use crate::message::Arrival;

/// The longest time until a segment is acknowledged (`TCP_DELACK_MIN` of Linux).
const DELAYED: Span = Span::from_ms(40);

impl Transport {
    /// Handles a frame that arrives at a host at `at`, in the future or now.
    pub(crate) fn came(&mut self, at: Time, to: u32, frame: &Frame) {
        // A restored frame may be for another host, or of no connection.
        let Some(mark) = mark_of(frame) else {
            return;
        };
        let of = self.state.connections.get_mut(mark.connection());
        let ends = of.map(|of| (of.from, of.to));
        match (mark, ends) {
            (Mark::Acknowledgement(number, acknowledgement), Some((from, _))) if from == to => {
                self.acknowledgement_came(at, number, acknowledgement);
            }
            (Mark::Segment(number, segment), Some((_, receiver))) if receiver == to => {
                self.segment_came(at, number, segment);
            }
            _ => {}
        }
    }

    /// Handles an acknowledgement that arrives at a connection's sender at `at`, in the future or now.
    pub(crate) fn acknowledgement_came(
        &mut self,
        at: Time,
        number: u32,
        acknowledgement: Acknowledgement,
    ) {
        if let Some(of) = self.state.connections.get_mut(number) {
            let learned = of.learns(number, at);
            self.schedule(learned, Event::Acknowledged(number, acknowledgement));
        }
    }

    /// Handles a segment that arrives at a connection's receiver at `at`, in the future or now. Returns false if the host's card was full.
    pub(crate) fn segment_came(&mut self, at: Time, number: u32, segment: Leaving) -> bool {
        let of = self.state.connections.get_mut(number);
        let Some(of) = of.filter(|of| segment.number < of.sender.sent()) else {
            return true;
        };
        let to = of.to;
        let work = match segment.first {
            true => Span::ZERO,
            false => self.paces.of(to).receives,
        };
        let Some(taken) = self.state.hosts[to as usize].take_in(at, work) else {
            return false;
        };
        of.arriving.push_back(at);
        let event = match taken > at {
            true => Event::Taken(number, segment),
            false => Event::Comes(number, segment),
        };
        self.schedule(taken, event);
        true
    }

    /// Handles a segment that a host has processed.
    pub(super) fn taken(
        &mut self,
        now: Time,
        number: u32,
        segment: Leaving,
        arrived: &mut Vec<Arrival>,
    ) {
        let Some(of) = self.state.connections.get_mut(number) else {
            return;
        };
        if segment.number >= of.sender.sent() {
            return;
        }
        of.arriving.pop_front();
        let reply = of.receiver.take(segment.number);
        while let Some(id) = of.receiver.whole() {
            self.under_way = self.under_way.saturating_sub(1);
            arrived.push(Arrival { time: now, id });
        }
        self.reply(now, number, segment, reply);
    }

    /// Acknowledges a segment that a receiver has processed, now or later.
    pub(super) fn reply(&mut self, now: Time, number: u32, segment: Leaving, reply: Reply) {
        let Some(of) = self.state.connections.get_mut(number) else {
            return;
        };
        let (from, to) = (of.from, of.to);
        match reply {
            // The next segment of the batch has arrived. A segment that arrives now has not: hosts process earlier ones first.
            Reply::Batch if of.arriving.front().is_some_and(|came| *came < now) => {}
            Reply::Batch if segment.first && segment.last => {
                // The acknowledgement travels in a frame of other data.
                let acknowledgement = of.receiver.acknowledge(segment.number);
                let back = self.ways.between(&self.topology, to, from).empty();
                let event = Event::Acknowledged(number, acknowledgement);
                self.schedule(now + back, event);
            }
            Reply::Now | Reply::Batch => self.acknowledge(now, number, segment.number),
            Reply::Later => {
                if !std::mem::replace(&mut of.delayed, true) {
                    self.schedule(expiry(now, DELAYED), Event::Delayed(number));
                }
            }
        }
    }

    /// Sends an acknowledgement, with the block of `segment`.
    pub(super) fn acknowledge(&mut self, now: Time, number: u32, segment: u64) {
        let Some(of) = self.state.connections.get_mut(number) else {
            return;
        };
        let Connection { from, to, .. } = *of;
        let acknowledgement = of.receiver.acknowledge(segment);
        let mark = Mark::Acknowledgement(number, acknowledgement);
        self.put(now, to, from, mark, 0);
    }
}
