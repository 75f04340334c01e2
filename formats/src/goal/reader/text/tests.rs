//! Schedules as text.

use super::*;

fn ranks(text: &str) -> Result<Vec<(u32, RankSchedule)>, ImportError> {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), text).expect("it is written");
    let mut ranks = Vec::new();
    read(file.path(), |(rank, _), operations| {
        ranks.push((rank, operations.clone()));
        Ok(())
    })?;
    Ok(ranks)
}

#[test]
fn schedules_are_read() {
    let text = "# two ranks\nnum_ranks 3\nrank 1 {\nl1: calc 100\nl2: send 8b to 0 tag 7 cpu 2 nic 0\nl2 requires l1\nrecv 5b from 2\n}\nrank 0 { \n }\n";
    let ranks = ranks(text).expect("it is sound");
    let numbers: Vec<u32> = ranks.iter().map(|(rank, _)| *rank).collect();
    assert_eq!(numbers, [1, 0, 2]);
    let operations = &ranks[0].1.operations;
    assert_eq!(operations[0].kind, GoalOperationKind::Work(100));
    let sent = GoalOperationKind::Message {
        direction: Direction::Send,
        peer: Some(0),
        tag: Some(7),
        bytes: 8,
    };
    assert_eq!((operations[1].kind, operations[1].processor), (sent, 2));
    assert_eq!(operations[1].after, [0]);
    assert_eq!(operations.len(), 3);
}

#[test]
fn comments_and_blanks_are_passed_over() {
    let plain =
        ranks("num_ranks 2\nrank 0 {\nl1: calc 100\nl2: send 8b to 1 tag 7\nl2 requires l1\n}\n");
    let free = "/* two\n   ranks */ num_ranks\t2 // of them\r\nrank 0{ /* } */ l1:calc 100/* ns */\r\n  \n\
        /*l3: calc 5*/\nl2 :send 8 b to 1 tag 7 # last\n//l4: calc 9\nl2 requires l1 } rank 1 {}";
    assert_eq!(
        ranks(free).expect("it is sound"),
        plain.expect("it is sound")
    );
}

#[test]
fn every_word_counts() {
    let block = |line: &str| format!("num_ranks 2\nrank 0 {{\n{line}\n}}\n");
    for (line, reason) in [
        ("send 8b to 1 tga 7", "\"tga\" is no option"),
        ("send 8b to 1 tag", "tag has no value"),
        ("send 8b to 1 tag 7 tag 8", "tag stands twice"),
        ("send 8b to 1 tag -1", "\"-1\" stands where a tag"),
        ("send 8b to 1 tag 4294967295", "4294967295 is no tag"),
        ("send 8b to 1 cpu 256", "256 is no number of a processor"),
        ("calc 5 nic 1", "\"nic\" is no option"),
        ("calc 5b", "\"5b\" stands where nanoseconds"),
        ("calc 5 b", "this is neither"),
        ("calc +5", "\"+5\" stands where nanoseconds"),
        ("l1: calc 5 l2: calc 6", "\"l2\" is no option"),
        ("num_ranks 2", "this is neither"),
    ] {
        let error = ranks(&block(line)).expect_err(line).to_string();
        assert!(
            error.contains("line 3: ") && error.contains(reason),
            "{error}"
        );
    }
}

#[test]
fn errors_name_lines() {
    for (text, line) in [
        ("", 0),
        ("num_ranks x", 1),
        ("num_ranks 99999999999", 1),
        ("num_ranks 1\nrank 1 {\n}", 2),
        ("num_ranks 1\nrank 0 {\nl1: walk 5\n}", 3),
        ("num_ranks 1\nrank 0 {\nl1: send 5b to 4\n}", 3),
        ("num_ranks 1\nrank 0 {\nl1: calc 1\nl1 requires l1\n}", 5),
        ("num_ranks 1\nrank 0 {\nl1: calc 1\nl1 requires l2\n}", 4),
        ("num_ranks 1\nrank 0 {\nl1: calc 1\nl1: calc 1\n}", 4),
        ("num_ranks 1\nrank 0 {\n", 2),
        ("num_ranks 5\nrank 0 {\n}\nnum_ranks 2\n", 4),
        ("rank 0 {\n}\nnum_ranks 1\n", 1),
        ("num_ranks 1\n/* rank\n0 {\n}\n", 2),
    ] {
        match ranks(text) {
            Err(ImportError::Line { line: found, .. }) => assert_eq!(found, line, "{text}"),
            other => panic!("{text}: {other:?}"),
        }
    }
}
