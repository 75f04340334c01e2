//! Dependencies of programs, shared libraries and kernel modules.
//!
//! Files may come from anywhere: a broken or non-ELF file yields `None` and never a panic. Called by `data`
//! for the libraries of programs and by `kernel` for modules.

use object::elf::{DT_NEEDED, DT_RPATH, DT_RUNPATH, FileHeader64};
use object::read::elf::{Dyn, ElfFile64, FileHeader};
use object::{Endianness, Object, ObjectSection, ReadRef};

/// The libraries that a program or library needs, and its search folders.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Needs {
    /// Names, such as `libc.so.6`.
    pub(crate) libraries: Vec<String>,
    /// Folders to search first (`DT_RPATH` and `DT_RUNPATH`), with `$ORIGIN` not yet expanded.
    pub(crate) folders: Vec<String>,
    /// True if its dependencies inherit these folders: they are a `DT_RPATH`, without a `DT_RUNPATH`.
    pub(crate) inherited: bool,
    /// The dynamic loader, such as `/lib64/ld-linux-x86-64.so.2`.
    pub(crate) loader: Option<String>,
}

/// Reads the dynamic section of an ELF file. `None` for anything that is not a 64-bit ELF file;
/// a statically linked program gives empty needs.
pub(crate) fn needs<'a, R: ReadRef<'a>>(bytes: R) -> Option<Needs> {
    let header = FileHeader64::<Endianness>::parse(bytes).ok()?;
    let endian = header.endian().ok()?;
    let sections = header.sections(endian, bytes).ok()?;
    let mut needs = Needs {
        loader: loader(header, endian, bytes),
        ..Needs::default()
    };
    let Some((entries, strings)) = sections.dynamic(endian, bytes).ok().flatten() else {
        return Some(needs);
    };
    let strings = sections.strings(endian, bytes, strings).ok()?;
    let has = |tag| entries.iter().any(|entry| entry.tag32(endian) == Some(tag));
    needs.inherited = has(DT_RPATH) && !has(DT_RUNPATH);
    for entry in entries {
        let text = entry.val32(endian).and_then(|at| strings.get(at).ok());
        let Some(text) = text else { continue };
        let text = String::from_utf8_lossy(text);
        match entry.tag32(endian) {
            Some(DT_NEEDED) => needs.libraries.push(text.into_owned()),
            Some(DT_RPATH | DT_RUNPATH) => needs.folders.extend(text.split(':').map(str::to_owned)),
            _ => {}
        }
    }
    Some(needs)
}

fn loader<'a, R: ReadRef<'a>>(
    header: &FileHeader64<Endianness>,
    endian: Endianness,
    bytes: R,
) -> Option<String> {
    use object::read::elf::ProgramHeader;
    let segments = header.program_headers(endian, bytes).ok()?;
    let path = segments
        .iter()
        .find_map(|segment| segment.interpreter(endian, bytes).ok().flatten())?;
    Some(String::from_utf8_lossy(path).into_owned())
}

/// The modules that a kernel module depends on, from its `.modinfo` section. `None` when the bytes are not
/// a kernel module.
pub(crate) fn module_depends(bytes: &[u8]) -> Option<Vec<String>> {
    let file = ElfFile64::<Endianness>::parse(bytes).ok()?;
    let section = file.section_by_name(".modinfo")?;
    let info = section.data().ok()?;
    let line = info
        .split(|&byte| byte == 0)
        .find_map(|line| line.strip_prefix(b"depends="))?;
    let text = String::from_utf8_lossy(line);
    Some(
        text.split(',')
            .filter(|name| !name.is_empty())
            .map(str::to_owned)
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_test_program_needs_its_libc() {
        let own = std::fs::read(std::env::current_exe().expect("own path")).expect("own bytes");
        let needs = needs(&own[..]).expect("an ELF file");
        assert!(
            needs
                .libraries
                .iter()
                .any(|name| name.starts_with("libc.so")),
            "{needs:?}"
        );
        assert!(needs.loader.is_some_and(|path| path.contains("ld-linux")));
        assert_eq!(module_depends(&own), None);
    }

    #[test]
    fn other_bytes_are_no_elf_file() {
        assert_eq!(needs(&b"#!/bin/sh\n"[..]), None);
        assert_eq!(needs(&b"\x7fELF"[..]), None);
        assert_eq!(module_depends(&[0; 4096]), None);
    }
}
