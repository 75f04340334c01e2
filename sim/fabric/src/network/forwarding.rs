//! Frames on their way through switches and links.
//!
//! A frame is forwarded by the routes of its switch, or flooded, and transmitted by a port, which queues or drops it. Called by `network` for its events.

use belljar_sim::{EventKey, Time};

use super::{
    Captured, Delivery, Direction, Fabric, KIND_ARRIVAL, NetworkEvent, TrafficClass,
    direction_from, port_number,
};
use crate::frame::Frame;
use crate::link::{Exit, Passage};
use crate::routing::Passing;
use crate::topology::{Endpoint, LinkId};

impl Fabric {
    /// Puts a frame of a host onto its link, or loses it there by the user's choice.
    pub(super) fn leave_card(
        &mut self,
        time: Time,
        host: u32,
        frame: Frame,
        traffic: TrafficClass,
    ) {
        let link = self.topology.link_of(host);
        if traffic == TrafficClass::Background {
            self.transmit(time, link, Direction::Up, None, frame, traffic);
            return;
        }
        let sent = |to| self.wire.frames(host, to);
        let chosen = self.losses.of(time, host, &frame, sent);
        let counted = frame.clone();
        let is_accepted = match chosen {
            None => self.transmit(time, link, Direction::Up, None, frame, traffic),
            Some(index) => {
                let passage = self.enqueue(time, link, Direction::Up, &frame, true);
                if passage.is_some() {
                    self.losses.note(index, time);
                }
                passage.is_some()
            }
        };
        if is_accepted {
            let hosts = self.topology.hosts();
            self.wire.note(host, hosts, &counted.head());
        }
    }

    /// All addresses are known from the start: switches do not flood for unknown ones.
    pub(super) fn forward(
        &mut self,
        time: Time,
        over: LinkId,
        direction: Direction,
        via: Option<u32>,
        frame: Frame,
        traffic: TrafficClass,
    ) {
        let Endpoint::Switch(switch) = self.far_end(over, direction) else {
            return;
        };
        let ready = time + self.topology.switches()[switch as usize].latency;
        let Some(destination) = frame.destination() else {
            return;
        };
        if destination.is_group() {
            self.flood(ready, switch, over, &frame, traffic);
            return;
        }
        let host = destination.host_index();
        let Some(host) = host.filter(|&host| host < self.topology.hosts()) else {
            return;
        };
        let ends = self.topology.links()[over as usize].ends;
        let head = self.router.reads_frames().then(|| frame.head());
        let passing = Passing {
            switch,
            host,
            frame: head.as_deref().unwrap_or_default(),
            via,
            enters: matches!(ends[direction.index()], Endpoint::Host(_)),
            salt: ready.as_ps(),
        };
        let (topology, ports) = (&self.topology, &self.ports);
        let load = |link: LinkId| {
            let out = direction_from(topology, switch, link);
            ports[link as usize][out.index()].busy_for(ready).as_ps()
        };
        match self.router.towards(topology, passing, &load) {
            // A frame from a host to itself is not delivered.
            Some((link, _)) if link == over && link == self.topology.link_of(host) => {}
            Some((link, via)) => {
                let out = direction_from(&self.topology, switch, link);
                self.transmit(ready, link, out, via, frame, traffic);
            }
            None => self.unroutable += 1,
        }
    }

    /// Sends a frame over all links of the spanning tree except the one it came from. If it came over a link outside the tree, the tree has just changed, and the frame
    /// is dropped.
    pub(super) fn flood(
        &mut self,
        ready: Time,
        switch: u32,
        over: LinkId,
        frame: &Frame,
        traffic: TrafficClass,
    ) {
        if !self.router.floods(&self.topology, over) {
            return;
        }
        for index in 0..self.topology.links_at(switch).len() {
            let link = self.topology.links_at(switch)[index];
            if link != over && self.router.floods(&self.topology, link) {
                let out = direction_from(&self.topology, switch, link);
                self.transmit(ready, link, out, None, frame.clone(), traffic);
            }
        }
    }

    /// Puts a frame into a link's queue; true if there was room.
    pub(super) fn transmit(
        &mut self,
        ready: Time,
        link: LinkId,
        direction: Direction,
        via: Option<u32>,
        frame: Frame,
        traffic: TrafficClass,
    ) -> bool {
        let Some((passage, sequence)) = self.enqueue(ready, link, direction, &frame, false) else {
            return false;
        };
        let Exit::Arrives(time) = passage.exit else {
            return true;
        };
        if let Endpoint::Host(host) = self.far_end(link, direction) {
            self.deliveries.push(Delivery {
                time,
                host,
                traffic,
                frame,
            });
            return true;
        }
        let key = EventKey {
            time,
            kind: KIND_ARRIVAL,
            source: port_number(link, direction),
            sequence,
        };
        let event = NetworkEvent::Arrival {
            link,
            direction,
            via,
            frame,
        };
        self.queue(traffic).push(key, event);
        true
    }

    /// Puts a frame into a link's queue, and counts and captures it there. Returns its passage and its number on the link; `None` if there was no room.
    /// A frame that `is_lost` does not arrive.
    fn enqueue(
        &mut self,
        ready: Time,
        link: LinkId,
        direction: Direction,
        frame: &Frame,
        is_lost: bool,
    ) -> Option<(Passage, u64)> {
        let port = &mut self.ports[link as usize][direction.index()];
        let outcome = match is_lost {
            true => port.lose(ready, frame.length()),
            false => port.send(ready, frame.length()),
        };
        let sequence = port.state.accepted;
        if let Some(windows) = &mut self.windows {
            let source = port_number(link, direction);
            windows.note(source, ready, frame.length() as u64, &outcome);
        }
        let passage = outcome.ok()?;
        if self.watched[link as usize] && passage.start < passage.leaves {
            self.captured.push(Captured {
                time: passage.start,
                link,
                direction,
                frame: frame.clone(),
            });
        }
        Some((passage, sequence))
    }

    pub(super) fn far_end(&self, link: LinkId, direction: Direction) -> Endpoint {
        self.topology.links()[link as usize].ends[1 - direction.index()]
    }
}
