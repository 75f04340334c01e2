//! Functions by their shares, folded stacks, and the choice of the format.
//!
//! A function's own share is the samples in it, its total share also includes its callees; a recursive function counts
//! once. Used by `belljar profile`.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use belljar_sim::Span;
use belljar_sim::figures;

use crate::tally::Named;
use crate::{flame, pprof};

/// Most functions in the table.
const MOST_ROWS: usize = 40;

/// The output format of a profile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Functions by their own shares, as a text table.
    Table,
    /// The same with all functions, as JSON.
    Json,
    /// A line for each stack: frames from the outermost inward, separated by `;`, and the number of samples (Gregg,
    /// FlameGraph).
    Folded,
    /// gzipped protobuf, for `pprof`.
    Pprof,
    /// A flame graph as SVG.
    Svg,
}

/// A function's row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row<'n> {
    /// Its name.
    pub name: &'n str,
    /// Samples in it.
    pub own: u64,
    /// Samples in it or in its callees.
    pub total: u64,
}

impl Named {
    /// Writes the profile as `format`.
    ///
    /// # Errors
    /// Returns an error if `out` fails.
    pub fn write(&self, format: Format, out: &mut dyn Write) -> io::Result<()> {
        match format {
            Format::Table => self.write_table(out),
            Format::Json => self.write_json(out),
            Format::Folded => self.write_folded(out),
            Format::Pprof => pprof::write(self, out),
            Format::Svg => flame::write(self, out),
        }
    }

    /// Returns all functions, in descending order of their own samples.
    pub fn rows(&self) -> Vec<Row<'_>> {
        let mut sums: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for (stack, count) in &self.stacks {
            if let Some(inner) = stack.last() {
                let own = &mut sums.entry(inner).or_default().0;
                *own = own.saturating_add(*count);
            }
            let names: BTreeSet<&str> = stack.iter().map(|name| &**name).collect();
            for name in names {
                let total = &mut sums.entry(name).or_default().1;
                *total = total.saturating_add(*count);
            }
        }
        let rows = sums.into_iter();
        let mut rows: Vec<Row<'_>> = rows
            .map(|(name, (own, total))| Row { name, own, total })
            .collect();
        rows.sort_by(|a, b| (b.own, b.total, a.name).cmp(&(a.own, a.total, b.name)));
        rows
    }

    fn idle(&self) -> u64 {
        self.points.saturating_sub(self.busy)
    }

    fn write_table(&self, out: &mut dyn Write) -> io::Result<()> {
        let all = self.samples();
        let time = |count: u64| Span::from_ps(count.saturating_mul(self.every)).to_string();
        writeln!(
            out,
            "{}, one each {} of virtual time: {}",
            figures::counted(all, "sample"),
            Span::from_ps(self.every),
            time(all)
        )?;
        if self.of_all && self.points > 0 {
            let idle = self.idle();
            let share = share(idle, self.points);
            writeln!(
                out,
                "processors were idle for {}, {share} of the time",
                time(idle)
            )?;
        }
        let rows = self.rows();
        writeln!(out, "\n    self     total      time  function")?;
        for row in rows.iter().take(MOST_ROWS) {
            let (own, total) = (share(row.own, all), share(row.total, all));
            writeln!(
                out,
                "{own:>8}  {total:>8}  {:>8}  {}",
                time(row.own),
                row.name
            )?;
        }
        if rows.len() > MOST_ROWS {
            let more = (rows.len() - MOST_ROWS) as u64;
            writeln!(out, "  and {}", figures::counted(more, "more function"))?;
        }
        Ok(())
    }

    fn write_json(&self, out: &mut dyn Write) -> io::Result<()> {
        let rows = self.rows();
        let function = |row: &Row<'_>| serde_json::json!({ "function": row.name, "self": row.own, "total": row.total });
        let functions: Vec<_> = rows.iter().map(function).collect();
        let mut told = serde_json::json!({
            "every_ps": self.every,
            "samples": self.samples(),
            "functions": functions,
        });
        if self.of_all {
            told["idle"] = self.idle().into();
        }
        serde_json::to_writer_pretty(&mut *out, &told)?;
        writeln!(out)
    }

    fn write_folded(&self, out: &mut dyn Write) -> io::Result<()> {
        for (stack, count) in &self.stacks {
            let words: Vec<String> = stack.iter().map(|name| harmless(name)).collect();
            writeln!(out, "{} {count}", words.join(";"))?;
        }
        Ok(())
    }
}

/// Replaces the separators of frames and lines in a name.
fn harmless(name: &str) -> String {
    let plain = |letter: char| {
        if letter == ';' || letter.is_control() {
            '_'
        } else {
            letter
        }
    };
    name.chars().map(plain).collect()
}

/// Formats a share in percent with two decimal places.
pub(crate) fn share(part: u64, of: u64) -> String {
    figures::share(part as f64 / of.max(1) as f64, 2)
}
