//! Communicators made from an intercommunicator: both sides call, and the result has two sides
//! again (MPI-4.0, 7.4.2).
//!
//! Called for constructors whose parent has another side. If the trace does not show a side's other
//! side, only its own members' arguments are used.

use std::collections::BTreeMap;

use belljar_trace::Making;

use super::{Global, Records, Resolver};

/// The parts of one side, by the key that both sides share: a color, a node, or nothing.
type Parts = BTreeMap<i64, Global>;

impl Resolver<'_> {
    /// Both sides of each intercommunicator that the members of `side` and of its other side made
    /// after `sequence` others. `None` if unknown.
    pub(super) fn of_sides(
        &mut self,
        side: usize,
        sequence: u32,
        records: &Records<'_>,
    ) -> Option<Vec<(Global, Global)>> {
        let other = self.globals.get(side)?.other_side?;
        let theirs = self.records(other, sequence)?;
        self.spend(theirs.len())?;
        let ours = self.side_parts(side, records)?;
        let mut theirs = self.side_parts(other, &theirs)?;
        // A color of only one side makes nothing.
        let pairs = ours
            .into_iter()
            .filter_map(|(color, first)| Some((first, theirs.remove(&color)?)));
        let linked = pairs.map(|(mut first, mut second)| {
            first.remote = Some(second.members.clone());
            second.remote = Some(first.members.clone());
            (first, second)
        });
        Some(linked.collect())
    }

    /// The parts of one side.
    fn side_parts(&mut self, side: usize, records: &Records<'_>) -> Option<Parts> {
        if let Making::Create { .. } = records.first()?.1.how {
            let created = self.create(records)?;
            return (created.len() <= 1).then(|| (0..).zip(created).collect());
        }
        let mut parts: BTreeMap<i64, Vec<(i64, usize)>> = BTreeMap::new();
        for (rank, ((node, _), record)) in records.iter().enumerate() {
            let (color, key) = match record.how {
                Making::Duplicate => (Some(0), 0),
                Making::Split { color, key } => (color.map(i64::from), key),
                Making::SplitByNode { member, key } => (member.then_some((*node).into()), key),
                _ => return None,
            };
            if let Some(color) = color.filter(|_| record.number.is_some()) {
                parts.entry(color).or_default().push((key.into(), rank));
            }
        }
        let parts = parts.into_iter().map(|(color, mut part)| {
            part.sort_unstable();
            let ranks: Vec<usize> = part.into_iter().map(|(_, rank)| rank).collect();
            Some((color, self.chosen(side, records, &ranks, None)?))
        });
        parts.collect()
    }
}
