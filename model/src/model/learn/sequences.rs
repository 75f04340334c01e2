//! Calls of ranks as sequences of tokens.
//!
//! Equivalent calls have the same token. Without call sites, calls of a function at several places look alike, so that consecutive loops of a program merge. Then tags,
//! bytes and the way to the peer distinguish calls: to the next rank of a row or of a column, across the diagonal. Used by `learn`.

/// Ways to peers.
mod ways;

use std::collections::{BTreeMap, BTreeSet};

use belljar_trace::{Event, Peer, Transfer};

use crate::run::Run;
pub(super) use ways::PeerRelations;

/// Most tags of one function that distinguish its calls: more of them are counters.
const MOST_TAGS: usize = 32;

/// Properties that distinguish calls, the fewest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Distinction {
    /// The function, its call site, and the communicator.
    Site,
    /// Also tags, if all runs have the same.
    Tag,
    /// Also the way to the peer.
    Way,
    /// Also bytes that all runs have.
    Bytes,
}

impl Distinction {
    /// All of them, the fewest properties first.
    pub(crate) const ALL: [Self; 4] = [Self::Site, Self::Tag, Self::Way, Self::Bytes];
}

/// Possible tokens of a call, the preferred one first: in small grids the ways to several neighbours coincide.
pub(super) type Tokens = Vec<u32>;

/// Returns the sequences of all ranks of all runs, by run and rank.
pub(super) fn sequences(runs: &[Run], by: Distinction) -> Vec<Vec<Vec<Tokens>>> {
    let common = Common::of(runs);
    let ways = (by >= Distinction::Way).then(|| PeerRelations::of(runs));
    let mut numbers: BTreeMap<Vec<u64>, u32> = BTreeMap::new();
    let mut number = |words: Vec<u64>| {
        let next = numbers.len() as u32;
        *numbers.entry(words).or_insert(next)
    };
    let all = runs.iter().map(|run| {
        let ranks = run.steps.iter().map(|steps| {
            let tokens = steps.iter().map(|step| {
                let mut words = vec![u64::from(step.token)];
                if by > Distinction::Site {
                    common.add(&step.event, by, &mut words);
                }
                let of = ways.as_ref().map(|ways| ways.of_event(run, &step.event));
                match of {
                    None => vec![number(words)],
                    Some(of) => of
                        .into_iter()
                        .map(|way| number([words.clone(), way].concat()))
                        .collect(),
                }
            });
            tokens.collect()
        });
        ranks.collect()
    });
    all.collect()
}

/// Tags and bytes of messages that all runs have.
struct Common {
    tags: BTreeMap<u32, BTreeSet<i32>>,
    bytes: BTreeMap<u32, BTreeSet<u64>>,
}

impl Common {
    fn of(runs: &[Run]) -> Self {
        let of = |run: &Run| {
            let mut own = Self {
                tags: BTreeMap::new(),
                bytes: BTreeMap::new(),
            };
            for step in run.steps.iter().flatten() {
                for transfer in messages(&step.event) {
                    own.tags.entry(step.token).or_default().extend(transfer.tag);
                    own.bytes
                        .entry(step.token)
                        .or_default()
                        .insert(transfer.bytes);
                }
            }
            own
        };
        let mut all = runs.iter().map(of);
        let Some(mut common) = all.next() else {
            return Self {
                tags: BTreeMap::new(),
                bytes: BTreeMap::new(),
            };
        };
        for other in all {
            // Tags are counters if they differ between runs.
            common
                .tags
                .retain(|token, tags| other.tags.get(token).is_none_or(|it| it == tags));
            for (token, bytes) in &mut common.bytes {
                if let Some(others) = other.bytes.get(token) {
                    bytes.retain(|it| others.contains(it));
                }
            }
        }
        common.tags.retain(|_, tags| tags.len() <= MOST_TAGS);
        common
    }

    /// Adds a call's tags and bytes to its words.
    fn add(&self, event: &Event, by: Distinction, words: &mut Vec<u64>) {
        let token = words.first().copied().unwrap_or(0) as u32;
        let tags = self.tags.get(&token);
        let bytes = self.bytes.get(&token);
        for transfer in messages(event) {
            let tag = transfer
                .tag
                .filter(|tag| tags.is_some_and(|it| it.contains(tag)));
            words.push(tag.map_or(u64::MAX, |tag| u64::from(tag.cast_unsigned())));
            let known =
                by == Distinction::Bytes && bytes.is_some_and(|it| it.contains(&transfer.bytes));
            words.push(if known { transfer.bytes } else { u64::MAX });
        }
    }
}

/// Returns the messages of a call with a peer.
fn messages(event: &Event) -> impl Iterator<Item = &Transfer> {
    let all = event.transfers.iter();
    all.filter(|it| !it.is_access() && it.peer != Peer::Null)
}
