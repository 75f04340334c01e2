//! Names functions and lines of places in programs, by their files and by separate debug files.
//!
//! [`Symbols`] is asked for a place in a file of a guest, whose files a [`FileSource`] has, and tells the function there, its line, and
//! what was inlined. Debug information is the file's own or stands in another one, which the build ID or a
//! debug link leads to. Files may hold anything: what makes no sense in them is left out. Called by `belljar trace`
//! after a run; nothing here takes part in one.
//!
//! From top to bottom: `symbols` keeps files that were asked for; `module` is one of them; `separate` finds debug files;
//! `functions` is the symbol table; `sections` reads files. `kallsyms` is the kernel's, apart from all of them. None imports one above it.

/// A file's functions by their addresses.
mod functions;
/// Functions of a kernel by its own table.
mod kallsyms;
/// One file, with all that names places in it.
mod module;
/// Sections of an ELF file.
mod sections;
/// Debug information in files of its own.
mod separate;
/// The files that were asked for.
mod symbols;

pub use kallsyms::KernelSymbols;
pub use symbols::{Place, Symbols};

/// The files of guests, which may have several at one path.
pub trait FileSource {
    /// What the first file at `path` holds that `fits`; the path begins with `/`, and links are followed. `None`
    /// where there is none.
    fn find(&self, path: &str, fits: &mut dyn FnMut(&[u8]) -> bool) -> Option<Vec<u8>>;
}

#[cfg(test)]
mod tests;
