//! Finds the frames of a guest program's stack, from its memory and its files, for no virtual cycle.
//!
//! Nothing of it runs in the guest, and nothing in the guest's memory is believed but return addresses and saved
//! registers: which file an address belongs to is told by the file's first page, which a process has mapped
//! ([`Mappings`]), and how a frame is left by the unwind tables of that file as the host has it ([`Code`]),
//! or by frame pointers where it has none. An [`Unwinder`] goes from frame to frame and stops where anything is odd. The result
//! is a function of registers, memory, files and mappings alone. Called by tracers.
//!
//! From top to bottom: `walk` goes from frame to frame; `mappings` finds files in a process; `files` knows the
//! files; `code` has their tables; `rules` is how one frame is left. None imports one above it.

/// An ELF file's unwind tables.
mod code;
/// The files that code comes from.
mod files;
/// Which file is mapped where in a process.
mod mappings;
/// How a frame is left.
mod rules;
/// From frame to frame.
mod walk;

pub use code::Code;
pub use files::Files;
pub use mappings::{Mapping, Mappings};
pub use rules::Memory;
pub use walk::{Frame, Unwinder};

/// Bytes of a page.
pub const PAGE: usize = 4096;

#[cfg(test)]
mod tests;
