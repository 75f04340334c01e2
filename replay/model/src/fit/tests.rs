//! Fits of values whose functions are known.

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
        let (low, high) = fitted.band(ranks, size);
        assert!(low <= was && was <= high, "{low} {was} {high}");
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
    assert!(
        fitted.error > 0.001 && fitted.error < 0.03,
        "{}",
        fitted.error
    );
    let (low, high) = fitted.band(64.0, 800.0);
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
        assert_eq!((fitted.error, fitted.deviation), (0.0, 0.0));
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
