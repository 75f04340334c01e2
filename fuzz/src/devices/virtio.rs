//! virtio devices under hostile drivers.
//!
//! Registers in any order, rings and descriptors of any content, unsolicited responses: a device may
//! only break its own queue. The first byte of an input selects the device. Called by name from
//! `lib.rs`.

use std::io;

use arbitrary::{Result, Unstructured};
use belljar_cpu::{GuestRam, guest_ram};
use belljar_devices::virtio::{
    Block, Console, Device, Disk, Entropy, Mmio, Net, NetLink, Offloads, RegisterWindow,
};
use belljar_sim::{Random, Seed};
use vm_memory::{Bytes, GuestAddress};

const RAM_BYTES: usize = 1 << 20;
/// Queue `n`'s parts begin at `QUEUE_SPACE * (n + 1)`.
const QUEUE_SPACE: u64 = 0x1_0000;
const AVAILABLE: u64 = 0x4000;
const USED: u64 = 0x6000;
/// Indirect tables and buffers.
const BUFFERS: u64 = 0x8_0000;
const NEXT: u16 = 1;
const INDIRECT: u16 = 4;
const STEPS: usize = 400;

/// Feeds a device with input from the host.
type Feed<D> = fn(&mut Mmio<D>, &GuestRam, &[u8]) -> io::Result<()>;

/// Drives the device that the first byte selects.
pub(crate) fn target(data: &[u8]) {
    let mut u = Unstructured::new(data);
    let random = Random::new(Seed(1), "fuzz", 0);
    let link = NetLink {
        mtu: 1500,
        speed: 10_000,
        offloads: u
            .arbitrary::<bool>()
            .unwrap_or(false)
            .then_some(Offloads { hold: 100 }),
    };
    let _ = match u.arbitrary::<u8>().unwrap_or(0) % 4 {
        0 => drive(&mut u, Console::new(), |console, ram, bytes| {
            console.drive(ram, |device, queues| device.receive(bytes, queues, ram))
        }),
        1 => drive(
            &mut u,
            Net::new([2, 0, 0, 0, 0, 1], link),
            |net, ram, bytes| {
                let frame = bytes.to_vec();
                net.drive(ram, |device, queues| device.receive(frame, 0, queues, ram))
            },
        ),
        2 => drive(&mut u, Entropy::new(random), |_, _, _| Ok(())),
        _ => {
            let disk = Disk::from_bytes((0..16_384u32).map(|at| at as u8).collect()).writable();
            drive(&mut u, Block::new(disk, "disk", 100), |_, _, _| Ok(()))
        }
    };
}

struct Driver<D: Device> {
    mmio: Mmio<D>,
    ram: GuestRam,
    now: u64,
}

fn drive<D: Device>(u: &mut Unstructured<'_>, device: D, feed: Feed<D>) -> Result<()> {
    let mut driver = Driver {
        mmio: Mmio::new(device),
        ram: guest_ram(&[(0, RAM_BYTES)]).expect("the host has a MiB"),
        now: 0,
    };
    if u.arbitrary::<u8>()? & 3 != 0 {
        driver.start(D::QUEUES.len() as u64);
    }
    for _ in 0..STEPS {
        if u.is_empty() {
            break;
        }
        driver.step(u, feed)?;
    }
    Ok(())
}

impl<D: Device> Driver<D> {
    fn store(&mut self, offset: u64, len: u8, value: u64) {
        self.mmio
            .write(offset, len, value, &self.ram, self.now)
            .expect("a guest cannot make the host's side fail");
    }

    /// Accepts all offered features, and sets all queues up.
    fn start(&mut self, queues: u64) {
        for status in [1, 3] {
            self.store(0x70, 4, status);
        }
        for half in 0..2 {
            self.store(0x14, 4, half);
            let offered = self.mmio.read(0x10, 4);
            self.store(0x24, 4, half);
            self.store(0x20, 4, offered);
        }
        self.store(0x70, 4, 0xb);
        for queue in 0..queues {
            self.store(0x30, 4, queue);
            let size = self.mmio.read(0x34, 4);
            self.store(0x38, 4, size);
            for (register, part) in [(0x80, 0), (0x90, AVAILABLE), (0xa0, USED)] {
                self.store(register, 4, QUEUE_SPACE * (queue + 1) + part);
                self.store(register + 4, 4, 0);
            }
            self.store(0x44, 4, 1);
        }
        self.store(0x70, 4, 0xf);
    }

    fn step(&mut self, u: &mut Unstructured<'_>, feed: Feed<D>) -> Result<()> {
        let choice: u8 = u.arbitrary()?;
        let queue = u64::from(choice >> 4 & 3);
        match choice & 15 {
            0..=3 => self.descriptor(u, queue)?,
            4..=6 => self.offer(u, queue)?,
            7 => {
                let offset = u64::from(u.arbitrary::<u16>()? % 0x120);
                let len = [1, 2, 4, 8][usize::from(choice >> 4 & 3)];
                self.store(offset, len, u.arbitrary::<u32>()?.into());
            }
            8 => {
                let offset = u64::from(u.arbitrary::<u16>()?);
                self.mmio
                    .read(offset, [1, 2, 4, 8][usize::from(choice >> 4 & 3)]);
            }
            9 => self.store(0x50, 4, queue),
            10 => {
                self.now += u64::from(u.arbitrary::<u8>()?);
                self.mmio
                    .advance(&self.ram, self.now)
                    .expect("a guest cannot make the host's side fail");
            }
            11 => {
                let bytes: [u8; 24] = u.arbitrary()?;
                let bytes = bytes.repeat(1 + usize::from(choice >> 4) * 10);
                if self.mmio.is_live() {
                    feed(&mut self.mmio, &self.ram, &bytes)
                        .expect("a guest cannot make the host's side fail");
                }
            }
            12 => self.header(u)?,
            13 => {
                let at = u64::from(u.arbitrary::<u32>()?) % RAM_BYTES as u64;
                self.put(at, &u.arbitrary::<u64>()?.to_le_bytes());
            }
            14 => {
                // The driver's half of the rings' flags, and the indices.
                let part = if choice & 0x40 == 0 { AVAILABLE } else { USED };
                let word: [u8; 4] = u.arbitrary()?;
                self.put(QUEUE_SPACE * (queue + 1) + part, &word);
            }
            _ => self.store(0x64, 4, u.arbitrary::<u8>()?.into()),
        }
        Ok(())
    }

    fn put(&self, at: u64, bytes: &[u8]) {
        // Writes outside RAM are ignored.
        let _ = self.ram.write_slice(bytes, GuestAddress(at));
    }

    /// A descriptor of a queue's table, or of an indirect one.
    fn descriptor(&self, u: &mut Unstructured<'_>, queue: u64) -> Result<()> {
        let [place, slot, address, next]: [u8; 4] = u.arbitrary()?;
        let [low, high, flags]: [u8; 3] = u.arbitrary()?;
        let table = match place & 7 {
            0..=4 => QUEUE_SPACE * (queue + 1),
            _ => BUFFERS + u64::from(place & 3) * 0x1000,
        };
        let address = match address >> 5 {
            0..=3 => BUFFERS + u64::from(address) * 0x100,
            4 => BUFFERS + u64::from(address & 3) * 0x1000,
            5 => RAM_BYTES as u64 - u64::from(address & 31),
            6 => QUEUE_SPACE * u64::from(address & 31),
            _ => u64::MAX - u64::from(address & 31) * 0x1000,
        };
        let length = match high >> 4 {
            0..=9 => u32::from(low) * if high & 1 == 0 { 1 } else { 16 },
            10..=12 => 512 * u32::from(low & 7),
            13 => u32::from(low) << 12,
            14 => u32::MAX - u32::from(low),
            _ => 0,
        };
        let mut flags = u16::from(flags);
        if flags & 0xf8 != 0 {
            // Mostly only defined flags, and rarely indirect ones.
            flags &= if flags & 0x80 == 0 {
                NEXT | 2
            } else {
                INDIRECT | NEXT | 2
            };
        }
        let mut bytes = address.to_le_bytes().to_vec();
        bytes.extend(length.to_le_bytes());
        bytes.extend(flags.to_le_bytes());
        bytes.extend(u16::from(next & 0x8f).to_le_bytes());
        self.put(table + u64::from(slot & 15) * 16, &bytes);
        Ok(())
    }

    /// Makes a chain available, and mostly notifies the device.
    fn offer(&mut self, u: &mut Unstructured<'_>, queue: u64) -> Result<()> {
        let [head, how]: [u8; 2] = u.arbitrary()?;
        let ring = QUEUE_SPACE * (queue + 1) + AVAILABLE;
        let index: u16 = self.ram.read_obj(GuestAddress(ring + 2)).unwrap_or(0);
        let slot = u64::from(index % 128);
        self.put(ring + 4 + slot * 2, &u16::from(head & 0x1f).to_le_bytes());
        let ahead = if how >> 4 == 15 {
            u16::from(how) * 99
        } else {
            1
        };
        self.put(ring + 2, &index.wrapping_add(ahead).to_le_bytes());
        if how & 7 != 0 {
            self.store(0x50, 4, queue);
        }
        Ok(())
    }

    /// A block request's header.
    fn header(&self, u: &mut Unstructured<'_>) -> Result<()> {
        let [place, kind, sector]: [u8; 3] = u.arbitrary()?;
        let kind = [0u32, 1, 4, 8, 11, 13, 99, 2][usize::from(kind & 7)];
        let sector = match sector {
            0xf0.. => u64::MAX / 512 - u64::from(sector & 15),
            sector => u64::from(sector & 0x3f),
        };
        let mut bytes = kind.to_le_bytes().to_vec();
        bytes.extend([0; 4]);
        bytes.extend(sector.to_le_bytes());
        self.put(BUFFERS + u64::from(place & 0x7f) * 0x100, &bytes);
        Ok(())
    }
}

/// Valid requests to each device, in chains and through indirect tables.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for device in 0..4u8 {
        for (queue, write, indirect) in [(0, 2, 0), (1, 0, 0), (0, 2, 1), (1, 0, 1)] {
            let mut seed = vec![device, 1];
            let at = queue << 4;
            // A header of a block request at the first buffer; three descriptors; an offer.
            seed.extend([12, 0, u8::from(write == 0), 3]);
            let place = if indirect == 0 { 0 } else { 5 };
            seed.extend([at, place, 0, 0, 1, 16, 0, NEXT as u8]);
            seed.extend([at, place, 1, 4, 2, 1, 0xa0, NEXT as u8 | write]);
            seed.extend([at, place, 2, 9, 0, 1, 0, 2]);
            if indirect == 1 {
                seed.extend([at, 0, 0, 0x81, 0, 48, 0, 0x80 | INDIRECT as u8]);
            }
            seed.extend([4 | at, 0, 1]);
            seed.extend([10, 200, 11 | at]);
            seed.extend([0x41; 24]);
            seed.extend([15, 3, 4 | at, 0, 1, 10, 200]);
            seeds.push(seed);
        }
    }
    seeds
}
