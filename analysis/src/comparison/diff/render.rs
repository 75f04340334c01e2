//! Differences as text and as JSON.
//!
//! Both have the same figures. Used by `belljar trace diff`.

use std::io;

use super::{Both, CallDiff, RankDiff, SiteDiff, TraceDiff};
use crate::dump::frames::lines;
use belljar_sim::figures::{self, decimal};

use crate::table::{Table, count, counted, time};

/// Number of ranks whose calls are shown.
const SHOWN: usize = 4;

/// Number of call sites shown in the text.
const SITES: usize = 20;

/// The warning that runs have different processors in their time models; `None` if they have the same.
pub fn processors_warning([a, b]: &[Vec<String>; 2]) -> Option<String> {
    let named = |all: &Vec<String>| match all.is_empty() {
        true => "no processor".to_owned(),
        false => all.join(", "),
    };
    (a != b).then(|| {
        format!(
            "the runs model different processors ({} and {}), so times between MPI calls differ by them, too",
            named(a),
            named(b)
        )
    })
}

impl TraceDiff {
    /// Writes the differences as text.
    ///
    /// # Errors
    /// Returns the errors of `out`.
    pub fn write(&self, out: &mut dyn io::Write) -> io::Result<()> {
        let calls: u64 = self.ranks.iter().map(|rank| rank.calls.a).sum();
        if self.equal {
            return writeln!(
                out,
                "Equal: {} of {}, at the same cycles.",
                counted(calls, "call"),
                counted(self.ranks.len() as u64, "rank")
            );
        }
        match self.same_structure {
            true => writeln!(
                out,
                "The programs do the same: {}, at other times.",
                counted(calls, "call")
            )?,
            false => writeln!(out, "The programs do not do the same.")?,
        }
        if let Some(warning) = self.processors.as_ref().and_then(processors_warning) {
            writeln!(out, "Warning: {warning}.")?;
        }
        let Both { a, b } = self.span_ps;
        writeln!(
            out,
            "From the first call to the last return: {} and {}, {}",
            time(a),
            time(b),
            change(self.span_ps)
        )?;
        writeln!(
            out,
            "Runs repeat to the cycle: none of what follows is noise."
        )?;
        self.write_calls(out)?;
        self.write_ranks(out)?;
        self.write_functions(out)?;
        self.write_waiting(out)?;
        self.write_phases(out)?;
        self.write_sites(out)
    }

    /// Writes the differences as one JSON object.
    ///
    /// # Errors
    /// Returns the errors of `out`.
    pub fn write_json(&self, out: &mut dyn io::Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, self)?;
        writeln!(out)
    }

    /// Writes the first calls that differ, or else the first at other times.
    fn write_calls(&self, out: &mut dyn io::Write) -> io::Result<()> {
        let (what, call): (_, fn(&RankDiff) -> Option<&CallDiff>) = match self.same_structure {
            true => ("First calls at another time", |rank| rank.shifts.as_ref()),
            false => ("First calls that are others", |rank| rank.parts.as_ref()),
        };
        let mut all: Vec<_> = self
            .ranks
            .iter()
            .filter_map(|rank| Some((rank, call(rank)?)))
            .collect();
        if all.is_empty() {
            return Ok(());
        }
        writeln!(out, "\n{what}")?;
        all.sort_by_key(|(_, call)| call.after);
        for (rank, call) in all.iter().take(SHOWN) {
            let thread = match call.thread {
                0 => String::new(),
                thread => format!(", thread {thread}"),
            };
            writeln!(
                out,
                "  rank {}{thread}, after {}",
                self.name(rank),
                counted(call.after, "equal call")
            )?;
            for (side, line) in [("a", &call.a), ("b", &call.b)] {
                let line = line.as_deref().unwrap_or("no more calls");
                writeln!(out, "    {side}: {line}")?;
            }
        }
        match all.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => writeln!(
                out,
                "  and {}: --json has them",
                counted(more as u64, "more rank")
            ),
        }
    }

    fn name(&self, rank: &RankDiff) -> String {
        match self.ranks.iter().any(|rank| rank.job > 0) {
            true => format!("{}.{}", rank.job, rank.rank),
            false => rank.rank.to_string(),
        }
    }

    fn write_ranks(&self, out: &mut dyn io::Write) -> io::Result<()> {
        writeln!(out, "\nRanks")?;
        let mut table = Table::new([
            "rank", "calls a", "b", "time a", "b", "change", "MPI a", "b", "change",
        ]);
        for rank in &self.ranks {
            table.row(vec![
                self.name(rank),
                count(rank.calls.a),
                count(rank.calls.b),
                time(rank.span_ps.a),
                time(rank.span_ps.b),
                change(rank.span_ps),
                time(rank.mpi_ps.a),
                time(rank.mpi_ps.b),
                change(rank.mpi_ps),
            ]);
        }
        table.write(out)
    }

    fn write_functions(&self, out: &mut dyn io::Write) -> io::Result<()> {
        writeln!(out, "\nFunctions")?;
        let mut table = Table::new(["function", "calls a", "b", "time a", "b", "change"]);
        for function in &self.functions {
            table.row(vec![
                function.function.to_owned(),
                count(function.calls.a),
                count(function.calls.b),
                time(function.total_ps.a),
                time(function.total_ps.b),
                change(function.total_ps),
            ]);
        }
        table.write(out)
    }

    fn write_waiting(&self, out: &mut dyn io::Write) -> io::Result<()> {
        if self.waiting.is_empty() {
            return Ok(());
        }
        writeln!(out, "\nWaiting")?;
        let mut table = Table::new(["cause", "calls a", "b", "time a", "b", "change"]);
        for waiting in &self.waiting {
            table.row(vec![
                waiting.kind.name().to_owned(),
                count(waiting.calls.a),
                count(waiting.calls.b),
                time(waiting.waiting_ps.a),
                time(waiting.waiting_ps.b),
                change(waiting.waiting_ps),
            ]);
        }
        table.write(out)
    }
}

impl TraceDiff {
    fn write_phases(&self, out: &mut dyn io::Write) -> io::Result<()> {
        if self.phases.is_empty() {
            return Ok(());
        }
        writeln!(out, "\nPhases of the program, of all threads")?;
        let mut table = Table::new([
            "phase",
            "time a",
            "b",
            "change",
            "MPI a",
            "b",
            "change",
            "waiting a",
            "b",
            "change",
        ]);
        for phase in &self.phases {
            let mut cells = vec![phase.phase.name().to_owned()];
            for both in [phase.time_ps, phase.total_ps, phase.waiting_ps] {
                cells.extend([time(both.a), time(both.b), change(both)]);
            }
            table.row(cells);
        }
        table.write(out)
    }

    fn write_sites(&self, out: &mut dyn io::Write) -> io::Result<()> {
        if self.sites.is_empty() {
            return Ok(());
        }
        writeln!(out, "\nCall sites")?;
        let mut table = Table::new([
            "function, called at",
            "calls a",
            "b",
            "time a",
            "b",
            "change",
            "waiting a",
            "b",
            "change",
        ]);
        let changed = |site: &&SiteDiff| {
            let figures = [site.calls, site.total_ps, site.waiting_ps];
            figures.iter().any(|both| both.a != both.b)
        };
        for site in self.sites.iter().filter(changed).take(SITES) {
            let mut cells = vec![site.function.to_owned()];
            cells.extend([count(site.calls.a), count(site.calls.b)]);
            for both in [site.total_ps, site.waiting_ps] {
                cells.extend([time(both.a), time(both.b), change(both)]);
            }
            table.row(cells);
            let frames = site.frames.iter().flat_map(lines);
            frames.for_each(|line| table.row(vec![format!("  {line}")]));
        }
        table.write(out)?;
        match self
            .sites
            .iter()
            .filter(changed)
            .count()
            .saturating_sub(SITES)
        {
            0 => Ok(()),
            more => writeln!(
                out,
                "  {} changed less; --json has them",
                counted(more as u64, "further site")
            ),
        }
    }
}

/// Formats the change from the first figure to the second: `+12.3 %`, `-50.0 %`, or a factor if it is more than ten.
fn change(Both { a, b }: Both) -> String {
    if a == b {
        return "same".to_owned();
    }
    if a == 0 {
        return "new".to_owned();
    }
    match b as f64 / a as f64 {
        ratio @ 10.0.. => format!("{} times", decimal(ratio, 0)),
        _ => figures::change(a, b),
    }
}
