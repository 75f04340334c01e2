//! Programs on the root of an image: the libraries that they need, and whether they can start there.
//!
//! [`Binary`] reads an ELF file, [`GuestRoot`] an image's file tree as the guest sees it, and [`HostLoader`] finds shared libraries on this host as the dynamic loader
//! does. [`check`] compares a workload's programs with its image before any run. [`large_files`] writes a workload's large files to a disk. No code here runs a program: files
//! of users and images are read only, and may hold any bytes.

/// Machine, loader and libraries of an ELF file.
mod binary;
/// Compares a workload's programs with its image.
pub mod check;
/// Errors of programs that cannot run on the nodes.
mod error;
/// An image's file tree as the guest sees it.
pub mod guest_root;
/// Shared libraries on this host, where its dynamic loader finds them.
pub mod host_loader;
/// Large files of a workload, on a disk.
pub mod large_files;
/// Shared libraries of a program, and their sources.
pub mod library;
/// The two MPI implementations of images, by the names of their libraries and launchers.
mod mpi;
/// Tables of collective algorithms of an image's MPI library.
pub mod tables;

pub use binary::Binary;
pub use error::ProgramError;
pub use guest_root::{GuestRoot, PROGRAMS};
pub use host_loader::HostLoader;
pub use mpi::Mpi;

#[cfg(test)]
#[allow(clippy::print_stderr)]
mod tests;
