//! Names of places, file by file.
//!
//! A file is read when a place in it is asked for first. A file whose build ID is not the one that is asked for is another
//! one, and names nothing. Called by those who show call sites.

use std::collections::BTreeMap;

use object::Object;

use crate::FileSource;
use crate::module::Module;
use crate::sections::parse;

/// A function, and a line in it; what is not known is `None`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The function's name: of C++ and Rust as people write it, of Fortran as compilers do.
    pub function: Option<String>,
    /// The source file, as the compiler was told.
    pub file: Option<String>,
    /// The line, from 1.
    pub line: Option<u32>,
}

/// Names places in the files of a guest.
pub struct Symbols<'f> {
    files: &'f dyn FileSource,
    modules: BTreeMap<(String, Vec<u8>), Option<Module>>,
}

impl<'f> Symbols<'f> {
    /// By these files.
    pub fn new(files: &'f dyn FileSource) -> Self {
        Self {
            files,
            modules: BTreeMap::new(),
        }
    }

    /// What is at `address` of the file at `path`, by the file's own addresses: the innermost inlined function
    /// first, the function that they are in last; never empty. The file must have this build ID, unless that is empty.
    pub fn places(&mut self, path: &str, build_id: &[u8], address: u64) -> Vec<Place> {
        let key = (path.to_owned(), build_id.to_vec());
        let files = self.files;
        let module = self
            .modules
            .entry(key)
            .or_insert_with(|| load(path, build_id, files));
        match module {
            Some(module) => module.places(address),
            None => vec![Place::default()],
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
