//! Bytes of calls of all classes of ranks.
//!
//! Ranks at borders of a grid have separate classes, and some of these classes only occur in large runs. A message to the next rank of a row has the same function of
//! ranks in all of them, which has more runs. Used by `learn`.

use std::collections::BTreeMap;

use super::calls_of;
use super::classes::GrowingClass;
use super::instances::{self, Instance};
use crate::relation::Grid;
use crate::run::Run;
use crate::values::{Hint, Sample, Values};

/// Values by token and the number of the message.
#[derive(Debug, Default)]
pub(super) struct Pools(BTreeMap<(u32, usize), Values>);

impl Pools {
    /// Collects the values of calls that several classes make, if one function or division reproduces all of them.
    pub(super) fn of(runs: &[Run], growing: &[GrowingClass], grid: Option<Grid>) -> Self {
        let mut all: BTreeMap<(u32, usize), Vec<Sample>> = BTreeMap::new();
        if growing.len() < 2 {
            return Self::default();
        }
        for own in growing {
            let mut calls: Vec<Vec<Instance<'_>>> = vec![Vec::new(); own.structure.calls as usize];
            for member in &own.members {
                let (run, rank) = (&runs[member.run], member.rank);
                instances::gather(run, member.run, rank, &member.reading, &mut calls);
            }
            for (call, token) in calls_of(&own.structure.nodes) {
                for instance in &calls[call as usize] {
                    let bytes = instance.bytes().into_iter().enumerate();
                    for (at, sample) in bytes.filter_map(|(at, it)| Some((at, it?))) {
                        all.entry((token, at)).or_default().push(sample);
                    }
                }
            }
        }
        let values = all.into_iter().filter_map(|(key, samples)| {
            let values = Values::whole(&samples, Hint::faces(grid))?;
            Some((key, values))
        });
        Self(values.collect())
    }

    /// Returns the bytes of a message of calls with this token.
    pub(super) fn bytes(&self, token: u32, at: usize) -> Option<&Values> {
        self.0.get(&(token, at))
    }
}
