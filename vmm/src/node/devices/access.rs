//! Accesses of the processor to device registers: ports, and memory-mapped registers.
//!
//! An address selects the device; accesses to none read as ones and write nothing. Called by `node` for exits of the processor.

use belljar_devices::apic::{APIC_BASE, APIC_SIZE};
use belljar_devices::virtio::WINDOW_SIZE;
use belljar_devices::{
    EXIT_PORT, IoApic, Moment, POWER_PORTS, PowerEvent, Rtc, SERIAL_PIN, SERIAL_PORT,
};

use super::super::NodeError;
use super::{Devices, PCI_ADDRESS, RTC_DATA, SERIAL_PORTS};
use crate::boot::{VIRTIO_BASE, slot_pin};

pub(super) fn is_serial(port: u16) -> bool {
    (SERIAL_PORT..SERIAL_PORT + SERIAL_PORTS).contains(&port)
}

/// The device at a guest-physical address, with the offset in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DeviceRegister {
    LocalApic(u64),
    IoApic(u64),
    Virtio(usize, u64),
}

pub(super) fn route(addr: u64) -> Option<DeviceRegister> {
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

impl Devices {
    /// `IN` of `len` bytes, each from its own port; all ones without a device.
    pub(in super::super) fn read_port(&mut self, port: u16, len: u8, at: Moment) -> u64 {
        let bus = self.infiniband.as_ref();
        if let Some(value) = bus.and_then(|card| card.read_port(port, len)) {
            return u64::from(value);
        }
        if port == PCI_ADDRESS {
            return u64::MAX;
        }
        (0..u16::from(len.min(4))).fold(0, |value, index| {
            let byte = self.read_port_byte(port.wrapping_add(index), at);
            value | u64::from(byte) << (8 * index)
        })
    }

    pub(super) fn read_port_byte(&mut self, port: u16, at: Moment) -> u8 {
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
    pub(in super::super) fn write_port(
        &mut self,
        port: u16,
        len: u8,
        data: u32,
        at: Moment,
    ) -> Option<PowerEvent> {
        if let Some(card) = &mut self.infiniband
            && card.write_port(port, len, data, &mut self.interrupts, at)
        {
            return None;
        }
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

    pub(super) fn write_port_byte(
        &mut self,
        port: u16,
        value: u8,
        at: Moment,
    ) -> Option<PowerEvent> {
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
    pub(in super::super) fn read_mmio(&mut self, addr: u64, len: u8, at: Moment) -> u64 {
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
                if let Some(card) = &self.infiniband
                    && let Some(region) = card.region(addr)
                {
                    return card.read(region, len);
                }
                let loaded = self.test.as_mut().and_then(|test| test.load(addr, len));
                loaded.unwrap_or(u64::MAX)
            }
        }
    }

    /// A store outside RAM. Returns the new task priority's class, if it sets one.
    pub(in super::super) fn write_mmio(
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
                if let Some(card) = &mut self.infiniband
                    && let Some(region) = card.region(addr)
                {
                    card.write(region, (len, value), &self.ram, &mut self.interrupts, at);
                    return Ok(None);
                }
                if let Some(test) = &mut self.test {
                    test.store(addr, len, value);
                }
            }
        }
        Ok(None)
    }

    pub(super) fn write_virtio(
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

    pub(super) fn settle_serial(&mut self, at: Moment) {
        if self.serial.take_interrupt() {
            self.interrupts.pulse(SERIAL_PIN, at);
        }
    }
}
