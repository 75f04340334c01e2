//! Emphasis in results: warnings, verdicts, and the rank that waits longest.
//!
//! The text is the same with and without colours; escapes are put around parts of its lines. Called by `output`.

use std::io::{self, Write};

use anstyle::{AnsiColor, Style};

/// Warnings.
const WARNING: Style = AnsiColor::Yellow.on_default();
/// Good ends.
const GOOD: Style = AnsiColor::Green.on_default();
/// Bad ends, and the worst of several ranks.
const BAD: Style = AnsiColor::Red.on_default();

/// Highlighted phrases of results.
const VERDICTS: [(&str, Style); 6] = [
    ("the workload ended well", GOOD),
    ("the workload ended with exit code", BAD),
    ("Never returns:", BAD),
    ("Broken off:", BAD),
    ("broken off", BAD),
    ("Best:", GOOD),
];

/// Lines with one of these words at their start are warnings.
const WARNINGS: [&str; 2] = ["warning", "Warning"];

/// Heads of a table of ranks: its first column, and the column whose greatest value is highlighted.
const RANK: &str = "rank";
const WAITING: &str = "waiting";

/// Bytes of a line and rows of a table that are buffered, at most. Longer ones are not highlighted.
const MOST_BYTES: usize = 1 << 16;
const MOST_LINES: usize = 1 << 14;

/// Writes text, with highlighting if enabled.
pub(in crate::command) struct Highlight<W: Write> {
    out: W,
    wanted: bool,
    line: Vec<u8>,
    /// A table of ranks that is being written.
    table: Option<RankTable>,
}

/// Rows of a table of ranks, until its end.
struct RankTable {
    /// The place of the last character of `waiting` in the head.
    end: usize,
    rows: Vec<String>,
}

impl<W: Write> Highlight<W> {
    pub(in crate::command) fn new(out: W, wanted: bool) -> Self {
        Self {
            out,
            wanted,
            line: Vec::new(),
            table: None,
        }
    }

    /// Takes a whole line, with its end.
    fn take(&mut self) -> io::Result<()> {
        let line = std::mem::take(&mut self.line);
        let Ok(line) = String::from_utf8(line) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        if let Some(table) = &mut self.table {
            let first = line.split_whitespace().next();
            let is_row = first.is_some_and(|it| it.parse::<u32>().is_ok());
            if is_row && table.rows.len() < MOST_LINES {
                table.rows.push(line);
                return Ok(());
            }
            self.end_table()?;
        }
        self.table = RankTable::of(&line);
        let line = emphasised(&line);
        self.out.write_all(line.as_bytes())
    }

    fn end_table(&mut self) -> io::Result<()> {
        let Some(table) = self.table.take() else {
            return Ok(());
        };
        let worst = table.worst();
        for (number, row) in table.rows.iter().enumerate() {
            match Some(number) == worst {
                true => self.out.write_all(styled(row, BAD).as_bytes())?,
                false => self.out.write_all(row.as_bytes())?,
            }
        }
        Ok(())
    }

    /// Writes the buffered rows and the rest of a line.
    fn settle(&mut self) -> io::Result<()> {
        self.end_table()?;
        let line = std::mem::take(&mut self.line);
        self.out.write_all(&line)
    }
}

impl RankTable {
    /// The table that begins with this head; `None` for other lines.
    fn of(line: &str) -> Option<Self> {
        let is_head = line.split_whitespace().next() == Some(RANK);
        let at = line.find(&format!("  {WAITING}")).filter(|_| is_head)?;
        let end = line[..at].chars().count() + 2 + WAITING.len();
        let rows = Vec::new();
        Some(Self { end, rows })
    }

    /// The row with the longest waiting, if waiting differs among ranks.
    fn worst(&self) -> Option<usize> {
        let waiting: Vec<f64> = self.rows.iter().map(|row| self.waiting(row)).collect();
        let (first, rest) = waiting.split_first()?;
        let most = rest.iter().copied().fold(*first, f64::max);
        let differs = waiting.iter().any(|it| *it < most);
        let at = waiting.iter().position(|it| *it == most);
        at.filter(|_| differs)
    }

    /// The waiting in a row, in picoseconds; 0 if it has none.
    fn waiting(&self, row: &str) -> f64 {
        let start: String = row.chars().take(self.end).collect();
        let mut words = start.split_whitespace().rev();
        let (Some(unit), Some(number)) = (words.next(), words.next()) else {
            return 0.0;
        };
        let scale = match unit {
            "ps" => 1.0,
            "ns" => 1e3,
            "us" => 1e6,
            "ms" => 1e9,
            "s" => 1e12,
            _ => return 0.0,
        };
        number.parse().unwrap_or(0.0) * scale
    }
}

/// A line with its verdict or warning in colours.
fn emphasised(line: &str) -> String {
    let text = line.trim_start();
    if WARNINGS.iter().any(|word| text.starts_with(word)) {
        return styled(line, WARNING);
    }
    let found = VERDICTS.iter().find(|(words, _)| line.contains(words));
    match found {
        Some((words, style)) => line.replacen(words, &format!("{style}{words}{style:#}"), 1),
        None => line.to_owned(),
    }
}

/// The text of a line in a style, except its line end.
fn styled(line: &str, style: Style) -> String {
    let text = line.trim_end_matches('\n');
    let end = &line[text.len()..];
    format!("{style}{text}{style:#}{end}")
}

impl<W: Write> Write for Highlight<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.wanted {
            return self.out.write(bytes);
        }
        for part in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                self.take()?;
            } else if self.line.len() > MOST_BYTES {
                self.settle()?;
            }
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.settle()?;
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "Ranks\n  rank  node  of MPI    waiting      cost\n     0     0  13.0 %   262.3 us  4.954 ms\n     1     1  58.4 %   1.905 ms  274.0 us\n     2     2  53.5 %      10 ns  1.006 ms\n\nWarning: figures of \u{b5}s\nhpl: the workload ended well\nlast";

    fn written(wanted: bool) -> String {
        let mut out = Highlight::new(Vec::new(), wanted);
        // In pieces, as formatting writes them.
        for byte in TEXT.as_bytes() {
            out.write_all(&[*byte]).unwrap();
        }
        out.flush().unwrap();
        String::from_utf8(out.out).unwrap()
    }

    #[test]
    fn nothing_changes_without_colours() {
        assert_eq!(written(false), TEXT);
    }

    #[test]
    fn the_rank_that_waits_longest_warnings_and_verdicts_stand_out() {
        let text = written(true);
        let with_escapes: Vec<&str> = text.lines().filter(|line| line.contains('\x1b')).collect();
        assert_eq!(
            with_escapes,
            [
                "\x1b[31m     1     1  58.4 %   1.905 ms  274.0 us\x1b[0m",
                "\x1b[33mWarning: figures of \u{b5}s\x1b[0m",
                "hpl: \x1b[32mthe workload ended well\x1b[0m",
            ]
        );
        let plain = anstream::adapter::strip_str(&text).to_string();
        assert_eq!(plain, TEXT);
    }

    #[test]
    fn ranks_that_wait_alike_do_not_stand_out() {
        let alike = RankTable {
            end: 20,
            rows: vec![
                "  0     1.000 ms    \n".into(),
                "  1     1.000 ms    \n".into(),
            ],
        };
        assert_eq!(alike.worst(), None);
    }
}
