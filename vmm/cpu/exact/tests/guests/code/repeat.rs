//! REP STOS and REP MOVS in translated code, compared with the same guest with a breakpoint that is
//! never hit: the dispatcher then executes each instruction separately.

use belljar_cpu::{Exit, Registers, Vcpu};
use belljar_exact_testing::bare;
use belljar_exact_testing::bare::{CODE, DATA, Guest};
use belljar_sim::{Random, Seed};
use iced_x86::code_asm::*;

/// The inputs of each round: RSI, RDI, RCX, RAX, RFLAGS.
const ROUND: u64 = 5 * 8;
const TABLE: u64 = 0x11_0000;
/// Pages of the strings, from this linear address on. In memory their order is reversed, so that
/// they are not contiguous.
const PAGES: u64 = 6;
const STRINGS: u64 = 0x80_0000;
const FOREVER: u64 = 1 << 40;
/// An unmapped linear page.
const HOLE: u64 = 0x3f_f000;

type Form = fn(&mut CodeAssembler);
const FORMS: [Form; 8] = [
    |a| a.rep().stosb().unwrap(),
    |a| a.rep().stosw().unwrap(),
    |a| a.rep().stosd().unwrap(),
    |a| a.rep().stosq().unwrap(),
    |a| a.rep().movsb().unwrap(),
    |a| a.rep().movsw().unwrap(),
    |a| a.rep().movsd().unwrap(),
    |a| a.rep().movsq().unwrap(),
];

/// Executes `form` for each of `rounds` rounds of the table; sums up the resulting registers and
/// flags. CLD follows it, for either direction.
fn program(form: Form, rounds: u32) -> Vec<u8> {
    let mut asm = CodeAssembler::new(64).unwrap();
    let mut again = asm.create_label();
    asm.mov(dr7, r8).unwrap();
    // String instructions use the TLB, which other instructions fill.
    for page in [DATA, DATA + 0x1000, HOLE - 0x1000] {
        asm.or(byte_ptr(page), 0).unwrap();
        asm.cmp(byte_ptr(page), 0).unwrap();
    }
    asm.mov(ebx, TABLE as u32).unwrap();
    asm.mov(r9d, rounds).unwrap();
    asm.set_label(&mut again).unwrap();
    for (place, register) in (0..).zip([rsi, rdi, rcx, rax]) {
        asm.mov(register, qword_ptr(rbx + 8 * place)).unwrap();
    }
    asm.push(qword_ptr(rbx + 32)).unwrap();
    asm.popfq().unwrap();
    form(&mut asm);
    asm.pushfq().unwrap();
    asm.cld().unwrap();
    for (register, sum) in [(rsi, r10), (rdi, r11), (rcx, r12), (rax, r13)] {
        asm.lea(sum, ptr(sum + sum * 2)).unwrap();
        asm.add(sum, register).unwrap();
    }
    asm.pop(rdx).unwrap();
    asm.pushfq().unwrap();
    asm.add(r14, rdx).unwrap();
    asm.pop(rdx).unwrap();
    asm.add(r15, rdx).unwrap();
    asm.add(rbx, ROUND as i32).unwrap();
    asm.dec(r9d).unwrap();
    asm.jne(again).unwrap();
    asm.hlt().unwrap();
    asm.assemble(CODE).unwrap()
}

/// The address of a string, usually near others and often near the end of a page.
fn place(random: &mut Random) -> u64 {
    let page = STRINGS + random.next_u64() % PAGES * 0x1000;
    match random.next_u64() % 4 {
        0 => page + 0x1000 - random.next_u64() % 80,
        1 => page + random.next_u64() % 80,
        _ => page + random.next_u64() % 0x1000,
    }
}

fn count(random: &mut Random) -> u64 {
    match random.next_u64() % 16 {
        0 => 0,
        1 => random.next_u64() % 2048,
        _ => random.next_u64() % 40,
    }
}

fn table(random: &mut Random, rounds: u32) -> Vec<u8> {
    let mut table = Vec::new();
    for _ in 0..rounds {
        let backward = random.next_u64().is_multiple_of(16);
        let flags = 2 | random.next_u64() & 0x8d5 | if backward { 0x400 } else { 0 };
        let target = place(random);
        // An overlap in many cases.
        let source = match random.next_u64() % 3 {
            0 => target + random.next_u64() % 32 - 16,
            _ => place(random),
        };
        for word in [source, target, count(random), random.next_u64(), flags] {
            table.extend_from_slice(&word.to_le_bytes());
        }
    }
    table
}

fn guest(code: &[u8], table: &[u8], stepped: bool) -> Guest {
    let mut guest = Guest::new(code);
    guest.write(TABLE, table);
    let bytes: Vec<u8> = (0..PAGES * 0x1000).map(|at| (at * 7 / 3) as u8).collect();
    guest.write(DATA, &bytes);
    for page in 0..PAGES {
        guest.map_page(
            STRINGS + page * 0x1000,
            (DATA + (PAGES - 1 - page) * 0x1000) | 7,
        );
    }
    let mut registers = guest.vcpu.registers();
    registers.gpr[8] = if stepped { 0x9_0401 } else { 0x400 };
    guest.vcpu.set_registers(&registers);
    guest
}

/// Registers except for R8, memory, and the number of instructions, when a guest has halted.
fn outcome(guest: &mut Guest, step: u64) -> (Registers, Vec<u8>, u64) {
    loop {
        match guest.run(step) {
            Exit::Deadline => {}
            Exit::Halt => break,
            other => panic!("{other:?}"),
        }
    }
    let mut registers = guest.vcpu.registers();
    registers.gpr[8] = 0;
    let memory = guest.read(DATA, PAGES as usize * 0x1000);
    (registers, memory, guest.vcpu.retired())
}

#[test]
fn strings_leave_what_the_dispatcher_leaves() {
    const ROUNDS: u32 = 1500;
    let mut random = Random::new(Seed(7), "strings", 0);
    for (number, form) in FORMS.into_iter().enumerate() {
        let (code, table) = (program(form, ROUNDS), table(&mut random, ROUNDS));
        let expected = outcome(&mut guest(&code, &table, true), FOREVER);
        for step in [FOREVER, 1009, 13] {
            let found = outcome(&mut guest(&code, &table, false), step);
            assert_eq!(found.0, expected.0, "form {number}, stopped each {step}");
            assert!(found.1 == expected.1, "form {number}, memory");
            assert_eq!(found.2, expected.2, "form {number}, instructions");
        }
    }
}

#[test]
fn short_strings_do_not_leave_translated_code() {
    const ROUNDS: u32 = 2000;
    let words = [DATA, DATA + 0x1000, 20, 5, 2];
    let round: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    for form in FORMS {
        let code = program(form, ROUNDS);
        let mut guest = guest(&code, &round.repeat(ROUNDS as usize), false);
        outcome(&mut guest, FOREVER);
        let helped = guest.vcpu.statistics().helpers;
        // POPF is one in each round.
        assert!(helped < u64::from(ROUNDS) * 11 / 10, "{helped}");
    }
}

/// An element lies in an unmapped page: all earlier ones are complete, and the fault is at the
/// instruction. The same holds for a count so large that the number of bytes overflows.
#[test]
fn a_fault_leaves_what_was_done() {
    const ROUNDS: u32 = 900;
    let ends = [(HOLE - 24, 25), (HOLE - 0x800, 1 << 61)];
    for (form, (target, count)) in FORMS
        .into_iter()
        .flat_map(|form| ends.map(|end| (form, end)))
    {
        let mut table = Vec::new();
        for round in 0..ROUNDS {
            let (target, count) = match round + 1 == ROUNDS {
                true => (target, count),
                false => (HOLE - 0x100, 25),
            };
            for word in [DATA, target, count, 0x1111_2222_3333_4444, 2] {
                table.extend_from_slice(&u64::to_le_bytes(word));
            }
        }
        let code = program(form, ROUNDS);
        let run = |stepped| {
            let mut guest = guest(&code, &table, stepped);
            let mut outcome = outcome(&mut guest, FOREVER);
            outcome.1 = guest.read(HOLE - 0x1000, 0x1000);
            assert_eq!(outcome.0.rip, bare::HANDLERS + 16 * 14 + 1);
            outcome
        };
        assert_eq!(run(false), run(true));
    }
}
