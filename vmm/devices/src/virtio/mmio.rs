//! The register window of a virtio-mmio device, version 2.
//!
//! Registers follow virtio's rules for status and features. If a driver breaks a queue, the device
//! requests a reset and stops, and the node continues. The node's buses access it as a `RegisterWindow`;
//! external events act on the device through `drive`, which raises the interrupt.

use serde::{Deserialize, Serialize};
use std::io;

use belljar_cpu::{Cycles, GuestRam};
use virtio_bindings::bindings::virtio_config::{
    VIRTIO_CONFIG_S_DRIVER, VIRTIO_CONFIG_S_DRIVER_OK, VIRTIO_CONFIG_S_FAILED,
    VIRTIO_CONFIG_S_FEATURES_OK, VIRTIO_CONFIG_S_NEEDS_RESET, VIRTIO_F_VERSION_1,
};
use virtio_bindings::bindings::virtio_mmio as register;

use super::{Device, DeviceError, QueueError, QueueState, RegisterWindow, Virtqueue};

/// Bytes of guest-physical address space of one device.
pub const WINDOW_SIZE: u64 = 0x1000;

const MAGIC: u32 = u32::from_le_bytes(*b"virt");
const VERSION: u32 = 2;
const VENDOR: u32 = u32::from_le_bytes(*b"BELL");

const INTERRUPT_USED: u32 = 1;
const INTERRUPT_CONFIG: u32 = 2;

/// The saved state of a virtio device and its queues; `S` is the device's own part.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct MmioState<S> {
    device: S,
    queues: Vec<QueueState>,
    status: u32,
    /// The halves of the feature bits that the driver selected for reading and for writing.
    halves: (u32, u32),
    driver_features: u64,
    selected: u32,
    interrupts: u32,
    complaint: Option<String>,
}

/// A virtio device behind its register window.
#[derive(Debug)]
pub struct Mmio<D> {
    device: D,
    queues: Vec<Virtqueue>,
    status: u32,
    device_features_half: u32,
    driver_features_half: u32,
    driver_features: u64,
    selected: u32,
    interrupts: u32,
    complaint: Option<QueueError>,
}

impl<D: Device> Mmio<D> {
    /// `device` after reset.
    pub fn new(device: D) -> Self {
        Self {
            queues: D::QUEUES.iter().map(|size| Virtqueue::new(*size)).collect(),
            device,
            status: 0,
            device_features_half: 0,
            driver_features_half: 0,
            driver_features: 0,
            selected: 0,
            interrupts: 0,
            complaint: None,
        }
    }

    /// The state of device and queues.
    pub fn save(&self) -> MmioState<D::State> {
        MmioState {
            device: self.device.save(),
            queues: self.queues.iter().map(Virtqueue::save).collect(),
            status: self.status,
            halves: (self.device_features_half, self.driver_features_half),
            driver_features: self.driver_features,
            selected: self.selected,
            interrupts: self.interrupts,
            complaint: self.complaint.as_ref().map(ToString::to_string),
        }
    }

    /// Loads the state of another device of the same kind; `None` if it is invalid.
    pub fn load(&mut self, saved: MmioState<D::State>, ram: &GuestRam) -> Option<()> {
        if saved.queues.len() != self.queues.len() {
            return None;
        }
        // A driver that released the device has left it reset and acknowledged.
        let live = saved.status & VIRTIO_CONFIG_S_DRIVER != 0;
        self.device.load(saved.device, live, ram)?;
        if saved.status & VIRTIO_CONFIG_S_FEATURES_OK != 0 {
            self.device.accept(saved.driver_features);
        }
        for (queue, saved) in self.queues.iter_mut().zip(&saved.queues) {
            queue.load(saved, ram)?;
        }
        self.status = saved.status;
        (self.device_features_half, self.driver_features_half) = saved.halves;
        self.driver_features = saved.driver_features;
        self.selected = saved.selected;
        self.interrupts = saved.interrupts;
        self.complaint = saved.complaint.map(QueueError::Earlier);
        Some(())
    }

    /// The device itself.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// The device itself.
    pub fn device_mut(&mut self) -> &mut D {
        &mut self.device
    }

    /// Applies `work` to the device and its queues, and then raises the interrupt, or requests a
    /// reset if the driver broke a queue.
    ///
    /// # Errors
    /// If the host fails the device.
    pub fn drive(
        &mut self,
        ram: &GuestRam,
        work: impl FnOnce(&mut D, &mut [Virtqueue]) -> Result<(), DeviceError>,
    ) -> io::Result<()> {
        match work(&mut self.device, &mut self.queues) {
            Ok(()) => {}
            Err(DeviceError::Guest(error)) => self.need_reset(error),
            Err(DeviceError::Host(error)) => return Err(error),
        }
        for queue in &mut self.queues {
            if queue.take_interrupt(ram) {
                self.interrupts |= INTERRUPT_USED;
            }
        }
        Ok(())
    }

    /// True if the driver has started the device.
    pub fn is_live(&self) -> bool {
        self.status & (VIRTIO_CONFIG_S_DRIVER_OK | VIRTIO_CONFIG_S_NEEDS_RESET)
            == VIRTIO_CONFIG_S_DRIVER_OK
    }

    fn features(&self) -> u64 {
        self.device.features() | 1 << VIRTIO_F_VERSION_1
    }

    fn need_reset(&mut self, error: QueueError) {
        self.status |= VIRTIO_CONFIG_S_NEEDS_RESET;
        self.interrupts |= INTERRUPT_CONFIG;
        self.complaint = Some(error);
    }

    fn reset(&mut self) {
        self.device.reset();
        for queue in &mut self.queues {
            queue.reset();
        }
        self.status = 0;
        self.driver_features = 0;
        self.interrupts = 0;
        self.complaint = None;
    }

    fn read_register(&self, offset: u32) -> u32 {
        let queue = self.queues.get(self.selected as usize);
        match offset {
            register::VIRTIO_MMIO_MAGIC_VALUE => MAGIC,
            register::VIRTIO_MMIO_VERSION => VERSION,
            register::VIRTIO_MMIO_DEVICE_ID => D::KIND,
            register::VIRTIO_MMIO_VENDOR_ID => VENDOR,
            register::VIRTIO_MMIO_DEVICE_FEATURES => {
                half(self.features(), self.device_features_half)
            }
            register::VIRTIO_MMIO_QUEUE_NUM_MAX => {
                queue.map_or(0, |queue| u32::from(queue.max_size()))
            }
            register::VIRTIO_MMIO_QUEUE_READY => queue.map_or(0, |queue| u32::from(queue.ready())),
            register::VIRTIO_MMIO_INTERRUPT_STATUS => self.interrupts,
            register::VIRTIO_MMIO_STATUS => self.status,
            // No shared-memory regions: their length and base read all ones.
            register::VIRTIO_MMIO_SHM_LEN_LOW..=register::VIRTIO_MMIO_SHM_BASE_HIGH => u32::MAX,
            _ => 0,
        }
    }

    fn write_register(
        &mut self,
        offset: u32,
        value: u32,
        ram: &GuestRam,
        now: Cycles,
    ) -> io::Result<()> {
        match offset {
            register::VIRTIO_MMIO_DEVICE_FEATURES_SEL => self.device_features_half = value,
            register::VIRTIO_MMIO_DRIVER_FEATURES_SEL => self.driver_features_half = value,
            register::VIRTIO_MMIO_DRIVER_FEATURES => self.accept_features(value),
            register::VIRTIO_MMIO_QUEUE_SEL => self.selected = value,
            register::VIRTIO_MMIO_QUEUE_NOTIFY => return self.notify(value, ram, now),
            register::VIRTIO_MMIO_INTERRUPT_ACK => self.interrupts &= !value,
            register::VIRTIO_MMIO_STATUS => self.set_status(value),
            register::VIRTIO_MMIO_QUEUE_READY => self.set_ready(value, ram),
            _ => self.set_up_queue(offset, value),
        }
        Ok(())
    }

    fn accept_features(&mut self, value: u32) {
        if self.status & VIRTIO_CONFIG_S_FEATURES_OK != 0 || self.driver_features_half > 1 {
            return;
        }
        let shift = self.driver_features_half * 32;
        self.driver_features &= !(0xffff_ffff << shift);
        self.driver_features |= u64::from(value) << shift;
    }

    fn set_status(&mut self, value: u32) {
        if value == 0 {
            self.reset();
            return;
        }
        let mut status = value & 0xff;
        let newly = status & !self.status;
        if newly & VIRTIO_CONFIG_S_FEATURES_OK != 0 {
            let sound = self.driver_features & !self.features() == 0
                && self.driver_features >> VIRTIO_F_VERSION_1 & 1 == 1;
            if sound {
                self.device.accept(self.driver_features);
            } else {
                status &= !VIRTIO_CONFIG_S_FEATURES_OK;
            }
        }
        if status & VIRTIO_CONFIG_S_FEATURES_OK == 0 {
            status &= !VIRTIO_CONFIG_S_DRIVER_OK;
        }
        self.status = status | self.status & VIRTIO_CONFIG_S_NEEDS_RESET;
    }

    fn set_ready(&mut self, value: u32, ram: &GuestRam) {
        if self.status & (VIRTIO_CONFIG_S_FEATURES_OK | VIRTIO_CONFIG_S_FAILED)
            != VIRTIO_CONFIG_S_FEATURES_OK
        {
            return;
        }
        let Some(queue) = self.queues.get_mut(self.selected as usize) else {
            return;
        };
        if value & 1 == 0 {
            queue.disable();
        } else if !queue.ready()
            && let Err(error) = queue.enable(ram)
        {
            self.need_reset(error);
        }
    }

    fn set_up_queue(&mut self, offset: u32, value: u32) {
        let Some(queue) = self
            .queues
            .get_mut(self.selected as usize)
            .filter(|queue| !queue.ready())
        else {
            return;
        };
        let setup = &mut queue.setup;
        match offset {
            register::VIRTIO_MMIO_QUEUE_NUM => setup.size = value,
            register::VIRTIO_MMIO_QUEUE_DESC_LOW => set_half(&mut setup.descriptors, 0, value),
            register::VIRTIO_MMIO_QUEUE_DESC_HIGH => set_half(&mut setup.descriptors, 1, value),
            register::VIRTIO_MMIO_QUEUE_AVAIL_LOW => set_half(&mut setup.available, 0, value),
            register::VIRTIO_MMIO_QUEUE_AVAIL_HIGH => set_half(&mut setup.available, 1, value),
            register::VIRTIO_MMIO_QUEUE_USED_LOW => set_half(&mut setup.used, 0, value),
            register::VIRTIO_MMIO_QUEUE_USED_HIGH => set_half(&mut setup.used, 1, value),
            _ => {}
        }
    }

    fn notify(&mut self, queue: u32, ram: &GuestRam, now: Cycles) -> io::Result<()> {
        let queue = queue as usize;
        if !self.is_live() || !self.queues.get(queue).is_some_and(Virtqueue::ready) {
            return Ok(());
        }
        self.drive(ram, |device, queues| device.notify(queue, queues, ram, now))
    }
}

impl<D: Device> RegisterWindow for Mmio<D> {
    fn read(&self, offset: u64, len: u8) -> u64 {
        let Ok(offset) = u32::try_from(offset) else {
            return 0;
        };
        if let Some(start) = offset.checked_sub(register::VIRTIO_MMIO_CONFIG) {
            let mut bytes = [0; 8];
            let config = self.device.config();
            let wanted = config
                .iter()
                .skip(start as usize)
                .take(usize::from(len.min(8)));
            for (byte, value) in bytes.iter_mut().zip(wanted) {
                *byte = *value;
            }
            return u64::from_le_bytes(bytes);
        }
        if len == 4 && offset & 3 == 0 {
            u64::from(self.read_register(offset))
        } else {
            0
        }
    }

    fn write(
        &mut self,
        offset: u64,
        len: u8,
        value: u64,
        ram: &GuestRam,
        now: Cycles,
    ) -> io::Result<()> {
        // No device here has a writable configuration field.
        if len != 4 || offset & 3 != 0 || offset >= u64::from(register::VIRTIO_MMIO_CONFIG) {
            return Ok(());
        }
        self.write_register(offset as u32, value as u32, ram, now)
    }

    fn line(&self) -> bool {
        self.interrupts != 0
    }

    fn deadline(&self) -> Option<Cycles> {
        self.device.deadline().filter(|_| self.is_live())
    }

    fn advance(&mut self, ram: &GuestRam, now: Cycles) -> io::Result<()> {
        if self.deadline().is_none_or(|deadline| deadline > now) {
            return Ok(());
        }
        self.drive(ram, |device, queues| device.advance(queues, ram, now))
    }

    fn complaint(&self) -> Option<&QueueError> {
        self.complaint.as_ref()
    }
}

fn half(value: u64, index: u32) -> u32 {
    match index {
        0 => value as u32,
        1 => (value >> 32) as u32,
        _ => 0,
    }
}

fn set_half(value: &mut u64, index: u32, half: u32) {
    let shift = index * 32;
    *value = *value & !(0xffff_ffff << shift) | u64::from(half) << shift;
}

#[cfg(test)]
mod tests;
