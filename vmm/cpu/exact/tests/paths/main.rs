//! Time under a processor model: the same however a program is stopped, saved, watched or changed.
#![allow(missing_docs)]

use std::collections::BTreeMap;
use std::sync::Arc;

use belljar_cpu::{Exit, InstructionSet, ProbedPage, Probes, Registers, Vcpu};
use belljar_exact::{Costs, Timing};
use belljar_exact_testing::bare::{CODE, DATA, Guest, HANDLERS, RAM_BYTES, assemble};
use belljar_pipeline::processor::Processor;
use iced_x86::code_asm::*;

mod traces;

const PAGE: u64 = 4096;
const PORT: i32 = 0x80;

fn timing() -> Timing {
    Timing {
        costs: Costs::default(),
        caches: None,
        processor: Some(Processor::built_in("zen5").unwrap().into()),
        has_memory: true,
    }
}

fn guest(code: &[u8]) -> Guest {
    Guest::with_timing(code, timing(), &InstructionSet::default())
}

/// A loop over arrays and a list, whose misses take time.
fn missing(a: &mut CodeAssembler) -> Result<(), IcedError> {
    let mut again = a.create_label();
    a.mov(rsi, DATA)?;
    a.mov(rbx, DATA)?;
    a.mov(ebp, 3000)?;
    a.set_label(&mut again)?;
    // Each element of the list is the distance to the next one, less a constant.
    a.mov(rax, qword_ptr(rbx))?;
    a.lea(rbx, qword_ptr(rbx + rax + 0x1240))?;
    a.and(rbx, 0xf_fff8)?;
    a.or(rbx, DATA as i32)?;
    a.add(qword_ptr(rsi), rax)?;
    a.mov(rdx, qword_ptr(rsi + 60))?;
    a.mov(qword_ptr(rsi + 0x8000), rdx)?;
    a.add(rsi, 72)?;
    a.and(rsi, 0xf_fff8)?;
    a.or(rsi, DATA as i32)?;
    a.dec(ebp)?;
    a.jnz(again)?;
    a.hlt()
}

/// The time after so many instructions, at stops.
type Times = BTreeMap<u64, (u64, u64)>;

fn look(guest: &Guest, times: &mut Times) {
    let registers = guest.vcpu.registers();
    times.insert(guest.vcpu.retired(), (guest.vcpu.now(), registers.rip));
}

/// Runs to the halt with a stop after each instruction.
fn walked(mut guest: Guest) -> Times {
    let mut times = Times::new();
    for number in 1.. {
        look(&guest, &mut times);
        guest.vcpu.stop_at(number);
        match guest.vcpu.run(u64::MAX).unwrap() {
            Exit::Deadline | Exit::PioWrite { .. } | Exit::Probe { .. } => {}
            Exit::Halt => break,
            other => panic!("{other:?}"),
        }
        assert!(number < 2_000_000, "the program does not end");
    }
    look(&guest, &mut times);
    times
}

/// Runs to the halt with a stop each `step` cycles, after which `each` may replace the guest.
fn stopped(mut guest: Guest, step: u64, mut each: impl FnMut(Guest) -> Guest) -> Times {
    let mut times = Times::new();
    loop {
        look(&guest, &mut times);
        let until = guest.vcpu.now() + step;
        match guest.vcpu.run(until).unwrap() {
            Exit::Deadline | Exit::PioWrite { .. } | Exit::Probe { .. } => {}
            Exit::Halt => break,
            other => panic!("{other:?}"),
        }
        guest = each(guest);
    }
    look(&guest, &mut times);
    times
}

/// Asserts that stops do not change the time of the program that `make` starts.
fn agree(make: impl Fn() -> Guest) {
    let expected = walked(make());
    for step in [3, 17, 211, 10_007, 1 << 40] {
        let times = stopped(make(), step, |guest| guest);
        // An exception takes time without an instruction; only deadlines stop right after it.
        let delivered = |time: &(u64, u64)| time.1 == HANDLERS;
        for (at, time) in times.iter().filter(|(_, time)| !delivered(time)) {
            assert_eq!(
                Some(time),
                expected.get(at),
                "after {at}, stopped each {step}"
            );
        }
        assert_eq!(
            times.last_key_value(),
            expected.last_key_value(),
            "each {step}"
        );
    }
}

/// A loop with jumps that depend on a counter, calls, and accesses.
fn looping(a: &mut CodeAssembler) -> Result<(), IcedError> {
    let [mut again, mut skip, mut function, mut start] = [(); 4].map(|()| a.create_label());
    a.jmp(start)?;
    a.set_label(&mut function)?;
    a.add(rax, qword_ptr(rsp))?;
    a.ret()?;
    a.set_label(&mut start)?;
    a.mov(rsi, DATA)?;
    a.mov(ebp, 700)?;
    a.set_label(&mut again)?;
    a.imul_2(rax, rbp)?;
    a.test(ebp, 0x15)?;
    a.jz(skip)?;
    a.mov(qword_ptr(rsi + rbp * 8), rax)?;
    a.add(rax, qword_ptr(rsi + rbp * 8))?;
    a.set_label(&mut skip)?;
    a.call(function)?;
    a.addsd(xmm0, xmm1)?;
    a.dec(ebp)?;
    a.jnz(again)?;
    a.hlt()
}

#[test]
fn stops_have_no_effect() {
    let code = assemble(looping);
    agree(|| guest(&code));
}

#[test]
fn misses_take_the_same_time_however_they_are_stopped() {
    let code = assemble(missing);
    agree(|| guest(&code));
    let mut all = guest(&code);
    assert_eq!(all.run(1 << 40), Exit::Halt);
    let account = all.vcpu.account().unwrap();
    for part in [account.memory, account.translation, account.bandwidth] {
        assert!(part > 1000, "{account:?}");
    }
    let core = Guest::with_timing(
        &code,
        Timing {
            has_memory: false,
            ..timing()
        },
        &InstructionSet::default(),
    );
    let mut core = core;
    assert_eq!(core.run(1 << 40), Exit::Halt);
    let misses = account.memory + account.translation + account.bandwidth + account.caches;
    let apart = all.vcpu.now() - core.vcpu.now();
    // Each part is rounded down.
    assert!(
        (misses..=misses + 4).contains(&apart),
        "{apart}: {account:?}"
    );
}

#[test]
fn a_saved_guest_takes_the_same_time() {
    for (program, steps) in [
        (assemble(looping), [13, 97]),
        (assemble(missing), [911, 1301]),
    ] {
        saved_takes_the_same_time(&program, &steps);
    }
}

fn saved_takes_the_same_time(code: &[u8], steps: &[u64]) {
    let expected = walked(guest(code));
    for &step in steps {
        let mut moves = 0;
        let times = stopped(guest(code), step, |mut before| {
            moves += 1;
            let saved = Vcpu::save(&mut before.vcpu).unwrap();
            let mut after = guest(&[]);
            after.write(0, &before.read(0, RAM_BYTES));
            Vcpu::load(&mut after.vcpu, &saved).unwrap();
            after
        });
        assert!(moves > 20);
        for (at, time) in &times {
            assert_eq!(
                Some(time),
                expected.get(at),
                "after {at}, moved each {step}"
            );
        }
    }
}

#[test]
fn a_state_of_another_time_model_is_refused() {
    let code = assemble(looping);
    let mut with = guest(&code);
    with.run(500);
    let mut without = Guest::new(&code);
    without.run(500);
    let [with_path, without_path] =
        [&mut with, &mut without].map(|guest| Vcpu::save(&mut guest.vcpu).unwrap());
    assert!(Vcpu::load(&mut without.vcpu, &with_path).is_err());
    assert!(Vcpu::load(&mut with.vcpu, &without_path).is_err());
}

/// Stores change immediates of later instructions, in the same block and in the next one.
#[test]
fn changes_of_code_have_no_effect_on_stops() {
    let code = assemble(|a| {
        let [mut again, mut here, mut there] = [(); 3].map(|()| a.create_label());
        a.mov(ebp, 90)?;
        a.set_label(&mut again)?;
        a.lea(rbx, ptr(here))?;
        a.mov(byte_ptr(rbx + 1), bpl)?;
        a.add(rdx, 3)?;
        a.set_label(&mut here)?;
        a.mov(eax, 0x1111)?;
        a.add(rcx, rax)?;
        a.lea(rbx, ptr(there))?;
        a.mov(byte_ptr(rbx + 2), bpl)?;
        a.test(ebp, 4)?;
        a.jz(there)?;
        a.imul_2(rdx, rcx)?;
        a.set_label(&mut there)?;
        a.add(rdx, 0x22)?;
        a.dec(ebp)?;
        a.jnz(again)?;
        a.hlt()
    });
    agree(|| guest(&code));
}

/// Instructions that leave translated code: ports, string instructions, and crossings of pages.
#[test]
fn instructions_outside_of_translated_code_have_no_effect_on_stops() {
    let code = assemble(|a| {
        let mut again = a.create_label();
        a.mov(ebp, 60)?;
        a.set_label(&mut again)?;
        a.mov(rsi, DATA)?;
        a.mov(rdi, DATA + 0x2f80)?;
        a.mov(ecx, 300)?;
        a.rep().movsb()?;
        a.mov(rax, qword_ptr(DATA + PAGE - 3))?;
        a.add(qword_ptr(DATA + 2 * PAGE - 5), rax)?;
        a.out(PORT, al)?;
        a.cpuid()?;
        a.pushfq()?;
        a.pop(rdx)?;
        a.rdtsc()?;
        a.movups(xmm1, xmmword_ptr(DATA + 3 * PAGE - 8))?;
        a.dec(ebp)?;
        a.jnz(again)?;
        a.hlt()
    });
    agree(|| guest(&code));
}

/// A division by zero in the middle of a block, whose handler skips it.
#[test]
fn exceptions_have_no_effect_on_stops() {
    let code = assemble(|a| {
        let mut again = a.create_label();
        a.mov(ebp, 200)?;
        a.set_label(&mut again)?;
        a.mov(eax, 77)?;
        a.xor(edx, edx)?;
        a.mov(ecx, ebp)?;
        a.and(ecx, 3)?;
        // Two bytes long, as the handler assumes.
        a.div(ecx)?;
        a.add(rbx, rax)?;
        a.dec(ebp)?;
        a.jnz(again)?;
        a.hlt()
    });
    let handler = assemble(|a| {
        a.add(qword_ptr(rsp), 2)?;
        a.iretq()
    });
    let make = || {
        let guest = guest(&code);
        guest.write(HANDLERS, &handler);
        guest
    };
    agree(make);
}

/// Cycles for which users' code runs, as its HLT would fault.
const USER_CYCLES: u64 = 2500;

/// Runs `guest` with a stop each `step` cycles, or after each instruction if that is zero; also returns the number of
/// arrivals at probes.
fn probed(mut guest: Guest, step: u64) -> (Times, u64) {
    let (mut times, mut hits) = (Times::new(), 0);
    while guest.vcpu.now() < USER_CYCLES {
        let until = if step == 0 {
            guest.vcpu.stop_at(guest.vcpu.retired() + 1);
            u64::MAX
        } else {
            guest.vcpu.now() + step
        };
        hits += u64::from(matches!(guest.vcpu.run(until).unwrap(), Exit::Probe { .. }));
        look(&guest, &mut times);
    }
    (times, hits)
}

#[test]
fn probes_have_no_effect() {
    let code = assemble(looping);
    let make = || {
        let mut guest = guest(&code);
        guest.allow_user();
        guest.enter_user(CODE);
        guest
    };
    let (expected, _) = probed(make(), 0);
    let instructions = iced_x86::Decoder::with_ip(64, &code, CODE, 0).into_iter();
    let addresses: Vec<u64> = instructions.map(|instruction| instruction.ip()).collect();
    let mut page = Box::new([0; PAGE as usize]);
    page[..code.len()].copy_from_slice(&code);
    // Most are in the middle of a block.
    for address in &addresses[3..14] {
        let set = Probes::new([ProbedPage {
            bytes: page.clone(),
            places: vec![((address % PAGE) as u16, 7)],
        }]);
        let mut guest = make();
        assert!(guest.vcpu.set_probes(&Arc::new(set)));
        let (times, hits) = probed(guest, 41);
        assert!(hits > 0, "no arrival at {address:#x}");
        let end = expected.last_key_value().map_or(0, |(at, _)| *at);
        for (at, time) in times.range(..=end) {
            assert_eq!(expected.get(at), Some(time), "after {at}, {address:#x}");
        }
    }
}

/// Registers set from outside begin a new path only if they move the guest.
#[test]
fn registers_from_outside_keep_the_path_unless_they_move_the_guest() {
    let code = assemble(looping);
    let expected = walked(guest(&code));
    let times = stopped(guest(&code), 29, |mut guest| {
        let registers: Registers = guest.vcpu.registers();
        guest.vcpu.set_registers(&registers);
        guest
    });
    for (at, time) in &times {
        assert_eq!(Some(time), expected.get(at), "after {at}");
    }
}
