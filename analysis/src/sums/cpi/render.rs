//! Cycles per instruction as text and as JSON.
//!
//! Both have the same figures; a part that is not modelled has no number, rather than zero. Used by `belljar trace stat
//! --cpi`.

use std::io;

use super::{CpiPart, CpiStat, CpiStatistics};
use belljar_sim::figures::decimal;

use crate::table::{Table, count};

impl CpiStatistics {
    /// Writes the statistics as a text table.
    ///
    /// # Errors
    /// Returns the errors of `out`.
    pub fn write(&self, out: &mut dyn io::Write) -> io::Result<()> {
        writeln!(
            out,
            "Cycles per instruction outside MPI: CPI = core + caches + memory + idle + MPI"
        )?;
        let jobs = self.ranks.iter().any(|stat| stat.job > Some(0));
        let mut table = Table::new([
            if jobs { "job.rank" } else { "rank" },
            "node",
            "instructions",
            "CPI",
            "core",
            "caches",
            "memory",
            "idle",
            "MPI",
        ]);
        for stat in self.ranks.iter().chain([&self.all]) {
            table.row(row(stat, jobs));
        }
        table.write(out)?;
        if self.all.memory.is_none() {
            writeln!(out, "  -: caches and memory are not modelled")?;
        }
        if self.all.idle.is_none() {
            writeln!(
                out,
                "  without a time model, instructions are cycles by the scenario's ratio, and core has the idle time"
            )?;
        }
        if self.processors > 1 {
            writeln!(
                out,
                "  nodes have {} processors: what other threads execute on a rank's processor between its calls counts for the rank",
                self.processors
            )?;
        }
        Ok(())
    }

    /// Writes the statistics as one JSON object.
    ///
    /// # Errors
    /// Returns the errors of `out`.
    pub fn write_json(&self, out: &mut dyn io::Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, self)?;
        writeln!(out)
    }
}

fn row(stat: &CpiStat, jobs: bool) -> Vec<String> {
    let number = |value: Option<u32>| value.map_or_else(String::new, |value| value.to_string());
    let part = |part: CpiPart| decimal(part.per_instruction, 3);
    let modelled = |value: Option<CpiPart>| value.map_or_else(|| "-".to_owned(), part);
    let name = match (stat.job, stat.rank) {
        (Some(job), Some(rank)) if jobs => format!("{job}.{rank}"),
        (_, Some(rank)) => rank.to_string(),
        _ => "all".to_owned(),
    };
    vec![
        name,
        number(stat.node),
        count(stat.instructions),
        part(stat.total),
        part(stat.core),
        modelled(stat.caches),
        modelled(stat.memory),
        modelled(stat.idle),
        part(stat.mpi),
    ]
}
