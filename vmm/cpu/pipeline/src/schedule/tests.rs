//! Hand-computed schedules of short paths on a simple processor.

use iced_x86::IcedError;
use iced_x86::code_asm::*;

use crate::cost::{PathBlock, TimingBlock, cost};
use crate::processor::{BUILT_IN, Processor};
use crate::schedule::Schedule;

type Build = fn(&mut CodeAssembler) -> Result<(), IcedError>;

fn block(build: impl Fn(&mut CodeAssembler) -> Result<(), IcedError>) -> TimingBlock {
    let mut assembler = CodeAssembler::new(64).unwrap();
    build(&mut assembler).unwrap();
    let bytes = assembler.assemble(0x1000).unwrap();
    let decoder = iced_x86::Decoder::with_ip(64, &bytes, 0x1000, 0);
    TimingBlock::new(&decoder.into_iter().collect::<Vec<_>>())
}

fn zen5() -> Schedule {
    Schedule::new(Processor::built_in("zen5").unwrap().into())
}

/// Ticks of `build`'s block in a long row of the same block; each falls through to the next one.
fn steady(build: impl Fn(&mut CodeAssembler) -> Result<(), IcedError>) -> u64 {
    let mut block = block(build);
    block.end = block.rip;
    let one = PathBlock {
        block: &block,
        mispredicted: false,
    };
    cost(&mut zen5(), &[one; 8])
}

/// Asserts that a block takes so many cycles, within a hundredth.
fn assert_cycles(
    what: &str,
    build: impl Fn(&mut CodeAssembler) -> Result<(), IcedError>,
    cycles: f64,
) {
    let ticks = steady(build) as f64 / 1000.0;
    assert!(
        (ticks - cycles).abs() < 0.01 * cycles.max(1.0),
        "{what}: {ticks} instead of {cycles}"
    );
}

#[test]
fn a_chain_takes_the_latency_of_each_instruction() {
    let chains: [(&str, Build, f64); 10] = [
        ("add", |a| a.add(rax, 1), 1.0),
        ("imul", |a| a.imul_2(rax, rcx), 3.0),
        ("shl", |a| a.shl(rax, 3), 1.0),
        ("lea", |a| a.lea(rax, rax + rcx * 4 + 5), 2.0),
        ("load", |a| a.mov(rax, qword_ptr(rax)), 4.0),
        (
            "indexed load",
            |a| a.mov(rax, qword_ptr(rbx + rax * 8)),
            5.0,
        ),
        ("addpd", |a| a.addpd(xmm0, xmm1), 2.0),
        ("divpd", |a| a.divpd(xmm0, xmm1), 13.0),
        ("cmov", |a| a.cmovz(rax, rcx), 1.0),
        (
            "addpd and mulpd",
            |a| a.addpd(xmm0, xmm1).and_then(|()| a.mulpd(xmm0, xmm1)),
            6.0,
        ),
    ];
    for (what, build, latency) in chains {
        let four = move |a: &mut CodeAssembler| (0..4).try_for_each(|_| build(a));
        assert_cycles(what, four, 4.0 * latency);
    }
}

#[test]
fn independent_instructions_take_what_ports_and_width_permit() {
    let registers = [rax, rcx, rdx, rsi, r8, r9, r10, r11];
    assert_cycles("nop", |a| (0..16).try_for_each(|_| a.nop()), 2.0);
    // Six arithmetic units.
    assert_cycles(
        "add",
        |a| (0..24).try_for_each(|at| a.add(registers[at % 8], rbx)),
        4.0,
    );
    // Moves are renamed: only the width of eight limits them.
    assert_cycles(
        "mov",
        |a| (0..16).try_for_each(|at| a.mov(registers[at % 8], rbx)),
        2.0,
    );
    assert_cycles(
        "imul",
        |a| (0..6).try_for_each(|at| a.imul_3(registers[at], rbx, 3)),
        2.0,
    );
    assert_cycles(
        "load",
        |a| (0..8).try_for_each(|at| a.mov(registers[at], qword_ptr(rbx + 8 * at))),
        2.0,
    );
    assert_cycles(
        "store",
        |a| (0..4).try_for_each(|at| a.mov(qword_ptr(rbx + 8 * at), rax)),
        2.0,
    );
    let vectors = [xmm2, xmm3, xmm4, xmm5];
    assert_cycles(
        "load into vectors",
        |a| (0..4).try_for_each(|at| a.movaps(vectors[at], xmmword_ptr(rbx + 16 * at))),
        2.0,
    );
    assert_cycles(
        "mulpd",
        |a| (0..4).try_for_each(|at| a.mulpd(vectors[at], xmm1)),
        3.0,
    );
    assert_cycles(
        "paddd",
        |a| (0..4).try_for_each(|at| a.paddd(vectors[at], xmm1)),
        2.0,
    );
}

#[test]
fn a_divider_is_occupied_while_it_divides() {
    let vectors = [xmm2, xmm3, xmm4, xmm5];
    assert_cycles(
        "divpd",
        |a| {
            (0..4).try_for_each(|at| {
                a.movaps(vectors[at], xmm1)
                    .and_then(|()| a.divpd(vectors[at], xmm1))
            })
        },
        16.0,
    );
}

/// Divisions and roots of one divider, in an order that leaves gaps for neither.
#[test]
fn a_divider_has_no_gaps_between_unlike_operations() {
    assert_cycles(
        "root, then division",
        |a| {
            a.movaps(xmm0, xmm1)?;
            a.sqrtsd(xmm0, xmm0)?;
            a.movaps(xmm2, xmm1)?;
            a.divsd(xmm2, xmm0)
        },
        11.0,
    );
}

/// A comparison and a move by its sign take three cycles, by its equality two.
#[test]
fn conditions_of_several_flags_take_longer() {
    assert_cycles(
        "greater",
        |a| {
            a.cmp(rcx, rax)?;
            a.cmovg(rax, rcx)
        },
        3.0,
    );
    assert_cycles(
        "equal",
        |a| {
            a.cmp(rcx, rax)?;
            a.cmove(rax, rcx)
        },
        2.0,
    );
}

/// Six multiplications in a row take 18 cycles, but in separate rounds only the ports limit them.
#[test]
fn zero_idioms_break_chains() {
    let round = |zeroes: bool| {
        steady(|a| {
            if zeroes {
                a.xor(eax, eax)?;
            }
            (0..6).try_for_each(|_| a.imul_2(rax, rcx))
        })
    };
    assert_eq!(round(false), 18_000);
    assert!((2_000..2_100).contains(&round(true)), "{}", round(true));
}

#[test]
fn a_store_and_a_load_of_the_same_address_are_renamed() {
    assert_cycles(
        "renamed",
        |a| {
            (0..2).try_for_each(|_| {
                a.mov(qword_ptr(rbx), rax)?;
                a.mov(rax, qword_ptr(rbx))?;
                a.add(rax, 1)
            })
        },
        2.0,
    );
    // Other bytes: a chain only through the registers.
    assert_cycles(
        "elsewhere",
        |a| {
            a.mov(qword_ptr(rbx), rax)?;
            a.mov(rax, qword_ptr(rbx + 8))?;
            a.add(rax, rax)
        },
        0.5,
    );
    // The stack pointer's changes are known.
    assert_cycles(
        "push and pop",
        |a| {
            a.push(rax)?;
            a.pop(rax)?;
            a.add(rax, 1)
        },
        1.0,
    );
    // Vectors are forwarded by the store queue.
    assert_cycles(
        "vector",
        |a| {
            a.movaps(xmmword_ptr(rbx), xmm0)?;
            a.movaps(xmm0, xmmword_ptr(rbx))
        },
        9.0,
    );
    assert_cycles(
        "indexed alike",
        |a| {
            a.mov(qword_ptr(rbx + rcx), rax)?;
            a.mov(rax, qword_ptr(rbx + rcx))?;
            a.add(rax, 1)
        },
        1.0,
    );
    // Another name of the same address, and less than four bytes.
    assert_cycles(
        "indexed otherwise",
        |a| {
            a.mov(rdx, rbx)?;
            a.mov(qword_ptr(rbx + rcx), rax)?;
            a.mov(rax, qword_ptr(rdx + rcx))
        },
        7.0,
    );
    assert_cycles(
        "byte",
        |a| {
            a.mov(byte_ptr(rbx), al)?;
            a.movzx(eax, byte_ptr(rbx))
        },
        7.0,
    );
}

#[test]
fn work_beyond_the_window_waits() {
    // Two chains of 40 multiplications with independent work between them: within the window they overlap.
    let apart = |nops: usize| {
        move |a: &mut CodeAssembler| {
            a.xor(eax, eax)?;
            (0..10).try_for_each(|_| a.imul_2(rax, rcx))?;
            (0..nops).try_for_each(|_| a.nop())
        }
    };
    // The chain of 30 cycles fits in the time of 240 dispatches, but not of 100.
    assert_cycles("window", apart(469), 60.0);
    let near = steady(apart(37));
    assert!((6_000..9_000).contains(&near), "chains overlap: {near}");
    // A single division of a window's work: 448 micro-operations pass it, no more.
    let far = |nops: usize| {
        move |a: &mut CodeAssembler| {
            a.xor(edx, edx)?;
            (0..60).try_for_each(|_| a.imul_2(rdx, rcx))?;
            (0..nops).try_for_each(|_| a.nop())
        }
    };
    // 180 cycles of a chain: two of them overlap if both are within 448 micro-operations.
    let (within, beyond) = (steady(far(160)), steady(far(520)));
    assert!(within < 100_000, "{within}");
    assert!(beyond > 180_000, "{beyond}");
}

/// Ticks of a function of so many instructions, with as many after its call, when the front end follows a call and its
/// return in five cycles.
fn called(instructions: usize) -> u64 {
    let moves = |a: &mut CodeAssembler| (0..instructions).try_for_each(|_| a.nop());
    let caller = block(|a| moves(a).and_then(|()| a.call(0x2000u64)));
    let mut called = block(|a| moves(a).and_then(|()| a.ret()));
    (called.rip, called.end) = (0x2000, 0x2000);
    let path: Vec<PathBlock<'_>> = (0..20)
        .map(|number| PathBlock {
            block: [&caller, &called][number % 2],
            mispredicted: false,
        })
        .collect();
    cost(&mut zen5(), &path) * 2
}

#[test]
fn the_front_end_follows_calls_while_earlier_instructions_are_dispatched() {
    let mut costs = [0, 6, 12].map(called);
    assert_eq!(costs[..2], [5_000, 5_000]);
    // 26 micro-operations at eight in a cycle, with the call and the return at the ends of groups.
    costs[2] /= 1000;
    assert!((3..=5).contains(&costs[2]), "{}", costs[2]);
}

#[test]
fn taken_jumps_are_followed_one_in_so_many_cycles() {
    let block = block(|a| {
        (0..4)
            .try_for_each(|_| a.nop())
            .and_then(|()| a.jmp(0x1000u64))
    });
    let one = PathBlock {
        block: &block,
        mispredicted: false,
    };
    let with = |taken| {
        let mut processor = Processor::built_in("zen5").unwrap();
        processor.core.taken = taken;
        cost(&mut Schedule::new(processor.into()), &[one; 8])
    };
    // Five micro-operations, eight in a cycle; then one jump in a cycle, and in three.
    assert_eq!([0, 1, 3].map(with), [625, 1_000, 3_000]);
}

#[test]
fn a_misprediction_costs_the_restart_after_the_resolution() {
    let test = block(|a| a.test(rax, rax).and_then(|()| a.jz(0x1000u64)));
    let slow = block(|a| {
        (0..10).try_for_each(|_| a.imul_2(rax, rcx))?;
        a.test(rax, rax)?;
        a.jz(0x1000u64)
    });
    let after = |before: &TimingBlock, mispredicted| {
        let path = [
            PathBlock {
                block: before,
                mispredicted,
            },
            PathBlock {
                block: &test,
                mispredicted: false,
            },
        ];
        cost(&mut zen5(), &path)
    };
    let (right, wrong) = (after(&test, false), after(&test, true));
    assert!(
        (18_000..=24_000).contains(&(wrong - right)),
        "{right} {wrong}"
    );
    // The jump is resolved just before the block before it retires, also after a long chain.
    let slow = after(&slow, true);
    assert!(slow.abs_diff(wrong) <= 1_000, "{slow} {wrong}");
}

/// Every built-in processor runs every class.
#[test]
fn every_processor_runs_every_class() {
    for (name, _) in BUILT_IN {
        let processor = Processor::built_in(name).unwrap();
        for class in crate::class::UopClass::ALL {
            assert!(
                processor.class(class).uops <= processor.core.window,
                "{class:?}"
            );
        }
    }
}
