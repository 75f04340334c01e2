//! The critical path as text and as JSON.
//!
//! Both have the same figures. Called by `belljar trace path`.

use std::io;

use super::CriticalPath;
use crate::table::{Table, count, percent, time};

impl CriticalPath {
    /// Writes the path as text tables.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&self, out: &mut dyn io::Write) -> io::Result<()> {
        let whole = self.to_ps.saturating_sub(self.from_ps);
        let computing = self.ranks.iter().map(|part| part.compute_ps);
        let computing = computing.fold(0, u64::saturating_add);
        writeln!(
            out,
            "Critical path: {} from {} to {}, {} changes of rank; {} of it outside MPI",
            time(whole),
            time(self.from_ps),
            time(self.to_ps),
            count(self.changes),
            percent(computing, whole)
        )?;
        writeln!(out)?;
        let jobs = self.ranks.iter().any(|part| part.job > 0);
        let rank = if jobs { "job.rank" } else { "rank" };
        let mut table = Table::new([
            rank,
            "node",
            "on the path",
            "share",
            "outside MPI",
            "in MPI",
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
        table.write(out)
    }

    /// Writes the path as one JSON object.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_json(&self, out: &mut dyn io::Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, self)?;
        writeln!(out)
    }
}
