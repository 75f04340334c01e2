//! RDTSC and SWAPGS, which kernels execute at every entry, in translated code.

use belljar_cpu::{Exit, Vcpu};
use belljar_exact::CyclesPerInstruction;
use belljar_exact_testing::bare;
use belljar_exact_testing::bare::{CODE, DATA, Guest};
use iced_x86::code_asm::*;

const GS_BASE: u32 = 0xc000_0101;
const KERNEL_GS_BASE: u32 = 0xc000_0102;
/// Enough repetitions for any code to become hot.
const TIMES: u32 = 3000;
/// The number of cycles granted to a run: all, or so few that it stops everywhere.
const STEPS: [u64; 4] = [u64::MAX >> 2, 1009, 7, 1];

/// The vector of the exception that ends user code.
fn fault(guest: &mut Guest) -> Option<u8> {
    let handler = bare::HANDLERS + 16 * 13;
    guest.use_interrupt_stack(13, handler, bare::STACK - 0x1000);
    guest.run_to_halt()
}

fn words(guest: &Guest, at: u64, count: usize) -> Vec<u64> {
    let bytes = guest.read(at, count * 8);
    let words = bytes.chunks(8);
    words
        .map(|word| u64::from_le_bytes(word.try_into().unwrap()))
        .collect()
}

/// Reads the counter at three places of a loop, with live flags across one of them, and stores the
/// differences. The first reading comes after six instructions, and a round has 24.
fn readings() -> Vec<u8> {
    let mut asm = CodeAssembler::new(64).unwrap();
    let mut again = asm.create_label();
    asm.mov(rdi, DATA).unwrap();
    asm.mov(ecx, TIMES).unwrap();
    asm.mov(rdx, u64::MAX).unwrap();
    asm.mov(rax, u64::MAX).unwrap();
    asm.set_label(&mut again).unwrap();
    for place in 0..3 {
        asm.stc().unwrap();
        asm.nop().unwrap();
        asm.rdtsc().unwrap();
        asm.adc(rbx, 0).unwrap();
        asm.shl(rdx, 32).unwrap();
        asm.or(rax, rdx).unwrap();
        asm.mov(qword_ptr(rdi + 8 * place), rax).unwrap();
    }
    asm.add(rdi, 24).unwrap();
    asm.dec(ecx).unwrap();
    asm.jne(again).unwrap();
    asm.hlt().unwrap();
    asm.assemble(CODE).unwrap()
}

#[test]
fn the_time_stamp_counter_tells_the_cycle() {
    for (cycles, instructions) in [(1, 1), (3, 1), (1, 2)] {
        let ratio = CyclesPerInstruction {
            cycles,
            instructions,
        };
        for step in STEPS {
            let mut guest = Guest::with_ratio(&readings(), ratio);
            guest.halt_by_steps(step);
            let found = words(&guest, DATA, 3 * TIMES as usize);
            let retired = |round: u64, place: u64| 4 + 24 * round + 7 * place + 2;
            let rounds = (0..u64::from(TIMES)).flat_map(|round| (0..3).map(move |p| (round, p)));
            let expected: Vec<u64> = rounds
                .map(|(round, place)| {
                    retired(round, place) * u64::from(cycles) / u64::from(instructions)
                })
                .collect();
            assert_eq!(found, expected, "{ratio:?}, stopped each {step}");
            assert_eq!(
                guest.vcpu.registers().gpr[3],
                3 * u64::from(TIMES),
                "carries"
            );
        }
    }
}

/// RDTSCP returns the kernel's value besides the cycle, and keeps the flags.
#[test]
fn the_time_stamp_counter_comes_with_its_processor() {
    const TSC_AUX: u32 = 0xc000_0103;
    let mut asm = CodeAssembler::new(64).unwrap();
    let mut again = asm.create_label();
    asm.mov(ecx, TSC_AUX).unwrap();
    asm.mov(eax, 0x8765_4321u32).unwrap();
    asm.xor(edx, edx).unwrap();
    asm.wrmsr().unwrap();
    asm.mov(rdi, DATA).unwrap();
    asm.mov(esi, TIMES).unwrap();
    asm.set_label(&mut again).unwrap();
    asm.stc().unwrap();
    asm.rdtscp().unwrap();
    asm.adc(rbx, 0).unwrap();
    asm.add(rbp, rcx).unwrap();
    asm.mov(qword_ptr(rdi), rax).unwrap();
    asm.add(rdi, 8).unwrap();
    asm.dec(esi).unwrap();
    asm.jne(again).unwrap();
    asm.hlt().unwrap();
    let code = asm.assemble(CODE).unwrap();
    for step in STEPS {
        let mut guest = Guest::new(&code);
        guest.halt_by_steps(step);
        let cycles: Vec<u64> = (0..u64::from(TIMES)).map(|round| 7 + 8 * round).collect();
        assert_eq!(words(&guest, DATA, TIMES as usize), cycles);
        let gpr = guest.vcpu.registers().gpr;
        let times = u64::from(TIMES);
        assert_eq!((gpr[3], gpr[5]), (times, times * 0x8765_4321));
    }
}

/// An offset that the guest sets takes effect at once, in the same run.
#[test]
fn the_time_stamp_counter_goes_on_from_what_is_written() {
    let mut asm = CodeAssembler::new(64).unwrap();
    let mut again = asm.create_label();
    asm.mov(ebx, 50).unwrap();
    asm.set_label(&mut again).unwrap();
    asm.mov(ecx, 0x10u32).unwrap();
    asm.mov(edx, 7).unwrap();
    asm.xor(eax, eax).unwrap();
    asm.wrmsr().unwrap();
    asm.rdtsc().unwrap();
    asm.mov(rdi, DATA).unwrap();
    asm.mov(dword_ptr(rdi + rbx * 8), eax).unwrap();
    asm.mov(dword_ptr(rdi + rbx * 8 + 4), edx).unwrap();
    asm.dec(ebx).unwrap();
    asm.jne(again).unwrap();
    asm.hlt().unwrap();
    let code = asm.assemble(CODE).unwrap();
    for step in STEPS {
        let mut guest = Guest::new(&code);
        guest.halt_by_steps(step);
        let found = words(&guest, DATA + 8, 50);
        // WRMSR itself takes a cycle.
        assert!(found.iter().all(|&tsc| tsc == (7 << 32) + 1), "{found:x?}");
    }
}

#[test]
fn users_read_the_counter_unless_the_kernel_forbids_it() {
    const TSD: u64 = 1 << 2;
    // rdtsc; jmp to it.
    let code = [0x0f, 0x31, 0xeb, 0xfc];
    let mut guest = Guest::new(&[0xf4]);
    guest.write(DATA, &code);
    guest.enter_user(DATA);
    assert_eq!(guest.run(1001), Exit::Deadline);
    assert_eq!(guest.vcpu.registers().gpr[0], 1000);
    let mut system = guest.vcpu.system();
    system.cr4 |= TSD;
    guest.vcpu.set_system(&system);
    assert_eq!(fault(&mut guest), Some(13));
    // The kernel itself may continue.
    let mut guest = Guest::new(&code);
    let mut system = guest.vcpu.system();
    system.cr4 |= TSD;
    guest.vcpu.set_system(&system);
    assert_eq!(guest.run(1001), Exit::Deadline);
    assert_eq!(guest.vcpu.registers().gpr[0], 1000);
}

/// Reads through GS before and after each SWAPGS, at addresses whose checks could be shared.
#[test]
fn swapgs_changes_what_is_read_at_once() {
    let mut asm = CodeAssembler::new(64).unwrap();
    let mut again = asm.create_label();
    let bases = [(GS_BASE, DATA), (KERNEL_GS_BASE, DATA + 0x1000)];
    for (msr, base) in bases {
        asm.mov(ecx, msr).unwrap();
        asm.mov(eax, base as u32).unwrap();
        asm.xor(edx, edx).unwrap();
        asm.wrmsr().unwrap();
    }
    asm.mov(r12d, TIMES).unwrap();
    asm.xor(ebx, ebx).unwrap();
    asm.xor(ebp, ebp).unwrap();
    asm.set_label(&mut again).unwrap();
    for sum in [rbx, rbp] {
        asm.add(sum, qword_ptr(0x10).gs()).unwrap();
        asm.add(sum, qword_ptr(0x18).gs()).unwrap();
        asm.swapgs().unwrap();
    }
    asm.add(rbx, qword_ptr(0x20).gs()).unwrap();
    asm.swapgs().unwrap();
    asm.dec(r12d).unwrap();
    asm.jne(again).unwrap();
    asm.hlt().unwrap();
    let code = asm.assemble(CODE).unwrap();
    for step in STEPS {
        let mut guest = Guest::new(&code);
        for (offset, value) in [(0x10_u64, 1_u64), (0x18, 2), (0x20, 4)] {
            guest.write(DATA + offset, &value.to_le_bytes());
            guest.write(DATA + 0x1000 + offset, &(value * 100).to_le_bytes());
        }
        guest.halt_by_steps(step);
        let times = u64::from(TIMES);
        // The bases alternate from round to round.
        let sums = (
            times / 2 * (3 + 4) + times / 2 * 700,
            times / 2 * 300 + times / 2 * 3,
        );
        let registers = guest.vcpu.registers();
        assert_eq!(
            (registers.gpr[3], registers.gpr[5]),
            sums,
            "stopped each {step}"
        );
        assert_eq!(guest.vcpu.system().segments[5].base, DATA);
    }
}

#[test]
fn swapgs_is_not_for_users() {
    let mut guest = Guest::new(&[0xf4]);
    guest.write(DATA, &[0x0f, 0x01, 0xf8]);
    guest.enter_user(DATA);
    assert_eq!(fault(&mut guest), Some(13));
}
