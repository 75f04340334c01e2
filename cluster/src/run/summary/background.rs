//! Figures of background jobs in a run.
//!
//! Called by summaries.

use std::fmt::Write;

use belljar_replay::BackgroundFigures;
use belljar_sim::figures::{counted, decimal};
use serde::Serialize;

use crate::plan::background::BackgroundPlan;

/// A background job.
#[derive(Debug, Serialize)]
pub struct BackgroundSummary {
    /// Its name.
    pub name: String,
    /// Its ranks.
    pub ranks: u32,
    /// Its hosts.
    pub hosts: u32,
    /// Number of starts.
    pub begun: u64,
    /// Number of ends.
    pub ended: u64,
    /// Its duration in the trace, in picoseconds.
    pub traced_ps: u64,
    /// Its minimum duration here.
    pub shortest_ps: u64,
    /// Its mean duration.
    pub mean_ps: u64,
    /// Its maximum duration.
    pub longest_ps: u64,
    /// Frames that its hosts sent.
    pub frames: u64,
    /// Bytes of these.
    pub bytes: u64,
}

impl BackgroundSummary {
    pub(super) fn of(plan: &BackgroundPlan, figures: &BackgroundFigures) -> Self {
        Self {
            name: plan.name.clone(),
            ranks: plan.job.ranks(),
            hosts: plan.hosts.end - plan.hosts.start,
            begun: figures.begun,
            ended: figures.ended,
            traced_ps: (plan.job.traced_ps() as f64 * plan.scale) as u64,
            shortest_ps: figures.shortest_ps,
            mean_ps: figures.sum_ps.checked_div(figures.ended).unwrap_or(0),
            longest_ps: figures.longest_ps,
            frames: figures.frames,
            bytes: figures.bytes,
        }
    }
}

/// The warning about a job that can never end, with the messages that it waits for.
pub(super) fn warning(plan: &BackgroundPlan, figures: &BackgroundFigures) -> Option<String> {
    let (rank, call) = figures.stuck?;
    Some(format!(
        "background job {} never ends: its rank {rank} waits in call {call} for a message that its trace lacks; it sends nothing afterwards",
        plan.name
    ))
}

/// Jobs in words, a line for each.
pub(super) fn render(jobs: &[BackgroundSummary]) -> String {
    let mut text = String::new();
    for job in jobs {
        let ms = |ps: u64| decimal(ps as f64 / 1e9, 3);
        let _ = write!(
            text,
            "background {}: {}, {}, {}, ",
            job.name,
            counted(job.ranks.into(), "rank"),
            counted(job.frames, "frame"),
            counted(job.bytes, "byte")
        );
        let _ = match job.ended {
            0 => writeln!(text, "never played to its end"),
            times => writeln!(
                text,
                "played {} in {} to {} ms, traced in {} ms",
                counted(times, "time"),
                ms(job.shortest_ps),
                ms(job.longest_ps),
                ms(job.traced_ps)
            ),
        };
    }
    text
}
