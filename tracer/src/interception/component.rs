//! Open MPI's components, such as ROMIO, which it opens at run time: their calls of MPI are internal to the library. Its bindings
//! for Fortran are separate libraries, which convert handles to C's by functions of MPI.
//!
//! The object of an address is found in the guest's memory: by the preceding ELF header, and the name in its dynamic section. It
//! is only looked up for nested calls, and for calls that convert handles. The guest's memory is untrusted, and the amount read
//! is bounded.

use std::ops::Range;

use crate::guest::memory::{BadAddress, Reader};

const PAGE: u64 = 4096;
/// Most pages before a call's return address that are searched.
const MAX_PAGES: u64 = 1 << 10;
const MAX_HEADERS: u64 = 32;
const MAX_ENTRIES: u64 = 128;
const HEADER_SIZE: u64 = 56;
/// The first bytes of an ELF file (little endian, 64 bits).
const MAGIC: [u8; 6] = *b"\x7fELF\x02\x01";
const PT_LOAD: u64 = 1;
const PT_DYNAMIC: u64 = 2;
const DT_STRTAB: u64 = 5;
const DT_SONAME: u64 = 14;

/// A mapped object: its own name, and the bounds of its piece that contains the address.
pub(crate) struct Mapped {
    name: String,
    pub(crate) piece: Range<u64>,
}

impl Mapped {
    /// Its own name.
    pub(crate) fn into_name(self) -> String {
        self.name
    }

    /// True if it is a component of Open MPI.
    pub(crate) fn is_component(&self) -> bool {
        self.name.starts_with("mca_")
    }

    /// True if it is a binding of Open MPI for Fortran.
    pub(crate) fn is_binding(&self) -> bool {
        let bindings = ["libmpi_mpifh.", "libmpi_usempi"];
        bindings
            .iter()
            .any(|binding| self.name.starts_with(binding))
    }
}

/// Returns the object whose code is at `address`, if it has a name.
pub(crate) fn object_at(address: u64, memory: Reader<'_>) -> Option<Mapped> {
    let mut pages = (0..MAX_PAGES).map_while(|page| (address / PAGE).checked_sub(page));
    let begins = |page: &u64| {
        let mut bytes = MAGIC;
        let read = memory.0.read(page * PAGE, &mut bytes);
        read.is_ok() && bytes == MAGIC
    };
    let page = pages.find(begins)?;
    object(page * PAGE, address, memory).ok().flatten()
}

/// Returns the object mapped at `base`, if it contains `address`.
fn object(base: u64, address: u64, memory: Reader<'_>) -> Result<Option<Mapped>, BadAddress> {
    let word = |at: u64, offset: u64| memory.u64(at.wrapping_add(offset));
    let headers = base.wrapping_add(word(base, 0x20)?);
    let count = (word(base, 0x38)? & 0xffff).min(MAX_HEADERS);
    let (mut dynamic, mut piece) = (None, None);
    for index in 0..count {
        let header = headers.wrapping_add(index * HEADER_SIZE);
        let (start, size) = (word(header, 0x10)?, word(header, 0x28)?);
        let at = base.wrapping_add(start);
        // The upper half has the flags.
        match word(header, 0)? & 0xffff_ffff {
            PT_DYNAMIC => dynamic = Some(at),
            PT_LOAD if address.wrapping_sub(at) < size => piece = Some(at..at.wrapping_add(size)),
            _ => {}
        }
    }
    let Some((dynamic, piece)) = dynamic.zip(piece) else {
        return Ok(None);
    };
    let name = name_in(dynamic, base, memory)?;
    Ok(name.map(|name| Mapped { name, piece }))
}

fn name_in(dynamic: u64, base: u64, memory: Reader<'_>) -> Result<Option<String>, BadAddress> {
    let (mut names, mut name) = (None, None);
    for index in 0..MAX_ENTRIES {
        let entry = dynamic.wrapping_add(16 * index);
        let (tag, value) = (memory.u64(entry)?, memory.u64(entry.wrapping_add(8))?);
        match tag {
            0 => break,
            // glibc relocates this address in memory; other loaders leave the file's address.
            DT_STRTAB if value < base => names = Some(base.wrapping_add(value)),
            DT_STRTAB => names = Some(value),
            DT_SONAME => name = Some(value),
            _ => {}
        }
    }
    let Some((names, name)) = names.zip(name) else {
        return Ok(None);
    };
    memory.text(names.wrapping_add(name)).map(Some)
}

#[cfg(test)]
pub(crate) const BASE: u64 = 0x7f55_0000_0000;

/// Maps an object of this name at [`BASE`] whose second page is missing.
#[cfg(test)]
pub(crate) fn map(name: &str, names: u64, memory: &mut crate::scripted::Pages) {
    use crate::guest::memory::GuestMemory;
    memory.map(BASE, PAGE);
    memory.map(BASE + 2 * PAGE, 2 * PAGE);
    let mut put = |offset: u64, word: u64| {
        memory.write(BASE + offset, &word.to_le_bytes()).unwrap();
    };
    put(0x20, 0x40);
    put(0x38, 2);
    // A loadable segment, then the dynamic one.
    put(0x40, 5 << 32 | PT_LOAD);
    put(0x68, 4 * PAGE - 8);
    put(0x78, 6 << 32 | PT_DYNAMIC);
    put(0x88, 0x2000);
    let entries = [(DT_SONAME, 1), (DT_STRTAB, names), (0, 0)];
    for (index, (tag, value)) in (0u64..).zip(entries) {
        put(0x2000 + 16 * index, tag);
        put(0x2008 + 16 * index, value);
    }
    memory.write(BASE, &MAGIC).unwrap();
    memory.write(BASE + 0x301, name.as_bytes()).unwrap();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::guest::memory::GuestMemory;
    use crate::scripted::Pages;

    fn mapped(name: &str, names: u64) -> Pages {
        let mut memory = Pages::default();
        map(name, names, &mut memory);
        memory
    }

    #[test]
    fn components_are_known_by_their_names() {
        let cases = [
            ("mca_io_romio321.so", 0x300, true),
            ("mca_io_romio321.so", BASE + 0x300, true),
            ("mca_io_romio321.so", 0x30_0000, false),
            ("libplugin.so", 0x300, false),
            ("", 0x300, false),
        ];
        for (name, names, expected) in cases {
            let memory = mapped(name, names);
            let found = object_at(BASE + 3 * PAGE + 5, Reader(&memory));
            let is = found.as_ref().is_some_and(Mapped::is_component);
            assert_eq!(is, expected, "{name:?} at {names:#x}");
            assert!(found.is_none_or(|found| found.piece == (BASE..BASE + 4 * PAGE - 8)));
        }
    }

    #[test]
    fn what_is_no_object_is_no_component() {
        let mut memory = mapped("mca_io_romio321.so", 0x300);
        // The last address is after its end.
        for address in [0, 5, u64::MAX, BASE - 1, BASE + 4 * PAGE - 8] {
            assert!(object_at(address, Reader(&memory)).is_none());
        }
        // Headers with invalid or circular references.
        for (offset, word) in [
            (0x88, u64::MAX),
            (0x20, 0x7000),
            (0x38, u64::MAX),
            (0x20, 0),
        ] {
            memory.write(BASE + offset, &word.to_le_bytes()).unwrap();
            assert!(object_at(BASE + 100, Reader(&memory)).is_none());
        }
    }
}
