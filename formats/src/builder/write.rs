//! The trace itself: all calls in one order, and their sums.
//!
//! Used by the readers when they have read everything.

use std::collections::BTreeMap;
use std::path::Path;

use belljar_archive::TraceWriter;
use belljar_sim::Frequency;
use belljar_trace::{
    Counters, Implementation, NodeSummary, ProcessInfo, TraceHeader, TraceSummary,
};

use crate::builder::amounts::write_out;
use crate::builder::spool::Spool;
use crate::builder::{ImportError, Imported};
use crate::format::Format;

/// The sums of a node.
#[derive(Debug, Default)]
struct NodeSums {
    end: u64,
    processes: BTreeMap<u32, (u32, u64)>,
    counters: Counters,
}

/// Writes all calls as a trace of `nodes` nodes, whose clocks have this rate.
pub(crate) fn write(
    spool: Spool,
    out: &Path,
    name: &str,
    format: Format,
    notes: Vec<String>,
    nodes: u32,
    clock: Frequency,
) -> Result<Imported, ImportError> {
    let header = TraceHeader::new(name, &vec![clock; nodes as usize]);
    let mut writer = TraceWriter::create(out, &header, false)?;
    let mut sums: Vec<NodeSums> = (0..nodes).map(|_| NodeSums::default()).collect();
    let mut calls = 0;
    spool.merge(|mut event| {
        write_out(&mut event);
        if let Some(sums) = sums.get_mut(event.node as usize) {
            let started = sums.processes.entry(event.process);
            started.or_insert((event.rank, event.entry));
            sums.end = sums.end.max(event.exit.unwrap_or(event.entry));
            if event.selected {
                *sums.counters.calls.entry(event.function).or_default() += 1;
                sums.counters.recorded += 1;
                calls += 1;
            }
        }
        writer.push(event).map_err(ImportError::from)
    })?;
    let end = sums.iter().map(|sums| sums.end).max().unwrap_or(0);
    let processes = sums.iter().map(|sums| sums.processes.len() as u32).sum();
    writer.finish(&summary(sums))?;
    Ok(Imported {
        format,
        nodes,
        processes,
        calls,
        end_ps: clock.time_of(end).as_ps(),
        notes,
    })
}

fn summary(sums: Vec<NodeSums>) -> TraceSummary {
    let nodes = (0u32..).zip(sums).map(|(node, sums)| NodeSummary {
        node,
        end: sums.end,
        processes: sums
            .processes
            .into_iter()
            .map(|(process, (rank, start))| ProcessInfo {
                process,
                rank,
                implementation: Implementation::OpenMpi,
                start,
            })
            .collect(),
        counters: sums.counters,
    });
    TraceSummary {
        nodes: nodes.collect(),
        ending: String::new(),
    }
}
