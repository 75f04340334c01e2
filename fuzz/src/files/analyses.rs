//! Program structure and waiting times of a trace.
//!
//! Loops, graphs, waiting and the critical path of a trace of any content, and the trace compared with itself. Called by
//! name from `lib.rs`.

use belljar_analysis::{
    Detail, Filter, FrameNames, GraphsOf, RankSlack, TimesMode, WaitBy, critical_path, diff,
    flow_graphs, loops, waiting,
};

use super::{archive_chunks, stored};

/// Reads a trace and computes its program structure and waiting times.
pub(crate) fn target(data: &[u8]) {
    let Some(file) = stored(data, archive_chunks(data)) else {
        return;
    };
    let (path, filter) = (file.path(), Filter::default());
    let mut out = Vec::new();
    for detail in [Detail::Function, Detail::Size] {
        if let Ok((found, _)) = loops(
            path,
            &filter,
            detail,
            detail == Detail::Size,
            TimesMode::Read,
        ) {
            let told = found
                .write(&mut out)
                .and_then(|()| found.write_json(&mut out));
            told.expect("memory takes everything");
        }
        for of in [GraphsOf::Classes, GraphsOf::Merged] {
            if let Ok((found, _)) = flow_graphs(path, &filter, detail, of, true, TimesMode::Read) {
                let told = found.write(&mut out).and_then(|()| {
                    found.write_json(&mut out)?;
                    found.write_dot(&mut out)?;
                    found.write_graphml(&mut out)
                });
                told.expect("memory takes everything");
            }
        }
    }
    let by = WaitBy {
        frames: None,
        phases: true,
        delays: true,
        loops: true,
    };
    if let Ok((found, _)) = waiting(path, &filter, by) {
        let told = found
            .write(&mut out)
            .and_then(|()| found.write_json(&mut out));
        told.expect("memory takes everything");
    }
    if let Ok((found, _)) = critical_path(path, true) {
        let told = found
            .write(&mut out)
            .and_then(|()| found.write_json(&mut out));
        told.expect("memory takes everything");
        assert!(found.from_ps <= found.to_ps, "the path goes back in time");
        let in_time = |rank: &RankSlack| rank.least_ps <= rank.most_ps;
        assert!(found.slack.iter().all(in_time), "more than the most");
    }
    let unnamed = [(); 2].map(|()| FrameNames::new(|_, _| Vec::new()));
    if let Ok((found, _)) = diff(path, path, true, unnamed) {
        assert!(found.equal, "a trace differs from itself");
    }
    assert!(std::str::from_utf8(&out).is_ok(), "what is found is text");
}
