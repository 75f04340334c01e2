//! Digests as text, and the comparison of two such texts.
//!
//! A row is a trace, a reader and a SHA-256, separated by blanks; lines that begin with `#` are comments.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::{Context, Result, bail};

/// The digest of one reader's output on one trace.
pub(super) struct DigestRow {
    pub(super) trace: String,
    pub(super) reader: String,
    pub(super) digest: String,
}

/// All rows, in the order of the traces and readers.
#[derive(Default)]
pub(super) struct Digests(Vec<DigestRow>);

impl FromIterator<DigestRow> for Digests {
    fn from_iter<Rows: IntoIterator<Item = DigestRow>>(rows: Rows) -> Self {
        Self(rows.into_iter().collect())
    }
}

/// The first lines of the file.
const HEADER: &str = "# trace reader sha256, of all that the reader writes; `cargo xtask frozen --write` rewrites this file.\n";

impl Digests {
    /// Parses the file's text.
    pub(super) fn parse(text: &str) -> Result<Self> {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let rows = lines.map(|line| {
            let mut words = line.split_ascii_whitespace().map(str::to_owned);
            let mut word = || {
                words
                    .next()
                    .with_context(|| format!("digests.txt: {line:?} lacks a column"))
            };
            let row = DigestRow {
                trace: word()?,
                reader: word()?,
                digest: word()?,
            };
            if words.next().is_some() {
                bail!("digests.txt: {line:?} has more than three columns");
            }
            Ok(row)
        });
        rows.collect()
    }

    /// The file's text.
    pub(super) fn text(&self) -> String {
        let mut text = HEADER.to_owned();
        for row in &self.0 {
            // Writing to a String cannot fail.
            let _ = writeln!(text, "{} {} {}", row.trace, row.reader, row.digest);
        }
        text
    }

    /// The number of rows.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Removes the rows of traces that `wanted` refuses.
    pub(super) fn retain(&mut self, wanted: impl Fn(&str) -> bool) {
        self.0.retain(|row| wanted(&row.trace));
    }

    /// A line for each row that is missing in `found`, new there, or different.
    pub(super) fn differences(&self, found: &Self) -> Vec<String> {
        let mut old = self.by_name();
        let mut lines = Vec::new();
        for row in &found.0 {
            let name = (row.trace.as_str(), row.reader.as_str());
            match old.remove(&name) {
                None => lines.push(format!("new:     {} {}", row.trace, row.reader)),
                Some(digest) if digest != row.digest => {
                    lines.push(format!("differs: {} {}", row.trace, row.reader));
                }
                Some(_) => {}
            }
        }
        let missing = old.into_keys();
        lines.extend(missing.map(|(trace, reader)| format!("missing: {trace} {reader}")));
        lines
    }

    fn by_name(&self) -> BTreeMap<(&str, &str), &str> {
        let rows = self.0.iter();
        rows.map(|row| {
            (
                (row.trace.as_str(), row.reader.as_str()),
                row.digest.as_str(),
            )
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_survive_their_text() {
        let text = format!("{HEADER}ring wait 0a\nring path 1b\n");
        assert_eq!(Digests::parse(&text).unwrap().text(), text);
        assert!(Digests::parse("ring wait").is_err());
        assert!(Digests::parse("ring wait 0a 0b").is_err());
    }

    #[test]
    fn differences_name_changed_new_and_missing_rows() {
        let old = Digests::parse("ring wait 0a\nring path 1b\nring dump 2c\n").unwrap();
        let new = Digests::parse("ring wait 0a\nring path ff\nring stat 3d\n").unwrap();
        let lines = [
            "differs: ring path",
            "new:     ring stat",
            "missing: ring dump",
        ];
        assert_eq!(old.differences(&new), lines);
        assert!(old.differences(&old).is_empty());
    }
}
