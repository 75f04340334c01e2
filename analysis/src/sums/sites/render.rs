//! Statistics by call site as text, as JSON and as CSV.
//!
//! All have the same figures; the text shortens names. Used by `belljar trace sites`.

use std::io;

use super::{CallSites, SiteStat};
use crate::dump::frames::lines;
use crate::table::{Table, bytes, count, counted_as, percent, time};

impl CallSites {
    /// Writes the statistics as text tables; with transitions if `transitions`.
    ///
    /// # Errors
    /// Returns the errors of `out`.
    pub fn write(&self, out: &mut dyn io::Write, transitions: bool) -> io::Result<()> {
        writeln!(out, "Call sites")?;
        let mut table = Table::new([
            "site", "calls", "sent", "received", "min", "mean", "max", "total", "share", "waiting",
        ]);
        for site in &self.sites {
            self.rows(site, &mut table);
        }
        table.write(out)?;
        if transitions {
            writeln!(out)?;
            self.write_transitions(out)?;
        }
        self.write_probes(out)?;
        for (number, one, many) in [
            (
                self.beyond,
                "call is of a further site, which is not listed",
                "calls are of further sites, which are not listed",
            ),
            (
                self.transitions_beyond,
                "interval is of a further transition, which is not listed",
                "intervals are of further transitions, which are not listed",
            ),
        ] {
            if number > 0 {
                writeln!(out, "  {}", counted_as(number, one, many))?;
            }
        }
        Ok(())
    }

    /// Adds a site: its figures, and a line for each function of its frames.
    fn rows(&self, site: &SiteStat, table: &mut Table) {
        let times = [site.min_ps, site.mean_ps, site.max_ps, site.total_ps];
        let mut cells = vec![
            format!("{:<3} {}", site.site, site.function),
            count(site.calls),
            bytes(site.sent),
            bytes(site.received),
        ];
        cells.extend(times.map(time));
        cells.push(percent(site.total_ps, self.total_ps));
        cells.push(time(site.waiting_ps));
        table.row(cells);
        for frame in &site.frames {
            for line in lines(frame) {
                table.row(vec![format!("      {line}")]);
            }
        }
    }

    fn write_transitions(&self, out: &mut dyn io::Write) -> io::Result<()> {
        writeln!(
            out,
            "Transitions: from a call's return to the entry of its thread's next call"
        )?;
        let mut table = Table::new([
            "from site, to site",
            "times",
            "min",
            "mean",
            "max",
            "harmonic mean",
            "total",
        ]);
        for transition in &self.transitions {
            let times = [transition.min_ps, transition.mean_ps, transition.max_ps];
            let mut cells = vec![
                format!(
                    "{}, {}",
                    self.called(transition.from),
                    self.called(transition.to)
                ),
                count(transition.count),
            ];
            cells.extend(times.map(time));
            // Truncated to picoseconds, like all times.
            cells.push(time((transition.harmonic_mean_s * 1e12).round() as u64));
            cells.push(time(transition.total_ps));
            table.row(cells);
        }
        table.write(out)
    }

    /// Formats a site's number and function.
    fn called(&self, number: u32) -> String {
        let index = number.checked_sub(1).map(|index| index as usize);
        let site = index.and_then(|index| self.sites.get(index));
        site.map_or_else(
            || "others".to_owned(),
            |site| format!("{number} {}", site.function),
        )
    }

    /// Writes the statistics as one JSON object, sites and transitions.
    ///
    /// # Errors
    /// Returns the errors of `out`.
    pub fn write_json(&self, out: &mut dyn io::Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, self)?;
        writeln!(out)
    }

    /// Writes a table as CSV, after a line with its columns: of sites, or of transitions if `transitions`.
    ///
    /// # Errors
    /// Returns the errors of `out`.
    pub fn write_csv(&self, out: &mut dyn io::Write, transitions: bool) -> io::Result<()> {
        let mut table = csv::Writer::from_writer(out);
        if transitions {
            for transition in &self.transitions {
                table.serialize(transition).map_err(io::Error::other)?;
            }
        } else {
            for site in &self.sites {
                table
                    .serialize(SiteRow::of(site))
                    .map_err(io::Error::other)?;
            }
        }
        table.flush()
    }
}

/// A row of the table of sites.
#[derive(serde::Serialize)]
struct SiteRow {
    site: u32,
    function: &'static str,
    place: String,
    calls: u64,
    returned: u64,
    sent: u64,
    received: u64,
    total_ps: u64,
    mean_ps: u64,
    min_ps: u64,
    max_ps: u64,
    waiting_ps: u64,
}

impl SiteRow {
    fn of(site: &SiteStat) -> Self {
        let frames = site.frames.iter().flat_map(lines);
        let frames: Vec<String> = frames.collect();
        Self {
            site: site.site,
            function: site.function,
            place: frames.join(" < "),
            calls: site.calls,
            returned: site.returned,
            sent: site.sent,
            received: site.received,
            total_ps: site.total_ps,
            mean_ps: site.mean_ps,
            min_ps: site.min_ps,
            max_ps: site.max_ps,
            waiting_ps: site.waiting_ps,
        }
    }
}
