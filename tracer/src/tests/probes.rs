//! Calls found by probes: the guest is unchanged, and no call is recorded twice.

mod open_mpi;

use std::sync::Arc;

use belljar_mpi::number;
use belljar_trace::{Event, Fact, Implementation, Launch};

use crate::guest::memory::GuestMemory;
use crate::guest::registers::MagicRegisters;
use crate::interception::targets::{Library, ObjectLocation, Target, Targets};
use crate::node::NodeTracer;
use crate::scripted::{HEAP, Pages, STACK};
use crate::selection::Selection;

const BASE: u64 = 0x7f44_0000_0000;
const PROGRAM: u64 = 0x5555_5555_5000;
const WORLD: u64 = 0x4400_0000;
/// The address of a slot in the library's data, relative to its file.
const DATA: u64 = 0x10_0000;

/// A tracer of a guest with an MPICH whose function number `n` is at `0x1000 + 16 n`; probe 0 is the start of
/// processes.
fn tracer() -> NodeTracer {
    tracer_of(Implementation::Mpich, vec![ObjectLocation::Missing])
}

/// The same for any implementation, with these predefined objects.
fn tracer_of(implementation: Implementation, objects: Vec<ObjectLocation>) -> NodeTracer {
    let library = Library {
        implementation,
        code: 0x1000..0x9000,
        data: DATA..DATA + 0x2000,
        objects,
    };
    let calls = (0..belljar_mpi::FUNCTIONS.len() as u16).map(|function| Target::Call {
        file: 0,
        function,
        value: value(function),
    });
    let targets = [Target::Start].into_iter().chain(calls).collect();
    let mut tracer = NodeTracer::new(1, &Selection::default());
    tracer.set_targets(Arc::new(Targets::of(targets, vec![library])));
    tracer.watch_returns();
    tracer
}

fn value(function: u16) -> u64 {
    0x1000 + 16 * u64::from(function)
}

/// A process, as seen by probes.
struct Process {
    memory: Pages,
    registers: MagicRegisters,
    clock: u64,
}

impl Process {
    fn new(space: u64) -> Self {
        let mut memory = Pages::default();
        memory.map(STACK - 0x4000, 0x8000);
        memory.map(HEAP, 0x1000);
        memory.map(BASE + DATA, 0x2000);
        let mut registers = MagicRegisters {
            cr3: space,
            fs_base: 0x7f22_0000_0000,
            ..MagicRegisters::default()
        };
        registers.gpr[4] = STACK - 0x100;
        Self {
            memory,
            registers,
            clock: 1000,
        }
    }

    fn put(&mut self, at: u64, word: u64) {
        self.memory.write(at, &word.to_le_bytes()).unwrap();
    }

    /// Reaches its first instruction, started as `program` with these variables.
    fn begin(&mut self, tracer: &mut NodeTracer, program: &str, variables: &[&str]) {
        let (stack, mut text) = (STACK + 0x100, STACK + 0x1000);
        let mut words = vec![1];
        let each = [program].into_iter().chain(variables.iter().copied());
        for (index, string) in each.enumerate() {
            self.memory.write(text, string.as_bytes()).unwrap();
            words.push(text);
            if index == 0 {
                words.push(0);
            }
            text += string.len() as u64 + 1;
        }
        words.push(0);
        for (at, word) in (0u64..).zip(words) {
            self.put(stack + 8 * at, word);
        }
        let registers = MagicRegisters {
            gpr: {
                let mut gpr = self.registers.gpr;
                gpr[4] = stack;
                gpr
            },
            ..self.registers
        };
        tracer.probe(self.clock, 0, 0, &registers, &mut self.memory);
    }

    /// Calls a function from `from`, and reaches its probe. Returns the address to watch.
    fn call(
        &mut self,
        tracer: &mut NodeTracer,
        name: &str,
        from: u64,
        arguments: &[u64],
    ) -> Option<u64> {
        self.registers.gpr[4] -= 8;
        self.put(self.registers.gpr[4], from);
        self.arrive(tracer, name, arguments)
    }

    /// Reaches a function's probe with the stack as it is.
    fn arrive(&mut self, tracer: &mut NodeTracer, name: &str, arguments: &[u64]) -> Option<u64> {
        let function = number(name).unwrap();
        self.clock += 10;
        self.registers.rip = BASE + value(function);
        for (register, word) in [7, 6, 2, 1, 8, 9].into_iter().zip(arguments) {
            self.registers.gpr[register] = *word;
        }
        let (probe, registers) = (1 + u32::from(function), self.registers);
        tracer.probe(self.clock, 0, probe, &registers, &mut self.memory);
        tracer.take_return_to_watch()
    }

    /// Returns to `to`.
    fn back(&mut self, tracer: &mut NodeTracer, to: u64) {
        self.clock += 100;
        self.registers.gpr[4] += 8;
        self.told(tracer, to);
    }

    /// Reaches `at`, which is watched.
    fn told(&mut self, tracer: &mut NodeTracer, at: u64) {
        self.registers.rip = at;
        self.registers.gpr[0] = 0;
        tracer.returned(self.clock, &self.registers, &self.memory);
    }
}

fn names(tracer: &mut NodeTracer) -> Vec<(&'static str, u16)> {
    let events = tracer.take_events();
    events
        .iter()
        .map(|event| (event.name(), event.depth))
        .collect()
}

#[test]
fn a_call_is_seen_and_the_stack_left_alone() {
    let mut tracer = tracer();
    let mut process = Process::new(0x1000);
    process.begin(&mut tracer, "./a.out", &["PMI_RANK=3", "PMI_SIZE=5"]);
    let before = process.memory.clone();
    let watched = process.call(&mut tracer, "MPI_Barrier", PROGRAM, &[WORLD]);
    assert_eq!(watched, Some(PROGRAM));
    assert_eq!(
        tracer.open_returns().into_iter().collect::<Vec<_>>(),
        [PROGRAM]
    );
    tracer = {
        let mut again = tracer.reborn();
        again.set_targets(tracer.targets.clone());
        again.watch_returns();
        again
    };
    process.back(&mut tracer, PROGRAM);
    let events = tracer.take_events();
    let [event] = &events[..] else {
        panic!("{events:?}");
    };
    assert_eq!(
        (event.name(), event.rank, event.node),
        ("MPI_Barrier", 3, 1)
    );
    assert_eq!((event.entry, event.exit), (1010, Some(1110)));
    let mut expected = before;
    expected
        .write(STACK - 0x108, &PROGRAM.to_le_bytes())
        .unwrap();
    assert_eq!(process.memory, expected);
    assert!(tracer.counters().warnings.is_empty());
}

#[test]
fn what_a_library_calls_itself_is_its_own_affair() {
    let mut tracer = tracer();
    let mut process = Process::new(0x1000);
    process.call(&mut tracer, "MPI_File_open", PROGRAM, &[WORLD]);
    // From its own code; and by a jump, so that the caller's address is the program's.
    assert_eq!(
        process.call(&mut tracer, "MPI_Comm_dup", BASE + 0x1234, &[WORLD]),
        None
    );
    process.registers.gpr[4] += 8;
    assert_eq!(process.arrive(&mut tracer, "MPI_Comm_size", &[WORLD]), None);
    // Calls of a program's callback, too.
    process.registers.gpr[4] -= 64;
    let callback = PROGRAM + 0x100;
    assert_eq!(
        process.call(&mut tracer, "MPI_Comm_rank", callback, &[WORLD, HEAP]),
        Some(callback)
    );
    process.back(&mut tracer, callback);
    process.registers.gpr[4] += 64;
    process.back(&mut tracer, PROGRAM);
    let expected = [("MPI_Comm_rank", 1), ("MPI_File_open", 0)];
    assert_eq!(names(&mut tracer), expected);
}

#[test]
fn an_address_that_is_come_to_otherwise_or_again_ends_no_call() {
    let mut tracer = tracer();
    let mut process = Process::new(0x1000);
    process.told(&mut tracer, PROGRAM);
    process.call(&mut tracer, "MPI_Barrier", PROGRAM, &[WORLD]);
    // The same place while the call is open, by another thread and another process.
    let mut other = Process::new(0x2000);
    other.registers.gpr[4] = process.registers.gpr[4] + 8;
    other.told(&mut tracer, PROGRAM);
    process.told(&mut tracer, PROGRAM);
    assert!(tracer.take_events().is_empty());
    process.back(&mut tracer, PROGRAM);
    process.told(&mut tracer, PROGRAM);
    assert_eq!(names(&mut tracer), [("MPI_Barrier", 0)]);
    assert!(tracer.counters().warnings.is_empty());
}

#[test]
fn a_call_after_a_jump_out_is_another_one() {
    let mut tracer = tracer();
    let mut process = Process::new(0x1000);
    process.call(&mut tracer, "MPI_Send", PROGRAM, &[HEAP, 0, 0, 0, 0, WORLD]);
    // An exception leads out of it, and the same place calls again.
    process.registers.gpr[4] += 8;
    process.call(&mut tracer, "MPI_Send", PROGRAM, &[HEAP, 0, 0, 0, 0, WORLD]);
    process.back(&mut tracer, PROGRAM);
    let exits: Vec<bool> = tracer
        .take_events()
        .iter()
        .map(|event| event.exit.is_some())
        .collect();
    assert_eq!(exits, [false, true]);
    assert_eq!(tracer.counters().warnings.abandoned, 1);
}

/// The same place may call another function, through a pointer.
#[test]
fn a_call_through_a_pointer_after_a_jump_out_is_no_jump_of_the_librarys() {
    let mut tracer = tracer();
    let mut process = Process::new(0x1000);
    process.registers.gpr[3] = HEAP;
    process.call(&mut tracer, "MPI_Send", PROGRAM, &[HEAP, 0, 0, 0, 0, WORLD]);
    process.registers.gpr[4] += 8;
    process.registers.gpr[3] += 8;
    let watched = process.call(&mut tracer, "MPI_Barrier", PROGRAM, &[WORLD]);
    assert_eq!(watched, Some(PROGRAM));
    process.back(&mut tracer, PROGRAM);
    assert_eq!(names(&mut tracer), [("MPI_Send", 0), ("MPI_Barrier", 0)]);
    assert_eq!(tracer.counters().warnings.abandoned, 1);
}

#[test]
fn an_address_space_that_begins_anew_is_another_process() {
    let mut tracer = tracer();
    let mut process = Process::new(0x1000);
    process.begin(&mut tracer, "./a", &["PMI_RANK=1"]);
    process.call(&mut tracer, "MPI_Barrier", PROGRAM, &[WORLD]);
    let mut next = Process::new(0x1000);
    next.begin(&mut tracer, "./b", &["PMI_RANK=2"]);
    next.call(&mut tracer, "MPI_Barrier", PROGRAM, &[WORLD]);
    next.back(&mut tracer, PROGRAM);
    let ranks: Vec<(u32, u32, bool)> = tracer
        .take_events()
        .iter()
        .map(|event| (event.process, event.rank, event.exit.is_some()))
        .collect();
    assert_eq!(ranks, [(0, 1, false), (1, 2, true)]);
}

fn launch(events: &[Event]) -> Option<Launch> {
    events.iter().find_map(|event| match &event.fact {
        Some(Fact::Launch(launch)) => Some(launch.clone()),
        _ => None,
    })
}

#[test]
fn the_launcher_tells_the_job() {
    let mut tracer = tracer();
    let mut initialized = |process: &mut Process, variables: &[&str]| {
        process.begin(&mut tracer, "./a.out", variables);
        process.call(&mut tracer, "MPI_Init", PROGRAM, &[0, 0]);
        process.back(&mut tracer, PROGRAM);
        launch(&tracer.take_events())
    };
    let pmix = [
        "PMIX_NAMESPACE=4711",
        "PMIX_RANK=0",
        "OMPI_COMM_WORLD_SIZE=9",
    ];
    let found = initialized(&mut Process::new(0x1000), &pmix);
    let told = |name: &str, size| {
        Some(Launch {
            name: Some(name.to_owned()),
            size: Some(size),
        })
    };
    assert_eq!(found, told("4711", 9));
    // Hydra's name for it is in MPICH's data, through other pointers.
    for space in [0x2000, 0x3000] {
        let mut process = Process::new(space);
        let text = HEAP + 0x100;
        process.memory.write(text, b"kvs_12_0_345_node0\0").unwrap();
        process.put(BASE + DATA + 0x10, HEAP);
        process.put(BASE + DATA + 0x1008, text);
        let found = initialized(&mut process, &["PMI_RANK=0", "PMI_SIZE=2"]);
        assert_eq!(found, told("kvs_12_0_345_node0", 2));
    }
    // A process without a launcher has no known job.
    let found = initialized(&mut Process::new(0x4000), &["HOME=/root"]);
    assert_eq!(found, None);
}

#[test]
fn launched_programs_without_a_call_are_named() {
    let mut tracer = tracer();
    // A script that starts the program, whose calls are recorded.
    Process::new(0x1000).begin(&mut tracer, "/bin/sh", &["PMI_RANK=0"]);
    let mut seen = Process::new(0x2000);
    seen.begin(&mut tracer, "./a.out", &["PMI_RANK=0"]);
    seen.call(&mut tracer, "MPI_Barrier", PROGRAM, &[WORLD]);
    // A program that hides its calls, ended and running.
    Process::new(0x3000).begin(&mut tracer, "./hidden", &["PMI_RANK=1"]);
    Process::new(0x3000).begin(&mut tracer, "/bin/true", &[]);
    Process::new(0x4000).begin(&mut tracer, "./hidden", &["PMI_RANK=1"]);
    let silent: Vec<_> = tracer.silent_programs().into_iter().collect();
    assert_eq!(silent, [("./hidden".to_owned(), (1, 2))]);
}

#[test]
fn hostile_stacks_and_data_do_no_harm() {
    let mut tracer = tracer();
    let mut process = Process::new(0x1000);
    for stack in [0, 8, STACK + 0x3ff8, u64::MAX - 3, STACK] {
        process.registers.gpr[4] = stack;
        process.put(STACK, u64::MAX);
        let registers = process.registers;
        for probe in [0, 1, 5, u32::MAX] {
            tracer.probe(1, 0, probe, &registers, &mut process.memory);
            tracer.returned(1, &registers, &process.memory);
        }
    }
}
