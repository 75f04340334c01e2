//! Values with units, as scenarios write them: `"2.6 GHz"`, `"10 us"`, `"512 MiB"`.
//!
//! A value is a whole number of its base unit, rounded to the nearest. Values that are too large, or that
//! round to zero, are an error. Parsed for scenarios and arguments, and printed by `belljar check`.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use belljar_fabric::LinkSpec;
use belljar_sim::{Frequency, Span};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserialize, Deserializer, Error};

/// Errors of a quantity's text.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// No number at the start.
    #[error("`{text}` does not start with a number; write for example \"{example}\"")]
    NotANumber {
        /// The text.
        text: String,
        /// An example.
        example: &'static str,
    },
    /// No unit, or a unit of another kind.
    #[error("`{unit}` is not a unit of {kind}; known are {known}; write for example \"{example}\"")]
    WrongUnit {
        /// The unit as written.
        unit: String,
        /// The kind of quantity.
        kind: &'static str,
        /// Units of this kind.
        known: String,
        /// An example.
        example: &'static str,
    },
    /// Too large, or rounded to zero in the base unit.
    #[error("`{text}` is out of range for {kind}, which is {least} to {most}")]
    OutOfRange {
        /// The text.
        text: String,
        /// The kind of quantity.
        kind: &'static str,
        /// The smallest value above zero.
        least: String,
        /// The largest value.
        most: &'static str,
    },
}

/// A kind of quantity: its units with their sizes in the base unit, which is the first.
struct QuantityKind {
    name: &'static str,
    example: &'static str,
    units: &'static [(&'static str, u64)],
    most: &'static str,
}

impl QuantityKind {
    fn size(&self, unit: &str) -> Option<u64> {
        let found = self.units.iter().find(|(name, _)| *name == unit);
        found.map(|(_, size)| *size)
    }

    fn out_of_range(&self, text: &str) -> QuantityError {
        QuantityError::OutOfRange {
            text: text.to_owned(),
            kind: self.name,
            least: format!("1 {}", self.units[0].0),
            most: self.most,
        }
    }
}

const TIME: QuantityKind = QuantityKind {
    name: "time",
    example: "10 us",
    units: &[
        ("ps", 1),
        ("ns", 1_000),
        ("us", 1_000_000),
        ("ms", 1_000_000_000),
        ("s", 1_000_000_000_000),
        ("min", 60_000_000_000_000),
        ("h", 3_600_000_000_000_000),
    ],
    // Half of the range of 64 bits of picoseconds, as times are added to.
    most: "2500 h",
};
const RATE: QuantityKind = QuantityKind {
    name: "clock rate",
    example: "2.6 GHz",
    units: &[
        ("Hz", 1),
        ("kHz", 1_000),
        ("MHz", 1_000_000),
        ("GHz", 1_000_000_000),
    ],
    most: "1000000 GHz",
};
const BANDWIDTH: QuantityKind = QuantityKind {
    name: "bandwidth",
    example: "10 Gb/s",
    units: &[
        ("b/s", 1),
        ("kb/s", 1_000),
        ("Mb/s", 1_000_000),
        ("Gb/s", 1_000_000_000),
        ("Tb/s", 1_000_000_000_000),
    ],
    most: "1000 Tb/s",
};
const BYTES: QuantityKind = QuantityKind {
    name: "memory size",
    example: "512 MiB",
    units: &[
        ("B", 1),
        ("kB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
    ],
    most: "1000000 GiB",
};

fn parse(text: &str, kind: &QuantityKind) -> Result<u64, QuantityError> {
    let trimmed = text.trim();
    let split = trimmed
        .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_'))
        .unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(split);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if !number.contains(|c: char| c.is_ascii_digit()) || fraction.contains('.') {
        return Err(QuantityError::NotANumber {
            text: text.to_owned(),
            example: kind.example,
        });
    }
    let unit = unit.trim();
    let Some(size) = kind.size(unit) else {
        let known: Vec<&str> = kind.units.iter().map(|(name, _)| *name).collect();
        return Err(QuantityError::WrongUnit {
            unit: unit.to_owned(),
            kind: kind.name,
            known: known.join(", "),
            example: kind.example,
        });
    };
    let value = in_base_units(whole, fraction, size);
    let value = value.filter(|value| *value <= most_of(kind));
    value.ok_or_else(|| kind.out_of_range(text))
}

fn most_of(kind: &QuantityKind) -> u64 {
    let (number, unit) = kind.most.split_once(' ').expect("a number and a unit");
    let number: u64 = number.parse().expect("a number");
    number * kind.size(unit).expect("a unit of its own")
}

/// `whole.fraction` times `size`, rounded to the nearest; `None` if that is too large, or zero for a number
/// other than zero. In integers, as a double represents only 2.5 hours of picoseconds.
fn in_base_units(whole: &str, fraction: &str, size: u64) -> Option<u64> {
    let fraction = fraction.replace('_', "");
    let digits = whole.replace('_', "") + &fraction;
    let scale = 10_u128.checked_pow(fraction.len().try_into().ok()?)?;
    let number: u128 = digits.parse().ok()?;
    let value = number.checked_mul(size.into())?.checked_add(scale / 2)? / scale;
    let value = u64::try_from(value).ok()?;
    (value > 0 || number == 0).then_some(value)
}

/// Defines a quantity: its inner type and its form in scenarios.
macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident($inner:ty), $kind:expr, $make:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name(pub $inner);

        impl FromStr for $name {
            type Err = QuantityError;
            fn from_str(text: &str) -> Result<Self, QuantityError> {
                let make: fn(u64) -> Option<$inner> = $make;
                let value = make(parse(text, &$kind)?);
                value.map(Self).ok_or_else(|| $kind.out_of_range(text))
            }
        }

        impl JsonSchema for $name {
            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                let units: Vec<&str> = $kind.units.iter().map(|(name, _)| *name).collect();
                json_schema!({
                    "type": "string",
                    "description": format!("a {}, such as \"{}\"", $kind.name, $kind.example),
                    "pattern": format!("^\\s*[0-9_.]+\\s*({})\\s*$", units.join("|")),
                })
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                String::deserialize(deserializer)?.parse().map_err(D::Error::custom)
            }
        }
    };
}

quantity!(
    /// A length of virtual time, such as `"10 us"`.
    Duration(Span), TIME, |ps| Some(Span::from_ps(ps))
);
quantity!(
    /// A clock rate, such as `"2.6 GHz"`.
    Rate(Frequency), RATE, Frequency::from_hz
);
quantity!(
    /// Bits per second, such as `"10 Gb/s"`.
    Bandwidth(u64), BANDWIDTH, |bits| (bits > 0).then_some(bits)
);
quantity!(
    /// A number of bytes, such as `"512 MiB"`.
    Bytes(u64), BYTES, Some
);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes if bytes % (1 << 30) == 0 && bytes > 0 => write!(f, "{} GiB", bytes >> 30),
            bytes if bytes % (1 << 20) == 0 && bytes > 0 => write!(f, "{} MiB", bytes >> 20),
            bytes if bytes % 1024 == 0 && bytes > 0 => write!(f, "{} KiB", bytes >> 10),
            bytes => write!(f, "{bytes} B"),
        }
    }
}

impl fmt::Display for Bandwidth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} Gb/s", self.0 as f64 / 1e9)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} GHz", self.0.as_hz() as f64 / 1e9)
    }
}

/// `10 Gb/s, 1.000 us`, for display.
pub fn describe_link(link: &LinkSpec) -> String {
    format!("{}, {}", Bandwidth(link.bandwidth), link.latency)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_are_read_in_their_units() {
        assert_eq!("10 us".parse(), Ok(Duration(Span::from_us(10))));
        assert_eq!("1.5ns".parse(), Ok(Duration(Span::from_ps(1500))));
        assert_eq!(".5 ns".parse(), Ok(Duration(Span::from_ps(500))));
        assert_eq!("512 MiB".parse(), Ok(Bytes(512 << 20)));
        assert_eq!("2.6 GHz".parse::<Rate>().unwrap().0.as_hz(), 2_600_000_000);
        assert_eq!("10 Gb/s".parse(), Ok(Bandwidth(10_000_000_000)));
    }

    #[test]
    fn wrong_units_are_named() {
        let error = "10 us".parse::<Bytes>().unwrap_err().to_string();
        assert!(
            error.contains("`us` is not a unit of memory size"),
            "{error}"
        );
        assert!("10".parse::<Duration>().is_err());
        assert!("fast".parse::<Rate>().is_err());
        assert!("0 GHz".parse::<Rate>().is_err());
        assert!("0.1 ps".parse::<Duration>().is_err());
        assert!("-1 us".parse::<Duration>().is_err());
        for text in ["", "us", ". us", "1.2.3 us", "_ us"] {
            assert!(text.parse::<Duration>().is_err(), "{text}");
        }
    }

    #[test]
    fn long_times_are_exact_and_bounded() {
        let long = "2_499.999_999_999_999_9 h".parse::<Duration>().unwrap();
        assert_eq!(long.0.as_ps(), 8_999_999_999_999_999_640);
        assert_eq!(
            "10000.000000000001 s"
                .parse::<Duration>()
                .unwrap()
                .0
                .as_ps(),
            10_000_000_000_000_001
        );
        assert!("2500 h".parse::<Duration>().is_ok());
        let error = "2500.1 h".parse::<Duration>().unwrap_err().to_string();
        assert!(error.contains("1 ps to 2500 h"), "{error}");
        assert!(
            "340282366920938463463374607431768211455 h"
                .parse::<Duration>()
                .is_err()
        );
        for kind in [TIME, RATE, BANDWIDTH, BYTES] {
            assert!(
                kind.most
                    .split_once(' ')
                    .is_some_and(|(_, unit)| kind.size(unit).is_some())
            );
            assert!(most_of(&kind) < u64::MAX / 2, "{}", kind.name);
        }
    }
}
