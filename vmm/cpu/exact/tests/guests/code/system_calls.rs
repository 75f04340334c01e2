//! SYSCALL and SYSRET in translated code, compared with the same guest with a breakpoint that is
//! never hit: the dispatcher then executes each instruction separately.

use belljar_cpu::{Exit, Registers, SystemRegisters, Vcpu};
use belljar_exact_testing::bare;
use belljar_exact_testing::bare::{CODE, DATA, Guest};
use iced_x86::code_asm::*;

const STAR: u32 = 0xc000_0081;
const LSTAR: u32 = 0xc000_0082;
const SFMASK: u32 = 0xc000_0084;
/// Kernel 0x10 and 0x18; user 0x33 and 0x2b.
const SELECTORS: u64 = 0x23 << 48 | 0x10 << 32;
/// All flags, as under Linux.
const ALL: u64 = 0x25_7fd5;
const KERNEL: u64 = CODE + 0x1000;
const USER: u64 = CODE + 0x2000;
/// The address of the kernel's return values: RIP, RFLAGS.
const RETURNS: u64 = DATA;
/// Number of system calls: enough for any code to become hot.
const CALLS: u32 = 3000;
const FOREVER: u64 = 1 << 40;

/// Values of RFLAGS to return with, without TF.
const USUAL: [u64; 4] = [0x202, 0x2, 0x8d7, 0x246];
const ODD: [u64; 8] = [
    0x602,
    0x4202,
    0x3202,
    0x4_0202,
    0x20_0202,
    0x1_0202,
    0xffff_ffff_ffc0_0002,
    0x893,
];

/// Sets DR7 from R8.
fn prologue(mask: u64) -> Vec<u8> {
    let mut asm = CodeAssembler::new(64).unwrap();
    asm.mov(dr7, r8).unwrap();
    asm.xor(r8d, r8d).unwrap();
    for (msr, value) in [(STAR, SELECTORS), (LSTAR, KERNEL), (SFMASK, mask)] {
        asm.mov(ecx, msr).unwrap();
        asm.mov(eax, value as u32).unwrap();
        asm.mov(edx, (value >> 32) as u32).unwrap();
        asm.wrmsr().unwrap();
    }
    asm.mov(rcx, USER).unwrap();
    asm.mov(r11d, 0x202).unwrap();
    asm.sysretq().unwrap();
    asm.assemble(CODE).unwrap()
}

/// Sums up RCX, R11 and RFLAGS after SYSCALL, and returns with the next of 16 flag values.
fn kernel() -> Vec<u8> {
    let mut asm = CodeAssembler::new(64).unwrap();
    let mut end = asm.create_label();
    asm.pushfq().unwrap();
    asm.pop(rdx).unwrap();
    asm.lea(rbp, ptr(rbp + rdx)).unwrap();
    asm.lea(r9, ptr(r9 + r11)).unwrap();
    asm.lea(r10, ptr(r10 + rcx)).unwrap();
    asm.test(r12d, r12d).unwrap();
    asm.je(end).unwrap();
    asm.mov(edx, r12d).unwrap();
    asm.and(edx, 15).unwrap();
    asm.mov(r11, qword_ptr(RETURNS + 8).into_indexed(rdx))
        .unwrap();
    asm.mov(rdx, qword_ptr(RETURNS)).unwrap();
    asm.test(rdx, rdx).unwrap();
    asm.cmovne(rcx, rdx).unwrap();
    asm.sysretq().unwrap();
    asm.set_label(&mut end).unwrap();
    asm.hlt().unwrap();
    asm.assemble(KERNEL).unwrap()
}

/// Makes flags of all kinds, calls, and sums up the returned flags.
fn user() -> Vec<u8> {
    let mut asm = CodeAssembler::new(64).unwrap();
    let mut again = asm.create_label();
    asm.mov(r12d, CALLS).unwrap();
    asm.set_label(&mut again).unwrap();
    asm.add(r13d, 0x7654_3210).unwrap();
    asm.syscall().unwrap();
    asm.pushfq().unwrap();
    asm.adc(r14, 0).unwrap();
    asm.pop(rax).unwrap();
    asm.lea(r15, ptr(r15 + rax)).unwrap();
    asm.dec(r12d).unwrap();
    asm.jne(again).unwrap();
    asm.syscall().unwrap();
    asm.assemble(USER).unwrap()
}

trait Indexed {
    fn into_indexed(self, index: AsmRegister64) -> AsmMemoryOperand;
}

impl Indexed for AsmMemoryOperand {
    fn into_indexed(self, index: AsmRegister64) -> AsmMemoryOperand {
        self + index * 8
    }
}

/// A guest whose kernel returns with each of `flags` in turn.
fn guest(mask: u64, flags: &[u64]) -> Guest {
    let guest = Guest::new(&prologue(mask));
    guest.allow_user();
    guest.write(KERNEL, &kernel());
    guest.write(USER, &user());
    for (place, flags) in flags.iter().cycle().take(16).enumerate() {
        guest.write(RETURNS + 8 + place as u64 * 8, &flags.to_le_bytes());
    }
    guest
}

/// The same with a breakpoint on writes to address zero.
fn single_stepped(mask: u64, flags: &[u64]) -> Guest {
    let mut guest = guest(mask, flags);
    let mut registers = guest.vcpu.registers();
    registers.gpr[8] = 0x9_0401;
    guest.vcpu.set_registers(&registers);
    guest
}

fn state(guest: &Guest) -> (Registers, SystemRegisters, u64) {
    let vcpu = &guest.vcpu;
    (vcpu.registers(), vcpu.system(), vcpu.retired())
}

#[test]
fn both_ways_leave_what_single_steps_leave() {
    for mask in [ALL, ALL & !1, 0x200, 0] {
        for flags in [&USUAL[..], &ODD, &[0x202, 0x602, 0x246, 0x8d7]] {
            let mut expected = single_stepped(mask, flags);
            expected.halt_by_steps(FOREVER);
            for step in [FOREVER, 1009, 61, 7, 1] {
                let mut found = guest(mask, flags);
                found.halt_by_steps(step);
                let what = format!("mask {mask:#x}, flags {flags:x?}, stopped each {step}");
                assert_eq!(state(&found), state(&expected), "{what}");
            }
        }
    }
}

#[test]
fn neither_leaves_translated_code() {
    let mut guest = guest(ALL, &USUAL);
    guest.halt_by_steps(FOREVER);
    let visits = guest.vcpu.statistics().visits;
    assert!(visits < u64::from(CALLS) / 10, "{visits} visits");
}

#[test]
fn wherever_it_stops_the_privilege_level_is_settled() {
    let (mut found, mut expected) = (guest(ALL, &USUAL), single_stepped(ALL, &USUAL));
    // Hot by then.
    for one in [&mut found, &mut expected] {
        assert_eq!(one.run(40_000), Exit::Deadline);
    }
    let mut levels = [0; 4];
    for step in (20..60).cycle().take(600) {
        assert_eq!(found.run(step), Exit::Deadline);
        assert_eq!(expected.run(step), Exit::Deadline);
        assert_eq!(state(&found), state(&expected));
        levels[usize::from(found.vcpu.system().segments[1].selector & 3)] += 1;
    }
    assert!(levels[0] > 100 && levels[3] > 100, "{levels:?}");
}

/// Makes `guest` return to `rip` with `flags` after usual returns; returns the vector of the
/// following exception, and the state.
fn odd_return(mut guest: Guest, rip: u64, flags: u64, step: u64) -> (u8, Registers, u64) {
    guest.use_interrupt_stack(1, bare::HANDLERS + 16, bare::STACK - 0x1000);
    guest.use_interrupt_stack(13, bare::HANDLERS + 16 * 13, bare::STACK - 0x1000);
    guest.use_interrupt_stack(14, bare::HANDLERS + 16 * 14, bare::STACK - 0x1000);
    assert_eq!(guest.run(40_000), Exit::Deadline);
    guest.write(RETURNS, &rip.to_le_bytes());
    for place in 0..16 {
        guest.write(RETURNS + 8 + place * 8, &flags.to_le_bytes());
    }
    guest.halt_by_steps(step);
    let registers = guest.vcpu.registers();
    let vector = (registers.rip - bare::HANDLERS) / 16;
    (vector as u8, registers, guest.vcpu.retired())
}

#[test]
fn odd_returns_raise_what_they_raise() {
    let cases = [
        (0x8000_0000_0000, 0x202, 13),
        (0x7fff_ffff_ffff_ffff, 0x202, 13),
        (0xffff_8000_0000_0000, 0x202, 14),
        (0x7fff_ffff_f000, 0x202, 14),
        (0, 0x302, 1),
    ];
    for (rip, flags, vector) in cases {
        let expected = odd_return(single_stepped(ALL, &USUAL), rip, flags, FOREVER);
        assert_eq!(expected.0, vector, "to {rip:#x} with {flags:#x}");
        for step in [FOREVER, 1009, 1] {
            let found = odd_return(guest(ALL, &USUAL), rip, flags, step);
            assert_eq!(found, expected, "to {rip:#x}, stopped each {step}");
        }
    }
}

/// A caller that waits for an interrupt window gets it directly after the SYSRET that opens it.
#[test]
fn the_window_opens_behind_the_return() {
    let mut guest = guest(ALL, &USUAL);
    assert_eq!(guest.run(40_000), Exit::Deadline);
    let mut windows = 0;
    for _ in 0..400 {
        assert_eq!(guest.run(5), Exit::Deadline);
        if guest.vcpu.interruptible() {
            continue;
        }
        guest.vcpu.request_interrupt_window(true);
        assert_eq!(guest.run(1000), Exit::InterruptWindow);
        guest.vcpu.request_interrupt_window(false);
        let registers = guest.vcpu.registers();
        assert_eq!(registers.rip, registers.gpr[Registers::RCX]);
        assert_eq!(guest.vcpu.system().segments[1].selector, 0x33);
        windows += 1;
    }
    assert!(windows > 50, "{windows}");
}
