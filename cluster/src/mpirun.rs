//! Programs of the user's own: what a binary needs, which image has it, and the scenario that runs it.
//!
//! [`Binary`](mpirun::Binary) reads an ELF file, [`GuestRoot`](mpirun::GuestRoot) an image's file tree as the guest will see it, and
//! [`HostLoader`](mpirun::HostLoader) finds shared libraries on this host as the dynamic loader does. [`choose`](mpirun::choose)
//! picks an image, [`compose`](mpirun::compose) writes the scenario. [`check`](mpirun::check) holds the workload's programs against
//! the image before any run, whoever wrote the scenario. Nothing here runs a program: files of
//! the user's and of images are read only, and may hold anything.
//!
//! Called by `belljar mpirun`, and by [`Plan`](crate::plan::Plan) for the check.

/// What an ELF file says of its machine, its loader and its libraries.
mod binary;
/// Whether the workload's programs can run on its image.
pub mod check;
/// Picks the image that fits some programs.
pub mod choose;
/// The scenario of a request, as a text for people.
pub mod compose;
/// Why a program cannot run on the nodes.
mod error;
/// An image's file tree as the guest will see it.
mod guest_root;
/// Shared libraries on this host, where its dynamic loader would find them.
mod host_loader;
/// Large files of the workload, on a disk.
pub mod large_files;
/// Which shared libraries a program gets, and where from.
pub mod library;
/// The two MPI implementations that images have, by the names of their libraries and launchers.
mod mpi;
/// What is asked for on the command line.
pub mod request;
/// What an image's MPI library says of its collective operations.
pub mod tables;

pub use binary::Binary;
pub use error::ProgramError;
pub use guest_root::GuestRoot;
pub(crate) use guest_root::PROGRAMS;
pub use host_loader::HostLoader;
pub use mpi::Mpi;

#[cfg(test)]
#[allow(clippy::print_stderr)]
mod tests;
