//! Figures in text: times, bytes, counts, shares, decimal numbers.
//!
//! One rule applies to every command and to the report page: a figure is the decimal number with the shown digits that
//! is nearest to the exact value, and ties are rounded away from zero ("half up"). Times and bytes have four significant
//! digits, and the largest unit with a value of at least one after rounding. Integers are rounded with integer
//! arithmetic, so that figures are the same on every host. The page's script (`report/page/script/data/units.js`)
//! follows the same rule, and its tests have the same table.

/// Units of time, each a thousand of the one before.
const TIMES: [&str; 5] = ["ps", "ns", "us", "ms", "s"];
/// Units of bytes, each a thousand of the one before.
const BYTES: [&str; 7] = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
/// Decimal places up to which [`decimal`] scales without loss.
const MOST_PLACES: usize = 15;

/// Picoseconds in four significant digits: `1.235 us`, `17 ps`.
pub fn time(ps: u64) -> String {
    scaled(ps, &TIMES)
}

/// Bytes in four significant digits, with a prefix of the SI: `8.192 kB`, `12 B`.
pub fn bytes(bytes: u64) -> String {
    scaled(bytes, &BYTES)
}

/// A count with its digits in groups of three: `1 234 567`.
pub fn count(count: u64) -> String {
    let digits = count.to_string();
    let mut text = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

/// A count and its noun, whose plural ends in `s`: `1 message`, `2 messages`.
pub fn counted(number: u64, one: &str) -> String {
    counted_as(number, one, &format!("{one}s"))
}

/// A count and its noun or clause, in the singular or in the plural: `1 send has`, `2 sends have`.
pub fn counted_as(number: u64, one: &str, many: &str) -> String {
    format!("{} {}", count(number), plural(number, one, many))
}

/// The word for this number of things.
pub fn plural<'a>(number: u64, one: &'a str, many: &'a str) -> &'a str {
    if number == 1 { one } else { many }
}

/// A share in percent with one decimal place: `12.3 %`; `-` if the whole is 0.
pub fn percent(part: u64, whole: u64) -> String {
    match whole {
        0 => "-".to_owned(),
        _ => percent_of_thousandths(thousandths(part, whole)),
    }
}

/// A share in thousandths, rounded; 0 if the whole is 0.
pub fn thousandths(part: u64, whole: u64) -> u64 {
    let rounded = divided(u128::from(part) * 1000, whole.max(1).into());
    u64::try_from(rounded).unwrap_or(u64::MAX)
}

/// Thousandths in percent: `12.3 %`.
pub fn percent_of_thousandths(thousandths: u64) -> String {
    format!("{}.{} %", thousandths / 10, thousandths % 10)
}

/// A share between 0 and 1 in percent, with this number of decimal places.
pub fn share(share: f64, places: usize) -> String {
    format!("{} %", decimal(share * 100.0, places))
}

/// The change from one value to another in percent, with its sign: `+2.0 %`; empty if the first is 0.
pub fn change(before: u64, after: u64) -> String {
    if before == 0 {
        return String::new();
    }
    let sign = if after < before { '-' } else { '+' };
    let change = percent(after.abs_diff(before), before);
    format!("{sign}{change}")
}

/// A number with this number of decimal places.
pub fn decimal(value: f64, places: usize) -> String {
    let power = 10f64.powi(places.min(MOST_PLACES) as i32);
    let rounded = (value.abs() * power).round();
    // Larger numbers have no decimal places.
    if !rounded.is_finite() || rounded >= 9e15 {
        return format!("{value:.places$}");
    }
    let digits = format!(
        "{:0width$}",
        rounded as u64,
        width = places.min(MOST_PLACES) + 1
    );
    let (whole, fraction) = digits.split_at(digits.len() - places.min(MOST_PLACES));
    let sign = if value < 0.0 && rounded > 0.0 {
        "-"
    } else {
        ""
    };
    match fraction {
        "" => format!("{sign}{whole}"),
        _ => format!("{sign}{whole}.{fraction}"),
    }
}

/// The nearest number to `value` with this number of significant digits. Removes rounding noise, such as
/// `2.0000000000000004`.
pub fn significant(value: f64, digits: usize) -> f64 {
    if !value.is_finite() || value == 0.0 {
        return value;
    }
    let text = format!("{value:.*e}", digits.max(1) - 1);
    text.parse().unwrap_or(value)
}

fn scaled(value: u64, units: &[&str]) -> String {
    let (mut unit, mut power) = (0, 1u128);
    let value = u128::from(value);
    // Rounding to four digits may reach the next unit: 999.96 is 1.000 of it.
    while unit + 1 < units.len() && divided(value * 10, power) >= 10_000 {
        power *= 1000;
        unit += 1;
    }
    if unit == 0 {
        return format!("{value} {}", units[0]);
    }
    let fits = |places: &u32| divided(value * 10u128.pow(*places), power) < 10_000;
    let places = (0..=3).rev().find(fits).unwrap_or(0);
    let digits = divided(value * 10u128.pow(places), power);
    let (whole, fraction) = (digits / 10u128.pow(places), digits % 10u128.pow(places));
    match places {
        0 => format!("{whole} {}", units[unit]),
        _ => format!(
            "{whole}.{fraction:0width$} {}",
            units[unit],
            width = places as usize
        ),
    }
}

/// The nearest integer to a quotient; half is rounded up.
fn divided(value: u128, by: u128) -> u128 {
    let (whole, rest) = (value / by, value % by);
    whole + u128::from(rest >= by - rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The page's script has the same tables in its tests.
    const TIMES: [(u64, &str); 14] = [
        (0, "0 ps"),
        (999, "999 ps"),
        (1_500, "1.500 ns"),
        (1_234_567, "1.235 us"),
        (9_999_499, "9.999 us"),
        (9_999_500, "10.00 us"),
        (36_106_559_614, "36.11 ms"),
        (99_995_000_000, "100.0 ms"),
        (185_849_999_999, "185.8 ms"),
        (185_850_000_000, "185.9 ms"),
        (999_949_999_999, "999.9 ms"),
        (999_950_000_000, "1.000 s"),
        (90_000_000_000_000, "90.00 s"),
        (5_000_500_000_000_000, "5001 s"),
    ];
    const SHARES: [(u64, u64, &str); 7] = [
        (1, 3, "33.3 %"),
        (2, 3, "66.7 %"),
        (1, 2000, "0.1 %"),
        (1, 2001, "0.0 %"),
        (1235, 10_000, "12.4 %"),
        (3, 2, "150.0 %"),
        (9996, 10_000, "100.0 %"),
    ];
    const DECIMALS: [(f64, usize, &str); 8] = [
        (0.125, 2, "0.13"),
        (2.5, 0, "3"),
        (-0.25, 1, "-0.3"),
        (-0.04, 1, "0.0"),
        (1234.5678, 2, "1234.57"),
        (0.999, 2, "1.00"),
        (12.0, 3, "12.000"),
        (0.0, 1, "0.0"),
    ];

    #[test]
    fn times_and_bytes_are_rounded_to_four_digits() {
        for (ps, words) in TIMES {
            assert_eq!(time(ps), words, "{ps}");
        }
        assert_eq!(time(u64::MAX), "18446744 s");
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(8192), "8.192 kB");
        assert_eq!(bytes(999_949), "999.9 kB");
        assert_eq!(bytes(999_999), "1.000 MB");
        assert_eq!(bytes(u64::MAX), "18.45 EB");
    }

    #[test]
    fn shares_and_changes_are_rounded_half_up() {
        for (part, whole, words) in SHARES {
            assert_eq!(percent(part, whole), words, "{part} of {whole}");
        }
        assert_eq!(percent(1, 0), "-");
        assert_eq!(percent(u64::MAX, u64::MAX), "100.0 %");
        assert_eq!(share(0.12345, 2), "12.35 %");
        assert_eq!(change(0, 7), "");
        assert_eq!(change(2000, 2001), "+0.1 %");
        assert_eq!(change(2000, 1999), "-0.1 %");
        assert_eq!(change(5, 5), "+0.0 %");
    }

    #[test]
    fn decimals_are_rounded_away_from_zero() {
        for (value, places, words) in DECIMALS {
            assert_eq!(decimal(value, places), words, "{value}");
        }
        assert_eq!(decimal(f64::NAN, 1), "NaN");
        assert_eq!(decimal(1e300, 0), format!("{:.0}", 1e300));
    }

    #[test]
    fn one_thing_is_no_plural() {
        assert_eq!(count(1_234_567), "1 234 567");
        assert_eq!(counted(1, "message"), "1 message");
        assert_eq!(counted(0, "message"), "0 messages");
        assert_eq!(counted(1_000, "message"), "1 000 messages");
        assert_eq!(counted_as(1, "send has", "sends have"), "1 send has");
        assert_eq!(counted_as(2, "send has", "sends have"), "2 sends have");
    }

    #[test]
    fn noise_of_calculations_is_rounded_away() {
        assert_eq!(significant(2.000_000_000_000_000_4, 12), 2.0);
        assert_eq!(significant(65_536.000_000_000_01, 12), 65_536.0);
        assert_eq!(significant(0.1 + 0.2, 12), 0.3);
        assert_eq!(significant(1.0 / 3.0, 12), 0.333_333_333_333);
        assert_eq!(significant(0.0, 12), 0.0);
    }
}
