//! The engine's own definitions give the same results everywhere: in translated code and in the
//! dispatcher, for scalars and in vectors.

use belljar_cpu::{InstructionSet, Level, Vcpu};
use belljar_exact_testing::bare::{CODE, DATA, Guest};
use belljar_sim::{Random, Seed};
use iced_x86::code_asm::*;

/// Vectors of eight operands.
const VECTORS: u64 = 40;
/// Addresses of the results, by the instruction that computed them.
const RESULTS: u64 = DATA + 0x1000;
const EACH: u64 = VECTORS * 32;

/// Positive and normal numbers, which translated code handles itself.
fn usual(random: &mut Random) -> u32 {
    let exponent = 1 + (random.next_u64() % 250) as u32;
    exponent << 23 | random.next_u64() as u32 & 0x7f_ffff
}

/// Stores the results of six instructions for each vector: reciprocals and reciprocal roots of
/// eight lanes, of the lower four, and of the first.
fn program(asm: &mut CodeAssembler) {
    let mut again = asm.create_label();
    asm.mov(rsi, DATA).unwrap();
    asm.mov(rdi, RESULTS).unwrap();
    asm.mov(ecx, VECTORS as u32).unwrap();
    asm.set_label(&mut again).unwrap();
    asm.vmovups(ymm0, ymmword_ptr(rsi)).unwrap();
    asm.vrcpps(ymm1, ymm0).unwrap();
    asm.vmovups(ymmword_ptr(rdi), ymm1).unwrap();
    asm.vmovaps(ymm2, ymm0).unwrap();
    asm.vrsqrtps(ymm2, ymm2).unwrap();
    asm.vmovups(ymmword_ptr(rdi + EACH as i32), ymm2).unwrap();
    asm.rcpps(xmm3, xmmword_ptr(rsi)).unwrap();
    asm.movups(xmmword_ptr(rdi + 2 * EACH as i32), xmm3)
        .unwrap();
    asm.rsqrtps(xmm4, xmm0).unwrap();
    asm.movups(xmmword_ptr(rdi + 3 * EACH as i32), xmm4)
        .unwrap();
    asm.rcpss(xmm5, dword_ptr(rsi)).unwrap();
    asm.movss(dword_ptr(rdi + 4 * EACH as i32), xmm5).unwrap();
    asm.vrsqrtss(xmm6, xmm7, xmm0).unwrap();
    asm.vmovss(dword_ptr(rdi + 5 * EACH as i32), xmm6).unwrap();
    asm.add(rsi, 32).unwrap();
    asm.add(rdi, 32).unwrap();
    asm.dec(ecx).unwrap();
    asm.jnz(again).unwrap();
    asm.hlt().unwrap();
}

/// The results of `program` for `operands`, instruction by instruction.
fn results(operands: &[u32]) -> Vec<Vec<u32>> {
    let mut guest = Guest::with_set(&InstructionSet::from(Level::V3));
    let mut asm = CodeAssembler::new(64).unwrap();
    program(&mut asm);
    guest.write(CODE, &asm.assemble(CODE).unwrap());
    let bytes: Vec<u8> = operands
        .iter()
        .flat_map(|word| word.to_le_bytes())
        .collect();
    guest.write(DATA, &bytes);
    let mut registers = guest.vcpu.registers();
    registers.rip = CODE;
    guest.vcpu.set_registers(&registers);
    assert_eq!(guest.run_to_halt(), None);
    let words = |of: u64| {
        let bytes = guest.read(RESULTS + of * EACH, EACH as usize);
        let words = bytes.chunks_exact(4);
        words
            .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
            .collect()
    };
    (0..6).map(words).collect()
}

#[test]
fn approximations_are_the_same_wherever_they_are_computed() {
    let mut random = Random::new(Seed(7), "approximations", 0);
    let mut operands: Vec<u32> = (0..VECTORS * 8).map(|_| usual(&mut random)).collect();
    let alone = results(&operands);
    // With zeros in the last lanes, the dispatcher computes all of them.
    for vector in operands.chunks_exact_mut(8) {
        [vector[3], vector[7]] = [0, 0];
    }
    let asked = results(&operands);
    for lane in 0..VECTORS as usize * 8 {
        let (usual, lower, first) = (!matches!(lane % 8, 3 | 7), lane % 8 < 4, lane % 8 == 0);
        for function in 0..2 {
            let wide = alone[function][lane];
            if usual {
                assert_eq!(
                    wide, asked[function][lane],
                    "lane {lane} of function {function}"
                );
            } else {
                assert_eq!(asked[function][lane], 0x7f80_0000, "one over zero");
            }
            if lower {
                assert_eq!(wide, alone[2 + function][lane], "four lanes");
            }
            if first {
                assert_eq!(wide, alone[4 + function][lane], "one lane");
            }
        }
    }
}

#[test]
fn what_words_are_shifted_by() {
    // Left and right, by 4, by 20 and by 31: the first word follows again after the second.
    for (left, count, result, carry) in [
        (true, 4u32, 0x234a, 1),
        (true, 20, 0xbcd1, 0),
        (true, 31, 0x891a, 0),
        (false, 4, 0xd123, 0),
        (false, 20, 0x4abc, 1),
        (false, 31, 0x2469, 0),
    ] {
        let mut guest = Guest::with_set(&InstructionSet::default());
        let mut asm = CodeAssembler::new(64).unwrap();
        asm.mov(eax, 0x1234).unwrap();
        asm.mov(ebx, 0xabcd).unwrap();
        asm.mov(ecx, count).unwrap();
        if left {
            asm.shld(ax, bx, cl).unwrap();
        } else {
            asm.shrd(ax, bx, cl).unwrap();
        }
        asm.hlt().unwrap();
        // Flags that are never read are zero.
        asm.pushfq().unwrap();
        guest.write(CODE, &asm.assemble(CODE).unwrap());
        let mut registers = guest.vcpu.registers();
        registers.rip = CODE;
        guest.vcpu.set_registers(&registers);
        assert_eq!(guest.run_to_halt(), None);
        let registers = guest.vcpu.registers();
        let found = (registers.gpr[0], registers.rflags & 1);
        assert_eq!(found, (result, carry), "left: {left}, by {count}");
    }
}
