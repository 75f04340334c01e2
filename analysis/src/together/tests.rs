//! All analyses at once compared with the same ones separately.

use std::fs::OpenOptions;
use std::path::Path;
use std::sync::Arc;

use belljar_archive::{Contents, TraceWriter};
use belljar_collectives::Tables;
use belljar_trace::{CallStack, CodeFile, Frame, Site, TraceState, TraceSummary};

use super::*;
use crate::generated::Stencil;
use crate::{TimesMode, WaitBy};

const STENCIL: Stencil = Stencil {
    width: 3,
    height: 2,
    steps: 300,
    rounds: 2,
    report: 10,
};

fn trace(directory: &Path, frames_of: u8) -> PathBuf {
    let path = directory.join("trace.bjt");
    let contents = Contents {
        accounted: false,
        frames: frames_of,
    };
    let file = std::fs::File::create(&path).unwrap();
    let mut writer = TraceWriter::over(file, &path, &STENCIL.header(), contents).unwrap();
    let program = Arc::new(CodeFile {
        path: "/bin/stencil".to_owned(),
        build_id: vec![7],
    });
    for mut event in STENCIL.events() {
        let frames = [u64::from(event.function), 0x9000].map(|address| Frame {
            address,
            file: Some(Arc::clone(&program)),
        });
        event.site = Site((frames_of > 0).then(|| Arc::new(CallStack(frames.into()))));
        writer.push(event).unwrap();
    }
    writer.finish(&TraceSummary::default()).unwrap();
    path
}

fn compare(path: &Path) -> Analyses {
    let all = Filter::default();
    let of = TrafficOf::default();
    let tables = Tables::open_mpi();
    let survey = Survey::read(path).unwrap();
    let mut events = 0;
    let together = survey
        .analyses(Some(&tables), &mut |_| events += 1)
        .unwrap();
    assert_eq!(events, TraceReader::open(path).unwrap().count());
    let (statistics, state) = crate::statistics(path, &all).unwrap();
    assert_eq!(
        (&together.statistics, &together.state),
        (&statistics, &state)
    );
    let by = WaitBy {
        delays: true,
        loops: true,
        ..WaitBy::default()
    };
    let (waiting, _) = crate::waiting(path, &all, by).unwrap();
    assert_eq!(together.waiting, waiting);
    let (critical, _) = crate::critical_path(path, false).unwrap();
    assert_eq!(together.path, critical);
    let (loops, _) = crate::loops(path, &all, Detail::Peer, false, TimesMode::Read).unwrap();
    assert_eq!(together.loops, loops);
    let (called, _) = crate::traffic(path, &all, of, None).unwrap();
    let (messages, _) = crate::traffic(path, &all, of, Some(&tables)).unwrap();
    assert_eq!(together.called, called);
    assert_eq!(together.messages.as_ref(), Some(&messages));
    let (sites, _) = crate::call_sites(path, &all, None).unwrap();
    assert_eq!(together.sites, (sites.frames > 0).then_some(sites));
    assert!(together.seen.is_none());
    together
}

#[test]
fn together_they_find_what_each_finds() {
    let directory = tempfile::tempdir().unwrap();
    let found = compare(&trace(directory.path(), 0));
    assert_eq!(found.state, TraceState::Complete);
    assert!(found.waiting.messages > 0 && !found.path.ranks.is_empty());
    // More events than a batch has.
    assert!(STENCIL.calls() > 3000);
    let found = compare(&trace(directory.path(), 2));
    assert!(!found.waiting.sites.is_empty() && found.sites.is_some());
}

#[test]
fn a_trace_that_breaks_off_is_told_as_far_as_it_is() {
    let directory = tempfile::tempdir().unwrap();
    let path = trace(directory.path(), 0);
    let length = std::fs::metadata(&path).unwrap().len();
    let file = OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(length - 9).unwrap();
    let found = compare(&path);
    assert!(matches!(found.state, TraceState::Incomplete { .. }));
}

#[test]
fn threads_are_told_with_their_first_call_and_their_last_return() {
    let directory = tempfile::tempdir().unwrap();
    let survey = Survey::read(&trace(directory.path(), 0)).unwrap();
    assert_eq!(survey.threads().len(), 6);
    let header = STENCIL.header();
    for own in survey.threads() {
        let events = STENCIL
            .events()
            .filter(|event| event.rank == own.member.rank);
        let times = events.map(|event| {
            let time = |cycles| header.frequency(event.node).time_of(cycles).as_ps();
            (time(event.entry), time(event.exit.unwrap_or(event.entry)))
        });
        let times: Vec<(u64, u64)> = times.collect();
        let first = times.iter().map(|(entry, _)| *entry).min();
        let last = times.iter().map(|(_, exit)| *exit).max();
        assert_eq!((Some(own.from_ps), Some(own.to_ps)), (first, last));
    }
}
