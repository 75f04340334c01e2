//! Buffers that operations own, and accesses to them, for all implementations.

/// Memory of windows, and buffers of many pieces.
mod pieces;

use std::sync::Arc;

use belljar_trace::{
    BUFFER_ACCESS, BufferAccessWord, Probe, ProbeAt, ProbePurpose, ProbeRecord, ProbeValue,
};

use super::script::{Script, scripts};
use crate::guest::registers::MagicRegisters;
use crate::own::buffers::{RangeToWatch, StoppedAccess};
use crate::scripted::int;

const HANDLE: u64 = 0xac00_0001;

/// The scripts, with watched buffers.
fn watched() -> Vec<Script> {
    let mut all = scripts().into_iter().collect::<Vec<Script>>();
    for it in &mut all {
        it.tracer.probes = Arc::from([Probe {
            name: "buffer access".to_owned(),
            file: String::new(),
            at: ProbeAt::Entry,
            arguments: BUFFER_ACCESS.map(|(.., kind)| kind).to_vec(),
            result: None,
            purpose: ProbePurpose::BufferAccess,
        }]);
    }
    all
}

/// The ranges to watch in the script's process.
fn ranges(it: &mut Script) -> Vec<RangeToWatch> {
    it.tracer.renew_buffers();
    let spaces = it.tracer.take_buffers_to_watch().and_then(|it| it.spaces);
    let mut ranges = spaces.unwrap().into_values().flatten().collect::<Vec<_>>();
    ranges.sort_unstable();
    ranges
}

/// Makes a nonblocking call. Returns the address of the variable with its request.
fn begin(it: &mut Script, name: &str, arguments: &[u64]) -> u64 {
    let variable = it.guest.handles(&[0]);
    let arguments: Vec<u64> = arguments.iter().copied().chain([variable]).collect();
    it.call_with(name, &arguments, |guest| guest.put_handle(variable, HANDLE));
    variable
}

/// Accesses memory by the instruction at `instruction`. Returns the records.
fn access(
    it: &mut Script,
    instruction: u64,
    (linear, bytes): (u64, u64),
    write: bool,
) -> Vec<ProbeRecord> {
    let registers = MagicRegisters {
        cr3: it.guest.cr3,
        fs_base: it.guest.thread,
        ..MagicRegisters::default()
    };
    let access = StoppedAccess {
        instruction,
        linear,
        bytes,
        write,
    };
    it.guest.clock += 1;
    let (at, memory) = (it.guest.clock, &it.guest.memory);
    it.tracer.buffer_accessed(at, 0, access, &registers, memory);
    let records = it.tracer.take_probe_records();
    assert!(records.iter().all(|record| record.fits(&it.tracer.probes)));
    records
}

#[test]
fn buffers_are_watched_from_begin_to_completion() {
    for mut it in watched() {
        let send = [0x5000, int(100), it.double, int(3), int(7), it.world];
        let sent = begin(&mut it, "MPI_Isend", &send);
        assert_eq!(ranges(&mut it), [(0x5000, 0x5320, false)]);
        it.call("MPI_Wait", &[sent, it.ignore]);
        assert_eq!(ranges(&mut it), []);
        let receive = [0x6000, int(9), it.integer, int(0), int(1), it.world];
        let received = begin(&mut it, "MPI_Irecv", &receive);
        assert_eq!(ranges(&mut it), [(0x6000, 0x6024, true)]);
        it.call("MPI_Request_free", &[received]);
        assert_eq!(ranges(&mut it), []);
        let null = [0x6000, int(9), it.integer, int(it.null), int(1), it.world];
        begin(&mut it, "MPI_Irecv", &null);
        assert_eq!(ranges(&mut it), []);
    }
}

/// Both libraries return one handle for sends that are complete at once: the variables distinguish them.
#[test]
fn requests_that_share_a_handle_end_by_their_variables() {
    for mut it in watched() {
        let send = |at| [at, int(1), it.double, int(3), int(7), it.world];
        let (first, second) = (send(0x5000), send(0x6000));
        let variables = [first, second].map(|send| begin(&mut it, "MPI_Isend", &send));
        it.call("MPI_Wait", &[variables[0], it.ignore]);
        assert_eq!(ranges(&mut it), [(0x6000, 0x6008, false)]);
        begin(&mut it, "MPI_Isend", &first);
        // A copy of the handle does not tell which operation it is.
        let copy = it.guest.handles(&[HANDLE]);
        it.call("MPI_Wait", &[copy, it.ignore]);
        assert_eq!(ranges(&mut it), []);
    }
}

#[test]
fn a_request_that_is_found_complete_owns_no_buffer() {
    for mut it in watched() {
        let receive = [0x6000, int(9), it.integer, int(0), int(1), it.world];
        begin(&mut it, "MPI_Irecv", &receive);
        let flag = it.guest.ints(&[0]);
        it.call("MPI_Request_get_status", &[HANDLE, flag, it.ignore]);
        assert_eq!(ranges(&mut it), [(0x6000, 0x6024, true)]);
        let flag = it.guest.ints(&[1]);
        it.call("MPI_Request_get_status", &[HANDLE, flag, it.ignore]);
        assert_eq!(ranges(&mut it), []);
    }
}

/// A program may exchange the variables of equal handles: after as many completions no buffer is owned.
#[test]
fn requests_that_share_a_handle_have_all_ended_after_as_many_completions() {
    for mut it in watched() {
        for order in [[0, 1], [1, 0]] {
            let send = |at| [at, int(1), it.double, int(3), int(7), it.world];
            let (first, second) = (send(0x5000), send(0x6000));
            let variables = [first, second].map(|send| begin(&mut it, "MPI_Isend", &send));
            for at in order {
                it.call("MPI_Wait", &[variables[at], it.ignore]);
            }
            assert_eq!(ranges(&mut it), []);
        }
    }
}

#[test]
fn persistent_requests_own_their_buffers_while_they_are_active() {
    for mut it in watched() {
        let send = [0x5000, int(4), it.double, int(0), int(1), it.world];
        let request = begin(&mut it, "MPI_Send_init", &send);
        assert_eq!(ranges(&mut it), []);
        for _ in 0..2 {
            it.call("MPI_Start", &[request]);
            assert_eq!(ranges(&mut it), [(0x5000, 0x5020, false)]);
            it.call("MPI_Wait", &[request, it.ignore]);
            assert_eq!(ranges(&mut it), []);
        }
    }
}

#[test]
fn gaps_of_datatypes_are_not_watched() {
    for mut it in watched() {
        let column = 0x4c00_7777;
        let vector = [int(3), int(1), int(2), it.double];
        it.guest
            .make(&mut it.tracer, "MPI_Type_vector", &vector, column);
        let send = [0x5000, int(1), column, int(3), int(7), it.world];
        begin(&mut it, "MPI_Isend", &send);
        let blocks = [0x5000, 0x5010, 0x5020].map(|at| (at, at + 8, false));
        assert_eq!(ranges(&mut it), blocks);
    }
}

#[test]
fn buffers_of_too_many_pieces_are_reported() {
    for mut it in watched() {
        let column = 0x4c00_7777;
        let vector = [int(2000), int(1), int(2), it.double];
        it.guest
            .make(&mut it.tracer, "MPI_Type_vector", &vector, column);
        let send = [0x5000, int(1), column, int(3), int(7), it.world];
        begin(&mut it, "MPI_Isend", &send);
        assert_eq!(ranges(&mut it), []);
        let records = it.tracer.take_probe_records();
        let roles = records.iter().map(|record| record.arguments[0].clone());
        assert_eq!(roles.collect::<Vec<_>>(), [ProbeValue::Word(5)]);
    }
}

#[test]
fn a_part_of_a_grid_has_its_rows() {
    for mut it in watched() {
        let part = 0x4c00_7777;
        let [sizes, subsizes, starts] = [[4, 6], [2, 3], [1, 2]].map(|all| it.guest.ints(&all));
        let order_c = match it.world {
            0x4400_0000 => 56,
            0x101 => 14,
            _ => 0,
        };
        let grid = [int(2), sizes, subsizes, starts, int(order_c), it.double];
        it.guest
            .make(&mut it.tracer, "MPI_Type_create_subarray", &grid, part);
        let receive = [0x5000, int(1), part, int(3), int(7), it.world];
        begin(&mut it, "MPI_Irecv", &receive);
        let rows = [8, 14].map(|first| (0x5000 + 8 * first, 0x5000 + 8 * (first + 3), true));
        assert_eq!(ranges(&mut it), rows);
    }
}

#[test]
fn hostile_arguments_are_bounded() {
    for mut it in watched() {
        let huge = 0x4c00_7777;
        for vector in [[i32::MAX, 1, 2], [i32::MAX, 1, 1], [1, i32::MAX, i32::MAX]] {
            let vector = vector.map(int).into_iter().chain([it.double]);
            let vector = vector.collect::<Vec<u64>>();
            it.guest
                .make(&mut it.tracer, "MPI_Type_vector", &vector, huge);
            let send = [u64::MAX - 8, int(i32::MAX), huge, int(3), int(7), it.world];
            begin(&mut it, "MPI_Isend", &send);
        }
        let send = [
            u64::MAX - 8,
            int(i32::MAX),
            it.double,
            int(3),
            int(7),
            it.world,
        ];
        begin(&mut it, "MPI_Isend", &send);
        assert_eq!(ranges(&mut it), []);
    }
}

#[test]
fn operations_are_bounded_and_a_record_names_the_rest() {
    for mut it in watched() {
        let variable = it.guest.handles(&[HANDLE]);
        let send = [
            0x5000,
            int(1),
            it.double,
            int(3),
            int(7),
            it.world,
            variable,
        ];
        for _ in 0..4100 {
            let (tracer, before) = (&mut it.tracer, it.guest.stack);
            let slot = it.guest.enter(tracer, "MPI_Isend", &send);
            it.guest.leave(tracer, slot, 0);
            it.guest.stack = before;
        }
        assert_eq!(ranges(&mut it).len(), 4096);
        let records = it.tracer.take_probe_records();
        let roles = records
            .iter()
            .map(|it| it.buffer_access(BufferAccessWord::Role));
        assert_eq!(roles.collect::<Vec<_>>(), [Some(5)]);
    }
}

#[test]
fn an_instruction_has_one_record_for_an_operation() {
    for mut it in watched() {
        let send = [0x5000, int(100), it.double, int(3), int(7), it.world];
        begin(&mut it, "MPI_Isend", &send);
        assert_eq!(access(&mut it, 0x40, (0x5008, 8), false), []);
        assert_eq!(access(&mut it, 0x40, (0x4ff8, 8), true), []);
        let [record] = &access(&mut it, 0x44, (0x4ffc, 8), true)[..] else {
            panic!("one record");
        };
        let word = |word| record.buffer_access(word).unwrap();
        assert_eq!(word(BufferAccessWord::Role), 0);
        assert_eq!(
            (
                word(BufferAccessWord::Address),
                word(BufferAccessWord::Bytes)
            ),
            (0x4ffc, 8)
        );
        assert_eq!(
            (word(BufferAccessWord::Store), word(BufferAccessWord::By)),
            (1, 0)
        );
        assert_eq!(word(BufferAccessWord::Start), 0x5000);
        assert_eq!(access(&mut it, 0x44, (0x5010, 8), true), []);
        assert_eq!(access(&mut it, 0x48, (0x5010, 8), true).len(), 1);
    }
}

#[test]
fn accesses_inside_of_calls_are_the_librarys() {
    for mut it in watched() {
        let receive = [0x5000, int(100), it.double, int(3), int(7), it.world];
        let request = begin(&mut it, "MPI_Irecv", &receive);
        it.tracer.take_buffers_to_watch();
        let slot = it
            .guest
            .enter(&mut it.tracer, "MPI_Wait", &[request, it.ignore]);
        let exempt = it.tracer.take_buffers_to_watch().unwrap();
        assert_eq!((exempt.spaces, exempt.exempt.len()), (None, 1));
        assert_eq!(access(&mut it, 0x40, (0x5008, 8), true), []);
        it.guest.leave(&mut it.tracer, slot, 0);
        assert!(it.tracer.take_buffers_to_watch().unwrap().exempt.is_empty());
    }
}
