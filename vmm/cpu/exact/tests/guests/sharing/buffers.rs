//! Watched buffers: each access by user code of their own address space and of a thread that is not exempt is reported after
//! its instruction, and the guest is the same with and without them, to the cycle.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use belljar_cpu::{
    BufferAccess, BufferRanges, Exit, InstructionSet, Vcpu, WatchKind, WatchedBuffer,
    WatchedBuffers,
};
use belljar_exact_testing::bare::{CODE, DATA, Guest, assemble};
use iced_x86::code_asm::*;

/// The page tables of bare guests, and others.
const SPACE: u64 = 0x1000;
const OTHER_SPACE: u64 = 0x3f_0000;
const USER: u64 = CODE + 0x2000;
const ROUNDS: u32 = 3000;
/// The buffer, in the middle of a page.
const START: u64 = DATA + 8;
const END: u64 = DATA + 24;

/// A loop in user mode with stores into the buffer, loads from it, and accesses to its neighbours; a string instruction that
/// fills it; and UD2.
fn program() -> Vec<u8> {
    assemble(|a| {
        let mut again = a.create_label();
        a.xor(ebx, ebx)?;
        a.mov(rsi, DATA)?;
        a.set_label(&mut again)?;
        a.mov(qword_ptr(rsi), rbx)?;
        a.mov(qword_ptr(rsi + 24), rbx)?;
        a.mov(dword_ptr(rsi + 6), ebx)?;
        a.mov(rax, qword_ptr(rsi + 16))?;
        a.mov(rax, qword_ptr(rsi + 0x2000))?;
        a.inc(ebx)?;
        a.cmp(ebx, ROUNDS)?;
        a.jne(again)?;
        a.mov(rdi, DATA)?;
        a.mov(ecx, 64)?;
        a.rep().stosb()?;
        a.ud2()
    })
}

fn with_program(mut guest: Guest) -> Guest {
    guest.allow_user();
    guest.write(USER, &program());
    guest.enter_user(USER);
    guest
}

fn guest() -> Guest {
    with_program(Guest::new(&[]))
}

/// As [`guest`], under the time model of a processor with caches.
fn timed_guest() -> Guest {
    let set = InstructionSet::default();
    with_program(Guest::with_timing(&[], super::with_caches(), &set))
}

fn buffers(space: u64, kind: WatchKind, exempt: &[(u64, u64)]) -> WatchedBuffers {
    let buffer = WatchedBuffer {
        start: START,
        end: END,
        kind,
    };
    let ranges = BufferRanges::new(vec![buffer]);
    WatchedBuffers {
        spaces: Arc::new(BTreeMap::from([(space, ranges)])),
        exempt: exempt.iter().copied().collect::<BTreeSet<(u64, u64)>>(),
    }
}

/// Runs until the loop is over, at most `step` cycles at a time.
fn run(guest: &mut Guest, step: u64) -> Vec<BufferAccess> {
    let mut seen = Vec::new();
    loop {
        match guest.run(step) {
            Exit::Deadline => {}
            Exit::Buffer => seen.extend(guest.vcpu.buffer_access()),
            _ => return seen,
        }
    }
}

/// The accesses of the program to the buffer, by instruction: linear address, bytes, true for a store, and their number.
fn counted(seen: &[BufferAccess]) -> BTreeMap<u64, (u64, u64, bool, usize)> {
    let mut all = BTreeMap::new();
    for access in seen {
        let BufferAccess {
            instruction,
            linear,
            bytes,
            write,
        } = *access;
        let entry = all.entry(instruction).or_insert((linear, bytes, write, 0));
        assert!((entry.0, entry.1, entry.2) == (linear, bytes, write) || entry.1 < 8);
        entry.3 += 1;
    }
    all
}

#[test]
fn each_access_of_the_process_is_seen_and_costs_nothing() {
    for make in [guest, timed_guest] {
        let mut plain = make();
        assert_eq!(run(&mut plain, u64::MAX / 4), []);
        for kind in [WatchKind::Write, WatchKind::Access] {
            for step in [u64::MAX / 4, 211, 7] {
                let mut guest = make();
                assert!(guest.vcpu.set_watched_buffers(&buffers(SPACE, kind, &[])));
                let seen = run(&mut guest, step);
                let all = counted(&seen);
                let each: Vec<_> = all.values().copied().collect();
                let rounds = ROUNDS as usize;
                assert_eq!(
                    each[0],
                    (DATA + 6, 4, true, rounds),
                    "{kind:?}, step {step}"
                );
                if kind == WatchKind::Access {
                    assert_eq!(each[1], (DATA + 16, 8, false, rounds), "step {step}");
                }
                let string = each.last().unwrap();
                assert!(
                    string.2 && string.0 >= DATA && string.0 < END,
                    "{string:x?}"
                );
                assert_eq!(each.len(), 2 + usize::from(kind == WatchKind::Access));
                assert_eq!(guest.vcpu.now(), plain.vcpu.now());
                assert_eq!(guest.vcpu.registers(), plain.vcpu.registers());
                assert!(guest.read(DATA, 0x3000) == plain.read(DATA, 0x3000));
            }
        }
    }
}

#[test]
fn other_address_spaces_and_exempt_threads_are_not_seen() {
    let thread = guest().vcpu.system().segments[4].base;
    for watched in [
        buffers(OTHER_SPACE, WatchKind::Access, &[]),
        buffers(SPACE, WatchKind::Access, &[(SPACE, thread)]),
    ] {
        let mut guest = guest();
        assert!(guest.vcpu.set_watched_buffers(&watched));
        assert_eq!(run(&mut guest, u64::MAX / 4), []);
    }
}

/// An exempt thread has the page in the fast path, when it is exempt no longer; then it is again.
#[test]
fn exemptions_come_and_go_in_a_loop_that_is_hot() {
    let mut guest = guest();
    let thread = guest.vcpu.system().segments[4].base;
    let exempt = buffers(SPACE, WatchKind::Access, &[(SPACE, thread)]);
    assert!(guest.vcpu.set_watched_buffers(&exempt));
    guest.run(8 * 1000);
    assert!(guest.vcpu.buffer_access().is_none());
    let counted = WatchedBuffers {
        exempt: BTreeSet::new(),
        ..exempt.clone()
    };
    assert!(guest.vcpu.set_watched_buffers(&counted));
    for _ in 0..10 {
        assert_eq!(guest.run(u64::MAX / 4), Exit::Buffer);
    }
    assert!(guest.vcpu.set_watched_buffers(&exempt));
    assert_eq!(run(&mut guest, u64::MAX / 4), []);
}
