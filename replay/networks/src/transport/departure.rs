//! Departure of frames: connections take turns at their host, and their timers are monitored.
//!
//! Acknowledgements release frames in the host's kernel, before those of its processes. Used by `transport` for events, and when a message is sent.

use belljar_sim::Time;

use super::event::Event;
use super::mark::Mark;
use super::sender::Leaving;
use super::{Outgoing, Transport};

impl Transport {
    /// Queues a connection that may send from `time` on; an `urgent` one precedes the connections of processes.
    pub(super) fn line_up(&mut self, time: Time, number: u32, urgent: bool) {
        self.watch(number);
        let Some(connection) = self.state.connections.get_mut(number) else {
            return;
        };
        if connection.queued || !connection.sender.may_send() {
            return;
        }
        connection.queued = true;
        let from = connection.from;
        let host = &mut self.state.hosts[from as usize];
        match urgent {
            true => host.urgent.push_back(number),
            false => host.usual.push_back(number),
        }
        if !std::mem::replace(&mut host.busy, true) {
            let at = time.max(host.free);
            self.schedule(at, Event::Leave(from));
        }
    }

    /// Sends a host's next frame.
    pub(super) fn leave(&mut self, now: Time, from: u32) {
        self.state.hosts[from as usize].busy = false;
        while let Some((number, urgent)) = self.state.hosts[from as usize].pop() {
            let Some(connection) = self.state.connections.get_mut(number) else {
                continue;
            };
            connection.queued = false;
            let Some(leaving) = connection.sender.take(now) else {
                continue;
            };
            let to = connection.to;
            let more = connection.sender.may_send();
            let continues = more && connection.sender.continues();
            connection.queued = more;
            self.segment(now, from, to, number, leaving);
            self.watch(number);
            let pace = self.paces.of(from).sends;
            let host = &mut self.state.hosts[from as usize];
            if continues {
                // The work for a message's first frame is part of the call that sends it.
                host.free = now + pace;
            }
            match (more, urgent) {
                (true, true) => host.urgent.push_front(number),
                (true, false) => host.usual.push_front(number),
                (false, _) => {}
            }
            break;
        }
        let host = &mut self.state.hosts[from as usize];
        if !host.urgent.is_empty() || !host.usual.is_empty() {
            host.busy = true;
            let at = host.free.max(now);
            self.schedule(at, Event::Leave(from));
        }
    }

    pub(super) fn segment(
        &mut self,
        now: Time,
        from: u32,
        to: u32,
        connection: u32,
        leaving: Leaving,
    ) {
        let mark = Mark::Segment(connection, leaving);
        self.put(now, from, to, mark, leaving.data as u32);
    }

    /// Sends a frame from one host to another.
    pub(super) fn put(&mut self, now: Time, from: u32, to: u32, mark: Mark, data: u32) {
        let host = &mut self.state.hosts[from as usize];
        self.outbox.push(Outgoing {
            time: now,
            host: from,
            to,
            sequence: host.frames,
            mark,
            data,
        });
        host.frames += 1;
    }

    /// Schedules an event for the expiry of a sender's timer.
    pub(super) fn watch(&mut self, number: u32) {
        let Some(connection) = self.state.connections.get_mut(number) else {
            return;
        };
        if let Some(due) = connection.sender.due()
            && connection.alarm.is_none_or(|alarm| due < alarm)
        {
            connection.alarm = Some(due);
            self.schedule(due, Event::Expire(number));
        }
    }

    /// Handles the expiry of a sender's timer, unless it was reset since.
    pub(super) fn expire(&mut self, now: Time, number: u32) {
        let Some(connection) = self.state.connections.get_mut(number) else {
            return;
        };
        if connection.alarm.is_some_and(|alarm| alarm <= now) {
            connection.alarm = None;
        }
        if connection.sender.due().is_some_and(|due| due <= now) {
            connection.sender.expire(now);
        }
        self.line_up(now, number, true);
    }
}
