//! Probes: each arrival is reported once, and the guest is the same with and without probes, to the
//! cycle, for every kind of translation.

use std::sync::Arc;

use belljar_cpu::{Exit, MOST_RETURNS, Probed, ProbedPage, Probes, Registers, Vcpu};
use belljar_exact_testing::bare::{CODE, FAR, Guest, HANDLERS, STACK};
use iced_x86::code_asm::*;

/// Beyond 4 GiB, where code is translated relative to its page, and below.
const PLACES: [u64; 2] = [FAR, 0x1400_0000];
/// A kernel's address of the code.
const KERNEL: u64 = 0xffff_ffff_8120_0000;
/// Address of exceptions' frames, and the end of a stack whose first page is unmapped.
const FRAMES: u64 = 0x38_0000;
const ROUNDS: u32 = 3000;
const FUNCTION: u32 = 77;
const MIDDLE: u32 = 78;
/// Practically unlimited steps per run.
const AT_ONCE: u64 = u64::MAX / 4;

/// A program, and offsets in it.
struct Program {
    bytes: Vec<u8>,
    function: u64,
    middle: u64,
    back: u64,
}

/// A loop that calls a function of the same page; and a label in the middle of its code.
fn program() -> Program {
    let mut a = CodeAssembler::new(64).unwrap();
    let [mut function, mut middle, mut back, mut again] = [(); 4].map(|()| a.create_label());
    let mut build = |a: &mut CodeAssembler| {
        a.xor(ebx, ebx)?;
        a.set_label(&mut again)?;
        a.lea(rdi, ptr(rbx + 5))?;
        a.call(function)?;
        a.set_label(&mut back)?;
        a.add(r12, rax)?;
        a.add(r13, 3)?;
        a.set_label(&mut middle)?;
        a.xor(r13, rbx)?;
        a.inc(ebx)?;
        a.cmp(ebx, ROUNDS)?;
        a.jne(again)?;
        a.hlt()?;
        a.nops_with_size(60)?;
        a.set_label(&mut function)?;
        a.push(rbp)?;
        a.mov(rbp, rsp)?;
        a.lea(rax, ptr(rdi * 2 + 1))?;
        a.pop(rbp)?;
        a.ret()
    };
    build(&mut a).unwrap();
    let options = iced_x86::BlockEncoderOptions::RETURN_NEW_INSTRUCTION_OFFSETS;
    let result = a.assemble_options(0, options).unwrap();
    let [function, middle, back] =
        [&function, &middle, &back].map(|label| result.label_ip(label).unwrap());
    Program {
        bytes: result.inner.code_buffer,
        function,
        middle,
        back,
    }
}

fn guest(program: &Program) -> Guest {
    let mut guest = Guest::new(&[]);
    guest.write(CODE, &program.bytes);
    guest.map_far(PLACES[0], CODE);
    guest.map_page(PLACES[1], CODE | 7);
    guest.allow_user();
    for vector in 0..32 {
        // OUT ends the run.
        guest.write(HANDLERS + vector * 16, &[0xe6, 0x80]);
        guest.use_interrupt_stack(vector, HANDLERS + vector * 16, FRAMES);
    }
    guest
}

/// Sets the guest to the program's beginning at `place`.
fn begin(guest: &mut Guest, place: u64) {
    guest.enter_user(place);
    let mut registers = Registers {
        rip: place,
        rflags: 2,
        ..Registers::default()
    };
    registers.gpr[Registers::RSP] = STACK;
    guest.vcpu.set_registers(&registers);
}

fn probes(program: &Program, places: &[(u64, u32)]) -> Arc<Probes> {
    let mut bytes = Box::new([0; 4096]);
    bytes[..program.bytes.len()].copy_from_slice(&program.bytes);
    let places = places.iter().map(|&(at, probe)| (at as u16, probe));
    Arc::new(Probes::new([ProbedPage {
        bytes,
        places: places.collect(),
    }]))
}

/// The results of a run: its end, and everything reported on the way.
#[derive(Debug, Default)]
struct Seen {
    end: Registers,
    retired: u64,
    probed: Vec<(u32, Probed)>,
    returned: Vec<(u64, Registers)>,
}

/// Runs to the end, at most `step` instructions at a time. Watches the returns of all probed calls
/// with `returns`.
fn run(guest: &mut Guest, step: u64, returns: bool) -> Seen {
    let mut seen = Seen::default();
    let before = guest.vcpu.retired();
    loop {
        match guest.run(step) {
            Exit::Deadline => {}
            Exit::Probe { probe } => {
                let state = guest.vcpu.probed().unwrap();
                seen.probed.push((probe, state));
                if returns && probe == FUNCTION {
                    let slot = state.registers.gpr[Registers::RSP];
                    let back = u64::from_le_bytes(guest.read(slot, 8).try_into().unwrap());
                    assert!(guest.vcpu.watch_return(back));
                }
            }
            Exit::Return { at } => {
                seen.returned.push((at, guest.vcpu.registers()));
                assert!(
                    seen.returned.len() <= ROUNDS as usize,
                    "{:x?}",
                    &seen.returned[..3]
                );
            }
            // The ends of user code and of a kernel's.
            Exit::PioWrite { .. } | Exit::Halt => break,
            other => panic!("{other:?}"),
        }
    }
    seen.end = guest.vcpu.registers();
    seen.retired = guest.vcpu.retired() - before;
    seen
}

#[test]
fn every_call_and_return_is_seen_and_costs_nothing() {
    let program = program();
    for place in PLACES {
        let mut plain = guest(&program);
        begin(&mut plain, place);
        let without = run(&mut plain, AT_ONCE, false);
        for step in [AT_ONCE, 211, 7, 1] {
            let mut probed = guest(&program);
            let places = [(program.function, FUNCTION), (program.middle, MIDDLE)];
            assert!(probed.vcpu.set_probes(&probes(&program, &places)));
            begin(&mut probed, place);
            let with = run(&mut probed, step, true);
            assert_eq!(with.end, without.end, "step {step} at {place:#x}");
            assert_eq!(with.retired, without.retired);
            check(&with, &program, place);
        }
    }
}

/// A kernel's code is identified by its addresses, regardless of its page's contents, and only in
/// supervisor mode.
#[test]
fn calls_and_returns_in_a_kernel_are_seen_and_cost_nothing() {
    let program = program();
    let guest = || {
        let guest = guest(&program);
        guest.map_far(KERNEL, CODE);
        guest
    };
    let begin_kernel = |guest: &mut Guest| {
        let mut registers = Registers {
            rip: KERNEL,
            rflags: 2,
            ..Registers::default()
        };
        registers.gpr[Registers::RSP] = STACK;
        guest.vcpu.set_registers(&registers);
    };
    let mut plain = guest();
    begin_kernel(&mut plain);
    let without = run(&mut plain, AT_ONCE, false);
    let places = [(program.function, FUNCTION), (program.middle, MIDDLE)];
    let places = places.map(|(at, probe)| (KERNEL + at, probe));
    let set = Arc::new(Probes::default().with_kernel(places));
    for step in [AT_ONCE, 211, 7, 1] {
        let mut probed = guest();
        assert!(probed.vcpu.set_probes(&set));
        begin_kernel(&mut probed);
        let with = run(&mut probed, step, true);
        assert_eq!(with.end, without.end, "step {step}");
        assert_eq!(with.retired, without.retired);
        check(&with, &program, KERNEL);
        // The same page at a user's address has no probes.
        let mut other = guest();
        assert!(other.vcpu.set_probes(&set));
        begin(&mut other, PLACES[0]);
        assert!(run(&mut other, step, true).probed.is_empty());
    }
}

fn check(seen: &Seen, program: &Program, place: u64) {
    let calls: Vec<&Probed> = seen
        .probed
        .iter()
        .filter(|(probe, _)| *probe == FUNCTION)
        .map(|(_, state)| state)
        .collect();
    assert_eq!(calls.len(), ROUNDS as usize);
    assert_eq!(seen.probed.len(), 2 * ROUNDS as usize);
    assert_eq!(seen.returned.len(), ROUNDS as usize);
    for (round, (call, (at, back))) in (0..).zip(calls.iter().zip(&seen.returned)) {
        let registers = &call.registers;
        assert_eq!(registers.rip, place + program.function);
        assert_eq!(registers.gpr[Registers::RDI], round + 5);
        assert_eq!(registers.gpr[Registers::RSP], STACK - 8);
        assert_eq!(back.rip, place + program.back);
        assert_eq!(back.gpr[Registers::RAX], 2 * (round + 5) + 1);
        assert_eq!(back.gpr[Registers::RSP], STACK);
        // Five instructions of the function: probes add nothing.
        assert_eq!(*at, call.at + 5);
        // 13 instructions per round: probes add nothing.
        assert_eq!(call.at, calls[0].at + 13 * round);
    }
}

#[test]
fn code_that_ran_before_is_seen_when_probes_come() {
    let program = program();
    let mut guest = guest(&program);
    for place in PLACES {
        begin(&mut guest, place);
        run(&mut guest, AT_ONCE, false);
    }
    let set = probes(&program, &[(program.function, FUNCTION)]);
    assert!(guest.vcpu.set_probes(&set));
    for place in PLACES {
        begin(&mut guest, place);
        let seen = run(&mut guest, AT_ONCE, true);
        assert_eq!(seen.probed.len(), ROUNDS as usize, "at {place:#x}");
        assert_eq!(seen.returned.len(), ROUNDS as usize, "at {place:#x}");
    }
}

/// An address is watched only from some call on, when its code is already hot.
#[test]
fn a_return_is_seen_from_when_it_is_asked_for() {
    let program = program();
    let mut guest = guest(&program);
    let place = PLACES[0];
    begin(&mut guest, place);
    let half = 6 * u64::from(ROUNDS);
    assert_eq!(guest.run(half), Exit::Deadline);
    assert!(guest.vcpu.watch_return(place + program.back));
    let seen = run(&mut guest, AT_ONCE, false);
    let expected = u64::from(ROUNDS) - half / 13;
    assert!(
        (seen.returned.len() as u64).abs_diff(expected) <= 1,
        "{}",
        seen.returned.len()
    );
}

/// A breakpoint stops before its instruction wherever that is in its block, in one mapping of a page, also beside a
/// probe, and changes nothing.
#[test]
fn a_breakpoint_stops_before_every_arrival_in_its_mapping() {
    let program = program();
    let mut plain = guest(&program);
    begin(&mut plain, PLACES[0]);
    let expected = run(&mut plain, AT_ONCE, false);
    let places = [
        program.middle,
        program.function,
        program.back,
        program.middle + 3,
    ];
    for at in places {
        for step in [AT_ONCE, 1, 7] {
            let mut guest = guest(&program);
            let set = probes(&program, &[(program.function, FUNCTION)]);
            assert!(guest.vcpu.set_probes(&set));
            // Code of the page exists, from another mapping.
            begin(&mut guest, PLACES[1]);
            run(&mut guest, AT_ONCE, false);
            // The first one is in the middle of an instruction, or of no code: it is never reached.
            assert!(
                guest
                    .vcpu
                    .set_breakpoints(&[PLACES[0] + at - 1, PLACES[0] + at])
            );
            begin(&mut guest, PLACES[1]);
            assert_eq!(run(&mut guest, step, false).returned, []);
            begin(&mut guest, PLACES[0]);
            let seen = run(&mut guest, step, false);
            let here = seen
                .returned
                .iter()
                .filter(|(_, it)| it.rip == PLACES[0] + at);
            let counts = (here.count(), seen.returned.len());
            assert_eq!(
                counts,
                (ROUNDS as usize, ROUNDS as usize),
                "{at:#x}, step {step}"
            );
            assert_eq!(seen.probed.len(), ROUNDS as usize);
            assert_eq!((seen.end, seen.retired), (expected.end, expected.retired));
            assert!(guest.vcpu.set_breakpoints(&[]));
            begin(&mut guest, PLACES[0]);
            assert_eq!(run(&mut guest, step, false).returned, []);
        }
    }
}

/// An engine whose watches are used up reports that, and has room again after they are removed.
#[test]
fn no_return_is_given_up_unsaid() {
    let program = program();
    let mut guest = guest(&program);
    let back = PLACES[0] + program.back;
    assert!(guest.vcpu.watch_return(back));
    let beyond = |number: usize| 0x7000_0000_0000 + number as u64;
    for number in 1..MOST_RETURNS {
        assert!(guest.vcpu.watch_return(beyond(number)));
    }
    assert!(!guest.vcpu.watch_return(beyond(0)));
    assert!(guest.vcpu.watch_return(back), "it is watched already");
    begin(&mut guest, PLACES[0]);
    assert_eq!(
        run(&mut guest, AT_ONCE, false).returned.len(),
        ROUNDS as usize
    );
    guest.vcpu.forget_returns();
    assert!(guest.vcpu.watch_return(beyond(0)));
    begin(&mut guest, PLACES[0]);
    assert!(run(&mut guest, AT_ONCE, false).returned.is_empty());
}

#[test]
fn a_page_is_known_by_its_bytes_as_they_are() {
    let program = program();
    let mut guest = guest(&program);
    let set = probes(&program, &[(program.function, FUNCTION)]);
    assert!(guest.vcpu.set_probes(&set));
    for (byte, probed) in [(0xcc, 0), (0, ROUNDS), (0xcc, 0)] {
        // Another byte of the page, outside the code.
        guest.write(CODE + 0xff0, &[byte]);
        guest.vcpu.set_system(&guest.vcpu.system());
        let mut other = guest.moved();
        assert!(other.vcpu.set_probes(&set));
        begin(&mut other, PLACES[0]);
        let seen = run(&mut other, AT_ONCE, false);
        assert_eq!(seen.probed.len(), probed as usize, "with {byte:#x}");
    }
}

/// The first instruction of the function faults at each second call: the call is reported once.
#[test]
fn a_fault_at_a_probe_is_no_second_call() {
    let program = program();
    let mut guest = guest(&program);
    let set = probes(&program, &[(program.function, FUNCTION)]);
    assert!(guest.vcpu.set_probes(&set));
    begin(&mut guest, PLACES[0]);
    let mut registers = guest.vcpu.registers();
    // PUSH needs the page below, which is not mapped.
    registers.gpr[Registers::RSP] = 0x1480_1000 + 8;
    guest.map_page(0x1480_1000, 0x31_0000 | 7);
    guest.vcpu.set_registers(&registers);
    assert!(matches!(guest.run(1000), Exit::PioWrite { .. }));
    assert_eq!(guest.vcpu.probed(), None, "it was not carried out");
    // The handler maps it, and returns.
    guest.map_page(0x1480_0000, 0x32_0000 | 7);
    guest.enter_user(PLACES[0] + program.function);
    let mut registers = guest.vcpu.registers();
    registers.gpr[Registers::RSP] = 0x1480_1000;
    guest.vcpu.set_registers(&registers);
    assert_eq!(guest.run(1000), Exit::Probe { probe: FUNCTION });
    let state = guest.vcpu.probed().unwrap();
    assert_eq!(state.registers.gpr[Registers::RSP], 0x1480_1000);
}
