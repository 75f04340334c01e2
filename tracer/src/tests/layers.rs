//! Entries of the preloaded library's table: functions still to be resolved, the program's own layers, names of the
//! profiling interface; and calls that MPI makes internally.

use belljar_abi::{PASSED_BY, STUB_BASE, TABLE_OFFSET, UNRESOLVED, fact};
use belljar_mpi::{FUNCTIONS, number};

use crate::guest::memory::GuestMemory;
use crate::node::NodeTracer;
use crate::scripted::{Guest, LIBRARY, PROGRAM};
use crate::selection::Selection;

const WORLD: u64 = 0x4400_0000;
const BARRIER: &str = "MPI_Barrier";

fn begin() -> (NodeTracer, Guest) {
    let mut tracer = NodeTracer::new(0, &Selection::default());
    let guest = Guest::mpich(&mut tracer, 0);
    (tracer, guest)
}

/// Sets the table's entry for `operation` to `word`.
fn lead(guest: &mut Guest, operation: u64, word: u64) {
    let entry = STUB_BASE + TABLE_OFFSET + 8 * operation;
    guest.memory.write(entry, &word.to_le_bytes()).unwrap();
}

fn barrier() -> u64 {
    number(BARRIER).unwrap().into()
}

#[test]
fn a_call_counts_when_its_function_was_found() {
    let mut tracer = NodeTracer::new(0, &Selection::default());
    let mut guest = Guest::new(belljar_trace::Implementation::Mpich, 0);
    lead(&mut guest, barrier(), 0x7f55_0000_0010 | UNRESOLVED);
    let (target, slot) = guest.enter_operation(&mut tracer, barrier(), &[WORLD], PROGRAM);
    assert_eq!(target, 0x7f55_0000_0010);
    assert!(!guest.is_intercepted(slot));
    assert!(tracer.counters().calls.is_empty());
    // The library resolves it, introduces its process, and returns to the stub.
    lead(&mut guest, barrier(), LIBRARY);
    guest.tell(
        &mut tracer,
        fact::PROCESS,
        3,
        belljar_abi::IMPLEMENTATION_MPICH,
    );
    guest.stack += 8;
    let (target, slot) = guest.enter_operation(&mut tracer, barrier(), &[WORLD], PROGRAM);
    assert_eq!(target, LIBRARY);
    assert_eq!(guest.leave(&mut tracer, slot, 0), PROGRAM);
    let events = tracer.take_events();
    assert_eq!((events.len(), events[0].rank), (1, 3));
    assert!(tracer.counters().warnings.is_empty());
}

/// A layer of the program is called, and its call of the library is recorded, once.
#[test]
fn of_a_layer_and_the_library_the_library_is_recorded() {
    let (mut tracer, mut guest) = begin();
    let layer = 0x7f66_0000_0000;
    lead(&mut guest, barrier(), layer | PASSED_BY);
    let (target, slot) = guest.enter_operation(&mut tracer, barrier(), &[WORLD], PROGRAM);
    assert_eq!(target, layer);
    assert!(!guest.is_intercepted(slot));
    guest.stack -= 64;
    let profiling = barrier() + FUNCTIONS.len() as u64;
    let (_, inner) = guest.enter_operation(&mut tracer, profiling, &[WORLD], layer + 32);
    assert_eq!(guest.leave(&mut tracer, inner, 0), layer + 32);
    let events = tracer.take_events();
    assert_eq!(events.len(), 1);
    assert_eq!((events[0].name(), events[0].depth), (BARRIER, 0));
    assert_eq!(tracer.counters().calls[&number(BARRIER).unwrap()], 1);
}

#[test]
fn what_the_library_calls_itself_is_its_own_affair() {
    let (mut tracer, mut guest) = begin();
    guest.tell(&mut tracer, fact::LIBRARY, LIBRARY, LIBRARY + 0x10_0000);
    let profiling = barrier() + FUNCTIONS.len() as u64;
    for (caller, recorded) in [(LIBRARY + 5, 0), (LIBRARY + 0x10_0000, 1), (PROGRAM, 2)] {
        let before = guest.stack;
        let (target, slot) = guest.enter_operation(&mut tracer, profiling, &[WORLD], caller);
        assert_eq!(target, LIBRARY + 16 * profiling);
        if guest.is_intercepted(slot) {
            assert_eq!(guest.leave(&mut tracer, slot, 0), caller);
        }
        guest.stack = before;
        assert_eq!(tracer.counters().recorded, recorded);
    }
}

/// Invalid ranges must not cause a panic.
#[test]
fn a_library_may_be_said_to_be_anywhere() {
    let (mut tracer, mut guest) = begin();
    for (first, second) in [(u64::MAX, 0), (0, 0), (0, u64::MAX)] {
        guest.tell(&mut tracer, fact::LIBRARY, first, second);
        tracer = tracer.reborn();
    }
    guest.enter_operation(&mut tracer, barrier(), &[WORLD], PROGRAM);
    assert!(tracer.counters().calls.is_empty());
}
