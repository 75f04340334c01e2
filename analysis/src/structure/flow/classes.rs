//! Classes of threads with equal event flow graphs.
//!
//! Graphs are equal if they have the same nodes and edges; the edges' counts may differ. Partners are equal if they have the
//! same distance from each process's rank, so all processes of a ring are one class. Ranks wrap around at the communicator's
//! end. Threads without equals by this rule are one class if a partner is the same rank for all of them, like the master for its
//! workers. Two threads alone may be equal by accident, and stay separate. Used by `flow`.

use std::collections::BTreeMap;

use belljar_job::Communicators;
use belljar_trace::Peer;

use super::collect::{Flow, ThreadKey};
use super::partner::Partner;
use super::signature::{Role, Signature, SignatureItem};

/// The possible interpretations of a partner for all threads of a class so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct PartnerCandidates {
    relative: Option<i64>,
    rank: Option<u32>,
    named: Option<Peer>,
}

impl PartnerCandidates {
    /// Returns the interpretations for one thread, with the process's rank and the size of the communicator if known.
    fn of(part: &SignatureItem, own: Option<(u32, u32)>) -> Self {
        let message = matches!(part.role, Role::Message(..));
        let rank = match part.peer {
            Some(Peer::Rank(rank)) => Some(rank),
            _ => None,
        };
        let relative = rank.zip(own.filter(|_| message));
        Self {
            relative: relative.map(|(rank, (own, size))| distance(own, rank, size)),
            rank,
            named: part.peer.filter(|_| rank.is_none()),
        }
    }

    /// Returns the common interpretations; `None` if there are none. If relative ranks are known, they decide unless `anyhow`.
    fn with(self, other: Self, anyhow: bool) -> Option<Self> {
        let far = self.relative.is_some() && other.relative.is_some();
        if far && self.relative != other.relative && !anyhow {
            return None;
        }
        let both = Self {
            relative: self.relative.filter(|it| other.relative == Some(*it)),
            rank: self.rank.filter(|it| other.rank == Some(*it)),
            named: self.named.filter(|it| other.named == Some(*it)),
        };
        let nothing = Self {
            relative: None,
            rank: None,
            named: None,
        };
        (both != nothing || self == other).then_some(both)
    }

    fn partner(self) -> Partner {
        match self {
            Self {
                relative: Some(by), ..
            } => Partner::Relative(by),
            Self {
                rank: Some(rank), ..
            } => Partner::Rank(rank),
            Self {
                named: Some(peer), ..
            } => Partner::Named(peer),
            _ => Partner::None,
        }
    }
}

/// Returns the distance from `from` to `to` among `size` ranks, in the shorter direction; half way counts as forward.
fn distance(from: u32, to: u32, size: u32) -> i64 {
    let (from, to, size) = (i64::from(from), i64::from(to), i64::from(size));
    if size == 0 || from >= size || to >= size {
        return to - from;
    }
    let on = (to - from).rem_euclid(size);
    if on * 2 > size { on - size } else { on }
}

/// Threads whose event flow graphs are equal.
#[derive(Clone, Debug)]
pub(crate) struct Class {
    /// The numbers of the threads.
    pub(crate) threads: Vec<usize>,
    /// For each node, the interpretations of each of its partners.
    slots: Vec<Vec<PartnerCandidates>>,
}

impl Class {
    /// Returns the class of one thread.
    pub(crate) fn of(
        thread: usize,
        (key, flow): &(ThreadKey, Flow),
        communicators: &Communicators,
    ) -> Self {
        let process = (key.0, key.1);
        let mut known = BTreeMap::new();
        let mut own = |communicator: Option<u32>| {
            let communicator = communicator?;
            *known.entry(communicator).or_insert_with(|| {
                let remote = communicators.remote_members(process, communicator);
                let rank = communicators.rank(process, communicator)?;
                let members = communicators.members(process, communicator)?;
                remote.is_none().then_some((rank, members.len()))
            })
        };
        let slots = flow.nodes.iter().map(|node| {
            let parts = node.signature.iter().flat_map(|of| &of.parts);
            let slots = parts.map(|part| PartnerCandidates::of(part, own(part.communicator)));
            slots.collect()
        });
        Self {
            threads: vec![thread],
            slots: slots.collect(),
        }
    }

    /// Returns the partners of a node's calls.
    pub(crate) fn partners(&self, node: usize) -> Vec<Partner> {
        let slots = self.slots[node].iter();
        slots.map(|slot| slot.partner()).collect()
    }

    /// Merges another class, if its partners have a common interpretation.
    fn join(&mut self, other: &Self, anyhow: bool) -> bool {
        let pairs = self.slots.iter().zip(&other.slots);
        let both = pairs.map(|(one, other)| {
            let pairs = one.iter().zip(other);
            pairs
                .map(|(one, other)| one.with(*other, anyhow))
                .collect::<Option<Vec<PartnerCandidates>>>()
        });
        let Some(both) = both.collect::<Option<Vec<_>>>() else {
            return false;
        };
        self.slots = both;
        self.threads.extend(&other.threads);
        true
    }
}

/// True if graphs differ only in partners and in counts.
fn alike(one: &Flow, other: &Flow) -> bool {
    let signatures = |(one, other): (&Option<Signature>, &Option<Signature>)| match (one, other) {
        (Some(one), Some(other)) => one.is_like(other),
        (one, other) => one.is_none() && other.is_none(),
    };
    let nodes = one.nodes.iter().map(|node| &node.signature);
    let others = other.nodes.iter().map(|node| &node.signature);
    let edges = one.edges.iter().map(|edge| (edge.from, edge.to));
    let other_edges = other.edges.iter().map(|edge| (edge.from, edge.to));
    one.nodes.len() == other.nodes.len()
        && edges.eq(other_edges)
        && nodes.zip(others).all(signatures)
}

/// Returns the classes of these threads, in the order of their first ones.
pub(super) fn classes(threads: &[(ThreadKey, Flow)], communicators: &Communicators) -> Vec<Class> {
    let own = (0..threads.len()).map(|number| Class::of(number, &threads[number], communicators));
    let classes = joined(own.collect(), threads, false);
    let (lone, mut classes): (Vec<Class>, _) = classes
        .into_iter()
        .partition(|class| class.threads.len() == 1);
    for class in joined(lone, threads, true) {
        if class.threads.len() > 2 {
            classes.push(class);
        } else {
            let own = class.threads.iter();
            classes.extend(own.map(|number| Class::of(*number, &threads[*number], communicators)));
        }
    }
    classes.sort_by_key(|class| class.threads[0]);
    classes
}

/// Merges classes: each goes to the first one that can take it.
fn joined(own: Vec<Class>, threads: &[(ThreadKey, Flow)], anyhow: bool) -> Vec<Class> {
    let mut classes: Vec<Class> = Vec::new();
    // Candidates are indexed by figures that equal graphs share, so that few are compared.
    let mut candidates: BTreeMap<(usize, usize), Vec<usize>> = BTreeMap::new();
    for own in own {
        let flow = &threads[own.threads[0]].1;
        let candidates = candidates
            .entry((flow.nodes.len(), flow.edges.len()))
            .or_default();
        let taken = candidates.iter().any(|class| {
            let class = &mut classes[*class];
            alike(&threads[class.threads[0]].1, flow) && class.join(&own, anyhow)
        });
        if !taken {
            candidates.push(classes.len());
            classes.push(own);
        }
    }
    classes
}

#[cfg(test)]
mod tests {
    use super::distance;

    #[test]
    fn ranks_wrap_around() {
        assert_eq!(distance(0, 1, 8), 1);
        assert_eq!(distance(7, 0, 8), 1);
        assert_eq!(distance(0, 7, 8), -1);
        assert_eq!(distance(1, 5, 8), 4);
        assert_eq!(distance(5, 1, 8), 4);
        assert_eq!(distance(0, 1, 2), 1);
        assert_eq!(distance(1, 0, 2), 1);
        assert_eq!(distance(3, 1, 0), -2);
        assert_eq!(distance(9, 1, 4), -8);
    }
}
