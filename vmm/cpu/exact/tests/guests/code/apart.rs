//! The x87 of guests whose budget may be in one of its registers: the guest's view of it does not
//! depend on the budget's place.

use belljar_cpu::{Exit, InstructionSet, Registers, Vcpu};
use belljar_exact::{Costs, Timing};
use belljar_exact_testing::bare::{DATA, Guest, assemble};
use iced_x86::code_asm::*;

/// The registers in use, and the registers' contents, in an FXSAVE image.
fn registers_in_use(image: &[u8]) -> (u8, bool) {
    (image[4], image[32..160].iter().any(|&byte| byte != 0))
}

#[test]
fn an_instruction_of_the_x87_behind_sti_is_in_its_shadow() {
    let code = assemble(|a| {
        a.sti()?;
        a.fld1()?;
        a.inc(eax)?;
        a.hlt()
    });
    let mut guest = Guest::new(&code);
    guest.vcpu.request_interrupt_window(true);
    assert_eq!(guest.run(100), Exit::InterruptWindow);
    assert_eq!(guest.vcpu.registers().gpr[Registers::RAX], 0);
    assert_eq!(registers_in_use(&guest.vcpu.x87()[..]), (0x80, true));
}

#[test]
fn a_single_step_ends_behind_an_instruction_of_the_x87() {
    const TF: u64 = 1 << 8;
    let mut guest = Guest::new(&assemble(|a| {
        a.fld1()?;
        a.inc(eax)?;
        a.hlt()
    }));
    let mut registers = guest.vcpu.registers();
    registers.rflags |= TF;
    guest.vcpu.set_registers(&registers);
    // The handler of #DB halts.
    assert_eq!(guest.run(100), Exit::Halt);
    assert_eq!(guest.vcpu.registers().gpr[Registers::RAX], 0);
    assert_eq!(registers_in_use(&guest.vcpu.x87()[..]), (0x80, true));
}

#[test]
fn an_x87_that_became_as_after_reset_is_so_in_the_next_run() {
    let code = assemble(|a| {
        a.mov(rdi, DATA)?;
        a.fxsave(ptr(rdi))?;
        a.fld1()?;
        a.fxsave(ptr(rdi + 0x200))?;
        a.fxrstor(ptr(rdi))?;
        a.fxsave(ptr(rdi + 0x400))?;
        a.fxrstor(ptr(rdi + 0x200))?;
        a.fxsave(ptr(rdi + 0x600))?;
        a.hlt()
    });
    for step in [1, 2, 3, 100] {
        let mut guest = Guest::new(&code);
        guest.halt_by_steps(step);
        let found = [0, 1, 2, 3].map(|number| {
            let image = guest.read(DATA + number * 0x200, 512);
            registers_in_use(&image)
        });
        let one = (0x80, true);
        assert_eq!(found, [(0, false), one, (0, false), one], "by {step}");
    }
}

#[test]
fn what_counted_is_not_seen_by_another_guest_of_the_thread() {
    let code = assemble(|a| {
        a.mov(rdi, DATA)?;
        a.fxsave(ptr(rdi))?;
        a.hlt()
    });
    let priced = || {
        let timing = Timing {
            costs: Costs::default(),
            caches: None,
            processor: None,
            has_memory: false,
        };
        let mut guest = Guest::with_timing(&code, timing, &InstructionSet::default());
        assert_eq!(guest.vcpu.run(1 << 40).unwrap(), Exit::Halt);
        registers_in_use(&guest.read(DATA, 512))
    };
    assert_eq!(priced(), (0, false));
    let mut counted = Guest::new(&assemble(|a| {
        a.inc(eax)?;
        a.hlt()
    }));
    assert_eq!(counted.run(100), Exit::Halt);
    assert_eq!(priced(), (0, false));
}
