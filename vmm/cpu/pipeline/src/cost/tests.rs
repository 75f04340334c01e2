//! Properties of costs: total, deterministic, and monotone.

use iced_x86::{Decoder, Instruction};
use proptest::prelude::*;

use super::*;
use crate::processor::Processor;

fn decoded(bytes: &[u8]) -> Vec<Instruction> {
    Decoder::with_ip(64, bytes, 0x40_0000, 0)
        .into_iter()
        .take(64)
        .collect()
}

fn schedule() -> Schedule {
    Schedule::new(Processor::built_in("zen5").unwrap().into())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    /// Any bytes decode to blocks with a cost, which the state that the core has from other paths does not change.
    #[test]
    fn any_bytes_have_a_cost_that_repeats(
        first in prop::collection::vec(any::<u8>(), 1..120),
        second in prop::collection::vec(any::<u8>(), 1..120),
        mispredicted in any::<bool>(),
    ) {
        let blocks = [first, second].map(|bytes| TimingBlock::new(&decoded(&bytes)));
        let path = [
            PathBlock { block: &blocks[0], mispredicted },
            PathBlock { block: &blocks[1], mispredicted: false },
        ];
        let mut used = schedule();
        let once = cost(&mut used, &path);
        prop_assert!(once >= blocks[1].len() as u64);
        cost(&mut used, &path[..1]);
        cost(&mut used, &[path[0]; 12]);
        prop_assert_eq!(cost(&mut used, &path), once);
        prop_assert_eq!(cost(&mut schedule(), &path), once);
    }

    /// The time of a path never decreases with further instructions.
    #[test]
    fn time_never_runs_backwards(bytes in prop::collection::vec(any::<u8>(), 1..200)) {
        let block = TimingBlock::new(&decoded(&bytes));
        let mut schedule = schedule();
        let mut last = schedule.ticks();
        for op in &block.ops {
            schedule.step(op);
            let now = schedule.ticks();
            prop_assert!(now >= last);
            last = now;
        }
    }
}

#[test]
fn a_period_needs_the_same_blocks_and_predictions() {
    let nop = TimingBlock::new(&decoded(&[0x90]));
    let other = TimingBlock::new(&decoded(&[0x90, 0x90]));
    let of = |block, mispredicted| PathBlock {
        block,
        mispredicted,
    };
    let (a, b) = (of(&nop, false), of(&other, false));
    assert_eq!(period(&[a, a, a]), Some(1));
    assert_eq!(period(&[a, b, a, b]), Some(2));
    assert_eq!(period(&[a, b, a, b, a]), Some(2));
    assert_eq!(period(&[a, b, b, a]), None);
    assert_eq!(period(&[a]), None);
    // Three blocks of which only one repeats: the repeated part must be long enough.
    let long = TimingBlock::new(&decoded(&[0x90; 40]));
    let c = of(&long, false);
    assert_eq!(period(&[a, b, a]), None);
    assert_eq!(period(&[c, a, b, c]), Some(3));
    assert_eq!(period(&[a, of(&nop, true), a]), None);
    // The last prediction is not known yet.
    assert_eq!(period(&[of(&nop, true), of(&nop, true), a]), Some(1));
}

/// The rounds of a loop cost as much as its mean, however many cycles a round takes.
#[test]
fn a_loop_costs_the_mean_of_its_rounds() {
    // Nine independent moves: eight in a cycle.
    let block = TimingBlock::new(&decoded(&[0x48, 0x89, 0xd8].repeat(9)));
    let mut straight = block.clone();
    straight.end = straight.rip;
    let one = PathBlock {
        block: &straight,
        mispredicted: false,
    };
    assert_eq!(cost(&mut schedule(), &[one; 12]), 9_000 / 8);
}
