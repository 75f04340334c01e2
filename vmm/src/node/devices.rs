//! A node's devices and its two buses.
//!
//! Each address, port and pin belongs to one device; elsewhere, reads return ones and writes are
//! ignored. An access's effects on a device reach the interrupt controllers before the access
//! returns. `exits` performs the guest's accesses here, and the run loop handles due events.

use std::collections::BTreeSet;
use std::io;

use belljar_cpu::{Cycles, GuestRam};
use belljar_devices::virtio::{
    Block, BlockState, Console, ConsoleState, Entropy, Mmio, MmioState, Net, NetCounters, NetState,
    RegisterWindow,
};
use belljar_devices::{InterruptController, Moment, Power, Rtc, Serial, SerialState, TestDevice};
use belljar_hca::{HcaCounters, PairCongestion};
use belljar_sim::{Frequency, Random, Seed, Time};
use serde::{Deserialize, Serialize};

use infiniband::{InfinibandCard, InfinibandState};

use super::NodeError;
use crate::boot::slot_pin;
use crate::config::NodeConfig;
use crate::cpuid::crystal_divider;

/// Accesses of the processor to device registers: ports, and memory-mapped registers.
mod access;
/// The InfiniBand card on its PCI bus.
mod infiniband;

const SERIAL_PORTS: u16 = 8;
const RTC_DATA: u16 = Rtc::PORT + 1;
/// The address of a PCI bus, four bytes wide, which kernels probe. There is no bus, and its second
/// byte must not be mistaken for the reset port of the same number.
const PCI_ADDRESS: u16 = 0xcf8;

/// The devices, and the memory shared with the processor.
pub(super) struct Devices {
    pub(super) ram: GuestRam,
    pub(super) interrupts: InterruptController,
    pub(super) serial: Serial,
    /// `hvc0`, the control console, and the write-only consoles from `hvc1` on.
    consoles: Vec<Mmio<Console>>,
    pub(super) unknown_msrs: BTreeSet<u32>,
    frequency: Frequency,
    rtc: Rtc,
    power: Power,
    test: Option<TestDevice>,
    disks: Vec<(String, Mmio<Block>)>,
    net: Option<Mmio<Net>>,
    entropy: Mmio<Entropy>,
    infiniband: Option<Box<InfinibandCard>>,
}

/// The control console, between host and guest.
pub(super) const CONTROL: usize = 0;
/// The random stream of the entropy device.
const RANDOM_STREAM: &str = "virtio-rng";

/// Saved state of the devices.
#[derive(Serialize, Deserialize)]
pub(super) struct DevicesState {
    interrupts: InterruptController,
    serial: SerialState,
    consoles: Vec<MmioState<ConsoleState>>,
    unknown_msrs: BTreeSet<u32>,
    rtc: Rtc,
    power: Power,
    test: Option<TestDevice>,
    disks: Vec<MmioState<BlockState>>,
    net: Option<MmioState<NetState>>,
    entropy: MmioState<Entropy>,
    infiniband: Option<InfinibandState>,
}

impl Devices {
    pub(super) fn new(config: &NodeConfig, ram: GuestRam) -> Self {
        let random = Random::new(config.seed, RANDOM_STREAM, config.index);
        let disks = config.disks.iter().map(|disk| {
            let latency = config.cycles(disk.latency);
            let block = Block::new(disk.disk.clone(), &disk.name, latency);
            (disk.name.clone(), Mmio::new(block))
        });
        Self {
            ram,
            interrupts: InterruptController::new(config.vcpus, crystal_divider(config.frequency)),
            serial: Serial::default(),
            consoles: (0..config.consoles())
                .map(|_| Mmio::new(Console::new()))
                .collect(),
            unknown_msrs: BTreeSet::new(),
            frequency: config.frequency,
            rtc: Rtc::new(config.date),
            power: Power::default(),
            test: config.exit_device.then(TestDevice::default),
            disks: disks.collect(),
            net: config
                .net
                .map(|net| Mmio::new(Net::new(net.mac, net.link(config.frequency)))),
            entropy: Mmio::new(Entropy::new(random)),
            infiniband: config
                .infiniband
                .as_ref()
                .map(|card| Box::new(InfinibandCard::new(card, config.frequency))),
        }
    }

    /// The state of all devices.
    pub(super) fn save(&self) -> DevicesState {
        DevicesState {
            interrupts: self.interrupts.clone(),
            serial: self.serial.save(),
            consoles: self.consoles.iter().map(Mmio::save).collect(),
            unknown_msrs: self.unknown_msrs.clone(),
            rtc: self.rtc.clone(),
            power: self.power,
            test: self.test.clone(),
            disks: self.disks.iter().map(|(_, disk)| disk.save()).collect(),
            net: self.net.as_ref().map(Mmio::save),
            entropy: self.entropy.save(),
            infiniband: self.infiniband.as_ref().map(|card| card.save()),
        }
    }

    /// Loads the state of another node's devices; `None` if they differ from these in kind.
    pub(super) fn load(&mut self, saved: DevicesState) -> Option<()> {
        let alike = saved.disks.len() == self.disks.len()
            && saved.consoles.len() == self.consoles.len()
            && saved.net.is_some() == self.net.is_some()
            && saved.test.is_some() == self.test.is_some()
            && saved.infiniband.is_some() == self.infiniband.is_some()
            && saved.interrupts.processors() == self.interrupts.processors();
        if !alike {
            return None;
        }
        self.interrupts = saved.interrupts;
        self.serial.load(saved.serial)?;
        for (console, saved) in self.consoles.iter_mut().zip(saved.consoles) {
            console.load(saved, &self.ram)?;
        }
        self.unknown_msrs = saved.unknown_msrs;
        self.rtc = saved.rtc;
        self.power = saved.power;
        self.test = saved.test;
        for ((_, disk), saved) in self.disks.iter_mut().zip(saved.disks) {
            disk.load(saved, &self.ram)?;
        }
        if let (Some(net), Some(saved)) = (&mut self.net, saved.net) {
            net.load(saved, &self.ram)?;
        }
        if let (Some(card), Some(saved)) = (&mut self.infiniband, saved.infiniband) {
            card.load(saved)?;
        }
        self.entropy.load(saved.entropy, &self.ram)
    }

    /// Continues with random numbers from the stream of node `index`.
    pub(super) fn reseed(&mut self, seed: Seed, index: u64) {
        *self.entropy.device_mut() = Entropy::new(Random::new(seed, RANDOM_STREAM, index));
    }

    /// The state of small devices, as text.
    pub(super) fn describe(&self) -> String {
        format!(
            "{:?} {:?} {:?} {:?} {:?}",
            self.interrupts,
            self.rtc,
            self.power,
            self.deadline(),
            self.net_counters()
        )
    }

    /// The virtio devices in the order of their slots: disks, network, entropy, consoles.
    fn windows(&self) -> impl Iterator<Item = &dyn RegisterWindow> {
        let disks = self
            .disks
            .iter()
            .map(|(_, disk)| disk as &dyn RegisterWindow);
        let net = self.net.iter().map(|net| net as &dyn RegisterWindow);
        let consoles = self
            .consoles
            .iter()
            .map(|console| console as &dyn RegisterWindow);
        disks
            .chain(net)
            .chain([&self.entropy as &dyn RegisterWindow])
            .chain(consoles)
    }

    fn window_mut(&mut self, slot: usize) -> Option<&mut dyn RegisterWindow> {
        let disks = self
            .disks
            .iter_mut()
            .map(|(_, disk)| disk as &mut dyn RegisterWindow);
        let net = self
            .net
            .iter_mut()
            .map(|net| net as &mut dyn RegisterWindow);
        let consoles = self.consoles.iter_mut();
        disks
            .chain(net)
            .chain([&mut self.entropy as &mut dyn RegisterWindow])
            .chain(consoles.map(|console| console as &mut dyn RegisterWindow))
            .nth(slot)
    }

    fn net_slot(&self) -> usize {
        self.disks.len()
    }

    fn console_slot(&self) -> usize {
        self.disks.len() + usize::from(self.net.is_some()) + 1
    }

    /// The first cycle at which a disk or the network card has a due event.
    pub(super) fn deadline(&self) -> Option<Cycles> {
        let disks = self.disks.iter().filter_map(|(_, disk)| disk.deadline());
        let net = self.net.iter().filter_map(RegisterWindow::deadline);
        let card = self.infiniband.iter().filter_map(|card| card.deadline());
        disks.chain(net).chain(card).min()
    }

    /// Handles events due at or before `at`: first the processor's timer and its messages, then
    /// disks by slot, then the network card.
    pub(super) fn advance(&mut self, at: Moment) -> Result<(), NodeError> {
        self.interrupts.advance(at);
        for slot in 0..self.disks.len() {
            let (name, disk) = &mut self.disks[slot];
            if disk.deadline().is_some_and(|deadline| deadline <= at.now) {
                disk.advance(&self.ram, at.now)
                    .map_err(|source| NodeError::Disk {
                        name: name.clone(),
                        source,
                    })?;
                let line = self.disks[slot].1.line();
                self.interrupts.set_line(slot_pin(slot), line, at);
            }
        }
        if let Some(card) = &mut self.infiniband {
            card.advance(&self.ram, &mut self.interrupts, at);
        }
        self.advance_net(at)
    }

    /// Delivers packets whose next frame did not come in time.
    fn advance_net(&mut self, at: Moment) -> Result<(), NodeError> {
        let slot = self.net_slot();
        let Some(net) = &mut self.net else {
            return Ok(());
        };
        if net.deadline().is_some_and(|deadline| deadline <= at.now) {
            let done = net.advance(&self.ram, at.now);
            let line = net.line();
            self.interrupts.set_line(slot_pin(slot), line, at);
            done.map_err(|source| self.host_failed(slot, source))?;
        }
        Ok(())
    }

    pub(super) fn receive_frame(&mut self, frame: Vec<u8>, at: Moment) -> Result<(), NodeError> {
        let slot = self.net_slot();
        let Some(net) = &mut self.net else {
            return Ok(());
        };
        if !net.is_live() {
            net.device_mut().refuse();
            return Ok(());
        }
        let ram = &self.ram;
        let done = net.drive(ram, |net, queues| net.receive(frame, at.now, queues, ram));
        let line = net.line();
        self.interrupts.set_line(slot_pin(slot), line, at);
        done.map_err(|source| self.host_failed(slot, source))
    }

    /// A packet of the InfiniBand fabric takes effect; it is lost on a node without a card.
    pub(super) fn receive_packet(&mut self, packet: &[u8], at: Moment) {
        if let Some(card) = &mut self.infiniband {
            card.receive(packet, &self.ram, &mut self.interrupts, at);
        }
    }

    pub(super) fn receive_control(&mut self, bytes: &[u8], at: Moment) -> Result<(), NodeError> {
        let slot = self.console_slot();
        let console = &mut self.consoles[CONTROL];
        if !console.is_live() {
            console.device_mut().hold(bytes);
            return Ok(());
        }
        let ram = &self.ram;
        let done = console.drive(ram, |console, queues| console.receive(bytes, queues, ram));
        let line = console.line();
        self.interrupts.set_line(slot_pin(slot), line, at);
        done.map_err(|source| self.host_failed(slot, source))
    }

    /// True if there is unread output of the guest on a virtio console.
    pub(super) fn has_output(&self) -> bool {
        let mut consoles = self.consoles.iter();
        consoles.any(|console| console.device().has_output())
    }

    /// Takes the guest's output to `hvc` console `number`; empty if it does not exist.
    pub(super) fn take_output(&mut self, number: usize) -> Vec<u8> {
        let console = self.consoles.get_mut(number);
        console.map_or_else(Vec::new, |console| console.device_mut().take_output())
    }

    pub(super) fn receive_console(&mut self, bytes: &[u8], at: Moment) {
        self.serial.receive(bytes);
        self.settle_serial(at);
    }

    /// A time no later than that of the first frame or packet that was sent and not yet taken.
    pub(super) fn first_frame(&self) -> Option<Cycles> {
        let frame = self.net.as_ref().and_then(|net| net.device().first_frame());
        let card = self.infiniband.iter();
        let packet = card.filter_map(|card| card.first_packet());
        packet.chain(frame).min()
    }

    pub(super) fn take_frames(&mut self) -> Vec<(Cycles, Vec<u8>)> {
        self.net
            .as_mut()
            .map(|net| net.device_mut().take_frames())
            .unwrap_or_default()
    }

    /// The packets that the InfiniBand card sent since the last call, each with the time from which it may be on the link.
    pub(super) fn take_packets(&mut self) -> Vec<(Time, Vec<u8>)> {
        let card = self.infiniband.as_mut();
        card.map_or_else(Vec::new, |card| card.take_packets())
    }

    /// The first event of the InfiniBand card itself after `now`.
    pub(super) fn card_event_after(&self, now: Cycles) -> Option<Cycles> {
        let card = self.infiniband.as_ref()?;
        card.event_after(now)
    }

    /// True if there is an InfiniBand card.
    pub(super) fn has_card(&self) -> bool {
        self.infiniband.is_some()
    }

    /// True if the InfiniBand card has events ahead.
    pub(super) fn has_card_events(&self) -> bool {
        let mut card = self.infiniband.iter();
        card.any(|card| card.deadline().is_some())
    }

    /// Counters of the InfiniBand card; `None` without one.
    pub(super) fn card_counters(&self) -> Option<HcaCounters> {
        self.infiniband.as_ref().map(|card| card.counters())
    }

    /// Figures of the InfiniBand card's congestion control.
    pub(super) fn card_congestion(&self) -> Vec<(u32, PairCongestion)> {
        let cards = self.infiniband.iter();
        cards.flat_map(|card| card.congestion()).collect()
    }

    pub(super) fn net_counters(&self) -> NetCounters {
        self.net
            .as_ref()
            .map(|net| net.device().counters())
            .unwrap_or_default()
    }

    pub(super) fn complaints(&self) -> Vec<(usize, String)> {
        let complaints = self.windows().enumerate();
        complaints
            .filter_map(|(slot, window)| Some((slot, window.complaint()?.to_string())))
            .collect()
    }

    fn host_failed(&self, slot: usize, source: io::Error) -> NodeError {
        let name = self
            .disks
            .get(slot)
            .map_or("virtio device", |(name, _)| name);
        NodeError::Disk {
            name: name.to_owned(),
            source,
        }
    }
}
