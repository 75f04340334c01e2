//! Guest memory, physical and linear.
//!
//! `map` walks the guest's page tables and `Memory` has its RAM. Page tables are read as the
//! guest's processor would, with reserved bits checked, and are only marked (accessed, dirty) where
//! the access asks for it. All that reaches guest memory first comes here; the TLB has what was
//! found.
#![allow(unsafe_code)]

use std::ptr;

use belljar_cpu::{Access, CodeWatch, GuestRam, PAGE_SIZE, SystemRegisters};
use belljar_translate::architecture::{cr0, cr4, efer};
use vm_memory::{Address, GuestMemoryBackend, GuestMemoryRegion};

use crate::processor::state::Fault;

const PAGE_MASK: u64 = !(PAGE_SIZE - 1);

/// One region of RAM as the engine sees it.
struct Region {
    start: u64,
    bytes: u64,
    host: *mut u8,
    watch: CodeWatch,
}

/// The guest's RAM with host addresses.
pub(crate) struct Memory {
    regions: Vec<Region>,
    /// Keeps the mappings alive.
    _ram: GuestRam,
}

// SAFETY: the host pointers point into `_ram`, which is shared between threads by
// its own design; the engine is only ever run by one thread at a time.
unsafe impl Send for Memory {}

impl Memory {
    pub(crate) fn new(ram: GuestRam) -> Self {
        let regions = ram
            .iter()
            .map(|region| Region {
                start: region.start_addr().raw_value(),
                bytes: region.len(),
                host: region.as_ptr(),
                watch: region.bitmap().region().clone(),
            })
            .collect();
        Self { regions, _ram: ram }
    }

    fn region(&self, physical: u64) -> Option<(&Region, u64)> {
        self.regions.iter().find_map(|region| {
            let offset = physical.checked_sub(region.start)?;
            (offset < region.bytes).then_some((region, offset))
        })
    }

    /// Host address of the page of RAM that holds `physical`. RAM regions are
    /// whole pages.
    pub(crate) fn host_page(&self, physical: u64) -> Option<u64> {
        let (region, offset) = self.region(physical & PAGE_MASK)?;
        Some(region.host as u64 + offset)
    }

    /// Guest-physical address of the byte of RAM at a host address.
    pub(crate) fn physical_of(&self, host: u64) -> Option<u64> {
        let at_first = self.regions.iter().find_map(|region| {
            let offset = host.checked_sub(region.host as u64)?;
            (offset < region.bytes).then(|| region.start + offset)
        });
        at_first.or_else(|| {
            let mut regions = self.regions.iter();
            regions.find_map(|region| Some(region.start + region.watch.beside().offset_of(host)?))
        })
    }

    /// The second host address of the page of RAM that holds `physical`, if it has one.
    pub(crate) fn second_page(&self, physical: u64) -> Option<u64> {
        let (region, offset) = self.region(physical)?;
        region.watch.beside().address(offset)
    }

    /// Lays the pages at `low` and `high` side by side; whether they are.
    pub(crate) fn join(&self, low: u64, high: u64) -> bool {
        let (Some((region, low)), Some((other, high))) = (self.region(low), self.region(high))
        else {
            return false;
        };
        // SAFETY: pages of the region's mapping, which `_ram` keeps alive; whoever runs the
        // engine is alone with the guest's memory.
        region.start == other.start && unsafe { region.watch.beside().join(region.host, low, high) }
    }

    /// Has writes to the page that holds `physical` noticed.
    pub(crate) fn watch(&self, physical: u64) {
        if let Some((region, offset)) = self.region(physical) {
            region.watch.watch(offset);
        }
    }

    /// Lets the page that holds `physical` be written unnoticed.
    pub(crate) fn unwatch(&self, physical: u64) {
        if let Some((region, offset)) = self.region(physical) {
            region.watch.unwatch(offset);
        }
    }

    /// Whether the page that holds `physical` is watched.
    pub(crate) fn is_watched(&self, physical: u64) -> bool {
        self.region(physical)
            .is_some_and(|(region, offset)| region.watch.is_watched(offset))
    }

    /// Watched pages that devices wrote since the last call.
    pub(crate) fn take_written(&self) -> Vec<u64> {
        if !self.regions.iter().any(|region| region.watch.has_written()) {
            return Vec::new();
        }
        self.regions
            .iter()
            .flat_map(|region| {
                let start = region.start;
                region
                    .watch
                    .take_written()
                    .into_iter()
                    .map(move |offset| start + offset)
            })
            .collect()
    }

    /// Host address of `bytes` bytes of RAM in one piece, none of which is watched when
    /// they are to be written: of a page alone the second, where it has one.
    pub(crate) fn unseen(&self, physical: u64, bytes: u64, write: bool) -> Option<u64> {
        let (region, offset) = self.region(physical)?;
        if region.bytes - offset < bytes {
            return None;
        }
        if write && region.watch.is_any_watched(offset, bytes) {
            return None;
        }
        let second = (bytes == PAGE_SIZE).then(|| region.watch.beside().address(offset));
        Some(second.flatten().unwrap_or(region.host as u64 + offset))
    }

    /// Copies from RAM within one page; `false` when it is not RAM.
    pub(crate) fn read(&self, physical: u64, into: &mut [u8]) -> bool {
        let Some(host) = self.within_page(physical, into.len()) else {
            return false;
        };
        // SAFETY: `within_page` checked that the bytes lie in one page of RAM.
        unsafe { ptr::copy_nonoverlapping(host as *const u8, into.as_mut_ptr(), into.len()) };
        true
    }

    /// Copies into RAM within one page; `false` when it is not RAM. Does not look
    /// for code there.
    pub(crate) fn write(&self, physical: u64, from: &[u8]) -> bool {
        let Some(host) = self.within_page(physical, from.len()) else {
            return false;
        };
        // SAFETY: as in `read`.
        unsafe { ptr::copy_nonoverlapping(from.as_ptr(), host as *mut u8, from.len()) };
        true
    }

    fn within_page(&self, physical: u64, bytes: usize) -> Option<u64> {
        let offset = physical & !PAGE_MASK;
        if offset + bytes as u64 > PAGE_SIZE {
            return None;
        }
        Some(self.host_page(physical)? + offset)
    }

    fn entry32(&self, physical: u64) -> Option<u64> {
        let mut bytes = [0; 4];
        self.read(physical, &mut bytes)
            .then(|| u64::from(u32::from_le_bytes(bytes)))
    }

    fn entry(&self, physical: u64) -> Option<u64> {
        let mut bytes = [0; 8];
        self.read(physical, &mut bytes)
            .then(|| u64::from_le_bytes(bytes))
    }
}

/// Paging outside long mode: 4-byte entries, and PAE's.
mod legacy;

pub(crate) use legacy::has_good_pointers;

/// Page-table entry bits (Intel SDM vol. 3, 4.5).
mod entry {
    pub(crate) const PRESENT: u64 = 1;
    pub(crate) const WRITE: u64 = 1 << 1;
    pub(crate) const USER: u64 = 1 << 2;
    pub(crate) const ACCESSED: u64 = 1 << 5;
    pub(crate) const DIRTY: u64 = 1 << 6;
    pub(crate) const LARGE: u64 = 1 << 7;
    pub(crate) const GLOBAL: u64 = 1 << 8;
    pub(crate) const NO_EXECUTE: u64 = 1 << 63;
    pub(crate) const ADDRESS: u64 = 0x000f_ffff_ffff_f000;
    /// The memory type's upper bit, where an entry maps a large page.
    pub(crate) const LARGE_PAT: u64 = 1 << 12;
}

/// Page-fault error-code bits.
mod error {
    pub(crate) const PRESENT: u32 = 1;
    pub(crate) const WRITE: u32 = 1 << 1;
    pub(crate) const USER: u32 = 1 << 2;
    pub(crate) const RESERVED: u32 = 1 << 3;
    pub(crate) const FETCH: u32 = 1 << 4;
}

/// Physical-address bits that CPUID shows (leaf 0x80000008).
const PHYSICAL_BITS: u32 = 40;
const RESERVED_ADDRESS: u64 = entry::ADDRESS & !((1 << PHYSICAL_BITS) - 1);

/// Who asks for a translation, and whether the tables may be marked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub access: Access,
    pub user: bool,
    /// Set accessed and dirty bits.
    pub mark: bool,
}

/// Whether bits 47 to 63 of an address agree.
pub(crate) fn is_canonical(linear: u64) -> bool {
    (linear as i64) << 16 >> 16 == linear as i64
}

/// Where a linear address leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mapping {
    pub physical: u64,
    /// Bytes of the page.
    pub page_bytes: u64,
    /// It holds in all address spaces.
    pub global: bool,
    /// The tables are marked already as this access marks them.
    pub marked: bool,
}

/// The physical address of [`map`].
///
/// # Errors
/// As [`map`].
pub(crate) fn translate(
    memory: &Memory,
    system: &SystemRegisters,
    linear: u64,
    request: Request,
) -> Result<u64, Fault> {
    map(memory, system, linear, request).map(|mapping| mapping.physical)
}

/// Finds where a linear address leads through the page tables of whatever kind the
/// guest uses (Intel SDM vol. 3, chapter 4).
///
/// # Errors
/// The page fault or general-protection fault that the access raises.
pub(crate) fn map(
    memory: &Memory,
    system: &SystemRegisters,
    linear: u64,
    request: Request,
) -> Result<Mapping, Fault> {
    // What is not known of the other kinds is left out: their pages count as unmarked.
    let small = |physical| Mapping {
        physical,
        page_bytes: PAGE_SIZE,
        global: false,
        marked: false,
    };
    if system.cr0 & cr0::PG == 0 {
        return Ok(small(linear & 0xffff_ffff));
    }
    if system.efer & efer::LMA == 0 {
        return legacy::translate(memory, system, linear & 0xffff_ffff, request).map(small);
    }
    if !is_canonical(linear) {
        return Err(Fault::protection(0));
    }
    let fault = |bits| Fault::page(linear, bits | error_bits(request, system));
    let mut table = system.cr3 & entry::ADDRESS;
    let mut rights = entry::WRITE | entry::USER;
    let mut no_execute = false;
    let mut path = [(0u64, 0u64); 4];
    for level in (0..4u32).rev() {
        let at = table + (linear >> (12 + 9 * level) & 0x1ff) * 8;
        let value = memory.entry(at).unwrap_or(0);
        if value & entry::PRESENT == 0 {
            return Err(fault(0));
        }
        let large = level > 0 && value & entry::LARGE != 0;
        if value & RESERVED_ADDRESS != 0
            || (large && level == 3)
            || (value & entry::NO_EXECUTE != 0 && system.efer & efer::NXE == 0)
        {
            return Err(fault(error::PRESENT | error::RESERVED));
        }
        rights &= value;
        no_execute |= value & entry::NO_EXECUTE != 0;
        path[level as usize] = (at, value);
        table = value & entry::ADDRESS;
        if large || level == 0 {
            // Address bits that a large page does not use must be zero, but for PAT.
            let span = (1u64 << (12 + 9 * level)) - 1;
            if large && value & span & entry::ADDRESS & !entry::LARGE_PAT != 0 {
                return Err(fault(error::PRESENT | error::RESERVED));
            }
            if !is_allowed(request, rights, no_execute, system) {
                return Err(fault(error::PRESENT));
            }
            if request.mark {
                mark(
                    memory,
                    &path[level as usize..],
                    request.access == Access::Write,
                );
            }
            let leaf = match request.access {
                Access::Write => entry::ACCESSED | entry::DIRTY,
                _ => entry::ACCESSED,
            };
            let above = &path[level as usize + 1..];
            return Ok(Mapping {
                physical: table & !span | linear & span,
                page_bytes: span + 1,
                global: value & entry::GLOBAL != 0 && system.cr4 & cr4::PGE != 0,
                marked: value & leaf == leaf
                    && above.iter().all(|&(_, value)| value & entry::ACCESSED != 0),
            });
        }
    }
    unreachable!("the last level always returns")
}

fn error_bits(request: Request, system: &SystemRegisters) -> u32 {
    let mut bits = 0;
    if request.user {
        bits |= error::USER;
    }
    match request.access {
        Access::Read => {}
        Access::Write => bits |= error::WRITE,
        Access::Fetch => {
            // Two-level tables have no execute rights to tell of.
            if system.efer & efer::NXE != 0 && system.cr4 & legacy::CR4_PAE != 0 {
                bits |= error::FETCH;
            }
        }
    }
    bits
}

fn is_allowed(request: Request, rights: u64, no_execute: bool, system: &SystemRegisters) -> bool {
    if request.user && rights & entry::USER == 0 {
        return false;
    }
    match request.access {
        Access::Read => true,
        Access::Fetch => !no_execute,
        Access::Write => rights & entry::WRITE != 0 || (!request.user && system.cr0 & cr0::WP == 0),
    }
}

/// Sets the accessed bits of a path, leaf first, and the leaf's dirty bit.
fn mark(memory: &Memory, path: &[(u64, u64)], write: bool) {
    for (index, &(at, value)) in path.iter().enumerate() {
        let mut marked = value | entry::ACCESSED;
        if write && index == 0 {
            marked |= entry::DIRTY;
        }
        if marked != value {
            memory.write(at, &marked.to_le_bytes());
        }
    }
}
