//! Text tables, and the figures in them.
//!
//! Figures are formatted by `belljar_sim::figures`, with the same rounding in every command. Used by all analyses with
//! text.

use std::fmt::Write as _;
use std::io;

pub(crate) use belljar_sim::figures::{bytes, count, counted, counted_as, percent, time};

/// A table: the first column left-aligned, the others right-aligned.
#[derive(Debug)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// Creates a table with these column heads.
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
    /// Returns the errors of `out`.
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

#[cfg(test)]
mod tests {
    use super::*;

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
