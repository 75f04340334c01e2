//! Page tables from the input.
//!
//! Entries are written only to the pages of hostile tables, but may refer to anything; entries beyond the
//! input's end are not present. Called by the target `walk` before the guest begins.

use arbitrary::{Result, Unstructured};
use belljar_cpu::GuestRam;
use vm_memory::{Bytes, GuestAddress};

use super::reference::Paging;
use super::{ENTRIES, HOSTILE, HOSTILE_PAGES, RAM_BYTES};
use crate::engine::machine::put;

/// Each entry is described by two bytes: the lower gives an address, the upper flags.
pub(super) fn write_tables(ram: &GuestRam, paging: Paging, u: &mut Unstructured<'_>) -> Result<()> {
    for page in 0..HOSTILE_PAGES {
        for slot in 0..ENTRIES {
            let raw = u16::from_le_bytes(u.arbitrary().unwrap_or_default());
            let at = HOSTILE + page * 4096;
            if paging == Paging::Legacy {
                let entry = entry(raw) as u32;
                put(ram, at + slot * 4, &entry.to_le_bytes());
            } else {
                put(ram, at + slot * 8, &entry(raw).to_le_bytes());
            }
        }
    }
    if paging == Paging::Pae {
        // Loading CR3 checks these four, so they are valid here.
        for slot in 0..3 {
            let at = GuestAddress(HOSTILE + slot * 8);
            let value: u64 = ram.read_obj(at).expect("in RAM");
            put(ram, at.0, &(value & 0xff_ffff_f001).to_le_bytes());
        }
    }
    Ok(())
}

fn entry(raw: u16) -> u64 {
    let page = u64::from(raw & 0x1f);
    let address = match page {
        0..=15 => HOSTILE + page * 4096,
        16..=19 => (page - 16) * 4096,
        20 => RAM_BYTES as u64 - 4096,
        21 => 0x20_0000,
        22 => 0x4000_0000,
        23 => 0x40_0000,
        24 => 0,
        25 => 0xd000_0000,
        26 => 1 << 39,
        27 => 1 << 41,
        28 => 0x1000,
        29 => 0x2_2000,
        _ => HOSTILE,
    };
    let bit = |from: u32, to: u32| u64::from(raw >> from & 1) << to;
    // Present unless two bits are clear.
    let present = u64::from(raw >> 5 & 3 != 0);
    let flags = bit(7, 1) | bit(8, 2) | bit(9, 5) | bit(10, 6) | bit(11, 7) | bit(12, 8);
    let high = bit(13, 63) | (bit(14, 52) & bit(15, 52)) | bit(15, 9);
    address | present | flags | high
}

/// A valid path through each kind of tables, and one with a loop.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for options in [0u8, 4, 8, 12, 2, 6, 14, 3, 7, 11, 19, 31] {
        for style in 0..4u16 {
            let mut seed = vec![options, 11];
            for access in 0..12u8 {
                let [a, b] = [access % 4, access / 4];
                seed.extend([access, access * 20, a, b, a, b, 0, 0]);
            }
            for page in 0..HOSTILE_PAGES as u16 {
                for slot in 0..ENTRIES as u16 {
                    let next = match style {
                        0 => page + 1,
                        1 => (page * 5 + slot) % 16,
                        2 => 16 + slot,
                        _ => (page + slot * 7) % 30,
                    };
                    let large = u16::from(style == 3 && slot % 3 == 0) << 11;
                    let rights = if slot == 5 { 0 } else { 3 << 7 };
                    let no_execute = u16::from(slot == 2 && page & 1 == 0) << 13;
                    let entry = next & 0x1f | 1 << 5 | rights | large | no_execute;
                    seed.extend(entry.to_le_bytes());
                }
            }
            seeds.push(seed);
        }
    }
    seeds
}
