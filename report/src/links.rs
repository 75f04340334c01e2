//! Loads of links over time, from a run's `links.csv`, for a chart.
//!
//! The file is read row by row; windows are merged until there are few enough, and the busiest directions of links are kept. Created
//! for a [`Report`](crate::Report).

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;

use belljar_files::open_input;
use serde::{Deserialize, Serialize};

use crate::ReportError;

/// Most windows of a chart.
const MOST_WINDOWS: u64 = 1000;
/// Most lines of a chart.
const MOST_LINES: usize = 40;
/// Most directions of links that are read.
const MOST_LINKS: usize = 1 << 16;

/// The required columns of a row of the file.
#[derive(Debug, Deserialize)]
struct WindowRow {
    time_s: f64,
    link: String,
    direction: String,
    bytes: u64,
    queue_max: u64,
    busy: f64,
}

/// One direction of a link.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct LinkDirection {
    pub(crate) name: String,
    /// For each window: bytes, share of the time for which it was busy, longest queue.
    pub(crate) bytes: Vec<u64>,
    pub(crate) busy: Vec<f64>,
    pub(crate) queue: Vec<u64>,
}

/// Loads over time.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub(crate) struct Loads {
    /// The begin of each window, in seconds.
    pub(crate) times: Vec<f64>,
    /// The busiest directions, by bytes.
    pub(crate) lines: Vec<LinkDirection>,
    /// Number of omitted directions.
    pub(crate) left_out: usize,
}

/// Sums of one direction by window.
type Sums = BTreeMap<u64, (u64, f64, u64)>;

/// Reads a run's `links.csv`.
pub(crate) fn read(path: &Path) -> Result<Loads, ReportError> {
    let failed = |error: csv::Error| ReportError::Links {
        path: path.to_owned(),
        reason: error.to_string(),
    };
    let times = |window: &WindowRow| window.time_s.is_finite() && window.time_s >= 0.0;
    let (mut first, mut last, mut step) = (f64::MAX, 0f64, f64::MAX);
    let mut before = f64::MAX;
    for window in open(path)? {
        let window = window.map_err(failed)?;
        if times(&window) {
            (first, last) = (first.min(window.time_s), last.max(window.time_s));
            if window.time_s > before {
                step = step.min(window.time_s - before);
            }
            before = window.time_s;
        }
    }
    let step = if step.is_finite() && step < f64::MAX {
        step
    } else {
        1.0
    };
    if first > last {
        return Ok(Loads::default());
    }
    let windows = (((last - first) / step).round() as u64).saturating_add(1);
    let joined = windows.div_ceil(MOST_WINDOWS).max(1);
    let (mut sums, left_out) = busiest(path)?;
    for window in open(path)? {
        let window = window.map_err(failed)?;
        let name = format!("{} {}", window.link, window.direction);
        let Some(sums) = sums.get_mut(&name).filter(|_| times(&window)) else {
            continue;
        };
        let number = ((window.time_s - first) / step).round() as u64 / joined;
        let sum = sums.entry(number).or_default();
        sum.0 = sum.0.saturating_add(window.bytes);
        sum.1 += window.busy / joined as f64;
        sum.2 = sum.2.max(window.queue_max);
    }
    Ok(loads(
        sums,
        first,
        step * joined as f64,
        windows.div_ceil(joined),
        left_out,
    ))
}

/// Opens the rows of the file.
fn open(path: &Path) -> Result<csv::DeserializeRecordsIntoIter<File, WindowRow>, ReportError> {
    let file = open_input(path).map_err(|error| ReportError::Links {
        path: path.to_owned(),
        reason: error.to_string(),
    })?;
    Ok(csv::Reader::from_reader(file).into_deserialize())
}

/// Returns the busiest directions without their windows, as these take much memory for many links, and the number of other directions.
fn busiest(path: &Path) -> Result<(BTreeMap<String, Sums>, usize), ReportError> {
    let mut bytes: BTreeMap<String, u64> = BTreeMap::new();
    for window in open(path)? {
        let window = window.map_err(|error| ReportError::Links {
            path: path.to_owned(),
            reason: error.to_string(),
        })?;
        let name = format!("{} {}", window.link, window.direction);
        if !(window.time_s.is_finite() && window.time_s >= 0.0)
            || bytes.len() >= MOST_LINKS && !bytes.contains_key(&name)
        {
            continue;
        }
        let sum = bytes.entry(name).or_default();
        *sum = sum.saturating_add(window.bytes);
    }
    let mut order: Vec<(u64, String)> = bytes.into_iter().map(|(name, sum)| (sum, name)).collect();
    order.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let left_out = order.len().saturating_sub(MOST_LINES);
    order.truncate(MOST_LINES);
    let names = order.into_iter().map(|(_, name)| (name, Sums::new()));
    Ok((names.collect(), left_out))
}

fn loads(
    sums: BTreeMap<String, Sums>,
    first: f64,
    step: f64,
    windows: u64,
    left_out: usize,
) -> Loads {
    let mut lines: Vec<(u64, String, Sums)> = sums
        .into_iter()
        .map(|(name, sums)| {
            (
                sums.values().fold(0, |all, sum| sum.0.saturating_add(all)),
                name,
                sums,
            )
        })
        .collect();
    lines.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let line = |(_, name, sums): (u64, String, Sums)| {
        let of = |number: u64| sums.get(&number).copied().unwrap_or_default();
        LinkDirection {
            name,
            bytes: (0..windows).map(|number| of(number).0).collect(),
            busy: (0..windows).map(|number| of(number).1).collect(),
            queue: (0..windows).map(|number| of(number).2).collect(),
        }
    };
    Loads {
        times: (0..windows)
            .map(|number| first + number as f64 * step)
            .collect(),
        lines: lines.into_iter().map(line).collect(),
        left_out,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str =
        "time_s,link,direction,frames,bytes,queue_max,queue_end,dropped,lost,failed,busy\n";

    fn of(rows: &str) -> Result<Loads, ReportError> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("links.csv");
        std::fs::write(&path, format!("{HEAD}{rows}")).unwrap();
        read(&path)
    }

    #[test]
    fn windows_without_traffic_are_there_and_the_busiest_is_first() {
        let loads = of("1.000,a-b,up,1,10,5,0,0,0,0,0.25\n\
                        1.001,a-b,down,1,99,7,0,0,0,0,0.5\n\
                        1.003,a-b,up,1,20,6,0,0,0,0,0.125\n")
        .unwrap();
        assert_eq!(loads.times.len(), 4);
        assert_eq!(loads.lines[0].name, "a-b down");
        assert_eq!(loads.lines[1].bytes, [10, 0, 0, 20]);
        assert_eq!(loads.lines[1].busy, [0.25, 0.0, 0.0, 0.125]);
        assert_eq!(loads.lines[0].queue, [0, 7, 0, 0]);
    }

    #[test]
    fn very_many_windows_are_joined() {
        let rows: Vec<String> = (0..5000)
            .map(|row| format!("{},a-b,up,1,2,3,0,0,0,0,1.0\n", row))
            .collect();
        let loads = of(&rows.concat()).unwrap();
        assert_eq!(loads.times.len(), 1000);
        assert_eq!(loads.lines[0].bytes.iter().sum::<u64>(), 10_000);
        assert!((loads.lines[0].busy[3] - 1.0).abs() < 1e-9);
    }

    #[test]
    fn what_is_no_table_of_links_is_refused() {
        assert!(of("1.0,a-b,up,x,y,z,0,0,0,0,much\n").is_err());
        assert_eq!(of("").unwrap(), Loads::default());
    }
}
