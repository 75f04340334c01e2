//! Creation of communicators, and their immediately known properties.
//!
//! Grids and graphs determine the number of neighbours, which collective operations need before other processes' calls
//! are known. Implausible sizes are ignored. Used by the constructors of communicators.

use belljar_trace::Making;

use super::{Communicator, Reach};
use crate::decode::arguments::Arguments;
use crate::guest::memory::MAX_ENTRIES;
use belljar_trace::UNDEFINED;

/// Most plausible number of dimensions of a grid.
const MAX_DIMENSIONS: u64 = 1 << 10;

pub(super) fn split(arguments: &Arguments<'_>) -> Making {
    let color = arguments.int("color").unwrap_or(0);
    Making::Split {
        color: (i64::from(color) != UNDEFINED).then_some(color),
        key: arguments.int("key").unwrap_or(0),
    }
}

pub(super) fn split_type(arguments: &Arguments<'_>) -> Making {
    let kind = arguments.int("split_type").unwrap_or(0);
    let member = i64::from(kind) != UNDEFINED;
    // Other kinds split by hardware resources.
    let by_node = kind == arguments.implementation.comm_type_shared();
    if member && !by_node {
        return Making::Unknown;
    }
    Making::SplitByNode {
        member,
        key: arguments.int("key").unwrap_or(0),
    }
}

/// Handles a graph for which each process specifies some edges.
pub(super) fn dist_graph(
    parent: Option<&Communicator>,
    arguments: &mut Arguments<'_>,
) -> (Making, Communicator) {
    let shape = Communicator {
        size: parent.and_then(|parent| parent.size),
        rank: parent.and_then(|parent| parent.rank),
        ..Communicator::default()
    };
    let edges = edges(arguments);
    let how = edges.map_or(Making::Unknown, |edges| Making::DistGraph { edges });
    (how, shape)
}

/// Returns the source and the destination of each edge that a process specifies.
fn edges(arguments: &mut Arguments<'_>) -> Option<Vec<(u32, u32)>> {
    let nodes = arguments.count("n")?;
    let sources = arguments.integers("sources", nodes)?;
    let degrees = arguments.integers("degrees", nodes)?;
    let total = degrees
        .iter()
        .try_fold(0u64, |sum, degree| {
            sum.checked_add(u64::try_from(*degree).ok()?)
        })
        .filter(|total| *total <= MAX_ENTRIES && nodes <= MAX_ENTRIES)?;
    let mut destinations = arguments.integers("destinations", total)?.into_iter();
    let mut edges = Vec::new();
    for (source, degree) in sources.into_iter().zip(degrees) {
        let source = u32::try_from(source).ok()?;
        for destination in destinations.by_ref().take(degree as usize) {
            edges.push((source, u32::try_from(destination).ok()?));
        }
    }
    Some(edges)
}

/// Handles a graph for which each process specifies its own neighbours.
pub(super) fn adjacent(
    parent: Option<&Communicator>,
    arguments: &Arguments<'_>,
) -> (Making, Communicator) {
    let degree = |name| u32::try_from(arguments.count(name)?).ok();
    let degrees = degree("indegree").zip(degree("outdegree"));
    let (sources, destinations) = degrees.unwrap_or_default();
    let shape = Communicator {
        size: parent.and_then(|parent| parent.size),
        rank: parent.and_then(|parent| parent.rank),
        neighbors: degrees.map(|(sources, out)| (Reach::Exactly(sources), Reach::Exactly(out))),
        ..Communicator::default()
    };
    let how = Making::DistGraphAdjacent {
        sources,
        destinations,
    };
    (how, shape)
}

/// Handles a graph that each process specifies as a whole: `index` has the sums of the degrees.
pub(super) fn graph(arguments: &mut Arguments<'_>) -> (Making, Communicator) {
    let nodes = arguments.count("nnodes").unwrap_or(u64::MAX);
    let sums = if nodes <= MAX_ENTRIES {
        arguments.integers("indx", nodes)
    } else {
        None
    };
    let Some(sums) = sums else {
        return (Making::Unknown, Communicator::default());
    };
    let before = std::iter::once(0).chain(sums.iter().copied());
    let degrees: Vec<u32> = sums
        .iter()
        .zip(before)
        .map(|(sum, before)| u32::try_from(sum.saturating_sub(before)).unwrap_or(0))
        .collect();
    let most = degrees.iter().copied().max().unwrap_or(0);
    let shape = Communicator {
        size: Some(degrees.len() as u32),
        neighbors: Some((Reach::UpTo(most, false), Reach::UpTo(most, false))),
        ..Communicator::default()
    };
    (Making::Graph { degrees }, shape)
}

pub(super) fn cart(arguments: &mut Arguments<'_>) -> (Making, Communicator) {
    let count = arguments.count("ndims").unwrap_or(u64::MAX);
    let read = if count <= MAX_DIMENSIONS {
        let dimensions = arguments.integers("dims", count);
        dimensions.zip(arguments.integers("periods", count))
    } else {
        None
    };
    let Some((dimensions, periods)) = read else {
        return (Making::Unknown, Communicator::default());
    };
    let dimensions: Vec<u32> = dimensions
        .into_iter()
        .map(|size| u32::try_from(size).unwrap_or(0))
        .collect();
    let periods = periods.into_iter().map(|period| period != 0).collect();
    let shape = grid(dimensions.clone());
    let how = Making::Cart {
        dimensions,
        periods,
    };
    (how, shape)
}

pub(super) fn cart_sub(
    parent: Option<&Communicator>,
    arguments: &mut Arguments<'_>,
) -> (Making, Communicator) {
    let dimensions = parent.and_then(|parent| parent.dimensions.clone());
    let remain = dimensions
        .as_ref()
        .and_then(|dimensions| arguments.integers("remain_dims", dimensions.len() as u64));
    let (Some(dimensions), Some(remain)) = (dimensions, remain) else {
        return (Making::Unknown, Communicator::default());
    };
    let remain: Vec<bool> = remain.into_iter().map(|keep| keep != 0).collect();
    let kept = dimensions.iter().zip(&remain).filter(|(_, keep)| **keep);
    let shape = grid(kept.map(|(size, _)| *size).collect());
    (Making::CartSub { remain }, shape)
}

/// Returns a communicator with a grid. Each dimension has two neighbours, `MPI_PROC_NULL` at an edge.
fn grid(dimensions: Vec<u32>) -> Communicator {
    let size = dimensions
        .iter()
        .try_fold(1u32, |product, size| product.checked_mul(*size));
    let slots = Reach::UpTo(2 * dimensions.len() as u32, true);
    Communicator {
        size,
        neighbors: Some((slots, slots)),
        dimensions: Some(dimensions),
        ..Communicator::default()
    }
}
