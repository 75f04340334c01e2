//! Nodes of several processors, each with its own script.

use proptest::prelude::*;

use super::*;

/// Cycles of a slice.
const SLICE: u64 = 1_000;
/// The x2APIC's interrupt command register.
const COMMAND: u32 = 0x830;
const IPI: u8 = 0x51;

fn cluster(scripts: &[Vec<Op>]) -> (Node, Vec<Log>) {
    let logs: Vec<Log> = scripts.iter().map(|_| Log::default()).collect();
    let config = NodeConfig {
        vcpus: scripts.len() as u32,
        slice: Span::from_ns(SLICE),
        ..config()
    };
    let node = Node::new(&config, |parts| {
        let index = parts.index as usize;
        let mut fake = Fake::new(parts, scripts[index].clone(), logs[index].clone());
        fake.handlers.insert(NET_VECTOR, net_handler());
        Ok(Box::new(fake) as Box<dyn Vcpu + Send>)
    });
    (node.unwrap(), logs)
}

fn command(to: u64, low: u64) -> Op {
    Op::WriteMsr(COMMAND, to << 32 | low)
}

/// INIT and start-up to all other processors.
fn start_others() -> Vec<Op> {
    vec![command(0, 0xc_4500), command(0, 0xc_4601)]
}

/// A read of the clock, which the log records.
fn look() -> Op {
    Op::In(0x3fd, 1)
}

fn seen_at(log: &Log) -> Vec<Cycles> {
    seen(log).into_iter().map(|(at, _)| at).collect()
}

#[test]
fn others_wait_until_they_are_started_and_then_take_turns() {
    let work = |count| std::iter::repeat_n(Op::Work, count);
    let mut first = apic_on();
    first.extend(work(300));
    first.extend(start_others());
    first.push(look());
    first.extend(work(1_500));
    first.extend([look(), Op::Halt]);
    let other = vec![look(), Op::Work, look(), Op::Halt];
    let (mut node, logs) = cluster(&[first, other.clone(), other]);
    assert_eq!(node.run_until(ns(1)).unwrap(), NodeStop::Limit);
    assert_eq!(node.next_event(), Some(ns(1)));
    assert_eq!(node.run_until(ns(10_000)).unwrap(), NodeStop::Hung);
    // Sent by the 305th instruction, delivered at its end.
    assert_eq!(seen_at(&logs[1]), [305, 307]);
    assert_eq!(seen_at(&logs[2]), [305, 307]);
    assert_eq!(seen_at(&logs[0]), [305, 1_806]);
    assert_eq!(node.retired(), 1_808 + 2 * 4);
    assert_eq!(node.processor_state()[0].name, "vcpu0.rip");
}

#[test]
fn an_interrupt_is_seen_at_its_sender_s_time_or_one_s_own_if_that_is_later() {
    let mut first = apic_on();
    first.extend(start_others());
    first.push(Op::EnableInterrupts);
    first.extend(std::iter::repeat_n(Op::Work, 94));
    first.push(command(1, u64::from(IPI)));
    let at = first.len();
    first.extend([Op::Work, Op::Jump(at)]);
    let mut second = apic_on();
    second.extend([Op::EnableInterrupts, Op::Halt]);
    second.extend(std::iter::repeat_n(Op::Work, 50));
    second.push(command(0, u64::from(IPI)));
    let (mut node, logs) = cluster(&[first, idle_loop(second)]);
    node.run_until(ns(3 * SLICE)).unwrap();
    // Sent by the 101st instruction: by then, the second processor sleeps within the same slice.
    let ipi = Seen::Interrupt(IPI);
    assert_eq!(seen(&logs[1]), [(101, ipi.clone())]);
    // The answer arrives when the first processor has reached the slice's end.
    assert_eq!(seen(&logs[0]), [(SLICE, ipi)]);
}

#[test]
fn a_device_interrupts_the_processor_that_its_pin_names() {
    let mut first = apic_on();
    first.extend(start_others());
    first.extend(net_on(4));
    first.extend([
        Op::Store(0xfec0_0000, 4, 0x11 + 2 * NET_PIN),
        Op::Store(0xfec0_0010, 4, 1 << 24),
    ]);
    let mut second = apic_on();
    second.extend([Op::EnableInterrupts, Op::Halt]);
    let (mut node, logs) = cluster(&[idle_loop(first), idle_loop(second)]);
    node.deliver_frame(ns(4_321), vec![9; 60]);
    assert_eq!(node.run_until(ns(6_000)).unwrap(), NodeStop::Limit);
    let seen = |log: &Log| -> Vec<_> {
        let all = seen(log).into_iter();
        all.filter(|(_, seen)| matches!(seen, Seen::Interrupt(_)))
            .collect()
    };
    assert_eq!(seen(&logs[1]), [(4_321, Seen::Interrupt(NET_VECTOR))]);
    assert_eq!(seen(&logs[0]), []);
}

#[test]
fn an_init_of_the_first_processor_resets_the_node() {
    let mut first = apic_on();
    first.extend(start_others());
    let second = [apic_on(), vec![command(0, 0x4500), Op::Halt]].concat();
    let (mut node, _) = cluster(&[idle_loop(first), second]);
    assert_eq!(node.run_until(ns(10_000)).unwrap(), NodeStop::Reset);
}

/// Everything observable of a run of several processors.
type Observed = (Vec<Vec<(Cycles, Seen)>>, Vec<u8>, Vec<(Time, Vec<u8>)>, u64);

fn observe(scripts: &[Vec<Op>], cuts: &[u64], pauses: &[u64], end: u64) -> Observed {
    let (mut node, logs) = cluster(scripts);
    let (mut console, mut sent) = (Vec::new(), Vec::new());
    let mut pauses = pauses.iter().copied();
    node.pause_at(pauses.next().unwrap_or(u64::MAX));
    node.deliver_frame(ns(2_500), vec![3; 60]);
    for cut in cuts.iter().copied().chain([end]) {
        while node.run_until(ns(cut)).unwrap() == NodeStop::Paused {
            node.pause_at(pauses.next().unwrap_or(u64::MAX));
        }
        console.extend(node.take_console());
        sent.extend(node.take_frames());
    }
    let seen = logs.iter().map(seen).collect();
    (seen, console, sent, node.retired())
}

/// As [`observe`], by [`Node::run_ahead`] up to `limits`, which may lie within slices.
fn observe_ahead(scripts: &[Vec<Op>], limits: &[u64], end: u64) -> Observed {
    let (mut node, logs) = cluster(scripts);
    let (mut console, mut sent) = (Vec::new(), Vec::new());
    node.deliver_frame(ns(2_500), vec![3; 60]);
    for limit in limits {
        let limit = ns(*limit);
        node.run_ahead(limit, Span::from_ns(SLICE)).unwrap();
        assert!(
            node.next_event()
                .is_none_or(|next| next + Span::from_ns(SLICE) > limit)
                || node.devices.first_frame().is_some()
        );
        console.extend(node.take_console());
        sent.extend(node.take_frames());
    }
    node.run_until(ns(end)).unwrap();
    console.extend(node.take_console());
    sent.extend(node.take_frames());
    let seen = logs.iter().map(seen).collect();
    (seen, console, sent, node.retired())
}

/// Pieces of programs: work, timers, sleep, and interrupts to one, all and others.
fn piece() -> impl Strategy<Value = Vec<Op>> {
    prop_oneof![
        4 => (1usize..400).prop_map(|count| vec![Op::Work; count]),
        2 => (1u64..900).prop_map(|after| vec![Op::EnableInterrupts, Op::Arm(after), Op::Halt]),
        2 => Just(vec![look()]),
        2 => (0u64..3).prop_map(|to| vec![command(to, u64::from(IPI))]),
        1 => (2u64..4).prop_map(|to| vec![command(0, to << 18 | 0x61)]),
        1 => Just(vec![Op::DisableInterrupts, Op::Work, Op::EnableInterrupts]),
        1 => any::<u8>().prop_map(|byte| vec![Op::Out(0x3f8, 1, u32::from(byte))]),
        1 => (1u64..3).prop_map(|to| vec![command(to, 0x4500), command(to, 0x4601)]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    /// The division of time between slices, and pauses, do not change the cycles of events on any processor.
    #[test]
    fn cutting_time_between_slices_changes_nothing(
        programs in proptest::collection::vec(proptest::collection::vec(piece(), 1..12), 3),
        mut cuts in proptest::collection::vec(0u64..8, 0..6),
        mut pauses in proptest::collection::vec(0u64..4_000, 0..20),
        mut limits in proptest::collection::vec(0u64..8_000, 0..20),
    ) {
        let scripts: Vec<Vec<Op>> = programs.into_iter().enumerate().map(|(index, pieces)| {
            let mut script = apic_on();
            if index == 0 {
                script.extend(net_on(2));
                script.extend(start_others());
                script.extend(send(&[1; 60], 1));
            }
            script.extend(pieces.concat());
            idle_loop(script)
        }).collect();
        cuts.sort_unstable();
        pauses.sort_unstable();
        let cuts: Vec<u64> = cuts.into_iter().map(|cut| cut * SLICE).collect();
        let whole = observe(&scripts, &[], &[], 8 * SLICE);
        let cut = observe(&scripts, &cuts, &pauses, 8 * SLICE);
        prop_assert_eq!(&cut, &whole);
        limits.sort_unstable();
        prop_assert_eq!(observe_ahead(&scripts, &limits, 8 * SLICE), whole);
    }
}

/// A call's beginning and end have accounts of the same scope: all processors.
#[test]
fn at_a_probe_the_account_is_that_of_all_processors_before_it() {
    let first = vec![Op::Work, Op::Work, Op::Probe(5), Op::Work, Op::Halt];
    let (mut node, _) = cluster(&[first, vec![Op::Halt]]);
    let stop = node.run_until(ns(10_000)).unwrap();
    assert_eq!(stop, NodeStop::Probe { probe: 5, vcpu: 0 });
    let (probed, now) = (node.probed().unwrap(), node.account().unwrap());
    let before = probed.account.unwrap();
    assert_eq!((before.instructions, now.instructions), (2, 3));
    assert_eq!((before.caches, now.caches), (2 * CACHES, 2 * CACHES));
    assert_eq!(probed.at, 2);
}

/// A node's stops, its processors' observations, and the number of retired instructions.
type Sampled = (Vec<NodeStop>, Vec<Vec<(Cycles, Seen)>>, u64);

/// The observations of a node with these scripts.
fn sampled(scripts: &[Vec<Op>], every: Option<u64>, cuts: &[u64]) -> Sampled {
    let (mut node, logs) = cluster(scripts);
    if let Some(every) = every {
        node.sample_every(Span::from_ns(every));
    }
    let mut stops = Vec::new();
    for cut in cuts.iter().copied().chain([6_000]) {
        while let stop @ NodeStop::Sample { .. } = node.run_until(ns(cut)).unwrap() {
            stops.push(stop);
        }
    }
    let seen = logs.iter().map(seen).collect();
    (stops, seen, node.retired())
}

#[test]
fn samples_are_of_processors_that_execute_and_change_nothing() {
    let mut first = apic_on();
    first.extend(start_others());
    first.extend(std::iter::repeat_n(Op::Work, 3_000));
    first.push(look());
    let mut second = apic_on();
    second.extend(std::iter::repeat_n(Op::Work, 500));
    second.push(look());
    let scripts = [idle_loop(first), idle_loop(second)];
    let (none, plain, retired) = sampled(&scripts, None, &[]);
    assert_eq!(none, []);
    let (stops, seen, same) = sampled(&scripts, Some(100), &[]);
    assert_eq!((seen, same), (plain, retired));
    let of = |which: u32| -> Vec<u64> {
        let numbers = stops.iter().filter_map(|stop| match stop {
            NodeStop::Sample {
                number,
                count: 1,
                vcpu,
            } if *vcpu == which => Some(*number),
            _ => None,
        });
        numbers.collect()
    };
    // Each processor executes from its start until it sleeps, with a point each 100 cycles.
    assert_eq!(of(0), (0..=30).collect::<Vec<u64>>());
    assert_eq!(of(1), (1..=5).collect::<Vec<u64>>());
    // For many divisions into runs.
    let cuts: Vec<u64> = (1..60).map(|cut| cut * SLICE / 10).collect();
    assert_eq!(
        sampled(&scripts, Some(100), &[1_000, 2_000, 5_000]).0,
        stops
    );
    let mut cut = sampled(&scripts, Some(100), &cuts).0;
    let order = |stop: &NodeStop| match *stop {
        NodeStop::Sample { number, vcpu, .. } => (vcpu, number),
        _ => (0, 0),
    };
    cut.sort_by_key(order);
    let mut stops = stops;
    stops.sort_by_key(order);
    assert_eq!(cut, stops);
}
