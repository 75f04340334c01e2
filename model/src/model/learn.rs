//! Creation of models from runs.
//!
//! The sequence of calls of each rank of each run is parsed by the loops of another, if possible, or has loops of its own; so ranks fall into classes. Each call of a
//! class is then analysed over all ranks, runs and instances. Values without a known rule are an error that names the call, since a guess would make the model wrong.
//! Used by `belljar model fit`.

/// The role that distinguishes ranks.
mod chosen;
/// Ranks whose calls have the same loops.
mod classes;
/// One call of a class, over all its instances.
mod instances;
/// Kinds of ranks by roles.
mod kinds;
/// Bytes of calls of all classes of ranks.
mod pools;
/// Detection of runs of several programs.
mod programs;
/// Calls of ranks as sequences of tokens.
mod sequences;

use belljar_sim::figures::counted;
use belljar_trace::{Event, save_events};

use super::call::CallModel;
use super::roles::Roles;
use super::{Class, Model, VERSION, calls_of};
use crate::fit::FitError;
use crate::relation::{Grid, RelationArguments};
use crate::run::{Run, RunError, Tokens, Traced};
use crate::values::{Hint, Sample, Values};
use chosen::{Learned, chosen};
use classes::{ClassMember, GrowingClass, classes};
use instances::{Findings, Instance, call_model};
pub(crate) use sequences::Distinction;

/// An error in creating a model from runs.
#[derive(Debug, thiserror::Error)]
pub enum LearnError {
    /// There are no runs.
    #[error("name at least one run")]
    NoRuns,
    /// A run is not suitable for a model.
    #[error("{name}: {source}")]
    Run {
        /// Its trace.
        name: String,
        /// The reason.
        source: RunError,
    },
    /// Processors differ.
    #[error("the runs have processors of {0} and {1} Hz: a model is of one kind")]
    Clocks(u64, u64),
    /// Runs are of different programs.
    #[error(
        "{one} and {other} are runs of different programs, {programs}: {difference}; fit a model to runs of one program"
    )]
    Programs {
        /// A run.
        one: String,
        /// Another run.
        other: String,
        /// The files of both programs.
        programs: String,
        /// Functions that only one of them calls, in words.
        difference: String,
    },
    /// Ranks with different calls do not correspond to known kinds.
    #[error(
        "nothing that is known of a rank tells what it does: rank {rank} is of another kind in each of two runs, where it calls {one} and {other}"
    )]
    Kinds {
        /// The rank.
        rank: u32,
        /// Its first call in one run that differs from the other.
        one: String,
        /// Its first call in the other run.
        other: String,
    },
    /// A number follows no rule.
    #[error(
        "{what} of {function}, called {count} times by {ranks} (class {class}), follow no rule that is known; ranks {example}"
    )]
    NoRule {
        /// The number.
        what: &'static str,
        /// The function.
        function: String,
        /// The number of calls.
        count: usize,
        /// The class of ranks.
        class: usize,
        /// The ranks that call it, in words.
        ranks: String,
        /// Examples of the peers, and a remedy.
        example: String,
    },
    /// A function cannot be fitted.
    #[error("{what} of {function}: {source}")]
    Fit {
        /// The value.
        what: &'static str,
        /// The function.
        function: String,
        /// The reason.
        source: FitError,
    },
    /// The templates cannot be encoded.
    #[error("the calls cannot be kept: {0}")]
    Templates(#[from] belljar_trace::StateError),
}

/// A grid of the peers of other calls.
#[derive(Clone, Copy, Debug)]
struct Likely {
    grid: Grid,
    /// True if the runs distinguish it from others.
    sure: bool,
}

/// Facts about the whole program that the models of its classes use.
#[derive(Clone, Copy, Debug)]
struct ProgramFacts<'p> {
    /// The grid of the peers of other calls.
    likely: Option<Likely>,
    /// The grid over whose ranks data are divided.
    data: Option<Grid>,
    /// Bytes of all classes.
    pools: &'p pools::Pools,
}

/// Reads the runs of these traces.
///
/// # Errors
/// Returns [`LearnError::Run`] for a trace without the calls that a model needs.
pub(crate) fn read(traced: &[Traced<'_>]) -> Result<Vec<Run>, LearnError> {
    let mut tokens = Tokens::default();
    let runs = traced.iter().map(|one| {
        Run::read(one, &mut tokens).map_err(|source| LearnError::Run {
            name: one.trace.display().to_string(),
            source,
        })
    });
    runs.collect()
}

/// Creates the model of these runs.
///
/// # Errors
/// Returns [`LearnError`] if a part of the program follows no rule, or if the runs are of several programs.
pub(crate) fn learn(
    runs: &[Run],
    scenario: Option<String>,
    distinction: Distinction,
) -> Result<Model, LearnError> {
    let largest = runs.iter().max_by_key(|run| run.ranks);
    let largest = largest.ok_or(LearnError::NoRuns)?;
    let clock = |run: &Run| run.header.frequency(0).as_hz();
    for run in runs {
        let mut clocks = run.header.frequencies().into_iter().map(|it| it.as_hz());
        if let Some(other) = clocks.find(|other| *other != clock(run)) {
            return Err(LearnError::Clocks(clock(run), other));
        }
    }
    if let Some(other) = runs.iter().find(|run| clock(run) != clock(largest)) {
        return Err(LearnError::Clocks(clock(largest), clock(other)));
    }
    let mut warnings = programs::compare(runs)?;
    let growing = classes(&sequences::sequences(runs, distinction));
    let (role, learned) = chosen(runs, &growing)?;
    let Learned {
        kinds,
        classes,
        templates,
        findings,
    } = learned;
    warnings.extend(ambiguous(&findings.unsure));
    let digits = save_events(&templates)?;
    Ok(Model {
        version: VERSION,
        name: largest.header.scenario().to_owned(),
        runs: runs.iter().map(|run| (run.ranks, run.size)).collect(),
        clock_hz: clock(largest),
        per_node: largest.per_node.max(1),
        start_ps: largest.starts.iter().copied().min().unwrap_or(0),
        roles: Roles::new(role, kinds),
        classes,
        scenario,
        warnings,
        templates: digits.iter().map(|byte| format!("{byte:02x}")).collect(),
    })
}

/// Returns the warning about rules that the runs do not distinguish.
fn ambiguous(unsure: &[String]) -> Option<String> {
    let first = unsure.first()?;
    let count = unsure.len() as u64;
    Some(format!(
        "the runs do not tell apart rules of {}, such as {first}: other numbers of ranks may have other peers; fit the model to runs of more numbers of ranks",
        counted(count, "call"),
    ))
}

/// Creates the model of a class.
fn class_model(
    runs: &[Run],
    growing: &GrowingClass,
    members: &[&ClassMember],
    number: usize,
    facts: ProgramFacts<'_>,
    templates: &mut Vec<Event>,
    findings: &mut Findings,
) -> Result<Class, LearnError> {
    let structure = &growing.structure;
    let mut all: Vec<Vec<Instance<'_>>> = vec![Vec::new(); structure.calls as usize];
    for member in members {
        instances::gather(
            &runs[member.run],
            member.run,
            member.rank,
            &member.reading,
            &mut all,
        );
    }
    // Calls in loops that ranks of this kind never turn are taken from another kind.
    for member in &growing.members {
        if all.iter().all(|own| !own.is_empty()) {
            break;
        }
        let mut others = vec![Vec::new(); all.len()];
        let (run, rank) = (&runs[member.run], member.rank);
        instances::gather(run, member.run, rank, &member.reading, &mut others);
        for (own, other) in all.iter_mut().zip(others) {
            if own.is_empty() {
                own.extend(other.into_iter().take(1));
            }
        }
    }
    let mut calls: Vec<Option<CallModel>> = vec![None; all.len()];
    for (call, token) in calls_of(&structure.nodes) {
        let own = &all[call as usize];
        calls[call as usize] = Some(call_model(own, number, token, facts, templates, findings)?);
    }
    let mut turns = Vec::new();
    for of in 0..structure.loops as usize {
        let samples = turns_of(runs, members, of);
        let values =
            Values::of(&samples, true, Hint::of(facts.data)).map_err(|source| LearnError::Fit {
                what: "how often a loop turns",
                function: "the program".to_owned(),
                source,
            })?;
        turns.push(values);
    }
    Ok(Class {
        structure: structure.clone(),
        turns,
        calls: calls.into_iter().flatten().collect(),
    })
}

/// Returns the turns of a loop, for each entry by a member.
fn turns_of(runs: &[Run], members: &[&ClassMember], of: usize) -> Vec<Sample> {
    let samples = members.iter().flat_map(|member| {
        let run = &runs[member.run];
        let own = &member.reading.turns[of];
        (0..).zip(own).map(move |(instance, turns)| Sample {
            run: member.run,
            ranks: f64::from(run.ranks),
            size: run.size,
            instance: (instance, own.len() as u32),
            turn: instance,
            place: RelationArguments {
                rank: member.rank,
                ranks: run.ranks,
                turn: 0,
            },
            value: f64::from(*turns),
        })
    });
    samples.collect()
}
