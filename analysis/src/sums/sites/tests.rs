//! Call sites of synthetic ranks, with all figures computed by hand.

use std::sync::Arc;

use belljar_trace::{CallStack, CodeFile, Event, Frame, Site};

use super::CallSites;
use super::collect::SiteCollector;
use crate::dump::frames::{FrameNames, SitePlace};
use crate::ranks::{Ranks, Trace};

fn file(path: &str) -> Arc<CodeFile> {
    Arc::new(CodeFile {
        path: path.to_owned(),
        build_id: vec![0xab, 1],
    })
}

/// A stack of addresses in a program, from the call outward.
fn stack(addresses: &[u64]) -> Vec<Frame> {
    let frames = addresses.iter().map(|address| Frame {
        address: *address,
        file: Some(file("/bin/program")),
    });
    frames.collect()
}

fn with(event: &mut Event, frames: Vec<Frame>) {
    event.site = Site(Some(Arc::new(CallStack(frames))));
}

/// Two ranks: the first sends three times, twice from one location, the other receives from one location.
fn messages() -> Trace {
    let mut ranks = Ranks::new(2);
    ranks.send(0, (1700, 1800), 1, 1);
    ranks.send(0, (3000, 4000), 1, 2);
    ranks.send(0, (5000, 5100), 1, 3);
    ranks.receive(1, (1000, 2500), 0, 0, 1);
    ranks.receive(1, (3300, 4000), 0, 0, 2);
    ranks.receive(1, (6000, 6100), 0, 0, 3);
    let mut trace = ranks.trace();
    let (mut sends, mut receives) = (0, 0);
    for event in &mut trace.events {
        match event.name() {
            "MPI_Send" => {
                with(event, stack(&[0x100 + 0x100 * (sends / 2), 0x900]));
                sends += 1;
            }
            "MPI_Recv" => {
                with(event, stack(&[0x300, 0x800 + receives]));
                receives += 1;
            }
            _ => {}
        }
    }
    trace
}

fn collected(trace: &Trace, frames: u8, wanted: impl Fn(&Event) -> bool) -> CallSites {
    let mut collector = SiteCollector::new(&trace.header, &trace.communicators, frames);
    for event in &trace.events {
        collector.observe(event, wanted(event));
    }
    collector.finish()
}

#[test]
fn calls_are_summed_up_by_site() {
    let sites = collected(&messages(), 1, |_| true);
    let rows: Vec<_> = sites
        .sites
        .iter()
        .map(|site| {
            let times = [site.total_ps, site.min_ps, site.mean_ps, site.max_ps];
            let nanoseconds = times.map(|time| time / 1000);
            let address = site.frames[0].address;
            let waiting = site.waiting_ps / 1000;
            (site.function, address, site.calls, nanoseconds, waiting)
        })
        .collect();
    let expected = [
        ("MPI_Recv", 0x300, 3, [2300, 100, 766, 1500], 700),
        ("MPI_Send", 0x100, 2, [1100, 100, 550, 1000], 300),
        ("MPI_Send", 0x200, 1, [100, 100, 100, 100], 0),
    ];
    assert_eq!(rows, expected);
    let bytes: Vec<_> = sites
        .sites
        .iter()
        .map(|it| (it.sent, it.received))
        .collect();
    assert_eq!(bytes, [(0, 12), (8, 0), (4, 0)]);
    assert_eq!(sites.total_ps, 3_500_000);
    // With two frames the receives are three sites.
    let sites = collected(&messages(), 2, |_| true);
    assert_eq!(sites.sites.len(), 5);
    assert_eq!(sites.sites[0].frames.len(), 2);
}

#[test]
fn transitions_are_from_a_return_to_the_next_entry() {
    let sites = collected(&messages(), 1, |_| true);
    let rows: Vec<_> = sites
        .transitions
        .iter()
        .map(|it| {
            let times = [it.total_ps, it.min_ps, it.mean_ps, it.max_ps];
            (it.from, it.to, it.count, times.map(|time| time / 1000))
        })
        .collect();
    let expected = [
        (1, 1, 2, [2800, 800, 1400, 2000]),
        (2, 2, 1, [1200, 1200, 1200, 1200]),
        (2, 3, 1, [1000, 1000, 1000, 1000]),
    ];
    assert_eq!(rows, expected);
    let harmonic = 2.0 / (1.0 / 800e-9 + 1.0 / 2000e-9);
    let found = sites.transitions[0].harmonic_mean_s;
    assert!((found / harmonic - 1.0).abs() < 1e-9, "{found}");
}

#[test]
fn a_filter_takes_calls_out_and_not_what_precedes_them() {
    let sites = collected(&messages(), 1, |event| event.entry >= 3000);
    let calls: Vec<u64> = sites.sites.iter().map(|site| site.calls).collect();
    assert_eq!(calls, [1, 2, 1]);
    let counts: u64 = sites.transitions.iter().map(|it| it.count).sum();
    assert_eq!(counts, 4);
    let none = collected(&messages(), 1, |_| false);
    assert!(none.sites.is_empty() && none.transitions.is_empty());
}

#[test]
fn frames_of_bindings_are_passed_over() {
    let mut trace = messages();
    for event in &mut trace.events {
        let mut frames = stack(&[0x100]);
        let path = "/usr/lib/x86_64-linux-gnu/libmpichfort.so.12";
        frames.insert(
            0,
            Frame {
                address: 0x7777,
                file: Some(file(path)),
            },
        );
        with(event, frames);
    }
    let sites = collected(&trace, 1, |_| true);
    assert!(sites.sites.iter().all(|it| it.frames[0].address == 0x100));
    // If a call has no other frames, those of bindings are used.
    with(
        &mut trace.events[0],
        vec![Frame {
            address: 0x7777,
            file: Some(file("/lib/libmpi_mpifh.so.40")),
        }],
    );
    let sites = collected(&trace, 1, |_| true);
    assert!(sites.sites.iter().any(|it| it.frames[0].address == 0x7777));
}

#[test]
fn names_are_asked_for_once_and_shown() {
    let mut sites = collected(&messages(), 2, |_| true);
    let mut asked = 0;
    sites.name(FrameNames::new(|file, address| {
        asked += 1;
        assert_eq!(
            (file.path.as_str(), &file.build_id[..]),
            ("/bin/program", &[0xab, 1][..])
        );
        if address == 0x900 {
            return Vec::new();
        }
        let place = |name: &str, line| SitePlace {
            function: Some(name.to_owned()),
            file: Some("/home/me/solve.c".to_owned()),
            line: Some(line),
        };
        vec![place("inner", 7), place(&"long".repeat(40), address as u32)]
    }));
    assert_eq!(asked, 7);
    let mut text = Vec::new();
    sites.write(&mut text, true).unwrap();
    let text = String::from_utf8(text).unwrap();
    for words in [
        "MPI_Send  ",
        "inner (solve.c:7), inlined\n",
        "long... (solve.c:256)\n",
        "program+0x900\n",
        "Transitions: ",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    for (transitions, rows) in [(false, 5), (true, 4)] {
        let mut table = Vec::new();
        sites.write_csv(&mut table, transitions).unwrap();
        let table = String::from_utf8(table).unwrap();
        assert_eq!(table.lines().count(), 1 + rows, "{table}");
    }
}
