//! Communicators that a job makes first: a copy of the world, its even and odd ranks, and one between these.
//!
//! Every job makes them in the same order, before its other operations, so that later operations can be on any of
//! them. Called by the generator.

use super::Generator;
use crate::job::{Communicator, CommunicatorId, Form, Making, Topology};

impl Generator<'_> {
    /// Makes some communicators, in some jobs.
    pub(super) fn communicators(&mut self) {
        let world: Vec<u32> = (0..self.job.ranks).collect();
        if self.kinds.communicators && self.one_in(2) {
            self.make(1, vec![(world.clone(), Making::Copy)], None);
        }
        if self.kinds.own_messages && self.one_in(2) {
            self.job.communicators.push(Communicator {
                members: Vec::new(),
                making: 0,
                first: None,
                own: true,
                topology: None,
            });
        }
        if self.kinds.grids && self.one_in(3) {
            let topology = self.grid();
            self.make_topology(4, topology);
        }
        if self.kinds.graphs && self.one_in(3) {
            let topology = self.graph();
            self.make_topology(5, topology);
        }
        let wanted = self.kinds.communicators || self.kinds.intercommunicators;
        if !wanted || self.one_in(2) {
            return;
        }
        let parts = [0, 1].map(|part| {
            let ranks = world.iter().copied().filter(|rank| rank % 2 == part);
            ranks.collect::<Vec<u32>>()
        });
        let split = parts.iter().map(|part| (part.clone(), Making::Split));
        let even = self.make(2, split.collect(), None);
        if self.kinds.intercommunicators && self.one_in(2) {
            self.make_between(even, &parts);
        }
    }

    /// Makes communicators by one call of each of their members; the first one's number.
    fn make(
        &mut self,
        making: usize,
        all: Vec<(Vec<u32>, Making)>,
        first: Option<usize>,
    ) -> CommunicatorId {
        let begin = self.job.communicators.len();
        for (members, function) in all {
            let made = self.job.communicators.len();
            for rank in &members {
                let actor = self.main_actor(*rank);
                self.push(actor, Form::Communicator(made, function), Vec::new());
            }
            self.job.communicators.push(Communicator {
                members,
                making,
                first,
                own: false,
                topology: None,
            });
        }
        begin
    }

    fn make_topology(&mut self, making: usize, topology: Topology) {
        let world = (0..self.job.ranks).collect();
        let made = self.make(making, vec![(world, Making::Topology)], None);
        self.job.communicators[made].topology = Some(topology);
    }

    /// A grid of all ranks in one or two dimensions.
    fn grid(&mut self) -> Topology {
        let ranks = self.job.ranks;
        let columns = match ranks.is_multiple_of(2) && self.one_in(2) {
            true => vec![2, ranks / 2],
            false => vec![ranks],
        };
        let sizes = columns.into_iter().map(|size| (size, self.one_in(2)));
        Topology::Grid(sizes.collect())
    }

    /// A graph in which half of all pairs are joined, each in one direction or both.
    fn graph(&mut self) -> Topology {
        let ranks = self.job.ranks;
        let pairs = (0..ranks).flat_map(|from| (0..ranks).map(move |to| (from, to)));
        let edges = pairs.filter(|_| self.one_in(2));
        Topology::Graph(edges.collect())
    }

    /// Makes the intercommunicator between two parts; `even` is the first one's number.
    fn make_between(&mut self, even: CommunicatorId, parts: &[Vec<u32>; 2]) {
        let made = self.job.communicators.len();
        for (part, ranks) in (even..).zip(parts) {
            for rank in ranks {
                let actor = self.main_actor(*rank);
                let form = Form::Communicator(made, Making::Between(part));
                self.push(actor, form, Vec::new());
            }
        }
        self.job.communicators.push(Communicator {
            members: parts.concat(),
            making: 3,
            first: Some(parts[0].len()),
            own: false,
            topology: None,
        });
    }
}
