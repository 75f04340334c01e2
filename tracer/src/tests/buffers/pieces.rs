//! Memory of windows, and buffers whose pieces have datatypes or places of their own.

use belljar_trace::{BufferAccessWord, ProbeRecord};

use super::super::script::Script;
use super::{HANDLE, access, begin, ranges, watched};
use crate::own::buffers::RangeToWatch;
use crate::scripted::int;

/// Accesses to a window are recorded as ranges between two calls.
#[test]
fn accesses_to_windows_are_joined() {
    for mut it in watched() {
        let window = [0x5000, 64, int(8), 0, it.world];
        it.guest
            .make(&mut it.tracer, "MPI_Win_create", &window, 0xa000_0000);
        assert_eq!(ranges(&mut it), [(0x5000, 0x5040, true)]);
        for at in [0x5000, 0x5008, 0x5020] {
            assert_eq!(access(&mut it, 0x40, (at, 8), true), []);
        }
        let clock = it.guest.clock;
        it.call("MPI_Barrier", &[it.world]);
        let records = it.tracer.take_probe_records();
        let range = |record: &ProbeRecord| {
            assert!(record.entry < clock && record.known > clock);
            let word = |word| record.buffer_access(word).unwrap();
            (
                word(BufferAccessWord::Address),
                word(BufferAccessWord::Bytes),
            )
        };
        let found: Vec<(u64, u64)> = records.iter().map(range).collect();
        assert_eq!(found, [(0x5000, 16), (0x5020, 8)]);
    }
}

/// Memory belongs to a window while it is attached; displacements in such a window are addresses.
#[test]
fn attached_memory_is_watched_until_it_is_detached() {
    for mut it in watched() {
        let window = 0xa000_0000;
        it.guest.make(
            &mut it.tracer,
            "MPI_Win_create_dynamic",
            &[0, it.world],
            window,
        );
        assert_eq!(it.tracer.take_probe_records(), []);
        for start in [0x5000, 0x6000] {
            it.call("MPI_Win_attach", &[window, start, 64]);
        }
        assert_eq!(
            ranges(&mut it),
            [(0x5000, 0x5040, true), (0x6000, 0x6040, true)]
        );
        access(&mut it, 0x40, (0x5008, 8), true);
        it.call("MPI_Win_detach", &[window, 0x5000]);
        let records = it.tracer.take_probe_records();
        let start = records[0].buffer_access(BufferAccessWord::Start);
        assert_eq!((records.len(), start), (1, Some(0)));
        assert_eq!(ranges(&mut it), [(0x6000, 0x6040, true)]);
        let freed = it.guest.handles(&[window]);
        it.call("MPI_Win_free", &[freed]);
        assert_eq!(ranges(&mut it), []);
    }
}

/// Each piece of `MPI_Ialltoallw` has its own datatype, count and place.
#[test]
fn pieces_with_datatypes_of_their_own_are_watched() {
    for mut it in watched() {
        let size = it.guest.ints(&[2]);
        it.call("MPI_Comm_size", &[it.world, size]);
        let [counts, places] = [[2, 1], [0, 32]].map(|all| it.guest.ints(&all));
        let types = it.guest.handles(&[it.integer, it.double]);
        let arguments = [
            0x5000, counts, places, types, 0x6000, counts, places, types, it.world,
        ];
        begin(&mut it, "MPI_Ialltoallw", &arguments);
        let expected = [
            (0x5000, 0x5008, false),
            (0x5020, 0x5028, false),
            (0x6000, 0x6008, true),
            (0x6020, 0x6028, true),
        ];
        assert_eq!(ranges(&mut it), expected);
        assert_eq!(it.tracer.take_probe_records(), []);
    }
}

/// The share of a distributed grid has the blocks of its rows, in either order of dimensions.
#[test]
fn a_share_of_a_distributed_grid_has_its_rows() {
    for mut it in watched() {
        let (block, cyclic, default, orders) = match it.world {
            0x4400_0000 => (121, 122, -49767, [56, 57]),
            0x101 => (17, 18, 19, [14, 15]),
            _ => (0, 1, -1, [0, 1]),
        };
        let [sizes, processes] = [[4, 6], [2, 2]].map(|all| it.guest.ints(&all));
        let distributions = it.guest.ints(&[block, cyclic]);
        let chunks = it.guest.ints(&[default, 2]);
        // Rank 3 has rows 2 and 3, and columns 2 and 3.
        let in_c = vec![(0x5000 + 8 * 14, 16), (0x5000 + 8 * 20, 16)];
        let in_fortran = vec![(0x5000 + 8 * 10, 16), (0x5000 + 8 * 14, 16)];
        for (order, rows) in orders.into_iter().zip([in_c, in_fortran]) {
            let share = 0x4c00_7777;
            let arguments = [
                int(4),
                int(3),
                int(2),
                sizes,
                distributions,
                chunks,
                processes,
                int(order),
                it.double,
            ];
            it.guest
                .make(&mut it.tracer, "MPI_Type_create_darray", &arguments, share);
            let receive = [0x5000, int(1), share, int(3), int(7), it.world];
            let request = begin(&mut it, "MPI_Irecv", &receive);
            let rows: Vec<RangeToWatch> = rows
                .into_iter()
                .map(|(at, bytes)| (at, at + bytes, true))
                .collect();
            assert_eq!(ranges(&mut it), rows);
            it.call("MPI_Request_free", &[request]);
        }
    }
}

/// A partition of a send is watched once it is ready, and one of a receive until it has arrived.
#[test]
fn partitions_are_watched_one_by_one() {
    for mut it in watched() {
        let prepare = |it: &mut Script, name: &str, buffer: u64| {
            let message = [buffer, int(3), 2, it.double, int(1), int(7), it.world, 0];
            let request = begin(it, name, &message);
            it.call("MPI_Start", &[request]);
            request
        };
        let sent = prepare(&mut it, "MPI_Psend_init", 0x5000);
        assert_eq!(ranges(&mut it), []);
        it.call("MPI_Pready", &[int(1), HANDLE]);
        assert_eq!(ranges(&mut it), [(0x5010, 0x5020, false)]);
        it.call("MPI_Pready_range", &[int(2), int(2), HANDLE]);
        assert_eq!(
            ranges(&mut it),
            [(0x5010, 0x5020, false), (0x5020, 0x5030, false)]
        );
        it.call("MPI_Wait", &[sent, it.ignore]);
        assert_eq!(ranges(&mut it), []);
        let received = prepare(&mut it, "MPI_Precv_init", 0x6000);
        assert_eq!(
            ranges(&mut it),
            [0x6000, 0x6010, 0x6020].map(|at| (at, at + 16, true))
        );
        for (partition, flag) in [(0, 0), (1, 1)] {
            let flag = it.guest.ints(&[flag]);
            it.call("MPI_Parrived", &[HANDLE, int(partition), flag]);
        }
        assert_eq!(
            ranges(&mut it),
            [0x6000, 0x6020].map(|at| (at, at + 16, true))
        );
        it.call("MPI_Wait", &[received, it.ignore]);
        assert_eq!(ranges(&mut it), []);
        assert_eq!(it.tracer.take_probe_records(), []);
    }
}
