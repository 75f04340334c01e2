//! Constants and handles of the MPI libraries: MPICH 4.0 and Open MPI 4.1.
//!
//! MPICH's handles are numbers, Open MPI's are addresses; for predefined objects they are the addresses that the process has
//! reported. Used by all that make arguments.

use belljar_trace::Implementation;
use belljar_tracer::scripted::Guest;

/// A library's constants, as arguments and statuses have them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Library {
    pub(super) implementation: Implementation,
    /// `MPI_COMM_WORLD`.
    pub(super) world: u64,
    /// `MPI_COMM_SELF`.
    pub(super) own: u64,
    /// `MPI_BYTE`.
    pub(super) byte: u64,
    /// `MPI_SUM`.
    pub(super) sum: u64,
    /// `MPI_INFO_NULL`.
    pub(super) no_info: u64,
    /// `MPI_REQUEST_NULL`.
    pub(super) no_request: u64,
    /// `MPI_WIN_NULL`.
    pub(super) no_window: u64,
    /// `MPI_STATUS_IGNORE`.
    pub(super) ignore: u64,
    /// `MPI_ANY_SOURCE`.
    pub(super) any_source: i32,
    /// `MPI_PROC_NULL`.
    pub(super) no_rank: i32,
    /// `MPI_ROOT`.
    pub(super) root: i32,
    /// `MPI_LOCK_EXCLUSIVE`.
    pub(super) exclusive: i32,
    /// `MPI_LOCK_SHARED`.
    pub(super) shared: i32,
    /// Bytes of a status.
    pub(super) status: u64,
    /// Bytes of a handle.
    pub(super) handle: u64,
    /// The lowest handle of objects that the program makes.
    made: u64,
}

impl Library {
    pub(super) const MPICH: Self = Self {
        implementation: Implementation::Mpich,
        world: 0x4400_0000,
        own: 0x4400_0001,
        byte: 0x4c00_010d,
        sum: 0x5800_0003,
        no_info: 0x1c00_0000,
        no_request: 0x2c00_0000,
        no_window: 0x2000_0000,
        ignore: 1,
        any_source: -2,
        no_rank: -1,
        root: -3,
        exclusive: 234,
        shared: 235,
        status: 20,
        handle: 4,
        made: 0,
    };

    /// The library of a process.
    pub(super) fn open_mpi(guest: &Guest) -> Self {
        Self {
            implementation: Implementation::OpenMpi,
            world: guest.object("ompi_mpi_comm_world"),
            own: guest.object("ompi_mpi_comm_self"),
            byte: guest.object("ompi_mpi_byte"),
            sum: 0x7f01_0000_0000,
            no_info: 0x7f01_0000_0200,
            no_request: guest.object("ompi_request_null"),
            no_window: 0x7f01_0000_0400,
            ignore: 0,
            any_source: -1,
            no_rank: -2,
            root: -4,
            exclusive: 1,
            shared: 2,
            status: 24,
            handle: 8,
            made: 0x5600_0000_0000,
        }
    }

    /// The handle of an object that the program makes, by MPICH's for it.
    pub(super) fn made(&self, handle: u64) -> u64 {
        self.made | handle
    }
}
