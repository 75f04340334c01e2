//! Protection of the system from user code, and the places of traps: I/O ports, null segments,
//! returns to 32-bit code, TF across SYSCALL and REP.

use belljar_cpu::{Access, Exit, Registers, Vcpu};
use belljar_exact_testing::bare;
use belljar_exact_testing::bare::{CODE, DATA, Guest, HANDLERS, USER_CODE_32, USER_DATA_32};
use iced_x86::code_asm::*;

const TASK: u64 = 0xd000;
const FRAMES: u64 = 0x38_0000;
const USER: u64 = CODE + 0x2000;
const TF: u64 = 1 << 8;

fn assemble(bits: u32, at: u64, build: impl FnOnce(&mut CodeAssembler)) -> Vec<u8> {
    let mut asm = CodeAssembler::new(bits).unwrap();
    build(&mut asm);
    asm.assemble(at).unwrap()
}

/// A guest with `code` in user mode, whose exceptions enter the handlers' HLTs.
fn user(code: &[u8]) -> Guest {
    let mut guest = Guest::new(&[]);
    guest.allow_user();
    for vector in 0..32 {
        guest.use_interrupt_stack(vector, HANDLERS + vector * 16, FRAMES);
    }
    guest.write(USER, code);
    guest.enter_user(USER);
    guest
}

/// A word of the frame that an exception without error code pushed: RIP, CS, RFLAGS, RSP.
fn frame(guest: &Guest, word: u64) -> u64 {
    let bytes = guest.read(FRAMES - 40 + word * 8, 8);
    u64::from_le_bytes(bytes.try_into().unwrap())
}

/// A task-state segment with limit `limit`, whose bitmap begins at `base` and forbids all ports
/// except `allowed`.
fn set_bitmap(guest: &mut Guest, limit: u32, base: u16, allowed: &[u16]) {
    guest.write(TASK + 0x66, &base.to_le_bytes());
    let mut bitmap = vec![0xffu8; 0x100];
    for port in allowed {
        bitmap[usize::from(port / 8)] &= !(1 << (port % 8));
    }
    guest.write(TASK + u64::from(base), &bitmap);
    let mut system = guest.vcpu.system();
    system.segments[6].limit = limit;
    guest.vcpu.set_system(&system);
}

#[test]
fn the_bitmap_of_the_task_allows_single_ports() {
    let byte: &[u8] = &[0xe6, 0x47];
    let double: &[u8] = &[0xe7, 0x44];
    let string: &[u8] = &[0x6e];
    let all = 0x68 + 0x100;
    for (code, limit, allowed, goes) in [
        (byte, all, &[0x47][..], true),
        (byte, all, &[0x46, 0x48], false),
        (double, all, &[0x44, 0x45, 0x46, 0x47], true),
        (double, all, &[0x44, 0x45, 0x46], false),
        (string, all, &[0x47], true),
        (string, all, &[], false),
        // The byte after the last checked one must be within the limit, too.
        (byte, 0x68 + 9, &[0x47], true),
        (byte, 0x68 + 8, &[0x47], false),
        (byte, 0x66, &[0x47], false),
    ] {
        let mut guest = user(code);
        set_bitmap(&mut guest, limit, 0x68, allowed);
        let mut registers = guest.vcpu.registers();
        registers.gpr[Registers::RDX] = 0x47;
        registers.gpr[6] = DATA;
        guest.vcpu.set_registers(&registers);
        let exit = guest.run(100);
        let went = matches!(exit, Exit::PioWrite { .. });
        assert_eq!(
            went, goes,
            "{code:x?}, limit {limit:#x}, {allowed:x?}: {exit:?}"
        );
        if !went {
            assert_eq!(guest.vcpu.registers().rip, HANDLERS + 13 * 16 + 1);
        }
    }
}

#[test]
fn reading_ports_asks_the_bitmap() {
    for (allowed, goes) in [(&[0x60u16][..], true), (&[0x61], false)] {
        let mut guest = user(&[0xe4, 0x60]);
        set_bitmap(&mut guest, 0x168, 0x68, allowed);
        let exit = guest.run(100);
        assert_eq!(matches!(exit, Exit::PioRead { .. }), goes, "{exit:?}");
    }
}

/// A guest that enters 32-bit `code` with segment registers set by `load`.
fn legacy(load: impl FnOnce(&mut CodeAssembler), code: &[u8], rip: u64, far: bool) -> Guest {
    let start = assemble(64, CODE, |a| {
        load(a);
        a.mov(rbx, bare::STACK).unwrap();
        a.mov(rax, rip).unwrap();
        let data = i32::from(USER_DATA_32);
        a.push(data).unwrap();
        a.push(rbx).unwrap();
        if !far {
            a.push(2).unwrap();
        }
        a.push(i32::from(USER_CODE_32)).unwrap();
        a.push(rax).unwrap();
        if far {
            a.db(&[0x48, 0xcb]).unwrap();
        } else {
            a.iretq().unwrap();
        }
    });
    let mut guest = Guest::new(&start);
    guest.allow_user();
    guest.add_legacy_segments();
    for vector in 0..32 {
        guest.use_interrupt_stack(vector, HANDLERS + vector * 16, FRAMES);
    }
    guest.write(USER, code);
    guest
}

#[test]
fn high_bits_of_rip_do_not_count_in_32_bit_code() {
    for far in [false, true] {
        for high in [0, 0x7fff_0000_0000, 0x7777_7777_0000_0000] {
            // mov ecx, 0x55; ud2
            let code = [0xb9, 0x55, 0, 0, 0, 0x0f, 0x0b];
            let mut guest = legacy(|_| {}, &code, USER | high, far);
            assert_eq!(guest.run_to_halt(), Some(6), "{high:#x}");
            assert_eq!(guest.vcpu.registers().gpr[1], 0x55);
            assert_eq!(frame(&guest, 0), USER + 5);
        }
    }
}

#[test]
fn null_segments_of_32_bit_code_are_not_accessed() {
    let to_es: [u8; 2] = [0x8e, 0xc0];
    let to_ds: [u8; 2] = [0x8e, 0xd8];
    let to_gs: [u8; 2] = [0x8e, 0xe8];
    let load = [0xa1, 0, 0, 0x20, 0];
    let store = [0xab];
    let none = [0xf3, 0xab];
    let through_gs = [0x65, 0xa1, 0, 0, 0x20, 0];
    let address = [0x8d, 0x05, 0, 0, 0x20, 0];
    let prefetch = [0x0f, 0x18, 0x0d, 0, 0, 0x20, 0];
    let through_cs = [0x2e, 0xa1, 0, 0, 0x20, 0];
    let stack = [0x58];
    for (null, access, vector) in [
        (to_ds, &load[..], 13),
        (to_es, &load, 6),
        (to_gs, &load, 6),
        (to_es, &store, 13),
        (to_ds, &store, 6),
        (to_es, &none, 6),
        (to_gs, &through_gs, 13),
        (to_ds, &through_gs, 6),
        (to_ds, &address, 6),
        (to_ds, &prefetch, 6),
        (to_ds, &through_cs, 6),
        (to_ds, &stack, 6),
    ] {
        let code = [access, &[0x0f, 0x0b]].concat();
        let load = |a: &mut CodeAssembler| {
            let data = u32::from(USER_DATA_32);
            a.mov(eax, data).unwrap();
            for segment in [to_es, to_ds, to_gs] {
                a.db(&segment).unwrap();
            }
            a.xor(eax, eax).unwrap();
            a.db(&null).unwrap();
            a.mov(edi, DATA as u32).unwrap();
            a.xor(ecx, ecx).unwrap();
        };
        let mut guest = legacy(load, &code, USER, false);
        assert_eq!(guest.run_to_halt(), Some(vector), "{null:x?}, {access:x?}");
    }
}

#[test]
fn a_segment_that_becomes_null_is_seen_by_code_that_ran_before() {
    let mut code = vec![0xbb, USER_DATA_32 as u8, 0, 0, 0, 0xb9, 0x88, 0x13, 0, 0];
    // again: mov ds, ebx; mov eax, [DATA]; cmp ecx, 3; ja on; xor ebx, ebx; on: dec ecx; jnz again
    code.extend_from_slice(&[
        0x8e, 0xdb, 0xa1, 0, 0, 0x20, 0, 0x83, 0xf9, 3, 0x77, 2, 0x31, 0xdb,
    ]);
    code.extend_from_slice(&[0x49, 0x75, 0xef, 0x0f, 0x0b]);
    let mut guest = legacy(|_| {}, &code, USER, false);
    assert_eq!(guest.run_to_halt(), Some(13));
    assert_eq!(guest.vcpu.registers().gpr[1], 2);
}

/// A system call with TF, in a kernel whose mask is `mask`, and which returns with `flags`.
fn stepped_call(mask: u64, flags: u64) -> Guest {
    let kernel = CODE + 0x1000;
    let start = assemble(64, CODE, |a| {
        for (msr, value) in [
            (0xc000_0081u32, 0x23 << 48 | 0x10 << 32),
            (0xc000_0082, kernel),
            (0xc000_0084, mask),
        ] {
            a.mov(ecx, msr).unwrap();
            a.mov(eax, value as u32).unwrap();
            a.mov(edx, (value >> 32) as u32).unwrap();
            a.wrmsr().unwrap();
        }
        a.mov(rcx, USER).unwrap();
        a.mov(r11d, 0x202).unwrap();
        a.sysretq().unwrap();
    });
    let mut guest = Guest::new(&start);
    guest.allow_user();
    for vector in 0..32 {
        guest.use_interrupt_stack(vector, HANDLERS + vector * 16, FRAMES);
    }
    let code = assemble(64, USER, |a| {
        a.pushfq().unwrap();
        a.or(dword_ptr(rsp), TF as i32).unwrap();
        a.popfq().unwrap();
        a.syscall().unwrap();
        a.inc(rbx).unwrap();
        a.ud2().unwrap();
    });
    guest.write(USER, &code);
    let code = assemble(64, kernel, |a| {
        a.inc(rbp).unwrap();
        a.mov(r11d, flags as u32).unwrap();
        a.sysretq().unwrap();
    });
    guest.write(kernel, &code);
    guest
}

#[test]
fn system_calls_trap_by_what_they_leave_of_the_trap_flag() {
    // Masked, and not set again: no trap.
    let mut guest = stepped_call(TF, 0x202);
    assert_eq!(guest.run_to_halt(), Some(6));
    assert_eq!(
        (guest.vcpu.registers().gpr[5], guest.vcpu.registers().gpr[3]),
        (1, 1)
    );
    // Not masked: at the kernel's first instruction.
    let mut guest = stepped_call(0, 0x202);
    assert_eq!(guest.run_to_halt(), Some(1));
    assert_eq!(frame(&guest, 0), CODE + 0x1000);
    // Set by SYSRET: before the next user instruction.
    let mut guest = stepped_call(TF, 0x202 | TF);
    assert_eq!(guest.run_to_halt(), Some(1));
    assert_eq!(guest.vcpu.registers().gpr[3], 0);
    assert_eq!(frame(&guest, 1), 0x33);
}

#[test]
fn each_repetition_is_a_step() {
    let pushes_flags =
        |string: &[u8]| [&[0x9c, 0x81, 0x0c, 0x24, 0, 1, 0, 0, 0x9d], string].concat();
    // The handler counts in R15 and sums up the RIPs in its frames.
    let handler = assemble(64, HANDLERS + 0x1000, |a| {
        a.inc(r15).unwrap();
        a.add(r14, qword_ptr(rsp)).unwrap();
        a.iretq().unwrap();
    });
    for (string, count, traps) in [
        (&[0xf3u8, 0xaa][..], 5u64, 5u64),
        (&[0xf3, 0x48, 0xa5], 5, 5),
        (&[0xf3, 0xac], 3, 3),
        (&[0xf3, 0xaa], 0, 1),
        (&[0xf3, 0xa6], 4, 4),
        (&[0xf2, 0xae], 4, 1),
    ] {
        let mut code = pushes_flags(string);
        // pushfq; and dword [rsp], ~TF; popfq; hlt, which is privileged.
        code.extend_from_slice(&[0x9c, 0x81, 0x24, 0x24, 0xff, 0xfe, 0xff, 0xff, 0x9d, 0xf4]);
        let mut guest = user(&code);
        guest.write(HANDLERS + 0x1000, &handler);
        guest.use_interrupt_stack(1, HANDLERS + 0x1000, FRAMES);
        let mut registers = guest.vcpu.registers();
        registers.gpr[1] = count;
        registers.gpr[0] = 0;
        registers.gpr[6] = DATA;
        registers.gpr[7] = DATA + 0x100;
        guest.vcpu.set_registers(&registers);
        assert_eq!(guest.run_to_halt(), Some(13));
        let after = guest.vcpu.registers();
        let at = USER + 9;
        let next = at + string.len() as u64;
        assert_eq!(after.gpr[15], traps + 3, "{string:x?}, {count}");
        let rest = [next + 1, next + 8, next + 9];
        let expected = (traps - 1) * at + next + rest.iter().sum::<u64>();
        assert_eq!(after.gpr[14], expected, "{string:x?}, {count}");
    }
}

/// Memory accesses on behalf of a program have that program's privileges.
#[test]
fn a_program_has_its_kernels_memory_translated_to_nothing() {
    let linear = 0x4a42_0000_0000;
    let mut guest = user(&[0xf4]);
    guest.map_far(linear, DATA);
    let seen = |guest: &Guest| {
        [Access::Read, Access::Write].map(|access| guest.vcpu.translate(linear, access))
    };
    assert_eq!(seen(&guest), [Some(DATA); 2]);
    guest.write(
        0xc000 + (linear >> 12 & 0x1ff) * 8,
        &(DATA | 3).to_le_bytes(),
    );
    let system = guest.vcpu.system();
    guest.vcpu.set_system(&system);
    assert_eq!(seen(&guest), [None; 2]);
    // HLT is privileged, and its handler has access.
    guest.run(10);
    assert_eq!(guest.vcpu.registers().rip, HANDLERS + 13 * 16 + 1);
    assert_eq!(seen(&guest), [Some(DATA); 2]);
}
