//! Waiting times as text and as JSON.
//!
//! Both have the same figures. Used by `belljar trace wait`.

/// Root causes.
mod delays;

use std::collections::BTreeMap;
use std::io;

use super::{KindWait, RankDelay, RankWait, Waiting};
use crate::dump::frames::lines;
use crate::table::{Table, count, counted, counted_as, percent, time};

/// Number of call sites that the text shows.
const SITES: usize = 20;

impl Waiting {
    /// Writes the waiting times as text tables.
    ///
    /// # Errors
    /// Returns the errors of `out`.
    pub fn write(&self, out: &mut dyn io::Write) -> io::Result<()> {
        self.write_ranks(out)?;
        self.write_delays(out)?;
        self.write_kinds(out)?;
        self.write_functions(out)?;
        self.write_phases(out)?;
        self.write_sites(out)?;
        self.write_longest(out)?;
        writeln!(
            out,
            "Matched: {} and {}. {}",
            counted(self.messages, "message"),
            counted(self.collectives, "collective operation"),
            match self.own_clocks {
                false => "All ranks have one clock: these times are exact, and none was corrected.",
                true =>
                    "Times are as the clocks of their hosts had them, and as exact as these agree.",
            }
        )?;
        for (number, one, many) in [
            (
                self.lone_sends,
                "send has no receive",
                "sends have no receive",
            ),
            (
                self.lone_receives,
                "receive has no send",
                "receives have no send",
            ),
            (
                self.lone_collectives,
                "collective operation lacks processes",
                "collective operations lack processes",
            ),
            (
                self.unresolved,
                "message or part of an operation is of a communicator, or of a sender, that the trace does not tell",
                "messages and parts of operations are of communicators, or of senders, that the trace does not tell",
            ),
        ] {
            if number > 0 {
                writeln!(out, "  {}", counted_as(number, one, many))?;
            }
        }
        Ok(())
    }

    fn write_ranks(&self, out: &mut dyn io::Write) -> io::Result<()> {
        let jobs = self.ranks.iter().any(|stat| stat.job > 0);
        writeln!(out, "Ranks")?;
        let heads = [
            if jobs { "job.rank" } else { "rank" },
            "node",
            "MPI",
            "start, end",
            "waiting",
            "of MPI",
            "others wait for it",
        ];
        let more: &[&str] = match self.delays {
            Some(_) => &["direct cost", "indirect cost", "cost"],
            None => &[],
        };
        let mut table = Table::new(heads.iter().chain(more));
        let costs = self.delays.iter().flat_map(|delays| &delays.ranks);
        let costs: BTreeMap<(u32, u32), &RankDelay> =
            costs.map(|rank| ((rank.job, rank.rank), rank)).collect();
        for stat in &self.ranks {
            let RankWait {
                node,
                mpi_ps,
                start_and_end_ps,
                waiting_ps,
                caused_ps,
                ..
            } = *stat;
            let cost = costs.get(&(stat.job, stat.rank));
            table.row(
                [
                    name(jobs, stat.job, stat.rank),
                    node.to_string(),
                    time(mpi_ps),
                    time(start_and_end_ps),
                    time(waiting_ps),
                    percent(waiting_ps, mpi_ps.saturating_sub(start_and_end_ps)),
                    time(caused_ps),
                ]
                .into_iter()
                .chain(cost.into_iter().flat_map(costs_of))
                .collect(),
            );
        }
        table.write(out)?;
        writeln!(out)
    }

    fn write_kinds(&self, out: &mut dyn io::Write) -> io::Result<()> {
        writeln!(out, "Causes")?;
        let whole = self.kinds.iter().map(|stat| stat.waiting_ps);
        let whole = whole.fold(0u64, u64::saturating_add);
        let mut table = Table::new(["cause", "calls", "waiting", "share", "longest"]);
        for stat in self.kinds.iter().filter(|stat| stat.calls > 0) {
            table.row(vec![
                stat.kind.name().to_owned(),
                count(stat.calls),
                time(stat.waiting_ps),
                percent(stat.waiting_ps, whole),
                time(stat.max_ps),
            ]);
        }
        table.write(out)?;
        if whole == 0 {
            writeln!(out, "  no call waited for another process")?;
        }
        for stat in &self.start_and_end {
            writeln!(
                out,
                "  start and end of MPI, not in these figures: {}, {}, {}",
                stat.kind.name(),
                counted(stat.calls, "call"),
                time(stat.waiting_ps)
            )?;
        }
        writeln!(out)
    }

    fn write_functions(&self, out: &mut dyn io::Write) -> io::Result<()> {
        if self.functions.is_empty() {
            return Ok(());
        }
        writeln!(out, "Functions that waited")?;
        let mut table = Table::new(["function", "calls", "waited", "total", "waiting", "share"]);
        for stat in &self.functions {
            table.row(vec![
                stat.function.to_owned(),
                count(stat.calls),
                count(stat.waited),
                time(stat.total_ps),
                time(stat.waiting_ps),
                percent(stat.waiting_ps, stat.total_ps),
            ]);
        }
        table.write(out)?;
        writeln!(out)
    }

    fn write_phases(&self, out: &mut dyn io::Write) -> io::Result<()> {
        if self.phases.is_empty() {
            return Ok(());
        }
        writeln!(out, "Phases of the program")?;
        let mut table = Table::new([
            "phase, of all threads",
            "time",
            "calls",
            "in MPI",
            "waited",
            "waiting",
            "of MPI",
            "most by",
        ]);
        for stat in &self.phases {
            table.row(vec![
                stat.phase.name().to_owned(),
                time(stat.time_ps),
                count(stat.calls),
                time(stat.total_ps),
                count(stat.waited),
                time(stat.waiting_ps),
                percent(stat.waiting_ps, stat.total_ps),
                most(&stat.kinds),
            ]);
        }
        table.write(out)?;
        writeln!(out)
    }

    fn write_sites(&self, out: &mut dyn io::Write) -> io::Result<()> {
        if self.sites.is_empty() {
            return Ok(());
        }
        writeln!(out, "Call sites that waited")?;
        let mut table = Table::new([
            "function, called at",
            "calls",
            "waited",
            "total",
            "waiting",
            "share",
            "most by",
        ]);
        for stat in self.sites.iter().take(SITES) {
            table.row(vec![
                stat.function.to_owned(),
                count(stat.calls),
                count(stat.waited),
                time(stat.total_ps),
                time(stat.waiting_ps),
                percent(stat.waiting_ps, stat.total_ps),
                most(&stat.kinds),
            ]);
            let frames = stat.frames.iter().flat_map(lines);
            frames.for_each(|line| table.row(vec![format!("  {line}")]));
        }
        table.write(out)?;
        if let Some(more) = self.sites.len().checked_sub(SITES).filter(|more| *more > 0) {
            let (one, many) = (
                "further site waited less; --json has it",
                "further sites waited less; --json has them",
            );
            writeln!(out, "  {}", counted_as(more as u64, one, many))?;
        }
        writeln!(out)
    }

    fn write_longest(&self, out: &mut dyn io::Write) -> io::Result<()> {
        if self.longest.is_empty() {
            return Ok(());
        }
        let jobs = self
            .longest
            .iter()
            .any(|call| call.job > 0 || call.for_job > 0);
        writeln!(out, "Calls that waited longest")?;
        let mut table = Table::new(["cause", "rank", "function", "at", "waiting", "for rank"]);
        for call in &self.longest {
            table.row(vec![
                call.kind.name().to_owned(),
                name(jobs, call.job, call.rank),
                call.function.to_owned(),
                time(call.at_ps),
                time(call.waiting_ps),
                name(jobs, call.for_job, call.for_rank),
            ]);
        }
        table.write(out)?;
        writeln!(out)
    }

    /// Writes the waiting times as one JSON object.
    ///
    /// # Errors
    /// Returns the errors of `out`.
    pub fn write_json(&self, out: &mut dyn io::Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, self)?;
        writeln!(out)
    }
}

/// Formats direct cost, indirect cost and both, as cells.
fn costs_of(rank: &&RankDelay) -> [String; 3] {
    [rank.direct_ps, rank.indirect_ps, rank.total_ps].map(time)
}

/// Returns the cause with the longest waiting.
fn most(kinds: &[KindWait]) -> String {
    let most = kinds.iter().max_by_key(|kind| kind.waiting_ps);
    most.map_or_else(String::new, |kind| kind.kind.name().to_owned())
}

/// Formats a process's name.
fn name(jobs: bool, job: u32, rank: u32) -> String {
    match jobs {
        true => format!("{job}.{rank}"),
        false => rank.to_string(),
    }
}
