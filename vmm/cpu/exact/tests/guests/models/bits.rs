//! BT, BTS, BTR and BTC on memory with bit offsets in registers, which may be beyond the operand,
//! compared with a simple model.

use belljar_cpu::{Registers, Vcpu};
use belljar_exact_testing::bare::{CODE, DATA, Guest};
use belljar_sim::{Random, Seed};
use iced_x86::code_asm::*;

const ROUNDS: usize = 2000;
const TABLE: u64 = 0x12_0000;
const BYTES: usize = 0x1000;
const MIDDLE: usize = BYTES / 2;
const FOREVER: u64 = 1 << 40;

#[derive(Clone, Copy)]
enum Bit {
    Test,
    Set,
    Reset,
    Flip,
}

/// The operation, its operand's size, and the instruction; the offset is in RAX, RCX and R14. In
/// the last form, R14 and R15 are used so much that they would be renamed.
type Form = (Bit, usize, fn(&mut CodeAssembler) -> Result<(), IcedError>);
const FORMS: [Form; 9] = [
    (Bit::Test, 2, |a| a.bt(word_ptr(rdi), ax)),
    (Bit::Test, 4, |a| a.bt(dword_ptr(rdi + rbp), r14d)),
    (Bit::Test, 8, |a| a.bt(qword_ptr(rdi), rcx)),
    (Bit::Set, 2, |a| a.bts(word_ptr(rdi), cx)),
    (Bit::Set, 4, |a| a.lock().bts(dword_ptr(rdi), eax)),
    (Bit::Set, 8, |a| a.bts(qword_ptr(rdi + rbp), r14)),
    (Bit::Reset, 4, |a| a.btr(dword_ptr(rdi), ecx)),
    (Bit::Flip, 8, |a| a.btc(qword_ptr(r15), rax)),
    (Bit::Flip, 4, |a| {
        a.add(r14, 0)?;
        a.add(r15, 0)?;
        a.add(r15, 0)?;
        a.add(r14, 0)?;
        a.btc(dword_ptr(r15), r14d)
    }),
];

/// Mixes CF of each round into RBX.
fn program(form: &Form) -> Result<Vec<u8>, IcedError> {
    let mut a = CodeAssembler::new(64)?;
    let mut again = a.create_label();
    a.set_label(&mut again)?;
    a.mov(rax, qword_ptr(rsi))?;
    a.mov(rcx, rax)?;
    a.mov(r14, rax)?;
    (form.2)(&mut a)?;
    a.setc(dl)?;
    a.movzx(edx, dl)?;
    a.lea(rbx, ptr(rbx + rbx * 2))?;
    a.add(rbx, rdx)?;
    a.add(rsi, 8)?;
    a.sub(r8d, 1)?;
    a.jnz(again)?;
    a.hlt()?;
    a.assemble(CODE)
}

fn model((bit, size, _): &Form, offsets: &[u64], memory: &mut [u8]) -> u64 {
    let shift = 64 - *size as u32 * 8;
    offsets.iter().fold(0u64, |sum, &offset| {
        let signed = (offset << shift) as i64 >> shift;
        let at = (MIDDLE as i64 + signed.div_euclid(8)) as usize;
        let mask = 1u8 << signed.rem_euclid(8);
        let carry = u64::from(memory[at] & mask != 0);
        match bit {
            Bit::Test => {}
            Bit::Set => memory[at] |= mask,
            Bit::Reset => memory[at] &= !mask,
            Bit::Flip => memory[at] ^= mask,
        }
        sum.wrapping_mul(3).wrapping_add(carry)
    })
}

/// Offsets within the operand, except for one in `far`.
fn offsets(random: &mut Random, size: usize, far: u64) -> Vec<u64> {
    let bits = size as u64 * 8;
    let mut offset = || match random.next_u64() % far {
        0 => (random.next_u64() % 0x3000).wrapping_sub(0x1800),
        // The bits above a smaller register's width are ignored.
        _ if size < 8 => (random.next_u64() << bits) | (random.next_u64() % bits),
        _ => random.next_u64() % bits,
    };
    (0..ROUNDS).map(|_| offset()).collect()
}

fn run(form: &Form, offsets: &[u64], memory: &[u8], step: u64) -> Guest {
    let mut guest = Guest::new(&program(form).expect("it assembles"));
    let table: Vec<u8> = offsets.iter().flat_map(|one| one.to_le_bytes()).collect();
    guest.write(TABLE, &table);
    guest.write(DATA, memory);
    let mut registers = guest.vcpu.registers();
    registers.gpr[6] = TABLE;
    registers.gpr[7] = DATA + MIDDLE as u64;
    registers.gpr[15] = DATA + MIDDLE as u64;
    registers.gpr[8] = ROUNDS as u64;
    (registers.gpr[3], registers.gpr[5]) = (0, 0);
    guest.vcpu.set_registers(&registers);
    guest.halt_by_steps(step);
    guest
}

#[test]
fn bits_of_memory_are_what_a_plain_model_has() {
    const RBX: usize = 3;
    let mut random = Random::new(Seed(5), "bits", 0);
    for (number, form) in FORMS.iter().enumerate() {
        let offsets = offsets(&mut random, form.1, 8);
        let before: Vec<u8> = (0..BYTES).map(|_| random.next_u64() as u8).collect();
        let mut after = before.clone();
        let sum = model(form, &offsets, &mut after);
        for step in [FOREVER, 211, 7, 1] {
            let guest = run(form, &offsets, &before, step);
            let Registers { gpr, .. } = guest.vcpu.registers();
            assert_eq!(gpr[RBX], sum, "form {number}, stopped each {step}");
            assert!(guest.read(DATA, BYTES) == after, "form {number}, memory");
        }
    }
}

#[test]
fn bits_within_their_operand_do_not_leave_translated_code() {
    let mut random = Random::new(Seed(6), "bits", 0);
    for (number, form) in FORMS.iter().enumerate() {
        let offsets = offsets(&mut random, form.1, u64::MAX);
        let guest = run(form, &offsets, &[0x5a; BYTES], FOREVER);
        let helped = guest.vcpu.statistics().helpers;
        assert!(helped < 10, "form {number}: {helped} of {ROUNDS}");
    }
}
