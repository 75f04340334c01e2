//! Explanations of a failing run: both orders side by side.
//!
//! The failing run has the fewest delays. It is compared with the passing run whose order agrees with it the longest; the first
//! difference is the decision after which the failure happens. Called at the end of an exploration.

use std::fmt::Write;
use std::path::PathBuf;

use belljar_orders::{Choice, ForcedDelay};
use serde::Serialize;

use super::session::OrderRun;

/// Choices that are listed before the first difference, and after it.
const BEFORE: usize = 3;
const AFTER: usize = 6;

/// A failure with its explanation.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Failure {
    /// Number of the run that failed first.
    pub(super) run: usize,
    /// Kind of verdict.
    pub(super) verdict: &'static str,
    pub(super) detail: String,
    /// The fewest delays with which it fails.
    pub(super) delays: Vec<ForcedDelay>,
    /// Scenario that repeats it.
    pub(super) scenario: PathBuf,
    /// Directory of the run with the fewest delays.
    pub(super) directory: PathBuf,
    /// Number of the passing run that it is compared with; `None` if no run passed.
    pub(super) passing: Option<usize>,
    /// The choice at which both differ first.
    pub(super) decision: Option<String>,
    /// The virtual time in picoseconds at which the failing run enters the call of this choice, or at which its first delay begins if no choice differs.
    pub(super) decision_ps: Option<u64>,
    /// Choices around the first difference, by both runs.
    pub(super) sides: Vec<Sides>,
}

/// A choice of both runs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct Sides {
    pub(super) choice: String,
    /// The message in the passing run; `None` if the run did not reach the choice.
    pub(super) passing: Option<String>,
    pub(super) failing: Option<String>,
}

/// Number of choices of the failing run before the first that the other run makes otherwise.
pub(super) fn agreement(passing: &OrderRun, failing: &OrderRun) -> usize {
    let same = |choice: &&Choice| {
        let other = passing.observed.choice(choice.id);
        other.is_some_and(|other| other.matched == choice.matched)
    };
    failing.observed.choices.iter().take_while(same).count()
}

impl Failure {
    /// Explains the failing run by the passing one with its number.
    pub(super) fn of(
        run: usize,
        failing: &OrderRun,
        passing: Option<(&usize, &OrderRun)>,
        scenario: PathBuf,
    ) -> Self {
        let sides = passing.map_or_else(Vec::new, |(_, passing)| sides(passing, failing));
        let decision = sides.iter().find(|side| side.passing != side.failing);
        let decision = decision.map(|side| side.choice.clone());
        let mut choices = failing.observed.choices.iter();
        let choice = choices.find(|choice| Some(choice.id.to_string()) == decision);
        // Without another message, the first delay made the difference.
        let first_delay = failing.delays.iter().map(|delay| delay.at_ps).min();
        let decision_ps = choice.map(|choice| choice.entry_ps).or(first_delay);
        let first = sides
            .iter()
            .position(|side| side.passing != side.failing)
            .unwrap_or(sides.len());
        let shown = sides
            .into_iter()
            .skip(first.saturating_sub(BEFORE))
            .take(BEFORE + AFTER);
        Self {
            run,
            verdict: failing.verdict.word(),
            detail: failing.verdict.detail(),
            delays: failing.delays.clone(),
            directory: failing.directory.clone(),
            scenario,
            passing: passing.map(|(number, _)| *number),
            decision,
            decision_ps,
            sides: shown.collect(),
        }
    }

    /// As text.
    pub(super) fn write(&self, out: &mut String) {
        let _ = writeln!(
            out,
            "Failure of run {}: {}: {}",
            self.run, self.verdict, self.detail
        );
        for delay in &self.delays {
            for purpose in &delay.purpose {
                let _ = writeln!(out, "  {purpose}");
            }
        }
        if let (Some(passing), Some(decision)) = (self.passing, &self.decision) {
            let _ = writeln!(
                out,
                "  run {passing} passes; the first difference is the {decision}:"
            );
            let none = || "not reached".to_owned();
            let rows = self.sides.iter().map(|side| {
                let passing = side.passing.clone().unwrap_or_else(none);
                let failing = side.failing.clone().unwrap_or_else(none);
                [side.choice.clone(), passing, failing]
            });
            let head = [
                "choice".to_owned(),
                "passing".to_owned(),
                "failing".to_owned(),
            ];
            let rows: Vec<[String; 3]> = std::iter::once(head).chain(rows).collect();
            let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
            for row in &rows {
                let mark = if row[1] == row[2] || row[1] == "passing" {
                    ' '
                } else {
                    '*'
                };
                let (first, second) = (width(0), width(1));
                let _ = writeln!(
                    out,
                    "  {mark} {:first$}  {:second$}  {}",
                    row[0], row[1], row[2]
                );
            }
        }
        let _ = writeln!(
            out,
            "  repeat it with: belljar run {}",
            self.scenario.display()
        );
        if let (Some(_), Some(folder)) = (self.decision_ps, self.scenario.parent()) {
            let _ = writeln!(
                out,
                "  see the decision with: belljar debug {}",
                folder.display()
            );
        }
    }
}

/// The choices of both runs, in the order of the failing run, and then those of the other run alone.
fn sides(passing: &OrderRun, failing: &OrderRun) -> Vec<Sides> {
    let message = |choice: &Choice| choice.matched.to_string();
    let own = failing.observed.choices.iter().map(|choice| Sides {
        choice: choice.id.to_string(),
        passing: passing.observed.choice(choice.id).map(message),
        failing: Some(message(choice)),
    });
    let others = passing.observed.choices.iter();
    let others = others.filter(|choice| failing.observed.choice(choice.id).is_none());
    let others = others.map(|choice| Sides {
        choice: choice.id.to_string(),
        passing: Some(message(choice)),
        failing: None,
    });
    own.chain(others).collect()
}
