//! The engine on bare guests: counting, stopping, faults, self-modifying code.

use belljar_cpu::{Exit, Registers, Vcpu};
use belljar_exact::ExactVcpu;
use belljar_exact_testing::bare;
use belljar_exact_testing::bare::{CODE, DATA, Guest};
use iced_x86::code_asm::*;

fn assemble(build: impl FnOnce(&mut CodeAssembler)) -> Vec<u8> {
    let mut asm = CodeAssembler::new(64).unwrap();
    build(&mut asm);
    asm.assemble(CODE).unwrap()
}

fn sum_loop(count: u64) -> Vec<u8> {
    assemble(|a| {
        let mut head = a.create_label();
        a.xor(eax, eax).unwrap();
        a.mov(rcx, count).unwrap();
        a.set_label(&mut head).unwrap();
        a.add(rax, rcx).unwrap();
        a.dec(rcx).unwrap();
        a.jnz(head).unwrap();
        a.hlt().unwrap();
    })
}

#[test]
fn a_loop_computes_and_counts() {
    let mut guest = Guest::new(&sum_loop(1000));
    assert_eq!(guest.run_to_halt(), None);
    assert_eq!(guest.vcpu.registers().gpr[Registers::RAX], 500_500);
    assert_eq!(guest.vcpu.retired(), 2 + 3 * 1000 + 1);
}

#[test]
fn a_run_stops_at_exactly_the_instruction_asked_for() {
    for step in [1, 2, 3, 7, 211, 2999] {
        let mut guest = Guest::new(&sum_loop(1000));
        let mut done = 0;
        loop {
            match guest.run(step) {
                Exit::Deadline => done += step,
                Exit::Halt => break,
                other => panic!("{other:?}"),
            }
            assert_eq!(guest.vcpu.retired(), done);
        }
        assert_eq!(guest.vcpu.retired(), 3003);
        assert_eq!(guest.vcpu.registers().gpr[Registers::RAX], 500_500);
    }
}

#[test]
fn a_bound_on_instructions_ends_a_run_before_its_cycle() {
    let mut guest = Guest::new(&sum_loop(1000));
    for bound in [1, 2, 5, 6, 1000, 3002] {
        guest.vcpu.stop_at(bound);
        assert_eq!(guest.run(100_000), Exit::Deadline);
        assert_eq!(guest.vcpu.retired(), bound);
        // It is there already.
        assert_eq!(guest.run(100_000), Exit::Deadline);
        assert_eq!(guest.vcpu.retired(), bound);
    }
    guest.vcpu.stop_at(u64::MAX);
    assert_eq!(guest.run(100_000), Exit::Halt);
    assert_eq!(guest.vcpu.registers().gpr[Registers::RAX], 500_500);
}

/// Every change by a guest appears, under its own name.
#[test]
fn state_lists_what_an_instruction_changed() {
    let code = assemble(|a| {
        a.mov(r14d, 0x77).unwrap();
        a.movd(xmm3, r14d).unwrap();
        a.fld1().unwrap();
        a.hlt().unwrap();
    });
    let mut guest = Guest::new(&code);
    let mut before = guest.vcpu.state();
    for expected in ["r14", "zmm3", "st0"] {
        assert_eq!(guest.run(1), Exit::Deadline);
        let after = guest.vcpu.state();
        let changed = after
            .iter()
            .zip(&before)
            .filter(|(after, before)| after != before);
        let changed: Vec<&str> = changed.map(|(after, _)| after.name.as_str()).collect();
        assert!(
            changed.contains(&"rip") && changed.contains(&expected),
            "{changed:?}"
        );
        let x87 = if expected == "st0" { 2 } else { 0 };
        assert_eq!(changed.len(), 2 + x87, "{changed:?}");
        before = after;
    }
}

#[test]
fn memory_stack_and_calls_work() {
    let code = assemble(|a| {
        let mut function = a.create_label();
        a.mov(r14, DATA).unwrap();
        a.mov(r15d, 3).unwrap();
        a.mov(qword_ptr(r14 + r15 * 8), r15).unwrap();
        a.push(r14).unwrap();
        a.pop(r13).unwrap();
        a.push(qword_ptr(r13 + 24)).unwrap();
        a.pop(rbx).unwrap();
        a.call(function).unwrap();
        a.add(r15, qword_ptr(r14 + 24)).unwrap();
        a.mov(rdi, r14).unwrap();
        a.mov(ah, byte_ptr(rdi + 24)).unwrap();
        a.hlt().unwrap();
        a.set_label(&mut function).unwrap();
        a.lea(r12, ptr(r14 + r15 * 4 + 1)).unwrap();
        a.ret().unwrap();
    });
    let mut guest = Guest::new(&code);
    assert_eq!(guest.run_to_halt(), None);
    let gpr = guest.vcpu.registers().gpr;
    assert_eq!(gpr[3], 3);
    assert_eq!(gpr[12], DATA + 13);
    assert_eq!(gpr[13], DATA);
    assert_eq!(gpr[15], 6);
    assert_eq!(gpr[0] >> 8 & 0xff, 3);
    assert_eq!(gpr[4], bare::STACK);
}

#[test]
fn faults_are_precise() {
    let code = assemble(|a| {
        a.mov(eax, 5).unwrap();
        a.mov(rbx, 0x3f_f000u64).unwrap();
        a.inc(eax).unwrap();
        a.mov(rcx, qword_ptr(rbx)).unwrap();
        a.inc(eax).unwrap();
        a.hlt().unwrap();
    });
    let mut guest = Guest::new(&code);
    assert_eq!(guest.run_to_halt(), Some(14));
    assert_eq!(guest.vcpu.registers().gpr[0], 6);
    assert_eq!(guest.vcpu.system().cr2, 0x3f_f000);
    // Three instructions of the program and the handler's HLT.
    assert_eq!(guest.vcpu.retired(), 4);
}

#[test]
fn division_errors_reach_the_guest() {
    let code = assemble(|a| {
        a.xor(ecx, ecx).unwrap();
        a.mov(eax, 7).unwrap();
        a.div(rcx).unwrap();
        a.hlt().unwrap();
    });
    let mut guest = Guest::new(&code);
    assert_eq!(guest.run_to_halt(), Some(0));
    assert_eq!(guest.vcpu.registers().gpr[0], 7);
}

#[test]
fn accesses_across_pages_and_misaligned_vectors_behave() {
    let code = assemble(|a| {
        a.mov(rsi, DATA + 0xffc).unwrap();
        a.mov(rax, 0x1122_3344_5566_7788u64).unwrap();
        a.mov(qword_ptr(rsi), rax).unwrap();
        a.add(qword_ptr(rsi), 1).unwrap();
        a.movups(xmm1, xmmword_ptr(rsi)).unwrap();
        a.movq(rbx, xmm1).unwrap();
        a.movaps(xmm2, xmmword_ptr(rsi)).unwrap();
        a.hlt().unwrap();
    });
    let mut guest = Guest::new(&code);
    assert_eq!(guest.run_to_halt(), Some(13));
    assert_eq!(guest.vcpu.registers().gpr[3], 0x1122_3344_5566_7789);
    assert_eq!(
        guest.read(DATA + 0xffc, 8),
        0x1122_3344_5566_7789u64.to_le_bytes()
    );
}

#[test]
fn code_that_writes_itself_runs_as_written() {
    let code = assemble(|a| {
        let mut patched = a.create_label();
        let mut again = a.create_label();
        a.xor(ebx, ebx).unwrap();
        a.set_label(&mut again).unwrap();
        a.lea(rdi, ptr(patched)).unwrap();
        a.set_label(&mut patched).unwrap();
        a.mov(eax, 1).unwrap();
        a.add(ebx, eax).unwrap();
        a.inc(byte_ptr(rdi + 1)).unwrap();
        a.cmp(ebx, 100).unwrap();
        a.jb(again).unwrap();
        a.hlt().unwrap();
    });
    let mut guest = Guest::new(&code);
    assert_eq!(guest.run_to_halt(), None);
    // 1 + 2 + ... + 14 = 105 is the first triangular number from 100 on.
    assert_eq!(guest.vcpu.registers().gpr[3], 105);
    assert!(guest.vcpu.statistics().modified >= 13);
}

#[test]
fn devices_are_asked_and_told() {
    let code = assemble(|a| {
        a.mov(dx, 0x3f8).unwrap();
        a.mov(al, 65).unwrap();
        a.out(dx, al).unwrap();
        a.in_(eax, dx).unwrap();
        a.hlt().unwrap();
    });
    let mut guest = Guest::new(&code);
    assert_eq!(
        guest.run(1000),
        Exit::PioWrite {
            port: 0x3f8,
            len: 1,
            data: 65
        }
    );
    assert_eq!(guest.vcpu.retired(), 3);
    assert_eq!(
        guest.run(1000),
        Exit::PioRead {
            port: 0x3f8,
            len: 4
        }
    );
    guest.vcpu.complete_read(0xdead_beef);
    assert_eq!(guest.run(1000), Exit::Halt);
    assert_eq!(guest.vcpu.registers().gpr[0], 0xdead_beef);
    assert_eq!(guest.vcpu.retired(), 5);
}

/// Software may disable the local APIC, if the caller permits it.
#[test]
fn cpuid_does_not_show_an_apic_that_is_off() {
    const APIC: u64 = 1 << 9;
    let code = assemble(|a| {
        for enabled in [0, 1 << 11, 0] {
            a.mov(ecx, 0x1b).unwrap();
            a.mov(eax, enabled).unwrap();
            a.xor(edx, edx).unwrap();
            a.wrmsr().unwrap();
            a.mov(eax, 1).unwrap();
            a.cpuid().unwrap();
            a.out(0x80, al).unwrap();
        }
    });
    let mut guest = Guest::new(&code);
    // mov eax, 1; cpuid; hlt
    let handler = [0xb8, 1, 0, 0, 0, 0x0f, 0xa2, 0xf4];
    guest.write(bare::HANDLERS + 13 * 16, &handler);
    for (refused, shown) in [(false, 0), (false, APIC), (true, APIC)] {
        let exit = guest.run(100);
        assert!(matches!(exit, Exit::MsrWrite { index: 0x1b, .. }));
        if refused {
            guest.vcpu.refuse_msr();
        }
        let exit = guest.run(100);
        assert_eq!(exit == Exit::Halt, refused, "{exit:?}");
        assert_eq!(guest.vcpu.registers().gpr[Registers::RDX], shown);
    }
}

/// An instruction that reads two device registers reads each once.
#[test]
fn a_comparison_of_two_device_registers_ends() {
    let code = assemble(|a| {
        a.mov(ecx, 3).unwrap();
        a.mov(rsi, bare::FAR).unwrap();
        a.mov(rdi, bare::FAR + 0x10).unwrap();
        a.repe().cmpsb().unwrap();
        a.hlt().unwrap();
        // No flag is dead before a jump.
        a.db(&[0xeb, 0xfe]).unwrap();
    });
    let mut guest = Guest::new(&code);
    guest.map_far(bare::FAR, 0xd000_0000);
    let mut asked = Vec::new();
    loop {
        match guest.run(1000) {
            Exit::MmioRead { addr, len: 1 } => {
                asked.push(addr & 0xff);
                // The third pair differs.
                guest.vcpu.complete_read(u64::from(addr & 0xff == 0x12));
            }
            Exit::Halt => break,
            other => panic!("{other:?}"),
        }
        assert!(asked.len() < 100, "it asks for ever");
    }
    assert_eq!(asked, [0, 0x10, 1, 0x11, 2, 0x12]);
    assert_eq!(guest.vcpu.registers().gpr[Registers::RCX], 0);
    assert_eq!(guest.vcpu.registers().rflags & 0x41, 1, "below, not equal");
}

#[test]
fn string_instructions_copy_and_compare() {
    let code = assemble(|a| {
        a.mov(rdi, DATA).unwrap();
        a.mov(eax, 0x5a).unwrap();
        a.mov(ecx, 10_000).unwrap();
        a.rep().stosb().unwrap();
        a.mov(rsi, DATA).unwrap();
        a.mov(rdi, DATA + 0x1_0000).unwrap();
        a.mov(ecx, 1250).unwrap();
        a.rep().movsq().unwrap();
        a.mov(rsi, DATA).unwrap();
        a.mov(rdi, DATA + 0x1_0000).unwrap();
        a.mov(ecx, 20_000).unwrap();
        a.repe().cmpsb().unwrap();
        a.hlt().unwrap();
    });
    let mut guest = Guest::new(&code);
    assert_eq!(guest.run_to_halt(), None);
    assert_eq!(guest.vcpu.retired(), 13);
    assert_eq!(guest.read(DATA + 0x1_0000, 10_000), vec![0x5a; 10_000]);
    assert_eq!(guest.vcpu.registers().gpr[1], 0);
}

/// A guest in user mode with `stub` at the start of its stub range.
fn in_stubs(stub: &[u8]) -> Guest {
    let mut guest = Guest::new(&[0xf4]);
    guest.map_far(belljar_abi::STUB_BASE, DATA);
    guest.write(DATA, stub);
    guest.enter_user(belljar_abi::STUB_BASE);
    guest
}

#[test]
fn stubs_do_not_count() {
    // cpuid; jmp r11, as in the library; the host sends it to user code at CODE.
    let mut guest = in_stubs(&[0x0f, 0xa2, 0x41, 0xff, 0xe3]);
    guest.write(CODE, &[0x90, 0x90, 0xeb, 0xfe]);
    assert_eq!(guest.run(10), Exit::Magic { at: 0 });
    guest.vcpu.complete_magic(CODE);
    assert_eq!(guest.run(10), Exit::Deadline);
    assert_eq!(guest.vcpu.retired(), 10);
    assert!(!guest.vcpu.report().stubs_abused);
}

#[test]
fn no_run_ends_among_stubs() {
    let mut guest = in_stubs(&[0x90, 0x90, 0x0f, 0xa2, 0x41, 0xff, 0xe3]);
    guest.write(CODE, &[0xeb, 0xfe]);
    // No time is granted at all, and the guest still exits at the magic call, identified by its
    // leaf.
    let mut registers = guest.vcpu.registers();
    registers.gpr[0] = u64::from(belljar_abi::FACT_LEAF);
    guest.vcpu.set_registers(&registers);
    assert_eq!(guest.run(0), Exit::Magic { at: 0 });
    assert!(!guest.vcpu.interruptible());
    guest.vcpu.complete_magic(CODE);
    assert_eq!(guest.run(0), Exit::Deadline);
    assert_eq!(guest.vcpu.registers().rip, CODE);
    assert_eq!(guest.vcpu.retired(), 0);
}

/// An event due at the very cycle of a magic call is not delayed because the stub's return path was
/// used before.
#[test]
fn interrupts_come_in_as_soon_as_a_stub_is_left() {
    let mut guest = in_stubs(&[0x0f, 0xa2, 0x41, 0xff, 0xe3]);
    // add eax, 0; jmp r12: back to the stub.
    guest.write(CODE, &[0x83, 0xc0, 0x00, 0x41, 0xff, 0xe4]);
    let mut registers = guest.vcpu.registers();
    registers.gpr[12] = belljar_abi::STUB_BASE;
    registers.rflags |= 0x200;
    guest.vcpu.set_registers(&registers);
    for turn in 0..20 {
        assert_eq!(guest.run(1000), Exit::Magic { at: 2 * turn });
        let wait = |vcpu: &mut ExactVcpu, waits| match turn % 3 {
            0 => vcpu.request_nmi_window(waits),
            _ => vcpu.request_interrupt_window(waits),
        };
        wait(&mut guest.vcpu, true);
        guest.vcpu.complete_magic(CODE);
        assert!(!guest.vcpu.interruptible());
        assert_eq!(guest.run(1000), Exit::InterruptWindow, "turn {turn}");
        assert_eq!(guest.vcpu.registers().rip, CODE);
        assert_eq!(guest.vcpu.retired(), 2 * turn);
        wait(&mut guest.vcpu, false);
    }
}

#[test]
fn a_guest_that_stays_among_stubs_does_not_stop_time() {
    let mut guest = in_stubs(&[0xeb, 0xfe]);
    assert_eq!(guest.run(1000), Exit::Deadline);
    assert_eq!(guest.vcpu.retired(), 1000);
    assert!(guest.vcpu.report().stubs_abused);
}

#[test]
fn a_guest_that_makes_nothing_but_magic_calls_does_not_stop_time() {
    // cpuid; jmp to it.
    let mut guest = in_stubs(&[0x0f, 0xa2, 0xeb, 0xfc]);
    for _ in 0..10_000 {
        match guest.run(100) {
            Exit::Magic { .. } => guest.vcpu.complete_magic(0),
            Exit::Deadline => break,
            other => panic!("{other:?}"),
        }
    }
    assert!(guest.vcpu.retired() > 0, "time stood still");
    assert!(guest.vcpu.report().stubs_abused);
}

#[test]
fn endless_faults_do_not_stop_time() {
    // The page-fault handler's own page is not mapped, and its stack is the same every time, from
    // the interrupt stack table.
    let code = assemble(|a| {
        a.mov(rax, 0x3f_f000u64).unwrap();
        a.mov(rbx, qword_ptr(rax)).unwrap();
    });
    let mut guest = Guest::new(&code);
    guest.use_interrupt_stack(14, 0x3f_f000, bare::STACK - 0x1000);
    assert_eq!(guest.run(1000), Exit::Deadline);
    assert_eq!(guest.vcpu.retired(), 1000);
    assert_eq!(guest.vcpu.system().cr2, 0x3f_f000);
}

#[test]
fn a_repeated_load_without_end_does_not_stop_time() {
    // Three million loads from the same page, mapped many times.
    let code = assemble(|a| {
        a.mov(ecx, 3 << 20).unwrap();
        a.mov(rsi, bare::FAR).unwrap();
        a.rep().lodsb().unwrap();
        a.hlt().unwrap();
    });
    let mut guest = Guest::new(&code);
    guest.map_over_and_over(bare::FAR, DATA);
    assert_eq!(guest.run_to_halt(), None);
    assert_eq!(guest.vcpu.registers().gpr[Registers::RCX], 0);
    // Two instructions, the third in three parts, and HLT.
    assert_eq!(guest.vcpu.retired(), 2 + 3 + 1);
}
