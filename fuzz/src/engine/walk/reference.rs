//! An independent page walker, after the Intel SDM, volume 3, sections 4.3 to 4.7.
//!
//! Written from the manual and independent of the engine, whose results it is compared with; it caches
//! nothing. Called by the target `walk` for each access.

use belljar_cpu::{Access, GuestRam};
use vm_memory::{Bytes, GuestAddress};

/// Number of the processor's address bits (CPUID leaf 0x80000008).
const PHYSICAL_BITS: u32 = 40;

/// The kind of page tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Paging {
    /// Two levels of four-byte entries.
    Legacy,
    /// Three levels, the first of four entries.
    Pae,
    /// Four levels.
    Long,
}

/// The fault of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// #PF with its error code.
    Page(u32),
    /// #GP(0).
    Protection,
}

/// The settings that a walk depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Walk {
    pub(crate) paging: Paging,
    /// Physical address of the first table.
    pub(crate) root: u64,
    /// CR0.WP.
    pub(crate) write_protect: bool,
    /// EFER.NXE.
    pub(crate) no_execute: bool,
    /// CR4.PSE.
    pub(crate) large_4m: bool,
}

/// The entries of a walk; the last one maps the page.
#[derive(Clone, Debug)]
pub(crate) struct Path {
    pub(crate) physical: u64,
    entries: Vec<u64>,
    bytes: usize,
}

impl Path {
    /// Sets accessed bits, and for a write the page's dirty bit.
    pub(crate) fn mark(&self, ram: &GuestRam, write: bool) {
        let last = self.entries.len() - 1;
        for (number, &at) in self.entries.iter().enumerate() {
            let place = GuestAddress(at);
            let low: u8 = ram.read_obj(place).expect("it was read before");
            let dirty = if write && number == last { 0x40 } else { 0 };
            ram.write_obj(low | 0x20 | dirty, place)
                .expect("it was read before");
        }
        assert!(self.bytes == 4 || self.bytes == 8);
    }
}

/// One level of tables.
struct Level {
    /// Lowest address bit of the level's index.
    shift: u32,
    index_bits: u32,
    may_be_large: bool,
    must_be_zero: u64,
    /// True if the level's entries have rights and accessed bits.
    is_full: bool,
}

impl Walk {
    fn entry_bytes(&self) -> u64 {
        if self.paging == Paging::Legacy { 4 } else { 8 }
    }

    fn levels(&self) -> Vec<Level> {
        let high = !((1u64 << PHYSICAL_BITS) - 1);
        let execute = if self.no_execute { 0 } else { 1 << 63 };
        let level = |shift, index_bits, may_be_large, must_be_zero| Level {
            shift,
            index_bits,
            may_be_large,
            must_be_zero,
            is_full: true,
        };
        match self.paging {
            Paging::Legacy => vec![level(22, 10, self.large_4m, 0), level(12, 10, false, 0)],
            Paging::Pae => {
                let zero = high & !(1 << 63) | execute;
                vec![
                    Level {
                        is_full: false,
                        ..level(30, 2, false, 0)
                    },
                    level(21, 9, true, zero),
                    level(12, 9, false, zero),
                ]
            }
            Paging::Long => {
                // Bits 52 to 62 are available to the system.
                let zero = high & 0x000f_ffff_ffff_ffff | execute;
                vec![
                    level(39, 9, false, zero | 0x80),
                    level(30, 9, true, zero),
                    level(21, 9, true, zero),
                    level(12, 9, false, zero),
                ]
            }
        }
    }

    /// Translates `linear`.
    pub(crate) fn go(
        &self,
        ram: &GuestRam,
        linear: u64,
        access: Access,
        user: bool,
    ) -> Result<Path, Fault> {
        let extended = (linear << 16) as i64 >> 16;
        if self.paging == Paging::Long && extended as u64 != linear {
            return Err(Fault::Protection);
        }
        let fetch_shows = self.no_execute && self.paging != Paging::Legacy;
        let mut code = u32::from(access == Access::Write) << 1 | u32::from(user) << 2;
        code |= u32::from(access == Access::Fetch && fetch_shows) << 4;
        let (mut table, mut entries) = (self.root, Vec::new());
        let (mut writable, mut users, mut executable) = (true, true, true);
        for level in self.levels() {
            let index = linear >> level.shift & ((1 << level.index_bits) - 1);
            let at = table + index * self.entry_bytes();
            let entry = self.read(ram, at);
            if entry & 1 == 0 {
                return Err(Fault::Page(code));
            }
            let large = level.may_be_large && entry & 0x80 != 0;
            let is_page = large || level.shift == 12;
            let reserved = level.must_be_zero | self.below_large(&level, large);
            if entry & reserved != 0 {
                return Err(Fault::Page(code | 1 | 8));
            }
            if level.is_full {
                writable &= entry & 2 != 0;
                users &= entry & 4 != 0;
                executable &= entry >> 63 == 0;
                entries.push(at);
            }
            table = entry & 0x000f_ffff_ffff_f000;
            if is_page {
                let may_write = writable || (!user && !self.write_protect);
                let allowed = match access {
                    Access::Read => true,
                    Access::Write => may_write,
                    Access::Fetch => executable,
                };
                if !allowed || (user && !users) {
                    return Err(Fault::Page(code | 1));
                }
                let within = (1u64 << level.shift) - 1;
                return Ok(Path {
                    physical: table & !within | linear & within,
                    entries,
                    bytes: self.entry_bytes() as usize,
                });
            }
        }
        unreachable!("the last level's entries map pages")
    }

    /// Address bits below a large page's own, except for the memory type bit.
    fn below_large(&self, level: &Level, large: bool) -> u64 {
        if large {
            ((1 << level.shift) - 1) & !0x1fff
        } else {
            0
        }
    }

    fn read(&self, ram: &GuestRam, at: u64) -> u64 {
        let place = GuestAddress(at);
        if self.paging == Paging::Legacy {
            ram.read_obj::<u32>(place).unwrap_or(0).into()
        } else {
            ram.read_obj(place).unwrap_or(0)
        }
    }
}
