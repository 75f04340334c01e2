//! How a process makes its communicators, and what it knows of them at once.

use super::Communicator;
use crate::arguments::Arguments;
use crate::implementation::UNDEFINED;
use crate::object::Making;

/// Most dimensions of a grid that are believed.
const MAX_DIMENSIONS: u64 = 1 << 10;

pub(super) fn split(arguments: &Arguments<'_>) -> Making {
    let color = arguments.int("color").unwrap_or(0);
    Making::Split {
        color: (i64::from(color) != UNDEFINED).then_some(color),
        key: arguments.int("key").unwrap_or(0),
    }
}

pub(super) fn split_type(arguments: &Arguments<'_>) -> Making {
    use crate::event::Implementation::{Mpich, OpenMpi};
    let kind = arguments.int("split_type").unwrap_or(0);
    let member = i64::from(kind) != UNDEFINED;
    // MPI_COMM_TYPE_SHARED. Other kinds ask for parts of the hardware.
    let by_node = match arguments.implementation {
        Mpich => kind == 1,
        OpenMpi => kind == 0,
    };
    if member && !by_node {
        return Making::Unknown;
    }
    Making::SplitByNode {
        member,
        key: arguments.int("key").unwrap_or(0),
    }
}

pub(super) fn dist_graph(parent: Option<&Communicator>, arguments: &Arguments<'_>) -> Communicator {
    let degree = |name| u32::try_from(arguments.count(name)?).ok();
    Communicator {
        size: parent.and_then(|parent| parent.size),
        neighbors: degree("indegree").zip(degree("outdegree")),
        ..Communicator::default()
    }
}

pub(super) fn cart(arguments: &mut Arguments<'_>) -> (Making, Communicator) {
    let count = arguments.count("ndims").unwrap_or(u64::MAX);
    let read = if count <= MAX_DIMENSIONS {
        arguments.integers("dims", count)
    } else {
        None
    };
    let Some(read) = read else {
        return (Making::Unknown, Communicator::default());
    };
    let dimensions: Vec<u32> = read
        .into_iter()
        .map(|size| u32::try_from(size).unwrap_or(0))
        .collect();
    let shape = grid(dimensions.clone());
    (Making::Cart { dimensions }, shape)
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

/// A communicator with a grid. Each dimension has two neighbours.
fn grid(dimensions: Vec<u32>) -> Communicator {
    let size = dimensions
        .iter()
        .try_fold(1u32, |product, size| product.checked_mul(*size));
    let neighbors = 2 * dimensions.len() as u32;
    Communicator {
        size,
        neighbors: Some((neighbors, neighbors)),
        dimensions: Some(dimensions),
        ..Communicator::default()
    }
}
