//! Calls that never return: a message is missing, or processes wait for one another.
//!
//! The trace has the arguments and the call site of each. Called by `replay`.

use anyhow::Result;
use belljar_analysis::{DumpFormat, Filter, dump};
use belljar_replay::{Outcome, Stuck};
use belljar_sim::{Span, Time};

use super::job::Job;
use super::render::name;
use crate::command::results::trace::sites::{self, RunFiles};

/// Most calls in the list: each takes a pass through the trace.
const MOST: usize = 8;

/// The lines about calls that never return, with line ends.
pub(super) fn told(job: &Job<'_>, outcome: &Outcome) -> Result<Vec<String>> {
    if outcome.stuck.is_empty() {
        return Ok(Vec::new());
    }
    let files = sites::traced_files(&job.trace)?;
    let calls = outcome.stuck.iter().take(MOST);
    let mut all = calls
        .map(|stuck| told_of(job, files.as_ref(), stuck))
        .collect::<Result<Vec<_>>>()?;
    let more = outcome.stuck.len().saturating_sub(MOST);
    if more > 0 {
        all.push(format!(
            "{more} more calls never return; --json has them all\n"
        ));
    }
    Ok(all)
}

fn told_of(job: &Job<'_>, files: Option<&RunFiles>, stuck: &Stuck) -> Result<String> {
    let function = name(stuck.function);
    let mut text = format!(
        "Never returns: call {} of rank {} (job {}), {function}; traced:\n",
        stuck.call, stuck.rank, stuck.job
    );
    let entered = Time::from_ps(stuck.traced_ps);
    let filter = Filter {
        ranks: vec![stuck.rank],
        functions: vec![function.to_owned()],
        from: Some(entered),
        to: Some(entered + Span::from_ps(1)),
        phase: None,
    };
    let names = files.map(|files| sites::names(Some(files)));
    let mut lines = Vec::new();
    dump(&job.trace, &filter, DumpFormat::Text, names, &mut lines)?;
    text.push_str(&String::from_utf8_lossy(&lines));
    Ok(text)
}
