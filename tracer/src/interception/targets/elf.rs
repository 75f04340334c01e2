//! The parts of an ELF file that probes need: symbols, code, and addresses that the loader fills in.
//!
//! Only requested parts of the file are read. Used by `Targets`.

use std::collections::BTreeMap;
use std::ops::Range;

use object::elf::{
    self, ET_DYN, PF_X, PT_INTERP, PT_LOAD, R_X86_64_64, R_X86_64_GLOB_DAT, SHN_UNDEF,
};
use object::read::ReadRef;
use object::read::elf::{
    Dyn, FileHeader, ProgramHeader, Rela, SectionHeader, SectionTable, Sym, SymbolTable,
};
use object::{Endianness, SymbolIndex};

use super::{ObjectLocation, PAGE};

type Header = elf::FileHeader64<Endianness>;
type Programs<'data> = &'data [elf::ProgramHeader64<Endianness>];

/// A symbol's address, and whether it is code.
#[derive(Clone, Copy, Debug)]
struct Defined {
    value: u64,
    size: u64,
    is_code: bool,
}

/// A 64-bit ELF file of this architecture.
pub(crate) struct Elf<'data, R: ReadRef<'data>> {
    data: R,
    header: &'data Header,
    programs: Programs<'data>,
    /// Its relevant symbols.
    symbols: BTreeMap<Vec<u8>, Defined>,
    slots: BTreeMap<Vec<u8>, u64>,
    /// True for symbols of MPICH's internals, and of Open MPI's.
    internals: [bool; 2],
}

impl<'data, R: ReadRef<'data>> Elf<'data, R> {
    /// Parses `data`; `None` if it is not such a file.
    pub(crate) fn parse(data: R) -> Option<Self> {
        let header = Header::parse(data).ok()?;
        let endian = header.endian().ok()?;
        if header.e_machine(endian) != elf::EM_X86_64 {
            return None;
        }
        let programs = header.program_headers(endian, data).ok()?;
        let mut file = Self {
            data,
            header,
            programs,
            symbols: BTreeMap::new(),
            slots: BTreeMap::new(),
            internals: [false; 2],
        };
        file.read_symbols();
        Some(file)
    }

    fn read_symbols(&mut self) {
        let endian = Endianness::Little;
        let Ok(sections) = self.header.sections(endian, self.data) else {
            return;
        };
        for kind in [elf::SHT_DYNSYM, elf::SHT_SYMTAB] {
            let Ok(symbols) = sections.symbols(endian, self.data, kind) else {
                continue;
            };
            for symbol in symbols.iter() {
                let Ok(name) = symbol.name(endian, symbols.strings()) else {
                    continue;
                };
                self.internals[0] |= name.starts_with(b"MPIR_");
                self.internals[1] |= name.starts_with(b"ompi_");
                if symbol.st_shndx(endian) == SHN_UNDEF || !matters(name) {
                    continue;
                }
                let defined = Defined {
                    value: symbol.st_value(endian),
                    size: symbol.st_size(endian),
                    is_code: symbol.st_type() == elf::STT_FUNC,
                };
                self.symbols.entry(name.to_vec()).or_insert(defined);
            }
            if kind == elf::SHT_DYNSYM && !self.symbols.is_empty() {
                self.read_slots(&sections, &symbols);
            }
        }
    }

    /// Finds the locations where the loader writes the addresses of symbols.
    fn read_slots(
        &mut self,
        sections: &SectionTable<'data, Header, R>,
        symbols: &SymbolTable<'data, Header, R>,
    ) {
        let endian = Endianness::Little;
        for section in sections.iter() {
            let Ok(Some((relocations, _))) = section.rela(endian, self.data) else {
                continue;
            };
            for relocation in relocations {
                let plain = relocation.r_addend(endian) == 0;
                let kind = relocation.r_type(endian, false);
                if !plain || !matches!(kind, R_X86_64_GLOB_DAT | R_X86_64_64) {
                    continue;
                }
                let index = SymbolIndex(relocation.r_sym(endian, false) as usize);
                let symbol = symbols.symbol(index);
                let name = symbol.and_then(|symbol| symbols.symbol_name(endian, symbol));
                if let Ok(name) = name
                    && matters(name)
                {
                    let slot = relocation.r_offset(endian);
                    self.slots.entry(name.to_vec()).or_insert(slot);
                }
            }
        }
    }

    /// True if it defines `name`.
    pub(crate) fn defines(&self, name: &str) -> bool {
        self.symbols.contains_key(name.as_bytes())
    }

    /// True if it defines or uses a symbol of MPICH's internals.
    pub(crate) fn names_mpich(&self) -> bool {
        self.internals[0]
    }

    /// True if it defines or uses a symbol of Open MPI's internals.
    pub(crate) fn names_open_mpi(&self) -> bool {
        self.internals[1]
    }

    /// Returns the shared library's own name (`DT_SONAME`).
    pub(crate) fn name(&self) -> Option<&'data [u8]> {
        let endian = Endianness::Little;
        let sections = self.header.sections(endian, self.data).ok()?;
        let (entries, strings) = sections.dynamic(endian, self.data).ok()??;
        let names = sections.strings(endian, self.data, strings).ok()?;
        let mut entries = entries.iter();
        let entry = entries.find(|entry| entry.tag32(endian) == Some(elf::DT_SONAME))?;
        names.get(entry.val32(endian)?).ok()
    }

    /// Returns the address of the function called `name`, if it defines one.
    pub(crate) fn function(&self, name: &str) -> Option<u64> {
        let symbol = self.symbols.get(name.as_bytes())?;
        symbol.is_code.then_some(symbol.value)
    }

    /// Returns the location of the object called `name`.
    pub(crate) fn place_of(&self, name: &str) -> ObjectLocation {
        let moves = self.header.e_type(Endianness::Little) == ET_DYN;
        match (
            self.slots.get(name.as_bytes()),
            self.symbols.get(name.as_bytes()),
        ) {
            (Some(slot), _) if moves => ObjectLocation::Slot(*slot),
            (_, Some(symbol)) => ObjectLocation::At(symbol.value),
            _ => ObjectLocation::Missing,
        }
    }

    /// Returns its entry point.
    pub(crate) fn entry(&self) -> u64 {
        self.header.e_entry.get(Endianness::Little)
    }

    /// True if it is a program rather than a library.
    pub(crate) fn is_program(&self) -> bool {
        let endian = Endianness::Little;
        let sections = self.header.sections(endian, self.data);
        let dynamic = sections.and_then(|sections| sections.dynamic(endian, self.data));
        let mut entries = dynamic
            .ok()
            .flatten()
            .map_or(&[][..], |found| found.0)
            .iter();
        let is_movable = entries.any(|entry| {
            entry.tag32(endian) == Some(elf::DT_FLAGS_1)
                && entry.d_val(endian) & u64::from(elf::DF_1_PIE) != 0
        });
        self.header.e_type(endian) != ET_DYN || self.needs_loader() || is_movable
    }

    /// True if it names a dynamic loader, whose code its processes run first.
    pub(crate) fn needs_loader(&self) -> bool {
        let mut segments = self.programs.iter();
        segments.any(|segment| segment.p_type(Endianness::Little) == PT_INTERP)
    }

    /// Returns the segments that are mapped with the permission `flag`.
    fn segments(&self, flag: u32) -> impl Iterator<Item = &'data elf::ProgramHeader64<Endianness>> {
        let endian = Endianness::Little;
        let segments = self.programs.iter();
        segments.filter(move |segment| {
            segment.p_type(endian) == PT_LOAD && segment.p_flags(endian) & flag != 0
        })
    }

    /// Returns the address range of the segments with that permission.
    fn span(&self, flag: u32) -> Range<u64> {
        let endian = Endianness::Little;
        let (mut first, mut last) = (u64::MAX, 0);
        for segment in self.segments(flag) {
            let start = segment.p_vaddr(endian);
            first = first.min(start);
            last = last.max(start.saturating_add(segment.p_memsz(endian)));
        }
        first.min(last)..last
    }

    /// Returns the address range of its data.
    pub(crate) fn data(&self) -> Range<u64> {
        self.span(elf::PF_W)
    }

    /// Returns the address range from the first MPI function to the end of the last. In a program that contains a
    /// library, this range has the library's code, and not the program's.
    pub(crate) fn functions(&self) -> Range<u64> {
        let names = |name: &[u8]| name.starts_with(b"MPI_") || name.starts_with(b"PMPI_");
        let (mut first, mut last) = (u64::MAX, 0);
        for (_, symbol) in self.symbols.iter().filter(|(name, _)| names(name)) {
            if symbol.is_code {
                first = first.min(symbol.value);
                last = last.max(symbol.value.saturating_add(symbol.size));
            }
        }
        first.min(last)..last
    }

    /// Returns the address range of its code.
    pub(crate) fn code(&self) -> Range<u64> {
        self.span(PF_X)
    }

    /// Returns the page of code that contains address `value`, as in the file.
    pub(crate) fn page_of_code(&self, value: u64) -> Option<Box<[u8; PAGE]>> {
        let endian = Endianness::Little;
        let segment = self.segments(PF_X).find(|segment| {
            let offset = value.checked_sub(segment.p_vaddr(endian));
            offset.is_some_and(|offset| offset < segment.p_filesz(endian))
        })?;
        let within = value - segment.p_vaddr(endian);
        let place = segment.p_offset(endian).checked_add(within)?;
        // The kernel maps whole pages of the file.
        if place % PAGE as u64 != value % PAGE as u64 {
            return None;
        }
        let start = place - place % PAGE as u64;
        let length = self.data.len().ok()?.checked_sub(start)?.min(PAGE as u64);
        let bytes = self.data.read_bytes_at(start, length).ok()?;
        let mut page = Box::new([0; PAGE]);
        page[..bytes.len()].copy_from_slice(bytes);
        Some(page)
    }
}

/// True if a symbol of this name is relevant.
fn matters(name: &[u8]) -> bool {
    let prefixes: [&[u8]; 6] = [
        b"MPI_",
        b"PMPI_",
        b"ompi_",
        b"ucp_tag_",
        b"mca_pml_ob1_",
        b"ABI_init_",
    ];
    prefixes.iter().any(|prefix| name.starts_with(prefix))
}
