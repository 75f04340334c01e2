//! Processors of a node that share the path from memory.
#![allow(missing_docs)]

use belljar_cpu::{Exit, InstructionSet, Vcpu};
use belljar_exact::{Costs, Timing};
use belljar_exact_testing::bare::{DATA, Guest, assemble};
use belljar_pipeline::processor::Processor;
use iced_x86::code_asm::*;

/// Cycles of a span, and the numbers of spans before the measurement and in it.
const SPAN: u64 = 20_000;
const SETTLING: u64 = 10;
const MEASURED: u64 = 40;
/// Instructions for each line in [`reading`].
const INSTRUCTIONS: u64 = 4;

/// Small caches, and a memory that a core alone reads with 5 cycles a line, and all cores with 2.
fn processor() -> Processor {
    let built_in = include_str!("../../../../processors/zen5.toml");
    let lines = built_in.lines().filter_map(|line| {
        let key = line.split(' ').next().unwrap_or_default();
        match key {
            "l1d" => Some("l1d = { kib = 16, ways = 4 }"),
            "l2" => Some(
                "l2 = { kib = 64, ways = 8, latency = 10, line-ticks = 1000, miss-ticks = 1000 }",
            ),
            "l3" | "l4" => None,
            "memory" => Some(
                "memory = { latency = 300, line-ticks = 5000, miss-ticks = 5000, shared-ticks = 2000 }",
            ),
            _ => Some(line),
        }
    });
    let text: Vec<&str> = lines.collect();
    Processor::parse("small.toml", &text.join("\n")).unwrap()
}

/// Reads a mebibyte again and again, a line after the other.
fn reading() -> Vec<u8> {
    assemble(|a| {
        let mut again = a.create_label();
        a.mov(rsi, DATA)?;
        a.set_label(&mut again)?;
        a.mov(rax, qword_ptr(rsi))?;
        a.add(rsi, 64)?;
        a.and(rsi, (DATA as i32) | 0xf_ffff)?;
        a.jmp(again)
    })
}

/// Runs the span that ends at `until` on all processors, and shares what they moved.
fn run_span(guests: &mut [Guest], until: u64) {
    let mut moved = Vec::new();
    for guest in guests.iter_mut() {
        assert_eq!(guest.vcpu.run(until).unwrap(), Exit::Deadline);
        let used = guest.vcpu.path_use().unwrap();
        assert_eq!(used.since, until - SPAN);
        moved.push(used.lines);
    }
    for guest in guests {
        guest.vcpu.share_paths(until, &moved);
    }
}

/// Cycles of a line on each of so many processors that all read.
fn cycles_of_a_line(processors: usize) -> Vec<f64> {
    let timing = Timing {
        costs: Costs::default(),
        caches: None,
        processor: Some(processor().into()),
        has_memory: true,
    };
    let make = |_| Guest::with_timing(&reading(), timing.clone(), &InstructionSet::default());
    let mut guests: Vec<Guest> = (0..processors).map(make).collect();
    for number in 1..=SETTLING {
        run_span(&mut guests, number * SPAN);
    }
    let before: Vec<u64> = guests.iter().map(|guest| guest.vcpu.retired()).collect();
    for number in SETTLING + 1..=SETTLING + MEASURED {
        run_span(&mut guests, number * SPAN);
    }
    let lines = |(guest, before): (&Guest, u64)| (guest.vcpu.retired() - before) / INSTRUCTIONS;
    let each = guests.iter().zip(before).map(lines);
    each.map(|lines| (MEASURED * SPAN) as f64 / lines as f64)
        .collect()
}

/// A core alone moves a line in five cycles from memory and in another from the second level. All together move one in
/// two cycles.
#[test]
fn memory_saturates_as_processors_read_at_once() {
    for (processors, expected) in [(1, 6.0), (2, 6.0), (4, 8.0), (8, 16.0)] {
        for cycles in cycles_of_a_line(processors) {
            let apart = cycles / expected - 1.0;
            assert!(
                apart.abs() < 0.05,
                "{cycles:.2} cycles a line on {processors} processors, not {expected}"
            );
        }
    }
}
