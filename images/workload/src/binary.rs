//! Requirements of an ELF file: machine, dynamic loader, libraries and their versions.
//!
//! The file may be damaged or hostile: parts beyond its bounds count as absent, and no input causes
//! a panic.

use std::collections::{BTreeMap, BTreeSet};

use object::Endianness;
use object::elf::{
    self, DT_NEEDED, DT_RPATH, DT_RUNPATH, DT_SONAME, ELFCLASS64, ELFMAG, ET_DYN, ET_EXEC,
    PT_INTERP,
};
use object::read::elf::{Dyn, FileHeader, ProgramHeader, SectionTable};
use object::read::{ReadRef, StringTable};

type Header = elf::FileHeader64<Endianness>;

/// Maximum number of libraries, of folders and of versions read from a file.
const MOST: usize = 4096;

/// Requirements of an ELF file. For other machines than x86-64, only the machine is read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Binary {
    /// The machine's number (`EM_X86_64` is 62).
    pub machine: u16,
    /// True for a 64-bit file.
    pub is_64_bit: bool,
    /// True for a program or a library, false for an object file or a core dump.
    pub is_loadable: bool,
    /// The dynamic loader, such as `/lib64/ld-linux-x86-64.so.2`. Libraries and static programs
    /// have none.
    pub interpreter: Option<String>,
    /// Names of the libraries that it needs (DT_NEEDED).
    pub needed: Vec<String>,
    /// Search folders for its own libraries and those of its libraries, with `$ORIGIN` unexpanded (DT_RPATH).
    pub rpath: Vec<String>,
    /// Search folders for its own libraries (DT_RUNPATH).
    pub runpath: Vec<String>,
    /// The name by which programs need it (DT_SONAME).
    pub name: Option<String>,
    /// Required versions of libraries, such as `GLIBC_2.34` of `libc.so.6`.
    pub needs_versions: BTreeMap<String, BTreeSet<String>>,
    /// Versions that it defines.
    pub has_versions: BTreeSet<String>,
}

impl Binary {
    /// Reads the requirements from `data`. Returns `None` if it is not an ELF file.
    pub fn read<'data, R: ReadRef<'data>>(data: R) -> Option<Self> {
        let head = data.read_bytes_at(0, 20).ok()?;
        if head[..4] != ELFMAG {
            return None;
        }
        let number = [head[18], head[19]];
        // Bytes 4 and 5 are the class and the byte order; 1 is little-endian.
        let machine = match head[5] {
            1 => u16::from_le_bytes(number),
            _ => u16::from_be_bytes(number),
        };
        let mut binary = Self {
            machine,
            is_64_bit: head[4] == ELFCLASS64,
            ..Self::default()
        };
        if binary.is_for_nodes() {
            // Parts out of bounds stay absent.
            let _ = binary.read_dynamic(data);
        }
        Some(binary)
    }

    /// True if nodes can run it.
    pub fn is_for_nodes(&self) -> bool {
        self.is_64_bit && self.machine == elf::EM_X86_64
    }

    /// True if a node's kernel runs it without further checks: 32-bit x86.
    pub fn is_of_32_bits(&self) -> bool {
        !self.is_64_bit && self.machine == elf::EM_386
    }

    /// Returns the name of the machine, such as `aarch64`.
    pub fn machine_name(&self) -> String {
        let name = match self.machine {
            elf::EM_X86_64 if !self.is_64_bit => "x86-64 with 32-bit addresses (x32)",
            elf::EM_X86_64 => "x86-64",
            elf::EM_386 => "32-bit x86",
            elf::EM_AARCH64 => "aarch64",
            elf::EM_ARM => "32-bit ARM",
            elf::EM_RISCV => "RISC-V",
            elf::EM_PPC64 => "POWER (64 bits)",
            elf::EM_S390 => "s390x",
            other => return format!("ELF machine {other}"),
        };
        name.to_owned()
    }

    /// True if it is a program that the kernel loads without a dynamic loader.
    pub fn is_static_program(&self) -> bool {
        self.is_loadable && self.interpreter.is_none() && self.needed.is_empty()
    }

    fn read_dynamic<'data, R: ReadRef<'data>>(&mut self, data: R) -> Option<()> {
        let header = Header::parse(data).ok()?;
        let endian = header.endian().ok()?;
        self.is_loadable = matches!(header.e_type(endian), ET_EXEC | ET_DYN);
        let programs = header.program_headers(endian, data).ok()?;
        let loader = programs.iter().find(|one| one.p_type(endian) == PT_INTERP);
        if let Some(path) = loader.and_then(|one| one.interpreter(endian, data).ok()?) {
            self.interpreter = Some(text(path));
        }
        let sections = header.sections(endian, data).ok()?;
        let (entries, strings) = sections.dynamic(endian, data).ok()??;
        let strings = sections.strings(endian, data, strings).ok()?;
        for entry in entries.iter().take(MOST) {
            let offset = entry.val32(endian).filter(|_| entry.is_string(endian));
            let Some(Ok(value)) = offset.map(|offset| strings.get(offset).map(text)) else {
                continue;
            };
            let folders = || value.split(':').map(str::to_owned);
            match entry.tag32(endian) {
                Some(DT_NEEDED) => self.needed.push(value),
                Some(DT_RPATH) => self.rpath.extend(folders()),
                Some(DT_RUNPATH) => self.runpath.extend(folders()),
                Some(DT_SONAME) => self.name = Some(value),
                _ => {}
            }
        }
        self.read_versions(endian, data, &sections);
        Some(())
    }

    fn read_versions<'data, R: ReadRef<'data>>(
        &mut self,
        endian: Endianness,
        data: R,
        sections: &SectionTable<'data, Header, R>,
    ) {
        if let Ok(Some((mut files, strings))) = sections.gnu_verneed(endian, data)
            && let Ok(strings) = sections.strings(endian, data, strings)
        {
            let mut left = MOST;
            while let (Ok(Some((file, mut versions))), true) = (files.next(), left > 0) {
                let Ok(file) = file.file(endian, strings).map(text) else {
                    break;
                };
                let of_file = self.needs_versions.entry(file).or_default();
                while let (Ok(Some(version)), true) = (versions.next(), left > 0) {
                    left -= 1;
                    // VER_FLG_WEAK: the loader accepts its absence.
                    if version.vna_flags.get(endian) & elf::VER_FLG_WEAK == 0
                        && let Ok(name) = version.name(endian, strings)
                    {
                        of_file.insert(text(name));
                    }
                }
            }
        }
        self.read_own_versions(endian, data, sections);
    }

    fn read_own_versions<'data, R: ReadRef<'data>>(
        &mut self,
        endian: Endianness,
        data: R,
        sections: &SectionTable<'data, Header, R>,
    ) {
        let Ok(Some((mut defined, strings))) = sections.gnu_verdef(endian, data) else {
            return;
        };
        let strings: StringTable<'data, R> = match sections.strings(endian, data, strings) {
            Ok(strings) => strings,
            Err(_) => return,
        };
        let mut left = MOST;
        while let (Ok(Some((_, mut names))), true) = (defined.next(), left > 0) {
            left -= 1;
            // Further names are predecessors of the version.
            if let Ok(Some(name)) = names.next()
                && let Ok(name) = name.name(endian, strings)
            {
                self.has_versions.insert(text(name));
            }
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the newest of some versions of glibc as numbers: `[2, 36]` for `GLIBC_2.36`.
pub(crate) fn newest_glibc<'a>(versions: impl IntoIterator<Item = &'a String>) -> Option<Vec<u32>> {
    let numbers = versions.into_iter().filter_map(|version| {
        let number = version.strip_prefix("GLIBC_")?;
        let parts = number.split('.').map(|part| part.parse().ok());
        parts.collect::<Option<Vec<u32>>>()
    });
    numbers.max()
}
