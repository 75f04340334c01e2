//! Fits of values with known functions.

use proptest::prelude::*;

use super::*;

fn points(of: impl Fn(f64, f64) -> f64, ranks: &[f64], sizes: &[f64]) -> Vec<Point> {
    let all = ranks
        .iter()
        .flat_map(|ranks| sizes.iter().map(move |size| (*ranks, *size)));
    all.map(|(ranks, size)| Point {
        ranks,
        size,
        value: of(ranks, size),
    })
    .collect()
}

const RANKS: [f64; 5] = [2.0, 4.0, 8.0, 16.0, 32.0];
const SIZES: [f64; 4] = [100.0, 200.0, 400.0, 800.0];

fn predicts(of: fn(f64, f64) -> f64) {
    let fitted = fit(&points(of, &RANKS, &SIZES)).unwrap();
    for (ranks, size) in [(64.0, 800.0), (128.0, 1600.0), (3.0, 150.0)] {
        let (is, was) = (of(ranks, size), fitted.at(ranks, size));
        assert!((was / is - 1.0).abs() < 1e-6, "{fitted}: {was}, {is}");
        let Band { from, to, .. } = fitted.band(ranks, size).unwrap();
        assert!(from <= was && was <= to, "{from} {was} {to}");
    }
}

#[test]
fn functions_are_found_again() {
    predicts(|_, _| 4096.0);
    predicts(|ranks, _| 10.0 + 3.0 * ranks.log2());
    predicts(|ranks, size| 5e6 * size * size / ranks);
    predicts(|ranks, size| 100.0 + 7.0 * ranks.log2() + 0.5 * size);
    predicts(|ranks, size| (-0.0001 * ranks * size + 0.01 * ranks + 0.003 * size + 2.0).exp());
    predicts(|ranks, size| 3.0 + ranks * ranks + 0.1 * size * ranks + size);
}

#[test]
fn from_three_sizes_a_power_and_from_one_a_constant() {
    let strong = fit(&points(|ranks, _| 1e9 / ranks, &[4.0, 8.0, 16.0], &[1.0])).unwrap();
    assert!(
        (strong.at(64.0, 1.0) / 1e9 * 64.0 - 1.0).abs() < 1e-9,
        "{strong}"
    );
    assert_eq!(strong.beyond(64.0, 1.0), 4.0);
    assert_eq!(strong.beyond(5.0, 1.0), 1.0);
    let single = fit(&points(|_, _| 12.0, &[4.0], &[1.0])).unwrap();
    assert_eq!((single.at(99.0, 3.0), single.form), (12.0, Form::Constant));
}

#[test]
fn noise_is_in_the_band_and_does_not_choose_a_polynomial() {
    let noisy = |ranks: f64, size: f64| {
        let wave = 1.0 + 0.02 * (ranks * 12.9898 + size * 78.233).sin();
        (50.0 + 4.0 * size / ranks.sqrt()) * wave
    };
    let fitted = fit(&points(noisy, &RANKS, &SIZES)).unwrap();
    assert!(!matches!(fitted.form, Form::Polynomial { .. }), "{fitted}");
    let error = fitted.error.unwrap();
    assert!(error > 0.001 && error < 0.03, "{error}");
    let Band {
        from: low,
        to: high,
        ..
    } = fitted.band(64.0, 800.0).unwrap();
    let value = noisy(64.0, 800.0);
    assert!(
        (low..high).contains(&value),
        "{low} {value} {high}: {fitted}"
    );
    assert!(high / low < 1.3, "{low} {high}");
}

#[test]
fn zeros_and_bad_points_are_no_harm() {
    let zeros = fit(&points(|_, _| 0.0, &RANKS, &SIZES)).unwrap();
    assert_eq!(zeros.at(64.0, 1.0), 0.0);
    assert_eq!(fit(&[]), Err(FitError::NoPoints));
    let bad = Point {
        ranks: 0.0,
        size: 1.0,
        value: 1.0,
    };
    assert_eq!(fit(&[bad]), Err(FitError::Impossible(1)));
    let bad = Point {
        ranks: 1.0,
        size: 1.0,
        value: f64::NAN,
    };
    assert_eq!(fit(&[bad]), Err(FitError::Impossible(1)));
}

#[test]
fn fits_have_no_noise_of_their_calculation() {
    for value in [2.0, 20.0, 65536.0, 1e6 / 3.0] {
        let points = [2.0, 3.0, 4.0].map(|ranks| Point {
            ranks,
            size: 1.0,
            value,
        });
        let fitted = fit(&points).unwrap();
        assert_eq!(fitted.at(7.0, 1.0), significant(value, DIGITS));
        assert_eq!((fitted.error, fitted.deviation), (Some(0.0), 0.0));
        let words = fitted.to_string();
        assert!(words.len() < 12, "{words}");
    }
    let linear = [2.0, 3.0, 4.0, 5.0, 6.0].map(|ranks| Point {
        ranks,
        size: 1.0,
        value: 3.0 * ranks + 7.0,
    });
    assert_eq!(fit(&linear).unwrap().to_string(), "7 + 3 * ranks");
}

#[test]
fn no_value_and_no_band_is_below_zero() {
    for values in [
        [100.0, 60.0, 5.0],
        [4e6, 1e6, 9e6],
        [0.0, 3.0, 1.0],
        [1e9, 2e8, 1e3],
        [1e3, 2e8, 1e9],
    ] {
        let points = [4.0, 8.0, 16.0].iter().zip(values);
        let points: Vec<Point> = points
            .map(|(ranks, value)| Point {
                ranks: *ranks,
                size: 1.0,
                value,
            })
            .collect();
        let fitted = fit(&points).unwrap();
        for doubling in 0..=20 {
            let ranks = f64::from(1 << doubling);
            let value = fitted.at(ranks, 1.0);
            let band = fitted.band(ranks, 1.0).unwrap();
            assert!(value >= 0.0, "{fitted} at {ranks}: {value}");
            assert!(
                band.from >= 0.0 && band.from <= value && value <= band.to,
                "{fitted} at {ranks}: {value}, {band:?}"
            );
        }
    }
}

#[test]
fn an_exact_count_is_cut_at_zero_and_says_so() {
    let fitted = fit(&points(|ranks, _| ranks - 4.0, &RANKS[1..], &[1.0])).unwrap();
    assert!((fitted.at(64.0, 1.0) - 60.0).abs() < 1e-9, "{fitted}");
    assert_eq!(fitted.at(2.0, 1.0), 0.0);
    assert!(fitted.is_cut(2.0, 1.0) && !fitted.is_cut(4.0, 1.0));
    let band = fitted.band(2.0, 1.0).unwrap();
    assert_eq!((band.from, band.to, band.cut), (0.0, 0.0, true));
}

#[test]
fn three_points_pay_for_growth_and_their_band_holds_other_forms() {
    let few = |values: [f64; 3]| {
        let points = [4.0, 8.0, 16.0].iter().zip(values);
        let points = points.map(|(ranks, value)| Point {
            ranks: *ranks,
            size: 1.0,
            value,
        });
        fit(&points.collect::<Vec<_>>()).unwrap()
    };
    // A line with noise, which ranks times their logarithm explain nearly as well.
    let line = few([40.5, 78.0, 166.0]);
    let grows = line.at(1024.0, 1.0) / line.at(16.0, 1.0);
    assert!(grows <= 64.0 * 1.1, "{line}");
    let band = line.band(1024.0, 1.0).unwrap();
    assert!(band.to >= 20_000.0, "{line}: {band:?}");
    assert!(line.is_sparse());
    // An exact form of three points is selected.
    let exact = few([8.0, 24.0, 64.0]);
    assert!((exact.at(64.0, 1.0) / 384.0 - 1.0).abs() < 1e-9, "{exact}");
}

#[test]
fn errors_of_one_point_are_unknown() {
    let single = fit(&points(|_, _| 12.0, &[4.0], &[1.0])).unwrap();
    assert_eq!((single.error, single.band(4.0, 1.0)), (None, None));
}

/// Synthetic measurements: one to six numbers of ranks, one or two sizes, and values in the ranges of times, bytes and counts.
fn measurements() -> impl Strategy<Value = Vec<Point>> {
    let value = prop_oneof![
        Just(0.0),
        1.0..1e3_f64,
        (0.0..18.0_f64).prop_map(|it| 10_f64.powf(it).round()),
    ];
    let point = (1_u32..200, prop_oneof![Just(1.0), Just(64.0)], value);
    proptest::collection::vec(point, 1..7).prop_map(|all| {
        all.into_iter()
            .map(|(ranks, size, value)| Point {
                ranks: f64::from(ranks),
                size,
                value,
            })
            .collect()
    })
}

proptest! {
    #[test]
    fn made_up_measurements_make_no_value_below_zero(points in measurements()) {
        let fitted = fit(&points).unwrap();
        for doubling in 0..=20 {
            for size in [0.5, 1.0, 64.0, 4096.0] {
                let ranks = f64::from(1 << doubling);
                let value = fitted.at(ranks, size);
                prop_assert!(value >= 0.0, "{fitted} at {ranks}, {size}: {value}");
                let Some(band) = fitted.band(ranks, size) else {
                    prop_assert!(points.len() == 1);
                    continue;
                };
                prop_assert!(band.from >= 0.0 && band.from <= band.to, "{fitted} at {ranks}, {size}: {band:?}");
                prop_assert!(band.from <= value && value <= band.to, "{fitted} at {ranks}, {size}: {value}, {band:?}");
            }
        }
    }

    #[test]
    fn three_points_of_one_measurement_grow_no_faster_than_their_band_says(values in [1.0..1e9_f64, 1.0..1e9, 1.0..1e9]) {
        let points = [4.0, 8.0, 16.0].iter().zip(values);
        let points: Vec<Point> = points.map(|(ranks, value)| Point { ranks: *ranks, size: 1.0, value }).collect();
        let fitted = fit(&points).unwrap();
        prop_assert!(fitted.is_sparse());
        // Products of a power and a logarithm are penalised: they explain the points exactly, or there is no simpler form half as
        // good.
        if let Form::Alone(term) | Form::One(term) = fitted.form
            && term.ranks.exponent != 0.0
            && term.ranks.logarithm > 0
        {
            let simpler = |it: &Form| match it {
                Form::Alone(term) | Form::One(term) => term.ranks.logarithm == 0 || term.ranks.exponent == 0.0,
                // Forms of more coefficients are dearer: they may be better than a product, but not by enough.
                _ => *it == Form::Constant,
            };
            let other = fit_among(&points, simpler).unwrap();
            prop_assert!(fitted.error.unwrap() <= other.error.unwrap(), "{fitted} and {other}");
        }
    }
}
