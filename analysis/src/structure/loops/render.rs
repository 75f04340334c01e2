//! Loops as text and as JSON.
//!
//! The text has times of one thread: means over its class. Used by `belljar trace loops`.

use std::io;

use super::{ClassLoops, LoopPart, LoopStructure, ProgramPart, Sequence, When};
use crate::structure::flow::label;
use belljar_sim::figures::decimal;

use crate::table::{Table, count, counted, counted_as, percent, time};

/// Number of classes that the text shows.
const SHOWN: usize = 16;
/// Number of calls of a sequence that the text lists.
const CALLS: usize = 12;

impl LoopStructure {
    /// Writes the loops as text.
    ///
    /// # Errors
    /// Returns the errors of `out`.
    pub fn write(&self, out: &mut dyn io::Write) -> io::Result<()> {
        writeln!(
            out,
            "Loops of {} with {}, by classes of threads with equal graphs; {} are means of their threads",
            counted(self.threads, "thread"),
            counted(self.calls, "call"),
            if self.untimed { "calls" } else { "times" }
        )?;
        if self.left_out > 0 {
            let left_out = counted_as(
                self.left_out,
                "call only asks for something and is left out; --all takes it in",
                "calls only ask for something and are left out; --all takes them in",
            );
            writeln!(out, "  {left_out}")?;
        }
        for (number, class) in self.classes.iter().enumerate().take(SHOWN) {
            writeln!(out)?;
            writeln!(out, "Class {}: {}", number + 1, class.name)?;
            class.write(self.untimed, out)?;
        }
        if self.classes.len() > SHOWN {
            let rest = (self.classes.len() - SHOWN) as u64;
            writeln!(out)?;
            writeln!(out, "{} more classes: --json has all", count(rest))?;
        }
        self.write_balance(out)
    }

    /// Writes the balance of computing between threads, for the loops with most time to save.
    fn write_balance(&self, out: &mut dyn io::Write) -> io::Result<()> {
        let all = self.balance.iter().filter(|one| one.threads > 1);
        let all: Vec<_> = all.collect();
        if all.is_empty() {
            return Ok(());
        }
        writeln!(out)?;
        writeln!(
            out,
            "Load balance: what threads compute in each loop, of all classes together"
        )?;
        let mut table = Table::new([
            "loop of",
            "threads",
            "mean",
            "most",
            "by rank",
            "imbalance",
            "percent",
        ]);
        for one in all.iter().take(SHOWN) {
            table.row(vec![
                one.path.join(" > "),
                count(one.threads),
                time(one.mean_ps),
                time(one.max_ps),
                one.most.rank.to_string(),
                time(one.imbalance_ps),
                format!("{} %", decimal(one.imbalance_percent, 1)),
            ]);
        }
        table.write(out)?;
        if all.len() > SHOWN {
            let rest = (all.len() - SHOWN) as u64;
            writeln!(out, "{}: --json has all", counted(rest, "more loop"))?;
        }
        Ok(())
    }

    /// Writes the loops as one JSON object.
    ///
    /// # Errors
    /// Returns the errors of `out`.
    pub fn write_json(&self, out: &mut dyn io::Write) -> io::Result<()> {
        serde_json::to_writer_pretty(&mut *out, self)?;
        writeln!(out)
    }
}

impl ClassLoops {
    fn write(&self, untimed: bool, out: &mut dyn io::Write) -> io::Result<()> {
        let threads = (self.threads.len() as u64).max(1);
        match self.phases.get(1) {
            None => writeln!(out, "  no loops")?,
            Some(main) if untimed => writeln!(
                out,
                "  {} of the calls in the main one of {}",
                percent(main.calls, self.calls),
                counted(self.outermost_loops, "outermost loop")
            )?,
            Some(main) => writeln!(
                out,
                "  {} of the time in {}, {} in the main one",
                percent(self.outermost_ps, self.time_ps),
                counted(self.outermost_loops, "outermost loop"),
                percent(main.time_ps, self.time_ps)
            )?,
        }
        writeln!(out)?;
        if !self.phases.is_empty() {
            let mut table = Table::new(shown(
                ["phase", "calls", "time", "share", "in MPI"],
                untimed,
            ));
            for phase in &self.phases {
                let row = [
                    phase.phase.to_owned(),
                    count(phase.calls / threads),
                    time(phase.time_ps / threads),
                    percent(phase.time_ps, self.time_ps),
                    time(phase.in_mpi_ps / threads),
                ];
                table.row(shown(row, untimed));
            }
            table.write(out)?;
            writeln!(out)?;
        }
        let heads = ["program", "calls", "time", "share", "in MPI"];
        let mut rows = TreeRows {
            table: Table::new(shown(heads, untimed)),
            untimed,
            threads,
            whole: self.time_ps,
        };
        rows.body(&self.body, 0);
        rows.table.write(out)
    }
}

/// Returns the cells of a row that are shown: without times the first two.
fn shown<T>(row: [T; 5], untimed: bool) -> Vec<T> {
    let most = if untimed { 2 } else { 5 };
    row.into_iter().take(most).collect()
}

/// The tree's rows.
struct TreeRows {
    table: Table,
    untimed: bool,
    threads: u64,
    whole: u64,
}

impl TreeRows {
    fn body(&mut self, body: &[ProgramPart], depth: usize) {
        for part in body {
            match part {
                ProgramPart::Sequence(part) => self.sequence(part, depth),
                ProgramPart::Loop(part) => self.one_loop(part, depth),
            }
        }
    }

    fn one_loop(&mut self, part: &LoopPart, depth: usize) {
        let irreducible = if part.irreducible {
            ", which has several ways in"
        } else {
            ""
        };
        let row = [
            format!(
                "{}LOOP ({}){}{irreducible}",
                "  ".repeat(depth),
                part.times(),
                part.when.words()
            ),
            count(part.calls / self.threads),
            time(part.time.total_ps / self.threads),
            percent(part.time.total_ps, self.whole),
            time(part.in_mpi_ps / self.threads),
        ];
        self.table.row(shown(row, self.untimed));
        self.body(&part.body, depth + 1);
    }

    fn sequence(&mut self, part: &Sequence, depth: usize) {
        let sum = |calls: &[super::SequenceCall]| {
            let visits = calls.iter().map(|call| call.visits.total).sum::<u64>();
            let mpi = calls.iter().map(|call| call.in_mpi.total_ps);
            let mpi = mpi.fold(0, u64::saturating_add);
            (visits, mpi)
        };
        let indent = "  ".repeat(depth);
        let (visits, mpi) = sum(&part.calls);
        self.row(format!("{indent}SEQ{}", part.when.words()), visits, mpi);
        let calls = &part.calls;
        let (first, rest) = match calls.len() > CALLS {
            true => (&calls[..CALLS / 2], &calls[CALLS / 2..]),
            false => (&calls[..], &[][..]),
        };
        for call in first {
            self.call(&indent, call);
        }
        if !rest.is_empty() {
            let (middle, last) = rest.split_at(rest.len() - CALLS / 2);
            let (visits, mpi) = sum(middle);
            self.row(
                format!("{indent}  ... {} more ...", middle.len()),
                visits,
                mpi,
            );
            for call in last {
                self.call(&indent, call);
            }
        }
    }

    fn call(&mut self, indent: &str, call: &super::SequenceCall) {
        let text = format!("{indent}  {}", call.text);
        self.row(text, call.visits.total, call.in_mpi.total_ps);
    }

    fn row(&mut self, text: String, calls: u64, mpi: u64) {
        let row = [
            text,
            count(calls / self.threads),
            String::new(),
            String::new(),
            time(mpi / self.threads),
        ];
        self.table.row(shown(row, self.untimed));
    }
}

impl LoopPart {
    /// Formats the number of iterations.
    fn times(&self) -> String {
        let all = &self.iterations;
        match all.min == all.max {
            true => counted(all.max, "time"),
            false => format!(
                "{} to {} times, {} in the mean",
                count(all.min),
                count(all.max),
                decimal(all.mean, 1)
            ),
        }
    }
}

impl When {
    /// Formats the iterations, as a suffix to the description of a part.
    fn words(&self) -> String {
        match self {
            Self::Always => String::new(),
            Self::Iterations { labels, of } => {
                let of = of.map(|of| format!(" of {}", count(of)));
                let labels = label::words(labels);
                format!(" in iterations {labels}{}", of.unwrap_or_default())
            }
            Self::Overall { labels, of } => {
                let labels = label::words(labels);
                format!(" in iterations {labels} of {} over all", count(*of))
            }
            Self::Some { times, of } => {
                format!(
                    " {} in {}",
                    counted(*times, "time"),
                    counted(*of, "iteration")
                )
            }
        }
    }
}
