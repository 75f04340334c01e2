//! Traffic of the network cards, from a run's `wire.csv`.
//!
//! It has a row for each pair of nodes: `from`, `to` (`*` for multicast), `frames`, `bytes`, `payload`. The file is
//! untrusted. Used by `belljar trace matrix`.

use super::{Matrix, PairTraffic, TrafficBy};

/// The first line.
const COLUMNS: &str = "from,to,frames,bytes,payload";

/// An invalid line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line} is {found:?} and should be {wanted}")]
pub struct WireError {
    line: usize,
    found: String,
    wanted: &'static str,
}

impl Matrix {
    /// Parses a run's `wire.csv`, for a run of `span_ps` picoseconds.
    ///
    /// # Errors
    /// Returns an error if the text is not such a file.
    pub fn of_wire(text: &str, span_ps: u64) -> Result<Self, WireError> {
        let mut lines = text.lines().zip(1..);
        let wrong = |line, found: &str, wanted| WireError {
            line,
            found: found.chars().take(80).collect(),
            wanted,
        };
        match lines.next() {
            Some((COLUMNS, _)) => {}
            first => return Err(wrong(1, first.unwrap_or_default().0, COLUMNS)),
        }
        let pairs = lines.map(|(row, line)| {
            let five = "five numbers, or * for the second";
            pair(row).ok_or_else(|| wrong(line, row, five))
        });
        Ok(Self {
            by: TrafficBy::Wire,
            span_ps,
            pairs: pairs.collect::<Result<_, _>>()?,
            ..Self::default()
        })
    }
}

fn pair(row: &str) -> Option<PairTraffic> {
    let cells: Vec<&str> = row.split(',').collect();
    let [from, to, frames, bytes, payload] = cells[..] else {
        return None;
    };
    let to = match to {
        "*" => None,
        node => Some(node.parse().ok()?),
    };
    Some(PairTraffic {
        job: None,
        from: from.parse().ok()?,
        to_job: None,
        to,
        messages: frames.parse().ok()?,
        bytes: bytes.parse().ok()?,
        payload: Some(payload.parse().ok()?),
    })
}
