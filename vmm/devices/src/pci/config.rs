//! Configuration spaces: header, base address registers, capabilities.
//!
//! A space is 256 bytes with a mask of those that the guest may write, so that sizing of base address registers needs no
//! code of its own. `pci` selects the space and the register of an access.

use serde::{Deserialize, Serialize};

const SIZE: usize = 256;
const COMMAND: usize = 0x04;
const STATUS: usize = 0x06;
const FIRST_BAR: usize = 0x10;
const CAPABILITIES: usize = 0x34;
/// Where the first capability begins.
const FIRST_CAPABILITY: usize = 0x40;
/// Memory space, bus master, and the switch of INTx.
const COMMAND_WRITABLE: u16 = 1 << 1 | 1 << 2 | 1 << 10;
const MEMORY_SPACE: u8 = 1 << 1;
const HAS_CAPABILITIES: u8 = 1 << 4;
const CAP_MSIX: u8 = 0x11;
const CAP_EXPRESS: u8 = 0x10;
/// Bits of MSI-X's message control: all masked, and enabled.
const MSIX_WRITABLE: u16 = 0xc000;

/// The identity of a function.
#[derive(Clone, Copy, Debug)]
pub struct Header {
    /// Vendor.
    pub vendor: u16,
    /// Device.
    pub device: u16,
    /// Revision.
    pub revision: u8,
    /// Base class, subclass and programming interface.
    pub class: u32,
    /// Subsystem's vendor and number.
    pub subsystem: (u16, u16),
}

/// A 64-bit memory region.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bar {
    /// Number of its first register, from 0; it takes two.
    pub number: usize,
    /// Bytes, a power of two from 4096 to 2 GiB.
    pub size: u64,
    /// True if reads have no effect, so that they may be combined.
    pub prefetchable: bool,
}

/// The configuration space of a function.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ConfigSpace {
    bytes: Vec<u8>,
    writable: Vec<u8>,
    bars: Vec<Bar>,
    /// Where the next capability begins, and the byte that will point to it.
    next: (usize, usize),
    /// Where MSI-X's message control is.
    msix: Option<usize>,
}

impl ConfigSpace {
    /// A function without regions and capabilities.
    pub fn new(header: &Header) -> Self {
        let mut space = Self {
            bytes: vec![0; SIZE],
            writable: vec![0; SIZE],
            bars: Vec::new(),
            next: (FIRST_CAPABILITY, CAPABILITIES),
            msix: None,
        };
        space.set(0x00, &header.vendor.to_le_bytes());
        space.set(0x02, &header.device.to_le_bytes());
        space.set(
            0x08,
            &(header.class << 8 | u32::from(header.revision)).to_le_bytes(),
        );
        space.set(0x2c, &header.subsystem.0.to_le_bytes());
        space.set(0x2e, &header.subsystem.1.to_le_bytes());
        space.permit(COMMAND, &COMMAND_WRITABLE.to_le_bytes());
        // Cache line and latency timer, interrupt line: values for software alone.
        space.permit(0x0c, &[0xff, 0xff]);
        space.permit(0x3c, &[0xff]);
        space
    }

    /// Adds a memory region at `addr`, where firmware would have put it.
    pub fn add_bar(&mut self, bar: Bar, addr: u64) {
        let at = FIRST_BAR + 4 * bar.number;
        let kind = 0b100 | if bar.prefetchable { 0b1000 } else { 0 };
        self.set(at, &(addr | kind).to_le_bytes());
        self.permit(at, &(!(bar.size - 1)).to_le_bytes());
        self.bars.push(bar);
    }

    /// Adds MSI-X with `vectors` messages: its table and its pending bits are in region `bar`, at these offsets.
    pub fn add_msix(&mut self, vectors: u16, bar: u32, table: u32, pending: u32) {
        let control = (vectors - 1).to_le_bytes();
        let mut body = control.to_vec();
        body.extend((table | bar).to_le_bytes());
        body.extend((pending | bar).to_le_bytes());
        let at = self.add_capability(CAP_MSIX, &body);
        self.permit(at + 2, &MSIX_WRITABLE.to_le_bytes());
        self.msix = Some(at + 2);
    }

    /// Adds the PCI Express capability, version 2, of an endpoint whose link has `width` lanes of generation `generation`.
    pub fn add_express(&mut self, generation: u8, width: u8) {
        let mut body = [0_u8; 58];
        let link = u16::from(generation & 0xf) | u16::from(width & 0x3f) << 4;
        body[0] = 2;
        // Device capabilities: payloads of up to 256 bytes, and role-based error reporting.
        body[2..6].copy_from_slice(&(1_u32 | 1 << 15).to_le_bytes());
        body[10..12].copy_from_slice(&link.to_le_bytes());
        body[16..18].copy_from_slice(&link.to_le_bytes());
        let speeds = (1_u32 << (generation + 1)) - 2;
        body[42..46].copy_from_slice(&speeds.to_le_bytes());
        let at = self.add_capability(CAP_EXPRESS, &body);
        // Device control and link control: saved and restored by drivers around a reset.
        self.permit(at + 0x08, &0x7fff_u16.to_le_bytes());
        self.permit(at + 0x10, &0x0fff_u16.to_le_bytes());
        self.permit(at + 0x28, &[0xff, 0xff]);
        self.permit(at + 0x30, &[0x0f]);
    }

    fn add_capability(&mut self, id: u8, body: &[u8]) -> usize {
        let (at, pointer) = self.next;
        self.set(pointer, &[at as u8]);
        self.set(at, &[id, 0]);
        self.set(at + 2, body);
        self.bytes[STATUS] |= HAS_CAPABILITIES;
        self.next = ((at + 2 + body.len()).next_multiple_of(4), at + 1);
        at
    }

    fn set(&mut self, at: usize, value: &[u8]) {
        self.bytes[at..at + value.len()].copy_from_slice(value);
    }

    fn permit(&mut self, at: usize, mask: &[u8]) {
        self.writable[at..at + mask.len()].copy_from_slice(mask);
    }

    /// True if `other`, loaded from a file, is a space of the same function.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let fixed = |space: &Self| -> Vec<u8> {
            let bytes = space.bytes.iter().zip(&self.writable);
            bytes.map(|(byte, writable)| byte & !writable).collect()
        };
        other.bytes.len() == SIZE
            && self.writable == other.writable
            && self.bars == other.bars
            && self.msix == other.msix
            && self.next == other.next
            && fixed(self) == fixed(other)
    }

    /// The dword at `register`, a multiple of 4.
    pub(super) fn read(&self, register: usize) -> u32 {
        let bytes = self.bytes.get(register..register + 4);
        bytes.map_or(u32::MAX, |bytes| {
            u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
        })
    }

    /// Writes the bits of `lanes` at `register`, a multiple of 4.
    pub(super) fn write(&mut self, register: usize, value: u32, lanes: u32) {
        let (value, lanes) = (value.to_le_bytes(), lanes.to_le_bytes());
        for index in 0..4 {
            let at = register + index;
            let mask = self.writable[at] & lanes[index];
            self.bytes[at] = self.bytes[at] & !mask | value[index] & mask;
        }
    }

    fn address(&self, bar: &Bar) -> u64 {
        let at = FIRST_BAR + 4 * bar.number;
        (u64::from(self.read(at)) | u64::from(self.read(at + 4)) << 32) & !(bar.size - 1)
    }

    /// The register number and the offset of the region at a guest-physical address.
    pub(super) fn region(&self, addr: u64) -> Option<(usize, u64)> {
        if self.bytes[COMMAND] & MEMORY_SPACE == 0 {
            return None;
        }
        self.bars.iter().find_map(|bar| {
            let offset = addr.checked_sub(self.address(bar))?;
            (offset < bar.size).then_some((bar.number, offset))
        })
    }

    /// MSI-X's state: enabled, and all masked.
    pub fn msix_control(&self) -> (bool, bool) {
        let control = self.msix.map_or(0, |at| self.bytes[at + 1]);
        (control & 0x80 != 0, control & 0x40 != 0)
    }

    /// True if the function may write to memory, which its messages are.
    pub fn is_master(&self) -> bool {
        self.bytes[COMMAND] & 1 << 2 != 0
    }
}
