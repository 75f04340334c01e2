//! Analyses of a trace file, as run by `belljar trace`: reading is part of their cost.
//!
//! Each reads the file once or twice from its beginning, and keeps no call. Used by the example's `main`, by name.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use belljar_analysis::generated::Stencil;
use belljar_analysis::{
    Detail, Filter, FrameNames, GraphsOf, TimesMode, call_sites, counts, critical_path, diff,
    flow_graphs, loops, statistics,
};
use belljar_archive::{Contents, TraceWriter};
use belljar_trace::{CallStack, CodeFile, Event, Frame, Site, TraceError, TraceSummary};

/// The analyses that read files.
pub(crate) const ANALYSES: [&str; 9] = [
    "path",
    "sites",
    "diff",
    "read-stat",
    "count-stat",
    "read-graph",
    "count-graph",
    "read-loops",
    "count-loops",
];

/// Writes the trace to the file at `path`, each call with a realistic call site.
pub(crate) fn write(stencil: Stencil, path: &Path) -> Result<(), TraceError> {
    let create = File::create(path).map_err(|source| TraceError::Io {
        action: "create",
        path: path.to_owned(),
        source,
    })?;
    let contents = Contents {
        accounted: false,
        frames: 1,
    };
    let mut writer = TraceWriter::over(create, path, &stencil.header(), contents)?;
    let file = Arc::new(CodeFile {
        path: "stencil".to_owned(),
        build_id: Vec::new(),
    });
    for event in stencil.events() {
        let site = site(&event, &file);
        writer.push(Event { site, ..event })?;
    }
    writer.finish(&TraceSummary::default()).map(drop)
}

/// Each function has a call site, and each function of messages has one for each neighbour.
fn site(event: &Event, file: &Arc<CodeFile>) -> Site {
    let neighbor = event.started.first().map_or(0, |request| request % 8);
    let address = 0x1000 + 0x100 * u64::from(event.function) + 8 * neighbor;
    Site(Some(Arc::new(CallStack(vec![Frame {
        address,
        file: Some(file.clone()),
    }]))))
}

/// Runs an analysis of the file, and returns its result in a few words.
pub(crate) fn analysed(analysis: &str, path: &Path) -> Result<String, TraceError> {
    match analysis {
        "path" => {
            let (path, _) = critical_path(path, false)?;
            Ok(format!("{} changes of rank", path.changes))
        }
        "sites" => {
            let (sites, _) = call_sites(path, &Filter::default(), None)?;
            Ok(format!("{} sites", sites.sites.len()))
        }
        "read-stat" => {
            let (statistics, _) = statistics(path, &Filter::default())?;
            Ok(format!("{} functions", statistics.functions.len()))
        }
        "count-stat" => {
            let (statistics, _) = counts(path, &Filter::default())?;
            Ok(format!("{} functions", statistics.functions.len()))
        }
        "read-graph" | "count-graph" => {
            let of = (GraphsOf::Classes, true);
            let times = times(analysis);
            let (graphs, _) =
                flow_graphs(path, &Filter::default(), Detail::Peer, of.0, of.1, times)?;
            Ok(format!("{} graphs", graphs.graphs.len()))
        }
        "read-loops" | "count-loops" => {
            let times = times(analysis);
            let (loops, _) = loops(path, &Filter::default(), Detail::Peer, false, times)?;
            Ok(format!("{} classes", loops.classes.len()))
        }
        _ => {
            let names = [(); 2].map(|()| FrameNames::new(|_, _| Vec::new()));
            let (diff, _) = diff(path, path, false, names)?;
            Ok(format!("{} ranks, equal: {}", diff.ranks.len(), diff.equal))
        }
    }
}

/// The `count-` analyses read no times.
fn times(analysis: &str) -> TimesMode {
    match analysis.starts_with("count") {
        true => TimesMode::Unread,
        false => TimesMode::Read,
    }
}
