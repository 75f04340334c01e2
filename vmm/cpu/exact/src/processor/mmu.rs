//! Guest memory, physical and linear.
//!
//! `map` walks the guest's page tables, and `Memory` has its RAM. Page tables are read as by the
//! guest's processor, with checks of reserved bits, and are only marked (accessed, dirty) if
//! requested. All accesses to guest memory come here first; the TLB caches the results.
#![allow(unsafe_code)]

use std::ptr;

use belljar_cpu::{Access, CodeWatch, GuestRam, PAGE_SIZE, SystemRegisters};
use belljar_translate::architecture::{cr0, cr4, efer};
use vm_memory::{Address, GuestMemoryBackend, GuestMemoryRegion};

use crate::processor::state::Fault;

const PAGE_MASK: u64 = !(PAGE_SIZE - 1);

/// A region of RAM.
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

// SAFETY: the host pointers point into `_ram`, which is designed for sharing between threads; the
// engine is only run by one thread at a time.
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

    /// Host address of the page of RAM that contains `physical`. RAM regions are whole pages.
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

    /// The second host address of the page of RAM that contains `physical`, if it has one.
    pub(crate) fn second_page(&self, physical: u64) -> Option<u64> {
        let (region, offset) = self.region(physical)?;
        region.watch.beside().address(offset)
    }

    /// Maps the pages at `low` and `high` adjacently; returns true if they are adjacent now.
    pub(crate) fn join(&self, low: u64, high: u64) -> bool {
        let (Some((region, low)), Some((other, high))) = (self.region(low), self.region(high))
        else {
            return false;
        };
        // SAFETY: pages of the region's mapping, which `_ram` keeps alive; only the thread that
        // runs the engine accesses the guest's memory.
        region.start == other.start && unsafe { region.watch.beside().join(region.host, low, high) }
    }

    /// Detects writes to the page that contains `physical` from now on.
    pub(crate) fn watch(&self, physical: u64) {
        if let Some((region, offset)) = self.region(physical) {
            region.watch.watch(offset);
        }
    }

    /// Stops detecting writes to the page that contains `physical`.
    pub(crate) fn unwatch(&self, physical: u64) {
        if let Some((region, offset)) = self.region(physical) {
            region.watch.unwatch(offset);
        }
    }

    /// True if the page that contains `physical` is watched.
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

    /// Host address of `bytes` contiguous bytes of RAM; for writes, pages must not be watched. For
    /// a single page it is the second address, if there is one.
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

    /// Copies from RAM within a page; `false` if it is not RAM.
    pub(crate) fn read(&self, physical: u64, into: &mut [u8]) -> bool {
        let Some(host) = self.within_page(physical, into.len()) else {
            return false;
        };
        // SAFETY: `within_page` checked that the bytes lie in one page of RAM.
        unsafe { ptr::copy_nonoverlapping(host as *const u8, into.as_mut_ptr(), into.len()) };
        true
    }

    /// Copies into RAM within a page; `false` if it is not RAM. Does not check for code there.
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
    /// The memory type's upper bit in an entry of a large page.
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

/// Number of physical-address bits that CPUID reports (leaf 0x80000008).
const PHYSICAL_BITS: u32 = 40;
const RESERVED_ADDRESS: u64 = entry::ADDRESS & !((1 << PHYSICAL_BITS) - 1);

/// The privilege and access of a translation, and whether the tables may be marked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TranslationRequest {
    pub access: Access,
    pub user: bool,
    /// True to set accessed and dirty bits.
    pub mark: bool,
}

/// True if bits 47 to 63 of an address are equal.
pub(crate) fn is_canonical(linear: u64) -> bool {
    (linear as i64) << 16 >> 16 == linear as i64
}

/// The mapping of a linear address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PageMapping {
    pub physical: u64,
    /// Bytes of the page.
    pub page_bytes: u64,
    /// True if it applies in all address spaces.
    pub global: bool,
    /// True if the tables already have this access's marks.
    pub marked: bool,
}

/// The physical address found by [`map`].
///
/// # Errors
/// As [`map`].
pub(crate) fn translate(
    memory: &Memory,
    system: &SystemRegisters,
    linear: u64,
    request: TranslationRequest,
) -> Result<u64, Fault> {
    map(memory, system, linear, request).map(|mapping| mapping.physical)
}

/// Translates a linear address through page tables in any of the guest's formats (Intel SDM vol. 3,
/// chapter 4).
///
/// # Errors
/// The page fault or general-protection fault of the access.
pub(crate) fn map(
    memory: &Memory,
    system: &SystemRegisters,
    linear: u64,
    request: TranslationRequest,
) -> Result<PageMapping, Fault> {
    // For the other formats, unknown properties have defaults: their pages count as unmarked.
    let small = |physical| PageMapping {
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
            // Unused address bits of a large page must be zero, except for PAT.
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
            return Ok(PageMapping {
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

fn error_bits(request: TranslationRequest, system: &SystemRegisters) -> u32 {
    let mut bits = 0;
    if request.user {
        bits |= error::USER;
    }
    match request.access {
        Access::Read => {}
        Access::Write => bits |= error::WRITE,
        Access::Fetch => {
            // Two-level tables have no execute permissions.
            if system.efer & efer::NXE != 0 && system.cr4 & legacy::CR4_PAE != 0 {
                bits |= error::FETCH;
            }
        }
    }
    bits
}

fn is_allowed(
    request: TranslationRequest,
    rights: u64,
    no_execute: bool,
    system: &SystemRegisters,
) -> bool {
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
