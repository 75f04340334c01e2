//! Well-behaved and hostile clients of the control socket.
use super::*;
use crate::observe::control::{Client, ControlError, Look};

/// A thread that answers the requests of `mailbox` until it is closed.
fn attended(mailbox: &Arc<Mailbox>) -> thread::JoinHandle<Vec<(u32, Vec<u8>)>> {
    let mailbox = mailbox.clone();
    thread::spawn(move || {
        let mut typed = Vec::new();
        while typed.len() < 2 {
            let work = mailbox.take();
            if work.look {
                mailbox.publish(Look {
                    rounds: 5,
                    paused: work.paused,
                    ..Look::default()
                });
            }
            typed.extend(work.typed);
            thread::yield_now();
        }
        typed
    })
}

#[test]
fn a_client_looks_types_and_pauses() {
    let folder = tempfile::tempdir().unwrap();
    // Longer than a socket's address may be.
    let directory = folder.path().join("x".repeat(120) + ".incomplete");
    fs::create_dir(&directory).unwrap();
    let mailbox = Arc::new(Mailbox::default());
    let server = Server::open(&directory, "test", 2, mailbox.clone()).unwrap();
    let mode = fs::metadata(directory.join(SOCKET)).unwrap().permissions();
    assert_eq!(mode.mode() & 0o777, 0o600);
    let run = attended(&mailbox);

    let mut client = Client::connect(&folder.path().join("x".repeat(120))).unwrap();
    assert_eq!(client.hello.name, "test");
    assert_eq!(client.directory(), directory);
    client.order(&ControlRequest::Pause(true)).unwrap();
    let look = client.look().unwrap();
    assert_eq!((look.rounds, look.paused), (5, true));
    let type_in = |node, text: &str| ControlRequest::Type {
        node,
        bytes: text.as_bytes().to_vec(),
    };
    client.order(&type_in(1, "echo hi\n")).unwrap();
    let refused = client.order(&type_in(2, "x")).unwrap_err();
    assert!(
        refused.to_string().contains("nodes are 0 to 1"),
        "{refused}"
    );
    assert!(client.order(&ControlRequest::Pace(Some(0.0))).is_err());
    client.order(&type_in(0, "y")).unwrap();
    let typed = run.join().unwrap();
    assert_eq!(typed, [(1, b"echo hi\n".to_vec()), (0, b"y".to_vec())]);
    assert!(directory.join(INPUT_FILE).exists());

    assert!(mailbox.is_attended());
    drop(client);
    while mailbox.is_attended() {
        thread::yield_now();
    }
    drop(server);
    let gone = Client::connect(&directory).unwrap_err();
    assert!(matches!(gone, ControlError::NotRunning(_)), "{gone}");
}

#[test]
fn hostile_peers_are_refused_or_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let mailbox = Arc::new(Mailbox::default());
    let _server = Server::open(folder.path(), "test", 1, mailbox).unwrap();
    let talk = |bytes: &[u8]| {
        let mut stream = UnixStream::connect(folder.path().join(SOCKET)).unwrap();
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
            .lines()
            .skip(1)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    for nonsense in [
        "\n",
        "{}\n",
        "\"Look\"\n",
        "{\"type\":{\"node\":-1}}\n",
        "\u{0}\n",
        "[[[[\n",
    ] {
        let answer = talk(nonsense.as_bytes());
        assert!(
            answer.len() == 1 && answer[0].contains("invalid request"),
            "{answer:?}"
        );
    }
    // An endless line is cut off, and deep nesting causes no recursion.
    let endless = talk(&vec![b'['; 1 << 20]);
    assert!(endless.len() <= 1, "{endless:?}");
    assert!(talk(b"").is_empty());
}
