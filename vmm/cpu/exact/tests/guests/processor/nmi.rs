//! Non-maskable interrupts: delivered regardless of IF, one at a time.

use belljar_cpu::{Exit, Vcpu};
use belljar_exact_testing::bare::{CODE, Guest, HANDLERS};
use iced_x86::code_asm::*;

/// A guest that counts in RBX with interrupts off; its NMI handler counts in R15, writes to port
/// 0x80, and returns.
fn guest() -> Guest {
    let mut a = CodeAssembler::new(64).unwrap();
    let mut again = a.create_label();
    a.set_label(&mut again).unwrap();
    a.inc(rbx).unwrap();
    a.jmp(again).unwrap();
    let guest = Guest::new(&a.assemble(CODE).unwrap());
    // inc r15; out 0x80, al; iretq
    guest.write(
        HANDLERS + 2 * 16,
        &[0x49, 0xff, 0xc7, 0xe6, 0x80, 0x48, 0xcf],
    );
    guest
}

fn taken(guest: &Guest) -> u64 {
    guest.vcpu.registers().gpr[15]
}

#[test]
fn one_comes_with_interrupts_off_and_no_other_before_its_iret() {
    let mut guest = guest();
    assert_eq!(guest.run(1000), Exit::Deadline);
    assert!(!guest.vcpu.interruptible() && guest.vcpu.takes_nmi());
    guest.vcpu.nmi();
    assert!(!guest.vcpu.takes_nmi());
    guest.vcpu.request_nmi_window(true);
    // The handler's OUT, and then the window, after its IRET.
    assert!(matches!(guest.run(1000), Exit::PioWrite { .. }));
    assert!(!guest.vcpu.takes_nmi());
    let before = guest.vcpu.retired();
    assert_eq!(guest.run(1000), Exit::InterruptWindow);
    assert_eq!(guest.vcpu.retired() - before, 1);
    assert!(guest.vcpu.takes_nmi());
    assert_eq!(taken(&guest), 1);
    guest.vcpu.nmi();
    guest.vcpu.request_nmi_window(false);
    assert!(matches!(guest.run(1000), Exit::PioWrite { .. }));
    assert_eq!(guest.run(1000), Exit::Deadline);
    assert_eq!(taken(&guest), 2);
}

#[test]
fn it_wakes_a_processor_that_halted_with_interrupts_off() {
    let mut guest = guest();
    // hlt; inc rbx; jmp $
    guest.write(CODE, &[0xf4, 0x48, 0xff, 0xc3, 0xeb, 0xfe]);
    assert_eq!(guest.run(1000), Exit::Halt);
    assert_eq!(guest.run(1000), Exit::Halt);
    guest.vcpu.nmi();
    assert!(matches!(guest.run(1000), Exit::PioWrite { .. }));
    assert_eq!(guest.run(1000), Exit::Deadline);
    let gpr = guest.vcpu.registers().gpr;
    assert_eq!((gpr[3], gpr[15]), (1, 1));
}

/// The state includes whether an NMI is being handled, so runs that differ in that are
/// distinguished.
#[test]
fn the_state_tells_of_it() {
    let mut guest = guest();
    let mut in_nmi = || {
        let state = guest.vcpu.state();
        let item = state.iter().find(|item| item.name == "in_nmi").unwrap();
        let found = item.hex();
        if guest.vcpu.takes_nmi() {
            guest.vcpu.nmi();
        }
        found
    };
    assert_eq!((in_nmi(), in_nmi()), ("0".to_owned(), "1".to_owned()));
}
