//! Names of addresses, file by file.
//!
//! A file is read at the first look-up of an address in it. A file with a different build ID is another file, and yields
//! no names. Used by output of call sites.

use std::collections::BTreeMap;

use object::Object;

use crate::FileSource;
use crate::module::Module;
use crate::sections::parse;

/// A location in source code: a function, and a line in it; `None` for unknown parts.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct SourceLocation {
    /// The function's name: demangled for C++ and Rust, as the compiler wrote it for Fortran.
    pub function: Option<String>,
    /// The source file, as passed to the compiler.
    pub file: Option<String>,
    /// The line, from 1.
    pub line: Option<u32>,
}

/// Names addresses in the files of a guest.
pub struct Symbols<'f> {
    files: &'f dyn FileSource,
    modules: BTreeMap<(String, Vec<u8>), Option<Module>>,
}

impl<'f> Symbols<'f> {
    /// Creates it for these files.
    pub fn new(files: &'f dyn FileSource) -> Self {
        Self {
            files,
            modules: BTreeMap::new(),
        }
    }

    /// Returns the functions at `address` of the file at `path`, relative to the file, from the innermost inlined function
    /// to the outer function; never empty. The file must have this build ID, unless that is empty.
    pub fn places(&mut self, path: &str, build_id: &[u8], address: u64) -> Vec<SourceLocation> {
        let key = (path.to_owned(), build_id.to_vec());
        let files = self.files;
        let module = self
            .modules
            .entry(key)
            .or_insert_with(|| load(path, build_id, files));
        match module {
            Some(module) => module.places(address),
            None => vec![SourceLocation::default()],
        }
    }
}

fn load(path: &str, build_id: &[u8], files: &dyn FileSource) -> Option<Module> {
    let data = files.find(path, &mut |data| {
        let elf = parse(data);
        elf.is_some_and(|elf| {
            let own = elf.build_id().ok().flatten().unwrap_or_default();
            build_id.is_empty() || own == build_id
        })
    })?;
    Some(Module::of(path, &data, files))
}
