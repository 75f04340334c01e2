//! Detours at given times: the processor loses exactly them.

use super::fake::{Op, Seen};
use super::*;
use crate::node::absence::Absence;

fn absent(from: u64, to: u64) -> Absence {
    Absence {
        processor: 0,
        at: ns(from),
        until: ns(to),
    }
}

#[test]
fn a_busy_processor_loses_exactly_its_detours() {
    let (mut node, _) = node(vec![Op::Work, Op::Jump(0)]);
    node.be_absent(&[absent(100, 300), absent(200, 400), absent(900, 950)]);
    let mut retired = Vec::new();
    for end in [100, 250, 400, 500, 1000] {
        node.run_until(ns(end)).unwrap();
        assert_eq!(node.now_cycles(), end);
        retired.push(node.retired());
    }
    assert_eq!(retired, [100, 100, 100, 200, 650]);
}

#[test]
fn detours_that_have_not_begun_can_be_replaced() {
    let retired = |first: &[Absence]| {
        let (mut node, _) = node(vec![Op::Work, Op::Jump(0)]);
        node.be_absent(first);
        node.run_until(ns(200)).unwrap();
        node.be_absent(&[absent(50, 60), absent(300, 400)]);
        node.run_until(ns(500)).unwrap();
        node.retired()
    };
    assert_eq!(retired(&[absent(50, 60), absent(250, 260)]), 390);
    assert_eq!(retired(&[absent(50, 60)]), 390);
}

#[test]
fn a_processor_that_never_returns_has_no_next_event_and_takes_no_interrupt() {
    let mut main = apic_on();
    main.push(Op::EnableInterrupts);
    let armed = main.len();
    main.extend([Op::Arm(100), Op::Halt, Op::Jump(armed)]);
    let (mut node, log) = node(main);
    let far = Time::from_ps(1 << 63);
    node.be_absent(&[Absence {
        processor: 0,
        at: ns(10_000),
        until: far,
    }]);
    node.run_until(ns(20_000)).unwrap();
    assert!(node.next_event().is_some_and(|next| next >= far));
    node.run_until(ns(1_000_000)).unwrap();
    let taken = seen(&log).into_iter();
    let taken = taken.filter(|(_, seen)| matches!(seen, Seen::Interrupt(TIMER_VECTOR)));
    let last = taken.map(|(at, _)| at).max();
    assert!(
        last.is_some_and(|at| (9_000..=10_000).contains(&at)),
        "{last:?}"
    );
}
