//! A node's devices and its two buses.
//!
//! Each address, port and pin belongs to one device; elsewhere, reads return ones and writes are
//! ignored. An access's effects on a device reach the interrupt controllers before the access
//! returns. `exits` performs the guest's accesses here, and the run loop handles due events.

use std::collections::BTreeSet;
use std::io;

use belljar_cpu::{Cycles, GuestRam};
use belljar_devices::apic::{APIC_BASE, APIC_SIZE};
use belljar_devices::virtio::{
    Block, BlockState, Console, ConsoleState, Entropy, Mmio, MmioState, Net, NetCounters, NetState,
    RegisterWindow, WINDOW_SIZE,
};
use belljar_devices::{
    EXIT_PORT, InterruptController, IoApic, Moment, POWER_PORTS, Power, PowerEvent, Rtc,
    SERIAL_PIN, SERIAL_PORT, Serial, SerialState, TestDevice,
};
use belljar_sim::{Frequency, Random, Seed};
use serde::{Deserialize, Serialize};

use super::NodeError;
use crate::boot::{VIRTIO_BASE, slot_pin};
use crate::config::NodeConfig;
use crate::cpuid::crystal_divider;

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
        }
    }

    /// Loads the state of another node's devices; `None` if they differ from these in kind.
    pub(super) fn load(&mut self, saved: DevicesState) -> Option<()> {
        let alike = saved.disks.len() == self.disks.len()
            && saved.consoles.len() == self.consoles.len()
            && saved.net.is_some() == self.net.is_some()
            && saved.test.is_some() == self.test.is_some()
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
        disks.chain(net).min()
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

    /// The time of the first frame that was sent and not yet taken.
    pub(super) fn first_frame(&self) -> Option<Cycles> {
        self.net.as_ref().and_then(|net| net.device().first_frame())
    }

    pub(super) fn take_frames(&mut self) -> Vec<(Cycles, Vec<u8>)> {
        self.net
            .as_mut()
            .map(|net| net.device_mut().take_frames())
            .unwrap_or_default()
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

    /// `IN` of `len` bytes, each from its own port; all ones without a device.
    pub(super) fn read_port(&mut self, port: u16, len: u8, at: Moment) -> u64 {
        if port == PCI_ADDRESS {
            return u64::MAX;
        }
        (0..u16::from(len.min(4))).fold(0, |value, index| {
            let byte = self.read_port_byte(port.wrapping_add(index), at);
            value | u64::from(byte) << (8 * index)
        })
    }

    fn read_port_byte(&mut self, port: u16, at: Moment) -> u8 {
        match port {
            port if is_serial(port) => {
                let value = self.serial.read((port - SERIAL_PORT) as u8);
                self.settle_serial(at);
                value
            }
            RTC_DATA => self.rtc.read(at.now / self.frequency.as_hz()),
            port if POWER_PORTS.contains(&port) => self.power.read(port),
            port => {
                let echo = self.test.as_mut().and_then(|test| test.port(port));
                echo.map_or(0xff, |byte| *byte)
            }
        }
    }

    /// `OUT` of the low `len` bytes of `data`, each to its own port.
    pub(super) fn write_port(
        &mut self,
        port: u16,
        len: u8,
        data: u32,
        at: Moment,
    ) -> Option<PowerEvent> {
        if port == PCI_ADDRESS {
            return None;
        }
        if port == EXIT_PORT && self.test.is_some() {
            return Some(PowerEvent::Exit(data));
        }
        let bytes = data.to_le_bytes();
        let mut event = None;
        for (index, value) in (0..u16::from(len.min(4))).zip(bytes) {
            event = event.or(self.write_port_byte(port.wrapping_add(index), value, at));
        }
        event
    }

    fn write_port_byte(&mut self, port: u16, value: u8, at: Moment) -> Option<PowerEvent> {
        if let Some(byte) = self.test.as_mut().and_then(|test| test.port(port)) {
            *byte = value;
            return None;
        }
        match port {
            port if is_serial(port) => {
                self.serial.write((port - SERIAL_PORT) as u8, value);
                self.settle_serial(at);
                None
            }
            Rtc::PORT => {
                self.rtc.select(value);
                None
            }
            port => self.power.write(port, value),
        }
    }

    /// A load from outside RAM; all ones without a device.
    pub(super) fn read_mmio(&mut self, addr: u64, len: u8, at: Moment) -> u64 {
        let local = self.interrupts.local_mut(at.processor);
        match route(addr) {
            Some(DeviceRegister::LocalApic(offset)) if local.is_memory_mapped() => {
                local.read_page(offset, len, at.now)
            }
            Some(DeviceRegister::IoApic(offset)) => u64::from(self.interrupts.io.read(offset)),
            Some(DeviceRegister::Virtio(slot, offset)) => {
                let window = self.window_mut(slot);
                window.map_or(u64::MAX, |window| window.read(offset, len))
            }
            _ => {
                let loaded = self.test.as_mut().and_then(|test| test.load(addr, len));
                loaded.unwrap_or(u64::MAX)
            }
        }
    }

    /// A store outside RAM. Returns the new task priority's class, if it sets one.
    pub(super) fn write_mmio(
        &mut self,
        addr: u64,
        len: u8,
        value: u64,
        at: Moment,
    ) -> Result<Option<u8>, NodeError> {
        let local = self.interrupts.local_mut(at.processor);
        match route(addr) {
            Some(DeviceRegister::LocalApic(offset)) if local.is_memory_mapped() => {
                let effect = local.write_page(offset, len, value, at.now);
                return Ok(self.interrupts.apply(effect, at));
            }
            Some(DeviceRegister::IoApic(offset)) => {
                self.interrupts.io.write(offset, value as u32);
                self.interrupts.settle(at);
            }
            Some(DeviceRegister::Virtio(slot, offset)) => {
                self.write_virtio(slot, offset, len, value, at)?
            }
            _ => {
                if let Some(test) = &mut self.test {
                    test.store(addr, len, value);
                }
            }
        }
        Ok(None)
    }

    fn write_virtio(
        &mut self,
        slot: usize,
        offset: u64,
        len: u8,
        value: u64,
        at: Moment,
    ) -> Result<(), NodeError> {
        let ram = self.ram.clone();
        let Some(window) = self.window_mut(slot) else {
            return Ok(());
        };
        let done = window.write(offset, len, value, &ram, at.now);
        let line = window.line();
        self.interrupts.set_line(slot_pin(slot), line, at);
        done.map_err(|source| self.host_failed(slot, source))
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

    fn settle_serial(&mut self, at: Moment) {
        if self.serial.take_interrupt() {
            self.interrupts.pulse(SERIAL_PIN, at);
        }
    }
}

fn is_serial(port: u16) -> bool {
    (SERIAL_PORT..SERIAL_PORT + SERIAL_PORTS).contains(&port)
}

/// The device at a guest-physical address, with the offset in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DeviceRegister {
    LocalApic(u64),
    IoApic(u64),
    Virtio(usize, u64),
}

fn route(addr: u64) -> Option<DeviceRegister> {
    let within = |base: u64, size: u64| addr.checked_sub(base).filter(|offset| *offset < size);
    if let Some(offset) = within(APIC_BASE, APIC_SIZE) {
        return Some(DeviceRegister::LocalApic(offset));
    }
    if let Some(offset) = within(IoApic::BASE, IoApic::SIZE) {
        return Some(DeviceRegister::IoApic(offset));
    }
    let offset = within(VIRTIO_BASE, crate::boot::MAX_SLOTS as u64 * WINDOW_SIZE)?;
    Some(DeviceRegister::Virtio(
        (offset / WINDOW_SIZE) as usize,
        offset % WINDOW_SIZE,
    ))
}
