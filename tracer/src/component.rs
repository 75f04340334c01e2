//! Open MPI's components, which it opens at run time: what they call of MPI is the library's own
//! affair, as ROMIO's calls are, which is one of them.
//!
//! Whose code an address belongs to is read from what is mapped before it in the guest: the next ELF
//! header down there, and the name that it gives its object. Asked only of calls within
//! calls. It is the guest's memory: little of it is read, and whatever stands there may be wrong.

use crate::memory::{BadAddress, Reader};

const PAGE: u64 = 4096;
/// Pages before a call's return address that are looked at.
const MAX_PAGES: u64 = 1 << 10;
const MAX_HEADERS: u64 = 32;
const MAX_ENTRIES: u64 = 128;
const HEADER_SIZE: u64 = 56;
/// What an ELF file begins with (little endian, 64 bits).
const MAGIC: [u8; 6] = *b"\x7fELF\x02\x01";
const PT_LOAD: u64 = 1;
const PT_DYNAMIC: u64 = 2;
const DT_STRTAB: u64 = 5;
const DT_SONAME: u64 = 14;

/// Whether the code at `address` is a component's.
pub(crate) fn is_component(address: u64, memory: Reader<'_>) -> bool {
    let pages = (0..MAX_PAGES).map_while(|page| (address / PAGE).checked_sub(page));
    let begins = |page: &u64| {
        let mut bytes = MAGIC;
        let read = memory.0.read(page * PAGE, &mut bytes);
        read.is_ok() && bytes == MAGIC
    };
    let Some(page) = pages.into_iter().find(begins) else {
        return false;
    };
    let name = object_name(page * PAGE, address, memory);
    name.is_ok_and(|name| name.is_some_and(|name| name.starts_with("mca_")))
}

/// The name that the object mapped at `base` gives itself, if `address` is in it.
fn object_name(base: u64, address: u64, memory: Reader<'_>) -> Result<Option<String>, BadAddress> {
    let word = |at: u64, offset: u64| memory.u64(at.wrapping_add(offset));
    let headers = base.wrapping_add(word(base, 0x20)?);
    let count = (word(base, 0x38)? & 0xffff).min(MAX_HEADERS);
    let (mut dynamic, mut holds) = (None, false);
    for index in 0..count {
        let header = headers.wrapping_add(index * HEADER_SIZE);
        let (start, size) = (word(header, 0x10)?, word(header, 0x28)?);
        let offset = address.wrapping_sub(base.wrapping_add(start));
        // In the upper half stand the flags.
        match word(header, 0)? & 0xffff_ffff {
            PT_DYNAMIC => dynamic = Some(base.wrapping_add(start)),
            PT_LOAD => holds |= offset < size,
            _ => {}
        }
    }
    match dynamic.filter(|_| holds) {
        Some(dynamic) => name_in(dynamic, base, memory),
        None => Ok(None),
    }
}

fn name_in(dynamic: u64, base: u64, memory: Reader<'_>) -> Result<Option<String>, BadAddress> {
    let (mut names, mut name) = (None, None);
    for index in 0..MAX_ENTRIES {
        let entry = dynamic.wrapping_add(16 * index);
        let (tag, value) = (memory.u64(entry)?, memory.u64(entry.wrapping_add(8))?);
        match tag {
            0 => break,
            // glibc writes down where it is; other loaders leave the file's address.
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

/// Maps an object of this name at [`BASE`]: its second page is not there.
#[cfg(test)]
pub(crate) fn map(name: &str, names: u64, memory: &mut crate::guest::Pages) {
    use crate::memory::GuestMemory;
    memory.map(BASE, PAGE);
    memory.map(BASE + 2 * PAGE, 2 * PAGE);
    let mut put = |offset: u64, word: u64| {
        memory.write(BASE + offset, &word.to_le_bytes()).unwrap();
    };
    put(0x20, 0x40);
    put(0x38, 2);
    // A segment to load, then the dynamic one.
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
    use crate::guest::Pages;
    use crate::memory::GuestMemory;

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
            let found = is_component(BASE + 3 * PAGE + 5, Reader(&memory));
            assert_eq!(found, expected, "{name:?} at {names:#x}");
        }
    }

    #[test]
    fn what_is_no_object_is_no_component() {
        let mut memory = mapped("mca_io_romio321.so", 0x300);
        // The last is after its end.
        for address in [0, 5, u64::MAX, BASE - 1, BASE + 4 * PAGE - 8] {
            assert!(!is_component(address, Reader(&memory)));
        }
        // Headers that lead nowhere, or round in circles.
        for (offset, word) in [
            (0x88, u64::MAX),
            (0x20, 0x7000),
            (0x38, u64::MAX),
            (0x20, 0),
        ] {
            memory.write(BASE + offset, &word.to_le_bytes()).unwrap();
            assert!(!is_component(BASE + 100, Reader(&memory)));
        }
    }
}
