//! The critical path as text and as JSON.
//!
//! Both have the same figures. Used by `belljar trace path`.

use std::io;

use super::CriticalPath;
use crate::dump::frames::lines;
use crate::table::{Table, count, counted, counted_as, percent, time};

/// Number of call sites that the text shows.
const SITES: usize = 20;

impl CriticalPath {
    /// Writes the path as text tables.
    ///
    /// # Errors
    /// Returns the errors of `out`.
    pub fn write(&self, out: &mut dyn io::Write) -> io::Result<()> {
        let whole = self.to_ps.saturating_sub(self.from_ps);
        let computing = self.ranks.iter().map(|part| part.compute_ps);
        let computing = computing.fold(0, u64::saturating_add);
        writeln!(
            out,
            "Critical path: {} from {} to {}, {} of rank; {} of it outside MPI",
            time(whole),
            time(self.from_ps),
            time(self.to_ps),
            counted(self.changes, "change"),
            percent(computing, whole)
        )?;
        writeln!(
            out,
            "  between start and end of MPI: {}; start and end: {}; before the first call of its first rank: {}",
            time(
                whole
                    .saturating_sub(self.start_and_end_ps)
                    .saturating_sub(self.before_ps)
            ),
            time(self.start_and_end_ps),
            time(self.before_ps)
        )?;
        writeln!(out)?;
        let jobs = self.slack.iter().any(|rank| rank.job > 0);
        let rank = if jobs { "job.rank" } else { "rank" };
        let mut table = Table::new([
            rank,
            "node",
            "on the path",
            "share",
            "outside MPI",
            "in MPI",
            "start, end",
        ]);
        for part in &self.ranks {
            let name = match jobs {
                true => format!("{}.{}", part.job, part.rank),
                false => part.rank.to_string(),
            };
            table.row(vec![
                name,
                part.node.to_string(),
                time(part.path_ps),
                percent(part.path_ps, whole),
                time(part.compute_ps),
                time(part.path_ps - part.compute_ps),
                time(part.start_and_end_ps),
            ]);
        }
        table.write(out)?;
        writeln!(out)?;
        let mut table = Table::new(["function", "calls", "on the path", "share"]);
        for part in &self.functions {
            table.row(vec![
                part.function.to_owned(),
                count(part.calls),
                time(part.path_ps),
                percent(part.path_ps, whole),
            ]);
        }
        table.write(out)?;
        self.write_phases(out, whole)?;
        self.write_sites(out, whole)?;
        self.write_slack(out, jobs)
    }

    fn write_phases(&self, out: &mut dyn io::Write, whole: u64) -> io::Result<()> {
        if self.phases.is_empty() {
            return Ok(());
        }
        writeln!(out)?;
        let mut table = Table::new(["phase", "on the path", "share", "outside MPI", "in MPI"]);
        for part in &self.phases {
            table.row(vec![
                part.phase.name().to_owned(),
                time(part.path_ps),
                percent(part.path_ps, whole),
                time(part.compute_ps),
                time(part.path_ps - part.compute_ps),
            ]);
        }
        table.write(out)
    }

    fn write_sites(&self, out: &mut dyn io::Write, whole: u64) -> io::Result<()> {
        if self.sites.is_empty() {
            return Ok(());
        }
        writeln!(out)?;
        let mut table = Table::new(["function, called at", "calls", "on the path", "share"]);
        for part in self.sites.iter().take(SITES) {
            table.row(vec![
                part.function.to_owned(),
                count(part.calls),
                time(part.path_ps),
                percent(part.path_ps, whole),
            ]);
            let frames = part.frames.iter().flat_map(lines);
            frames.for_each(|line| table.row(vec![format!("  {line}")]));
        }
        table.write(out)?;
        match self.sites.len().saturating_sub(SITES) {
            0 => Ok(()),
            more => writeln!(
                out,
                "  {} less of it; --json has them",
                counted_as(more as u64, "further site has", "further sites have")
            ),
        }
    }

    fn write_slack(&self, out: &mut dyn io::Write, jobs: bool) -> io::Result<()> {
        if self.slack.is_empty() {
            return Ok(());
        }
        writeln!(
            out,
            "\nSlack: how much later a rank could do what it does without the end being later"
        )?;
        let mut table = Table::new([
            if jobs { "job.rank" } else { "rank" },
            "node",
            "least",
            "mean",
            "most",
            "not waiting",
            "of it without slack",
        ]);
        for rank in &self.slack {
            let name = match jobs {
                true => format!("{}.{}", rank.job, rank.rank),
                false => rank.rank.to_string(),
            };
            table.row(vec![
                name,
                rank.node.to_string(),
                time(rank.least_ps),
                time(rank.mean_ps),
                time(rank.most_ps),
                time(rank.busy_ps),
                percent(rank.critical_ps, rank.busy_ps),
            ]);
        }
        table.write(out)
    }

    /// Writes the path as one JSON object.
    ///
    /// # Errors
    /// Returns the errors of `out`.
    pub fn write_json(&self, out: &mut dyn io::Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, self)?;
        writeln!(out)
    }
}
