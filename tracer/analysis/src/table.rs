//! Text tables and numbers for people.
//!
//! Numbers are computed in whole numbers and cut, never rounded, so they look the same everywhere. Used by
//! statistics and cycles per instruction, and by dumps for sizes and times.

use std::fmt::Write as _;
use std::io;

/// A table: the first column to the left, the others to the right.
#[derive(Debug)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these column heads.
    pub fn new<S: ToString>(heads: impl IntoIterator<Item = S>) -> Self {
        let heads = heads.into_iter().map(|head| head.to_string()).collect();
        Self { rows: vec![heads] }
    }

    /// Adds a row of as many cells as there are heads.
    pub fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// Writes the table, each line indented by two spaces.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, out: &mut dyn io::Write) -> io::Result<()> {
        let columns = self.rows.iter().map(Vec::len).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns)
            .map(|column| {
                let cells = self.rows.iter().filter_map(|row| row.get(column));
                cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
            })
            .collect();
        for row in &self.rows {
            let mut line = String::new();
            for (column, (cell, &width)) in row.iter().zip(&widths).enumerate() {
                // Writing to a string cannot fail.
                let _ = if column == 0 {
                    write!(line, "  {cell:<width$}")
                } else {
                    write!(line, "  {cell:>width$}")
                };
            }
            writeln!(out, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// A number with a prefix of the SI, in four digits: `8.192 kB`, `12 B`.
pub(crate) fn bytes(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "kB", "MB", "GB", "TB", "PB", "EB"];
    scaled(bytes, &UNITS)
}

/// A time in four digits: `1.234 us`, `17 ps`.
pub fn time(ps: u64) -> String {
    const UNITS: [&str; 5] = ["ps", "ns", "us", "ms", "s"];
    scaled(ps, &UNITS)
}

fn scaled(value: u64, units: &[&str]) -> String {
    let mut unit = 0;
    let mut power = 1u64;
    while unit + 1 < units.len() && value / power >= 1000 {
        power = power.saturating_mul(1000);
        unit += 1;
    }
    if unit == 0 {
        return format!("{value} {}", units[0]);
    }
    let whole = value / power;
    let digits = match whole {
        0..10 => 3,
        10..100 => 2,
        100..1000 => 1,
        _ => 0,
    };
    // Cut, not rounded: 999.96 must not become 1000.0.
    let fraction = (u128::from(value % power) * 10u128.pow(digits)) / u128::from(power);
    match digits {
        0 => format!("{whole} {}", units[unit]),
        _ => format!(
            "{whole}.{fraction:0width$} {}",
            units[unit],
            width = digits as usize
        ),
    }
}

/// A count with its thousands apart: `1 234 567`.
pub(crate) fn count(count: u64) -> String {
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

/// A share in percent: `12.3 %`.
pub(crate) fn percent(part: u64, whole: u64) -> String {
    if whole == 0 {
        return "-".to_owned();
    }
    format!("{:.1} %", part as f64 / whole as f64 * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short_and_exact_enough() {
        assert_eq!(bytes(0), "0 B");
        assert_eq!(bytes(999), "999 B");
        assert_eq!(bytes(8192), "8.192 kB");
        assert_eq!(bytes(999_999), "999.9 kB");
        assert_eq!(bytes(u64::MAX), "18.44 EB");
        assert_eq!(time(1_234_567), "1.234 us");
        assert_eq!(time(90_000_000_000_000), "90.00 s");
        assert_eq!(time(5_000_000_000_000_000), "5000 s");
        assert_eq!(count(1_234_567), "1 234 567");
        assert_eq!(count(123), "123");
        assert_eq!(percent(1, 3), "33.3 %");
        assert_eq!(percent(1, 0), "-");
    }

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(["name", "n"]);
        table.row(vec!["a".into(), "12345".into()]);
        table.row(vec!["long name".into(), "1".into()]);
        let mut out = Vec::new();
        table.write(&mut out).unwrap();
        let expected = "  name           n\n  a          12345\n  long name      1\n";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }
}
