//! Paging outside long mode: two levels of 4-byte entries (Intel SDM vol. 3, 4.3),
//! and PAE's three levels (4.4).
//!
//! Addresses have 32 bits, and reserved bits in an entry raise a page fault. `mmu::map` calls this
//! outside long mode, `system/control` to check PAE's four top entries.

use belljar_cpu::{Access, SystemRegisters};
use belljar_translate::architecture::{cr0, efer};

use super::{
    Memory, RESERVED_ADDRESS, TranslationRequest, entry, error, error_bits, is_allowed, mark,
};
use crate::processor::state::Fault;

const CR4_PSE: u64 = 1 << 4;
pub(super) const CR4_PAE: u64 = 1 << 5;
/// Bits of a PDPTE that must be zero: writable, user and others belong to lower levels.
const PDPTE_RESERVED: u64 = 0x1e6 | RESERVED_ADDRESS | 0xfff0_0000_0000_0000;
/// Bits 52 to 62 of PAE entries must be zero.
const PAE_RESERVED: u64 = RESERVED_ADDRESS | 0x7ff0_0000_0000_0000;
/// Reserved bits of a 4 MiB entry: 36-bit PSE is not available.
const LARGE_RESERVED: u64 = 0x003f_e000;

/// Translates a 32-bit linear address.
pub(super) fn translate(
    memory: &Memory,
    system: &SystemRegisters,
    linear: u64,
    request: TranslationRequest,
) -> Result<u64, Fault> {
    if system.cr4 & CR4_PAE != 0 {
        three_levels(memory, system, linear, request)
    } else {
        two_levels(memory, system, linear, request)
    }
}

fn two_levels(
    memory: &Memory,
    system: &SystemRegisters,
    linear: u64,
    request: TranslationRequest,
) -> Result<u64, Fault> {
    let fault = |bits| Fault::page(linear, bits | error_bits(request, system));
    let directory_at = (system.cr3 & 0xffff_f000) + (linear >> 22) * 4;
    let directory = memory.entry32(directory_at).unwrap_or(0);
    if directory & entry::PRESENT == 0 {
        return Err(fault(0));
    }
    let write = request.access == Access::Write;
    if directory & entry::LARGE != 0 && system.cr4 & CR4_PSE != 0 {
        if directory & LARGE_RESERVED != 0 {
            return Err(fault(error::PRESENT | error::RESERVED));
        }
        if !is_allowed(request, directory, false, system) {
            return Err(fault(error::PRESENT));
        }
        if request.mark {
            mark32(memory, directory_at, directory, write);
        }
        return Ok(directory & 0xffc0_0000 | linear & 0x3f_ffff);
    }
    let table_at = (directory & 0xffff_f000) + (linear >> 12 & 0x3ff) * 4;
    let table = memory.entry32(table_at).unwrap_or(0);
    if table & entry::PRESENT == 0 {
        return Err(fault(0));
    }
    if !is_allowed(request, directory & table, false, system) {
        return Err(fault(error::PRESENT));
    }
    if request.mark {
        mark32(memory, directory_at, directory, false);
        mark32(memory, table_at, table, write);
    }
    Ok(table & 0xffff_f000 | linear & 0xfff)
}

/// Sets an entry's accessed bit, and its dirty bit if it is a leaf that is written.
fn mark32(memory: &Memory, at: u64, value: u64, write: bool) {
    let mut marked = value | entry::ACCESSED;
    if write {
        marked |= entry::DIRTY;
    }
    if marked != value {
        memory.write(at, &(marked as u32).to_le_bytes());
    }
}

/// Processors keep PAE's four top entries in registers loaded with CR3; here they are read from
/// memory.
fn three_levels(
    memory: &Memory,
    system: &SystemRegisters,
    linear: u64,
    request: TranslationRequest,
) -> Result<u64, Fault> {
    let fault = |bits| Fault::page(linear, bits | error_bits(request, system));
    let no_execute_on = system.efer & efer::NXE != 0;
    let pointer = memory
        .entry(pointer_table(system) + (linear >> 30 & 3) * 8)
        .unwrap_or(0);
    if pointer & entry::PRESENT == 0 {
        return Err(fault(0));
    }
    let mut table = pointer & entry::ADDRESS;
    let mut rights = entry::WRITE | entry::USER;
    let mut no_execute = false;
    let mut path = [(0u64, 0u64); 2];
    for level in [1u32, 0] {
        let at = table + (linear >> (12 + 9 * level) & 0x1ff) * 8;
        let value = memory.entry(at).unwrap_or(0);
        if value & entry::PRESENT == 0 {
            return Err(fault(0));
        }
        if value & PAE_RESERVED != 0 || (value & entry::NO_EXECUTE != 0 && !no_execute_on) {
            return Err(fault(error::PRESENT | error::RESERVED));
        }
        rights &= value;
        no_execute |= value & entry::NO_EXECUTE != 0;
        path[level as usize] = (at, value);
        table = value & entry::ADDRESS;
        let large = level == 1 && value & entry::LARGE != 0;
        if large || level == 0 {
            let span = (1u64 << (12 + 9 * level)) - 1;
            if large && value & span & entry::ADDRESS & !entry::LARGE_PAT != 0 {
                return Err(fault(error::PRESENT | error::RESERVED));
            }
            if !is_allowed(request, rights, no_execute, system) {
                return Err(fault(error::PRESENT));
            }
            if request.mark {
                let write = request.access == Access::Write;
                mark(memory, &path[level as usize..], write);
            }
            return Ok(table & !span | linear & span);
        }
    }
    Err(fault(0))
}

fn pointer_table(system: &SystemRegisters) -> u64 {
    system.cr3 & 0xffff_ffe0
}

/// True if the four entries that a load of CR3 reads under PAE are valid.
pub(crate) fn has_good_pointers(memory: &Memory, system: &SystemRegisters) -> bool {
    let uses_pae =
        system.cr0 & cr0::PG != 0 && system.cr4 & CR4_PAE != 0 && system.efer & efer::LMA == 0;
    !uses_pae
        || (0..4).all(|index| {
            let value = memory.entry(pointer_table(system) + index * 8).unwrap_or(0);
            value & entry::PRESENT == 0 || value & PDPTE_RESERVED == 0
        })
}
