//! Replaced return addresses, and their description for unwinders.

use belljar_abi::{PENDING_LENGTH, PENDING_OFFSET, STUB_BASE, pending_bucket};

use crate::guest::memory::Reader;
use crate::guest::registers::MagicRegisters;
use crate::node::NodeTracer;
use crate::scripted::{Guest, LIBRARY, PROGRAM, RESOLVERS, RETURNED};
use crate::selection::Selection;

const WORLD: u64 = 0x4400_0000;

fn tracer() -> NodeTracer {
    NodeTracer::new(0, &Selection::default())
}

/// Returns the return address in the process's table for the call at `slot`.
fn told(guest: &Guest, slot: u64) -> Option<u64> {
    let bucket = pending_bucket(slot + 8);
    let word = |at| Reader(&guest.memory).u64(at).unwrap();
    let pairs = (bucket..bucket + 128).step_by(16);
    let mut found = pairs.filter(|pair| word(*pair) == slot + 8);
    let pair = found.next();
    assert_eq!(found.next(), None);
    pair.map(|pair| word(pair + 8))
}

fn is_empty(guest: &Guest) -> bool {
    let table = STUB_BASE + PENDING_OFFSET;
    (table..table + PENDING_LENGTH)
        .step_by(16)
        .all(|pair| Reader(&guest.memory).u64(pair) == Ok(0))
}

#[test]
fn what_was_replaced_is_told_while_the_call_lasts() {
    let mut tracer = tracer();
    let mut guest = Guest::mpich(&mut tracer, 0);
    let slot = guest.enter(&mut tracer, "MPI_Barrier", &[WORLD]);
    assert!(guest.is_intercepted(slot));
    assert_eq!(told(&guest, slot), Some(PROGRAM));
    assert_eq!(guest.leave(&mut tracer, slot, 0), PROGRAM);
    assert_eq!(told(&guest, slot), None);
    assert!(is_empty(&guest));
}

/// As a C++ exception does, or a cancelled thread.
#[test]
fn what_was_left_by_a_jump_is_told_until_its_place_is_used_again() {
    let mut tracer = tracer();
    let mut guest = Guest::mpich(&mut tracer, 0);
    let barrier = belljar_mpi::number("MPI_Barrier").unwrap().into();
    let stack = guest.stack;
    let (_, slot) = guest.enter_operation(&mut tracer, barrier, &[WORLD], PROGRAM + 5);
    guest.stack = stack;
    let again = guest.enter(&mut tracer, "MPI_Barrier", &[WORLD]);
    assert_eq!(again, slot);
    assert_eq!(told(&guest, slot), Some(PROGRAM));
    guest.leave(&mut tracer, slot, 0);
    assert!(is_empty(&guest));
}

#[test]
fn a_full_bucket_costs_a_description_and_no_return() {
    let mut tracer = tracer();
    let mut guest = Guest::mpich(&mut tracer, 0);
    let first = guest.stack;
    // The places differ only in bits that do not affect the bucket.
    guest.memory.map(first - (9 << 26) - 64, 9 << 26);
    let mut slots = Vec::new();
    for thread in 0..9 {
        guest.thread = 0x1000 * (thread + 1);
        guest.stack = first - (thread << 26);
        slots.push(guest.enter(&mut tracer, "MPI_Barrier", &[WORLD]));
    }
    let described = slots.iter().filter(|slot| told(&guest, **slot).is_some());
    assert_eq!(described.count(), 8);
    for (thread, slot) in (0..).zip(slots) {
        guest.thread = 0x1000 * (thread + 1);
        assert_eq!(guest.leave(&mut tracer, slot, 0), PROGRAM);
    }
    assert!(is_empty(&guest));
}

/// After a fork the child shares the parent's table, until it writes to it.
#[test]
fn a_table_that_is_shared_is_made_the_processs_own_first() {
    let mut tracer = tracer();
    let mut guest = Guest::mpich(&mut tracer, 0);
    let barrier = belljar_mpi::number("MPI_Barrier").unwrap().into();
    let stack = guest.stack;
    let bucket = pending_bucket(stack);
    guest.memory.allow_writes(bucket, false);
    let (target, _) = guest.enter_operation(&mut tracer, barrier, &[WORLD], PROGRAM);
    assert_eq!(target, RESOLVERS + 16 * barrier);
    assert!(tracer.counters().calls.is_empty());
    let at_once = |guest: &mut Guest, tracer: &mut NodeTracer, describes: bool| {
        guest.stack = stack;
        let (target, slot) = guest.enter_operation(tracer, barrier, &[WORLD], PROGRAM);
        assert_eq!(target, LIBRARY + 16 * barrier);
        assert_eq!(told(guest, slot).is_some(), describes);
        assert_eq!(guest.leave(tracer, slot, 0), PROGRAM);
    };
    // It may fail: then the call is recorded all the same.
    at_once(&mut guest.clone(), &mut tracer, false);
    guest.memory.allow_writes(bucket, true);
    at_once(&mut guest, &mut tracer, true);
}

/// The second call has the return address of the first, which ends with it.
#[test]
fn what_a_library_jumps_to_at_a_calls_end_is_that_call() {
    let mut tracer = tracer();
    let mut guest = Guest::mpich(&mut tracer, 0);
    let stack = guest.stack;
    let slot = guest.enter(&mut tracer, "MPI_Barrier", &[WORLD]);
    guest.stack = stack;
    let test = belljar_mpi::number("MPI_Initialized").unwrap().into();
    let (target, _) = guest.enter_operation(&mut tracer, test, &[0], RETURNED);
    assert_eq!(target, LIBRARY + 16 * test);
    assert_eq!(told(&guest, slot), Some(PROGRAM));
    assert_eq!(guest.leave(&mut tracer, slot, 0), PROGRAM);
    let events = tracer.take_events();
    let names: Vec<_> = events.iter().map(|event| event.name()).collect();
    assert_eq!(names, ["MPI_Barrier"]);
    assert_eq!(tracer.counters().warnings.abandoned, 0);
}

/// With watched returns, the second call has the first's return address, too.
#[test]
fn what_a_library_jumps_to_is_that_call_where_returns_are_watched() {
    let mut tracer = tracer();
    tracer.watch_returns();
    let mut guest = Guest::mpich(&mut tracer, 0);
    let stack = guest.stack;
    guest.enter(&mut tracer, "MPI_Address", &[0x1000, 0x2000]);
    guest.stack = stack;
    let next = belljar_mpi::number("MPI_Get_address").unwrap().into();
    let (target, slot) = guest.enter_operation(&mut tracer, next, &[0x1000, 0x2000], PROGRAM);
    assert_eq!(target, LIBRARY + 16 * next);
    let mut registers = MagicRegisters {
        rip: PROGRAM,
        cr3: guest.cr3,
        fs_base: guest.thread,
        ..MagicRegisters::default()
    };
    registers.gpr[4] = slot + 8;
    tracer.returned(guest.clock + 10, &registers, &guest.memory);
    let events = tracer.take_events();
    let names: Vec<_> = events.iter().map(|event| event.name()).collect();
    assert_eq!(names, ["MPI_Address"]);
    assert!(events[0].exit.is_some());
    assert!(tracer.open_calls().is_empty());
}
