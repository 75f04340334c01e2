//! Root causes of waits as text.
//!
//! Used by `render`.

use std::io;

use super::super::{CodeDelay, CodePlace, DelayCosts, Waiting};
use super::name;
use crate::dump::frames::lines;
use crate::table::{Table, counted_as, percent, time};

/// Number of codes that the text shows.
const CODES: usize = 12;
/// Number of functions and loops that the text shows.
const LINES: usize = 8;

impl Waiting {
    /// Writes the root causes of waits, if they were followed and there are any.
    pub(super) fn write_delays(&self, out: &mut dyn io::Write) -> io::Result<()> {
        let Some(delays) = self.delays.as_ref().filter(|own| !own.codes.is_empty()) else {
            return Ok(());
        };
        let whole = self.kinds.iter().map(|stat| stat.waiting_ps);
        let whole = whole.fold(0u64, u64::saturating_add);
        write_codes(delays, whole, out)?;
        write_functions(delays, whole, out)?;
        write_loops(delays, whole, out)?;
        if delays.unattributed_ps > 0 {
            writeln!(
                out,
                "  warning: {} of waiting, {}, has no known root cause",
                time(delays.unattributed_ps),
                percent(delays.unattributed_ps, whole)
            )?;
            writeln!(out)?;
        }
        Ok(())
    }
}

/// Formats the cells of a cost, and its share of all waiting.
fn cells(direct: u64, indirect: u64, total: u64, whole: u64) -> [String; 4] {
    [
        time(direct),
        time(indirect),
        time(total),
        percent(total, whole),
    ]
}

fn write_codes(delays: &DelayCosts, whole: u64, out: &mut dyn io::Write) -> io::Result<()> {
    writeln!(out, "Root causes of waiting: code that delayed others")?;
    let jobs = delays.ranks.iter().any(|rank| rank.job > 0);
    let mut table = Table::new([
        "code",
        "ranks",
        "most on rank",
        "direct cost",
        "indirect cost",
        "cost",
        "share",
    ]);
    for code in delays.codes.iter().take(CODES) {
        let mut row = vec![
            words(code),
            code.ranks.to_string(),
            name(jobs, code.most_job, code.most_rank),
        ];
        row.extend(cells(
            code.direct_ps,
            code.indirect_ps,
            code.total_ps,
            whole,
        ));
        table.row(row);
        let place = |word: &str, place: &Option<CodePlace>| {
            let frames = place.iter().flat_map(|place| place.frames.iter().take(1));
            let lines = frames.flat_map(lines);
            lines
                .map(|line| vec![format!("  {word} {line}")])
                .collect::<Vec<_>>()
        };
        let from = place("from", &code.from);
        let to = place(if code.in_call { "at" } else { "to" }, &code.to);
        from.into_iter().chain(to).for_each(|row| table.row(row));
    }
    table.write(out)?;
    if let Some(more) = delays.codes.len().checked_sub(CODES).filter(|it| *it > 0) {
        let (one, many) = (
            "further cause costs less; --json has it",
            "further causes cost less; --json has them",
        );
        writeln!(out, "  {}", counted_as(more as u64, one, many))?;
    }
    writeln!(out)
}

fn write_functions(delays: &DelayCosts, whole: u64, out: &mut dyn io::Write) -> io::Result<()> {
    writeln!(out, "Root causes by function")?;
    let mut table = Table::new([
        "function",
        "work before it",
        "in it",
        "direct cost",
        "indirect cost",
        "cost",
        "share",
    ]);
    for own in delays.functions.iter().take(LINES) {
        let mut row = vec![
            own.function.to_owned(),
            time(own.before_ps),
            time(own.within_ps),
        ];
        row.extend(cells(own.direct_ps, own.indirect_ps, own.total_ps, whole));
        table.row(row);
    }
    table.write(out)?;
    writeln!(out)
}

fn write_loops(delays: &DelayCosts, whole: u64, out: &mut dyn io::Write) -> io::Result<()> {
    if delays.loops.is_empty() {
        return Ok(());
    }
    writeln!(out, "Root causes by loop")?;
    let mut table = Table::new([
        "loop, by its first call",
        "direct cost",
        "indirect cost",
        "cost",
        "share",
    ]);
    for own in delays.loops.iter().take(LINES) {
        let header = own.header.as_deref().unwrap_or("outside of loops");
        let mut row = vec![header.to_owned()];
        row.extend(cells(own.direct_ps, own.indirect_ps, own.total_ps, whole));
        table.row(row);
    }
    table.write(out)?;
    writeln!(out)
}

/// Formats a code.
fn words(code: &CodeDelay) -> String {
    match (&code.from, &code.to) {
        (_, Some(to)) if code.in_call => format!("in {}", to.function),
        (Some(from), Some(to)) => format!("{} to {}", from.function, to.function),
        (None, Some(to)) => format!("start to {}", to.function),
        (_, None) => "unknown".to_owned(),
    }
}
