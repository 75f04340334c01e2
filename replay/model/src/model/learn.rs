//! Models made of runs.
//!
//! The sequence of calls of each rank of each run is read by the loops of another, if it can, or has loops of its own; so ranks fall into classes. Then each call of a class is looked
//! at over all ranks, runs and instances. What follows no rule that is known is an error that says which call it is: a model that guesses would be wrong. Called by `belljar model fit`.

/// What one call of a class is, over all its instances.
mod instances;
/// Runs of one program or of several.
mod programs;

use std::collections::BTreeMap;

use belljar_sim::figures::counted;
use belljar_trace::{Event, Fact, save_events};

use super::call::CallModel;
use super::roles::{Role, Roles};
use super::{Class, Model, VERSION, calls_of};
use crate::fit::FitError;
use crate::relation::Grid;
use crate::run::{Run, RunError, Step, Tokens, Traced};
use crate::structure::{Reading, Structure};
use crate::values::{Sample, Values};
use instances::{Findings, Instance, call_model};

/// Why no model can be made of runs.
#[derive(Debug, thiserror::Error)]
pub enum LearnError {
    /// There is no run.
    #[error("name at least one run")]
    NoRuns,
    /// A run is none that a model can be made of.
    #[error("{name}: {source}")]
    Run {
        /// Its trace.
        name: String,
        /// Why.
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
        /// Functions that one of them calls alone, in words.
        difference: String,
    },
    /// Ranks that do not do the same are none of the kinds that are known.
    #[error(
        "nothing that is known of a rank tells what it does: rank {rank} is of another kind in each of two runs, where it calls {one} and {other}"
    )]
    Kinds {
        /// The rank.
        rank: u32,
        /// What it calls first in one run that it does not in the other.
        one: String,
        /// And in the other one.
        other: String,
    },
    /// A number follows no rule.
    #[error(
        "{what} of {function}, called {count} times by {ranks} (class {class}), follow no rule that is known; ranks {example}"
    )]
    NoRule {
        /// Which number.
        what: &'static str,
        /// The function.
        function: String,
        /// How often it was called.
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
        /// Which value.
        what: &'static str,
        /// The function.
        function: String,
        /// Why.
        source: FitError,
    },
    /// The templates cannot be kept.
    #[error("the calls cannot be kept: {0}")]
    Templates(#[from] belljar_trace::StateError),
}

/// A rank of a run, as its class has it.
struct Member {
    run: usize,
    rank: u32,
    reading: Reading,
}

/// A class in the making.
struct Growing {
    structure: Structure,
    members: Vec<Member>,
}

/// The model of these runs.
///
/// # Errors
/// [`LearnError`] when a run is no such run, or something of the program follows no rule.
pub fn learn(traced: &[Traced<'_>], scenario: Option<String>) -> Result<Model, LearnError> {
    let mut tokens = Tokens::default();
    let mut runs = Vec::new();
    for one in traced {
        let run = Run::read(one, &mut tokens).map_err(|source| LearnError::Run {
            name: one.trace.display().to_string(),
            source,
        })?;
        runs.push(run);
    }
    let largest = runs.iter().max_by_key(|run| run.ranks);
    let largest = largest.ok_or(LearnError::NoRuns)?;
    let clock = |run: &Run| run.header.frequency(0).as_hz();
    for run in &runs {
        let mut clocks = run.header.frequencies().into_iter().map(|it| it.as_hz());
        if let Some(other) = clocks.find(|other| *other != clock(run)) {
            return Err(LearnError::Clocks(clock(run), other));
        }
    }
    if let Some(other) = runs.iter().find(|run| clock(run) != clock(largest)) {
        return Err(LearnError::Clocks(clock(largest), clock(other)));
    }
    let mut warnings = programs::compare(&runs)?;
    let growing = classes(&runs);
    let mut learned = None;
    let mut why = None;
    // First with loops that all of a kind turn equally often, then with what they turn in the mean.
    for (exact, role) in [true, false]
        .into_iter()
        .flat_map(|it| Role::all().into_iter().map(move |role| (it, role)))
    {
        match by_role(&runs, &growing, (role, exact), None) {
            None => {}
            Some(Ok(found)) => {
                // Rules that some calls leave open are those of the grid that others have.
                let grid = role.grid().or_else(|| found.grid());
                let grid = grid.filter(|_| !found.findings.unsure.is_empty());
                let again = grid.and_then(|it| by_role(&runs, &growing, (role, exact), Some(it)));
                learned = Some((role, again.and_then(Result::ok).unwrap_or(found)));
                break;
            }
            Some(Err(error @ LearnError::NoRule { .. })) => {
                why.get_or_insert(error);
            }
            Some(Err(error)) => return Err(error),
        }
    }
    let Some((
        role,
        Learned {
            kinds,
            classes,
            templates,
            findings,
        },
    )) = learned
    else {
        let kinds = || differing(&runs, &growing).unwrap_or(LearnError::NoRuns);
        return Err(why.unwrap_or_else(kinds));
    };
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

/// The warning about rules that the runs do not tell apart.
fn ambiguous(unsure: &[String]) -> Option<String> {
    let first = unsure.first()?;
    let count = unsure.len() as u64;
    Some(format!(
        "the runs do not tell apart rules of {}, such as {first}: other numbers of ranks may have other peers; fit the model to runs of more numbers of ranks",
        counted(count, "call"),
    ))
}

/// What was learned of all kinds of ranks.
struct Learned {
    kinds: BTreeMap<u64, usize>,
    classes: Vec<Class>,
    templates: Vec<Event>,
    findings: Findings,
}

impl Learned {
    /// The grid that most calls have whose rules the runs tell apart from others.
    fn grid(&self) -> Option<Grid> {
        let mut counts: BTreeMap<Grid, usize> = BTreeMap::new();
        for grid in &self.findings.grids {
            *counts.entry(*grid).or_default() += 1;
        }
        counts
            .into_iter()
            .max_by_key(|(_, count)| *count)
            .map(|it| it.0)
    }
}

/// What ranks do whose role tells their kind. `None` where ranks of a kind do not do the same.
fn by_role(
    runs: &[Run],
    growing: &[Growing],
    (role, exact): (Role, bool),
    grid: Option<Grid>,
) -> Option<Result<Learned, LearnError>> {
    let mut kinds: BTreeMap<u64, (usize, Vec<&Member>)> = BTreeMap::new();
    for (structure, own) in growing.iter().enumerate() {
        for member in &own.members {
            let kind = role.kind(member.rank, runs[member.run].ranks);
            let known = kinds.entry(kind).or_insert((structure, Vec::new()));
            if known.0 != structure {
                return None;
            }
            known.1.push(member);
        }
    }
    let alike = |members: &[&Member]| {
        let mut turns = BTreeMap::new();
        members
            .iter()
            .all(|it| *turns.entry(it.run).or_insert(&it.reading.turns) == &it.reading.turns)
    };
    if exact && !kinds.values().all(|(_, members)| alike(members)) {
        return None;
    }
    let mut learned = Learned {
        kinds: BTreeMap::new(),
        classes: Vec::new(),
        templates: Vec::new(),
        findings: Findings::default(),
    };
    for (kind, (structure, members)) in kinds {
        let number = learned.classes.len();
        let class = class_model(
            runs,
            (&growing[structure], &members),
            number,
            (&mut learned.templates, grid, &mut learned.findings),
        );
        match class {
            Ok(class) => learned.classes.push(class),
            Err(error) => return Some(Err(error)),
        }
        learned.kinds.insert(kind, number);
    }
    Some(Ok(learned))
}

/// A rank that is of another class in another run, with the first call in which both differ.
fn differing(runs: &[Run], growing: &[Growing]) -> Option<LearnError> {
    let mut known: BTreeMap<u32, (usize, usize)> = BTreeMap::new();
    let members = growing.iter().enumerate();
    let members = members.flat_map(|(class, own)| own.members.iter().map(move |it| (class, it)));
    for (class, Member { run, rank, .. }) in members {
        let (other, before) = *known.entry(*rank).or_insert((class, *run));
        if other == class {
            continue;
        }
        let [one, other] = [before, *run].map(|run| &runs[run].steps[*rank as usize]);
        let mut both = one.iter().zip(other);
        let first = both.find(|(one, other)| one.token != other.token);
        let named = |step: Option<&Step>| step.map_or("nothing".to_owned(), |it| called(&it.event));
        return Some(LearnError::Kinds {
            rank: *rank,
            one: named(first.map(|(one, _)| one)),
            other: named(first.map(|(_, other)| other)),
        });
    }
    None
}

/// A call for people: its function, where it was called, and whether it made a communicator with its caller.
fn called(event: &Event) -> String {
    let site = event.site.0.as_ref().and_then(|stack| stack.0.first());
    // With this `belljar trace sites` has the line.
    let site = site.map_or_else(String::new, |frame| {
        let file = frame.file.as_ref().map_or("?", |file| &file.path);
        format!(" at {file}+{:#x}", frame.address)
    });
    let without = match &event.fact {
        Some(Fact::Communicator(new)) if new.number.is_none() => " without getting one",
        _ => "",
    };
    format!("{}{site}{without}", event.name())
}

/// The classes of all ranks of all runs: those with the longest sequences first.
fn classes(runs: &[Run]) -> Vec<Growing> {
    let mut sequences: BTreeMap<Vec<u32>, Vec<(usize, u32)>> = BTreeMap::new();
    for (number, run) in runs.iter().enumerate() {
        for (rank, steps) in (0..).zip(&run.steps) {
            let tokens = steps.iter().map(|step| step.token).collect();
            sequences.entry(tokens).or_default().push((number, rank));
        }
    }
    let mut sequences: Vec<_> = sequences.into_iter().collect();
    sequences.sort_by_key(|(tokens, _)| std::cmp::Reverse(tokens.len()));
    let mut classes: Vec<Growing> = Vec::new();
    for (tokens, ranks) in sequences {
        let mut known = classes.iter().enumerate();
        let known = known.find_map(|(at, class)| Some((at, class.structure.parse(&tokens)?)));
        let (at, reading) = known.unwrap_or_else(|| {
            let structure = Structure::fold(&tokens);
            let (structure, reading) = match structure.parse(&tokens) {
                Some(reading) => (structure, reading),
                None => Structure::flat(&tokens),
            };
            classes.push(Growing {
                structure,
                members: Vec::new(),
            });
            (classes.len() - 1, reading)
        });
        let members = ranks.into_iter().map(|(run, rank)| Member {
            run,
            rank,
            reading: reading.clone(),
        });
        classes[at].members.extend(members);
    }
    classes
}

/// What a class does.
fn class_model(
    runs: &[Run],
    (growing, members): (&Growing, &[&Member]),
    number: usize,
    (templates, grid, findings): (&mut Vec<Event>, Option<Grid>, &mut Findings),
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
    // Calls in loops that ranks of this kind never turn: as one of another kind makes them.
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
    for (call, _) in calls_of(&structure.nodes) {
        let own = &all[call as usize];
        calls[call as usize] = Some(call_model(
            own,
            number,
            (&mut *templates, grid, &mut *findings),
        )?);
    }
    let mut turns = Vec::new();
    for of in 0..structure.loops as usize {
        let samples = members.iter().flat_map(|member| {
            let run = &runs[member.run];
            let own = &member.reading.turns[of];
            (0..).zip(own).map(move |(instance, turns)| Sample {
                run: member.run,
                ranks: f64::from(run.ranks),
                size: run.size,
                instance: (instance, own.len() as u32),
                turn: instance,
                value: f64::from(*turns),
            })
        });
        let samples: Vec<Sample> = samples.collect();
        let values = Values::of(&samples, true).map_err(|source| LearnError::Fit {
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
