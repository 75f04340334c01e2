//! A matrix as text, CSV and JSON.
//!
//! Few ranks are shown as a square, otherwise the heaviest pairs; CSV and JSON have all. Numbers are those of the result,
//! truncated and not rounded. Used by `belljar trace matrix`.

use std::collections::BTreeSet;
use std::io;

use super::{Matrix, PairTraffic, TrafficBy};
use crate::table::{Table, bytes, count, counted, time};

/// Number of ranks or nodes up to which there is a square.
const MAX_SQUARE: usize = 10;

/// Number of pairs that are shown beyond that.
const MAX_LINES: usize = 32;

/// One side of a pair: a job, if there is one, and a rank or node; `None` for multicast.
pub(super) type Side = (Option<u32>, Option<u32>);

impl PairTraffic {
    pub(super) fn sender(&self) -> Side {
        (self.job, Some(self.from))
    }

    pub(super) fn receiver(&self) -> Side {
        (self.to_job, self.to)
    }
}

impl Matrix {
    /// Returns the unit of rows and columns.
    pub(super) fn unit(&self) -> &'static str {
        match self.by {
            TrafficBy::Wire => "node",
            _ => "rank",
        }
    }

    fn what(&self) -> &'static str {
        match self.by {
            TrafficBy::Wire => "frame",
            _ => "message",
        }
    }

    /// Returns all senders and receivers, in order.
    pub(super) fn sides(&self) -> Vec<Side> {
        let pairs = self.pairs.iter();
        let sides: BTreeSet<Side> = pairs
            .flat_map(|pair| [pair.sender(), pair.receiver()])
            .collect();
        sides.into_iter().collect()
    }

    /// Returns a side's name; with its job if there are several.
    pub(super) fn name(&self, (job, number): Side) -> String {
        let Some(number) = number else {
            return "*".to_owned();
        };
        let jobs = self.pairs.iter().flat_map(|pair| [pair.job, pair.to_job]);
        match job {
            Some(job) if jobs.into_iter().any(|other| other != Some(0)) => {
                format!("{job}.{number}")
            }
            _ => number.to_string(),
        }
    }

    /// Returns one line with the totals.
    pub(super) fn sum(&self) -> String {
        let by = match self.by {
            TrafficBy::Call => "as called",
            TrafficBy::Message => "as the MPI library's messages",
            TrafficBy::Seen => "as messages that were seen",
            TrafficBy::Wire => "on the wire",
        };
        let (all, sum) = (counted(self.messages(), self.what()), self.bytes());
        let told = format!("Traffic {by}: {all} of {}", bytes(sum));
        match self.span_ps {
            0 => told,
            span => format!("{told} in {}, {}/s", time(span), bytes(self.rate(sum))),
        }
    }

    /// Writes the matrix as text tables.
    ///
    /// # Errors
    /// Returns the errors of `out`.
    pub fn write(&self, out: &mut dyn io::Write) -> io::Result<()> {
        writeln!(out, "{}", self.sum())?;
        writeln!(out)?;
        let sides = self.sides();
        if sides.len() <= MAX_SQUARE {
            self.write_squares(&sides, out)?;
        } else {
            writeln!(out, "The heaviest pairs of {}s", self.unit())?;
            self.heaviest().write(out)?;
            writeln!(out)?;
        }
        self.write_algorithms(out)?;
        self.write_calls(out)?;
        for unknown in &self.unknown {
            let number = count(unknown.count);
            writeln!(out, "Not counted: {}: {number}", unknown.what)?;
        }
        Ok(())
    }

    fn write_calls(&self, out: &mut dyn io::Write) -> io::Result<()> {
        if self.calls.is_empty() {
            return Ok(());
        }
        writeln!(out, "Messages by the call within which they were sent")?;
        let mut table = Table::new(["function", "messages", "bytes"]);
        for call in &self.calls {
            let function = match call.function {
                "" => "outside of calls",
                function => function,
            };
            table.row(vec![
                function.to_owned(),
                count(call.messages),
                bytes(call.bytes),
            ]);
        }
        table.write(out)?;
        writeln!(out)
    }

    fn write_squares(&self, sides: &[Side], out: &mut dyn io::Write) -> io::Result<()> {
        let unit = self.unit();
        let mut square = |title: &str, cell: &dyn Fn(&PairTraffic) -> String| {
            writeln!(out, "{title} from {unit} (row) to {unit} (column)")?;
            self.square(sides, cell).write(out)?;
            writeln!(out)
        };
        let what = self.what();
        let (first, rest) = what.split_at(1);
        square("Bytes", &|pair| bytes(pair.bytes))?;
        if self.by == TrafficBy::Wire {
            square("Payload", &|pair| bytes(pair.payload.unwrap_or(0)))?;
        }
        let title = format!("{}{rest}s", first.to_uppercase());
        square(&title, &|pair| count(pair.messages))?;
        if self.span_ps == 0 {
            return Ok(());
        }
        square("Bytes a second", &|pair| bytes(self.rate(pair.bytes)))
    }

    fn square(&self, sides: &[Side], cell: &dyn Fn(&PairTraffic) -> String) -> Table {
        let mut heads = vec![String::new()];
        heads.extend(sides.iter().map(|side| self.name(*side)));
        let mut table = Table::new(heads);
        for from in sides.iter().filter(|side| side.1.is_some()) {
            let mut row = vec![self.name(*from)];
            row.extend(sides.iter().map(|to| {
                let mut pairs = self.pairs.iter();
                let pair = pairs.find(|pair| (pair.sender(), pair.receiver()) == (*from, *to));
                pair.map_or_else(|| ".".to_owned(), cell)
            }));
            table.row(row);
        }
        table
    }

    /// Formats the bytes a second; empty if no times were read.
    fn told_rate(&self, sum: u64) -> String {
        match self.span_ps {
            0 => String::new(),
            _ => bytes(self.rate(sum)),
        }
    }

    fn heaviest(&self) -> Table {
        let mut pairs: Vec<&PairTraffic> = self.pairs.iter().collect();
        pairs.sort_by_key(|pair| {
            let order = (pair.sender(), pair.receiver());
            (std::cmp::Reverse(pair.bytes), order)
        });
        let mut table = Table::new(["from", "to", self.what(), "bytes", "bytes/s"]);
        for pair in pairs.iter().take(MAX_LINES) {
            table.row(vec![
                self.name(pair.sender()),
                self.name(pair.receiver()),
                count(pair.messages),
                bytes(pair.bytes),
                self.told_rate(pair.bytes),
            ]);
        }
        let more = pairs.get(MAX_LINES..).unwrap_or_default();
        if !more.is_empty() {
            let sum = |of: fn(&PairTraffic) -> u64| {
                let of = more.iter().map(|pair| of(pair));
                of.fold(0, u64::saturating_add)
            };
            let rest = sum(|pair| pair.bytes);
            table.row(vec![
                format!("{} more", count(more.len() as u64)),
                String::new(),
                count(sum(|pair| pair.messages)),
                bytes(rest),
                self.told_rate(rest),
            ]);
        }
        table
    }

    fn write_algorithms(&self, out: &mut dyn io::Write) -> io::Result<()> {
        if self.algorithms.is_empty() {
            return Ok(());
        }
        writeln!(
            out,
            "Collective operations, as the library carries them out"
        )?;
        let mut table = Table::new(["operation", "algorithm", "calls", "messages", "bytes"]);
        for one in &self.algorithms {
            table.row(vec![
                one.operation.to_owned(),
                one.algorithm.clone(),
                count(one.calls),
                count(one.messages),
                bytes(one.bytes),
            ]);
        }
        table.write(out)?;
        writeln!(out)
    }

    /// Writes a row for each pair, as CSV.
    ///
    /// # Errors
    /// Returns the errors of `out`.
    pub fn write_csv(&self, out: &mut dyn io::Write) -> io::Result<()> {
        let wire = self.by == TrafficBy::Wire;
        match wire {
            true => writeln!(out, "from,to,frames,bytes,payload,bytes_per_s")?,
            false => writeln!(out, "job,from,to_job,to,messages,bytes,bytes_per_s")?,
        }
        for pair in &self.pairs {
            let (from, messages, sum) = (pair.from, pair.messages, pair.bytes);
            let rate = match self.span_ps {
                0 => String::new(),
                _ => self.rate(sum).to_string(),
            };
            let to = pair.to.map_or_else(|| "*".to_owned(), |to| to.to_string());
            if wire {
                let payload = pair.payload.unwrap_or(0);
                writeln!(out, "{from},{to},{messages},{sum},{payload},{rate}")?;
            } else {
                let [job, to_job] = [pair.job, pair.to_job].map(Option::unwrap_or_default);
                writeln!(out, "{job},{from},{to_job},{to},{messages},{sum},{rate}")?;
            }
        }
        Ok(())
    }

    /// Writes the matrix as one JSON object.
    ///
    /// # Errors
    /// Returns the errors of `out`.
    pub fn write_json(&self, out: &mut dyn io::Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, self)?;
        writeln!(out)
    }
}
