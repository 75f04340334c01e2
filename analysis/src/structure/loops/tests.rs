//! Loops of programs with known counts.

use belljar_job::Collector;

use super::{LoopFinder, LoopPart, LoopStructure, ProgramPart, When};
use crate::generated::Stencil;
use crate::ranks::{Ranks, WORLD};
use crate::structure::flow::Detail;

fn loops(stencil: Stencil) -> LoopStructure {
    let header = stencil.header();
    let mut communicators = Collector::new();
    let mut finder = LoopFinder::new(Detail::Peer, false);
    for event in stencil.events() {
        communicators.observe(&event, &header);
        finder.observe(&event);
    }
    let communicators = communicators.resolve();
    let mut measure = finder.measure(&communicators);
    for event in stencil.events() {
        measure.observe(&event);
    }
    measure.finish(&header, &communicators)
}

fn as_loop(part: &ProgramPart) -> &LoopPart {
    match part {
        ProgramPart::Loop(part) => part,
        ProgramPart::Sequence(_) => panic!("{part:?}"),
    }
}

#[test]
fn iterations_are_counted_exactly() {
    let stencil = Stencil {
        width: 4,
        height: 3,
        steps: 20,
        rounds: 5,
        report: 4,
    };
    let found = loops(stencil);
    assert_eq!((found.threads, found.calls), (12, stencil.calls()));
    let middle = found.classes.iter().find(|class| class.name == "ranks 5-6");
    let middle = middle.expect("the middle");
    let [
        ProgramPart::Sequence(begin),
        steps,
        ProgramPart::Sequence(end),
    ] = &middle.body[..]
    else {
        panic!("{middle:#?}");
    };
    assert_eq!(begin.calls[0].function, "MPI_Init");
    assert_eq!(end.calls[0].function, "MPI_Finalize");
    let steps = as_loop(steps);
    let counts = |part: &LoopPart| {
        let all = part.iterations;
        (part.entries.max, all.min, all.max, all.total)
    };
    assert_eq!(counts(steps), (1, 20, 20, 40));
    assert_eq!(steps.calls, 2 * (20 * (9 + 5) + 5));
    let [
        ProgramPart::Sequence(halo),
        rounds,
        ProgramPart::Sequence(report),
    ] = &steps.body[..]
    else {
        panic!("{steps:#?}");
    };
    assert_eq!((halo.calls.len(), &halo.when), (9, &When::Always));
    assert_eq!(counts(as_loop(rounds)), (20, 5, 5, 200));
    assert_eq!(as_loop(rounds).when, When::Always);
    assert_eq!(report.calls[0].text, "MPI_Reduce root 0");
    let When::Iterations { labels, of } = &report.when else {
        panic!("{report:?}");
    };
    assert_eq!(crate::structure::flow::label::words(labels), "1-17 step 4");
    assert_eq!(*of, Some(20));
    // Phases add up to the whole time and all calls.
    let times: u64 = middle.phases.iter().map(|phase| phase.time_ps).sum();
    let calls: u64 = middle.phases.iter().map(|phase| phase.calls).sum();
    assert_eq!((times, calls), (middle.time_ps, middle.calls));
    assert_eq!(middle.phases[1].time_ps, middle.outermost_ps);

    let mut text = Vec::new();
    found.write(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("LOOP (20 times)"), "{text}");
    assert!(
        text.contains("SEQ in iterations 1-17 step 4 of 20"),
        "{text}"
    );
}

/// Returns the loops of a single rank that makes these calls, one letter each.
fn of_calls(calls: &str) -> Vec<ProgramPart> {
    let mut ranks = Ranks::new(1);
    for (number, call) in (1u64..).zip(calls.chars()) {
        let times = (number * 1000, number * 1000 + 200);
        match call {
            'a' => ranks.call(0, times.0, times.1, "MPI_Barrier", &[WORLD]),
            _ => ranks.send(0, times, 0, 1),
        }
    }
    let trace = ranks.trace();
    let mut finder = LoopFinder::new(Detail::Peer, false);
    trace.events.iter().for_each(|event| finder.observe(event));
    let mut measure = finder.measure(&trace.communicators);
    trace.events.iter().for_each(|event| measure.observe(event));
    let found = measure.finish(&trace.header, &trace.communicators);
    found.classes[0].body.clone()
}

#[test]
fn loops_that_begin_with_one_call_are_told_apart() {
    let body = of_calls(&"aaaab".repeat(6));
    let outer = as_loop(&body[0]);
    assert_eq!(
        (outer.iterations.total, outer.when.clone()),
        (6, When::Always)
    );
    let inner = as_loop(&outer.body[0]);
    let all = inner.iterations;
    assert_eq!(
        (inner.entries.total, all.min, all.max, all.total),
        (6, 4, 4, 24)
    );
}

#[test]
fn what_happens_in_some_iterations_says_in_which() {
    let body = of_calls(&"aab".repeat(6));
    let all = as_loop(&body[0]);
    assert_eq!(all.iterations.total, 12);
    let ProgramPart::Sequence(even) = &all.body[1] else {
        panic!("{body:#?}");
    };
    let When::Iterations { labels, of } = &even.when else {
        panic!("{even:?}");
    };
    assert_eq!(crate::structure::flow::label::words(labels), "2-12 step 2");
    assert_eq!(*of, Some(12));
}

/// A loop of barriers. Before each one, rank 0 computes 1,000 cycles, and each other rank as much more as in `late`.
fn balance_of(late: &[u64]) -> Vec<super::LoopBalance> {
    let mut ranks = Ranks::new(late.len() as u32);
    for step in 1..=10u64 {
        for (rank, late) in late.iter().enumerate() {
            let entry = step * 100_000 - 1000 + late;
            ranks.call(rank, entry, step * 100_000, "MPI_Barrier", &[WORLD]);
        }
    }
    let trace = ranks.trace();
    let mut finder = LoopFinder::new(Detail::Peer, false);
    trace.events.iter().for_each(|event| finder.observe(event));
    let mut measure = finder.measure(&trace.communicators);
    trace.events.iter().for_each(|event| measure.observe(event));
    measure.finish(&trace.header, &trace.communicators).balance
}

#[test]
fn imbalance_is_what_equal_work_would_save() {
    let [even] = &balance_of(&[0, 0, 0, 0])[..] else {
        panic!("one loop");
    };
    assert_eq!((even.imbalance_ps, even.imbalance_percent), (0, 0.0));
    assert_eq!((even.path.clone(), even.threads), (vec!["MPI_Barrier"], 4));
    // Nine gaps of 99,000 cycles, and the additional computing in each.
    let [odd] = &balance_of(&[0, 0, 600, 0])[..] else {
        panic!("one loop");
    };
    assert_eq!(odd.most.rank, 2);
    let cycle = even.mean_ps / (9 * 99_000);
    assert_eq!(odd.max_ps - odd.min_ps, 9 * 600 * cycle);
    assert_eq!(odd.imbalance_ps, 9 * 450 * cycle);
    let expected = 100.0 * (450.0 / 99_600.0) * (4.0 / 3.0);
    assert!((odd.imbalance_percent - expected).abs() < 1e-6, "{odd:?}");
}
