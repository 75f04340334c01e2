//! Efficiencies as text.
//!
//! Used by the statistics of one run and of several.

use std::io;

use belljar_sim::figures;

use super::{Efficiency, Scaling};
use crate::table::{counted, time};

impl Efficiency {
    /// Writes the efficiencies as text.
    ///
    /// # Errors
    /// Returns the errors of `out`.
    pub(crate) fn write(&self, out: &mut dyn io::Write) -> io::Result<()> {
        writeln!(
            out,
            "Efficiency of the main part: {} of {}",
            time(self.main_ps),
            counted(self.processes, "rank")
        )?;
        for (name, share, of) in [
            (
                "parallel efficiency",
                self.parallel,
                "= load balance x communication efficiency",
            ),
            (
                "  load balance",
                self.load_balance,
                "mean / most useful computation",
            ),
            (
                "  communication efficiency",
                self.communication,
                "= serialisation x transfer efficiency",
            ),
            (
                "    serialisation efficiency",
                self.serialisation,
                "most useful computation / time on an ideal network",
            ),
            (
                "    transfer efficiency",
                self.transfer,
                "time on an ideal network / main part",
            ),
        ] {
            writeln!(out, "  {name:<30}{:>8}  {of}", words(share))?;
        }
        if self.ideal_ps.is_none() {
            writeln!(
                out,
                "  serialisation and transfer need the time on an ideal network: --efficiency replays for it"
            )?;
        }
        for warning in &self.warnings {
            writeln!(out, "  warning: {warning}")?;
        }
        writeln!(out)
    }

    /// Returns names and shares for a table of several runs.
    pub(crate) fn lines(&self) -> Vec<(String, Vec<String>)> {
        let scaling = match self.scaling {
            Some(Scaling::Strong) => "computation scaling, strong",
            Some(Scaling::Weak) => "computation scaling, weak",
            None => "computation scaling",
        };
        let all = [
            ("global efficiency", self.global),
            (scaling, self.computation_scaling),
            ("parallel efficiency", self.parallel),
            ("load balance", self.load_balance),
            ("communication efficiency", self.communication),
            ("serialisation efficiency", self.serialisation),
            ("transfer efficiency", self.transfer),
        ];
        let lines = all.map(|(name, share)| (name.to_owned(), vec![words(share)]));
        lines.to_vec()
    }
}

/// Formats a share in percent.
fn words(share: Option<f64>) -> String {
    share.map_or_else(|| "unknown".to_owned(), |share| figures::share(share, 1))
}
