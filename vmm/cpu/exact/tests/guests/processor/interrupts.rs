//! The interrupt flag: the effects of CLI, STI, PUSHF and POPF, and the time of the interrupt
//! window, for all ways to run the code.

use belljar_cpu::{Exit, Registers, Vcpu};
use belljar_exact_testing::bare::{CODE, DATA, Guest};
use iced_x86::code_asm::*;

/// The arithmetic flags and DF.
const FLAGS: [u64; 6] = [0, 1, 0x8d5, 0x44, 0x400, 0x890];
const FIXED: u64 = 2;
const IF: u64 = 0x200;

/// Pushes flags after POPF, CLI and STI, in a loop that is long enough to become hot.
fn program() -> (Vec<u8>, Vec<u64>) {
    let mut asm = CodeAssembler::new(64).unwrap();
    let mut expected = Vec::new();
    let mut again = asm.create_label();
    asm.mov(r12d, 2000).unwrap();
    asm.set_label(&mut again).unwrap();
    asm.mov(rdi, DATA).unwrap();
    let store = |asm: &mut CodeAssembler| {
        asm.pushfq().unwrap();
        asm.pop(rax).unwrap();
        asm.mov(qword_ptr(rdi), rax).unwrap();
        asm.lea(rdi, rdi + 8).unwrap();
    };
    for flags in FLAGS {
        for initial in [0, IF] {
            asm.push((flags | initial) as i32).unwrap();
            asm.popfq().unwrap();
            store(&mut asm);
            asm.cli().unwrap();
            store(&mut asm);
            asm.sti().unwrap();
            asm.nop().unwrap();
            store(&mut asm);
            asm.cli().unwrap();
            asm.sti().unwrap();
            store(&mut asm);
            let enabled = flags | FIXED | IF;
            expected.extend([flags | FIXED | initial, flags | FIXED, enabled, enabled]);
        }
    }
    asm.dec(r12d).unwrap();
    asm.jne(again).unwrap();
    asm.hlt().unwrap();
    (asm.assemble(CODE).unwrap(), expected)
}

#[test]
fn pushed_flags_are_those_set() {
    let (code, expected) = program();
    for step in [u64::MAX >> 2, 211, 1] {
        let mut guest = Guest::new(&code);
        while guest.run(step) == Exit::Deadline {}
        assert_eq!(
            guest.vcpu.registers().gpr[12],
            0,
            "stopped each {step} instructions"
        );
        let found: Vec<u64> = guest
            .read(DATA, expected.len() * 8)
            .chunks(8)
            .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
            .collect();
        assert_eq!(found, expected, "stopped each {step} instructions");
    }
}

/// Runs code that ends with OUT while the caller waits for an interrupt window. Returns the value
/// of RAX at the window.
fn told_at(build: impl Fn(&mut CodeAssembler), warm: bool) -> Option<u64> {
    let mut asm = CodeAssembler::new(64).unwrap();
    asm.xor(eax, eax).unwrap();
    build(&mut asm);
    asm.out(0x80, al).unwrap();
    let mut guest = Guest::new(&asm.assemble(CODE).unwrap());
    if warm {
        // Once without a request, so that the code is already translated.
        assert!(matches!(guest.run(1000), Exit::PioWrite { .. }));
        let mut registers = guest.vcpu.registers();
        registers.rip = CODE;
        registers.rflags = FIXED;
        guest.vcpu.set_registers(&registers);
    }
    guest.vcpu.request_interrupt_window(true);
    match guest.run(1000) {
        Exit::InterruptWindow => Some(guest.vcpu.registers().gpr[Registers::RAX]),
        Exit::PioWrite { .. } => None,
        other => panic!("{other:?}"),
    }
}

#[test]
fn interrupts_come_behind_the_instruction_that_follows_sti() {
    for warm in [false, true] {
        let told = told_at(
            |asm| {
                asm.inc(eax).unwrap();
                asm.sti().unwrap();
                asm.inc(eax).unwrap();
                asm.inc(eax).unwrap();
            },
            warm,
        );
        assert_eq!(told, Some(2), "warm: {warm}");
        let never = told_at(
            |asm| {
                asm.sti().unwrap();
                asm.cli().unwrap();
                asm.inc(eax).unwrap();
            },
            warm,
        );
        assert_eq!(never, None, "warm: {warm}");
    }
}

#[test]
fn a_run_that_ends_behind_sti_is_in_its_shadow() {
    let mut asm = CodeAssembler::new(64).unwrap();
    asm.inc(eax).unwrap();
    asm.sti().unwrap();
    asm.inc(eax).unwrap();
    asm.inc(eax).unwrap();
    asm.hlt().unwrap();
    let code = asm.assemble(CODE).unwrap();
    let interruptible = |instructions: u64| {
        let mut guest = Guest::new(&code);
        assert_eq!(guest.run(instructions), Exit::Deadline);
        guest.vcpu.interruptible()
    };
    assert_eq!([1, 2, 3, 4].map(interruptible), [false, false, true, true]);
}
