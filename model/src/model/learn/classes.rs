//! Ranks whose calls have the same loops.
//!
//! Sequences are parsed by the loops of others, if possible. Used by `learn`.

use std::collections::BTreeMap;

use super::sequences;
use crate::structure::{ParsedSequence, Structure};

/// Most sequences whose loops are tried for another one.
const MOST_FOLDED: usize = 6;

/// A member of a class: a rank of a run.
pub(super) struct ClassMember {
    pub(super) run: usize,
    pub(super) rank: u32,
    pub(super) reading: ParsedSequence,
}

/// A class under construction.
pub(super) struct GrowingClass {
    pub(super) structure: Structure,
    pub(super) members: Vec<ClassMember>,
}

/// Returns the classes of all ranks of all runs, beginning with the longest sequences, and among these with the ones whose calls have a single
/// token.
pub(super) fn classes(runs: &[Vec<Vec<sequences::Tokens>>]) -> Vec<GrowingClass> {
    let mut sequences: BTreeMap<&Vec<sequences::Tokens>, Vec<(usize, u32)>> = BTreeMap::new();
    for (number, ranks) in runs.iter().enumerate() {
        for (rank, tokens) in (0..).zip(ranks) {
            sequences.entry(tokens).or_default().push((number, rank));
        }
    }
    let mut sequences: Vec<_> = sequences.into_iter().collect();
    let several = |tokens: &[sequences::Tokens]| tokens.iter().filter(|it| it.len() > 1).count();
    sequences.sort_by_key(|(tokens, _)| (std::cmp::Reverse(tokens.len()), several(tokens)));
    let all: Vec<&Vec<sequences::Tokens>> = sequences.iter().map(|it| it.0).collect();
    let longest = runs
        .iter()
        .filter_map(|ranks| ranks.iter().max_by_key(|it| it.len()));
    let longest: Vec<&Vec<sequences::Tokens>> = longest.collect();
    let mut classes: Vec<GrowingClass> = Vec::new();
    for (tokens, ranks) in sequences {
        let mut known = classes.iter().enumerate();
        let known = known.find_map(|(at, class)| Some((at, class.structure.parse_any(tokens)?)));
        let (at, reading) = known.unwrap_or_else(|| {
            let (structure, reading) = structure(tokens, &longest, &all);
            classes.push(GrowingClass {
                structure,
                members: Vec::new(),
            });
            (classes.len() - 1, reading)
        });
        let members = ranks.into_iter().map(|(run, rank)| ClassMember {
            run,
            rank,
            reading: reading.clone(),
        });
        classes[at].members.extend(members);
    }
    classes
}

/// Returns the structure of a sequence, and its parse: among its own loops and those of the `longest` sequences, the ones that parse most of
/// `all`.
fn structure(
    tokens: &Vec<sequences::Tokens>,
    longest: &[&Vec<sequences::Tokens>],
    all: &[&Vec<sequences::Tokens>],
) -> (Structure, ParsedSequence) {
    let first = |tokens: &[sequences::Tokens]| -> Vec<u32> {
        tokens.iter().filter_map(|it| it.first().copied()).collect()
    };
    let mut tried: Vec<&Vec<sequences::Tokens>> = Vec::new();
    let mut best: Option<(usize, Structure, ParsedSequence)> = None;
    for other in std::iter::once(&tokens).chain(longest) {
        if tried.len() > MOST_FOLDED || tried.contains(other) {
            continue;
        }
        tried.push(other);
        let structure = Structure::fold(&first(other));
        let Some(reading) = structure.parse_any(tokens) else {
            continue;
        };
        let read = all
            .iter()
            .filter(|it| structure.parse_any(it).is_some())
            .count();
        if best.as_ref().is_none_or(|(most, ..)| read > *most) {
            best = Some((read, structure, reading));
        }
        if read == all.len() {
            break;
        }
    }
    match best {
        Some((_, structure, reading)) => (structure, reading),
        None => Structure::flat(&first(tokens)),
    }
}
