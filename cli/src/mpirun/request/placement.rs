//! Nodes, their slots, and the ranks on each.
//!
//! `--map-by` sets the number of ranks on each node, `--rank-by` the order of their numbers. Launchers fill the slots of their
//! host file in order, so slots express most placements; others need an option of the launcher. Called by `belljar mpirun`.

use super::RequestError;

/// Maximum number of groups of nodes in a scenario.
const MOST_GROUPS: usize = 16;

/// An order of mapping ranks to nodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RankOrder {
    /// All slots of a node, then those of the next one.
    #[default]
    BySlot,
    /// One rank to each node, then again from the first node.
    ByNode,
}

/// Requests about the placement of ranks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RankMapping {
    /// Number of ranks on each node.
    pub map: RankOrder,
    /// Order of their numbers; as `map` when absent.
    pub rank: Option<RankOrder>,
    /// Ranks on each node, of `ppr:K:node`.
    pub per_node: Option<u32>,
    /// Processors of each rank, of `PE=K`.
    pub processors: Option<u32>,
    /// Ranks may be more than slots.
    pub oversubscribe: bool,
    /// Each line of the host file is a rank.
    pub sequential: bool,
    /// The path of a rankfile.
    pub rank_file: Option<String>,
}

/// Options of the launcher for an order of ranks that host files cannot express.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// It fills slots.
    #[default]
    Slots,
    /// One rank to each node in turn.
    Cyclic,
    /// The node of each rank.
    Listed(Vec<u32>),
}

/// Nodes and their slots.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SlotLayout {
    /// Nodes.
    pub nodes: u32,
    /// Ranks that each may have: its slots. The maximum, if nodes differ.
    pub ranks_per_node: u32,
    /// Slots of each node if they differ, otherwise empty.
    pub uneven: Vec<u32>,
    /// Processors intended for the ranks of a node, if there are fewer than ranks.
    pub processors: Option<u32>,
    /// Options of the launcher for the order of ranks.
    pub placement: Placement,
}

impl SlotLayout {
    /// Nodes with equal slots.
    pub fn alike(nodes: u32, ranks_per_node: u32) -> Self {
        Self {
            nodes,
            ranks_per_node,
            ..Self::default()
        }
    }

    /// Nodes with these slots.
    fn of(slots: &[u32], placement: Placement) -> Result<Self, RequestError> {
        let most = slots.iter().copied().max().unwrap_or(1);
        let is_even = slots.iter().all(|&one| one == most);
        let layout = Self {
            nodes: u32::try_from(slots.len()).unwrap_or(u32::MAX),
            ranks_per_node: most,
            uneven: if is_even { Vec::new() } else { slots.to_vec() },
            processors: None,
            placement,
        };
        match layout.groups().len() {
            0..=MOST_GROUPS => Ok(layout),
            groups => Err(RequestError::Groups(groups)),
        }
    }

    /// Nodes with equal slots that follow one another: how many, and their slots. Empty if all are equal.
    pub fn groups(&self) -> Vec<(u32, u32)> {
        let mut groups: Vec<(u32, u32)> = Vec::new();
        for &slots in &self.uneven {
            match groups.last_mut() {
                Some((count, same)) if *same == slots => *count += 1,
                _ => groups.push((1, slots)),
            }
        }
        groups
    }
}

/// The layout of `ranks` on nodes with these `slots`.
///
/// # Errors
/// If the ranks do not fit.
pub(super) fn placed(
    ranks: u32,
    slots: &[u32],
    mapping: &RankMapping,
) -> Result<SlotLayout, RequestError> {
    let counts = counts(ranks, slots, mapping)?;
    let list = match mapping.rank.unwrap_or(mapping.map) {
        RankOrder::BySlot => by_slot(&counts),
        RankOrder::ByNode => cyclic(&counts),
    };
    // Ranks that fill slots leave slots without a rank as they are.
    match by_slot(&filled(ranks, slots)) == list {
        true => SlotLayout::of(slots, Placement::Slots),
        false => listed(&list, slots),
    }
}

/// The layout of ranks with a node for each.
///
/// # Errors
/// If a scenario cannot express the differences of nodes.
pub(super) fn listed(list: &[u32], slots: &[u32]) -> Result<SlotLayout, RequestError> {
    let mut counts = vec![0; slots.len()];
    for &node in list {
        counts[node as usize] += 1;
    }
    // A node without a rank has one slot, as launchers' host files name no others.
    let counts: Vec<u32> = counts.into_iter().map(|count| count.max(1)).collect();
    let mut layout = SlotLayout::of(&counts, of_list(list, &counts))?;
    let most = slots.iter().copied().max().unwrap_or(1);
    layout.processors = (layout.ranks_per_node > most).then_some(most);
    Ok(layout)
}

/// The node of each rank, node by node.
fn by_slot(counts: &[u32]) -> Vec<u32> {
    let nodes = (0..).zip(counts);
    let nodes = nodes.flat_map(|(node, &count)| std::iter::repeat_n(node, count as usize));
    nodes.collect()
}

/// Returns the number of ranks on each node.
fn counts(ranks: u32, slots: &[u32], mapping: &RankMapping) -> Result<Vec<u32>, RequestError> {
    let room: u64 = slots.iter().map(|&slots| u64::from(slots)).sum();
    let counts = match mapping.map {
        RankOrder::BySlot => filled(ranks, slots),
        RankOrder::ByNode => {
            let mut counts = vec![0; slots.len()];
            let mut left = ranks;
            while left > 0 && counts.iter().zip(slots).any(|(count, slots)| count < slots) {
                for (count, slots) in counts.iter_mut().zip(slots) {
                    if *count < *slots && left > 0 {
                        *count += 1;
                        left -= 1;
                    }
                }
            }
            counts
        }
    };
    let nodes = slots.len() as u64;
    let more = u64::from(ranks).saturating_sub(room);
    if more == 0 {
        return Ok(counts);
    }
    if !mapping.oversubscribe {
        let each = slots.iter().copied().max().unwrap_or(1);
        return Err(RequestError::Room {
            ranks,
            nodes: slots.len() as u32,
            room: u32::try_from(room).unwrap_or(u32::MAX),
            least: u64::from(ranks).div_ceil(nodes.max(1)) as u32,
            wanted: ranks.div_ceil(each),
        });
    }
    // As in Open MPI, the remainder is spread evenly: the first nodes get one more.
    let (each, rest) = ((more / nodes) as u32, (more % nodes) as usize);
    let extra = |at: usize| each + u32::from(at < rest);
    Ok((0..)
        .zip(counts)
        .map(|(at, count)| count + extra(at))
        .collect())
}

/// Slots filled in order.
fn filled(ranks: u32, slots: &[u32]) -> Vec<u32> {
    let mut left = ranks;
    let take = |&slots: &u32| {
        let count = slots.min(left);
        left -= count;
        count
    };
    slots.iter().map(take).collect()
}

/// The node of each rank, one rank to each node in turn.
fn cyclic(counts: &[u32]) -> Vec<u32> {
    let most = counts.iter().copied().max().unwrap_or(0);
    let turn = |turn: u32| (0..).zip(counts).filter(move |(_, count)| **count > turn);
    let nodes = (0..most).flat_map(|number| turn(number).map(|(node, _)| node));
    nodes.collect()
}

/// The simplest placement for the nodes of ranks, if nodes have these slots.
fn of_list(list: &[u32], slots: &[u32]) -> Placement {
    let ranks = u32::try_from(list.len()).unwrap_or(u32::MAX);
    if list == by_slot(&filled(ranks, slots)) {
        return Placement::Slots;
    }
    // Launchers differ on nodes that are full.
    let turns = (0..slots.len() as u32).cycle().take(list.len());
    match list.iter().copied().eq(turns) {
        true => Placement::Cyclic,
        false => Placement::Listed(list.to_vec()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mpirun::request::policy::map_by;

    fn mapped(text: &str) -> RankMapping {
        let mut mapping = RankMapping::default();
        map_by(text, &mut mapping).unwrap();
        mapping
    }

    fn of(ranks: u32, slots: &[u32], text: &str) -> (Vec<u32>, Placement) {
        let layout = placed(ranks, slots, &mapped(text)).unwrap();
        let slots = match layout.uneven.is_empty() {
            true => vec![layout.ranks_per_node; layout.nodes as usize],
            false => layout.uneven,
        };
        (slots, layout.placement)
    }

    #[test]
    fn ranks_go_where_mpirun_puts_them() {
        assert_eq!(of(4, &[2, 2], "slot"), (vec![2, 2], Placement::Slots));
        assert_eq!(of(3, &[2, 2], "core"), (vec![2, 2], Placement::Slots));
        assert_eq!(of(4, &[2, 2], "node"), (vec![2, 2], Placement::Cyclic));
        assert_eq!(of(3, &[2, 2], "node"), (vec![2, 1], Placement::Cyclic));
        assert_eq!(of(2, &[2, 2], "node"), (vec![1, 1], Placement::Slots));
        assert_eq!(of(4, &[1, 3], "node"), (vec![1, 3], Placement::Slots));
        assert_eq!(
            of(5, &[1, 3, 1], "node").1,
            Placement::Listed(vec![0, 1, 2, 1, 1])
        );
        assert_eq!(of(4, &[2, 2], "socket:SPAN").1, Placement::Cyclic);
        assert_eq!(
            of(4, &[1, 1], "slot:OVERSUBSCRIBE"),
            (vec![2, 2], Placement::Slots)
        );
        assert_eq!(
            of(5, &[2, 1], "slot:oversubscribe"),
            (vec![3, 2], Placement::Slots)
        );
        let spread = RankMapping {
            rank: Some(RankOrder::BySlot),
            ..mapped("node")
        };
        let layout = placed(2, &[2, 2], &spread).unwrap();
        assert_eq!(
            (layout.ranks_per_node, layout.placement),
            (1, Placement::Slots)
        );
    }

    #[test]
    fn a_list_of_nodes_becomes_slots_and_words() {
        let layout = listed(&[1, 0, 1], &[1, 1]).unwrap();
        assert_eq!(layout.uneven, [1, 2]);
        assert_eq!(layout.placement, Placement::Listed(vec![1, 0, 1]));
        assert_eq!(
            listed(&[1], &[1, 1]).unwrap().placement,
            Placement::Listed(vec![1])
        );
        assert_eq!(
            listed(&[0, 1, 0, 1], &[2, 2]).unwrap().placement,
            Placement::Cyclic
        );
        let layout = listed(&[0, 0, 1], &[1, 1]).unwrap();
        assert_eq!(
            (layout.groups(), layout.placement),
            (vec![(1, 2), (1, 1)], Placement::Slots)
        );
        let many: Vec<u32> = (0..34).map(|node| 1 + node % 2).collect();
        assert!(matches!(
            placed(3, &many, &RankMapping::default()),
            Err(RequestError::Groups(34))
        ));
    }
}
