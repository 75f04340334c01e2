//! Finds the frames of a guest program's stack from its memory and its files, without any virtual time.
//!
//! It runs outside of the guest, and of the guest's memory only return addresses and saved registers are used. An address's
//! file is identified by its first page, which a process has mapped ([`Mappings`]). A frame is unwound by the tables of that
//! file on the host ([`Code`]), or by frame pointers if it has no tables. An [`Unwinder`] walks from frame to frame and stops
//! at the first irregularity. The result depends only on registers, memory, files and mappings. Used by tracers.
//!
//! From top to bottom: `walk` walks from frame to frame; `mappings` finds files in a process; `files` identifies files; `code`
//! has their tables; `rules` unwinds one frame. No module imports one above it.

/// An ELF file's unwind tables.
mod code;
/// The files that contain code.
mod files;
/// Mappings of files in a process.
mod mappings;
/// Unwinding of a frame.
mod rules;
/// The walk from frame to frame.
mod walk;

pub use code::Code;
pub use files::Files;
pub use mappings::{Mapping, Mappings};
pub use rules::Memory;
pub use walk::{Unwinder, UnwoundFrame};

/// Bytes of a page.
pub const PAGE: usize = 4096;

#[cfg(test)]
mod tests;
