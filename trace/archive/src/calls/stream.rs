//! The known state of one thread after each of its calls, identical in writer and reader.
//!
//! Ranks are relative to the caller's rank, and requests are counted back from the latest, so that equal work of ranks and
//! iterations has equal encodings. Both depend on the thread's earlier calls. An [`Outlook`](stream::Outlook) keeps their
//! bounded state; a writer's and a reader's are equal after the same calls. Used by `signature`.

use std::collections::BTreeMap;

use belljar_trace::{Event, Fact, Implementation, Peer, SELF, WORLD};
use bincode::{Decode, Encode};

/// Most active requests kept for a thread.
const MOST_REQUESTS: usize = 1024;

/// Most communicators whose ranks are kept for a thread.
const MOST_COMMUNICATORS: usize = 4096;

/// A request whose number is stored separately from the structure.
pub(crate) const ELSEWHERE: u64 = u64::MAX;

/// The common properties of a thread's calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Encode, Decode)]
pub struct Stream {
    /// The node.
    pub node: u32,
    /// The process, by its number on the node.
    pub process: u32,
    /// The thread, by its number in the process.
    pub thread: u32,
    /// The process's rank in `MPI_COMM_WORLD`.
    pub rank: u32,
    /// The process's MPI implementation.
    pub implementation: Implementation,
}

impl Stream {
    pub(crate) fn of(event: &Event) -> Self {
        Self {
            node: event.node,
            process: event.process,
            thread: event.thread,
            rank: event.rank,
            implementation: event.implementation,
        }
    }
}

/// The caller's rank in a communicator and its size, as far as known from its calls.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Encode, Decode)]
struct CallerRank {
    rank: Option<u32>,
    size: Option<u32>,
}

/// A request that became active.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
struct Active {
    request: u64,
    communicator: Option<u32>,
}

/// The state from a thread's earlier calls that encoding further calls needs.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Outlook {
    places: BTreeMap<u32, CallerRank>,
    active: Vec<Active>,
    next: u64,
}

impl Outlook {
    pub(crate) fn new(stream: &Stream) -> Self {
        let place = |rank, size| CallerRank {
            rank: Some(rank),
            size,
        };
        Self {
            places: [(WORLD, place(stream.rank, None)), (SELF, place(0, Some(1)))].into(),
            active: Vec::new(),
            next: 0,
        }
    }

    /// True if it is within its bounds.
    pub(crate) fn is_sound(&self) -> bool {
        self.active.len() <= MOST_REQUESTS && self.places.len() <= MOST_COMMUNICATORS
    }

    fn place(&self, communicator: Option<u32>) -> (u32, u32) {
        let place = communicator.and_then(|it| self.places.get(&it));
        let place = place.copied().unwrap_or_default();
        let size = place.size.unwrap_or(0);
        let rank = place.rank.unwrap_or(0);
        // A caller outside of its communicator: its rank cannot be trusted.
        if size != 0 && rank >= size {
            return (0, size);
        }
        (rank, size)
    }

    /// Returns a rank relative to the caller's, modulo the communicator's size if known.
    pub(crate) fn relative(&self, communicator: Option<u32>, rank: u32) -> u32 {
        match self.place(communicator) {
            (own, 0) => rank.wrapping_sub(own),
            (_, size) if rank >= size => rank,
            (own, _) if rank >= own => rank - own,
            (own, size) => size - (own - rank),
        }
    }

    /// Inverts [`relative`](Self::relative).
    pub(crate) fn absolute(&self, communicator: Option<u32>, distance: u32) -> u32 {
        match self.place(communicator) {
            (own, 0) => distance.wrapping_add(own),
            (_, size) if distance >= size => distance,
            (own, size) if distance >= size - own => distance - (size - own),
            (own, _) => own + distance,
        }
    }

    pub(crate) fn relative_peer(&self, communicator: Option<u32>, peer: &mut Peer) {
        if let Peer::Rank(rank) = peer {
            *rank = self.relative(communicator, *rank);
        }
    }

    pub(crate) fn absolute_peer(&self, communicator: Option<u32>, peer: &mut Peer) {
        if let Peer::Rank(rank) = peer {
            *rank = self.absolute(communicator, *rank);
        }
    }

    /// Encodes a request that becomes active: 0 for the next number, all others after it.
    pub(crate) fn start(&mut self, communicator: Option<u32>, request: u64) -> u64 {
        let told = match request {
            it if it == self.next => 0,
            it if it < self.next => it + 1,
            it => it,
        };
        self.activate(communicator, request);
        told
    }

    /// Decodes a request from the code that [`start`](Self::start) returned.
    pub(crate) fn started(&mut self, communicator: Option<u32>, told: u64) -> u64 {
        let request = match told {
            0 => self.next,
            it if it <= self.next => it - 1,
            it => it,
        };
        self.activate(communicator, request);
        request
    }

    fn activate(&mut self, communicator: Option<u32>, request: u64) {
        self.next = request
            .max(self.next)
            .wrapping_add(u64::from(request >= self.next));
        if self.active.len() == MOST_REQUESTS {
            self.active.remove(0);
        }
        self.active.push(Active {
            request,
            communicator,
        });
    }

    /// Encodes a completed request as the number of active requests that were started later, and returns its communicator;
    /// [`ELSEWHERE`] for an unknown request.
    pub(crate) fn complete(&mut self, request: u64) -> (u64, Option<u32>) {
        let mut newest_first = self.active.iter().rev();
        match newest_first.position(|active| active.request == request) {
            Some(later) => (
                later as u64,
                self.completed(later as u64).and_then(|it| it.1),
            ),
            None => (ELSEWHERE, None),
        }
    }

    /// Decodes a request from the code that [`complete`](Self::complete) returned, and returns its communicator.
    pub(crate) fn completed(&mut self, later: u64) -> Option<(u64, Option<u32>)> {
        let from_end = usize::try_from(later).ok()?.checked_add(1)?;
        let at = self.active.len().checked_sub(from_end)?;
        let active = self.active.remove(at);
        Some((active.request, active.communicator))
    }

    /// Updates ranks and sizes of communicators from a call's fact.
    pub(crate) fn learn(&mut self, fact: Option<&Fact>) {
        let (communicator, rank, size) = match fact {
            Some(Fact::Rank { communicator, rank }) => (*communicator, Some(*rank), None),
            Some(Fact::Size { communicator, size }) => (*communicator, None, Some(*size)),
            Some(Fact::Launch(launch)) => (WORLD, None, launch.size),
            _ => return,
        };
        let known = self.places.contains_key(&communicator);
        if !known && self.places.len() >= MOST_COMMUNICATORS {
            return;
        }
        let place = self.places.entry(communicator).or_default();
        place.rank = rank.or(place.rank);
        place.size = size.or(place.size);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn outlook(rank: u32, size: Option<u32>) -> Outlook {
        let mut outlook = Outlook::new(&Stream {
            node: 0,
            process: 0,
            thread: 0,
            rank,
            implementation: Implementation::Mpich,
        });
        if let Some(size) = size {
            let communicator = WORLD;
            outlook.learn(Some(&Fact::Size { communicator, size }));
        }
        outlook
    }

    proptest! {
        #[test]
        fn ranks_come_back(own in any::<u32>(), size in any::<Option<u32>>(), rank in any::<u32>(), small in 0..20u32) {
            for (own, size) in [(own, size), (small, Some(9)), (small, None)] {
                let outlook = outlook(own, size);
                for rank in [rank, rank % 20] {
                    let distance = outlook.relative(Some(WORLD), rank);
                    prop_assert_eq!(outlook.absolute(Some(WORLD), distance), rank);
                }
            }
        }

        #[test]
        fn requests_come_back(steps in prop::collection::vec((any::<bool>(), 0..12u64), 0..200), far in any::<u64>()) {
            let (mut there, mut back) = (outlook(0, None), outlook(0, None));
            for (starts, request) in steps {
                let request = if request == 11 { far } else { request };
                if starts {
                    let told = there.start(None, request);
                    prop_assert_eq!(back.started(None, told), request);
                } else {
                    let (later, _) = there.complete(request);
                    if later != ELSEWHERE {
                        prop_assert_eq!(back.completed(later), Some((request, None)));
                    }
                }
                prop_assert_eq!(&there, &back);
            }
        }
    }

    #[test]
    fn neighbours_in_a_ring_are_alike() {
        let told = |own| outlook(own, Some(9)).relative(Some(WORLD), (own + 1) % 9);
        assert!((0..9).all(|own| told(own) == 1));
    }
}
