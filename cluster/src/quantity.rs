//! Values with units, as scenarios write them: `"2.6 GHz"`, `"10 us"`, `"512 MiB"`.

use std::fmt;
use std::str::FromStr;

use belljar_fabric::LinkSpec;
use belljar_sim::{Frequency, Span};
use serde::de::{Deserialize, Deserializer, Error};

/// Why a text is not a quantity.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// No number at the start.
    #[error("`{text}` does not start with a number; write for example \"{example}\"")]
    NotANumber {
        /// What was written.
        text: String,
        /// What could have been.
        example: &'static str,
    },
    /// A unit of another kind, or none.
    #[error("`{unit}` is not a unit of {kind}; known are {known}; write for example \"{example}\"")]
    WrongUnit {
        /// The unit as written.
        unit: String,
        /// The kind of quantity.
        kind: &'static str,
        /// Units of this kind.
        known: String,
        /// What could have been written.
        example: &'static str,
    },
    /// Too large, too small, or not whole in the base unit.
    #[error("`{text}` is out of range for {kind}")]
    OutOfRange {
        /// What was written.
        text: String,
        /// The kind of quantity.
        kind: &'static str,
    },
}

/// A kind of quantity: its units with their size in the base unit.
struct Kind {
    name: &'static str,
    example: &'static str,
    units: &'static [(&'static str, f64)],
}

const TIME: Kind = Kind {
    name: "time",
    example: "10 us",
    units: &[
        ("ps", 1.0),
        ("ns", 1e3),
        ("us", 1e6),
        ("ms", 1e9),
        ("s", 1e12),
        ("min", 6e13),
    ],
};
const RATE: Kind = Kind {
    name: "clock rate",
    example: "2.6 GHz",
    units: &[("Hz", 1.0), ("kHz", 1e3), ("MHz", 1e6), ("GHz", 1e9)],
};
const BANDWIDTH: Kind = Kind {
    name: "bandwidth",
    example: "10 Gb/s",
    units: &[
        ("b/s", 1.0),
        ("kb/s", 1e3),
        ("Mb/s", 1e6),
        ("Gb/s", 1e9),
        ("Tb/s", 1e12),
    ],
};
const BYTES: Kind = Kind {
    name: "memory size",
    example: "512 MiB",
    units: &[
        ("B", 1.0),
        ("kB", 1e3),
        ("MB", 1e6),
        ("GB", 1e9),
        ("KiB", 1024.0),
        ("MiB", 1_048_576.0),
        ("GiB", 1_073_741_824.0),
    ],
};

/// Numbers beyond this are not exact in a double.
const EXACT: f64 = 9_007_199_254_740_992.0;

fn parse(text: &str, kind: &Kind) -> Result<u64, QuantityError> {
    let trimmed = text.trim();
    let split = trimmed
        .find(|c: char| !(c.is_ascii_digit() || c == '.' || c == '_'))
        .unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(split);
    let number: f64 = number
        .replace('_', "")
        .parse()
        .map_err(|_| QuantityError::NotANumber {
            text: text.to_owned(),
            example: kind.example,
        })?;
    let unit = unit.trim();
    let Some(&(_, factor)) = kind.units.iter().find(|(name, _)| *name == unit) else {
        let known: Vec<&str> = kind.units.iter().map(|(name, _)| *name).collect();
        return Err(QuantityError::WrongUnit {
            unit: unit.to_owned(),
            kind: kind.name,
            known: known.join(", "),
            example: kind.example,
        });
    };
    let value = (number * factor).round();
    if !(0.0..=EXACT).contains(&value) || (value == 0.0 && number != 0.0) {
        return Err(QuantityError::OutOfRange {
            text: text.to_owned(),
            kind: kind.name,
        });
    }
    Ok(value as u64)
}

/// Defines a quantity: what it wraps, and how a scenario writes it.
macro_rules! quantity {
    ($(#[$doc:meta])* $name:ident($inner:ty), $kind:expr, $make:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name(pub $inner);

        impl FromStr for $name {
            type Err = QuantityError;
            fn from_str(text: &str) -> Result<Self, QuantityError> {
                let make: fn(u64) -> Option<$inner> = $make;
                make(parse(text, &$kind)?).map(Self).ok_or_else(|| QuantityError::OutOfRange {
                    text: text.to_owned(),
                    kind: $kind.name,
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

/// `10 Gb/s, 1.000 us`, for people.
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
    }
}
