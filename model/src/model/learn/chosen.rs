//! The role that distinguishes ranks, and its results.
//!
//! The simplest role by which all calls follow rules is selected. Used by `learn`.

use std::collections::{BTreeMap, BTreeSet};

use belljar_trace::Event;

use super::super::Class;
use super::super::roles::Role;
use super::classes::{ClassMember, GrowingClass};
use super::instances::Findings;
use super::kinds::{differing, roles};
use super::{LearnError, Likely, ProgramFacts, class_model, pools, sequences, turns_of};
use crate::relation::Grid;
use crate::run::Run;
use crate::values::{Hint, Values};

/// Returns the result of the simplest role that explains all ranks.
///
/// # Errors
/// Returns [`LearnError::NoRule`] or [`LearnError::Kinds`] if no role does.
pub(super) fn chosen(
    runs: &[Run],
    growing: &[GrowingClass],
) -> Result<(Role, Learned), LearnError> {
    let mut learned = None;
    let mut why = None;
    let mut failed: BTreeSet<Vec<usize>> = BTreeSet::new();
    // First with equal turns of loops for all ranks of a kind, then with their mean turns.
    let roles = roles(runs, growing);
    for (exact, (kinds, role)) in [true, false]
        .into_iter()
        .flat_map(|it| roles.iter().map(move |role| (it, role)))
    {
        // Roles with the same kinds of ranks have the same result.
        if failed.contains(kinds) {
            continue;
        }
        let role = *role;
        match by_role(runs, growing, role, exact, None) {
            None => {}
            Some(Ok(found)) => {
                learned = Some((role, settled(runs, growing, role, exact, found)));
                break;
            }
            Some(Err(error @ LearnError::NoRule { .. })) => {
                why.get_or_insert(error);
                failed.insert(kinds.clone());
            }
            Some(Err(error)) => return Err(error),
        }
    }
    learned.ok_or_else(|| {
        let kinds = || differing(runs, growing).unwrap_or(LearnError::NoRuns);
        why.unwrap_or_else(kinds)
    })
}

/// Returns the same, with ambiguous rules of calls resolved by the grid of other calls.
fn settled(
    runs: &[Run],
    growing: &[GrowingClass],
    role: Role,
    exact: bool,
    found: Learned,
) -> Learned {
    if found.findings.unsure.is_empty() {
        return found;
    }
    let told = role.grid().or_else(|| found.grid());
    let told = told.map(|grid| Likely { grid, sure: true });
    let likely = || {
        let grid = sequences::PeerRelations::of(runs).grid()?;
        Some(Likely { grid, sure: false })
    };
    let grid = told.or_else(likely);
    let again = grid.and_then(|it| by_role(runs, growing, role, exact, Some(it)));
    again.and_then(Result::ok).unwrap_or(found)
}

/// The result for all kinds of ranks.
pub(super) struct Learned {
    pub(super) kinds: BTreeMap<u64, usize>,
    pub(super) classes: Vec<Class>,
    pub(super) templates: Vec<Event>,
    pub(super) findings: Findings,
}

impl Learned {
    /// Returns the most common grid of calls whose rules are unambiguous in the runs.
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

/// Returns the calls of each kind of ranks, by their role. `None` if ranks of a kind have different calls.
fn by_role(
    runs: &[Run],
    growing: &[GrowingClass],
    role: Role,
    exact: bool,
    grid: Option<Likely>,
) -> Option<Result<Learned, LearnError>> {
    let mut kinds: BTreeMap<u64, (usize, Vec<&ClassMember>)> = BTreeMap::new();
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
    let alike = |members: &[&ClassMember]| {
        let mut turns = BTreeMap::new();
        members
            .iter()
            .all(|it| *turns.entry(it.run).or_insert(&it.reading.turns) == &it.reading.turns)
    };
    let known = role.grid().or(grid.map(|it| it.grid));
    let given = |(structure, members): &(usize, Vec<&ClassMember>)| {
        let loops = growing[*structure].structure.loops as usize;
        alike(members)
            || (0..loops).all(|of| {
                let samples = turns_of(runs, members, of);
                Values::of(&samples, true, Hint::of(known)).is_ok_and(|it| it.gives(&samples))
            })
    };
    if exact && !kinds.values().all(given) {
        return None;
    }
    let facts = ProgramFacts {
        likely: grid,
        data: known,
        pools: &pools::Pools::of(runs, growing, known),
    };
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
            &growing[structure],
            &members,
            number,
            facts,
            &mut learned.templates,
            &mut learned.findings,
        );
        match class {
            Ok(class) => learned.classes.push(class),
            Err(error) => return Some(Err(error)),
        }
        learned.kinds.insert(kind, number);
    }
    Some(Ok(learned))
}
