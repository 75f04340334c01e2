//! Code across the end of a page, and changes of the page after it.

use belljar_cpu::{Registers, Vcpu};
use belljar_exact_testing::bare::{DATA, Guest};
use iced_x86::code_asm::*;

/// The first of two linear pages; each round runs from its end into the second one.
const PAGE: u64 = 0x80_0000;
/// Address of the second page's entry, in the page table that the first mapping beyond 4 MiB
/// creates.
const SECOND_ENTRY: u64 = 0x39_0008;
/// Physical pages: the first, and the two that are mapped as the second in turn.
const FIRST: u64 = DATA;
const SECOND: [u64; 2] = [DATA + 0x1000, DATA + 0x2000];
const AGAIN: u64 = PAGE + 0xff0;
const ROUNDS: u32 = 2000;

/// Adds a constant whose upper half is in the second page, [`ROUNDS`] times; then maps another
/// second page, and does so once more.
fn first_page() -> Vec<u8> {
    let mut asm = CodeAssembler::new(64).unwrap();
    asm.mov(ebx, 2).unwrap();
    asm.mov(ecx, ROUNDS).unwrap();
    asm.jmp(AGAIN).unwrap();
    let mut page = asm.assemble(PAGE).unwrap();
    page.resize(0x100, 0xcc);
    let mut asm = CodeAssembler::new(64).unwrap();
    let mut end = asm.create_label();
    asm.dec(ebx).unwrap();
    asm.je(end).unwrap();
    asm.mov(qword_ptr(SECOND_ENTRY), (SECOND[1] | 7) as i32)
        .unwrap();
    asm.invlpg(byte_ptr(PAGE + 0x1000)).unwrap();
    asm.mov(ecx, ROUNDS).unwrap();
    asm.jmp(AGAIN).unwrap();
    asm.set_label(&mut end).unwrap();
    asm.hlt().unwrap();
    page.extend(asm.assemble(PAGE + 0x100).unwrap());
    page.resize(0xff0, 0xcc);
    page.resize(0xffd, 0x90);
    // add eax, imm32
    page.extend([0x05, 1, 0]);
    page
}

fn second_page(upper: u8) -> Vec<u8> {
    let mut page = vec![upper, 0];
    let mut asm = CodeAssembler::new(64).unwrap();
    asm.dec(ecx).unwrap();
    asm.jne(AGAIN).unwrap();
    asm.jmp(PAGE + 0x100).unwrap();
    page.extend(asm.assemble(PAGE + 0x1002).unwrap());
    page
}

fn guest() -> Guest {
    let mut guest = Guest::new(&[]);
    guest.map_page(PAGE, FIRST | 7);
    guest.map_page(PAGE + 0x1000, SECOND[0] | 7);
    guest.write(FIRST, &first_page());
    for (at, upper) in SECOND.into_iter().zip([1, 3]) {
        guest.write(at, &second_page(upper));
    }
    let registers = Registers {
        rip: PAGE,
        ..guest.vcpu.registers()
    };
    guest.vcpu.set_registers(&registers);
    guest
}

#[test]
fn an_instruction_across_pages_does_not_leave_translated_code() {
    let mut guest = guest();
    assert_eq!(guest.run_to_halt(), None);
    let sum = u64::from(ROUNDS) * (0x1_0001 + 0x3_0001);
    assert_eq!(guest.vcpu.registers().gpr[0], sum);
    let visits = guest.vcpu.statistics().visits;
    assert!(visits < u64::from(ROUNDS) / 10, "{visits} visits");
}
