//! Traced calls of a guest that is interrupted just before the magic instruction.

use belljar_abi::RETURN_ADDRESS;

use super::*;

/// The vector of external interrupts.
const VECTOR: u8 = 0x41;
/// The continuation of an undetected call, relative to [`CODE`].
const MISSED: u64 = 0x40;
/// `iretq`, relative to [`CODE`].
const RETURN: u64 = 0x48;

/// The continuations of detected and undetected calls, and the interrupt's handler.
fn program() -> Vec<u8> {
    let mut code = TELL.to_vec();
    code.resize(MISSED as usize, 0x90);
    // out 0x82, al
    code.extend([0xe6, 0x82]);
    code.resize(RETURN as usize, 0x90);
    code.extend([0x48, 0xcf]);
    code
}

/// Writes the stub through which calls return: `mov r11d, MISSED; jmp MAGIC_ADDRESS`.
fn put_stub(vcpu: &KvmVcpu) {
    let mut stub = vec![0x41, 0xbb];
    stub.extend((CODE as u32 + MISSED as u32).to_le_bytes());
    stub.extend([0xeb, 0xe8]);
    let place = STUB_FRAME + (RETURN_ADDRESS - STUB_BASE);
    let ram = &vcpu.machine.ram;
    ram.write_slice(&stub, GuestAddress(place)).unwrap();
}

/// An interrupt that arrives just before the magic instruction is taken after it. Otherwise, a
/// processor that has RFLAGS.RF set after the return from the interrupt, such as QEMU's, would miss
/// the breakpoint.
fn interrupted_at(mut vcpu: KvmVcpu, rip: u64) {
    handles(&vcpu, VECTOR.into(), CODE + RETURN);
    put_stub(&vcpu);
    let mut registers = enter_user(&mut vcpu, rip);
    registers.rflags |= 1 << 9;
    registers.gpr[Registers::RSP] = USER_STACK;
    registers.gpr[Registers::R11] = CODE + MISSED;
    vcpu.set_registers(&registers);
    assert!(vcpu.interruptible());
    vcpu.interrupt(VECTOR);
    let exit = vcpu.run(vcpu.now() + PATIENCE).unwrap();
    assert_eq!(exit, Exit::Magic { at: vcpu.now() }, "from {rip:#x}");
    assert_eq!(vcpu.registers().gpr[Registers::RAX], 0x1234);
    vcpu.complete_magic(CODE);
    tells(&mut vcpu, 0x34);
    assert!(vcpu.vector.is_none());
    let frame = vcpu.machine.ram.read_obj::<u64>(GuestAddress(STACK - 40));
    let interrupted = if rip == MAGIC_ADDRESS {
        MAGIC_ADDRESS + 2
    } else {
        rip
    };
    assert_eq!(frame.unwrap(), interrupted);
}

#[test]
fn a_call_that_is_interrupted_is_seen() {
    for breakpoints in [Breakpoints::Hardware, Breakpoints::Int3] {
        let jump = RETURN_ADDRESS + 6;
        for rip in [RETURN_ADDRESS, jump, MAGIC_ADDRESS] {
            let Some(vcpu) = sound_guest_by(by(breakpoints), &program()) else {
                break;
            };
            interrupted_at(vcpu, rip);
        }
    }
}

/// A page fault's handler that maps the stubs' page: `mov qword ptr [STUB_TABLE], STUB_FRAME | 7;
/// add rsp, 8; iretq`.
const MAP: [u8; 18] = [
    0x48, 0xc7, 0x04, 0x25, 0, 0x60, 0, 0, 7, 0x70, 0, 0, 0x48, 0x83, 0xc4, 8, 0x48, 0xcf,
];
/// `movabs rcx, MAGIC_ADDRESS; jmp rcx`.
const JUMP: [u8; 12] = [0x48, 0xb9, 0, 0, 0, 0, 0x42, 0x4a, 0, 0, 0xff, 0xe1];
const PAGE_FAULT: u64 = 14;
/// `out 0x82, al`.
const TELL_MISSED: [u8; 2] = [0xe6, 0x82];

/// A call whose stub is in another page than the magic instruction, which is not mapped: the
/// guest's handler maps it and returns with RFLAGS.RF set, as from every fault.
fn faults_at(mut vcpu: KvmVcpu, rip: u64) {
    handles(&vcpu, PAGE_FAULT, CODE + 0x20);
    put_stub(&vcpu);
    let mut registers = enter_user(&mut vcpu, rip);
    registers.gpr[Registers::RSP] = USER_STACK;
    vcpu.set_registers(&registers);
    let ram = &vcpu.machine.ram;
    ram.write_obj(0_u64, GuestAddress(STUB_TABLE)).unwrap();
    let missed = GuestAddress(registers.gpr[Registers::R11]);
    ram.write_slice(&TELL_MISSED, missed).unwrap();
    let exit = vcpu.run(vcpu.now() + PATIENCE).unwrap();
    assert_eq!(exit, Exit::Magic { at: vcpu.now() }, "from {rip:#x}");
    let seen = vcpu.registers();
    assert_eq!(seen.rip, MAGIC_ADDRESS);
    assert_eq!(seen.gpr[Registers::R11], registers.gpr[Registers::R11]);
    vcpu.complete_magic(CODE);
    tells(&mut vcpu, 0x34);
    assert_eq!(vcpu.strangers, 0);
}

#[test]
fn a_call_is_seen_whose_page_is_not_mapped() {
    let mut code = [&TELL[..], &JUMP].concat();
    code.resize(0x20, 0x90);
    code.extend(MAP);
    for breakpoints in [Breakpoints::Hardware, Breakpoints::Int3] {
        for rip in [CODE + TELL.len() as u64, MAGIC_ADDRESS] {
            let Some(vcpu) = sound_guest_by(by(breakpoints), &code) else {
                break;
            };
            faults_at(vcpu, rip);
        }
    }
}
