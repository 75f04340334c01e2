//! Datatypes of both implementations.

use belljar_trace::{Datatype, Event, Fact};

use crate::node::NodeTracer;
use crate::scripted::{Guest, int};
use crate::selection::Selection;

struct Script {
    tracer: NodeTracer,
    guest: Guest,
    world: u64,
    double: u64,
    integer: u64,
    next: u64,
}

fn scripts() -> [Script; 2] {
    let mut tracer = NodeTracer::new(0, &Selection::default());
    let guest = Guest::mpich(&mut tracer, 0);
    let mpich = Script {
        tracer,
        guest,
        world: 0x4400_0000,
        double: 0x4c00_080b,
        integer: 0x4c00_0405,
        next: 0xcc00_0000,
    };
    let mut tracer = NodeTracer::new(0, &Selection::default());
    let guest = Guest::open_mpi(&mut tracer, 0);
    let open_mpi = Script {
        tracer,
        world: guest.object("ompi_mpi_comm_world"),
        double: guest.object("ompi_mpi_double"),
        integer: guest.object("ompi_mpi_int"),
        guest,
        next: 0x5555_9999_0000,
    };
    [mpich, open_mpi]
}

fn size(event: &Event) -> Option<u64> {
    match event.fact {
        Some(Fact::Datatype(datatype)) => datatype.size(),
        _ => panic!("{event:?}"),
    }
}

impl Script {
    /// Constructs a datatype: its handle and size.
    fn construct(&mut self, name: &str, arguments: &[u64]) -> (u64, Option<u64>) {
        self.next += 16;
        let event = self
            .guest
            .make(&mut self.tracer, name, arguments, self.next);
        assert_eq!(event.bad, None, "{name}");
        (self.next, size(&event))
    }

    fn bytes_of(&mut self, datatype: u64) -> (Datatype, u64) {
        let arguments = [0x5000, int(2), datatype, int(0), int(0), self.world];
        self.guest.call(&mut self.tracer, "MPI_Send", &arguments);
        let event = self.tracer.take_events().pop().unwrap();
        (event.transfers[0].datatype, event.transfers[0].bytes)
    }
}

#[test]
fn constructors_make_sizes() {
    for mut it in scripts() {
        let (double, integer) = (it.double, it.integer);
        let lengths = it.guest.ints(&[1, 2, 4]);
        let places = it.guest.words(&[0, 8, 16]);
        let types = it.guest.handles(&[double, integer, double]);
        let three = [int(3), lengths, places];
        let with = |first: &[u64], last: u64| [first, &[last]].concat();
        let cases: [(&str, Vec<u64>, u64); 18] = [
            ("MPI_Type_contiguous", vec![int(7), double], 56),
            ("MPI_Type_contiguous_c", vec![7, double], 56),
            ("MPI_Type_vector", vec![int(3), int(2), int(9), integer], 24),
            (
                "MPI_Type_create_hvector",
                vec![int(3), int(2), 99, integer],
                24,
            ),
            ("MPI_Type_hvector", vec![int(3), int(2), 99, integer], 24),
            ("MPI_Type_indexed", with(&three, double), 56),
            ("MPI_Type_create_hindexed", with(&three, integer), 28),
            (
                "MPI_Type_create_indexed_block",
                vec![int(3), int(5), lengths, integer],
                60,
            ),
            ("MPI_Type_create_struct", with(&three, types), 8 + 8 + 32),
            ("MPI_Type_struct", with(&three, types), 48),
            ("MPI_Type_create_resized", vec![double, 0, 64], 8),
            ("MPI_Type_dup", vec![integer], 4),
            (
                "MPI_Type_create_subarray",
                vec![int(3), lengths, lengths, lengths, int(56), double],
                64,
            ),
            ("MPI_Type_create_f90_real", vec![int(6), int(-32766)], 4),
            ("MPI_Type_create_f90_real", vec![int(-32766), int(300)], 8),
            ("MPI_Type_create_f90_complex", vec![int(15), int(30)], 16),
            ("MPI_Type_create_f90_integer", vec![int(9)], 4),
            ("MPI_Type_match_size", vec![int(1), int(8)], 8),
        ];
        for (name, arguments, expected) in cases {
            let (_, found) = it.construct(name, &arguments);
            assert_eq!(found, Some(expected), "{name}");
        }
    }
}

#[test]
fn large_count_constructors_read_wide_arrays() {
    for mut it in scripts() {
        let (lengths, places) = (it.guest.words(&[1 << 33, 2]), it.guest.words(&[0, 8]));
        let arguments = [2, lengths, places, it.double];
        let (_, found) = it.construct("MPI_Type_create_hindexed_c", &arguments);
        assert_eq!(found, Some(8 * ((1 << 33) + 2)));
    }
}

#[test]
fn shares_of_distributed_grids_add_up() {
    for mut it in scripts() {
        let (block, cyclic, default) = if it.world == 0x4400_0000 {
            (121, 122, -49767)
        } else {
            (0, 1, -1)
        };
        let sizes = it.guest.ints(&[10, 7]);
        let distributions = it.guest.ints(&[block, cyclic]);
        let chunks = it.guest.ints(&[default, 2]);
        let processes = it.guest.ints(&[3, 2]);
        let shares: Vec<u64> = (0..6)
            .map(|rank| {
                let arguments = [
                    int(6),
                    int(rank),
                    int(2),
                    sizes,
                    distributions,
                    chunks,
                    processes,
                    int(56),
                    it.double,
                ];
                it.construct("MPI_Type_create_darray", &arguments)
                    .1
                    .unwrap()
            })
            .collect();
        // Rows 4, 4, 2 by columns 0 1 4 5 and 2 3 6.
        assert_eq!(shares, [128, 96, 128, 96, 64, 48]);
    }
}

#[test]
fn freed_handles_are_forgotten_and_reused() {
    for mut it in scripts() {
        let (handle, _) = it.construct("MPI_Type_contiguous", &[int(3), it.double]);
        let (first, bytes) = it.bytes_of(handle);
        assert_eq!(bytes, 48);
        let behind = it.guest.handles(&[handle]);
        it.guest.call(&mut it.tracer, "MPI_Type_free", &[behind]);
        it.tracer.take_events();
        assert_eq!(it.bytes_of(handle), (Datatype::Unknown, 0));
        it.next = handle - 16;
        let (again, _) = it.construct("MPI_Type_contiguous", &[int(5), it.double]);
        assert_eq!(again, handle);
        let (second, bytes) = it.bytes_of(handle);
        assert_eq!(bytes, 80);
        assert_ne!(first, second);
    }
}

#[test]
fn a_size_that_the_program_asks_for_is_learned() {
    for mut it in scripts() {
        let (handle, found) = it.construct("MPI_Type_dup", &[0xcc00_7777]);
        assert_eq!(found, None);
        let out = it.guest.ints(&[0]);
        it.guest.call_with(
            &mut it.tracer,
            "MPI_Type_size",
            &[handle, out],
            |guest, _| {
                guest.put_ints(out, &[8]);
            },
        );
        it.tracer.take_events();
        assert_eq!(it.bytes_of(handle).1, 16);
    }
}

#[test]
fn absurd_sizes_saturate() {
    for mut it in scripts() {
        let mut handle = it.double;
        for _ in 0..3 {
            handle = it
                .construct("MPI_Type_contiguous_c", &[i64::MAX as u64, handle])
                .0;
        }
        assert_eq!(it.bytes_of(handle).1, u64::MAX);
    }
}

#[test]
fn mpichs_pair_types_have_sizes() {
    let [mut it, _] = scripts();
    assert_eq!(it.bytes_of(0x8c00_0001).1, 24);
    assert_eq!(it.bytes_of(0x8c00_0003).1, 12);
    // A built-in datatype of a later MPICH.
    assert_eq!(it.bytes_of(0x4c00_02ff).1, 4);
}
