//! The sequence of a rank's calls.
//!
//! The values of loops determine their turns. Used by `generate`.

use super::GenerateError;
use crate::model::Class;
use crate::relation::RelationArguments;
use crate::structure::{StructureNode, Turns};
use crate::values::EvaluationPoint;

/// Most plausible turns of one loop.
const MOST_TURNS: f64 = 1e9;

/// One call of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Planned {
    /// Its number in its class.
    pub(super) call: u32,
    /// The turns of the loops around it.
    pub(super) turns: Turns,
}

struct Planner<'c> {
    class: &'c Class,
    rank: u32,
    of: (f64, f64),
    most: u64,
    /// Number of entries of each loop so far.
    visits: Vec<u32>,
    /// Total number of entries of each loop, known after a first pass.
    counts: Vec<u32>,
    plan: Vec<Planned>,
    /// Turns of all loops, so that loops whose bodies make no calls are limited, too.
    turned: u64,
}

/// Plans the calls of a rank of a class, for `ranks` and `size`, with a limit.
pub(super) fn plan(
    class: &Class,
    rank: u32,
    of: (f64, f64),
    most: u64,
) -> Result<Vec<Planned>, GenerateError> {
    let loops = class.structure.loops as usize;
    let mut planner = Planner {
        class,
        rank,
        of,
        most,
        visits: vec![0; loops],
        counts: vec![1; loops],
        plan: Vec::new(),
        turned: 0,
    };
    // The number of entries of an inner loop depends on the turns of the loops around it: each pass settles one more
    // level.
    for _ in 0..8 {
        planner.visits = vec![0; loops];
        planner.plan.clear();
        planner.follow(&class.structure.nodes, Turns::default())?;
        let visits: Vec<u32> = planner.visits.iter().map(|it| (*it).max(1)).collect();
        if std::mem::replace(&mut planner.counts, visits.clone()) == visits {
            break;
        }
    }
    Ok(planner.plan)
}

impl Planner<'_> {
    fn follow(&mut self, nodes: &[StructureNode], turns: Turns) -> Result<(), GenerateError> {
        for node in nodes {
            match node {
                StructureNode::Call { number, .. } => {
                    if self.plan.len() as u64 >= self.most {
                        return Err(GenerateError::Calls(self.most));
                    }
                    self.plan.push(Planned {
                        call: *number,
                        turns,
                    });
                }
                StructureNode::Loop { body, number } => {
                    let plain = body
                        .iter()
                        .all(|node| matches!(node, StructureNode::Call { .. }));
                    let count = self.turns(*number as usize)?;
                    for turn in 0..count {
                        self.turned += 1;
                        if self.turned > self.most.saturating_mul(16) {
                            return Err(GenerateError::Calls(self.most));
                        }
                        let mut own = turns.within(turn);
                        own.last = plain && turn + 1 == count;
                        self.follow(body, own)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the turns of a loop for this entry.
    fn turns(&mut self, number: usize) -> Result<u32, GenerateError> {
        let instance = self.visits[number];
        self.visits[number] = instance.saturating_add(1);
        let turns = self.class.turns[number].at(EvaluationPoint {
            ranks: self.of.0,
            size: self.of.1,
            instance: (instance, self.counts[number]),
            turn: instance,
            place: RelationArguments {
                rank: self.rank,
                ranks: self.of.0 as u32,
                turn: 0,
            },
        });
        match turns.is_finite() && turns < MOST_TURNS {
            // A slightly negative value becomes zero.
            true if turns > -0.5 => Ok(turns.round().max(0.0) as u32),
            _ => Err(GenerateError::Turns(turns)),
        }
    }
}
