//! XSAVE and similar instructions, and the values of CPUID and XCR0 for a level.
#![allow(clippy::print_stderr)]

use belljar_cpu::{Exit, InstructionSet, Level, Registers, Vcpu};
use belljar_exact_testing::bare::{CODE, DATA, Guest};
use iced_x86::code_asm::*;

/// A guest of `level` with `code`, after code that enables its state.
fn guest(level: Level, build: impl FnOnce(&mut CodeAssembler)) -> Option<Guest> {
    let set = InstructionSet::from(level);
    if belljar_exact::host_requirements(&set).is_err() {
        eprintln!("SKIPPED: this host cannot run guests of {level}");
        return None;
    }
    let guest = Guest::with_set(&set);
    let mut asm = CodeAssembler::new(64).unwrap();
    build(&mut asm);
    guest.write(CODE, &asm.assemble(CODE).unwrap());
    let mut guest = guest;
    let mut registers = guest.vcpu.registers();
    registers.rip = CODE;
    guest.vcpu.set_registers(&registers);
    Some(guest)
}

fn word(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

#[test]
fn only_what_is_not_initial_is_in_use() {
    let Some(mut guest) = guest(Level::V3, |a| {
        a.vpcmpeqd(ymm3, ymm3, ymm3).unwrap();
        a.vextracti128(xmm4, ymm3, 1).unwrap();
        a.pxor(xmm4, xmm4).unwrap();
        a.mov(eax, -1).unwrap();
        a.mov(edx, -1).unwrap();
        a.mov(rdi, DATA).unwrap();
        a.xsave(ptr(rdi)).unwrap();
        // The upper half is cleared, so the component is not in use any more.
        a.vzeroupper().unwrap();
        a.xsavec(ptr(rdi + 0x1000)).unwrap();
        a.fld1().unwrap();
        a.xsaveopt(ptr(rdi + 0x2000)).unwrap();
        a.hlt().unwrap();
    }) else {
        return;
    };
    assert_eq!(guest.run_to_halt(), None);
    let area = guest.read(DATA, 832);
    assert_eq!(word(&area, 512), 0b110, "x87 is as after reset");
    assert_eq!(&area[160 + 48..160 + 64], &[0xff; 16], "xmm3");
    assert_eq!(&area[576 + 48..576 + 64], &[0xff; 16], "upper half of ymm3");
    assert_eq!(word(&area, 24) as u32, 0x1f80);
    let compacted = guest.read(DATA + 0x1000, 832);
    assert_eq!(word(&compacted, 512), 0b10);
    assert_eq!(word(&compacted, 520), 1 << 63 | 0b111);
    assert!(compacted[576..].iter().all(|&byte| byte == 0));
    assert_eq!(word(&guest.read(DATA + 0x2000, 832), 512), 0b11);
}

#[test]
fn what_was_saved_comes_back_and_the_rest_is_reset() {
    let Some(mut guest) = guest(Level::V4, |a| {
        a.vpternlogd(zmm17, zmm17, zmm17, 0xff).unwrap();
        a.vpternlogd(zmm2, zmm2, zmm2, 0xff).unwrap();
        a.mov(eax, 0x5555).unwrap();
        a.kmovq(k3, rax).unwrap();
        a.mov(eax, -1).unwrap();
        a.mov(edx, -1).unwrap();
        a.mov(rdi, DATA).unwrap();
        a.xsavec(ptr(rdi)).unwrap();
        a.vpxord(zmm17, zmm17, zmm17).unwrap();
        a.vzeroall().unwrap();
        a.kxorq(k3, k3, k3).unwrap();
        a.vpternlogd(zmm9, zmm9, zmm9, 0xff).unwrap();
        a.fld1().unwrap();
        a.xrstor(ptr(rdi)).unwrap();
        a.hlt().unwrap();
    }) else {
        return;
    };
    assert_eq!(guest.run_to_halt(), None);
    let state = guest.vcpu.vectors();
    assert_eq!(state.vectors[17], [0xff; 64]);
    assert_eq!(state.vectors[2], [0xff; 64]);
    assert_eq!(state.vectors[9], [0; 64]);
    assert_eq!(state.masks[3], 0x5555);
    assert_eq!(guest.vcpu.x87()[4], 0, "the x87 is empty again");
}

#[test]
fn bad_areas_are_refused() {
    // XCOMP_BV without its top bit; XSTATE_BV beyond XCR0; an odd address.
    for (offset, value, misaligned) in [(520, 1u64, 0), (512, 1 << 9, 0), (512, 0, 8)] {
        let Some(mut guest) = guest(Level::V3, |a| {
            a.mov(eax, 7).unwrap();
            a.xor(edx, edx).unwrap();
            a.mov(rdi, DATA + misaligned).unwrap();
            a.xrstor(ptr(rdi)).unwrap();
            a.hlt().unwrap();
        }) else {
            return;
        };
        guest.write(DATA + offset, &value.to_le_bytes());
        assert_eq!(guest.run_to_halt(), Some(13), "{offset} {value}");
    }
}

#[test]
fn xcr0_takes_what_the_level_has() {
    for (level, value, fault) in [
        (Level::V3, 0b111, None),
        (Level::V3, 0b101, Some(13)),
        (Level::V3, 0b110, Some(13)),
        (Level::V3, 0b1110_0111, Some(13)),
        (Level::V4, 0b1110_0111, None),
        (Level::V4, 0b0110_0111, Some(13)),
    ] {
        let Some(mut guest) = guest(level, |a| {
            a.mov(eax, value).unwrap();
            a.xor(edx, edx).unwrap();
            a.xor(ecx, ecx).unwrap();
            a.xsetbv().unwrap();
            a.xgetbv().unwrap();
            a.hlt().unwrap();
        }) else {
            return;
        };
        assert_eq!(guest.run_to_halt(), fault, "{level} {value:#b}");
        if fault.is_none() {
            assert_eq!(guest.vcpu.registers().gpr[Registers::RAX], value as u64);
        }
    }
}

#[test]
fn vectors_that_are_not_switched_on_are_undefined() {
    let Some(mut guest) = guest(Level::V3, |a| {
        a.mov(eax, 3).unwrap();
        a.xor(edx, edx).unwrap();
        a.xor(ecx, ecx).unwrap();
        a.xsetbv().unwrap();
        a.andn(rax, rax, rcx).unwrap();
        a.vaddps(ymm0, ymm0, ymm0).unwrap();
        a.hlt().unwrap();
    }) else {
        return;
    };
    assert_eq!(guest.run_to_halt(), Some(6));
    let below = InstructionSet::from(Level::V2);
    let mut guest = Guest::with_set(&below);
    // vaddps xmm0, xmm0, xmm0; after it a HLT.
    guest.write(CODE, &[0xc5, 0xf8, 0x58, 0xc0, 0xf4]);
    let mut registers = guest.vcpu.registers();
    registers.rip = CODE;
    guest.vcpu.set_registers(&registers);
    assert_eq!(guest.run_to_halt(), Some(6));
    assert_eq!(guest.vcpu.report().unimplemented.len(), 1);
}

#[test]
fn a_scatter_that_faults_goes_on_where_it_was() {
    let Some(mut guest) = guest(Level::V4, |a| {
        a.mov(rdi, 0x3f_eff8u64).unwrap();
        a.mov(eax, 0xf).unwrap();
        a.kmovq(k1, rax).unwrap();
        a.vmovdqu64(ymm1, ymmword_ptr(DATA)).unwrap();
        a.vpscatterqq(ptr(rdi + ymm1 * 8).k1(), ymm1).unwrap();
        a.hlt().unwrap();
    }) else {
        return;
    };
    // Lanes 0 and 2 lie on the page, lanes 1 and 3 on the following one, which is absent.
    let indices: Vec<u8> = [0u64, 1, -1i64 as u64, 2]
        .iter()
        .flat_map(|index| index.to_le_bytes())
        .collect();
    guest.write(DATA, &indices);
    assert_eq!(guest.run_to_halt(), Some(14));
    assert_eq!(guest.vcpu.system().cr2, 0x3f_f000);
    assert_eq!(guest.vcpu.vectors().masks[1], 0b1110);
    assert_eq!(guest.read(0x3f_eff8, 8), [0; 8]);
    assert_eq!(guest.read(0x3f_eff0, 8), [0; 8], "lane 2 is not done yet");
    assert!(matches!(guest.run(1), Exit::Halt));
}
