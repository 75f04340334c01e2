//! The magic protocol: entries, returns, and errors of guests.

use belljar_abi::{MAGIC_ADDRESS, OP_RETURN, OPERATIONS};
use proptest::prelude::*;

use crate::guest::registers::MagicRegisters;
use crate::node::NodeTracer;
use crate::scripted::{Guest, Pages, int};
use crate::selection::{Selection, Window};

const WORLD: u64 = 0x4400_0000;

fn tracer() -> NodeTracer {
    NodeTracer::new(3, &Selection::default())
}

fn names(tracer: &mut NodeTracer) -> Vec<&'static str> {
    let events = tracer.take_events();
    events.iter().map(|event| event.name()).collect()
}

#[test]
fn a_call_is_recorded_with_times_result_and_arguments() {
    let mut tracer = tracer();
    let mut guest = Guest::mpich(&mut tracer, 5);
    let slot = guest.enter(&mut tracer, "MPI_Barrier", &[0xffff_ffff_4400_0000]);
    assert!(guest.is_intercepted(slot));
    assert!(tracer.take_events().is_empty());
    guest.leave(&mut tracer, slot, 7);
    let events = tracer.take_events();
    let event = &events[0];
    assert_eq!((event.node, event.rank, event.process), (3, 5, 0));
    assert_eq!((event.entry, event.exit), (1010, Some(1110)));
    assert_eq!((event.result, event.depth, event.bad), (Some(7), 0, None));
    assert_eq!(event.arguments, [WORLD]);
    assert_eq!(event.communicator, Some(belljar_trace::WORLD));
    assert!(tracer.take_events().is_empty());
    let barrier = belljar_mpi::number("MPI_Barrier").unwrap();
    assert_eq!(tracer.counters().calls[&barrier], 1);
    assert!(tracer.counters().warnings.is_empty());
}

#[test]
fn calls_within_calls_have_a_depth() {
    let mut tracer = tracer();
    let mut guest = Guest::mpich(&mut tracer, 0);
    guest.call_with(&mut tracer, "MPI_Init", &[0, 0], |guest, tracer| {
        guest.stack -= 64;
        guest.call_with(tracer, "MPI_Barrier", &[WORLD], |guest, tracer| {
            guest.stack -= 64;
            guest.call(tracer, "MPI_Finalized", &[0]);
        });
        guest.call(tracer, "MPI_Initialized", &[0]);
    });
    guest.call(&mut tracer, "MPI_Finalize", &[]);
    let events = tracer.take_events();
    let depths: Vec<_> = events.iter().map(|it| (it.name(), it.depth)).collect();
    let expected = [
        ("MPI_Finalized", 2),
        ("MPI_Barrier", 1),
        ("MPI_Initialized", 1),
        ("MPI_Init", 0),
        ("MPI_Finalize", 0),
    ];
    assert_eq!(depths, expected);
}

#[test]
fn threads_do_not_nest_in_each_other() {
    let mut tracer = tracer();
    let mut guest = Guest::mpich(&mut tracer, 0);
    let slot = guest.enter(&mut tracer, "MPI_Barrier", &[WORLD]);
    let mut other = guest.clone();
    other.thread += 0x1000;
    other.stack -= 0x4000;
    other.call(&mut tracer, "MPI_Initialized", &[0]);
    guest.memory = other.memory;
    guest.leave(&mut tracer, slot, 0);
    let events = tracer.take_events();
    let threads: Vec<_> = events.iter().map(|it| (it.thread, it.depth)).collect();
    assert_eq!(threads, [(1, 0), (0, 0)]);
}

#[test]
fn longjmp_abandons_a_call_and_leaves_no_depth_behind() {
    let mut tracer = tracer();
    let mut guest = Guest::mpich(&mut tracer, 0);
    let top = guest.stack;
    let slot = guest.enter(&mut tracer, "MPI_Barrier", &[WORLD]);
    // A jump to above the call, then a call further down than the lost one.
    guest.stack = top;
    guest.call(&mut tracer, "MPI_Initialized", &[0]);
    guest.stack = top;
    let again = guest.enter(&mut tracer, "MPI_Finalize", &[]);
    assert_eq!(slot, again);
    guest.leave(&mut tracer, again, 0);
    let events = tracer.take_events();
    let seen: Vec<_> = events
        .iter()
        .map(|it| (it.name(), it.exit.is_some(), it.depth))
        .collect();
    let expected = [
        ("MPI_Barrier", false, 0),
        ("MPI_Initialized", true, 0),
        ("MPI_Finalize", true, 0),
    ];
    assert_eq!(seen, expected);
    // A call that never returned has a position among the calls that returned.
    let ends: Vec<_> = events.iter().map(|it| it.end().unwrap_or(0)).collect();
    assert!(events[0].entry < ends[0] && ends.is_sorted(), "{ends:?}");
    assert_eq!(tracer.counters().warnings.abandoned, 1);
    assert!(tracer.open_calls().is_empty());
}

#[test]
fn a_call_lower_than_an_abandoned_one_is_not_nested_in_it() {
    let mut tracer = tracer();
    let mut guest = Guest::mpich(&mut tracer, 0);
    let top = guest.stack;
    guest.stack = top - 0x200;
    guest.enter(&mut tracer, "MPI_Barrier", &[WORLD]);
    guest.stack = top;
    guest.call(&mut tracer, "MPI_Initialized", &[0]);
    guest.stack = top - 0x400;
    guest.call(&mut tracer, "MPI_Finalize", &[]);
    let depths: Vec<_> = tracer.take_events().iter().map(|it| it.depth).collect();
    assert_eq!(depths, [0, 0]);
    let open = tracer.open_calls();
    assert_eq!((open[0].name(), open[0].exit), ("MPI_Barrier", None));
}

#[test]
fn address_spaces_are_apart_even_at_the_same_places() {
    let mut tracer = tracer();
    let mut first = Guest::mpich(&mut tracer, 0);
    let mut second = Guest::mpich(&mut tracer, 1);
    let (a, b) = (
        first.enter(&mut tracer, "MPI_Barrier", &[WORLD]),
        second.enter(&mut tracer, "MPI_Finalize", &[]),
    );
    assert_eq!(a, b);
    first.leave(&mut tracer, a, 0);
    second.leave(&mut tracer, b, 0);
    let events = tracer.take_events();
    let seen: Vec<_> = events
        .iter()
        .map(|it| (it.name(), it.rank, it.process))
        .collect();
    assert_eq!(seen, [("MPI_Barrier", 0, 0), ("MPI_Finalize", 1, 1)]);
}

#[test]
fn a_forked_child_returns_where_its_parent_would() {
    let mut tracer = tracer();
    let mut parent = Guest::mpich(&mut tracer, 0);
    let slot = parent.enter(&mut tracer, "MPI_Init", &[0, 0]);
    let mut child = parent.clone();
    child.cr3 += 0x4000_0000;
    assert_eq!(child.leave(&mut tracer, slot, 0), 0x40_1000);
    assert!(tracer.take_events().is_empty());
    parent.leave(&mut tracer, slot, 0);
    assert_eq!(names(&mut tracer), ["MPI_Init"]);
    assert!(tracer.counters().warnings.is_empty());
}

#[test]
fn a_new_process_in_an_old_address_space_starts_afresh() {
    let mut tracer = tracer();
    let mut guest = Guest::mpich(&mut tracer, 0);
    guest.enter(&mut tracer, "MPI_Abort", &[WORLD, 1]);
    let mut guest = Guest::mpich(&mut tracer, 0);
    guest.call(&mut tracer, "MPI_Finalize", &[]);
    let events = tracer.take_events();
    let seen: Vec<_> = events
        .iter()
        .map(|it| (it.name(), it.process, it.exit.is_some(), it.depth))
        .collect();
    let expected = [("MPI_Abort", 0, false, 0), ("MPI_Finalize", 1, true, 0)];
    assert_eq!(seen, expected);
    assert_eq!(tracer.processes().len(), 2);
}

#[test]
fn calls_that_never_return_are_open() {
    let mut tracer = tracer();
    let mut guest = Guest::mpich(&mut tracer, 2);
    guest.enter(&mut tracer, "MPI_Abort", &[WORLD, int(9)]);
    let open = tracer.open_calls();
    assert_eq!(open.len(), 1);
    assert_eq!(
        (open[0].name(), open[0].exit, open[0].result),
        ("MPI_Abort", None, None)
    );
    assert_eq!(open[0].arguments, [WORLD, 9]);
}

#[test]
fn selection_changes_what_is_recorded_and_not_what_the_guest_sees() {
    let selection = Selection {
        functions: vec!["MPI_B*".into()],
        window: Some(Window {
            start: 0,
            end: 100_000,
        }),
        sampling: [("MPI_Barrier".into(), 3)].into(),
        datatypes: false,
    };
    let mut tracer = NodeTracer::new(0, &selection);
    let mut guest = Guest::mpich(&mut tracer, 0);
    for _ in 0..7 {
        guest.call(&mut tracer, "MPI_Barrier", &[WORLD]);
    }
    guest.call(&mut tracer, "MPI_Finalize", &[]);
    assert_eq!(names(&mut tracer), ["MPI_Barrier", "MPI_Barrier"]);
    let barrier = belljar_mpi::number("MPI_Barrier").unwrap();
    assert_eq!(tracer.counters().calls[&barrier], 7);
    assert_eq!(tracer.counters().recorded, 2);
    guest.clock = 200_000;
    for _ in 0..3 {
        guest.call(&mut tracer, "MPI_Barrier", &[WORLD]);
    }
    assert!(names(&mut tracer).is_empty());
}

#[test]
fn bad_pointers_mark_the_event_and_nothing_more() {
    let mut tracer = tracer();
    let mut guest = Guest::mpich(&mut tracer, 0);
    guest.call(&mut tracer, "MPI_Wait", &[0x10, 1]);
    guest.call(
        &mut tracer,
        "MPI_Waitall",
        &[int(i32::MAX), u64::MAX - 3, 1],
    );
    let status = 0xdead_0000;
    guest.call(&mut tracer, "MPI_Probe", &[int(-2), int(-1), WORLD, status]);
    let bad: Vec<_> = tracer.take_events().iter().map(|it| it.bad).collect();
    assert_eq!(bad, [Some(0), Some(1), Some(3)]);
    assert_eq!(tracer.counters().warnings.bad_pointers, 3);
}

#[test]
fn a_constant_argument_may_come_into_memory_during_the_call() {
    let mut tracer = tracer();
    let mut guest = Guest::mpich(&mut tracer, 0);
    let name = 0x6000_0000;
    guest.call_with(
        &mut tracer,
        "MPI_Comm_set_name",
        &[WORLD, name],
        |guest, _| {
            guest.memory.map(name, 16);
            use crate::guest::memory::GuestMemory;
            guest.memory.write(name, b"everyone\0").unwrap();
        },
    );
    let event = tracer.take_events().pop().unwrap();
    assert_eq!(
        (event.bad, event.texts[0].text.as_str()),
        (None, "everyone")
    );
}

#[test]
fn a_stack_that_cannot_be_written_leaves_a_call_without_exit() {
    let mut tracer = tracer();
    let mut guest = Guest::mpich(&mut tracer, 0);
    let registers = MagicRegisters {
        rip: MAGIC_ADDRESS,
        cr3: guest.cr3,
        scalars: [0; 8],
        gpr: {
            let mut gpr = [0; 16];
            gpr[4] = 0x1230;
            gpr[11] = belljar_mpi::number("MPI_Barrier").unwrap().into();
            gpr
        },
        fs_base: 0,
        account: None,
    };
    let target = tracer.magic(1, 0, &registers, &mut guest.memory);
    assert_ne!(target, 0);
    assert_eq!(tracer.counters().warnings.unreturnable, 1);
    assert_eq!(tracer.take_events()[0].exit, None);
}

#[test]
fn strangers_are_let_through_and_senseless_returns_go_nowhere() {
    let mut tracer = tracer();
    let mut stranger = Guest::new(belljar_trace::Implementation::Mpich, 0);
    let slot = stranger.enter(&mut tracer, "MPI_Barrier", &[WORLD]);
    assert!(!stranger.is_intercepted(slot));
    let mut registers = MagicRegisters {
        rip: MAGIC_ADDRESS,
        ..MagicRegisters::default()
    };
    registers.gpr[11] = OP_RETURN;
    assert_eq!(tracer.magic(1, 0, &registers, &mut stranger.memory), 0);
    registers.gpr[11] = OPERATIONS as u64;
    assert_eq!(tracer.magic(1, 0, &registers, &mut stranger.memory), 0);
    stranger
        .memory
        .unmap(belljar_abi::STUB_BASE + belljar_abi::TABLE_OFFSET);
    registers.gpr[11] = 0;
    assert_eq!(tracer.magic(1, 0, &registers, &mut stranger.memory), 0);
    let warnings = &tracer.counters().warnings;
    assert_eq!(warnings.unknown_processes, 1);
    assert_eq!(warnings.unknown_returns, 1);
    assert_eq!(warnings.unknown_magic, 1);
    assert_eq!(warnings.missing_functions, 1);
}

#[test]
fn open_calls_are_bounded() {
    let mut tracer = tracer();
    let mut guest = Guest::mpich(&mut tracer, 0);
    let top = guest.stack;
    for number in 0..(1 << 14) + 10u64 {
        guest.thread = number;
        guest.stack = top;
        guest.enter(&mut tracer, "MPI_Barrier", &[WORLD]);
    }
    assert_eq!(tracer.counters().warnings.dropped, 10);
    assert_eq!(tracer.open_calls().len(), 1 << 14);
    assert_eq!(tracer.take_events().len(), 10);
}

/// Calls that each wait for very many requests hold less than the limit of a node.
#[test]
fn what_open_calls_hold_is_bounded_in_bytes() {
    let mut tracer = tracer();
    let mut guest = Guest::mpich(&mut tracer, 0);
    let (top, requests) = (guest.stack, 1 << 15);
    let array = guest.room(4 * requests);
    guest.put_ints(array, &[3; 1 << 15]);
    let mut slots = Vec::new();
    for number in 0..500u64 {
        guest.thread = 0x1000 * number;
        guest.stack = top - 16 * number;
        let arguments = [requests, array, 1];
        slots.push(guest.enter(&mut tracer, "MPI_Waitall", &arguments));
    }
    let open = tracer.open_calls().len() as u64;
    assert!((100..500).contains(&open), "{open}");
    assert_eq!(tracer.counters().warnings.dropped, 500 - open);
    assert_eq!(tracer.take_events().len() as u64, 500 - open);
    // A dropped call returns all the same.
    guest.thread = 0;
    assert_eq!(
        guest.leave(&mut tracer, slots[0], 0),
        crate::scripted::PROGRAM
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// For any registers and memory, there is no panic, and memory changes only at return addresses.
    #[test]
    fn hostile_guests_do_no_harm(
        calls in prop::collection::vec(
            (
                0..OPERATIONS as u64 + 2,
                prop::collection::vec(prop_oneof![
                    any::<u64>(),
                    0..64u64,
                    crate::scripted::HEAP..crate::scripted::HEAP + 0x40000,
                    Just(0x4400_0000u64),
                    Just(0x4c00_0405u64),
                    Just(u64::from(i32::MAX.cast_unsigned())),
                    Just(u64::MAX),
                ], 16),
                crate::scripted::STACK - 0x400..crate::scripted::STACK - 0x80,
                any::<bool>(),
            ),
            1..60,
        ),
        noise in prop::collection::vec(any::<u8>(), 4096),
        open_mpi in any::<bool>(),
    ) {
        use crate::guest::memory::GuestMemory;
        let mut tracer = tracer();
        let mut guest = if open_mpi {
            Guest::open_mpi(&mut tracer, 0)
        } else {
            Guest::mpich(&mut tracer, 0)
        };
        for page in 0..64 {
            guest.memory.write(crate::scripted::HEAP + page * 4096, &noise).unwrap();
        }
        let heap = |memory: &Pages| {
            let mut bytes = vec![0; 0x40000];
            memory.read(crate::scripted::HEAP, &mut bytes).unwrap();
            bytes
        };
        let before = heap(&guest.memory);
        for (operation, words, stack, leaves) in calls {
            let mut registers = MagicRegisters {
                rip: MAGIC_ADDRESS,
                cr3: guest.cr3,
                fs_base: 0,
                account: None,
                scalars: [0; 8],
                gpr: std::array::from_fn(|index| words[index]),
            };
            registers.gpr[4] = stack & !7;
            registers.gpr[11] = if operation == OPERATIONS as u64 + 1 {
                OP_RETURN
            } else {
                operation
            };
            tracer.magic(5, 0, &registers, &mut guest.memory);
            if leaves {
                registers.gpr[4] += 8;
                registers.gpr[0] = 0;
                registers.gpr[11] = OP_RETURN;
                tracer.magic(6, 0, &registers, &mut guest.memory);
            }
        }
        prop_assert!(heap(&guest.memory) == before);
        let events = tracer.take_events();
        let saved = belljar_trace::save_events(&events).unwrap();
        prop_assert_eq!(belljar_trace::load_events(&saved).unwrap(), events);
    }
}
