//! Values of instances with known functions.

use super::*;

fn values(of: impl Fn(f64, u32, u32) -> f64, turns: fn(u32) -> u32) -> Values {
    let mut samples = Vec::new();
    for (run, ranks) in [4_u32, 8, 16].into_iter().enumerate() {
        let count = turns(ranks);
        for instance in 0..count {
            samples.push(Sample {
                run,
                ranks: f64::from(ranks),
                size: 1.0,
                instance: (instance, count),
                turn: instance,
                place: RelationArguments {
                    rank: 0,
                    ranks,
                    turn: 0,
                },
                value: of(f64::from(ranks), instance, count),
            });
        }
    }
    Values::of(&samples, true, Hint::default()).unwrap()
}

fn at(values: &Values, ranks: f64, instance: (u32, u32)) -> f64 {
    let turn = instance.0;
    values.at(EvaluationPoint {
        ranks,
        size: 1.0,
        instance,
        turn,
        place: RelationArguments {
            rank: 0,
            ranks: ranks as u32,
            turn: 0,
        },
    })
}

#[test]
fn a_spread_has_the_mean_and_the_tail_of_its_samples() {
    let samples = (0..1000).map(|at| Sample {
        run: 0,
        ranks: 4.0,
        size: 1.0,
        instance: (at, 1000),
        turn: 0,
        place: RelationArguments {
            rank: 0,
            ranks: 4,
            turn: 0,
        },
        value: if at % 100 == 7 { 50.0 } else { 1.0 },
    });
    let samples: Vec<Sample> = samples.collect();
    let mean = Values::Same(Fitted::constant(1.49));
    let spread = Spread::of(&samples, &mean);
    let all: Vec<f64> = (0..100_000)
        .map(|number| 1.49 * spread.at(number))
        .collect();
    let found = all.iter().sum::<f64>() / all.len() as f64;
    assert!((found / 1.49 - 1.0).abs() < 0.05, "{found}");
    assert!(all.iter().any(|it| *it > 20.0));
    assert_eq!(spread.at(5), spread.at(5));
    let same: Vec<Sample> = samples
        .iter()
        .map(|it| Sample { value: 3.0, ..*it })
        .collect();
    assert_eq!(Spread::of(&same, &mean), Spread::default());
}

#[test]
fn values_of_turns_and_profiles_continue() {
    let doubling = values(
        |_, turn, _| 8.0 * f64::from(1 << turn),
        |ranks| ranks.ilog2(),
    );
    assert!(
        (at(&doubling, 64.0, (5, 6)) - 256.0).abs() < 1e-6,
        "{doubling:?}"
    );
    let halves = values(|ranks, turn, _| 4096.0 / ranks / f64::from(turn + 1), |_| 4);
    assert!(
        (at(&halves, 64.0, (1, 4)) - 32.0).abs() < 1e-6,
        "{halves:?}"
    );
    let same = values(|ranks, _, _| 100.0 / ranks, |_| 50);
    assert!(matches!(same, Values::Same(_)), "{same:?}");
    // Levels of a grid, down and up again in each cycle.
    let levels = [32768.0, 8192.0, 2048.0, 2048.0, 8192.0, 32768.0];
    let cycles = values(
        |ranks, turn, _| levels[turn as usize % 6] / ranks,
        |ranks| 60 * ranks,
    );
    assert!(
        matches!(&cycles, Values::Periodic(parts) if parts.len() == 6),
        "{cycles:?}"
    );
    assert!((at(&cycles, 64.0, (61, 3840)) - 128.0).abs() < 1e-6);
    // Decreases over the run: too many turns for separate functions.
    let falling = values(
        |ranks, turn, count| 1e6 / ranks * f64::from(count - turn) / f64::from(count),
        |ranks| 100 * ranks,
    );
    let Values::Profile(..) = &falling else {
        panic!("{falling:?}");
    };
    let early = at(&falling, 64.0, (100, 6400));
    assert!((early / (1e6 / 64.0) - 0.985).abs() < 0.02, "{early}");
}
