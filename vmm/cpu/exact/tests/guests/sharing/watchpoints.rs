//! Watchpoints: each access to watched bytes is reported after its instruction, in every mapping, and the guest is the
//! same with and without them, to the cycle.

use belljar_cpu::{Exit, InstructionSet, Vcpu, WatchKind, Watchpoint};
use belljar_exact_testing::bare::{CODE, DATA, Guest, STACK, assemble};
use iced_x86::code_asm::*;

/// The page tables of bare guests, and others.
const SPACE: u64 = 0x1000;
const OTHER_SPACE: u64 = 0x3f_0000;
/// Another mapping of the data, and the distance of its watched bytes.
const ALIAS: u64 = 0x1400_0000;
const ROUNDS: u32 = 3000;
/// Instructions before the loop, and of each round.
const BEFORE: u64 = 3;
const EACH: u64 = 10;
/// Numbers in a round of the instructions that access watched bytes: a store, one that loads and stores, a call, and a
/// load.
const STORE: u64 = 1;
const CHANGE: u64 = 4;
const CALL: u64 = 5;
const LOAD: u64 = 6;

/// A loop with accesses to watched bytes, to their page, and to other pages. At its end a string instruction fills them.
fn program() -> Vec<u8> {
    assemble(|a| {
        let [mut again, mut function] = [(); 2].map(|()| a.create_label());
        a.xor(ebx, ebx)?;
        a.mov(rsi, DATA)?;
        a.mov(rdi, ALIAS)?;
        a.set_label(&mut again)?;
        a.mov(qword_ptr(rsi + 8), rbx)?;
        a.mov(qword_ptr(rsi + 0x100), rbx)?;
        a.mov(qword_ptr(rsi + 0x2000), rbx)?;
        a.add(dword_ptr(rdi + 12), 1)?;
        a.call(function)?;
        a.inc(ebx)?;
        a.cmp(ebx, ROUNDS)?;
        a.jne(again)?;
        a.mov(rdi, DATA)?;
        a.mov(ecx, 64)?;
        a.rep().stosb()?;
        a.hlt()?;
        a.set_label(&mut function)?;
        a.mov(rax, qword_ptr(rsi + 8))?;
        a.ret()
    })
}

fn guest() -> Guest {
    with_alias(Guest::new(&program()))
}

/// As [`guest`], under the time model of a processor with caches.
fn timed_guest() -> Guest {
    let set = InstructionSet::default();
    with_alias(Guest::with_timing(&program(), super::with_caches(), &set))
}

fn with_alias(mut guest: Guest) -> Guest {
    guest.map_page(ALIAS, DATA | 7);
    guest
}

fn watchpoint(linear: u64, kind: WatchKind) -> Watchpoint {
    Watchpoint {
        space: SPACE,
        linear,
        bytes: 8,
        kind,
    }
}

/// An access: instructions retired since the beginning, the watchpoint, and true for a store.
type Seen = (u64, u32, bool);

/// Runs to the end, at most `step` cycles at a time.
fn run(guest: &mut Guest, step: u64) -> Vec<Seen> {
    let (mut seen, begin) = (Vec::new(), guest.vcpu.retired());
    loop {
        match guest.run(step) {
            Exit::Deadline => {}
            Exit::Watchpoint { number, write } => {
                seen.push((guest.vcpu.retired() - begin, number, write));
            }
            Exit::Halt => return seen,
            other => panic!("{other:?}"),
        }
    }
}

/// The accesses of a round to two watchpoints: at the data and at the call's place in the stack.
fn expected(kind: WatchKind) -> Vec<Seen> {
    let all = [
        (STORE, 0, true),
        (CHANGE, 0, true),
        (CALL, 1, true),
        (LOAD, 0, false),
    ];
    let mut seen = Vec::new();
    for round in 0..u64::from(ROUNDS) {
        let own = all.iter().filter(|(.., write)| kind.stops_at(*write));
        seen.extend(own.map(|(at, number, write)| (BEFORE + EACH * round + at, *number, *write)));
        if kind.stops_at(false) {
            // The return loads the address that the call has stored.
            seen.push((BEFORE + EACH * round + LOAD + 1, 1, false));
        }
    }
    if kind.stops_at(true) {
        seen.push((BEFORE + EACH * u64::from(ROUNDS) + 3, 0, true));
    }
    seen
}

#[test]
fn every_access_is_seen_after_its_instruction_and_costs_nothing() {
    for make in [guest, timed_guest] {
        compare_with_plain(make);
    }
}

fn compare_with_plain(make: fn() -> Guest) {
    let mut plain = make();
    run(&mut plain, u64::MAX / 4);
    for kind in [WatchKind::Write, WatchKind::Read, WatchKind::Access] {
        for step in [u64::MAX / 4, 211, 7, 1] {
            let mut guest = make();
            let points = [DATA + 8, STACK - 8].map(|at| watchpoint(at, kind));
            assert!(guest.vcpu.set_watchpoints(&points));
            let seen = run(&mut guest, step);
            let expected = expected(kind);
            let differs = seen.iter().zip(&expected).find(|(one, other)| one != other);
            assert_eq!(differs, None, "{kind:?}, step {step}");
            assert_eq!(seen.len(), expected.len(), "{kind:?}, step {step}");
            assert_eq!(guest.vcpu.now(), plain.vcpu.now());
            assert_eq!(guest.vcpu.registers(), plain.vcpu.registers());
            assert!(guest.read(DATA, 0x3000) == plain.read(DATA, 0x3000));
        }
    }
}

/// The code is hot, and its pages are in the fast path, when the watchpoint comes; then it goes.
#[test]
fn watchpoints_come_and_go_in_a_loop_that_is_hot() {
    let mut guest = guest();
    let half = BEFORE + EACH * 1500;
    assert_eq!(guest.run(half), Exit::Deadline);
    let point = watchpoint(DATA + 8, WatchKind::Write);
    assert!(guest.vcpu.set_watchpoints(&[point]));
    for round in 1500..1510 {
        for at in [STORE, CHANGE] {
            let exit = guest.run(1000);
            assert!(matches!(
                exit,
                Exit::Watchpoint {
                    number: 0,
                    write: true
                }
            ));
            assert_eq!(guest.vcpu.retired(), BEFORE + EACH * round + at);
        }
    }
    let value = guest.read(DATA + 8, 8);
    assert_eq!(value, [[0xe5, 5, 0, 0], [1, 0, 0, 0]].concat());
    assert!(guest.vcpu.set_watchpoints(&[]));
    assert_eq!(run(&mut guest, 1000), []);
}

#[test]
fn bytes_beside_the_range_and_other_address_spaces_are_not_watched() {
    for (linear, space) in [
        (DATA, SPACE),
        (DATA + 16, SPACE),
        (DATA + 8, OTHER_SPACE),
        (ALIAS + 0x1000, SPACE),
    ] {
        let mut guest = guest();
        let point = Watchpoint {
            space,
            ..watchpoint(linear, WatchKind::Access)
        };
        assert!(guest.vcpu.set_watchpoints(&[point]));
        let seen = run(&mut guest, 1000);
        // The string instruction fills the neighbours.
        let fills = usize::from(space == SPACE && linear < ALIAS);
        assert_eq!(seen.len(), fills, "{linear:#x}");
    }
}

/// A page that does not exist yet is found at its first access.
#[test]
fn a_page_that_comes_later_is_watched() {
    let mut guest = guest();
    guest.map_page(ALIAS, 0);
    let point = watchpoint(ALIAS + 8, WatchKind::Write);
    assert!(guest.vcpu.set_watchpoints(&[point]));
    assert_eq!(guest.run(BEFORE + 3), Exit::Deadline);
    guest.map_page(ALIAS, DATA | 7);
    let seen = run(&mut guest, u64::MAX / 4);
    let mut all = expected(WatchKind::Write);
    all.retain(|(at, number, _)| *number == 0 && *at > BEFORE + STORE);
    let all: Vec<Seen> = all
        .into_iter()
        .map(|(at, number, write)| (at - BEFORE - 3, number, write))
        .collect();
    assert!(seen == all, "{:?}", &seen[..4]);
}

/// Stores of devices are found by their guest-physical address.
#[test]
fn the_range_of_a_device_is_compared_with_all_watchpoints() {
    let mut guest = guest();
    let points = [
        watchpoint(CODE, WatchKind::Read),
        watchpoint(ALIAS + 0xffc, WatchKind::Write),
        watchpoint(ALIAS + 8, WatchKind::Write),
    ];
    assert!(guest.vcpu.set_watchpoints(&points));
    assert_eq!(guest.vcpu.watchpoint_at(DATA + 15, 1), Some(2));
    assert_eq!(guest.vcpu.watchpoint_at(DATA + 16, 0xfec), None);
    assert_eq!(guest.vcpu.watchpoint_at(DATA + 16, 0xfed), Some(1));
    assert_eq!(guest.vcpu.watchpoint_at(CODE, 8), None);
}
