//! Programs of the user's own: what a binary needs, which image has it, and the scenario that runs it.
//!
//! [`Binary`] reads an ELF file, [`GuestRoot`] an image's file tree as the guest will see it, and
//! [`HostLoader`] finds shared libraries on this host as the dynamic loader does. [`choose`]
//! picks an image, [`compose`] writes the scenario. [`check`] holds the workload's programs against
//! the image before any run, whoever wrote the scenario. Nothing here runs a program: files of
//! the user's and of images are read only, and may hold anything.
//!
//! Called by `belljar mpirun`, and by [`Plan`](crate::plan::Plan) for the check.

mod binary;
pub mod check;
pub mod choose;
pub mod compose;
mod error;
mod guest_root;
mod host_loader;
pub mod library;
mod mpi;
pub mod request;

pub use binary::Binary;
pub use error::ProgramError;
pub use guest_root::GuestRoot;
pub(crate) use guest_root::PROGRAMS;
pub use host_loader::HostLoader;
pub use mpi::Mpi;

#[cfg(test)]
#[allow(clippy::print_stderr)]
mod tests;
