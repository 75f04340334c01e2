use super::*;
use crate::description::Registers;

/// Two processes; movements go to the next multiple of ten, or to a breakpoint before it.
#[derive(Default)]
struct Sample {
    now: u64,
    breakpoints: Vec<Breakpoint>,
    watched: Vec<WatchedRange>,
    moved: Vec<Movement>,
}

const FIRST: ThreadId = ThreadId { pid: 7, tid: 7 };
const SECOND: ThreadId = ThreadId { pid: 9, tid: 10 };

impl Target for Sample {
    fn threads(&mut self) -> Vec<ThreadId> {
        vec![FIRST, SECOND]
    }

    fn current(&mut self) -> ThreadId {
        FIRST
    }

    fn describe(&mut self, thread: ThreadId) -> String {
        format!("rank {}", thread.pid)
    }

    fn registers(&mut self, thread: ThreadId) -> Option<Registers> {
        Some(Registers {
            general: [thread.tid; 16],
            rip: self.now,
            flags: 2,
            selectors: [0; 6],
            bases: [0; 2],
            system_call: u64::MAX,
            vectors: None,
        })
    }

    fn read_memory(&mut self, thread: ThreadId, address: u64, length: usize) -> Vec<u8> {
        match address {
            0x1000 => vec![thread.pid as u8; length.min(4)],
            _ => Vec::new(),
        }
    }

    fn set_breakpoints(&mut self, breakpoints: &[Breakpoint]) {
        self.breakpoints = breakpoints.to_vec();
    }

    fn set_watchpoints(&mut self, watched: &[WatchedRange]) {
        self.watched = watched.to_vec();
    }

    fn resume(&mut self, movement: Movement, stop: &AtomicBool) -> Result<Stop, String> {
        self.moved.push(movement);
        if stop.load(Ordering::Relaxed) {
            return Ok(Stop {
                thread: FIRST,
                cause: Cause::Interrupted,
            });
        }
        let thread = SECOND;
        match movement {
            Movement::Continue if !self.watched.is_empty() => Ok(Stop {
                thread,
                cause: Cause::Accessed(self.watched[0].address, self.watched[0].accesses),
            }),
            Movement::Continue if self.breakpoints.is_empty() => Ok(Stop {
                thread,
                cause: Cause::End,
            }),
            Movement::Continue => Ok(Stop {
                thread,
                cause: Cause::Breakpoint,
            }),
            Movement::ReverseContinue => Err("broken".to_owned()),
            Movement::Step(thread) | Movement::ReverseStep(thread) => Ok(Stop {
                thread,
                cause: Cause::Stepped,
            }),
        }
    }

    fn take_output(&mut self) -> Vec<u8> {
        Vec::new()
    }

    fn auxiliary_vector(&mut self, pid: u64) -> Option<Vec<u8>> {
        (pid == FIRST.pid).then(|| vec![1, 2, 3])
    }

    fn program(&mut self, pid: u64) -> Option<String> {
        Some(format!("/bin/p{pid}"))
    }

    fn file(&mut self, path: &str) -> Option<Vec<u8>> {
        (path == "/a").then(|| b"hello}".to_vec())
    }

    fn command(&mut self, command: &str) -> String {
        format!("did {command}")
    }
}

fn ask(connection: &mut Connection, target: &mut Sample, packet: &str) -> Vec<String> {
    let stop = AtomicBool::new(false);
    match connection.execute(packet.as_bytes(), target, &stop) {
        Outcome::Replies(replies) | Outcome::NoAcknowledgements(replies) => replies
            .iter()
            .map(|reply| String::from_utf8_lossy(reply).into_owned())
            .collect(),
        Outcome::Leaves(reply) => vec![format!("left {}", String::from_utf8_lossy(&reply))],
    }
}

#[test]
fn processes_are_selected_and_read_apart() {
    let (mut connection, mut target) = (Connection::default(), Sample::default());
    let mut ask = |packet: &str| ask(&mut connection, &mut target, packet).concat();
    assert_eq!(ask("?"), "T05thread:p7.7;");
    assert_eq!(ask("qfThreadInfo"), "mp7.7");
    assert_eq!(ask("vAttach;8"), "E01");
    assert_eq!(ask("vAttach;9"), "T05thread:p9.a;");
    assert_eq!(ask("qfThreadInfo"), "mp7.7,p9.a");
    assert_eq!(ask("qsThreadInfo"), "l");
    assert_eq!(ask("Hgp7.7"), "OK");
    assert_eq!(ask("m1000,8"), "07070707");
    assert_eq!(ask("Hgp9.a"), "OK");
    assert_eq!(ask("m1000,2"), "0909");
    assert_eq!(ask("m2000,2"), "E0e");
    assert!(ask("g").starts_with("0a00"));
    assert_eq!(ask("Hgp8.1"), "E01");
    assert_eq!(ask("qThreadExtraInfo,p9.a"), to_hex(b"rank 9"));
    assert_eq!(ask("qXfer:exec-file:read:7:0,fff"), "l/bin/p7");
    assert_eq!(ask("qXfer:exec-file:read:7:2,3"), "min/");
    assert_eq!(ask("qXfer:auxv:read::0,ff"), "E01");
    // Nothing is changed.
    assert_eq!(ask("M1000,1:00"), "E01");
    assert_eq!(ask("P0=00"), "E01");
}

#[test]
fn breakpoints_belong_to_the_selected_process() {
    let (mut connection, mut target) = (Connection::default(), Sample::default());
    let mut ask = |packet: &str| ask(&mut connection, &mut target, packet).concat();
    ask("qSupported:swbreak+");
    assert_eq!(ask("vCont;c"), "T05replaylog:end;thread:p9.a;");
    assert_eq!(ask("Z0,401000,1"), "OK");
    assert_eq!(ask("Hgp7.7"), "OK");
    assert_eq!(ask("Z0,401000,1"), "OK");
    assert_eq!(ask("vCont;c:p7.-1"), "T05swbreak:;thread:p9.a;");
    let address = 0x40_1000;
    let both = [9, 7].map(|pid| Breakpoint { pid, address });
    assert_eq!(target.breakpoints, both);
    assert_eq!(
        super::tests::ask(&mut connection, &mut target, "z0,401000,1"),
        ["OK"]
    );
    super::tests::ask(&mut connection, &mut target, "c");
    assert_eq!(target.breakpoints, both[1..]);
}

#[test]
fn watchpoints_stop_with_their_address_and_kind() {
    let (mut connection, mut target) = (Connection::default(), Sample::default());
    let mut ask = |packet: &str| ask(&mut connection, &mut target, packet).concat();
    assert_eq!(ask("Hgp7.7"), "OK");
    for (kind, reply) in [(2, "watch"), (3, "rwatch"), (4, "awatch")] {
        assert_eq!(ask(&format!("Z{kind},401000,8")), "OK");
        assert_eq!(ask("c"), format!("T05{reply}:401000;thread:p9.a;"));
        assert_eq!(ask("Hgp7.7"), "OK");
        assert_eq!(ask(&format!("z{kind},401000,8")), "OK");
    }
    assert_eq!(ask("Z2,401000,0"), "E01");
    assert_eq!(ask("Z2,401000,10001"), "E01");
    assert_eq!(ask("Z2,401000"), "E16");
    assert_eq!(ask("Z5,401000,8"), "");
    assert_eq!(ask("Z4,401004,10000"), "OK");
    ask("c");
    let expected = WatchedRange {
        pid: 7,
        address: 0x40_1004,
        length: 0x1_0000,
        accesses: WatchedAccesses::All,
    };
    assert_eq!(target.watched, [expected]);
}

#[test]
fn movements_have_directions_and_threads() {
    let (mut connection, mut target) = (Connection::default(), Sample::default());
    for (packet, reply) in [
        ("vCont;s:p9.a;c", "T05thread:p9.a;"),
        ("vCont;s:p7.7", "T05thread:p7.7;"),
        ("bs", "T05thread:p7.7;"),
    ] {
        assert_eq!(ask(&mut connection, &mut target, packet), [reply]);
    }
    let failed = ask(&mut connection, &mut target, "bc");
    assert_eq!(failed[0], format!("O{}", to_hex(b"belljar: broken\n")));
    assert_eq!(failed[1], "T05thread:p7.7;");
    assert_eq!(
        target.moved,
        [
            Movement::Step(SECOND),
            Movement::Step(FIRST),
            Movement::ReverseStep(FIRST),
            Movement::ReverseContinue
        ]
    );
    let stop = AtomicBool::new(true);
    let interrupted = connection.execute(b"c", &mut target, &stop);
    assert_eq!(
        interrupted,
        Outcome::Replies(vec![b"T02thread:p7.7;".to_vec()])
    );
    assert!(!stop.load(Ordering::Relaxed));
}

#[test]
fn files_are_read_in_parts() {
    let (mut connection, mut target) = (Connection::default(), Sample::default());
    let mut ask = |packet: &str| ask(&mut connection, &mut target, packet).concat();
    assert_eq!(ask("vFile:setfs:0"), "F0");
    assert_eq!(ask("vFile:open:2f61,0,0"), "F1");
    assert_eq!(ask("vFile:pread:1,3,0"), "F3;hel");
    assert_eq!(ask("vFile:pread:1,ff,3"), "F3;lo}");
    assert_eq!(ask("vFile:pread:1,ff,99"), "F0;");
    assert_eq!(ask("vFile:open:2f61,1,0"), "F-1,d", "not for writing");
    assert_eq!(ask("vFile:open:2f62,0,0"), "F-1,2");
    assert!(ask("vFile:fstat:1").starts_with("F40;"));
    assert_eq!(ask("vFile:close:1"), "F0");
    assert_eq!(ask("vFile:close:1"), "F-1,9");
}

#[test]
fn commands_of_the_user_are_answered_as_output() {
    let (mut connection, mut target) = (Connection::default(), Sample::default());
    let packet = format!("qRcmd,{}", to_hex(b"where"));
    let replies = ask(&mut connection, &mut target, &packet);
    assert_eq!(
        replies,
        [format!("O{}", to_hex(b"did where")), "OK".to_owned()]
    );
    assert_eq!(ask(&mut connection, &mut target, "D;7"), ["left OK"]);
}

mod random {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn no_packet_panics(packets: Vec<String>) {
            let (mut connection, mut target) = (Connection::default(), Sample::default());
            for packet in packets {
                for prefix in ["", "m", "Z0,", "Z2,", "H", "vCont;", "vFile:pread:", "qXfer:auxv:read:"] {
                    ask(&mut connection, &mut target, &format!("{prefix}{packet}"));
                }
            }
        }
    }
}

#[test]
fn lldb_gets_the_machine_and_threads_first_and_the_end_of_a_run_as_that_of_its_process() {
    let (mut connection, mut target) = (Connection::default(), Sample::default());
    let mut asks = |packet: &str| ask(&mut connection, &mut target, packet).concat();
    assert!(asks("qHostInfo").contains("endian:little;ptrsize:8;ostype:linux;"));
    assert_eq!(asks("qfThreadInfo"), "mp7.7");
    assert_eq!(asks("?"), "T05thread:p7.7;");
    assert!(asks("qProcessInfo").starts_with("pid:7;triple:"));
    assert_eq!(asks("vCont;c"), "W00");
    // gdb knows the ends of a recording.
    let mut connection = Connection::default();
    assert_eq!(
        ask(&mut connection, &mut target, "vCont;c"),
        ["T05replaylog:end;thread:p9.a;"]
    );
}
