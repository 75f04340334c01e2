//! Processes of each implementation that have introduced themselves, as the preloaded library does it.
//!
//! The facts are those of `belljar_abi`, and a process has reported all of them before its first call. Used by tests of
//! the tracer and of analyses.

use belljar_abi::{
    IMPLEMENTATION_ABI_MPICH, IMPLEMENTATION_ABI_OPEN_MPI, IMPLEMENTATION_ABI_UNKNOWN,
    IMPLEMENTATION_MPICH, IMPLEMENTATION_OPEN_MPI, OPEN_MPI_OBJECTS, fact,
};
use belljar_trace::{Implementation, MpiLibrary};

use super::{Guest, OBJECTS};
use crate::node::NodeTracer;

impl Guest {
    /// Creates an MPICH process that has introduced itself to `tracer`.
    pub fn mpich(tracer: &mut NodeTracer, rank: u64) -> Self {
        let mut guest = Self::new(Implementation::Mpich, rank);
        guest.tell(tracer, fact::PROCESS, rank, IMPLEMENTATION_MPICH);
        guest
    }

    /// Creates an Open MPI process that has introduced itself and its objects to `tracer`.
    pub fn open_mpi(tracer: &mut NodeTracer, rank: u64) -> Self {
        let mut guest = Self::new(Implementation::OpenMpi, rank);
        guest.tell(tracer, fact::PROCESS, rank, IMPLEMENTATION_OPEN_MPI);
        let addresses: Vec<u64> = OPEN_MPI_OBJECTS
            .iter()
            .map(|(name, _)| guest.object(name))
            .collect();
        let table = guest.words(&addresses);
        let count = addresses.len() as u64;
        guest.tell(tracer, fact::OPEN_MPI_OBJECTS, table, count);
        guest
    }

    /// Creates a process with the standard ABI of `library` that has introduced itself to `tracer`.
    pub fn standard_abi(tracer: &mut NodeTracer, library: MpiLibrary, rank: u64) -> Self {
        let mut guest = Self::new(Implementation::StandardAbi(library), rank);
        let number = match library {
            MpiLibrary::Mpich => IMPLEMENTATION_ABI_MPICH,
            MpiLibrary::OpenMpi => IMPLEMENTATION_ABI_OPEN_MPI,
            MpiLibrary::Unknown => IMPLEMENTATION_ABI_UNKNOWN,
        };
        guest.tell(tracer, fact::PROCESS, rank, number);
        guest
    }

    /// Returns the handle of one of Open MPI's predefined objects.
    pub fn object(&self, name: &str) -> u64 {
        let index = OPEN_MPI_OBJECTS.iter().position(|(it, _)| *it == name);
        OBJECTS + 512 * index.unwrap() as u64
    }
}
