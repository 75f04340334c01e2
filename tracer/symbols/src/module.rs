//! One file, with all information for naming its addresses: debug information and symbols.
//!
//! Both are in the file itself, or in its separate debug file. Created and used by `symbols`.

use std::sync::Arc;

use addr2line::Context;
use gimli::{Dwarf, EndianArcSlice, LittleEndian};

use crate::FileSource;
use crate::functions::Functions;
use crate::sections::{Elf, parse, section};
use crate::separate::{common_file, debug_file};
use crate::symbols::SourceLocation;

type Slice = EndianArcSlice<LittleEndian>;

/// Most inlined functions that are reported at one address.
const MOST_INLINED: usize = 64;

/// Addresses from here on belong to no program.
const BEYOND: u64 = 1 << 63;

/// A file of a guest.
pub(crate) struct Module {
    context: Option<Context<Slice>>,
    functions: Functions,
}

impl Module {
    /// Reads the file at `path` with contents `data`.
    pub(crate) fn of(path: &str, data: &[u8], files: &dyn FileSource) -> Self {
        let separate = debug_file(path, data, files);
        let own = parse(data);
        let other = separate.as_deref().and_then(parse);
        let with_lines = |elf: &&Elf<'_>| !section(elf, ".debug_info").is_empty();
        let both = [own.as_ref(), other.as_ref()];
        let dwarf = both.into_iter().flatten().find(with_lines).and_then(|elf| {
            let mut dwarf = dwarf(elf)?;
            if let Some(common) = common_file(elf.data(), files)
                && let Some(common) = parse(&common).as_ref().and_then(self::dwarf)
            {
                dwarf.set_sup(common);
            }
            Some(dwarf)
        });
        let functions = both.into_iter().flatten().rev().map(Functions::of);
        // The debug file has all symbols if the file was stripped of them.
        let functions = functions.into_iter().find(|found| !found.is_empty());
        Self {
            context: dwarf.and_then(|dwarf| Context::from_arc_dwarf(Arc::new(dwarf)).ok()),
            functions: functions.unwrap_or_default(),
        }
    }

    /// Returns the functions at `address`, from the innermost inlined function to the outer function.
    pub(crate) fn places(&self, address: u64) -> Vec<SourceLocation> {
        let mut places = self.by_lines(address).unwrap_or_default();
        if places.is_empty() {
            places.push(SourceLocation::default());
        }
        if let Some(last) = places.last_mut()
            && last.function.is_none()
        {
            let name = self.functions.at(address);
            last.function = name.map(|name| addr2line::demangle_auto(name.into(), None).into());
        }
        places
    }

    fn by_lines(&self, address: u64) -> Option<Vec<SourceLocation>> {
        // No program has code there, and addr2line adds to addresses.
        let context = self.context.as_ref().filter(|_| address < BEYOND)?;
        let mut frames = context.find_frames(address).skip_all_loads().ok()?;
        let mut places = Vec::new();
        while let Ok(Some(frame)) = frames.next()
            && places.len() < MOST_INLINED
        {
            let function = frame.function.as_ref();
            let location = frame.location.as_ref();
            places.push(SourceLocation {
                function: function.and_then(|it| Some(it.demangle().ok()?.into_owned())),
                file: location.and_then(|it| it.file).map(str::to_owned),
                line: location.and_then(|it| it.line).filter(|line| *line > 0),
            });
        }
        Some(places)
    }
}

/// Reads the debug information of a file.
fn dwarf(elf: &Elf<'_>) -> Option<Dwarf<Slice>> {
    let load = |id: gimli::SectionId| -> Result<Slice, gimli::Error> {
        let bytes: Arc<[u8]> = section(elf, id.name()).into();
        Ok(EndianArcSlice::new(bytes, LittleEndian))
    };
    Dwarf::load(load).ok()
}
