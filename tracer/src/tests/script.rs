//! A scripted process of each implementation, with their differences.

use belljar_trace::{Event, MpiLibrary};

use crate::node::NodeTracer;
use crate::scripted::Guest;
use crate::selection::Selection;

/// The differences between the implementations in a script.
pub(super) struct Script {
    pub(super) tracer: NodeTracer,
    pub(super) guest: Guest,
    pub(super) world: u64,
    pub(super) double: u64,
    pub(super) integer: u64,
    pub(super) any_source: i32,
    pub(super) any_tag: i32,
    pub(super) null: i32,
    pub(super) ignore: u64,
    pub(super) request_null: u64,
    pub(super) no_op: u64,
}

pub(super) fn scripts() -> [Script; 4] {
    let mut tracer = NodeTracer::new(0, &Selection::default());
    let guest = Guest::mpich(&mut tracer, 1);
    let mpich = Script {
        tracer,
        guest,
        world: 0x4400_0000,
        double: 0x4c00_080b,
        integer: 0x4c00_0405,
        any_source: -2,
        any_tag: -1,
        null: -1,
        ignore: 1,
        request_null: 0x2c00_0000,
        no_op: 0x5800_000e,
    };
    let mut tracer = NodeTracer::new(0, &Selection::default());
    let guest = Guest::open_mpi(&mut tracer, 1);
    let open_mpi = Script {
        tracer,
        world: guest.object("ompi_mpi_comm_world"),
        double: guest.object("ompi_mpi_double"),
        integer: guest.object("ompi_mpi_int"),
        request_null: guest.object("ompi_request_null"),
        no_op: guest.object("ompi_mpi_op_no_op"),
        guest,
        any_source: -1,
        any_tag: -1,
        null: -2,
        ignore: 0,
    };
    let standard = [MpiLibrary::Mpich, MpiLibrary::OpenMpi].map(standard_abi);
    let [abi_mpich, abi_open_mpi] = standard;
    [mpich, open_mpi, abi_mpich, abi_open_mpi]
}

fn standard_abi(library: MpiLibrary) -> Script {
    let mut tracer = NodeTracer::new(0, &Selection::default());
    let guest = Guest::standard_abi(&mut tracer, library, 1);
    Script {
        tracer,
        guest,
        world: 0x101,
        double: 0x214,
        integer: 0x209,
        any_source: -1,
        any_tag: -2,
        null: -3,
        ignore: 0,
        request_null: 0x180,
        no_op: 0x3d,
    }
}

impl Script {
    fn last(&mut self) -> Event {
        self.tracer.take_events().pop().unwrap()
    }

    pub(super) fn call(&mut self, name: &str, arguments: &[u64]) -> Event {
        self.guest.call(&mut self.tracer, name, arguments);
        self.last()
    }

    pub(super) fn call_with(
        &mut self,
        name: &str,
        arguments: &[u64],
        body: impl FnOnce(&mut Guest),
    ) -> Event {
        self.guest
            .call_with(&mut self.tracer, name, arguments, |guest, _| body(guest));
        self.last()
    }

    /// Makes a call that returns the error `result`.
    pub(super) fn fail(
        &mut self,
        name: &str,
        arguments: &[u64],
        result: i32,
        body: impl FnOnce(&mut Guest),
    ) -> Event {
        self.guest
            .fail_with(&mut self.tracer, name, arguments, result, body);
        self.last()
    }

    /// Returns the bytes from one status to the next.
    pub(super) fn status_size(&self) -> u64 {
        match self.world {
            0x4400_0000 => 20,
            0x101 => 32,
            _ => 24,
        }
    }

    /// Returns `MPI_ERR_IN_STATUS`, `MPI_ERR_PENDING`, `MPI_ERR_TRUNCATE` and `MPI_ERR_REQUEST`.
    pub(super) fn errors(&self) -> [i32; 4] {
        match self.world {
            // MPICH encodes the location of the error in the other bits.
            0x4400_0000 => [0x0300_0011, 18, 0x0400_000e, 0x0500_0013],
            0x101 => [19, 18, 15, 7],
            _ => [18, 19, 15, 7],
        }
    }

    /// Makes a nonblocking or persistent call, with the request `handle`.
    pub(super) fn begin(&mut self, name: &str, arguments: &[u64], handle: u64) -> Event {
        self.guest.make(&mut self.tracer, name, arguments, handle)
    }
}
