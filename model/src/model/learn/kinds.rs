//! Kinds of ranks by roles.
//!
//! Roles with fewer kinds are simpler. A role by which each run has different kinds only memorises the runs. Used by `learn`.

use std::collections::{BTreeMap, BTreeSet};

use belljar_trace::{Event, Fact};

use super::super::roles::Role;
use super::LearnError;
use super::classes::{ClassMember, GrowingClass};
use crate::run::{Run, RunCall};

/// Returns roles with their kinds of the runs' ranks, in ascending order of the number of kinds.
pub(super) fn roles(runs: &[Run], growing: &[GrowingClass]) -> Vec<(Vec<usize>, Role)> {
    let all = Role::all().into_iter();
    let mut all: Vec<_> = all
        .filter(|role| generalizes(runs, *role))
        .map(|role| (partition(runs, growing, role), role))
        .collect();
    all.sort_by_key(|(kinds, _)| kinds.iter().max().copied());
    all
}

/// True if the two largest numbers of ranks have ranks of a common kind; otherwise, each run is only memorised.
fn generalizes(runs: &[Run], role: Role) -> bool {
    let mut all: Vec<u32> = runs.iter().map(|run| run.ranks).collect();
    all.sort_unstable();
    all.dedup();
    let [.., few, many] = all.as_slice() else {
        return true;
    };
    let kinds = |ranks: u32| (0..ranks).map(move |rank| role.kind(rank, ranks));
    let known: BTreeSet<u64> = kinds(*many).collect();
    kinds(*few).any(|kind| known.contains(&kind))
}

/// Returns the kind of each rank of each run by a role, numbered in the order of appearance.
fn partition(runs: &[Run], growing: &[GrowingClass], role: Role) -> Vec<usize> {
    let mut numbers: BTreeMap<u64, usize> = BTreeMap::new();
    let members = growing.iter().flat_map(|own| &own.members);
    let kinds = members.map(|member| {
        let next = numbers.len();
        let kind = role.kind(member.rank, runs[member.run].ranks);
        *numbers.entry(kind).or_insert(next)
    });
    kinds.collect()
}

/// Returns a rank that is of another class in another run, with the first call in which both differ.
pub(super) fn differing(runs: &[Run], growing: &[GrowingClass]) -> Option<LearnError> {
    let mut known: BTreeMap<u32, (usize, usize)> = BTreeMap::new();
    let members = growing.iter().enumerate();
    let members = members.flat_map(|(class, own)| own.members.iter().map(move |it| (class, it)));
    for (class, ClassMember { run, rank, .. }) in members {
        let (other, before) = *known.entry(*rank).or_insert((class, *run));
        if other == class {
            continue;
        }
        let [one, other] = [before, *run].map(|run| &runs[run].steps[*rank as usize]);
        let mut both = one.iter().zip(other);
        let first = both.find(|(one, other)| one.token != other.token);
        let named =
            |step: Option<&RunCall>| step.map_or("nothing".to_owned(), |it| called(&it.event));
        return Some(LearnError::Kinds {
            rank: *rank,
            one: named(first.map(|(one, _)| one)),
            other: named(first.map(|(_, other)| other)),
        });
    }
    None
}

/// Describes a call: its function, its call site, and whether it created a communicator with its caller.
pub(super) fn called(event: &Event) -> String {
    let site = event.site.0.as_ref().and_then(|stack| stack.0.first());
    // `belljar trace sites` shows the line for this.
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
