//! Constructors whose result follows from the arguments of the parent's members.
//!
//! Given the arguments of all members of the parent, the new communicators and the order of their ranks
//! follow from the standard; contradictory arguments give no communicator. Called by `resolve` for each
//! constructor.

use std::collections::BTreeMap;

use belljar_trace::Making;

use super::{Global, Member, ProcessKey, Records, Resolver, Topology};

/// Members of new communicators, by their ranks in the parent, with their sort keys.
type Parts<C> = BTreeMap<C, Vec<(i64, usize)>>;

impl Resolver<'_> {
    /// The communicators that a constructor made. `None` if unknown.
    pub(super) fn outcome(&mut self, parent: usize, records: &Records<'_>) -> Option<Vec<Global>> {
        match &records.first()?.1.how {
            Making::Duplicate => self.duplicate(parent, records).map(|new| vec![new]),
            Making::Split { .. } => self.split(parent, records),
            Making::SplitByNode { .. } => self.split_by_node(parent, records),
            Making::Create { .. } if self.globals[parent].remote.is_none() => self.create(records),
            Making::Cart {
                dimensions,
                periods,
            } => {
                let size = product(dimensions)?;
                let grid = Topology::grid(dimensions.clone(), periods.clone());
                self.prefix(parent, records, size, Some(grid))
            }
            Making::Graph { degrees } => {
                self.spend(degrees.len())?;
                let size = u32::try_from(degrees.len()).ok()?;
                let degrees = degrees.iter().map(|degree| (*degree, *degree));
                let graph = Topology::Degrees(degrees.collect());
                self.prefix(parent, records, size, Some(graph))
            }
            Making::DistGraph { .. } | Making::DistGraphAdjacent { .. } => {
                let degrees = self.degrees(records);
                let new = self.duplicate(parent, records)?;
                let topology = degrees.map(Topology::Degrees);
                Some(vec![Global { topology, ..new }])
            }
            Making::CartSub { .. } => self.cart_sub(parent, records),
            _ => None,
        }
    }

    /// The numbers of neighbours that each member of a distributed graph receives from and sends to.
    fn degrees(&mut self, records: &Records<'_>) -> Option<Vec<(u32, u32)>> {
        let mut degrees = vec![(0u32, 0u32); records.len()];
        for (rank, (_, record)) in records.iter().enumerate() {
            match &record.how {
                Making::DistGraphAdjacent {
                    sources,
                    destinations,
                } => degrees[rank] = (*sources, *destinations),
                Making::DistGraph { edges } => {
                    self.spend(edges.len())?;
                    for (from, to) in edges {
                        let out = &mut degrees.get_mut(*from as usize)?.1;
                        *out = out.saturating_add(1);
                        let into = &mut degrees.get_mut(*to as usize)?.0;
                        *into = into.saturating_add(1);
                    }
                }
                _ => return None,
            }
        }
        Some(degrees)
    }

    fn duplicate(&self, parent: usize, records: &Records<'_>) -> Option<Global> {
        let parent = &self.globals[parent];
        let local = records
            .iter()
            .map(|(process, record)| Some((*process, record.number?)))
            .collect::<Option<Vec<_>>>()?;
        Some(Global {
            members: parent.members.clone(),
            remote: parent.remote.clone(),
            topology: parent.topology.clone(),
            local,
            other_side: None,
        })
    }

    fn split(&self, parent: usize, records: &Records<'_>) -> Option<Vec<Global>> {
        let mut parts: Parts<i32> = Parts::new();
        for (rank, (_, record)) in records.iter().enumerate() {
            let Making::Split { color, key } = record.how else {
                return None;
            };
            if let Some(color) = color {
                parts.entry(color).or_default().push((key.into(), rank));
            }
        }
        self.parts(parent, records, parts)
    }

    fn split_by_node(&self, parent: usize, records: &Records<'_>) -> Option<Vec<Global>> {
        let mut parts: Parts<u32> = Parts::new();
        for (rank, ((node, _), record)) in records.iter().enumerate() {
            let Making::SplitByNode { member, key } = record.how else {
                return None;
            };
            if member {
                parts.entry(*node).or_default().push((key.into(), rank));
            }
        }
        self.parts(parent, records, parts)
    }

    /// Splits a parent into communicators, ordered by key and then by rank in the parent (MPI-4.0,
    /// 7.4.2).
    fn parts<C: Ord>(
        &self,
        parent: usize,
        records: &Records<'_>,
        parts: Parts<C>,
    ) -> Option<Vec<Global>> {
        let parts = parts.into_values().map(|mut part| {
            part.sort_unstable();
            let ranks: Vec<usize> = part.into_iter().map(|(_, rank)| rank).collect();
            self.subset(parent, records, &ranks, None)
        });
        parts.collect()
    }

    /// A communicator of some of the parent's ranks, in this order.
    fn subset(
        &self,
        parent: usize,
        records: &Records<'_>,
        ranks: &[usize],
        topology: Option<Topology>,
    ) -> Option<Global> {
        // Both sides take part in the split of an intercommunicator.
        let is_one = self.globals[parent].remote.is_none();
        is_one.then(|| self.chosen(parent, records, ranks, topology))?
    }

    /// The same, also for one side of an intercommunicator.
    pub(super) fn chosen(
        &self,
        parent: usize,
        records: &Records<'_>,
        ranks: &[usize],
        topology: Option<Topology>,
    ) -> Option<Global> {
        let parent = &self.globals[parent];
        let mut local = Vec::with_capacity(ranks.len());
        let mut members = Vec::with_capacity(ranks.len());
        for &rank in ranks {
            let (process, record) = records.get(rank)?;
            local.push((*process, record.number?));
            members.push(parent.members.get(rank as u32)?);
        }
        Some(Global {
            members: members.into_iter().collect(),
            remote: None,
            topology,
            local,
            other_side: None,
        })
    }

    fn prefix(
        &self,
        parent: usize,
        records: &Records<'_>,
        size: u32,
        topology: Option<Topology>,
    ) -> Option<Vec<Global>> {
        let size = usize::try_from(size).ok()?;
        if size > records.len() {
            return None;
        }
        let ranks: Vec<usize> = (0..size).collect();
        Some(vec![self.subset(parent, records, &ranks, topology)?])
    }

    pub(super) fn create(&mut self, records: &Records<'_>) -> Option<Vec<Global>> {
        let mut groups: BTreeMap<Vec<Member>, Vec<(ProcessKey, u32)>> = BTreeMap::new();
        for (process, record) in records {
            let (Some(number), Making::Create { group }) = (record.number, &record.how) else {
                continue;
            };
            let members = self.group(*process, (*group)?)?;
            groups.entry(members).or_default().push((*process, number));
        }
        let groups = groups.into_iter();
        groups
            .map(|(members, present)| self.gathered(members, &present))
            .collect()
    }

    /// Subgrids: processes with equal coordinates in the dropped dimensions (MPI-4.0, 8.5.6).
    fn cart_sub(&self, parent: usize, records: &Records<'_>) -> Option<Vec<Global>> {
        let Some(Topology::Grid {
            dimensions: grid,
            periods,
        }) = &self.globals[parent].topology
        else {
            return None;
        };
        let Making::CartSub { remain } = &records.first()?.1.how else {
            return None;
        };
        if remain.len() != grid.len() {
            return None;
        }
        let kept = Topology::grid(kept(grid, remain), kept(periods, remain));
        let mut parts: BTreeMap<u64, Vec<(u64, usize)>> = BTreeMap::new();
        for rank in 0..records.len() {
            let (mut place, mut gone, mut stays) = (rank as u64, 0u64, 0u64);
            let (mut gone_stride, mut stays_stride) = (1u64, 1u64);
            // Row-major: the last dimension varies fastest.
            for (&size, &keep) in grid.iter().zip(remain).rev() {
                let size = u64::from(size.max(1));
                let (sum, stride) = if keep {
                    (&mut stays, &mut stays_stride)
                } else {
                    (&mut gone, &mut gone_stride)
                };
                *sum = sum.saturating_add((place % size).saturating_mul(*stride));
                *stride = stride.saturating_mul(size);
                place /= size;
            }
            parts.entry(gone).or_default().push((stays, rank));
        }
        let parts = parts.into_values().map(|mut part| {
            part.sort_unstable();
            let ranks: Vec<usize> = part.into_iter().map(|(_, rank)| rank).collect();
            self.subset(parent, records, &ranks, Some(kept.clone()))
        });
        parts.collect()
    }
}

/// The entries of the dimensions that remain.
fn kept<T: Copy>(all: &[T], remain: &[bool]) -> Vec<T> {
    let kept = all.iter().zip(remain).filter(|(_, keep)| **keep);
    kept.map(|(entry, _)| *entry).collect()
}

fn product(dimensions: &[u32]) -> Option<u32> {
    dimensions
        .iter()
        .try_fold(1u32, |product, size| product.checked_mul(*size))
}
