//! A traffic matrix for the page: a cell for each pair, or for each pair of blocks if there are very many.
//!
//! Created for a [`Report`](crate::Report) from an analysis's pairs.

use std::collections::BTreeMap;

use belljar_analysis::{Matrix, PairTraffic};
use serde::Serialize;

use crate::pack::{Packed, PackedNumbers};

/// Most rows of a matrix; beyond that, several ranks share one.
const MOST_ROWS: usize = 512;

/// The description of a drawn matrix.
#[derive(Debug, Serialize)]
pub(crate) struct About {
    /// The traffic's name.
    pub(crate) by: &'static str,
    /// Both senders and receivers: jobs and ranks, or nodes.
    pub(crate) places: Vec<String>,
    /// The number of ranks or nodes in a row.
    pub(crate) block: usize,
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
    /// Omitted traffic, in words.
    pub(crate) unknown: Vec<String>,
    /// The library's algorithms.
    pub(crate) algorithms: serde_json::Value,
}

type Place = (Option<u32>, u32);

fn sides(pair: &PairTraffic) -> Option<(Place, Place)> {
    Some(((pair.job, pair.from), (pair.to_job, pair.to?)))
}

/// Returns a matrix for the page.
pub(crate) fn drawn(by: &'static str, matrix: &Matrix) -> (About, Packed) {
    let mut places: BTreeMap<Place, usize> = BTreeMap::new();
    for (from, to) in matrix.pairs.iter().filter_map(sides) {
        places.insert(from, 0);
        places.insert(to, 0);
    }
    places
        .values_mut()
        .zip(0..)
        .for_each(|(place, number)| *place = number);
    let block = places.len().div_ceil(MOST_ROWS).max(1);
    let mut cells: BTreeMap<(usize, usize), (u64, u64)> = BTreeMap::new();
    for pair in &matrix.pairs {
        let Some((from, to)) = sides(pair) else {
            continue;
        };
        let cell = cells.entry((places[&from] / block, places[&to] / block));
        let cell = cell.or_default();
        cell.0 = cell.0.saturating_add(pair.messages);
        cell.1 = cell.1.saturating_add(pair.bytes);
    }
    let mut numbers = PackedNumbers::default();
    numbers.push(cells.len() as u64);
    for ((from, to), (messages, bytes)) in &cells {
        [*from as u64, *to as u64, *messages, *bytes]
            .into_iter()
            .for_each(|number| numbers.push(number));
    }
    let several = places.keys().any(|(job, _)| job.is_some_and(|job| job > 0));
    let name = |(job, rank): &Place| match job {
        Some(job) if several => format!("{job}:{rank}"),
        _ => rank.to_string(),
    };
    let unknown = matrix.unknown.iter();
    let about = About {
        by,
        places: places.keys().map(name).collect(),
        block,
        messages: matrix.messages(),
        bytes: matrix.bytes(),
        unknown: unknown
            .map(|unknown| format!("{}: {}", unknown.what, unknown.count))
            .collect(),
        algorithms: serde_json::json!(matrix.algorithms),
    };
    (about, numbers.packed())
}
