//! Results of several traces side by side: a line for each item, with a column of each figure for each run.
//!
//! Runs are called a, b and so on. Items are in the order of the first run, followed by items that only later runs have. Used by `belljar trace`
//! with several directories.

use std::collections::BTreeMap;
use std::io;

use serde::Serialize;
use serde_json::{Value, json};

use crate::causes::waiting::Waiting;
use crate::dump::frames::lines;
use crate::structure::loops::LoopStructure;
use crate::sums::sites::CallSites;
use crate::sums::stat::Statistics;
use crate::table::{Table, bytes, count, percent, time};

/// Most items of a table.
const MOST_THINGS: usize = 60;

/// Figures of one run: the item of each line, and its cells.
pub type Lines = Vec<(String, Vec<String>)>;

/// A table's columns, common to all runs.
#[derive(Debug)]
pub struct Shape {
    title: &'static str,
    /// The heading of the items.
    thing: &'static str,
    figures: &'static [&'static str],
}

/// A result that can be compared with others of its kind.
pub trait Comparable {
    /// Its tables.
    const SHAPES: &'static [Shape];

    /// Returns this run's lines for each of the tables.
    fn told(&self) -> Vec<Lines>;

    /// Writes it as JSON.
    ///
    /// # Errors
    /// Returns the errors of `out`.
    fn json(&self, out: &mut dyn io::Write) -> io::Result<()>;
}

/// Results of several runs, each with the run's name.
#[derive(Clone, Debug)]
pub struct Several<T>(pub Vec<(String, T)>);

/// Returns a run's name in tables: a to z, and then numbers.
fn letter(run: usize) -> String {
    match u8::try_from(run) {
        Ok(number) if number < 26 => char::from(b'a' + number).to_string(),
        _ => (run + 1).to_string(),
    }
}

impl<T: Comparable> Several<T> {
    /// Writes them as text tables.
    ///
    /// # Errors
    /// Returns the errors of `out`.
    pub fn write(&self, out: &mut dyn io::Write) -> io::Result<()> {
        writeln!(out, "Runs")?;
        for (run, (name, _)) in self.0.iter().enumerate() {
            writeln!(out, "  {}  {name}", letter(run))?;
        }
        let mut told: Vec<Vec<Lines>> = self.0.iter().map(|(_, own)| own.told()).collect();
        for (number, shape) in T::SHAPES.iter().enumerate() {
            let lines = told.iter_mut().map(|own| own.get_mut(number));
            let lines = lines.map(|own| own.map(std::mem::take).unwrap_or_default());
            writeln!(out)?;
            shape.write(&lines.collect::<Vec<Lines>>(), out)?;
        }
        Ok(())
    }

    /// Writes them as one JSON object: `runs`, each with its name as `run` and its `result`.
    ///
    /// # Errors
    /// Returns the errors of `out`.
    pub fn write_json(&self, out: &mut dyn io::Write) -> io::Result<()> {
        #[derive(Serialize)]
        struct Run<'a> {
            run: &'a str,
            result: Value,
        }
        let runs = self.0.iter().map(|(name, own)| {
            let mut text = Vec::new();
            own.json(&mut text)?;
            Ok(Run {
                run: name,
                result: serde_json::from_slice(&text)?,
            })
        });
        let runs = runs.collect::<io::Result<Vec<Run<'_>>>>()?;
        serde_json::to_writer_pretty(&mut *out, &json!({ "runs": runs }))?;
        writeln!(out)
    }
}

impl Shape {
    /// Creates a table called `title` with a line for each `thing`, and these figures for each run.
    pub const fn new(
        title: &'static str,
        thing: &'static str,
        figures: &'static [&'static str],
    ) -> Self {
        Self {
            title,
            thing,
            figures,
        }
    }

    fn write(&self, runs: &[Lines], out: &mut dyn io::Write) -> io::Result<()> {
        writeln!(out, "{}", self.title)?;
        let mut places: BTreeMap<&str, usize> = BTreeMap::new();
        let mut things: Vec<(&str, Vec<Option<&Vec<String>>>)> = Vec::new();
        for (run, lines) in runs.iter().enumerate() {
            for (thing, cells) in lines {
                let place = *places.entry(thing).or_insert_with(|| {
                    things.push((thing, vec![None; runs.len()]));
                    things.len() - 1
                });
                things[place].1[run] = Some(cells);
            }
        }
        let mut heads = vec![self.thing.to_owned()];
        for figure in self.figures {
            let of = |run| match run {
                0 => format!("{figure} a"),
                run => letter(run),
            };
            heads.extend((0..runs.len()).map(of));
        }
        let mut table = Table::new(heads);
        for (thing, of) in things.iter().take(MOST_THINGS) {
            let mut row = vec![(*thing).to_owned()];
            for figure in 0..self.figures.len() {
                let cell = |own: &Option<&Vec<String>>| own.and_then(|it| it.get(figure).cloned());
                row.extend(of.iter().map(|own| cell(own).unwrap_or_default()));
            }
            table.row(row);
        }
        table.write(out)?;
        if things.len() > MOST_THINGS {
            let more = (things.len() - MOST_THINGS) as u64;
            writeln!(out, "  and {} more: --json has all", count(more))?;
        }
        Ok(())
    }
}

impl Comparable for Statistics {
    const SHAPES: &'static [Shape] = &[
        Shape {
            title: "All ranks",
            thing: "figure",
            figures: &[""],
        },
        Shape {
            title: "Efficiency of the main part",
            thing: "efficiency",
            figures: &[""],
        },
        Shape {
            title: "Functions",
            thing: "function",
            figures: &["calls", "time", "sent"],
        },
    ];

    fn told(&self) -> Vec<Lines> {
        let sum = |of: fn(&crate::RankStat) -> u64| {
            let ranks = self.ranks.iter();
            ranks.fold(0u64, |sum, rank| sum.saturating_add(of(rank)))
        };
        let timed = |ps| {
            if self.untimed {
                String::new()
            } else {
                time(ps)
            }
        };
        let (compute, inside) = (sum(|rank| rank.compute_ps), sum(|rank| rank.mpi_ps));
        let share = match self.untimed {
            true => String::new(),
            false => percent(inside, compute.saturating_add(inside)),
        };
        let whole = [
            ("ranks", count(self.ranks.len() as u64)),
            ("calls", count(sum(|rank| rank.calls))),
            ("compute", timed(compute)),
            ("MPI", timed(inside)),
            ("in MPI", share),
            ("sent", bytes(sum(|rank| rank.sent))),
        ];
        let whole = whole.map(|(name, value)| (name.to_owned(), vec![value]));
        let functions = self.functions.iter().map(|own| {
            let cells = vec![count(own.calls), timed(own.total_ps), bytes(own.sent)];
            (own.function.to_owned(), cells)
        });
        let efficiency = self.efficiency.as_ref();
        let efficiency = efficiency.map_or_else(Vec::new, |own| own.lines());
        vec![whole.to_vec(), efficiency, functions.collect()]
    }

    fn json(&self, out: &mut dyn io::Write) -> io::Result<()> {
        self.write_json(out)
    }
}

impl Comparable for Waiting {
    const SHAPES: &'static [Shape] = &[
        Shape {
            title: "Causes",
            thing: "cause",
            figures: &["calls", "waiting", "longest"],
        },
        Shape {
            title: "Functions that waited",
            thing: "function",
            figures: &["waited", "total", "waiting"],
        },
        Shape {
            title: "Ranks",
            thing: "rank",
            figures: &["MPI", "waiting", "others wait for it", "cost"],
        },
    ];

    fn told(&self) -> Vec<Lines> {
        let kinds = self.kinds.iter().filter(|own| own.calls > 0).map(|own| {
            let cells = vec![count(own.calls), time(own.waiting_ps), time(own.max_ps)];
            (own.kind.name().to_owned(), cells)
        });
        let functions = self.functions.iter().map(|own| {
            let cells = vec![count(own.waited), time(own.total_ps), time(own.waiting_ps)];
            (own.function.to_owned(), cells)
        });
        let several = self.ranks.iter().any(|own| own.job > 0);
        let costs = self.delays.iter().flat_map(|delays| &delays.ranks);
        let costs: BTreeMap<(u32, u32), u64> = costs
            .map(|own| ((own.job, own.rank), own.total_ps))
            .collect();
        let ranks = self.ranks.iter().map(|own| {
            let name = match several {
                true => format!("{}:{}", own.job, own.rank),
                false => own.rank.to_string(),
            };
            let mut cells = [own.mpi_ps, own.waiting_ps, own.caused_ps]
                .map(time)
                .to_vec();
            let cost = costs.get(&(own.job, own.rank)).copied();
            cells.push(cost.map_or_else(String::new, time));
            (name, cells)
        });
        vec![kinds.collect(), functions.collect(), ranks.collect()]
    }

    fn json(&self, out: &mut dyn io::Write) -> io::Result<()> {
        self.write_json(out)
    }
}

impl Comparable for CallSites {
    const SHAPES: &'static [Shape] = &[Shape {
        title: "Call sites",
        thing: "function, place",
        figures: &["calls", "total", "waiting"],
    }];

    fn told(&self) -> Vec<Lines> {
        let sites = self.sites.iter().map(|own| {
            let place: Vec<String> = own.frames.iter().flat_map(lines).collect();
            let cells = vec![count(own.calls), time(own.total_ps), time(own.waiting_ps)];
            (format!("{}, {}", own.function, place.join(" < ")), cells)
        });
        vec![sites.collect()]
    }

    fn json(&self, out: &mut dyn io::Write) -> io::Result<()> {
        self.write_json(out)
    }
}

impl Comparable for LoopStructure {
    const SHAPES: &'static [Shape] = &[
        Shape {
            title: "Classes of ranks",
            thing: "class",
            figures: &["calls", "outermost loops", "time", "in loops"],
        },
        Shape {
            title: "Phases",
            thing: "class, phase",
            figures: &["calls", "time", "in MPI"],
        },
    ];

    fn told(&self) -> Vec<Lines> {
        let timed = |ps| {
            if self.untimed {
                String::new()
            } else {
                time(ps)
            }
        };
        let classes = self.classes.iter().map(|own| {
            let inside = match self.untimed {
                true => String::new(),
                false => percent(own.outermost_ps, own.time_ps),
            };
            let (calls, loops) = (count(own.calls), count(own.outermost_loops));
            (
                own.name.clone(),
                vec![calls, loops, timed(own.time_ps), inside],
            )
        });
        let phases = self.classes.iter().flat_map(|own| {
            let name = &own.name;
            own.phases.iter().map(move |phase| {
                let times = [phase.time_ps, phase.in_mpi_ps].map(timed);
                let mut cells = vec![count(phase.calls)];
                cells.extend(times);
                (format!("{name}, {}", phase.phase), cells)
            })
        });
        vec![classes.collect(), phases.collect()]
    }

    fn json(&self, out: &mut dyn io::Write) -> io::Result<()> {
        self.write_json(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::causes::waiting::{KindWait, RankWait, WaitKind};

    fn waiting(kinds: &[(WaitKind, u64)]) -> Waiting {
        let kind = |(kind, waiting_ps): &(WaitKind, u64)| KindWait {
            kind: *kind,
            calls: 2,
            waiting_ps: *waiting_ps,
            max_ps: 1000,
        };
        Waiting {
            kinds: kinds.iter().map(kind).collect(),
            ranks: vec![RankWait {
                job: 0,
                rank: 3,
                node: 1,
                mpi_ps: 9000,
                start_and_end_ps: 0,
                start_and_end_waiting_ps: 0,
                waiting_ps: 8000,
                caused_ps: 0,
            }],
            ..Waiting::default()
        }
    }

    fn both() -> Several<Waiting> {
        let first = waiting(&[(WaitKind::LateSender, 5000)]);
        let second = waiting(&[(WaitKind::Barrier, 7000), (WaitKind::LateSender, 6000)]);
        Several(vec![
            ("slow".to_owned(), first),
            ("fast".to_owned(), second),
        ])
    }

    #[test]
    fn each_figure_has_a_column_for_each_run() {
        let mut text = Vec::new();
        both().write(&mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.starts_with("Runs\n  a  slow\n  b  fast\n"), "{text}");
        let line = |start: &str| {
            let mut lines = text.lines().map(str::trim);
            let line = lines.find(|line| line.starts_with(start));
            let words = line.unwrap_or_else(|| panic!("no {start} in {text}"));
            words.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(line("cause"), "cause calls a b waiting a b longest a b");
        let late = WaitKind::LateSender.name();
        assert_eq!(
            line(late),
            format!("{late} 2 2 5.000 ns 6.000 ns 1.000 ns 1.000 ns")
        );
        // An item that the first run lacks.
        let barrier = WaitKind::Barrier.name();
        assert_eq!(line(barrier), format!("{barrier} 2 7.000 ns 1.000 ns"));
        assert_eq!(
            line("3 "),
            "3 9.000 ns 9.000 ns 8.000 ns 8.000 ns 0 ps 0 ps"
        );
    }

    #[test]
    fn json_has_all_runs() {
        let mut text = Vec::new();
        both().write_json(&mut text).unwrap();
        let told: Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(told["runs"][1]["run"], "fast");
        assert_eq!(told["runs"][1]["result"]["kinds"][0]["waiting_ps"], 7000);
    }

    #[test]
    fn a_hostile_number_of_things_is_cut() {
        let shape = &Waiting::SHAPES[0];
        let lines = (0..100).map(|number| (number.to_string(), Vec::new()));
        let mut text = Vec::new();
        shape.write(&[lines.collect()], &mut text).unwrap();
        let text = String::from_utf8(text).unwrap();
        assert!(text.contains("and 40 more"), "{text}");
        assert_eq!((letter(25), letter(26)), ("z".to_owned(), "27".to_owned()));
    }
}
