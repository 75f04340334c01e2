//! 16- and 32-bit code on bare guests: real mode, protected mode with every kind of paging,
//! compatibility mode, and the transitions between them.

use belljar_cpu::{Exit, Registers, Vcpu};
use belljar_exact_testing::bare;
use belljar_exact_testing::bare::{
    CODE, CODE_16, CODE_32, DATA, DATA_16, Guest, USER_CODE_32, USER_DATA_32,
};
use iced_x86::code_asm::*;

fn assemble(bits: u32, at: u64, build: impl FnOnce(&mut CodeAssembler)) -> Vec<u8> {
    let mut asm = CodeAssembler::new(bits).unwrap();
    build(&mut asm);
    asm.assemble(at).unwrap()
}

fn low(guest: &Guest, number: usize) -> u64 {
    guest.vcpu.registers().gpr[number] & 0xffff_ffff
}

#[test]
fn protected_mode_computes_calls_and_loops() {
    let code = assemble(32, CODE, |a| {
        let mut function = a.create_label();
        let mut head = a.create_label();
        a.mov(ecx, 1000).unwrap();
        a.xor(eax, eax).unwrap();
        a.set_label(&mut head).unwrap();
        a.push(ecx).unwrap();
        a.call(function).unwrap();
        a.add(eax, dword_ptr(esp)).unwrap();
        a.pop(edx).unwrap();
        a.dec(ecx).unwrap();
        a.jnz(head).unwrap();
        a.mov(esi, DATA as u32).unwrap();
        a.mov(dword_ptr(esi + ecx * 4 + 8), eax).unwrap();
        a.push(dword_ptr(esi + 8)).unwrap();
        a.pop(ebx).unwrap();
        a.hlt().unwrap();
        a.set_label(&mut function).unwrap();
        a.push(ebp).unwrap();
        a.mov(ebp, esp).unwrap();
        a.inc(dword_ptr(ebp + 8)).unwrap();
        a.leave().unwrap();
        a.ret().unwrap();
    });
    let mut guest = Guest::protected(&code);
    assert_eq!(guest.run_to_halt(), None);
    assert_eq!(low(&guest, Registers::RAX), 500_500 + 1000);
    assert_eq!(low(&guest, Registers::RBX), 501_500);
    assert_eq!(low(&guest, Registers::RSP), bare::STACK);
    assert_eq!(guest.vcpu.retired(), 2 + 11 * 1000 + 5);
}

#[test]
fn addresses_wrap_at_their_size() {
    let code = assemble(32, CODE, |a| {
        a.mov(ebx, 0xffff_fff0u32).unwrap();
        a.mov(byte_ptr(ebx + (DATA as u32 + 0x10)), 7).unwrap();
        a.mov(eax, 0x1_0001).unwrap();
        a.lea(ecx, ptr(bx + 0x20)).unwrap();
        a.mov(bx, 0xfff0).unwrap();
        a.lea(edx, ptr(bx + 0x20)).unwrap();
        a.hlt().unwrap();
    });
    let mut guest = Guest::protected(&code);
    assert_eq!(guest.run_to_halt(), None);
    assert_eq!(guest.read(DATA, 1), [7]);
    assert_eq!(low(&guest, Registers::RCX), 0x10);
    assert_eq!(low(&guest, Registers::RDX), 0x10);
}

#[test]
fn segments_have_bases() {
    let code = assemble(32, CODE, |a| {
        a.mov(ax, 0x58).unwrap();
        a.mov(ds, ax).unwrap();
        a.mov(dword_ptr(0x10), 0x1234_5678).unwrap();
        a.mov(ebx, 0x20).unwrap();
        a.mov(eax, dword_ptr(ebx - 0x10)).unwrap();
        a.mov(esi, 0x10).unwrap();
        a.mov(edi, DATA as u32 + 0x100).unwrap();
        a.mov(ecx, 4).unwrap();
        a.rep().movsb().unwrap();
        a.hlt().unwrap();
    });
    let mut guest = Guest::protected(&code);
    let base = DATA + 0x40;
    let raw = 0x00cf_9300_0000_ffff | (base & 0xff_ffff) << 16;
    guest.write(0x6058, &raw.to_le_bytes());
    assert_eq!(guest.run_to_halt(), None);
    assert_eq!(guest.read(base + 0x10, 4), 0x1234_5678u32.to_le_bytes());
    assert_eq!(guest.read(DATA + 0x100, 4), 0x1234_5678u32.to_le_bytes());
    assert_eq!(low(&guest, Registers::RAX), 0x1234_5678);
}

/// Addresses of 16-bit code in protected mode and in real mode.
const SIXTEEN: u64 = 0xa000;
const REAL: u64 = 0xb000;
const REAL_SEGMENT: u16 = (REAL >> 4) as u16;

fn to_sixteen() -> Vec<u8> {
    assemble(32, CODE, |a| {
        a.mov(eax, 0x11).unwrap();
        a.db(&[0xea]).unwrap();
        a.dd(&[SIXTEEN as u32]).unwrap();
        a.dw(&[CODE_16]).unwrap();
    })
}

fn sixteen() -> Vec<u8> {
    assemble(16, SIXTEEN, |a| {
        a.mov(cx, DATA_16 as i32).unwrap();
        a.mov(ds, cx).unwrap();
        a.mov(ss, cx).unwrap();
        a.mov(es, cx).unwrap();
        a.mov(ecx, cr0).unwrap();
        a.and(ecx, -2).unwrap();
        a.mov(cr0, ecx).unwrap();
        a.db(&[0xea]).unwrap();
        a.dw(&[0, REAL_SEGMENT]).unwrap();
    })
}

fn real() -> Vec<u8> {
    assemble(16, 0, |a| {
        a.mov(bx, REAL_SEGMENT as i32).unwrap();
        a.mov(ds, bx).unwrap();
        a.mov(ss, bx).unwrap();
        a.mov(sp, 0x800).unwrap();
        a.push(bx).unwrap();
        a.pop(dx).unwrap();
        a.mov(word_ptr(0x400), dx).unwrap();
        a.mov(bx, 0x3f0).unwrap();
        a.mov(si, 0x10).unwrap();
        a.add(word_ptr(bx + si), 1).unwrap();
        a.int(0x21).unwrap();
        a.mov(ecx, cr0).unwrap();
        a.or(ecx, 1).unwrap();
        a.mov(cr0, ecx).unwrap();
        a.db(&[0x66, 0xea]).unwrap();
        a.dd(&[CODE as u32 + 0x100]).unwrap();
        a.dw(&[CODE_32]).unwrap();
    })
}

fn handler() -> Vec<u8> {
    assemble(16, 0, |a| {
        a.mov(di, 0x77).unwrap();
        a.iret().unwrap();
    })
}

fn to_long() -> Vec<u8> {
    assemble(32, CODE + 0x100, |a| {
        a.mov(ecx, 0x18).unwrap();
        a.mov(ds, cx).unwrap();
        a.mov(ss, cx).unwrap();
        a.mov(es, cx).unwrap();
        a.mov(ecx, 0x20).unwrap();
        a.mov(cr4, ecx).unwrap();
        a.mov(ecx, 0x1000).unwrap();
        a.mov(cr3, ecx).unwrap();
        a.mov(ecx, 0xc000_0080u32).unwrap();
        a.mov(eax, 0x100).unwrap();
        a.xor(edx, edx).unwrap();
        a.wrmsr().unwrap();
        a.mov(ecx, cr0).unwrap();
        a.or(ecx, 0x8000_0000u32 as i32).unwrap();
        a.mov(cr0, ecx).unwrap();
        a.db(&[0xea]).unwrap();
        a.dd(&[CODE as u32 + 0x200]).unwrap();
        a.dw(&[0x10]).unwrap();
    })
}

fn long() -> Vec<u8> {
    assemble(64, CODE + 0x200, |a| {
        a.mov(r15, 0x1122_3344_5566_7788u64).unwrap();
        a.mov(esp, bare::STACK as u32).unwrap();
        a.push(CODE_32 as i32).unwrap();
        a.push((CODE + 0x300) as i32).unwrap();
        a.db(&[0x48, 0xcb]).unwrap();
    })
}

fn back() -> Vec<u8> {
    assemble(32, CODE + 0x300, |a| {
        a.mov(eax, cr0).unwrap();
        a.and(eax, 0x7fff_ffff).unwrap();
        a.mov(cr0, eax).unwrap();
        a.mov(ecx, 0xc000_0080u32).unwrap();
        a.rdmsr().unwrap();
        a.hlt().unwrap();
    })
}

/// From protected mode down to real mode and back up to long mode, with a mark at every step, as in
/// kernels' trampolines.
#[test]
fn a_guest_goes_from_protected_to_real_to_long_mode_and_back() {
    let mut guest = Guest::protected(&to_sixteen());
    for (at, code) in [
        (SIXTEEN, sixteen()),
        (REAL, real()),
        (REAL + 0x600, handler()),
        (CODE + 0x100, to_long()),
        (CODE + 0x200, long()),
        (CODE + 0x300, back()),
    ] {
        guest.write(at, &code);
    }
    // The interrupt table of real mode lies at the IDT's base.
    let vector = [0x600u16, REAL_SEGMENT].map(u16::to_le_bytes).concat();
    guest.write(0x7000 + 0x21 * 4, &vector);
    assert_eq!(guest.run_to_halt(), None, "{:x?}", guest.vcpu.registers());
    let registers = guest.vcpu.registers();
    assert_eq!(registers.gpr[15], 0x1122_3344_5566_7788);
    assert_eq!(registers.gpr[7] & 0xffff, 0x77);
    assert_eq!(
        guest.read(REAL + 0x400, 2),
        (REAL_SEGMENT + 1).to_le_bytes()
    );
    assert_eq!(
        registers.gpr[0] & 0xffff_ffff,
        0x100,
        "EFER.LME without LMA"
    );
    assert_eq!(guest.vcpu.system().cr0 >> 31, 0);
}

/// Page tables of 32 bits that map 0 to 4 MiB onto itself and 4 MiB onwards to DATA.
#[test]
fn every_kind_of_32_bit_paging_translates_and_faults() {
    let code = assemble(32, CODE, |a| {
        a.mov(cr3, eax).unwrap();
        a.mov(cr4, ecx).unwrap();
        a.mov(eax, cr0).unwrap();
        a.or(eax, 0x8001_0000u32 as i32).unwrap();
        a.mov(cr0, eax).unwrap();
        a.mov(dword_ptr(0x40_0000), 0x1234).unwrap();
        a.mov(eax, dword_ptr(0x40_1000)).unwrap();
        a.hlt().unwrap();
    });
    // (tables, CR4, fault's error code)
    let two_levels = |guest: &Guest| {
        guest.write(0xb000, &[0xc003u32, 0xd003].map(u32::to_le_bytes).concat());
        for page in 0..1024u32 {
            guest.write(
                0xc000 + u64::from(page) * 4,
                &((page << 12) | 3).to_le_bytes(),
            );
        }
        guest.write(0xd000, &(DATA as u32 | 3).to_le_bytes());
    };
    let large = |guest: &Guest| {
        guest.write(0xb000, &[0x83u32, 0xd003].map(u32::to_le_bytes).concat());
        guest.write(0xd000, &(DATA as u32 | 3).to_le_bytes());
    };
    let pae = |guest: &Guest| {
        let put = |at: u64, value: u64| guest.write(at, &value.to_le_bytes());
        put(0xb020, 0xc001);
        put(0xc000, 0x83);
        put(0xc008, 0x20_0083);
        put(0xc010, 0xd003);
        put(0xd000, DATA | 3);
    };
    type Build<'a> = &'a dyn Fn(&Guest);
    let kinds: [(Build<'_>, u64, u64); 3] = [
        (&two_levels, 0xb000, 0),
        (&large, 0xb000, 0x10),
        (&pae, 0xb020, 0x20),
    ];
    for (build, root, control) in kinds {
        let mut guest = Guest::protected(&code);
        build(&guest);
        let mut registers = guest.vcpu.registers();
        registers.gpr[0] = root;
        registers.gpr[1] = control;
        guest.vcpu.set_registers(&registers);
        assert_eq!(guest.run_to_halt(), Some(14), "CR4 {control:#x}");
        assert_eq!(guest.read(DATA, 4), 0x1234u32.to_le_bytes());
        assert_eq!(guest.vcpu.system().cr2, 0x40_1000);
        let dirty = guest.read(0xd000, 1)[0];
        assert_eq!(dirty & 0x60, 0x60, "accessed and dirty");
        let top = low(&guest, Registers::RSP);
        let frame = guest.read(top, 4);
        assert_eq!(frame, [0, 0, 0, 0], "not present, read, supervisor");
    }
}

#[test]
fn user_code_of_32_bits_runs_under_64_bit_kernels() {
    // int 0x20's gate is a handler of 64 bits; the user's code is flat 32-bit code.
    let user = assemble(32, CODE + 0x800, |a| {
        let mut head = a.create_label();
        a.mov(ecx, 100).unwrap();
        a.set_label(&mut head).unwrap();
        a.push(ecx).unwrap();
        a.pop(eax).unwrap();
        a.dec(ecx).unwrap();
        a.jnz(head).unwrap();
        a.int(0x20).unwrap();
        a.ud2().unwrap();
    });
    let kernel = assemble(64, CODE, |a| {
        a.push(USER_DATA_32 as i32).unwrap();
        a.push(0x2f_0000).unwrap();
        a.push(2).unwrap();
        a.push(USER_CODE_32 as i32).unwrap();
        a.push((CODE + 0x800) as i32).unwrap();
        a.iretq().unwrap();
    });
    let mut guest = Guest::new(&kernel);
    guest.add_legacy_segments();
    guest.write(CODE + 0x800, &user);
    guest.write(CODE + 0x900, &[0xf4]);
    guest.use_interrupt_stack(0x20, CODE + 0x900, bare::STACK - 0x800);
    // Open the gate to user code.
    let gate = guest.read(0x7000 + 0x20 * 16, 8);
    guest.write(0x7000 + 0x20 * 16 + 5, &[gate[5] | 0x60]);
    assert_eq!(guest.run_to_halt(), None);
    assert_eq!(guest.vcpu.registers().gpr[0], 1);
    let top = guest.vcpu.registers().gpr[4];
    let frame: Vec<u64> = guest
        .read(top, 40)
        .chunks_exact(8)
        .map(|bytes| u64::from_le_bytes(bytes.try_into().unwrap()))
        .collect();
    assert_eq!(frame[1], u64::from(USER_CODE_32));
    assert_eq!(frame[3], 0x2f_0000);
    assert_eq!(frame[4], u64::from(USER_DATA_32));
}

#[test]
fn a_run_stops_anywhere_in_32_bit_code() {
    let code = assemble(32, CODE, |a| {
        let mut head = a.create_label();
        a.mov(ecx, 50).unwrap();
        a.set_label(&mut head).unwrap();
        a.pushad().unwrap();
        a.add(eax, ecx).unwrap();
        a.add(dword_ptr(esp + 28), eax).unwrap();
        a.popad().unwrap();
        a.loop_(head).unwrap();
        a.hlt().unwrap();
    });
    let whole = {
        let mut guest = Guest::protected(&code);
        assert_eq!(guest.run_to_halt(), None);
        (guest.vcpu.registers(), guest.vcpu.retired())
    };
    for step in [1, 3, 7, 100] {
        let mut guest = Guest::protected(&code);
        while guest.run(step) == Exit::Deadline {}
        assert_eq!((guest.vcpu.registers(), guest.vcpu.retired()), whole);
    }
}

#[test]
fn loads_of_bad_segments_fault_with_their_selector() {
    for (selector, vector) in [(0x68u16, 13), (0x30 | 1, 10), (0x58, 11), (0, 0)] {
        let code = assemble(32, CODE, |a| {
            a.mov(eax, u32::from(selector)).unwrap();
            if selector & 3 == 0 {
                a.mov(ds, ax).unwrap();
            } else {
                a.ud2().unwrap();
            }
            a.xor(eax, eax).unwrap();
            a.hlt().unwrap();
        });
        let mut guest = Guest::protected(&code);
        // A data segment that is not present.
        guest.write(0x6058, &0x00cf_1300_0000_ffffu64.to_le_bytes());
        let found = guest.run_to_halt();
        match vector {
            0 => assert_eq!(found, None),
            10 => assert_eq!(found, Some(6)),
            _ => {
                assert_eq!(found, Some(vector));
                let top = low(&guest, Registers::RSP);
                assert_eq!(
                    guest.read(top, 4),
                    u32::from(selector & !3).to_le_bytes(),
                    "error code"
                );
            }
        }
    }
}
