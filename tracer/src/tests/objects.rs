//! Datatypes of both implementations.

use belljar_trace::datatypes::PREDEFINED;
use belljar_trace::{Bounds, Datatype, Event, Fact, MpiLibrary};

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

fn scripts() -> [Script; 4] {
    scripts_with(&Selection::default())
}

/// Scripts with tracers that record this selection.
fn scripts_with(selection: &Selection) -> [Script; 4] {
    let mut tracer = NodeTracer::new(0, selection);
    let guest = Guest::mpich(&mut tracer, 0);
    let mpich = Script {
        tracer,
        guest,
        world: 0x4400_0000,
        double: 0x4c00_080b,
        integer: 0x4c00_0405,
        next: 0xcc00_0000,
    };
    let mut tracer = NodeTracer::new(0, selection);
    let guest = Guest::open_mpi(&mut tracer, 0);
    let open_mpi = Script {
        tracer,
        world: guest.object("ompi_mpi_comm_world"),
        double: guest.object("ompi_mpi_double"),
        integer: guest.object("ompi_mpi_int"),
        guest,
        next: 0x5555_9999_0000,
    };
    let standard = [MpiLibrary::Mpich, MpiLibrary::OpenMpi].map(|library| {
        let mut tracer = NodeTracer::new(0, selection);
        let guest = Guest::standard_abi(&mut tracer, library, 0);
        Script {
            tracer,
            guest,
            world: 0x101,
            double: 0x214,
            integer: 0x209,
            next: 0x5555_9999_0000,
        }
    });
    let [abi_mpich, abi_open_mpi] = standard;
    [mpich, open_mpi, abi_mpich, abi_open_mpi]
}

fn size(event: &Event) -> Option<u64> {
    match event.fact {
        Some(Fact::Datatype(datatype)) => datatype.size(),
        _ => panic!("{event:?}"),
    }
}

fn bounds(event: &Event) -> Option<(i64, i64)> {
    let details = event.details.0.as_deref();
    let bounds = details.and_then(|details| details.bounds);
    bounds.map(|Bounds { lower, extent }| (lower, extent))
}

impl Script {
    /// Constructs a datatype, and returns its handle and bounds.
    fn bounded(&mut self, name: &str, arguments: &[u64]) -> (u64, Option<(i64, i64)>) {
        self.next += 16;
        let event = self
            .guest
            .make(&mut self.tracer, name, arguments, self.next);
        (self.next, bounds(&event))
    }

    /// Constructs a datatype, and returns its handle and size.
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
fn fortran_types_by_precision_and_range_consist_of_one_predefined_type() {
    let selection = Selection {
        datatypes: true,
        ..Selection::default()
    };
    for mut it in scripts_with(&selection) {
        let cases: [(&str, Vec<u64>, &str); 4] = [
            (
                "MPI_Type_create_f90_real",
                vec![int(-32766), int(300)],
                "MPI_REAL8",
            ),
            (
                "MPI_Type_create_f90_complex",
                vec![int(6), int(30)],
                "MPI_COMPLEX8",
            ),
            ("MPI_Type_create_f90_integer", vec![int(9)], "MPI_INTEGER4"),
            ("MPI_Type_create_f90_integer", vec![int(2)], "MPI_INTEGER1"),
        ];
        for (name, arguments, expected) in cases {
            it.next += 16;
            let event = it.guest.make(&mut it.tracer, name, &arguments, it.next);
            let details = event.details.0.as_deref();
            let made = details.and_then(|details| details.datatypes.as_deref()?.made.clone());
            let index = PREDEFINED.iter().position(|row| row.name == expected);
            let part = Datatype::Predefined(u16::try_from(index.unwrap()).unwrap());
            assert_eq!(made.unwrap().parts, Some(vec![(part, 1)]), "{name}");
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
        let (block, cyclic, default) = match it.world {
            0x4400_0000 => (121, 122, -49767),
            0x101 => (17, 18, 19),
            _ => (0, 1, -1),
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
    let [mut it, ..] = scripts();
    assert_eq!(it.bytes_of(0x8c00_0001).1, 24);
    assert_eq!(it.bytes_of(0x8c00_0003).1, 12);
    // A built-in datatype of a later MPICH.
    assert_eq!(it.bytes_of(0x4c00_02ff).1, 4);
}

#[test]
fn constructors_make_bounds() {
    for mut it in scripts() {
        let (double, integer) = (it.double, it.integer);
        let lengths = it.guest.ints(&[1, 0, 4]);
        let places = it.guest.words(&[16, 100, u64::MAX - 7]);
        let counts = it.guest.ints(&[3, 7, -1]);
        let sizes = it.guest.ints(&[5, 6]);
        let types = it.guest.handles(&[double, integer, integer]);
        let byte = match it.world {
            0x4400_0000 => 0x4c00_010d,
            0x101 => 0x247,
            _ => it.guest.object("ompi_mpi_byte"),
        };
        let tail = it.guest.handles(&[double, byte]);
        let (one, ends) = (it.guest.ints(&[1, 3]), it.guest.words(&[0, 8]));
        let resized = it.bounded("MPI_Type_create_resized", &[double, u64::MAX - 3, 24]);
        assert_eq!(resized.1, Some((-4, 24)));
        let wide = resized.0;
        let cases: [(&str, Vec<u64>, (i64, i64)); 13] = [
            ("MPI_Type_contiguous", vec![int(7), double], (0, 56)),
            ("MPI_Type_contiguous", vec![int(7), wide], (-4, 168)),
            ("MPI_Type_contiguous", vec![int(0), wide], (0, 0)),
            ("MPI_Type_dup", vec![wide], (-4, 24)),
            (
                "MPI_Type_vector",
                vec![int(3), int(2), int(5), integer],
                (0, 48),
            ),
            (
                "MPI_Type_vector",
                vec![int(3), int(2), int(-5), integer],
                (-40, 48),
            ),
            (
                "MPI_Type_create_hvector",
                vec![int(3), int(1), 16, integer],
                (0, 36),
            ),
            (
                "MPI_Type_indexed",
                vec![int(3), lengths, counts, double],
                (-8, 40),
            ),
            (
                "MPI_Type_create_hindexed",
                vec![int(3), lengths, places, double],
                (-8, 32),
            ),
            (
                "MPI_Type_create_indexed_block",
                vec![int(2), int(2), counts, integer],
                (12, 24),
            ),
            // The last four ints begin 8 bytes before the buffer, the double ends at 24.
            (
                "MPI_Type_create_struct",
                vec![int(3), lengths, places, types],
                (-8, 32),
            ),
            // A double and three bytes.
            (
                "MPI_Type_create_struct",
                vec![int(2), one, ends, tail],
                (0, 16),
            ),
            (
                "MPI_Type_create_subarray",
                vec![int(2), sizes, one, one, int(56), integer],
                (0, 120),
            ),
        ];
        for (name, arguments, expected) in cases {
            let (_, found) = it.bounded(name, &arguments);
            assert_eq!(found, Some(expected), "{name}");
        }
    }
}

#[test]
fn bounds_that_the_program_asks_for_are_learned() {
    for mut it in scripts() {
        let (handle, _) = it.construct("MPI_Type_dup", &[0xcc00_7777]);
        let out = it.guest.words(&[0, 0]);
        let ask = |it: &mut Script, name, told: &[u64]| {
            let arguments = [handle, out, out + 8];
            let arguments = &arguments[..told.len() + 1];
            let memory = told.to_vec();
            it.guest
                .call_with(&mut it.tracer, name, arguments, |guest, _| {
                    guest.put_words(out, &memory);
                });
            it.tracer.take_events().pop().unwrap()
        };
        assert_eq!(bounds(&ask(&mut it, "MPI_Type_get_extent", &[8, 40])), None);
        ask(&mut it, "MPI_Type_size", &[8]);
        let event = ask(&mut it, "MPI_Type_get_extent", &[8, 40]);
        assert_eq!((size(&event), bounds(&event)), (Some(8), Some((8, 40))));
        let again = ask(&mut it, "MPI_Type_get_extent", &[8, 40]);
        assert_eq!((bounds(&again), again.fact), (None, None));
        let (_, made) = it.bounded("MPI_Type_contiguous", &[int(2), handle]);
        assert_eq!(made, Some((8, 80)));
    }
}
