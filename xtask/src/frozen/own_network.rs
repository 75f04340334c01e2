//! Replays of pinned traces on their own networks, compared with the traces.
//!
//! A replay on the traced network gives the traced time; a longer time shows a wrong match or a wrong dependence.
//! Golden files of versions have no meaningful times, and a replay refuses a trace with kept iterations alone. Called for
//! each row of the packet model's replay.

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::pinned::PinnedTrace;
use super::row::ReaderOutputs;

/// The reader whose output has the times.
pub(super) const READER: &str = "replay-packet";
/// Excess of the replayed over the traced time that is accepted, in millionths.
const LIMIT: i128 = 10_000;
/// Traces with limits of their own.
const LIMITS: [(&str, i128); 1] = [("imported", 20_000)];
/// Traces that replays refuse.
const REFUSED: [&str; 1] = ["halo-kept"];

/// Compares the times of a replay.
///
/// # Errors
/// If the replay never ends or exceeds the trace's time by more than the limit.
pub(super) fn check(trace: &PinnedTrace, parts: &ReaderOutputs) -> Result<()> {
    let name = trace.name.as_str();
    if name.starts_with("version-") || REFUSED.contains(&name) {
        return Ok(());
    }
    let text = parts.part("stdout-0").unwrap_or_default();
    let replay: Value = serde_json::from_slice(text)
        .with_context(|| format!("the replay of {name} on its own network prints no JSON"))?;
    let time = |key: &str| {
        let time = replay[key].as_u64();
        time.with_context(|| format!("the replay of {name} has no {key}"))
    };
    let (replayed, traced) = (
        i128::from(time("total_ps")?),
        i128::from(time("traced_ps")?),
    );
    let own = LIMITS.iter().find(|(of, _)| *of == name);
    let limit = own.map_or(LIMIT, |(_, limit)| *limit);
    if (replayed - traced) * 1_000_000 > limit * traced {
        bail!(
            "the replay of {name} on its own network takes {replayed} ps, the trace {traced} ps; the limit is {limit} millionths more"
        );
    }
    let stuck = replay["stuck"]
        .as_array()
        .is_some_and(|stuck| !stuck.is_empty());
    if stuck {
        bail!(
            "the replay of {name} on its own network never ends: {}",
            replay["stuck"]
        );
    }
    Ok(())
}
