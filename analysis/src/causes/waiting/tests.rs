//! Traces with all waiting times computed by hand.

use std::sync::Arc;

use belljar_archive::{Contents, TraceWriter};
use belljar_trace::{CallStack, CodeFile, Frame, Site, TraceSummary};
use belljar_tracer::scripted::int;

use super::{CallWait, WaitBy, WaitCollector, WaitKind, Waiting, waiting};
use crate::generated::Stencil;
use crate::ranks::{ANY, BUFFER, BYTE, NO_REQUEST, Ranks, SUM, WORLD};
use crate::{Filter, InPhase, ProgramPhase};

impl Ranks {
    fn waiting(self) -> Waiting {
        let trace = self.trace();
        let mut collector = WaitCollector::new(&trace.header, &trace.communicators);
        for event in &trace.events {
            collector.observe(event, true);
        }
        collector.finish()
    }
}

/// Returns kind, rank, function, nanoseconds and the process waited for, the longest first.
fn calls(found: &Waiting) -> Vec<(WaitKind, u32, &'static str, u64, u32)> {
    let call = |call: &CallWait| {
        let nanoseconds = call.waiting_ps / 1000;
        (
            call.kind,
            call.rank,
            call.function,
            nanoseconds,
            call.for_rank,
        )
    };
    found.longest.iter().map(call).collect()
}

#[test]
fn receives_wait_for_late_senders_and_sends_for_late_receivers() {
    let mut ranks = Ranks::new(2);
    // Sent 700 after the receive was entered.
    ranks.send(0, (1700, 1800), 1, 1);
    ranks.receive(1, (1000, 2500), 0, 0, 1);
    // Received 300 after the send was entered, which returned later still.
    ranks.send(0, (3000, 4000), 1, 2);
    ranks.receive(1, (3300, 4000), 0, 0, 2);
    // Sent and complete before the receive is posted.
    ranks.send(0, (5000, 5100), 1, 3);
    ranks.receive(1, (6000, 6100), 0, 0, 3);
    let found = ranks.waiting();
    let expected = [
        (WaitKind::LateSender, 1, "MPI_Recv", 700, 0),
        (WaitKind::LateReceiver, 0, "MPI_Send", 300, 1),
    ];
    assert_eq!(calls(&found), expected);
    assert_eq!(found.messages, 3);
    let [first, second] = found.ranks[..] else {
        panic!("{found:?}");
    };
    assert_eq!((first.waiting_ps, first.caused_ps), (300_000, 700_000));
    assert_eq!((second.waiting_ps, second.caused_ps), (700_000, 300_000));
    assert_eq!(first.mpi_ps, 1_200_000);
    let alone = (found.lone_sends, found.lone_receives, found.unresolved);
    assert_eq!(alone, (0, 0, 0));
}

#[test]
fn each_call_that_waited_is_told_once() {
    let mut ranks = Ranks::new(2);
    ranks.send(0, (1700, 1800), 1, 1);
    ranks.receive(1, (1000, 2500), 0, 0, 1);
    for (rank, entry) in [(0, 3000), (1, 4500)] {
        ranks.call(rank, entry, 5000, "MPI_Barrier", &[WORLD]);
    }
    let trace = ranks.trace();
    let mut collector = WaitCollector::naming(&trace.header, &trace.communicators);
    let mut told = Vec::new();
    for event in &trace.events {
        collector.observe(event, true);
        told.extend(collector.waits());
    }
    collector.end();
    told.extend(collector.waits());
    told.sort_by_key(|call| call.at_ps);
    let told: Vec<_> = told
        .iter()
        .map(|call| (call.rank, call.at_ps / 1000, call.waiting_ps / 1000))
        .collect();
    assert_eq!(told, [(1, 1000, 700), (0, 3000, 1500)]);
}

#[test]
fn a_wildcard_waits_for_the_one_whose_message_it_got() {
    let mut ranks = Ranks::new(3);
    ranks.receive(0, (1000, 3000), ANY, 2, 7);
    ranks.receive(0, (4000, 4100), ANY, 1, 7);
    ranks.send(1, (3500, 3600), 0, 7);
    ranks.send(2, (2000, 2100), 0, 7);
    let found = ranks.waiting();
    assert_eq!(
        calls(&found),
        [(WaitKind::LateSender, 0, "MPI_Recv", 1000, 2)]
    );
    assert_eq!(found.messages, 2);
}

#[test]
fn what_a_wildcard_without_a_status_got_is_deduced() {
    let mut ranks = Ranks::new(2);
    let any = [BUFFER, int(4), BYTE, int(ANY), int(-1), WORLD, 1];
    ranks.call(0, 1000, 2000, "MPI_Recv", &any);
    ranks.send(1, (1500, 1600), 0, 7);
    ranks.receive(0, (3000, 4000), 1, 1, 8);
    ranks.send(1, (3600, 3700), 0, 8);
    let found = ranks.waiting();
    assert_eq!(
        calls(&found),
        [
            (WaitKind::LateSender, 0, "MPI_Recv", 600, 1),
            (WaitKind::LateSender, 0, "MPI_Recv", 500, 1)
        ]
    );
    assert_eq!((found.messages, found.unresolved), (2, 0));
    assert_eq!((found.lone_sends, found.lone_receives), (0, 0));
}

#[test]
fn a_wildcard_that_may_have_got_either_is_counted_and_holds_nobody_up() {
    for cancels in [false, true] {
        let mut ranks = Ranks::new(3);
        let any = [BUFFER, int(4), BYTE, int(ANY), int(7), WORLD, 1];
        // A blocking receive cannot be cancelled, and a cancelled request may have received nothing.
        if cancels {
            let request = ranks.guests[0].handles(&[0]);
            let post = [&any[..6], &[request]].concat();
            ranks.call(0, 500, 600, "MPI_Cancel", &[BUFFER]);
            ranks.call_and(0, 1000, 1100, "MPI_Irecv", &post, |guest| {
                guest.put_handle(request, 0x9c00_0001);
            });
            ranks.call(0, 1200, 2000, "MPI_Wait", &[request, 1]);
        } else {
            ranks.call(0, 1000, 2000, "MPI_Recv", &any);
            ranks.send(2, (1500, 1600), 0, 7);
        }
        ranks.send(1, (1500, 1600), 0, 7);
        ranks.receive(0, (3000, 4000), 1, 1, 8);
        ranks.send(1, (3500, 3600), 0, 8);
        let found = ranks.waiting();
        assert_eq!(
            calls(&found),
            [(WaitKind::LateSender, 0, "MPI_Recv", 500, 1)]
        );
        let lone = if cancels { 1 } else { 2 };
        assert_eq!((found.unresolved, found.lone_sends), (1, lone));
    }
}

#[test]
fn the_call_that_completes_a_request_waits() {
    let mut ranks = Ranks::new(2);
    let (request, status) = (ranks.guests[1].handles(&[0]), ranks.guests[1].room(24));
    let post = [BUFFER, int(4), BYTE, int(0), int(1), WORLD, request];
    ranks.call_and(1, 1000, 1100, "MPI_Irecv", &post, |guest| {
        guest.put_handle(request, 0xac00_0001);
    });
    ranks.call_and(1, 2000, 3000, "MPI_Wait", &[request, status], |guest| {
        guest.put_handle(request, NO_REQUEST);
        guest.put_status(status, 0, 1, 4);
    });
    ranks.send(0, (2600, 2700), 1, 1);
    let found = ranks.waiting();
    assert_eq!(
        calls(&found),
        [(WaitKind::LateSender, 1, "MPI_Wait", 600, 0)]
    );
}

#[test]
fn collective_operations_wait_by_what_they_depend_on() {
    let mut ranks = Ranks::new(3);
    let all = |ranks: &mut Ranks, entries: [u64; 3], exit: u64, name: &str, arguments: &[u64]| {
        for (rank, entry) in entries.into_iter().enumerate() {
            ranks.call(rank, entry, exit, name, arguments);
        }
    };
    all(
        &mut ranks,
        [1000, 1900, 1400],
        2000,
        "MPI_Barrier",
        &[WORLD],
    );
    let root = |root| [BUFFER, int(4), BYTE, int(root), WORLD];
    all(&mut ranks, [2500, 2900, 2100], 3000, "MPI_Bcast", &root(0));
    let reduce = [BUFFER, 0x6000, int(4), BYTE, SUM, int(1), WORLD];
    all(&mut ranks, [3650, 3100, 3350], 4000, "MPI_Reduce", &reduce);
    let sum = [BUFFER, 0x6000, int(4), BYTE, SUM, WORLD];
    all(&mut ranks, [4100, 4200, 4260], 5000, "MPI_Allreduce", &sum);
    all(&mut ranks, [5500, 5100, 5200], 6000, "MPI_Scan", &sum);
    let found = ranks.waiting();
    let expected = [
        (WaitKind::Barrier, 0, "MPI_Barrier", 900, 1),
        // Until the last of the others came.
        (WaitKind::EarlyReduce, 1, "MPI_Reduce", 550, 0),
        (WaitKind::Barrier, 2, "MPI_Barrier", 500, 1),
        (WaitKind::LateBroadcast, 2, "MPI_Bcast", 400, 0),
        (WaitKind::EarlyScan, 1, "MPI_Scan", 400, 0),
        (WaitKind::EarlyScan, 2, "MPI_Scan", 300, 0),
        (WaitKind::AllToAll, 0, "MPI_Allreduce", 160, 2),
        (WaitKind::AllToAll, 1, "MPI_Allreduce", 60, 2),
    ];
    assert_eq!(calls(&found), expected);
    assert_eq!((found.collectives, found.lone_collectives), (5, 0));
    let barrier = &found.kinds[WaitKind::ALL
        .iter()
        .position(|kind| *kind == WaitKind::Barrier)
        .unwrap()];
    let sums = (barrier.calls, barrier.waiting_ps, barrier.max_ps);
    assert_eq!(sums, (2, 1_400_000, 900_000));
}

#[test]
fn calls_that_synchronise_wait_for_the_last_that_comes() {
    let mut ranks = Ranks::new(3);
    let made = [0xa1, 0xa2, 0xa3].map(|low| 0x8400_0000 + low);
    for (rank, entry) in [1000, 1900, 1400].into_iter().enumerate() {
        let new = ranks.guests[rank].room(8);
        ranks.call_and(rank, entry, 2000, "MPI_Comm_dup", &[WORLD, new], |guest| {
            guest.put_handle(new, made[rank]);
        });
    }
    // The second copy is freed locally: nothing waits for the last of them.
    for (rank, entry) in [2500, 2900, 2100].into_iter().enumerate() {
        let old = ranks.guests[rank].room(8);
        ranks.guests[rank].put_handle(old, made[rank]);
        ranks.call(rank, entry, entry + 50, "MPI_Comm_free", &[old]);
    }
    for (rank, entry) in [3000, 3300, 3100].into_iter().enumerate() {
        ranks.call(rank, entry, 3400, "MPI_Finalize", &[]);
    }
    let found = ranks.waiting();
    let expected = [
        (WaitKind::AllToAll, 0, "MPI_Comm_dup", 900, 1),
        (WaitKind::AllToAll, 2, "MPI_Comm_dup", 500, 1),
    ];
    assert_eq!(calls(&found), expected);
    // Start and end of MPI are separate: 300 and 200 of waiting, in 1200 - 300 - 100 of time.
    let [end] = found.start_and_end[..] else {
        panic!("{found:?}");
    };
    assert_eq!(end.kind, WaitKind::Barrier);
    assert_eq!(
        (end.calls, end.waiting_ps, end.max_ps),
        (2, 500_000, 300_000)
    );
    let barriers = found.kinds.iter().find(|it| it.kind == WaitKind::Barrier);
    assert_eq!(barriers.map(|it| it.waiting_ps), Some(0));
    let apart = found
        .ranks
        .iter()
        .map(|rank| (rank.start_and_end_ps, rank.start_and_end_waiting_ps));
    let expected = [(400_000, 300_000), (100_000, 0), (300_000, 200_000)];
    assert_eq!(apart.collect::<Vec<_>>(), expected);
    assert_eq!(found.ranks[1].caused_ps, 1_400_000);
    assert_eq!((found.collectives, found.lone_collectives), (0, 0));
}

#[test]
fn a_started_scan_waits_for_lower_ranks_only() {
    let mut ranks = Ranks::new(2);
    let requests = [0, 1].map(|rank| ranks.guests[rank].room(8));
    for (rank, request) in requests.into_iter().enumerate() {
        let scan = [
            BUFFER,
            0x6000,
            int(4),
            BYTE,
            SUM,
            WORLD,
            0x1c00_0000,
            request,
        ];
        ranks.call_and(rank, 100, 200, "MPI_Scan_init", &scan, |guest| {
            guest.put_handle(request, 0xac00_0001);
        });
    }
    for (rank, entry) in [1500, 1000].into_iter().enumerate() {
        ranks.call(rank, entry, entry + 50, "MPI_Start", &[requests[rank]]);
        let status = ranks.guests[rank].room(24);
        ranks.call(
            rank,
            entry + 100,
            2000,
            "MPI_Wait",
            &[requests[rank], status],
        );
    }
    let found = ranks.waiting();
    assert_eq!(
        calls(&found),
        [(WaitKind::EarlyScan, 1, "MPI_Wait", 400, 0)]
    );
}

#[test]
fn what_has_no_partner_is_counted() {
    let mut ranks = Ranks::new(2);
    ranks.send(0, (1000, 1100), 1, 1);
    ranks.receive(1, (1000, 1100), 0, 0, 2);
    ranks.call(0, 2000, 2100, "MPI_Barrier", &[WORLD]);
    let found = ranks.waiting();
    let alone = (
        found.lone_sends,
        found.lone_receives,
        found.lone_collectives,
    );
    assert_eq!(alone, (1, 1, 1));
    assert!(calls(&found).is_empty());
    let mut text = Vec::new();
    found.write(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("1 send has no receive"), "{text}");
}

/// Writes a trace of a stencil with a site for each function to a file.
fn stencil_file() -> (tempfile::NamedTempFile, Stencil) {
    let stencil = Stencil {
        width: 3,
        height: 2,
        steps: 6,
        rounds: 2,
        report: 3,
    };
    let file = tempfile::NamedTempFile::new().unwrap();
    let contents = Contents {
        frames: 2,
        ..Contents::default()
    };
    let (path, header) = (file.path(), stencil.header());
    let mut writer = TraceWriter::over(file.reopen().unwrap(), path, &header, contents).unwrap();
    for mut event in stencil.events() {
        let program = Arc::new(CodeFile {
            path: "/bin/stencil".to_owned(),
            build_id: vec![7],
        });
        let frames = [u64::from(event.function), 0x9000].map(|address| Frame {
            address,
            file: Some(Arc::clone(&program)),
        });
        event.site = Site(Some(Arc::new(CallStack(frames.into()))));
        writer.push(event).unwrap();
    }
    writer.finish(&TraceSummary::default()).unwrap();
    (file, stencil)
}

#[test]
fn sites_and_phases_are_parts_of_the_whole() {
    let (file, stencil) = stencil_file();
    let by = WaitBy {
        frames: Some(1),
        phases: true,
        delays: false,
        loops: false,
    };
    let (found, _) = waiting(file.path(), &Filter::default(), by).unwrap();
    let whole: u64 = found.kinds.iter().map(|kind| kind.waiting_ps).sum();
    assert!(whole > 0);
    let sites: Vec<_> = found.sites.iter().map(|site| site.function).collect();
    let functions: Vec<_> = found.functions.iter().map(|own| own.function).collect();
    assert_eq!(sites, functions, "each function is called from one site");
    for (site, own) in found.sites.iter().zip(&found.functions) {
        let figures = (site.calls, site.waited, site.total_ps, site.waiting_ps);
        assert_eq!(
            figures,
            (own.calls, own.waited, own.total_ps, own.waiting_ps)
        );
        assert_eq!(site.frames.len(), 1);
    }
    let phases = &found.phases;
    // Phases have all calls; sums by cause exclude the start and the end of MPI.
    let apart: u64 = found.start_and_end.iter().map(|it| it.waiting_ps).sum();
    assert!(apart > 0);
    assert_eq!(
        phases.iter().map(|phase| phase.waiting_ps).sum::<u64>(),
        whole + apart
    );
    let calls: Vec<u64> = phases.iter().map(|phase| phase.calls).collect();
    // Init and Finalize of each rank are outside of the loop.
    assert_eq!(calls, [6, stencil.calls() - 12, 6]);
    // A filter selects the same calls of a phase.
    let phases = Arc::new(crate::phases(file.path()).unwrap());
    let wanted = ProgramPhase::MainLoop;
    let filter = Filter {
        phase: Some(InPhase { phases, wanted }),
        ..Filter::default()
    };
    let (inside, _) = waiting(file.path(), &filter, WaitBy::default()).unwrap();
    let waited: u64 = inside.kinds.iter().map(|kind| kind.waiting_ps).sum();
    assert_eq!(waited, found.phases[1].waiting_ps);
}

#[test]
fn the_path_is_told_by_site_and_phase() {
    let (file, _) = stencil_file();
    let (path, _) = crate::critical_path(file.path(), true).unwrap();
    let ranks: u64 = path.ranks.iter().map(|rank| rank.path_ps).sum();
    let phases: u64 = path.phases.iter().map(|phase| phase.path_ps).sum();
    assert_eq!(ranks, phases);
    let computing: u64 = path.ranks.iter().map(|rank| rank.compute_ps).sum();
    let parts: u64 = path.phases.iter().map(|phase| phase.compute_ps).sum();
    assert_eq!(computing, parts);
    let of_site = path.sites.iter().map(|site| (site.function, site.path_ps));
    let of_function = path.functions.iter().map(|own| (own.function, own.path_ps));
    assert!(of_site.eq(of_function), "{path:?}");
}
