//! Synthetic traces of any size, generated call by call, of a program with a known structure.
//!
//! Ranks form a grid. In each step a rank exchanges halos with its neighbours by nonblocking messages, followed by some allreductions; rank
//! 0 gets a report at regular steps. No call is kept, so a trace of 100 million calls takes no memory; times depend only on rank, step and
//! call. Calls come step by step, and rank by rank in each. Used by tests, and by `examples/analyses` to measure the costs of analyses.

/// Traces of scripted ranks.
#[cfg(test)]
pub(crate) mod ranks;

use belljar_mpi::FUNCTIONS;
use belljar_sim::Frequency;
use belljar_trace::{
    Amount, Collective, Completion, Datatype, Direction, Ending, Event, Fact, Implementation,
    Launch, Peer, Phase, TraceHeader, Transfer, WORLD, Who,
};

/// `MPI_BYTE`, among the predefined datatypes.
const BYTE: Datatype = Datatype::Predefined(0);
/// Least time from one call's return to the next one's entry, in cycles.
const GAP: u64 = 1000;
/// Least duration of a call, in cycles.
const CALL: u64 = 200;

/// A program with known properties.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stencil {
    /// Number of ranks in a row of the grid.
    pub width: u32,
    /// Number of rows.
    pub height: u32,
    /// Number of steps.
    pub steps: u64,
    /// `MPI_Allreduce` calls in each step.
    pub rounds: u64,
    /// The interval of steps, from the first on, at which there is a report: an `MPI_Reduce` to rank 0.
    pub report: u64,
}

impl Stencil {
    /// Returns the number of ranks.
    pub fn ranks(&self) -> u32 {
        self.width * self.height
    }

    /// Returns the ranks with which a rank exchanges halos, in the order of its calls.
    pub fn neighbors(&self, rank: u32) -> Vec<u32> {
        let (column, row) = (rank % self.width, rank / self.width);
        let sides = [
            (column > 0).then(|| rank - 1),
            (column + 1 < self.width).then(|| rank + 1),
            (row > 0).then(|| rank - self.width),
            (row + 1 < self.height).then(|| rank + self.width),
        ];
        sides.into_iter().flatten().collect()
    }

    /// Returns the number of calls of all ranks.
    pub fn calls(&self) -> u64 {
        let reports = self.steps.div_ceil(self.report.max(1));
        let rank = |rank| {
            let halos = self.neighbors(rank).len() as u64 * 2 + 1;
            2 + self.steps * (halos + self.rounds) + reports
        };
        (0..self.ranks()).map(rank).sum()
    }

    /// Returns the header of its trace: each rank has a node, of 1 GHz.
    ///
    /// # Panics
    /// Never panics.
    pub fn header(&self) -> TraceHeader {
        let rate = Frequency::from_hz(1_000_000_000).expect("a frequency");
        TraceHeader::new("stencil", &vec![rate; self.ranks() as usize])
    }

    /// Returns its calls.
    pub fn events(self) -> impl Iterator<Item = Event> {
        let mut clocks = vec![0; self.ranks() as usize];
        let mut calls = Calls::new();
        // The turn before the first step, the steps, and the turn after the last one.
        (0..self.steps + 2).flat_map(move |turn| {
            let mut events = Vec::new();
            for rank in 0..self.ranks() {
                let mut rank = GeneratedRank {
                    of: self,
                    rank,
                    clock: &mut clocks[rank as usize],
                    calls: &mut calls,
                    events: &mut events,
                };
                match turn {
                    0 => rank.begin(),
                    turn if turn <= self.steps => rank.step(turn - 1),
                    _ => rank.call("MPI_Finalize", |_| {}),
                }
            }
            events
        })
    }
}

/// Numbers of functions by their names.
struct Calls(Vec<(&'static str, u16)>);

impl Calls {
    fn new() -> Self {
        Self(Vec::new())
    }

    fn number(&mut self, name: &'static str) -> u16 {
        if let Some((_, number)) = self.0.iter().find(|(own, _)| *own == name) {
            return *number;
        }
        let number = FUNCTIONS.iter().position(|function| function.name == name);
        let number = number.unwrap_or(usize::MAX) as u16;
        self.0.push((name, number));
        number
    }
}

/// A rank that makes calls.
struct GeneratedRank<'a> {
    of: Stencil,
    rank: u32,
    /// The return of its last call, in cycles.
    clock: &'a mut u64,
    calls: &'a mut Calls,
    events: &'a mut Vec<Event>,
}

impl GeneratedRank<'_> {
    fn begin(&mut self) {
        let launch = Launch {
            name: Some("stencil".to_owned()),
            size: Some(self.of.ranks()),
        };
        self.call("MPI_Init", |event| event.fact = Some(Fact::Launch(launch)));
    }

    fn step(&mut self, step: u64) {
        let neighbors = self.of.neighbors(self.rank);
        for (direction, name) in [
            (Direction::Receive, "MPI_Irecv"),
            (Direction::Send, "MPI_Isend"),
        ] {
            for (index, neighbor) in (0u64..).zip(&neighbors) {
                self.call(name, |event| {
                    event.transfers = vec![message(direction, *neighbor)];
                    event.started = vec![request(step, direction, index)];
                });
            }
        }
        let count = neighbors.len() as u64;
        self.call("MPI_Waitall", |event| {
            let both = [Direction::Receive, Direction::Send];
            let all = both
                .into_iter()
                .flat_map(|direction| (0..count).map(move |index| (direction, index)));
            event.completed = all
                .map(|(direction, index)| Completion {
                    request: request(step, direction, index),
                    status: None,
                    received: match direction {
                        Direction::Receive => 8192,
                        Direction::Send => 0,
                    },
                    exact: false,
                    ending: Ending::Well,
                })
                .collect();
        });
        for _ in 0..self.of.rounds {
            self.call("MPI_Allreduce", |event| {
                event.collectives = vec![operation(None)];
            });
        }
        if step.is_multiple_of(self.of.report.max(1)) {
            self.call("MPI_Reduce", |event| {
                event.collectives = vec![operation(Some(Peer::Rank(0)))];
            });
        }
    }

    /// Makes a call, some time after the one before.
    fn call(&mut self, name: &'static str, with: impl FnOnce(&mut Event)) {
        // Noise that differs between calls and ranks, and is reproducible.
        let noise = (*self.clock ^ u64::from(self.rank) << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let entry = *self.clock + GAP + (noise >> 56);
        let exit = entry + CALL + (noise >> 40 & 0xff);
        *self.clock = exit;
        let mut event = Event {
            node: self.rank,
            vcpu: 0,
            process: 0,
            thread: 0,
            rank: self.rank,
            implementation: Implementation::Mpich,
            function: self.calls.number(name),
            entry,
            exit: Some(exit),
            result: Some(0),
            depth: 0,
            selected: true,
            bad: None,
            arguments: Vec::new(),
            texts: Vec::new(),
            communicator: Some(WORLD),
            transfers: Vec::new(),
            collectives: Vec::new(),
            started: Vec::new(),
            completed: Vec::new(),
            status: None,
            fact: None,
            accounts: Default::default(),
            site: Default::default(),
            details: Default::default(),
            folded: Default::default(),
            given_up: Default::default(),
        };
        with(&mut event);
        self.events.push(event);
    }
}

fn request(step: u64, direction: Direction, index: u64) -> u64 {
    let half = match direction {
        Direction::Receive => 0,
        Direction::Send => 4,
    };
    step * 8 + half + index
}

fn message(direction: Direction, peer: u32) -> Transfer {
    Transfer {
        kind: belljar_trace::TransferKind::Message(Default::default()),
        direction,
        phase: Phase::Begun,
        communicator: Some(WORLD),
        peer: Peer::Rank(peer),
        tag: Some(0),
        count: 8192,
        datatype: BYTE,
        bytes: 8192,
        exact: direction == Direction::Send,
    }
}

/// Returns an operation on eight bytes, for all or for the root.
fn operation(root: Option<Peer>) -> Collective {
    let received = match root {
        Some(_) => Amount::whole(Some(8)).only(Who::Root),
        None => Amount::whole(Some(8)),
    };
    Collective {
        operation: Some(match root {
            Some(_) => belljar_mpi::Operation::Reduce,
            None => belljar_mpi::Operation::Allreduce,
        }),
        phase: Phase::Done,
        communicator: Some(WORLD),
        root,
        sent: Amount::whole(Some(8)),
        received,
    }
}
