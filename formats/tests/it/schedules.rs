//! Schedules in GOAL and SimGrid's traces become calls in order, with the work between them.

use std::fs;
use std::path::Path;

use belljar_archive::TraceReader;
use belljar_formats::{Format, ImportError, Imported, Rates, import};
use belljar_trace::{Event, Fact};

/// Imports a text, and lists its calls: rank, function, time, messages, bytes sent, requests begun and completed.
fn listed(text: &[u8], name: &str) -> Result<(Imported, Vec<String>), ImportError> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join(name);
    fs::write(&path, text).expect("it is written");
    let out = folder.path().join("trace.bjt");
    let rates = Rates {
        flops_per_second: Some(2e9),
    };
    let told = import(&path, None, rates, &out, name)?;
    Ok((told, calls(&out)))
}

fn calls(path: &Path) -> Vec<String> {
    let reader = TraceReader::open(path).expect("a trace");
    let mut calls: Vec<Event> = reader.filter(|event| event.depth == 0).collect();
    // Calls at equal times keep their order.
    calls.sort_by_key(|event| event.rank);
    calls.iter().map(listed_call).collect()
}

fn listed_call(event: &Event) -> String {
    let mut line = format!("{} {} {}", event.rank, event.name(), event.entry);
    for it in &event.transfers {
        line += &format!(
            " {:?} {:?} {:?} {}",
            it.direction, it.peer, it.tag, it.bytes
        );
    }
    for it in &event.collectives {
        line += &format!(" {:?} {:?}", it.sent.bytes, it.received.pieces);
    }
    for request in &event.started {
        line += &format!(" +{request}");
    }
    for it in &event.completed {
        line += &format!(" -{}", it.request);
    }
    line
}

const GOAL: &str = "num_ranks 2\nrank 0 {\nl0: calc 100\nl1: recv 8b from 1 tag 3\nl1 requires l0\n\
    l2: send 5b to 1 tag 7\nl2 irequires l1\nl3: calc 50\nl3 irequires l2\nl4: calc 1\n\
    l4 requires l1\nl4 requires l2\nl4 requires l3\n}\nrank 1 {\nl0: send 8b to 0 tag 3\n\
    l1: recv 5b from 0 tag 7\nl1 requires l0\n}\n";

#[test]
fn what_goal_waits_for_at_once_blocks() {
    let (told, calls) = listed(GOAL.as_bytes(), "a.goal").expect("it is sound");
    assert_eq!((told.format, told.processes), (Format::Goal, 2));
    let expected = [
        "0 MPI_Irecv 100 Receive Rank(1) Some(3) 8 +1",
        "0 MPI_Isend 100 Send Rank(1) Some(7) 5 +2",
        "0 MPI_Waitall 150 -1 -2",
        "0 MPI_Pcontrol 151",
        "1 MPI_Send 0 Send Rank(0) Some(3) 8",
        "1 MPI_Recv 0 Receive Rank(0) Some(7) 5",
    ];
    assert_eq!(calls, expected);
}

#[test]
fn goal_operations_wait_for_their_dependences_alone() {
    // The send waits for nothing, so it is sent before the receive blocks.
    let text = "num_ranks 2\nrank 0 {\nl1: recv 9b from 1\nl2: calc 50\nl2 requires l1\nl3: send 9b to 1\n}\n\
        rank 1 {\nl1: recv 9b from 0\nl2: send 9b to 0\nl2 requires l1\n}\n";
    let (whole, calls) = listed(text.as_bytes(), "a.goal").expect("it is sound");
    let expected = [
        "0 MPI_Irecv 0 Receive Rank(1) Some(0) 9 +0",
        "0 MPI_Isend 0 Send Rank(1) Some(0) 9 +2",
        "0 MPI_Wait 0 -0",
        "0 MPI_Wait 50 -2",
        "1 MPI_Recv 0 Receive Rank(0) Some(0) 9",
        "1 MPI_Send 0 Send Rank(0) Some(0) 9",
    ];
    assert_eq!(calls, expected);
    assert!(!whole.notes.iter().any(|note| note.contains("threads")));
}

#[test]
fn goal_operations_without_an_order_are_threads_with_conditions() {
    let text = "num_ranks 2\nrank 0 {\na: recv 9b from 1 tag 1\nb: calc 5\nb requires a\nc: send 9b to 1 tag 2 nic 1\n\
        c requires b\nd: recv 9b from 1 tag 3\ne: calc 7 cpu 1\ne requires d\nf: send 9b to 1 tag 4 cpu 1\nf requires e\n\
        f irequires b\n}\nrank 1 {\n}\n";
    let (whole, calls) = listed(text.as_bytes(), "a.goal").expect("it is sound");
    let (threads, interface) = (
        "1 rank has operations that do not depend on one another",
        "1 message takes another network interface",
    );
    for wanted in [threads, interface] {
        let noted = whole.notes.iter().any(|note| note.starts_with(wanted));
        assert!(noted, "{:?}", whole.notes);
    }
    let expected = [
        "0/0 MPI_Recv 0 cpu 0 work 0 after [] None None",
        "0/0 MPI_Pcontrol 5 cpu 0 work 5 after [] Some(2) None",
        "0/0 MPI_Send 5 cpu 0 work 0 after [] None None",
        "0/1 MPI_Recv 0 cpu 0 work 0 after [] None None",
        "0/1 MPI_Pcontrol 7 cpu 1 work 7 after [] None None",
        "0/1 MPI_Send 7 cpu 1 work 0 after [2] None None",
    ];
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("a.goal");
    fs::write(&path, text).expect("it is written");
    let out = folder.path().join("trace.bjt");
    let rates = Rates {
        flops_per_second: Some(1e9),
    };
    import(&path, None, rates, &out, "a").expect("it is sound");
    let reader = TraceReader::open(&out).expect("a trace");
    let mut seen: Vec<String> = reader.filter_map(|event| scheduled(&event)).collect();
    seen.sort_by_key(|line| line.starts_with("0/1"));
    assert_eq!(seen, expected);
    assert_eq!(calls.len(), 6);
}

/// Formats a call with conditions: rank and thread, function, time, conditions.
fn scheduled(event: &Event) -> Option<String> {
    let Some(Fact::Scheduled(own)) = &event.fact else {
        return None;
    };
    Some(format!(
        "{}/{} {} {} cpu {} work {} after {:?} {:?} {:?}",
        event.rank,
        event.thread,
        event.name(),
        event.entry,
        own.processor,
        own.work,
        own.after,
        own.started,
        own.complete
    ))
}

#[test]
fn work_beyond_all_times_is_refused() {
    for text in [
        "num_ranks 1\nrank 0 {\na: calc 18446744073709551615\nb: send 1b to 0\nb requires a\n}\n",
        "num_ranks 1\nrank 0 {\na: calc 18446744073709552\nb: send 1b to 0\nb requires a\n}\n",
        "0 init\n0 compute 1e300\n0 finalize\n",
    ] {
        let error = listed(text.as_bytes(), "late")
            .expect_err("it is refused")
            .to_string();
        assert!(error.contains("beyond the last time"), "{error}");
    }
}

/// One rank: work, and a message to itself after it, and the same begun with it.
#[test]
fn the_binary_form_says_who_waits() {
    let mut bytes = 4223u64.to_le_bytes().to_vec();
    bytes.extend(1u32.to_le_bytes());
    bytes.extend([1, 1]);
    let schedule_of = |kinds: &[(u8, u64, u32, u32)], lists: &[u32]| {
        let mut schedule = Vec::new();
        for word in [kinds.len() as u32, 1, 0] {
            schedule.extend(word.to_le_bytes());
        }
        let mut listed = 0u32;
        for (kind, size, after, after_start) in kinds {
            schedule.extend(1u32.to_le_bytes());
            schedule.push(*kind);
            schedule.extend(0u32.to_le_bytes());
            schedule.extend(size.to_le_bytes());
            schedule.extend(9u32.to_le_bytes());
            schedule.extend([0, 0]);
            for many in [after, after_start] {
                schedule.extend(many.to_le_bytes());
                schedule.extend(listed.to_le_bytes());
                listed += many;
            }
        }
        for word in lists {
            schedule.extend(word.to_le_bytes());
        }
        schedule
    };
    let schedule = schedule_of(&[(3, 70, 1, 0), (1, 6, 0, 1), (2, 6, 0, 0)], &[1, 2]);
    // Offsets are counted from the end of the magic number.
    let from = 14 + 16 - 8;
    for place in [from, from + schedule.len()] {
        bytes.extend((place as u64).to_le_bytes());
    }
    bytes.extend(schedule);
    let (_, calls) = listed(&bytes, "a.bin").expect("it is sound");
    let expected = [
        "0 MPI_Isend 70 Send Rank(0) Some(9) 6 +1",
        "0 MPI_Recv 70 Receive Rank(0) Some(9) 6",
        "0 MPI_Wait 70 -1",
    ];
    assert_eq!(calls, expected);
    for length in 0..bytes.len() {
        assert!(listed(&bytes[..length], "a.bin").is_err(), "{length} bytes");
    }
}

#[test]
fn actions_of_simgrid_are_calls() {
    let text = "0 init\n1 init\n0 compute 1000\n0 isend 1 7 2 0\n0 irecv 1 8 3\n0 wait 0 1 7\n0 waitall 1\n\
        1 recv 0 7 2 0\n1 send 0 8 3\n0 allreduce 4 1e3 0\n1 allreduce 4 1e3 0\n0 alltoallv 9 1 2 9 3 4 6 1\n\
        1 alltoallv 9 3 4 9 1 2 6 1\n0 sleep 0.001\n0 finalize\n1 finalize\n";
    let (told, calls) = listed(text.as_bytes(), "all.ti").expect("it is sound");
    assert_eq!((told.format, told.processes), (Format::Ti, 2));
    // A tick is an operation, of which the test's rate has two in a nanosecond.
    let expected = [
        "0 MPI_Init 0",
        "0 MPI_Isend 1000 Send Rank(1) Some(7) 16 +0",
        "0 MPI_Irecv 1000 Receive Rank(1) Some(8) 3 +1",
        "0 MPI_Wait 1000 -0",
        "0 MPI_Waitall 1000 -1",
        "0 MPI_Allreduce 1000 Some(32) []",
        "0 MPI_Alltoallv 2000 Some(3) [12, 16]",
        "0 MPI_Finalize 2002000",
        "1 MPI_Init 0",
        "1 MPI_Recv 0 Receive Rank(0) Some(7) 16",
        "1 MPI_Send 0 Send Rank(0) Some(8) 3",
        "1 MPI_Allreduce 0 Some(32) []",
        "1 MPI_Alltoallv 1000 Some(7) [4, 8]",
        "1 MPI_Finalize 1000",
    ];
    assert_eq!(calls, expected);
}

#[test]
fn a_list_names_the_files_of_ranks() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        fs::write(folder.path().join(name), text).expect("it is written");
    };
    write("ranks", "one.txt\ntwo.txt\n");
    write("one.txt", "0 init\n0 send 1 0 5\n0 finalize\n");
    write("two.txt", "1 init\n1 recv 0 0 5\n1 finalize\n");
    let rates = Rates {
        flops_per_second: Some(1e9),
    };
    for path in [folder.path().to_owned(), folder.path().join("ranks")] {
        let out = folder.path().join("trace.bjt");
        let told = import(&path, None, rates, &out, "list").expect("it is sound");
        assert_eq!(
            (told.format, told.calls, told.processes),
            (Format::Ti, 6, 2)
        );
    }
}

#[test]
fn work_is_at_the_speed_of_the_hosts_in_the_platform_file() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        fs::write(folder.path().join(name), text).expect("it is written");
    };
    write("ranks", "one.txt\ntwo.txt\n");
    write(
        "one.txt",
        "0 init\n# The barrier of MPI_Init\n0 barrier\n0 compute 5000\n0 finalize\n",
    );
    write(
        "two.txt",
        "1 init\n# The barrier of MPI_Init\n1 barrier\n1 finalize\n",
    );
    let out = folder.path().join("trace.bjt");
    let import = |flops_per_second| {
        let rates = Rates { flops_per_second };
        import(folder.path(), None, rates, &out, "list").expect("it is sound")
    };
    // 5000 operations at 10^9 a second, and the barriers are parts of MPI_Init.
    let told = import(None);
    assert_eq!((told.end_ps, told.calls), (5_000_000, 4));
    let host = "<platform><host id='a' speed='2.5Gf'/></platform>";
    write("platform.xml", host);
    let told = import(None);
    assert_eq!(told.end_ps, 2_000_000);
    let source = "work is at 2500000000 floating-point operations a second (the speed of hosts in";
    assert!(told.notes[1].contains(source), "{:?}", told.notes);
    assert_eq!(import(Some(5e9)).end_ps, 1_000_000);
    let other = "<platform><host speed='1Gf'/><host speed='2Gf'/></platform>";
    write("platform.xml", other);
    let told = import(None);
    assert_eq!(told.end_ps, 5_000_000);
    assert!(
        told.notes[1].contains("different speeds"),
        "{:?}",
        told.notes
    );
}

#[test]
fn a_list_may_name_one_file_of_all_ranks() {
    let folder = tempfile::tempdir().expect("a folder");
    let write = |name: &str, text: &str| {
        fs::write(folder.path().join(name), text).expect("it is written");
    };
    write("list", "\nall.txt\n");
    write(
        "all.txt",
        "0 init\n1 init\n1 recv 0 0 5\n0 send 1 0 5\n0 finalize\n1 finalize\n",
    );
    let rates = Rates {
        flops_per_second: Some(1e9),
    };
    let out = folder.path().join("trace.bjt");
    let list = folder.path().join("list");
    let whole = import(&list, None, rates, &out, "list").expect("it is sound");
    assert_eq!((whole.calls, whole.processes), (6, 2));
    write("all.txt", "0 init\n1 dance\n");
    let error = import(&list, None, rates, &out, "list").expect_err("it is wrong");
    assert!(
        error.to_string().contains("all.txt, line 2: \"dance\""),
        "{error}"
    );
}

#[test]
fn a_test_leaves_its_message_to_a_later_wait() {
    let text = "0 init\n1 init\n0 send 1 0 5\n1 irecv 0 0 5\n1 test 0 1 0\n1 compute 10\n1 wait 0 1 0\n\
        1 irecv 0 1 5\n1 test 0 1 1\n0 send 1 1 5\n";
    let (_, calls) = listed(text.as_bytes(), "all.ti").expect("it is sound");
    let expected = [
        "1 MPI_Init 0",
        "1 MPI_Irecv 0 Receive Rank(0) Some(0) 5 +0",
        "1 MPI_Test 0",
        "1 MPI_Wait 10 -0",
        "1 MPI_Irecv 10 Receive Rank(0) Some(1) 5 +1",
        "1 MPI_Test 10",
        "1 MPI_Waitall 10 -1",
    ];
    assert_eq!(calls[3..], expected);
}

#[test]
fn words_after_the_last_argument_are_reported() {
    let text = "0 init\n1 init\n0 waitall 1\n0 send 1 0 5 1 7 8\n1 recv 0 0 5 1 # seven\n1 barrier 3\n0 barrier\n";
    let (imported, _) = listed(text.as_bytes(), "all.ti").expect("it is sound");
    let note = imported.notes.last().expect("a note");
    let expected =
        "3 words after the last argument of actions are ignored, the first in line 4 of ";
    assert!(note.starts_with(expected), "{note}");
    let (imported, _) =
        listed(b"0 init\n0 compute 5\n0 location 0 a b\n", "all.ti").expect("it is sound");
    assert_eq!(imported.notes.len(), 2, "{:?}", imported.notes);
}

#[test]
fn what_is_wrong_with_actions_is_said_by_its_line() {
    for (text, line, reason) in [
        ("0 init\n0 send 1 0 5\n", 2, "there is no rank 1"),
        ("0 init\n0 dance\n", 2, "\"dance\""),
        ("0 init\n0 wait 0 0 5\n", 2, "no message"),
        ("0 init\n0 compute much\n", 2, "\"much\""),
        ("0 init\n\nx init\n", 3, "does not begin with a rank"),
        ("0 init\n0 bcast 5 3\n", 2, "there is no rank 3"),
        (
            "0 init\n0 send 0 0 5 99\n",
            2,
            "\"99\" is no number of a datatype",
        ),
    ] {
        match listed(text.as_bytes(), "a.ti") {
            Err(error @ ImportError::Line { line: found, .. }) => {
                assert_eq!(found, line, "{text}");
                assert!(error.to_string().contains(reason), "{error}");
            }
            other => panic!("{text}: {other:?}"),
        }
    }
}
