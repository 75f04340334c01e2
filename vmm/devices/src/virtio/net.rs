//! virtio-net: whole frames in and out, without offloads.
//!
//! A frame is handed to the guest whole or dropped and counted: where no buffer is there, up to
//! `BACKLOG` frames wait. What the guest sends is taken with the cycle of its notification, by
//! which the network orders it. The node delivers and takes frames.

use serde::{Deserialize, Serialize};
use std::collections::VecDeque;

use belljar_cpu::{Cycles, GuestRam};
use virtio_bindings::bindings::virtio_net as spec;

use super::{Device, DeviceError, Virtqueue};

const RECEIVE: usize = 0;
const TRANSMIT: usize = 1;

/// `struct virtio_net_hdr_v1`: no offload is ever used, so that only the count of
/// buffers, at its end, is not zero.
const HEADER: u64 = 12;
const HEADER_ONE_BUFFER: [u8; HEADER as usize] = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0];

/// Source, destination and type.
const ETHERNET_HEADER: u64 = 14;
const VLAN_TAG: u64 = 4;
/// Frames that wait for the driver's buffers; the next one is dropped, as a
/// network card's own ring would.
const BACKLOG: usize = 256;

/// Frames counted since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NetCounters {
    /// Frames that the guest sent.
    pub sent: u64,
    /// Frames handed to the guest.
    pub received: u64,
    /// Frames for the guest that found no buffer, no room in one, or no driver.
    pub dropped: u64,
    /// Chains of the guest that hold no frame of a legal length.
    pub malformed: u64,
}

/// A network card.
#[derive(Debug)]
pub struct Net {
    mac: [u8; 6],
    mtu: u16,
    backlog: VecDeque<Vec<u8>>,
    outgoing: Vec<(Cycles, Vec<u8>)>,
    counters: NetCounters,
}

/// A network card as it is saved: all but its address.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct NetState {
    backlog: Vec<Vec<u8>>,
    outgoing: Vec<(Cycles, Vec<u8>)>,
    counters: NetCounters,
}

impl Net {
    /// A card with address `mac` on a link that carries `mtu` bytes per frame
    /// after the Ethernet header.
    pub fn new(mac: [u8; 6], mtu: u16) -> Self {
        Self {
            mac,
            mtu,
            backlog: VecDeque::new(),
            outgoing: Vec::new(),
            counters: NetCounters::default(),
        }
    }

    /// When the first of the frames was sent that nobody took with
    /// [`take_frames`](Self::take_frames) yet.
    pub fn first_frame(&self) -> Option<Cycles> {
        self.outgoing.first().map(|(at, _)| *at)
    }

    /// Takes the frames sent since the last call, each with the cycle of the
    /// notification that sent it.
    pub fn take_frames(&mut self) -> Vec<(Cycles, Vec<u8>)> {
        std::mem::take(&mut self.outgoing)
    }

    /// What was counted.
    pub fn counters(&self) -> NetCounters {
        self.counters
    }

    /// Counts a frame that found no driver to take it.
    pub fn refuse(&mut self) {
        self.counters.dropped += 1;
    }

    /// A frame arrives from the wire.
    ///
    /// # Errors
    /// When the driver broke its queue.
    pub fn receive(
        &mut self,
        frame: Vec<u8>,
        queues: &mut [Virtqueue],
        ram: &GuestRam,
    ) -> Result<(), DeviceError> {
        if self.backlog.len() >= BACKLOG || frame.len() as u64 > self.longest_frame() {
            self.counters.dropped += 1;
            return Ok(());
        }
        self.backlog.push_back(frame);
        self.hand_over(queues, ram)
    }

    fn longest_frame(&self) -> u64 {
        u64::from(self.mtu) + ETHERNET_HEADER + VLAN_TAG
    }

    fn hand_over(&mut self, queues: &mut [Virtqueue], ram: &GuestRam) -> Result<(), DeviceError> {
        let Some(queue) = queues.get_mut(RECEIVE) else {
            return Ok(());
        };
        while let Some(frame) = self.backlog.front() {
            let Some(chain) = queue.pop(ram)? else {
                return Ok(());
            };
            let len = HEADER + frame.len() as u64;
            if chain.writable_len() < len {
                queue.undo_pop();
                self.counters.dropped += 1;
                self.backlog.pop_front();
                continue;
            }
            let whole = [&HEADER_ONE_BUFFER[..], frame].concat();
            // The room was checked just now.
            let _ = chain.write(ram, 0, &whole);
            queue.finish(ram, &chain, len as u32)?;
            self.counters.received += 1;
            self.backlog.pop_front();
        }
        Ok(())
    }

    fn transmit(
        &mut self,
        queues: &mut [Virtqueue],
        ram: &GuestRam,
        now: Cycles,
    ) -> Result<(), DeviceError> {
        let longest = self.longest_frame();
        let Some(queue) = queues.get_mut(TRANSMIT) else {
            return Ok(());
        };
        while let Some(chain) = queue.pop(ram)? {
            let len = chain.readable_len();
            let legal = (HEADER + ETHERNET_HEADER..=HEADER + longest).contains(&len);
            match legal.then(|| chain.read(ram, HEADER..len)).flatten() {
                Some(frame) => {
                    self.counters.sent += 1;
                    self.outgoing.push((now, frame));
                }
                None => self.counters.malformed += 1,
            }
            queue.finish(ram, &chain, 0)?;
        }
        Ok(())
    }
}

impl Device for Net {
    const KIND: u32 = 1;
    const QUEUES: &'static [u16] = &[256, 256];

    type State = NetState;

    fn save(&self) -> NetState {
        NetState {
            backlog: self.backlog.clone().into(),
            outgoing: self.outgoing.clone(),
            counters: self.counters,
        }
    }

    fn load(&mut self, saved: NetState, _live: bool, _ram: &GuestRam) -> Option<()> {
        self.backlog = saved.backlog.into();
        self.outgoing = saved.outgoing;
        self.counters = saved.counters;
        Some(())
    }

    fn features(&self) -> u64 {
        1 << spec::VIRTIO_NET_F_MAC | 1 << spec::VIRTIO_NET_F_STATUS | 1 << spec::VIRTIO_NET_F_MTU
    }

    fn config(&self) -> Vec<u8> {
        let mut config = self.mac.to_vec();
        config.extend_from_slice(&(spec::VIRTIO_NET_S_LINK_UP as u16).to_le_bytes());
        // One pair of queues.
        config.extend_from_slice(&1u16.to_le_bytes());
        config.extend_from_slice(&self.mtu.to_le_bytes());
        config
    }

    fn notify(
        &mut self,
        queue: usize,
        queues: &mut [Virtqueue],
        ram: &GuestRam,
        now: Cycles,
    ) -> Result<(), DeviceError> {
        match queue {
            RECEIVE => self.hand_over(queues, ram),
            _ => self.transmit(queues, ram, now),
        }
    }

    fn reset(&mut self) {
        self.counters.dropped += self.backlog.len() as u64;
        self.backlog.clear();
    }
}

#[cfg(test)]
mod tests;
