//! Frames on their way through switches and links.
//!
//! A frame is forwarded by the routes of its switch, or flooded, and transmitted by a port, which queues or drops it. Called by `network` for its events.

use belljar_sim::{EventKey, Time};

use super::{
    Captured, Delivery, Direction, Fabric, KIND_ARRIVAL, NetworkEvent, TrafficClass,
    direction_from, port_number,
};
use crate::frame::Frame;
use crate::link::Exit;
use crate::routing::Passing;
use crate::topology::{Endpoint, LinkId};

impl Fabric {
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
        let port = &mut self.ports[link as usize][direction.index()];
        let source = port_number(link, direction);
        let outcome = port.send(ready, frame.length());
        let sequence = port.state.accepted;
        if let Some(windows) = &mut self.windows {
            windows.note(source, ready, frame.length() as u64, &outcome);
        }
        let Ok(passage) = outcome else {
            return false;
        };
        if self.watched[link as usize] && passage.start < passage.leaves {
            self.captured.push(Captured {
                time: passage.start,
                link,
                direction,
                frame: frame.clone(),
            });
        }
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
            source,
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

    pub(super) fn far_end(&self, link: LinkId, direction: Direction) -> Endpoint {
        self.topology.links()[link as usize].ends[1 - direction.index()]
    }
}
