//! Breakpoints in the debug registers.

use belljar_cpu::{Exit, StateItem, Vcpu};
use belljar_exact_testing::bare;
use belljar_exact_testing::bare::{CODE, DATA, Guest, HANDLERS, STACK};
use iced_x86::code_asm::*;

/// Enables breakpoint `number` for `kind` (0: code, 1: writes, 3: accesses) and `length`.
fn control(number: u64, kind: u64, length: u64) -> u64 {
    let length = [0, 0, 1, 0, 3, 0, 0, 0, 2][length as usize];
    2 << (number * 2) | (kind | length << 2) << (16 + number * 4)
}

/// A guest whose breakpoint 1 is on `address`. Its handler counts in R15, stores DR6 in R14 and the
/// return address in R13, clears DR6, and sets RF in its frame.
fn guest(
    address: u64,
    control: u64,
    build: impl FnOnce(&mut CodeAssembler) -> Result<(), IcedError>,
) -> Guest {
    let mut a = CodeAssembler::new(64).unwrap();
    a.mov(rax, address).unwrap();
    a.mov(dr1, rax).unwrap();
    a.mov(rax, control).unwrap();
    a.mov(dr7, rax).unwrap();
    build(&mut a).unwrap();
    a.hlt().unwrap();
    let guest = Guest::new(&a.assemble(CODE).unwrap());
    let mut a = CodeAssembler::new(64).unwrap();
    a.inc(r15).unwrap();
    a.mov(r14, dr6).unwrap();
    a.xor(r13d, r13d).unwrap();
    a.mov(dr6, r13).unwrap();
    a.mov(r13, qword_ptr(rsp)).unwrap();
    a.bts(dword_ptr(rsp + 16), 16).unwrap();
    a.iretq().unwrap();
    let at = HANDLERS + 0x1000;
    guest.write(at, &a.assemble(at).unwrap());
    // jmp to it, in place of the vector's HLT.
    guest.write(HANDLERS + 16, &[0xe9, 0xeb, 0x0f, 0, 0]);
    guest
}

fn gpr(guest: &Guest) -> [u64; 16] {
    guest.vcpu.registers().gpr
}

#[test]
fn a_code_breakpoint_stops_before_its_instruction_each_time() {
    // 5 bytes after the code that guest() begins with: mov ecx, 3.
    let place = CODE + 26 + 5;
    let mut guest = guest(place, control(1, 0, 1), |a| {
        let mut again = a.create_label();
        a.mov(ecx, 3)?;
        a.set_label(&mut again)?;
        a.inc(rbx)?;
        a.dec(ecx)?;
        a.jnz(again)
    });
    assert_eq!(guest.run_to_halt(), None);
    let gpr = gpr(&guest);
    assert_eq!((gpr[3], gpr[15]), (3, 3));
    assert_eq!((gpr[13], gpr[14] & 0xf), (place, 2), "RIP and DR6");
}

#[test]
fn a_watchpoint_stops_behind_the_write() {
    let store = |a: &mut CodeAssembler| {
        let mut again = a.create_label();
        a.mov(rdi, DATA)?;
        a.mov(ecx, 16)?;
        a.set_label(&mut again)?;
        a.mov(rbx, qword_ptr(rdi))?;
        a.mov(qword_ptr(rdi), rcx)?;
        a.cmp(r15, 0)?;
        a.cmovz(r12, rdi)?;
        a.add(rdi, 8)?;
        a.dec(ecx)?;
        a.jnz(again)
    };
    for (kind, length, at, hits) in [
        (1, 8, DATA + 40, 1),
        (1, 1, DATA + 43, 1),
        (3, 4, DATA + 44, 2),
        (1, 8, DATA + 0x800, 0),
    ] {
        let mut guest = guest(at, control(1, kind, length), store);
        assert_eq!(guest.run_to_halt(), None);
        let gpr = gpr(&guest);
        assert_eq!(gpr[15], hits, "kind {kind}, {length} bytes at {at:#x}");
        if hits > 0 {
            assert_eq!(gpr[14] & 0xf, 2);
            assert_eq!(gpr[12], DATA + 32, "the last store before the hit's");
        }
    }
}

#[test]
fn pushes_calls_and_string_instructions_are_seen() {
    for build in [
        |a: &mut CodeAssembler| a.push(rax),
        |a: &mut CodeAssembler| {
            let mut next = a.create_label();
            a.call(next)?;
            a.set_label(&mut next)?;
            a.nop()
        },
        |a: &mut CodeAssembler| {
            a.mov(rdi, bare::STACK - 0x100)?;
            a.mov(ecx, 0x20)?;
            a.rep().stosq()
        },
    ] {
        let mut guest = guest(bare::STACK - 8, control(1, 1, 8), build);
        assert_eq!(guest.run_to_halt(), None);
        assert_eq!(gpr(&guest)[15], 1);
    }
}

#[test]
fn an_access_that_faults_is_no_hit() {
    let absent = 0x3f_f000;
    let mut guest = guest(absent, control(1, 3, 8), |a| {
        a.mov(rbx, absent)?;
        a.mov(rbx, qword_ptr(rbx))
    });
    assert_eq!(guest.run_to_halt(), Some(14));
    assert_eq!(gpr(&guest)[15], 0);
}

/// The whole state of a guest, stopped each `step` instructions.
fn all(step: u64) -> (Vec<StateItem>, u64) {
    let mut guest = guest(DATA + 24, control(1, 1, 8), |a| {
        let mut again = a.create_label();
        a.mov(ecx, 500)?;
        a.set_label(&mut again)?;
        a.mov(edx, ecx)?;
        a.and(edx, 15)?;
        a.mov(qword_ptr(rdx * 8 + DATA as i32), rcx)?;
        a.dec(ecx)?;
        a.jnz(again)
    });
    while guest.run(step) == Exit::Deadline {}
    (guest.vcpu.state(), guest.vcpu.retired())
}

#[test]
fn stops_change_nothing() {
    let whole = all(1 << 20);
    let hits = whole.0.iter().find(|item| item.name == "r15");
    assert_eq!(hits.map(StateItem::hex), Some("20".to_owned()));
    for step in [1, 7] {
        assert_eq!(all(step), whole);
    }
}

#[test]
fn without_breakpoints_code_becomes_hot() {
    for (enabled, hot) in [(0, true), (control(1, 1, 8), false)] {
        let mut guest = guest(DATA, enabled, |a| {
            let mut again = a.create_label();
            a.mov(ecx, 10_000)?;
            a.set_label(&mut again)?;
            a.add(rbx, rcx)?;
            a.dec(ecx)?;
            a.jnz(again)
        });
        assert_eq!(guest.run_to_halt(), None);
        assert_eq!(gpr(&guest)[3], 50_005_000);
        assert_eq!(guest.vcpu.statistics().promoted > 0, hot);
    }
}

/// INT n ends without a step, because it clears TF before it ends: its handler is not stepped into,
/// and the next step is after the instruction to which the handler returns.
#[test]
fn a_single_step_does_not_end_in_the_handler_of_int() {
    for int in [&[0xcd, 5][..], &[0xcc], &[0xf1]] {
        let mut guest = guest(0, 0, |a| {
            a.pushfq()?;
            a.bts(qword_ptr(rsp), 8)?;
            a.popfq()?;
            a.db(int)?;
            a.nop()?;
            a.pushfq()?;
            a.btr(qword_ptr(rsp), 8)?;
            a.popfq()
        });
        for vector in [3, 5] {
            guest.write(HANDLERS + 16 * vector, &[0x48, 0xcf]);
        }
        assert_eq!(guest.run(1000), Exit::Halt);
        // After NOP, PUSHF, BTR and POPF; INT1 is an exception of its own.
        let expected = if int == [0xf1] { 5 } else { 4 };
        assert_eq!(gpr(&guest)[15], expected, "{int:x?}");
    }
}

/// A watchpoint hit by a load of SS is reported after the next instruction. INT1 is reported
/// instead of it, and another INT enters its handler first.
#[test]
fn a_watchpoint_on_a_load_of_ss_is_told_one_instruction_later() {
    // The handlers' entries, and the return address of the watchpoint's handler.
    let behind = CODE + 26 + 7 + 2;
    let cases: [(&[u8], u64, u64); 4] = [
        (&[0x66, 0x90], 1, behind),
        (&[0x66, 0xf1], 1, behind),
        (&[0x66, 0xcc], 1, HANDLERS + 3 * 16),
        (&[0xcd, 5], 1, HANDLERS + 5 * 16),
    ];
    for step in [1, 1000] {
        for (next, times, back) in cases {
            let mut guest = guest(DATA, control(1, 3, 2), |a| {
                // mov ss, [DATA]
                a.db(&[0x8e, 0x14, 0x25, 0, 0, 0x20, 0])?;
                a.db(next)
            });
            guest.write(DATA, &[0x18, 0]);
            for vector in [3, 5] {
                guest.write(HANDLERS + 16 * vector, &[0x48, 0xcf]);
            }
            guest.halt_by_steps(step);
            assert_eq!(gpr(&guest)[15], times, "{next:x?}");
            assert_eq!(gpr(&guest)[13], back, "{next:x?}");
        }
    }
}

/// In an unprivileged program: the gate's privilege level is not checked, unlike for INT n.
#[test]
fn int1_is_open_to_user_code() {
    for (int, vector) in [(&[0xf1, 0][..], 1), (&[0xcd, 1], 13)] {
        let mut guest = Guest::new(int);
        guest.use_interrupt_stack(vector, HANDLERS + 16 * vector, STACK);
        guest.enter_user(CODE);
        assert_eq!(guest.run_to_halt(), Some(vector as u8));
    }
}
