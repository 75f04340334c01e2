//! `belljar explore`: runs the orders of a job's messages that matter.
//!
//! A base run gives the choices of the job. Each further run forces one message by delays, from a checkpoint of the base run, and is
//! observed and judged like the base run. The runs of a round cannot have each other's targets, so the number of processors does not
//! change which runs there are. A failing run is minimised and explained. Called by `main`.

/// Arguments, and their meaning.
mod arguments;
/// The scenario of a run with delays.
mod delayed;
/// Runs with random detours of processors.
mod detours;
/// Explanations of a failing run.
mod explain;
/// Failures that are injected.
mod faults;
/// Runs with failures, and their results.
mod injection;
/// Processes that carry out runs.
mod processes;
/// Runs of the exploration.
mod session;
/// Results, as a table and as JSON.
mod table;
/// Verdicts on runs.
mod verdict;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, bail};
use belljar_files::write_file;
use belljar_orders::{Minimiser, Order, PrioritySchedule, Search, Target, merge, plan};
use belljar_replay::{map_in_parallel, processors};
use belljar_sim::{Random, Seed};

use crate::command::output::say;
use crate::command::terminal::interrupt::{self, Deferral};
use crate::command::terminal::progress::TerminalTask;
pub(crate) use arguments::ExploreArguments;
use arguments::{Budget, SearchOrder, base_words, budget, fault_choice, folder, time};
use detours::DetourOutcome;
use injection::FaultOutcome;
use session::{OrderRun, Session};
use table::{Extent, Outcome, ResultTable};
use verdict::Judge;

/// The file of a failure's folder with the time of its decision, at which `belljar debug` begins.
pub(super) const DECISION_FILE: &str = "decision";
/// The file of a failing run's directory with its explanation, which reports show.
pub(in crate::command) const EXPLANATION_FILE: &str = "explanation.txt";
/// Most runs for one target.
const MOST_ATTEMPTS: u32 = 4;
/// Time by which delays outlast the wanted message at first, in picoseconds, and the factor for each further attempt.
const SLACK_PS: u64 = 1_000_000_000;
const LONGER: u64 = 4;
/// Schedules that are drawn for a target.
const MOST_SCHEDULES: u32 = 64;
/// Most targets of a round.
const MOST_AT_ONCE: usize = 16;

/// `belljar explore`; the exit code is 1 if a run failed.
pub(crate) fn explore(arguments: &ExploreArguments) -> Result<ExitCode> {
    let budget = budget(&arguments.budget)?;
    let patience_ps = time("patience", &arguments.patience)?;
    time("checkpoint-every", &arguments.checkpoint_every)?;
    if !(0.0..=1.0).contains(&arguments.tolerance) {
        bail!(
            "--tolerance is {}; it must be from 0 to 1",
            arguments.tolerance
        );
    }
    let failures = fault_choice(arguments)?;
    let out = folder(arguments.out.as_deref())?;
    let judge = Judge {
        compare: arguments.compare.clone(),
        tolerance: arguments.tolerance,
        predicate: arguments.predicate.clone(),
    };
    let words = base_words(arguments);
    let (session, base) = Session::begin(
        &out,
        &words,
        &arguments.checkpoint_every,
        patience_ps,
        judge,
        !arguments.no_sandbox,
    )?;
    let mut exploration = Exploration {
        table: ResultTable::begin(&out)?,
        runs: BTreeMap::new(),
        search: Search::default(),
        keeps_all: arguments.keep,
        random: (arguments.search == SearchOrder::Random)
            .then(|| Random::new(Seed(arguments.seed.unwrap_or(1)), "explore", 0)),
        schedules: BTreeMap::new(),
        session,
        done: 0,
    };
    exploration.take(base)?;
    // Requested failures come before orders, whose number may exceed any budget.
    let deferral = Deferral::begin();
    let injected = exploration.inject(&failures, budget, &deferral)?;
    let seed = arguments.seed.unwrap_or(1);
    let detoured = exploration.detour(arguments.detours, seed, budget, &deferral)?;
    let extent = exploration.run(budget, &deferral)?;
    let is_interrupted = deferral.is_wanted();
    drop(deferral);
    let explained = match is_interrupted {
        true => Vec::new(),
        false => exploration.explain_failures()?,
    };
    let mut outcome = exploration.conclude(extent, explained, injected, detoured);
    outcome.interrupted = is_interrupted;
    let json = serde_json::to_string_pretty(&outcome)?;
    let path = out.join("summary.json");
    write_file(&path, json.as_bytes())
        .with_context(|| format!("cannot write {}", path.display()))?;
    match arguments.json {
        true => say(json)?,
        false => say(outcome.text(&out))?,
    }
    if outcome.interrupted {
        let kept = format!("the results so far are in {}", out.display());
        return Ok(interrupt::report(&kept));
    }
    Ok(match outcome.has_failures() {
        true => ExitCode::FAILURE,
        false => ExitCode::SUCCESS,
    })
}

/// An exploration in progress.
struct Exploration {
    session: Session,
    search: Search,
    table: ResultTable,
    /// Observed runs by their number in the search.
    runs: BTreeMap<usize, OrderRun>,
    keeps_all: bool,
    /// Draws schedules, if targets are taken at random.
    random: Option<Random>,
    /// Schedules in use, by their places in a round.
    schedules: BTreeMap<usize, PrioritySchedule>,
    done: usize,
}

/// The runs for a target, and the reason that it was missed.
type Attempts = (Vec<OrderRun>, Option<String>);

impl Exploration {
    /// Runs targets until none is left, or the budget is.
    fn run(&mut self, budget: Budget, deferral: &Deferral) -> Result<Extent> {
        let clock = self.session.clock();
        let task = TerminalTask::of_steps("runs", None);
        task.step();
        loop {
            // Further runs may have further targets, so the time that is left is a lower bound.
            task.expect((self.done + self.search.waiting()) as u64);
            let round = self.round(budget);
            if round.is_empty() {
                break;
            }
            let is_over = match budget {
                Budget::Runs(most) => self.done >= most,
                Budget::Time(most) => clock.elapsed() >= most,
            };
            if is_over || deferral.is_wanted() {
                round
                    .into_iter()
                    .rev()
                    .for_each(|target| self.search.postpone(target));
                break;
            }
            for (target, attempts) in self.carry_out(round) {
                let (runs, missed) = match attempts {
                    // The signal ended the run, too.
                    Err(_) if deferral.is_wanted() => {
                        self.search.postpone(target);
                        continue;
                    }
                    attempts => attempts?,
                };
                for run in runs {
                    self.take(run)?;
                    task.step();
                }
                if let Some(reason) = missed {
                    self.table.missed(&target, reason);
                    self.search.miss(target);
                }
            }
        }
        Ok(match self.search.waiting() {
            0 => Extent::Exhausted,
            left => Extent::Cut { left },
        })
    }

    /// Targets of which a run can have one at most.
    fn round(&mut self, budget: Budget) -> Vec<Target> {
        let most = match budget {
            Budget::Runs(most) => MOST_AT_ONCE.min(most.saturating_sub(self.done).max(1)),
            Budget::Time(_) => MOST_AT_ONCE,
        };
        let mut round: Vec<Target> = Vec::new();
        let mut later = Vec::new();
        while round.len() < most {
            self.prefer_at_random(round.len() + later.len());
            let Some(target) = self.search.take_target() else {
                break;
            };
            match round
                .iter()
                .all(|other| exclude(&other.wanted, &target.wanted))
            {
                true => round.push(target),
                false => later.push(target),
            }
        }
        later
            .into_iter()
            .rev()
            .for_each(|target| self.search.postpone(target));
        round
    }

    /// If targets are taken at random, moves the one to the front that schedule `number` wants.
    fn prefer_at_random(&mut self, number: usize) {
        let Some(random) = &mut self.random else {
            return;
        };
        let observed = |at: usize| self.runs.get(&at).map(|run| run.observed.clone());
        let Some(base) = observed(0) else {
            return;
        };
        for _ in 0..MOST_SCHEDULES {
            let schedule = self
                .schedules
                .entry(number)
                .or_insert_with(|| PrioritySchedule::draw(&base, || random.next_u64()));
            if self.search.prefer_by(schedule, observed) {
                return;
            }
            self.schedules.remove(&number);
        }
        // Schedules lead to known orders alone.
        if self.search.queued() > 0 {
            let at = random.next_u64() % self.search.queued() as u64;
            self.search.prefer(at as usize);
        }
    }

    /// Runs the targets of a round on all processors.
    fn carry_out(&self, round: Vec<Target>) -> Vec<(Target, Result<Attempts>)> {
        let first = self.done;
        let tried = map_in_parallel(processors(), round.len(), |at| {
            self.attempt(&round[at], first + at)
        });
        round.into_iter().zip(tried).collect()
    }

    /// Forces a target by delays, which grow until the run has it.
    fn attempt(&self, target: &Target, name: usize) -> Result<Attempts> {
        let Some(parent) = self.runs.get(&target.parent) else {
            bail!("run {} of a target does not exist", target.parent);
        };
        let (mut delays, mut observed) = (parent.delays.clone(), parent.observed.clone());
        let mut slack = SLACK_PS;
        let mut runs = Vec::new();
        for attempt in 0..MOST_ATTEMPTS {
            let more = match plan(&observed, &target.wanted, slack) {
                Ok(more) => more,
                Err(reason) => return Ok((runs, Some(reason.to_string()))),
            };
            delays = merge([delays, more].concat());
            let run = self
                .session
                .carry_out(&format!("{name}-{attempt}"), &delays, None)?;
            observed = run.observed.clone();
            runs.push(run);
            if has(&observed, target) {
                return Ok((runs, None));
            }
            slack *= LONGER;
        }
        let reason = "the delays did not change the order; longer ones may".to_owned();
        Ok((runs, Some(reason)))
    }

    /// Observes a run, and adds it to the table.
    fn take(&mut self, mut run: OrderRun) -> Result<()> {
        let (number, is_new) = self.search.observe(&run.observed);
        self.done += 1;
        if number > 0 {
            self.session.settle(&mut run, &format!("run-{number}"))?;
        }
        self.session.compare(&mut run)?;
        self.table.add(number, &run, is_new)?;
        let is_kept = self.keeps_all || self.session.is_reference(&run);
        if !is_kept && number > 0 && !run.verdict.fails() {
            run.remove()?;
        }
        self.runs.insert(number, run);
        Ok(())
    }

    /// Minimises and explains the first failing run of each kind.
    fn explain_failures(&mut self) -> Result<Vec<explain::Failure>> {
        let mut failures = Vec::new();
        let mut seen: Vec<&'static str> = Vec::new();
        let failing: Vec<usize> = self
            .runs
            .iter()
            .filter(|(_, run)| run.verdict.fails())
            .map(|(number, _)| *number)
            .collect();
        for number in failing {
            let run = self.runs[&number].clone();
            if seen.contains(&run.verdict.word()) {
                continue;
            }
            seen.push(run.verdict.word());
            let minimal = self.minimise(&run, failures.len() + 1)?;
            failures.push(self.explain(number, &minimal)?);
        }
        Ok(failures)
    }

    /// Sums up.
    fn conclude(
        self,
        extent: Extent,
        failures: Vec<explain::Failure>,
        injected: Option<FaultOutcome>,
        detoured: Option<DetourOutcome>,
    ) -> Outcome {
        let unknown: Vec<String> = self
            .runs
            .values()
            .flat_map(|run| run.observed.unknown.clone())
            .collect();
        let mut outcome = self
            .table
            .finish(&self.search, &self.runs, extent, failures, unknown);
        outcome.injected = injected;
        outcome.take_detours(detoured);
        outcome
    }

    /// The run with the fewest delays that fails in the same way.
    fn minimise(&mut self, run: &OrderRun, failure: usize) -> Result<OrderRun> {
        let mut minimiser = Minimiser::new(run.delays.clone());
        let mut best = run.clone();
        let mut trials = 0;
        while let Some(trial) = minimiser.trial() {
            trials += 1;
            let mut own = self.session.carry_out(
                &format!("failure-{failure}-trial-{trials}"),
                &trial,
                None,
            )?;
            self.session.compare(&mut own)?;
            let fails = own.verdict.word() == run.verdict.word();
            minimiser.take(fails);
            if fails {
                if best.directory != run.directory {
                    best.remove()?;
                }
                best = own;
            } else {
                own.remove()?;
            }
        }
        Ok(best)
    }

    fn explain(&self, number: usize, minimal: &OrderRun) -> Result<explain::Failure> {
        let scenario =
            self.session
                .write_scenario(&format!("failure-{number}"), &minimal.delays, None)?;
        let passing = self.runs.iter().filter(|(_, run)| !run.verdict.fails());
        let nearest = passing
            .max_by_key(|(at, run)| (explain::agreement(run, minimal), std::cmp::Reverse(**at)));
        let failure = explain::Failure::of(number, minimal, nearest, scenario);
        if let (Some(at), Some(folder)) = (failure.decision_ps, failure.scenario.parent()) {
            write_decision(folder, at)?;
        }
        let mut text = String::new();
        failure.write(&mut text);
        let path = failure.directory.join(EXPLANATION_FILE);
        write_file(&path, text.as_bytes())
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(failure)
    }
}

/// Writes the time in picoseconds at which the debugger begins with a failure's folder.
fn write_decision(folder: &Path, at_ps: u64) -> Result<()> {
    let path = folder.join(DECISION_FILE);
    write_file(&path, format!("{at_ps} ps\n").as_bytes())
        .with_context(|| format!("cannot write {}", path.display()))
}

/// True if no run has both.
fn exclude(one: &Order, other: &Order) -> bool {
    one.iter()
        .any(|(id, message)| other.get(id).is_some_and(|own| own != message))
}

/// True if a run has the message of the target, and all others as far as it came.
fn has(run: &belljar_orders::ObservedRun, target: &Target) -> bool {
    let has_other = run.choices.iter().any(|choice| {
        target
            .wanted
            .get(&choice.id)
            .is_some_and(|wanted| *wanted != choice.matched)
    });
    let own = run.choice(target.choice);
    !has_other && own.is_some_and(|choice| choice.matched == target.message)
}
