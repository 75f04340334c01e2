//! A guest's driver for the tests: it sets up a device and makes buffers available through
//! registers and memory, as a kernel would.
//!
//! It follows the rules unless a test breaks them on purpose. The tests of all virtio devices use
//! it.

use belljar_cpu::{Cycles, GuestRam, guest_ram};
use vm_memory::{Bytes, GuestAddress};

use super::{Device, Mmio, RegisterWindow};

pub(super) const RAM: usize = 4 << 20;
const NEXT: u16 = 1;
const WRITE: u16 = 2;
const QUEUE_SPACE: u64 = 0x1_0000;
const BUFFERS: u64 = 0x10_0000;
const BUFFER_SPACE: u64 = 0x2_0000;

/// One buffer of a chain.
pub(super) enum ChainBuffer<'a> {
    /// Bytes for the device.
    Data(&'a [u8]),
    /// Room for the device's bytes.
    Room(u32),
}

pub(super) struct Driver<D: Device> {
    pub(super) ram: GuestRam,
    pub(super) mmio: Mmio<D>,
    pub(super) now: Cycles,
    available: Vec<u16>,
    used: Vec<u16>,
    rooms: Vec<u64>,
}

impl<D: Device> Driver<D> {
    pub(super) fn new(mmio: Mmio<D>) -> Self {
        Self {
            ram: guest_ram(&[(0, RAM)]).unwrap(),
            mmio,
            now: 0,
            available: vec![0; D::QUEUES.len()],
            used: vec![0; D::QUEUES.len()],
            rooms: Vec::new(),
        }
    }

    /// A driver that accepted every offered feature and set up all queues.
    pub(super) fn start(mmio: Mmio<D>) -> Self {
        let mut driver = Self::new(mmio);
        driver.negotiate();
        for queue in 0..D::QUEUES.len() {
            driver.set_up(queue, QUEUE_SPACE * (queue as u64 + 1));
        }
        driver.write(0x70, 0xf);
        driver
    }

    pub(super) fn negotiate(&mut self) {
        self.write(0x70, 1);
        self.write(0x70, 3);
        for half in 0..2 {
            self.write(0x14, half);
            let offered = self.read(0x10);
            self.write(0x24, half);
            self.write(0x20, offered);
        }
        self.write(0x70, 0xb);
        assert_eq!(self.read(0x70), 0xb);
    }

    pub(super) fn set_up(&mut self, queue: usize, base: u64) {
        self.write(0x30, queue as u32);
        let size = self.read(0x34);
        self.write(0x38, size);
        for (register, part) in [(0x80, 0), (0x90, 0x4000), (0xa0, 0x6000)] {
            self.write(register, (base + part) as u32);
            self.write(register + 4, ((base + part) >> 32) as u32);
        }
        self.write(0x44, 1);
    }

    pub(super) fn read(&self, offset: u64) -> u32 {
        self.mmio.read(offset, 4) as u32
    }

    pub(super) fn write(&mut self, offset: u64, value: u32) {
        self.mmio
            .write(offset, 4, u64::from(value), &self.ram, self.now)
            .unwrap();
    }

    pub(super) fn descriptor(
        &self,
        queue: usize,
        index: u16,
        addr: u64,
        len: u32,
        flags: u16,
        next: u16,
    ) {
        let at = QUEUE_SPACE * (queue as u64 + 1) + u64::from(index) * 16;
        let mut bytes = addr.to_le_bytes().to_vec();
        bytes.extend_from_slice(&len.to_le_bytes());
        bytes.extend_from_slice(&flags.to_le_bytes());
        bytes.extend_from_slice(&next.to_le_bytes());
        self.ram.write_slice(&bytes, GuestAddress(at)).unwrap();
    }

    /// Makes the chain at `head` available and notifies.
    pub(super) fn offer(&mut self, queue: usize, head: u16) {
        let ring = QUEUE_SPACE * (queue as u64 + 1) + 0x4000;
        let size = D::QUEUES[queue];
        let slot = ring + 4 + u64::from(self.available[queue] % size) * 2;
        self.ram.write_obj(head, GuestAddress(slot)).unwrap();
        self.available[queue] = self.available[queue].wrapping_add(1);
        self.ram
            .write_obj(self.available[queue], GuestAddress(ring + 2))
            .unwrap();
        self.write(0x50, queue as u32);
    }

    /// Offers one chain of `parts`; returns the used length if it completed at once.
    pub(super) fn submit(&mut self, queue: usize, parts: &[ChainBuffer<'_>]) -> Option<u32> {
        self.rooms.clear();
        for (index, part) in parts.iter().enumerate() {
            let addr = BUFFERS + index as u64 * BUFFER_SPACE;
            let last = index + 1 == parts.len();
            let more = if last { 0 } else { NEXT };
            let (len, flags) = match part {
                ChainBuffer::Data(bytes) => {
                    self.ram.write_slice(bytes, GuestAddress(addr)).unwrap();
                    (bytes.len() as u32, more)
                }
                ChainBuffer::Room(len) => {
                    self.rooms.push(addr);
                    (*len, more | WRITE)
                }
            };
            self.descriptor(queue, index as u16, addr, len, flags, index as u16 + 1);
        }
        self.offer(queue, 0);
        self.take_used(queue)
    }

    /// The length of the next completed chain.
    pub(super) fn take_used(&mut self, queue: usize) -> Option<u32> {
        let ring = QUEUE_SPACE * (queue as u64 + 1) + 0x6000;
        let index: u16 = self.ram.read_obj(GuestAddress(ring + 2)).unwrap();
        if index == self.used[queue] {
            return None;
        }
        let slot = ring + 4 + u64::from(self.used[queue] % D::QUEUES[queue]) * 8;
        self.used[queue] = self.used[queue].wrapping_add(1);
        Some(self.ram.read_obj(GuestAddress(slot + 4)).unwrap())
    }

    /// The first `len` bytes of the `index`th room of the last chain.
    pub(super) fn written(&self, index: usize, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        self.ram
            .read_slice(&mut bytes, GuestAddress(self.rooms[index]))
            .unwrap();
        bytes
    }

    pub(super) fn suppress_interrupts(&mut self, queue: usize) {
        let ring = QUEUE_SPACE * (queue as u64 + 1) + 0x4000;
        self.ram.write_obj(1u16, GuestAddress(ring)).unwrap();
    }
}
