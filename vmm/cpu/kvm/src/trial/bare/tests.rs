//! The engine with bare guests on the host's KVM, hardware or emulated.
#![allow(clippy::print_stderr)]

use std::time::Duration;

use belljar_abi::MAGIC_ADDRESS;
use belljar_cpu::{Exit, Registers, SegmentRegister, ShutdownCause, Vcpu};

use kvm_bindings::{Msrs, kvm_msr_entry};

/// Traced calls of a guest that is interrupted on its way to them.
mod calls;

use super::*;
use crate::host::breakpoints::Breakpoints;
use crate::host::ioctl;
use crate::host::means::RequestedMeans;
use crate::host::tsc::TscControl;

/// `rdtsc; shl rdx, 32; or rax, rdx; out 0x80, al; jmp` to the beginning.
const LOOK: [u8; 13] = [
    0x0f, 0x31, 0x48, 0xc1, 0xe2, 0x20, 0x48, 0x09, 0xd0, 0xe6, 0x80, 0xeb, 0xf3,
];
/// `jmp` to itself.
const SPIN: [u8; 2] = [0xeb, 0xfe];
/// About a tenth of a second.
const LONG: u64 = 1 << 28;
/// Some seconds: a bound for exits that must come, also on a slow host.
const PATIENCE: u64 = LONG << 5;

/// A processor with `code`; `None`, with a message, if there is no KVM.
fn guest(code: &[u8]) -> Option<KvmVcpu> {
    guest_by(RequestedMeans::default(), code)
}

fn by(breakpoints: Breakpoints) -> RequestedMeans {
    RequestedMeans {
        breakpoints: Some(breakpoints),
        tsc: None,
    }
}

fn moved_by(tsc: TscControl) -> RequestedMeans {
    RequestedMeans {
        breakpoints: None,
        tsc: Some(tsc),
    }
}

fn guest_by(wanted: RequestedMeans, code: &[u8]) -> Option<KvmVcpu> {
    let breakpoints = wanted.breakpoints.unwrap_or(Breakpoints::Hardware);
    let opened = Host::open().and_then(|host| Ok((Means::on(&host, breakpoints, wanted)?, host)));
    match opened {
        Ok((means, host)) => {
            let costs = host.costs(means).unwrap();
            Some(processor(&host, code, means, costs).unwrap())
        }
        Err(error) => {
            eprintln!("SKIPPED: {error}");
            None
        }
    }
}

/// As [`guest`], on hosts whose KVM passes the probe.
fn sound_guest(code: &[u8]) -> Option<KvmVcpu> {
    sound_guest_by(by(Breakpoints::Hardware), code)
}

fn sound_guest_by(wanted: RequestedMeans, code: &[u8]) -> Option<KvmVcpu> {
    match crate::probe(wanted) {
        Ok(_) => guest_by(wanted, code),
        Err(error) => {
            eprintln!("SKIPPED: {error}");
            None
        }
    }
}

fn look(vcpu: &mut KvmVcpu) -> u64 {
    let exit = vcpu.run(vcpu.now() + PATIENCE).unwrap();
    assert!(
        matches!(
            exit,
            Exit::PioWrite {
                port: 0x80,
                len: 1,
                ..
            }
        ),
        "{exit:?}"
    );
    vcpu.registers().gpr[Registers::RAX]
}

#[test]
fn time_stands_while_the_guest_does() {
    for tsc in [TscControl::Offset, TscControl::Register] {
        if let Some(vcpu) = sound_guest_by(moved_by(tsc), &LOOK) {
            stands_while_stopped(vcpu);
        }
    }
}

fn stands_while_stopped(mut vcpu: KvmVcpu) {
    let before = look(&mut vcpu);
    let clock = vcpu.now();
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(vcpu.now(), clock);
    let after = look(&mut vcpu);
    assert!(after > before, "{before} {after}");
    let passed = vcpu.clock.nanoseconds(after - before);
    assert!(
        passed < 25_000_000,
        "{passed} ns passed for a stopped guest whose counter is moved by {}",
        vcpu.means.tsc
    );
    // The clock may be ahead by an exit that took less time than all measured ones.
    let ahead = vcpu.clock.nanoseconds(after.saturating_sub(vcpu.now()));
    assert!(ahead < 1_000_000, "{ahead} ns");
    vcpu.skip_to(vcpu.now() + LONG);
    assert!(look(&mut vcpu) >= clock + LONG);
}

/// Checked against KVM's own report. KVM ignores moves of less than a second if they are made by
/// the register.
#[test]
fn the_counter_goes_where_it_is_moved() {
    const NEARLY: u64 = 200_000_000;
    for tsc in [TscControl::Offset, TscControl::Register] {
        let Some(vcpu) = sound_guest_by(moved_by(tsc), &LOOK) else {
            return;
        };
        for offset in [0, 1 << 29, 1 << 30, 1 << 29, 1 << 50, 1 << 63, 3 << 62] {
            tsc.set(&vcpu.fd, offset).unwrap();
            let mut list = Msrs::from_entries(&[kvm_msr_entry {
                index: crate::host::msr::MSR_TSC,
                ..kvm_msr_entry::default()
            }])
            .unwrap();
            assert_eq!(vcpu.fd.get_msrs(&mut list).unwrap(), 1);
            let seen = list.as_slice()[0].data;
            let expected = ioctl::host_tsc().wrapping_add(offset);
            let off = expected.wrapping_sub(seen);
            assert!(off < NEARLY, "{off} of {offset} by {tsc}");
        }
    }
}

/// Compares KVM's capability with the vCPU's attribute.
#[test]
fn what_moves_the_counter_is_there() {
    let Some(vcpu) = guest(&LOOK) else { return };
    let offset = ioctl::has_tsc_offset(&vcpu.fd);
    assert_eq!(vcpu.machine.host.has_tsc_offset, offset);
    let best = if offset {
        TscControl::Offset
    } else {
        TscControl::Register
    };
    assert_eq!(vcpu.means.tsc, best);
    let register = guest_by(moved_by(TscControl::Register), &LOOK).unwrap();
    assert_eq!(register.means.tsc, TscControl::Register);
}

/// `mov eax, 0x402; mov dr7, rax; jmp` to itself: the guest sets breakpoint 0, globally.
const OWN_BREAKPOINT: [u8; 10] = [0xb8, 0x02, 0x04, 0, 0, 0x0f, 0x23, 0xf8, 0xeb, 0xfe];
/// `mov eax, 0x400; mov dr7, rax; out 0x81, al`.
const NO_BREAKPOINT: [u8; 10] = [0xb8, 0x00, 0x04, 0, 0, 0x0f, 0x23, 0xf8, 0xe6, 0x81];

#[test]
fn breakpoints_that_do_not_work_are_seen_while_a_program_has_them() {
    let Some(mut vcpu) = sound_guest(&[OWN_BREAKPOINT, NO_BREAKPOINT].concat()) else {
        return;
    };
    assert!(vcpu.report().warnings.is_empty());
    // On a busy host a turn may end before the guest is entered.
    for _ in 0..100 {
        if vcpu.missed_breakpoints {
            break;
        }
        let exit = vcpu.run(vcpu.now() + (LONG >> 6)).unwrap();
        assert_eq!(exit, Exit::Deadline);
    }
    let mut registers = vcpu.registers();
    registers.rip = CODE + OWN_BREAKPOINT.len() as u64;
    vcpu.set_registers(&registers);
    tells(&mut vcpu, 0);
    assert_eq!(vcpu.debug_registers().unwrap()[7], 0x400);
    let warnings = vcpu.report().warnings;
    assert!(
        matches!(&warnings[..], [one] if one.contains("breakpoints of its own")),
        "{warnings:?}"
    );
}

#[test]
fn a_guest_that_never_comes_back_is_stopped() {
    let Some(mut vcpu) = guest(&SPIN) else { return };
    for turn in 1..=5 {
        let until = vcpu.now() + (LONG >> 8);
        assert_eq!(vcpu.run(until).unwrap(), Exit::Deadline);
        assert!(vcpu.now() >= until);
        assert_eq!(vcpu.clock.error.stops, turn);
    }
    assert_eq!(vcpu.registers().rip, CODE);
}

/// Sets `vcpu` to the instruction at `rip`, in user code that may use ports.
fn enter_user(vcpu: &mut KvmVcpu, rip: u64) -> Registers {
    let mut system = vcpu.system();
    for (place, selector, attributes) in [
        (SegmentRegister::Cs, 0x23, 0xa0fb),
        (SegmentRegister::Ss, 0x1b, 0xc0f3),
    ] {
        let segment = &mut system.segments[place as usize];
        (segment.selector, segment.attributes) = (selector, attributes);
    }
    vcpu.set_system(&system);
    let mut registers = vcpu.registers();
    registers.rip = rip;
    registers.rflags = 0x3002;
    registers.gpr[Registers::RAX] = 0x1234;
    registers.gpr[Registers::R11] = 77;
    vcpu.set_registers(&registers);
    registers
}

/// `OUT` of AL to port 0x81.
const TELL: [u8; 2] = [0xe6, 0x81];

/// Runs to the guest's next output, which must be the value `told`.
fn tells(vcpu: &mut KvmVcpu, told: u32) {
    let exit = vcpu.run(vcpu.now() + PATIENCE).unwrap();
    let expected = Exit::PioWrite {
        port: 0x81,
        len: 1,
        data: told,
    };
    assert_eq!(exit, expected);
}

fn calls_from_user_code(mut vcpu: KvmVcpu) {
    let registers = enter_user(&mut vcpu, MAGIC_ADDRESS);
    let exit = vcpu.run(LONG).unwrap();
    assert_eq!(exit, Exit::Magic { at: vcpu.now() });
    let seen = vcpu.registers();
    assert_eq!((seen.rip, seen.gpr), (MAGIC_ADDRESS, registers.gpr));
    vcpu.complete_magic(CODE);
    tells(&mut vcpu, 0x34);
    assert_eq!(vcpu.registers().gpr[Registers::R11], CODE);
    assert_eq!(vcpu.strangers, 0);
}

#[test]
fn a_call_from_user_code_stops_before_it_is_executed() {
    let Some(vcpu) = sound_guest(&TELL) else {
        return;
    };
    calls_from_user_code(vcpu);
}

#[test]
fn int3_stops_a_call_from_user_code_as_well() {
    let Some(vcpu) = sound_guest_by(by(Breakpoints::Int3), &TELL) else {
        return;
    };
    calls_from_user_code(vcpu);
}

/// Sets a gate for `vector` that user code may use, to `handler`.
fn handles(vcpu: &KvmVcpu, vector: u64, handler: u64) {
    let low = handler & 0xffff | u64::from(KERNEL_CODE) << 16 | 0xee00 << 32;
    let high = handler >> 16 & 0xffff;
    let ram = &vcpu.machine.ram;
    let at = GuestAddress(IDT + vector * 16);
    ram.write_obj(low | high << 48, at).unwrap();
}

/// `int3; out 0x81, al; jmp` to itself, and a handler: `mov al, 7; out 0x81, al; iretq`.
const OWN: [u8; 11] = [
    0xcc, 0xe6, 0x81, 0xeb, 0xfe, 0xb0, 0x07, 0xe6, 0x81, 0x48, 0xcf,
];
const HANDLER: u64 = 5;

#[test]
fn a_guests_own_breakpoints_are_its_own() {
    for breakpoints in [Breakpoints::Hardware, Breakpoints::Int3] {
        let Some(mut vcpu) = sound_guest_by(by(breakpoints), &OWN) else {
            return;
        };
        handles(&vcpu, 3, CODE + HANDLER);
        enter_user(&mut vcpu, CODE);
        tells(&mut vcpu, 7);
        let stack = vcpu.machine.ram.read_obj(GuestAddress(STACK - 40));
        let behind: u64 = stack.unwrap();
        assert_eq!(behind, CODE + 1, "{breakpoints}");
        tells(&mut vcpu, 7);
        let all = u64::from(breakpoints == Breakpoints::Int3);
        assert_eq!(vcpu.strangers, all);
    }
}

#[test]
fn programs_that_call_by_cpuid_do_not_go_on_without_hardware_breakpoints() {
    let int3 = by(Breakpoints::Int3);
    let (Some(mut one), Some(mut other)) = (guest(&LOOK), guest_by(int3, &LOOK)) else {
        return;
    };
    // A guest without such programs may continue under any breakpoints.
    other.load(&one.save().unwrap()).unwrap();
    assert!(!other.calls_by_cpuid);
    one.calls_by_cpuid = true;
    let saved = one.save().unwrap();
    let refusal = other.load(&saved).unwrap_err().to_string();
    assert!(refusal.contains("kvm.breakpoints"), "{refusal}");
    let mut third = guest(&LOOK).unwrap();
    third.load(&saved).unwrap();
    assert!(third.calls_by_cpuid);
}

#[test]
fn a_saved_processor_goes_on_in_another() {
    let (Some(mut one), Some(mut other)) = (guest(&LOOK), guest(&LOOK)) else {
        return;
    };
    look(&mut one);
    one.skip_to(LONG);
    let saved = one.save().unwrap();
    assert_eq!(saved.cycles, one.now());
    // After the OUT, which KVM completes only on request.
    assert_eq!(saved.registers.rip, CODE + 11);
    other.load(&saved).unwrap();
    assert_eq!(other.now(), one.now());
    assert_eq!(other.registers(), one.registers());
    assert_eq!(other.system(), one.system());
    assert!(look(&mut other) >= LONG);
    let again = other.save().unwrap();
    assert_eq!(again.msrs, saved.msrs);
    assert_eq!((again.xcr0, again.debug), (saved.xcr0, saved.debug));
    assert_eq!((again.vectors, again.x87), (saved.vectors, saved.x87));
}

#[test]
fn an_nmi_that_is_to_be_taken_is_not_left_out_of_a_state() {
    let Some(mut vcpu) = sound_guest(&LOOK) else {
        return;
    };
    look(&mut vcpu);
    vcpu.nmi();
    let refusal = vcpu.save().unwrap_err().to_string();
    assert!(refusal.contains("is taking an interrupt"), "{refusal}");
}

#[test]
fn a_guest_without_handlers_ends_by_itself() {
    // ud2, with an empty table of handlers.
    let Some(mut vcpu) = guest(&[0x0f, 0x0b]) else {
        return;
    };
    let exit = vcpu.run(LONG).unwrap();
    assert!(
        matches!(
            exit,
            Exit::Shutdown(ShutdownCause::TripleFault { .. } | ShutdownCause::NotEmulated { .. })
        ),
        "{exit:?}"
    );
    assert_eq!(vcpu.run(vcpu.now() + LONG).unwrap(), exit);
}
