//! Marks of congestion control.
//!
//! A switch marks a packet when it leaves, by the queue of its output and lane at that time. An output whose wire was idle for want of credits is a
//! victim of congestion further on, and not its root; an output to a host counts as a root at all times, since hosts mark no packets
//! (the `Victim_Mask` of the specification's annex A10).

use belljar_congestion::Leaving;
use belljar_sim::Time;

use crate::{Lossless, Parcel, Transit};

impl<P: Parcel> Lossless<P> {
    /// Marks a packet that leaves port `number` at `now`, if congestion control wants it. Called before the port counts the packet.
    pub(crate) fn mark(&mut self, now: Time, number: u32, transit: &mut Transit<P>) {
        let Some(control) = self.control.clone() else {
            return;
        };
        if self.is_of_host(number) {
            return;
        }
        let is_to_host = self.switch_behind(number).is_none();
        let port = &mut self.ports[number as usize];
        let bytes = transit.length();
        let is_root = is_to_host || now == port.since;
        let Some(lane) = port.lanes.get_mut(usize::from(transit.lane)) else {
            return;
        };
        let leaving = Leaving {
            output: (number, transit.lane),
            bytes,
            queue: lane.queue,
            is_root,
        };
        if lane.marker.marks(&control, &leaving) && transit.packet.mark() {
            port.figures.marks += 1;
        }
    }
}
