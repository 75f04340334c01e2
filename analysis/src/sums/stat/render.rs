//! Statistics as text, at most 100 columns wide for names and numbers of usual length.
//!
//! Potentially huge tables are truncated with a note; JSON has all. Used by `belljar trace stat`, and for a page at a
//! run's end.

use std::io;

use belljar_sim::figures::decimal;

use super::{IntervalStat, Statistics, TrafficStat};
use crate::table::{Table, bytes, count, counted, counted_as, percent, time};

/// Number of ranks up to which the traffic is shown as a square.
const MAX_SQUARE: u32 = 10;

/// Number of pairs of ranks, and of ranks, that are shown beyond that.
const MAX_LINES: usize = 32;

/// Number of functions, and of ranks, on a page.
const PAGE_FUNCTIONS: usize = 12;
const PAGE_RANKS: usize = 8;

impl Statistics {
    /// Writes the statistics as text tables.
    ///
    /// # Errors
    /// Returns the errors of `out`.
    pub fn write(&self, out: &mut dyn io::Write) -> io::Result<()> {
        self.write_functions(out, usize::MAX)?;
        self.write_probes(out)?;
        self.write_ranks(out, usize::MAX)?;
        if let Some(efficiency) = &self.efficiency {
            efficiency.write(out)?;
        }
        self.write_sizes(out)?;
        self.write_traffic(out)?;
        self.write_remarks(out)
    }

    /// Writes a page: the functions with the largest times, the first ranks, and the traffic between ranks if that is a
    /// small table. The rest is left to [`write`](Self::write).
    ///
    /// # Errors
    /// Returns the errors of `out`.
    pub fn write_page(&self, out: &mut dyn io::Write) -> io::Result<()> {
        self.write_functions(out, PAGE_FUNCTIONS)?;
        self.write_probes(out)?;
        self.write_ranks(out, PAGE_RANKS)?;
        let jobs = 1 + self.ranks.iter().map(|stat| stat.job).max().unwrap_or(0);
        let last = self.traffic.iter().map(|stat| stat.from.max(stat.to)).max();
        match last {
            Some(last) if jobs == 1 && last < MAX_SQUARE => {
                let all: Vec<&TrafficStat> = self.traffic.iter().collect();
                writeln!(out, "Messages: bytes from rank (row) to rank (column)")?;
                square(&all, last, |stat| bytes(stat.bytes)).write(out)?;
                writeln!(out)?;
            }
            Some(_) => {
                let sum = |value: fn(&TrafficStat) -> u64| {
                    let values = self.traffic.iter().map(value);
                    values.fold(0u64, u64::saturating_add)
                };
                let messages = count(sum(|stat| stat.messages));
                let bytes = bytes(sum(|stat| stat.bytes));
                let pairs = counted(self.traffic.len() as u64, "pair");
                writeln!(
                    out,
                    "Messages: {messages} of {bytes} between {pairs} of ranks in {}",
                    counted(jobs.into(), "job")
                )?;
                writeln!(out)?;
            }
            None => {}
        }
        self.write_remarks(out)
    }

    /// Writes the statistics as one JSON object.
    ///
    /// # Errors
    /// Returns the errors of `out`.
    pub fn write_json(&self, out: &mut dyn io::Write) -> io::Result<()> {
        match self.untimed {
            true => {
                let mut counts = serde_json::to_value(self)?;
                remove_times(&mut counts);
                serde_json::to_writer_pretty(&mut *out, &counts)?;
            }
            false => serde_json::to_writer_pretty(&mut *out, self)?,
        }
        writeln!(out)
    }

    fn write_functions(&self, out: &mut dyn io::Write, most: usize) -> io::Result<()> {
        writeln!(out, "Functions")?;
        let heads = [
            "function", "calls", "sent", "received", "min", "median", "mean", "max", "total",
        ];
        let shown = if self.untimed { 4 } else { heads.len() };
        let mut table = Table::new(heads[..shown].iter().copied());
        let called: Vec<_> = self.functions.iter().filter(|it| it.calls > 0).collect();
        for stat in called.iter().take(most) {
            let time = |ps| {
                if stat.returned == 0 {
                    "-".to_owned()
                } else {
                    time(ps)
                }
            };
            let mut row = vec![
                stat.function.to_owned(),
                count(stat.calls),
                bytes(stat.sent),
                bytes(stat.received),
                time(stat.min_ps),
                time(stat.median_ps),
                time(stat.mean_ps),
                time(stat.max_ps),
                time(stat.total_ps),
            ];
            row.truncate(shown);
            table.row(row);
        }
        table.write(out)?;
        left_out(out, called.len(), most, "more function")?;
        let unrecorded = self
            .functions
            .iter()
            .filter_map(|stat| Some((stat, stat.seen?)))
            .filter(|(stat, seen)| *seen > stat.calls.saturating_add(stat.nested))
            .take(most / 3);
        for (stat, seen) in unrecorded {
            let recorded = stat.calls.saturating_add(stat.nested);
            writeln!(
                out,
                "  of {} of {} only {} recorded",
                counted(seen, "call"),
                stat.function,
                counted_as(recorded, "was", "were")
            )?;
        }
        writeln!(out)
    }

    fn write_ranks(&self, out: &mut dyn io::Write, most: usize) -> io::Result<()> {
        let jobs = self.ranks.iter().any(|stat| stat.job > 0);
        writeln!(out, "Ranks")?;
        let mut heads = vec![
            if jobs { "job.rank" } else { "rank" },
            "node",
            "calls",
            "sent",
            "received",
        ];
        if !self.untimed {
            heads.splice(3..3, ["compute", "MPI", "start, end", "in MPI"]);
            heads.push("interval (harmonic)");
        }
        let mut table = Table::new(heads);
        for stat in self.ranks.iter().take(most) {
            let mut row = vec![
                if jobs {
                    format!("{}.{}", stat.job, stat.rank)
                } else {
                    stat.rank.to_string()
                },
                stat.node.to_string(),
                count(stat.calls),
                bytes(stat.sent),
                bytes(stat.received),
            ];
            if !self.untimed {
                let main = stat.mpi_ps.saturating_sub(stat.start_and_end_ps);
                let share = percent(main, main.saturating_add(stat.compute_ps));
                let times = [stat.compute_ps, stat.mpi_ps, stat.start_and_end_ps].map(time);
                row.splice(3..3, times.into_iter().chain([share]));
                row.push(interval(&stat.intervals));
            }
            table.row(row);
        }
        table.write(out)?;
        left_out(out, self.ranks.len(), most, "more rank")?;
        if self.untimed {
            return writeln!(out);
        }
        writeln!(
            out,
            "  MPI is the time in all calls; in MPI is the share of the time between start and end"
        )?;
        writeln!(
            out,
            "  compute intervals of all ranks: {}, harmonic mean {}",
            count(self.intervals.count),
            interval(&self.intervals)
        )?;
        writeln!(out)
    }

    fn write_sizes(&self, out: &mut dyn io::Write) -> io::Result<()> {
        if self.sizes.is_empty() {
            return Ok(());
        }
        writeln!(out, "Message sizes")?;
        let most = self.sizes.iter().map(|stat| stat.messages).max();
        let mut table = Table::new(["size", "messages", "bytes", ""]);
        for stat in &self.sizes {
            let size = if stat.from == stat.to {
                bytes(stat.from)
            } else {
                format!(
                    "{} to {}",
                    power(stat.from),
                    power(stat.to.saturating_add(1))
                )
            };
            table.row(vec![
                size,
                count(stat.messages),
                bytes(stat.bytes),
                bar(stat.messages, most.unwrap_or(0)),
            ]);
        }
        table.write(out)?;
        writeln!(out)
    }

    fn write_traffic(&self, out: &mut dyn io::Write) -> io::Result<()> {
        let jobs: std::collections::BTreeSet<u32> = self
            .traffic
            .iter()
            .flat_map(|stat| [stat.job, stat.to_job])
            .collect();
        for job in &jobs {
            let within = |stat: &&TrafficStat| (stat.job, stat.to_job) == (*job, *job);
            let traffic: Vec<&TrafficStat> = self.traffic.iter().filter(within).collect();
            if traffic.is_empty() {
                continue;
            }
            let ranks = traffic.iter().map(|stat| stat.from.max(stat.to)).max();
            let title = if jobs.len() > 1 {
                format!("Messages of job {job}")
            } else {
                "Messages".to_owned()
            };
            match ranks {
                Some(last) if last < MAX_SQUARE => {
                    writeln!(out, "{title}: bytes from rank (row) to rank (column)")?;
                    square(&traffic, last, |stat| bytes(stat.bytes)).write(out)?;
                    writeln!(out)?;
                    writeln!(out, "{title}: number from rank (row) to rank (column)")?;
                    square(&traffic, last, |stat| count(stat.messages)).write(out)?;
                }
                _ => {
                    writeln!(out, "{title}: the heaviest pairs of ranks")?;
                    pairs(traffic, |_, rank| rank.to_string()).write(out)?;
                }
            }
            writeln!(out)?;
        }
        let between = self.traffic.iter().filter(|stat| stat.job != stat.to_job);
        let between: Vec<&TrafficStat> = between.collect();
        if between.is_empty() {
            return Ok(());
        }
        writeln!(
            out,
            "Messages between jobs: the heaviest pairs of ranks, as job.rank"
        )?;
        pairs(between, |job, rank| format!("{job}.{rank}")).write(out)?;
        writeln!(out)
    }

    fn write_remarks(&self, out: &mut dyn io::Write) -> io::Result<()> {
        if !self.processors.is_empty() {
            writeln!(out, "Modelled processor: {}", self.processors.join(", "))?;
        }
        let nested = self.functions.iter().map(|stat| stat.nested);
        let nested = nested.fold(0, u64::saturating_add);
        let remarks = [
            (
                nested,
                "Calls left out because the MPI implementation made them within others",
            ),
            (
                self.singletons,
                "Warning: processes alone in MPI_COMM_WORLD although their launcher started several (it is not their MPI library's)",
            ),
            (self.unfinished, "Calls that never returned"),
            (self.bad, "Calls with a pointer that could not be read"),
            (
                self.unresolved_messages,
                "Messages to ranks of communicators that could not be worked out",
            ),
            (
                self.unresolved_collectives,
                "Collective operations whose bytes are unknown and count as 0",
            ),
        ];
        for (number, remark) in remarks.iter().filter(|(number, _)| *number > 0) {
            writeln!(out, "{remark}: {}", count(*number))?;
        }
        if let Some(kept) = &self.kept {
            let dropped = count(kept.dropped_calls);
            let counted = match kept.counted {
                true => {
                    "are counted by their sums, but in medians, sizes and messages between ranks"
                }
                false => "are not counted",
            };
            writeln!(
                out,
                "Calls of iterations that were not kept: {dropped}; they {counted}"
            )?;
        }
        if self.inexact_received > 0 {
            writeln!(
                out,
                "Bytes received that are the room for them, the program not having asked for more: {}",
                bytes(self.inexact_received)
            )?;
        }
        Ok(())
    }
}

/// Removes the times from statistics.
fn remove_times(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::Object(members) => {
            members.retain(|key, _| {
                !key.ends_with("_ps")
                    && !["returned", "intervals", "efficiency"].contains(&key.as_str())
            });
            members.values_mut().for_each(remove_times);
        }
        serde_json::Value::Array(items) => items.iter_mut().for_each(remove_times),
        _ => {}
    }
}

/// Notes how many of `all` are missing if only `most` are shown.
fn left_out(out: &mut dyn io::Write, all: usize, most: usize, what: &str) -> io::Result<()> {
    match all.checked_sub(most) {
        None | Some(0) => Ok(()),
        Some(more) => writeln!(out, "  and {}", counted(more as u64, what)),
    }
}

fn interval(stat: &IntervalStat) -> String {
    if stat.count == 0 {
        return "-".to_owned();
    }
    let ps = stat.harmonic_mean_s * 1e12;
    format!(
        "{} cycles = {}",
        decimal(stat.harmonic_mean_cycles, 0),
        time(ps.round() as u64)
    )
}

/// Formats a power of two as a size: `4 KiB`.
fn power(value: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    let mut value = value;
    let mut unit = 0;
    while value >= 1024 && value.is_multiple_of(1024) && unit + 1 < UNITS.len() {
        value /= 1024;
        unit += 1;
    }
    format!("{value} {}", UNITS[unit])
}

fn bar(part: u64, most: u64) -> String {
    const WIDTH: u128 = 40;
    let length = (u128::from(part) * WIDTH)
        .checked_div(u128::from(most))
        .unwrap_or(0);
    format!("{:<40}", "#".repeat((length as usize).max(1)))
}

fn square(traffic: &[&TrafficStat], last: u32, cell: impl Fn(&TrafficStat) -> String) -> Table {
    let mut heads = vec![String::new()];
    heads.extend((0..=last).map(|rank| rank.to_string()));
    let mut table = Table::new(heads);
    for from in 0..=last {
        let mut row = vec![from.to_string()];
        row.extend((0..=last).map(|to| {
            let mut stats = traffic.iter();
            let stat = stats.find(|stat| (stat.from, stat.to) == (from, to));
            stat.map_or_else(|| ".".to_owned(), |stat| cell(stat))
        }));
        table.row(row);
    }
    table
}

fn pairs(mut traffic: Vec<&TrafficStat>, name: fn(u32, u32) -> String) -> Table {
    traffic.sort_by_key(|stat| {
        let (from, to) = ((stat.job, stat.from), (stat.to_job, stat.to));
        (std::cmp::Reverse(stat.bytes), from, to)
    });
    let mut table = Table::new(["from", "to", "messages", "bytes"]);
    let left_out = traffic.get(MAX_LINES..).unwrap_or_default();
    for stat in traffic.iter().take(MAX_LINES) {
        table.row(vec![
            name(stat.job, stat.from),
            name(stat.to_job, stat.to),
            count(stat.messages),
            bytes(stat.bytes),
        ]);
    }
    if !left_out.is_empty() {
        let sum = |value: fn(&TrafficStat) -> u64| {
            left_out
                .iter()
                .fold(0u64, |sum, stat| sum.saturating_add(value(stat)))
        };
        table.row(vec![
            format!("{} more", left_out.len()),
            String::new(),
            count(sum(|stat| stat.messages)),
            bytes(sum(|stat| stat.bytes)),
        ]);
    }
    table
}
