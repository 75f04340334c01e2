//! Processes of each implementation that have introduced themselves, as the preloaded library does it.
//!
//! The facts are those of `belljar_abi`, and a process has told all of them before its first call. Called by tests of
//! the tracer and of analyses.

use belljar_abi::{
    IMPLEMENTATION_ABI_MPICH, IMPLEMENTATION_ABI_OPEN_MPI, IMPLEMENTATION_ABI_UNKNOWN,
    IMPLEMENTATION_MPICH, IMPLEMENTATION_OPEN_MPI, OPEN_MPI_OBJECTS, fact,
};
use belljar_trace::{Implementation, MpiLibrary};

use super::{Guest, OBJECTS};
use crate::node::NodeTracer;

impl Guest {
    /// An MPICH process that has told `tracer` of itself.
    pub fn mpich(tracer: &mut NodeTracer, rank: u64) -> Self {
        let mut guest = Self::new(Implementation::Mpich, rank);
        guest.tell(tracer, fact::PROCESS, rank, IMPLEMENTATION_MPICH);
        guest
    }

    /// An Open MPI process that has told `tracer` of itself and its objects.
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

    /// A process that uses the standard ABI of `library` and has told `tracer` of itself.
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

    /// The handle of one of Open MPI's predefined objects.
    pub fn object(&self, name: &str) -> u64 {
        let index = OPEN_MPI_OBJECTS.iter().position(|(it, _)| *it == name);
        OBJECTS + 512 * index.unwrap() as u64
    }
}
