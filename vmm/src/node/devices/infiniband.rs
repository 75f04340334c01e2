//! A node's InfiniBand card on its PCI bus.
//!
//! The bus finds the region of an access; this module connects the regions to the card and to the table of messages, and sends messages to the
//! interrupt controllers after each action. Times of the card are virtual time, those of the node cycles.

use belljar_cpu::{Cycles, GuestRam};
use belljar_devices::pci::{
    Bar, ConfigSpace, Header, MsiX, PCI_WINDOW, PciBus, Region, host_bridge,
};
use belljar_devices::{InterruptController, Moment};
use belljar_hca::{
    DEVICE, DOORBELLS, Hca, HcaCounters, HcaState, PairCongestion, REGISTERS, REVISION,
    VECTOR_PENDING, VECTOR_TABLE, VECTORS, VENDOR,
};
use belljar_sim::{Frequency, Time};
use serde::{Deserialize, Serialize};

use crate::config::InfinibandConfig;

/// The card's device number on the bus; the host bridge is device 0.
const DEVICE_NUMBER: usize = 1;
/// Regions of the card, by the numbers of their base address registers.
const REGISTER_BAR: usize = 0;
const DOORBELL_BAR: usize = 2;
/// Where firmware would have put them in the window.
const DOORBELLS_AT: u64 = PCI_WINDOW + DOORBELLS;
/// A network controller of no other kind.
const CLASS: u32 = 0x02_80_00;
/// Bytes of the table of messages and of the pending bits.
const TABLE_BYTES: u64 = VECTORS as u64 * 16;
const PENDING_BYTES: u64 = VECTORS as u64 / 8;

/// The card, the bus and the table of messages.
pub(super) struct InfinibandCard {
    bus: PciBus,
    messages: MsiX,
    pub(super) hca: Hca,
    frequency: Frequency,
}

/// Its state.
#[derive(Serialize, Deserialize)]
pub(super) struct InfinibandState {
    bus: PciBus,
    messages: MsiX,
    hca: Box<HcaState>,
}

impl InfinibandCard {
    pub(super) fn new(config: &InfinibandConfig, frequency: Frequency) -> Self {
        let mut card = ConfigSpace::new(&Header {
            vendor: VENDOR,
            device: DEVICE,
            revision: REVISION,
            class: CLASS,
            subsystem: (VENDOR, 0x0050),
        });
        let registers = Bar {
            number: REGISTER_BAR,
            size: REGISTERS,
            prefetchable: false,
        };
        let doorbells = Bar {
            number: DOORBELL_BAR,
            size: DOORBELLS,
            prefetchable: true,
        };
        card.add_bar(registers, PCI_WINDOW);
        card.add_bar(doorbells, DOORBELLS_AT);
        card.add_express(config.link.0, config.link.1);
        card.add_msix(
            VECTORS,
            REGISTER_BAR as u32,
            VECTOR_TABLE as u32,
            VECTOR_PENDING as u32,
        );
        Self {
            bus: PciBus::new(vec![host_bridge(), card]),
            messages: MsiX::new(VECTORS),
            hca: Hca::new(config.card.clone()),
            frequency,
        }
    }

    pub(super) fn save(&self) -> InfinibandState {
        InfinibandState {
            bus: self.bus.clone(),
            messages: self.messages.clone(),
            hca: Box::new(self.hca.save()),
        }
    }

    /// Loads the state of another card; `None` if this one cannot have it. Identity and delays stay its own.
    pub(super) fn load(&mut self, saved: InfinibandState) -> Option<()> {
        let fits = self.bus.is_like(&saved.bus) && self.messages.is_like(&saved.messages);
        if !fits {
            return None;
        }
        self.hca.load(*saved.hca)?;
        (self.bus, self.messages) = (saved.bus, saved.messages);
        Some(())
    }

    pub(super) fn read_port(&self, port: u16, len: u8) -> Option<u32> {
        self.bus.read_port(port, len)
    }

    /// Returns false if the port is not the bus's.
    pub(super) fn write_port(
        &mut self,
        port: u16,
        len: u8,
        data: u32,
        interrupts: &mut InterruptController,
        at: Moment,
    ) -> bool {
        let is_mine = self.bus.write_port(port, len, data);
        if is_mine {
            self.settle(interrupts, at);
        }
        is_mine
    }

    /// The card's region at a guest-physical address.
    pub(super) fn region(&self, addr: u64) -> Option<Region> {
        self.bus.region(addr)
    }

    pub(super) fn read(&self, region: Region, len: u8) -> u64 {
        if region.device != DEVICE_NUMBER || region.bar != REGISTER_BAR {
            return 0;
        }
        let within = |start: u64, bytes: u64| {
            let offset = region.offset.checked_sub(start)?;
            (offset < bytes).then_some(offset)
        };
        if let Some(offset) = within(VECTOR_TABLE, TABLE_BYTES) {
            return self.messages.read(offset, len);
        }
        match within(VECTOR_PENDING, PENDING_BYTES) {
            Some(offset) => self.messages.read_pending(offset, len),
            None => self.hca.read_register(region.offset, len),
        }
    }

    pub(super) fn write(
        &mut self,
        region: Region,
        (len, value): (u8, u64),
        ram: &GuestRam,
        interrupts: &mut InterruptController,
        at: Moment,
    ) {
        let now = self.frequency.time_of(at.now);
        let in_table = (VECTOR_TABLE..VECTOR_TABLE + TABLE_BYTES).contains(&region.offset);
        match (region.device, region.bar) {
            (DEVICE_NUMBER, REGISTER_BAR) if in_table => {
                self.messages
                    .write(region.offset - VECTOR_TABLE, len, value);
            }
            (DEVICE_NUMBER, REGISTER_BAR) => {
                self.hca.write_register(region.offset, len, value, ram, now);
            }
            (DEVICE_NUMBER, DOORBELL_BAR) => {
                self.hca.write_doorbell(region.offset, len, value, ram, now);
            }
            _ => {}
        }
        self.settle(interrupts, at);
    }

    /// A packet takes effect.
    pub(super) fn receive(
        &mut self,
        packet: &[u8],
        ram: &GuestRam,
        interrupts: &mut InterruptController,
        at: Moment,
    ) {
        let now = self.frequency.time_of(at.now);
        self.hca.receive(packet, ram, now);
        self.settle(interrupts, at);
    }

    /// The cycle of the card's next event.
    pub(super) fn deadline(&self) -> Option<Cycles> {
        self.hca.deadline().map(|at| self.frequency.cycle_at(at))
    }

    /// The cycle of the card's first event after `now`.
    pub(super) fn event_after(&self, now: Cycles) -> Option<Cycles> {
        let next = self.hca.event_after(self.frequency.time_of(now))?;
        Some(self.frequency.cycle_at(next))
    }

    /// Handles events due at or before `at`.
    pub(super) fn advance(
        &mut self,
        ram: &GuestRam,
        interrupts: &mut InterruptController,
        at: Moment,
    ) {
        if self.deadline().is_none_or(|deadline| deadline > at.now) {
            return;
        }
        let now = self.frequency.time_of(at.now);
        self.hca.advance(ram, now);
        self.settle(interrupts, at);
    }

    /// Sends the messages that the card requested and that are not masked.
    fn settle(&mut self, interrupts: &mut InterruptController, at: Moment) {
        for vector in self.hca.take_vectors() {
            self.messages.request(vector);
        }
        let Some(function) = self.bus.function(DEVICE_NUMBER) else {
            return;
        };
        let (enabled, masked) = function.msix_control();
        for message in self.messages.take(enabled && function.is_master(), masked) {
            interrupts.message(message.address, message.data, at);
        }
    }

    /// A cycle no later than the first packet's that [`take_packets`](Self::take_packets) has not taken.
    pub(super) fn first_packet(&self) -> Option<Cycles> {
        self.hca
            .first_packet()
            .map(|at| self.frequency.cycle_at(at))
    }

    /// The packets that the card sent since the last call.
    pub(super) fn take_packets(&mut self) -> Vec<(Time, Vec<u8>)> {
        self.hca.take_packets()
    }

    pub(super) fn counters(&self) -> HcaCounters {
        self.hca.counters()
    }

    /// Figures of congestion control, by the number of the queue pair.
    pub(super) fn congestion(&self) -> Vec<(u32, PairCongestion)> {
        let pairs = self.hca.congestion().iter();
        pairs.map(|(number, figures)| (*number, *figures)).collect()
    }
}
