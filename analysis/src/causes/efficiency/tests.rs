//! Efficiencies of traces, computed by hand.

use belljar_tracer::scripted::int;

use super::{Efficiency, EfficiencyCollector, Scaling};
use crate::generated::ranks::{BUFFER, BYTE, Ranks, WORLD};

fn efficiency(ranks: Ranks) -> Efficiency {
    let trace = ranks.trace();
    let mut collector = EfficiencyCollector::new(&trace.header);
    trace
        .events
        .iter()
        .for_each(|event| collector.observe(event));
    collector.finish()
}

/// Ranks that work for this long between MPI_Init, until 1000 at the latest, and a barrier; MPI_Finalize follows at
/// once.
fn work(each: &[u64]) -> Ranks {
    let mut ranks = Ranks::new(each.len() as u32);
    let last = 1000 + each.iter().max().unwrap() + 200;
    for (rank, work) in each.iter().enumerate() {
        ranks.call(rank, 300, 1000, "MPI_Init", &[0, 0]);
        ranks.call(rank, 1000 + work, last, "MPI_Barrier", &[WORLD]);
        ranks.call(rank, last + 50, last + 950, "MPI_Finalize", &[]);
    }
    ranks
}

#[test]
fn parallel_efficiency_is_load_balance_times_communication() {
    // Useful: 1050, 2050, 3750 and 3750 of 4000 + 50: the main part is from 1000 to 5000.
    let found = efficiency(work(&[1000, 2000, 3700, 3700]));
    assert_eq!((found.processes, found.main_ps), (4, 3_950_000));
    assert_eq!(found.most_useful_ps, 3_750_000);
    assert_eq!(found.useful_ps, 10_600_000);
    assert_eq!(found.load_balance, Some(0.706_667));
    assert_eq!(found.communication, Some(0.949_367));
    assert_eq!(found.parallel, Some(0.670_886));
    let product = found.load_balance.unwrap() * found.communication.unwrap();
    assert!((product - found.parallel.unwrap()).abs() < 2e-6);
    assert!(found.warnings.is_empty(), "{:?}", found.warnings);
    assert_eq!((found.serialisation, found.transfer), (None, None));
}

#[test]
fn communication_is_serialisation_times_transfer() {
    let mut found = efficiency(work(&[1000, 2000, 3700, 3700]));
    found.on_ideal(3_800_000);
    let product = found.serialisation.unwrap() * found.transfer.unwrap();
    assert!((product - found.communication.unwrap()).abs() < 2e-6);
    assert!(found.warnings.is_empty());
    // Out of range, which yields a warning.
    for (ideal, words) in [(3_960_000, "transfer"), (3_000_000, "serialisation")] {
        let mut found = efficiency(work(&[1000, 2000, 3700, 3700]));
        found.on_ideal(ideal);
        assert!(found.warnings[0].contains(words), "{:?}", found.warnings);
    }
}

#[test]
fn scaling_is_recognised_or_asked_for() {
    let one = efficiency(work(&[8000]));
    let strong = efficiency(work(&[4100, 4100]));
    let weak = efficiency(work(&[8200, 8200]));
    assert_eq!(one.scaling(&strong), Some(Scaling::Strong));
    assert_eq!(one.scaling(&weak), Some(Scaling::Weak));
    assert_eq!(one.scaling(&efficiency(work(&[5900, 5900]))), None);
    assert_eq!(strong.scaling(&strong.clone()), None);
    let mut compared = strong.clone();
    compared.compare(&one, Scaling::Strong);
    // 8050 over 8300.
    assert_eq!(compared.computation_scaling, Some(0.969_88));
    let global = compared.parallel.unwrap() * 0.969_88;
    assert!((compared.global.unwrap() - global).abs() < 2e-6);
    let mut compared = weak.clone();
    compared.compare(&one, Scaling::Weak);
    // 8050 over 8250.
    assert_eq!(compared.computation_scaling, Some(0.975_758));
}

#[test]
fn a_trace_without_start_and_end_says_so() {
    let mut ranks = Ranks::new(2);
    let send = [BUFFER, int(4), BYTE, int(1), int(7), WORLD];
    ranks.call(0, 1000, 1200, "MPI_Send", &send);
    ranks.call(0, 2200, 2400, "MPI_Send", &send);
    let found = efficiency(ranks);
    assert_eq!((found.main_ps, found.useful_ps), (1_400_000, 1_000_000));
    assert_eq!(found.warnings.len(), 1);
    assert!(found.warnings[0].starts_with("1 process does not start"));
}
