//! Detours take time only from executing processors, for any division of time into runs.

use belljar_sim::Distribution;
use proptest::prelude::*;

use super::fake::{Op, Seen};
use super::*;
use crate::node::noise::{NoiseCounts, NoiseSource};

/// A detour of 200 ns each microsecond.
fn regular() -> NoiseSource {
    NoiseSource {
        period: Span::from_us(1),
        spacing: Distribution::Fixed,
        lengths: vec![Span::from_ns(200)],
        distribution: Distribution::Fixed,
        is_synchronised: false,
        number: 0,
    }
}

fn irregular() -> NoiseSource {
    NoiseSource {
        period: Span::from_ns(700),
        spacing: Distribution::Exponential,
        lengths: vec![Span::from_ns(30), Span::from_ns(90)],
        distribution: Distribution::Uniform,
        is_synchronised: true,
        number: 1,
    }
}

/// A program that works forever.
fn busy() -> Vec<Op> {
    vec![Op::Work, Op::Jump(0)]
}

fn noisy(main: Vec<Op>, sources: &[NoiseSource], index: u64) -> (Node, Log) {
    let (mut node, log) = node(main);
    node.begin_noise(sources, Seed(5), index, Time::ZERO);
    (node, log)
}

fn counts(node: &Node) -> NoiseCounts {
    node.noise().unwrap()
}

#[test]
fn a_busy_processor_loses_what_detours_take_and_the_clock_does_not() {
    let (mut node, _) = noisy(busy(), &[regular()], 0);
    node.run_until(ns(1_000_000)).unwrap();
    assert_eq!(node.now_cycles(), 1_000_000);
    let NoiseCounts { detours, stolen } = counts(&node);
    assert!((999..=1000).contains(&detours), "{detours}");
    assert!((199_800..=200_000).contains(&stolen), "{stolen}");
    assert_eq!(node.retired(), 1_000_000 - stolen);
    let (mut quiet, _) = self::node(busy());
    quiet.run_until(ns(1_000_000)).unwrap();
    assert_eq!((quiet.retired(), quiet.noise()), (1_000_000, None));
}

#[test]
fn a_processor_that_sleeps_loses_nothing() {
    let mut main = apic_on();
    let asleep = main.len();
    main.extend([Op::Halt, Op::Jump(asleep)]);
    let (mut node, _) = noisy(main, &[regular()], 0);
    node.run_until(ns(1_000_000)).unwrap();
    let NoiseCounts { detours, stolen } = counts(&node);
    assert!(detours <= 1 && stolen <= 200, "{detours} {stolen}");
}

#[test]
fn a_timer_that_is_due_in_a_detour_waits_for_its_end() {
    let mut main = apic_on();
    main.push(Op::EnableInterrupts);
    let armed = main.len();
    for after in [290, 331, 173, 411, 127, 53] {
        main.extend([Op::Arm(after), Op::Halt]);
    }
    main.push(Op::Jump(armed));
    let (mut node, log) = noisy(main, &[regular()], 0);
    node.run_until(ns(1_000_000)).unwrap();
    let taken = seen(&log).into_iter();
    let taken = taken.filter(|(_, seen)| matches!(seen, Seen::Interrupt(TIMER_VECTOR)));
    let mut phases: Vec<u64> = taken.map(|(at, _)| at % 1000).collect();
    let all = phases.len();
    assert!(all > 2000, "{all}");
    phases.sort_unstable();
    phases.push(phases[0] + 1000);
    let widest = phases
        .windows(2)
        .max_by_key(|pair| pair[1] - pair[0])
        .unwrap();
    assert!((190..=230).contains(&(widest[1] - widest[0])), "{widest:?}");
    let end = widest[1] % 1000;
    let late = phases.iter().filter(|phase| **phase % 1000 == end).count();
    assert!(late > all / 20, "{late} of {all} came when a detour ended");
}

#[test]
fn nodes_have_detours_at_times_of_their_own_unless_they_are_synchronised() {
    let retired = |source: &NoiseSource, index| {
        let (mut node, _) = noisy(busy(), std::slice::from_ref(source), index);
        let each = (1..50).map(|step| {
            node.run_until(ns(137 * step)).unwrap();
            node.retired()
        });
        each.collect::<Vec<_>>()
    };
    assert_eq!(retired(&regular(), 1), retired(&regular(), 1));
    assert_ne!(retired(&regular(), 1), retired(&regular(), 2));
    let together = NoiseSource {
        is_synchronised: true,
        ..regular()
    };
    assert_eq!(retired(&together, 1), retired(&together, 2));
}

#[test]
fn saved_detours_continue_where_they_were() {
    let (mut node, _) = noisy(busy(), &[regular(), irregular()], 0);
    node.run_until(ns(10_050)).unwrap();
    let saved = belljar_sim::encode(&node.save_noise()).unwrap();
    let (mut again, _) = self::node(busy());
    again.run_until(ns(10_050)).unwrap();
    again.noise = belljar_sim::decode(&saved).unwrap();
    let before = (node.retired(), again.retired());
    for one in [&mut node, &mut again] {
        one.run_until(ns(100_000)).unwrap();
    }
    assert_eq!(counts(&again), counts(&node));
    assert_eq!(node.retired() - before.0, again.retired() - before.1);
}

#[test]
fn detours_that_cannot_be_drawn_are_refused() {
    let (node, _) = noisy(busy(), &[regular()], 0);
    let (noise, frequency) = (node.noise.unwrap(), node.frequency);
    assert!(noise.is_sound(&[0], frequency) && !noise.is_sound(&[0, 0], frequency));
    assert!(
        !noise.is_sound(&[1_000_000], frequency),
        "it would have to catch up"
    );
    let spoil: [fn(&mut NoiseSource); 4] = [
        |it| it.period = Span::ZERO,
        |it| it.lengths.clear(),
        |it| it.distribution = Distribution::Pareto(0.5),
        |it| it.spacing = Distribution::Pareto(f64::NAN),
    ];
    for spoil in spoil {
        let mut source = regular();
        spoil(&mut source);
        assert!(!source.is_sound());
        let (node, _) = noisy(busy(), std::slice::from_ref(&source), 0);
        let noise = node.noise.unwrap();
        assert!(noise.is_sound(&[0], node.frequency), "it is left out");
    }
}

/// A short detour within a long one is taken, whether or not a run ends between them.
#[test]
fn overlapping_detours_are_counted_however_time_is_cut() {
    let often = NoiseSource {
        period: Span::from_ns(90),
        lengths: vec![Span::from_ns(20)],
        ..irregular()
    };
    let observe = |step: u64| {
        let (mut node, _) = noisy(busy(), &[regular(), often.clone()], 0);
        for cut in 1..=30_000 / step {
            node.run_until(ns(cut * step)).unwrap();
        }
        (counts(&node), node.retired())
    };
    let whole = observe(30_000);
    for step in [1, 7, 24, 60, 100] {
        let step = if 30_000 % step == 0 { step } else { 30 };
        assert_eq!(observe(step), whole, "{step}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]
    #[test]
    fn cutting_time_changes_no_detour(
        work in proptest::collection::vec(0usize..300, 1..12),
        pace in 1u64..5,
        mut cuts in proptest::collection::vec(0u64..9_000, 0..60),
    ) {
        let mut main = apic_on();
        main.push(Op::EnableInterrupts);
        for length in work {
            main.extend(vec![Op::Work; length]);
            main.extend([Op::Arm(97), Op::Halt, Op::Out(0x3f8, 1, 65)]);
        }
        let asleep = main.len();
        main.extend([Op::Halt, Op::Jump(asleep)]);
        cuts.sort_unstable();
        let observe = |cuts: &[u64], ahead: bool| {
            let (mut node, log) = node_with(main.clone(), |fake| fake.pace = pace);
            node.begin_noise(&[regular(), irregular()], Seed(5), 0, Time::ZERO);
            for cut in cuts.iter().copied().chain([9_000]) {
                if !ahead || !node.run_undisturbed(ns(cut)).unwrap() {
                    match ahead {
                        true => node.run_ahead(ns(cut), Span::from_ms(1)),
                        false => node.run_until(ns(cut)),
                    }.unwrap();
                }
            }
            node.run_until(ns(9_000)).unwrap();
            (seen(&log), node.retired(), counts(&node), node.take_console())
        };
        let whole = observe(&[], false);
        prop_assert_eq!(&whole, &observe(&cuts, false));
        prop_assert_eq!(whole, observe(&cuts, true));
    }
}
