//! Names functions and lines of addresses in programs, from their files and separate debug files.
//!
//! [`Symbols`] looks up an address in a file of a guest, provided by a [`FileSource`], and returns the function there, its line, and
//! inlined functions. Debug information is in the file itself or in another one, referenced by the build ID or a debug link. Files are
//! untrusted: invalid parts are ignored. Used by `belljar trace` after a run; runs do not use this crate.
//!
//! From top to bottom: `symbols` caches files; `module` is one of them; `separate` finds debug files; `functions` is the symbol table;
//! `sections` reads files. `kallsyms` is for the kernel, and independent of all of them. No module imports one above it.

/// A file's functions by their addresses.
mod functions;
/// Functions of a kernel from its built-in table.
mod kallsyms;
/// One file, with all information for naming its addresses.
mod module;
/// Sections of an ELF file.
mod sections;
/// Separate files with debug information.
mod separate;
/// The cache of files.
mod symbols;

pub use kallsyms::KernelSymbols;
pub use symbols::{SourceLocation, Symbols};

/// The files of guests; a path may have several.
pub trait FileSource {
    /// Returns the contents of the first file at `path` that `fits`; the path begins with `/`, and links are followed. `None` if there is
    /// none.
    fn find(&self, path: &str, fits: &mut dyn FnMut(&[u8]) -> bool) -> Option<Vec<u8>>;
}

#[cfg(test)]
mod tests;
