use std::io::Cursor;

use belljar_program::Builder;

use super::*;

/// A receive that is posted before two units of work, and a send that is awaited at once.
fn text_and_binary() -> (String, Vec<u8>) {
    let mut builder = Builder::new(2);
    builder.work(0, 3_000_700);
    let sent = builder.send(0, 1, 0, 100);
    builder.wait(0, sent);
    builder.call(0, "MPI_Send", 1);
    builder.work(0, 1_300);
    builder.call(0, "MPI_Finalize", 0);
    let slot = builder.receive(1, 0, 0);
    builder.call(1, "MPI_Irecv", 0);
    builder.work(1, 2_000_000);
    builder.wait(1, slot);
    builder.call(1, "MPI_Wait", 0);
    builder.work(1, 5_000);
    builder.call(1, "MPI_Finalize", 0);
    let program = builder.finish();
    let messages = Messages::new(&program, false);
    let mut text = Vec::new();
    write_goal(&messages, &mut text).expect("memory");
    let mut binary = Cursor::new(Vec::new());
    write_goal_binary(&messages, &mut binary).expect("memory");
    (String::from_utf8(text).expect("text"), binary.into_inner())
}

#[test]
fn steps_are_a_chain_that_what_is_begun_hangs_on() {
    let (text, _) = text_and_binary();
    let expected = "num_ranks 2\n\nrank 0 {\n\
        l0: calc 3000\n\
        l1: send 100b to 1 tag 0\nl1 requires l0\n\
        l2: calc 2\nl2 requires l1\n\
        }\n\nrank 1 {\n\
        l0: recv 100b from 0 tag 0\n\
        l1: calc 2000\nl1 irequires l0\n\
        l2: calc 5\nl2 requires l1\nl2 requires l0\n}\n";
    assert_eq!(text, expected);
}

/// LogGOPSim's own converter, if installed, creates the same bytes from the text.
#[test]
#[allow(clippy::print_stderr)]
fn txt2bin_makes_the_binary_form_of_the_text() {
    let (text, binary) = text_and_binary();
    let folder = tempfile::tempdir().expect("a folder");
    let [from, to] = ["text.goal", "binary"].map(|name| folder.path().join(name));
    std::fs::write(&from, text).expect("it is written");
    let mut command = std::process::Command::new("txt2bin");
    match command.arg("-i").arg(from).arg("-o").arg(&to).output() {
        Ok(ended) => {
            assert!(ended.status.success(), "{ended:?}");
            assert_eq!(std::fs::read(to).expect("it is there"), binary);
        }
        Err(error) => eprintln!("SKIPPED: txt2bin cannot be run ({error}); LogGOPSim has it"),
    }
}

#[test]
fn the_binary_form_has_the_same_graph() {
    let (_, bytes) = text_and_binary();
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four"));
    let long = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight"));
    assert_eq!((long(0), word(8), &bytes[12..14]), (4223, 2, &[0, 0][..]));
    let (start, end) = (long(30) as usize + 8, long(38) as usize + 8);
    assert_eq!(end, bytes.len());
    // Rank 1: three operations, the first without prerequisites.
    assert_eq!((word(start), word(start + 4), word(start + 8)), (3, 1, 0));
    let receive = start + 12;
    assert_eq!((word(receive), bytes[receive + 4]), (0, 2));
    assert_eq!((word(receive + 5), long(receive + 9)), (0, 100));
    let lists = receive + 23;
    assert_eq!([0, 4, 8, 12].map(|at| word(lists + at)), [1, 0, 1, 1]);
    let appendix = start + 12 + 3 * 39;
    let ends = (appendix..end).step_by(4).map(word);
    // The last waits for the first, the second for its start, the last for the second.
    assert_eq!(ends.collect::<Vec<_>>(), [2, 1, 2]);
}
