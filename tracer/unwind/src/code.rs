//! An ELF file's code for unwinding: its mapping, and its unwind tables.
//!
//! Files come from the image or from users, and invalid parts are ignored. The tables are copied from the file and
//! indexed by function once, so a look-up takes a binary search. Created by `files` when a file is first seen in a
//! process.

use gimli::{
    BaseAddresses, CieOrFde, EhFrame, EhFrameHdr, EndianSlice, LittleEndian, Pointer,
    UnwindContext, UnwindSection,
};
use object::Endianness;
use object::elf::{
    EM_X86_64, FileHeader64, NT_GNU_BUILD_ID, PF_X, PT_GNU_EH_FRAME, PT_LOAD, ProgramHeader64,
};
use object::read::ReadRef;
use object::read::elf::{FileHeader, ProgramHeader, SectionHeader};

use crate::rules::Rules;

const ENDIAN: Endianness = Endianness::Little;

/// Most functions of a file whose tables are kept.
const MOST_FUNCTIONS: usize = 1 << 22;

/// Longest unwind tables that are read, in bytes.
const LONGEST_TABLES: u64 = 1 << 28;

/// Longest build ID that is kept, in bytes.
const LONGEST_ID: usize = 64;

/// A mapped segment of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MappedSegment {
    start: u64,
    end: u64,
    offset: u64,
    is_code: bool,
}

/// A function's table: its address range, and its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FunctionTable {
    start: u64,
    end: u64,
    offset: usize,
}

/// An ELF file's code, for a known mapping in a process.
#[derive(Debug)]
pub struct Code {
    build_id: Vec<u8>,
    segments: Vec<MappedSegment>,
    tables: Vec<u8>,
    bases: BaseAddresses,
    functions: Vec<FunctionTable>,
}

impl Code {
    /// Parses the file `data`; `None` if it is not a 64-bit ELF file for x86-64.
    pub fn parse<'data>(data: impl ReadRef<'data>) -> Option<Self> {
        let header = FileHeader64::<Endianness>::parse(data).ok()?;
        if !header.is_little_endian() || header.e_machine(ENDIAN) != EM_X86_64 {
            return None;
        }
        let programs = header.program_headers(ENDIAN, data).ok()?;
        let segments = programs.iter().filter_map(segment).collect();
        let (address, tables) = tables(header, programs, data).unwrap_or_default();
        let mut code = Self {
            build_id: build_id(programs, data).unwrap_or_default(),
            segments,
            tables,
            bases: BaseAddresses::default().set_eh_frame(address),
            functions: Vec::new(),
        };
        code.functions = code.functions();
        Some(code)
    }

    /// Returns the build ID; empty if there is none.
    pub fn build_id(&self) -> &[u8] {
        &self.build_id
    }

    fn section(&self) -> EhFrame<EndianSlice<'_, LittleEndian>> {
        let mut section = EhFrame::new(&self.tables, LittleEndian);
        section.set_address_size(8);
        section
    }

    /// Returns all functions, in the order of their addresses. If tables are truncated, the functions before that
    /// point.
    fn functions(&self) -> Vec<FunctionTable> {
        let section = self.section();
        let mut functions = Vec::new();
        let mut entries = section.entries(&self.bases);
        while let Ok(Some(entry)) = entries.next() {
            let CieOrFde::Fde(partial) = entry else {
                continue;
            };
            let Ok(entry) = partial.parse(EhFrame::cie_from_offset) else {
                continue;
            };
            let start = entry.initial_address();
            let function = FunctionTable {
                start,
                end: start.saturating_add(entry.len()),
                offset: entry.offset(),
            };
            if function.start < function.end && functions.len() < MOST_FUNCTIONS {
                functions.push(function);
            }
        }
        functions.sort_unstable();
        functions
    }

    /// Returns the address ranges of functions, for tests.
    #[cfg(test)]
    pub(crate) fn all_functions(&self) -> impl Iterator<Item = (u64, u64)> {
        self.functions.iter().map(|it| (it.start, it.end))
    }

    /// Returns the unwind rules of a frame whose code is at `address`, relative to the file.
    pub(crate) fn rules(&self, address: u64) -> Option<Rules> {
        let after = self.functions.partition_point(|it| it.start <= address);
        let function = self.functions.get(after.checked_sub(1)?)?;
        if address >= function.end {
            return None;
        }
        let section = self.section();
        let entry = section.fde_from_offset(
            &self.bases,
            function.offset.into(),
            EhFrame::cie_from_offset,
        );
        let entry = entry.ok()?;
        let mut context = UnwindContext::new();
        let row = entry.unwind_info_for_address(&section, &self.bases, &mut context, address);
        Rules::of(row.ok()?, &section, entry.is_signal_trampoline())
    }

    /// Returns the difference between addresses in a process and in the file, for the file's first page mapped at
    /// `base`.
    pub(crate) fn bias(&self, base: u64) -> Option<u64> {
        let first = self.segments.iter().find(|it| it.offset == 0)?;
        Some(base.wrapping_sub(first.start))
    }

    /// Returns the address of the file's first page for this difference between addresses in a process and in the file.
    pub(crate) fn base(&self, bias: u64) -> Option<u64> {
        let first = self.segments.iter().find(|it| it.offset == 0)?;
        Some(bias.wrapping_add(first.start))
    }

    /// Returns the piece of code that contains `address`, relative to the file.
    pub(crate) fn piece(&self, address: u64) -> Option<(u64, u64)> {
        let mut segments = self.segments.iter();
        let piece = segments.find(|it| it.is_code && (it.start..it.end).contains(&address))?;
        Some((piece.start, piece.end))
    }
}

fn segment(header: &ProgramHeader64<Endianness>) -> Option<MappedSegment> {
    let start = header.p_vaddr(ENDIAN);
    let end = start.checked_add(header.p_memsz(ENDIAN))?;
    (header.p_type(ENDIAN) == PT_LOAD).then(|| MappedSegment {
        start,
        end,
        offset: header.p_offset(ENDIAN),
        is_code: header.p_flags(ENDIAN) & PF_X != 0,
    })
}

/// Returns the unwind tables and their address: by the section's name, or by the program headers if there are no
/// sections.
fn tables<'data>(
    header: &FileHeader64<Endianness>,
    programs: &[ProgramHeader64<Endianness>],
    data: impl ReadRef<'data>,
) -> Option<(u64, Vec<u8>)> {
    let sections = header.sections(ENDIAN, data).ok();
    let section = sections.and_then(|it| Some(it.section_by_name(ENDIAN, b".eh_frame")?.1));
    let (address, offset, length) = match section {
        Some(section) => (
            section.sh_addr(ENDIAN),
            section.sh_offset(ENDIAN),
            section.sh_size(ENDIAN),
        ),
        None => tables_by_segments(programs, data)?,
    };
    if length > LONGEST_TABLES {
        return None;
    }
    let bytes = data.read_bytes_at(offset, length).ok()?;
    Some((address, bytes.to_vec()))
}

/// Returns address, offset and greatest length of the tables that the header table refers to.
fn tables_by_segments<'data>(
    programs: &[ProgramHeader64<Endianness>],
    data: impl ReadRef<'data>,
) -> Option<(u64, u64, u64)> {
    let index = programs
        .iter()
        .find(|it| it.p_type(ENDIAN) == PT_GNU_EH_FRAME)?;
    let length = index.p_filesz(ENDIAN).min(LONGEST_TABLES);
    let bytes = data.read_bytes_at(index.p_offset(ENDIAN), length).ok()?;
    let bases = BaseAddresses::default().set_eh_frame_hdr(index.p_vaddr(ENDIAN));
    let parsed = EhFrameHdr::new(bytes, LittleEndian).parse(&bases, 8).ok()?;
    let Pointer::Direct(address) = parsed.eh_frame_ptr() else {
        return None;
    };
    programs.iter().find_map(|segment| {
        let within = address.checked_sub(segment.p_vaddr(ENDIAN))?;
        let length = segment.p_filesz(ENDIAN).checked_sub(within)?;
        let offset = segment.p_offset(ENDIAN).checked_add(within)?;
        (segment.p_type(ENDIAN) == PT_LOAD && length > 0).then_some((address, offset, length))
    })
}

fn build_id<'data>(
    programs: &[ProgramHeader64<Endianness>],
    data: impl ReadRef<'data>,
) -> Option<Vec<u8>> {
    programs.iter().find_map(|segment| {
        let mut notes = segment.notes(ENDIAN, data).ok()??;
        while let Ok(Some(note)) = notes.next() {
            if note.name() == b"GNU" && note.n_type(ENDIAN) == NT_GNU_BUILD_ID {
                let id = note.desc();
                return (id.len() <= LONGEST_ID).then(|| id.to_vec());
            }
        }
        None
    })
}
