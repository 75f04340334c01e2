//! The division of time into runs, and the function that runs them, have no effect on a node.

use proptest::prelude::*;

use super::fake::{Op, Seen};
use super::*;

/// Instructions of random programs. Programs may enable or disable interrupts; every one ends in an
/// idle loop.
fn op() -> impl Strategy<Value = Vec<Op>> {
    prop_oneof![
        4 => Just(vec![Op::Work; 7]),
        2 => (1u64..400).prop_map(|after| vec![Op::Arm(after)]),
        2 => Just(vec![Op::EnableInterrupts]),
        1 => Just(vec![Op::DisableInterrupts]),
        1 => Just(vec![Op::EnableInterrupts, Op::Arm(40), Op::Halt]),
        1 => (0u8..16).prop_map(|class| vec![Op::TaskPriority(class)]),
        1 => (32u64..250).prop_map(|vector| vec![Op::WriteMsr(0x83f, vector)]),
        1 => Just(vec![Op::Load(NET + 0x60, 4)]),
        1 => any::<u8>().prop_map(|byte| vec![Op::Out(0x3f8, 1, u32::from(byte))]),
        1 => Just(vec![Op::In(0x3fd, 1), Op::ReadMsr(0x838), Op::ReadMsr(0x777)]),
    ]
}

/// Everything observable of a run.
type Observed = (
    Vec<(Cycles, Seen)>,
    Vec<u8>,
    Vec<(Time, Vec<u8>)>,
    NetCounters,
    u64,
);

fn observe(program: &[Op], pace: u64, frames: &[(u64, u8)], cuts: &[u64], end: u64) -> Observed {
    observe_by(program, pace, frames, cuts, end, |node, limit| {
        node.run_until(limit).unwrap();
    })
}

/// Runs as a cluster does, by the fast path where possible.
fn run_with_others(node: &mut Node, limit: Time) {
    let (console, sent) = (node.take_console(), node.take_frames());
    assert!(console.is_empty() && sent.is_empty());
    if node.run_undisturbed(limit).unwrap() {
        assert_eq!(node.next_event(), Some(node.now()));
        assert!(node.take_console().is_empty() && node.take_frames().is_empty());
    } else {
        node.run_ahead(limit, Span::from_ms(1)).unwrap();
    }
}

fn observe_by(
    program: &[Op],
    pace: u64,
    frames: &[(u64, u8)],
    cuts: &[u64],
    end: u64,
    run: impl Fn(&mut Node, Time),
) -> Observed {
    let (mut node, log) = node_with(program.to_vec(), |fake| {
        fake.pace = pace;
        fake.handlers.insert(NET_VECTOR, net_handler());
    });
    let (mut console, mut sent, mut given) = (Vec::new(), Vec::new(), 0);
    for cut in cuts.iter().copied().chain([end]) {
        // A frame is delivered as late as possible: before the run that reaches its time.
        while let Some((at, byte)) = frames.get(given).filter(|(at, _)| *at < cut) {
            node.deliver_frame(ns(*at), vec![*byte; 60]);
            given += 1;
        }
        run(&mut node, ns(cut));
        console.extend(node.take_console());
        sent.extend(node.take_frames());
    }
    (
        seen(&log),
        console,
        sent,
        node.net_counters(),
        node.retired(),
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]
    /// The division of time into runs and the delay of deliveries do not change the cycles of
    /// events.
    #[test]
    fn cutting_time_changes_nothing(
        ops in proptest::collection::vec(op(), 1..40),
        pace in 1u64..5,
        mut frames in proptest::collection::vec((0u64..3_000, any::<u8>()), 0..12),
        mut cuts in proptest::collection::vec(0u64..4_000, 0..60),
    ) {
        let mut program = apic_on();
        program.extend(net_on(6));
        let middle = ops.len() / 2;
        program.extend(ops[..middle].concat());
        program.extend(send(&[1; 60], 1));
        program.extend(ops[middle..].concat());
        program.push(Op::TaskPriority(0));
        let program = idle_loop(program);
        frames.sort_by_key(|(at, _)| *at);
        // Ends of runs at events are the hardest case.
        cuts.extend(frames.iter().map(|(at, _)| *at));
        cuts.sort_unstable();
        let whole = observe(&program, pace, &frames, &[], 4_000);
        let cut = observe(&program, pace, &frames, &cuts, 4_000);
        prop_assert_eq!(&whole, &cut);
        let beside = observe_by(&program, pace, &frames, &cuts, 4_000, run_with_others);
        prop_assert_eq!(whole, beside);
    }
}

#[test]
fn what_is_due_at_a_limit_waits_for_what_is_delivered_there() {
    let run = |cuts: &[u64]| {
        let mut main = apic_on();
        main.extend(net_on(4));
        let armed_at = main.len() as u64;
        main.push(Op::Arm(1_000 - armed_at));
        observe(&idle_loop(main), 1, &[(1_000, 7)], cuts, 2_000)
    };
    let whole = run(&[]);
    assert_eq!(run(&[1_000]), whole);
    let taken: Vec<_> = whole
        .0
        .iter()
        .filter(|(_, seen)| matches!(seen, Seen::Interrupt(_)))
        .collect();
    assert_eq!(taken[0], &(1_000, Seen::Interrupt(NET_VECTOR)));
    assert_eq!(taken[1].1, Seen::Interrupt(TIMER_VECTOR));
}

#[test]
fn a_stretch_ends_where_anything_may_come() {
    let mut main = apic_on();
    main.extend(net_on(4));
    main.push(Op::EnableInterrupts);
    let armed_at = main.len() as u64;
    main.push(Op::Arm(2_000 - armed_at));
    main.extend(vec![Op::Work; 900]);
    main.extend(send(&[1; 60], 1));
    main.extend(vec![Op::Work; 9_000]);
    let echo = Span::from_ms(1);
    let (mut node, log) = node_with(main, |fake| {
        fake.handlers.insert(NET_VECTOR, net_handler());
    });
    assert!(!node.run_undisturbed(ns(100)).unwrap(), "nobody looked yet");
    node.run_ahead(ns(100), echo).unwrap();
    for cycle in 101..200 {
        assert!(node.run_undisturbed(ns(cycle)).unwrap());
        assert_eq!(node.now_cycles(), cycle);
    }
    assert!(
        !node.run_undisturbed(ns(2_001)).unwrap(),
        "the timer is due before"
    );
    // A delivery ends the fast path, too, and arrives at its time.
    node.deliver_frame(ns(300), vec![9; 60]);
    assert!(!node.run_undisturbed(ns(250)).unwrap());
    node.run_ahead(ns(250), echo).unwrap();
    assert!(node.run_undisturbed(ns(300)).unwrap());
    assert!(!node.run_undisturbed(ns(301)).unwrap());
    node.run_ahead(ns(400), echo).unwrap();
    assert!(seen(&log).contains(&(300, Seen::Interrupt(NET_VECTOR))));
    // A frame sent by the guest ends it, too, and can be taken.
    assert!(!node.run_undisturbed(ns(1_500)).unwrap());
    node.run_ahead(ns(1_500), echo).unwrap();
    assert!(!node.is_undisturbed());
    assert_eq!(node.take_frames().len(), 1);
    node.run_ahead(ns(1_600), echo).unwrap();
    assert!(node.run_undisturbed(ns(1_700)).unwrap());
    // A pause ends it, too.
    node.pause_at(5_000);
    assert!(!node.is_undisturbed());
}
