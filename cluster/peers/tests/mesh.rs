//! Hosts of a run on one machine: threads with a mesh each.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use belljar_peers::{Incoming, Listener, Lost, Mesh, PeerError, RunKey, Settings, TooLong};

const SETTINGS: Settings = Settings {
    gathering: Duration::from_secs(10),
    patience: Duration::from_secs(10),
};
const LONG: Duration = Duration::from_secs(20);

fn listeners(hosts: u32) -> (Vec<Option<Listener>>, Vec<String>) {
    let listeners: Vec<Listener> = (0..hosts).map(|_| Listener::open().unwrap()).collect();
    let address = |listener: &Listener| format!("localhost:{}", listener.port().unwrap());
    let addresses = listeners.iter().map(address).collect();
    (listeners.into_iter().map(Some).collect(), addresses)
}

fn connect(
    own: u32,
    key: &RunKey,
    listener: Option<Listener>,
    addresses: &[String],
    settings: Settings,
) -> Result<Mesh, PeerError> {
    let go_on = AtomicBool::new(false);
    Mesh::connect(own, key, listener, addresses, settings, &go_on)
}

/// The meshes of all hosts, in order.
fn meshes(hosts: u32, settings: Settings) -> Vec<Mesh> {
    let key = RunKey::generate().unwrap();
    let (listeners, addresses) = listeners(hosts);
    thread::scope(|scope| {
        let (key, addresses) = (&key, &addresses[..]);
        let threads: Vec<_> = (0..)
            .zip(listeners)
            .map(|(own, listener)| {
                scope.spawn(move || connect(own, key, listener, addresses, settings).unwrap())
            })
            .collect();
        threads.into_iter().map(|one| one.join().unwrap()).collect()
    })
}

fn message(mesh: &Mesh) -> (u32, Vec<u8>) {
    match mesh.receive(LONG) {
        Some((peer, Incoming::Message(message))) => (peer, message),
        other => panic!("{other:?}"),
    }
}

#[test]
fn every_host_hears_every_other() {
    let meshes = meshes(4, SETTINGS);
    for (own, mesh) in (0..).zip(&meshes) {
        let peers: Vec<u32> = mesh.peers().collect();
        assert_eq!(peers.len(), 3);
        for peer in peers {
            mesh.send(peer, vec![own, peer as u8]).unwrap();
            mesh.send(peer, vec![own; 200_000]).unwrap();
        }
    }
    for (own, mesh) in (0..).zip(&meshes) {
        let mut heard = vec![Vec::new(); 4];
        for _ in 0..6 {
            let (peer, message) = message(mesh);
            heard[peer as usize].push(message);
        }
        for (peer, messages) in (0..).zip(heard).filter(|(peer, _)| *peer != own) {
            assert_eq!(messages, [vec![peer, own], vec![peer; 200_000]]);
        }
    }
}

#[test]
fn what_was_sent_arrives_though_its_sender_ends() {
    let mut meshes = meshes(2, SETTINGS);
    let other = meshes.pop().unwrap();
    for piece in 0..50_u8 {
        other.send(0, vec![piece; 100_000]).unwrap();
    }
    drop(other);
    for piece in 0..50 {
        assert_eq!(message(&meshes[0]), (1, vec![piece; 100_000]));
    }
    let last = meshes[0].receive(LONG);
    assert_eq!(last, Some((1, Incoming::Lost(Lost::Closed))));
}

/// Forwards bytes between a host and its peer until stopped, then none.
fn wire(to: String) -> (String, impl Fn()) {
    let listener = TcpListener::bind("localhost:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let cut = std::sync::Arc::new(AtomicBool::new(false));
    let is_cut = cut.clone();
    thread::spawn(move || {
        let (near, _) = listener.accept().unwrap();
        let far = TcpStream::connect(to).unwrap();
        for (mut from, mut to) in [
            (near.try_clone().unwrap(), far.try_clone().unwrap()),
            (far, near),
        ] {
            let cut = is_cut.clone();
            thread::spawn(move || {
                let mut buffer = [0; 4096];
                while let Ok(length @ 1..) = from.read(&mut buffer) {
                    if !cut.load(std::sync::atomic::Ordering::Relaxed) {
                        to.write_all(&buffer[..length]).unwrap();
                    }
                }
                let _ = to.shutdown(Shutdown::Write);
            });
        }
    });
    (address, move || {
        cut.store(true, std::sync::atomic::Ordering::Relaxed);
    })
}

#[test]
fn a_host_that_only_thinks_is_kept_and_a_dead_one_given_up() {
    let settings = Settings {
        patience: Duration::from_secs(2),
        ..SETTINGS
    };
    let key = RunKey::generate().unwrap();
    let (mut listeners, mut addresses) = listeners(2);
    let (detour, cut) = wire(addresses[1].clone());
    addresses[1] = detour;
    let (near, far) = thread::scope(|scope| {
        let listener = listeners.remove(1);
        let far = scope.spawn(|| connect(1, &key, listener, &addresses, settings).unwrap());
        let near = connect(0, &key, None, &addresses, settings).unwrap();
        (near, far.join().unwrap())
    });
    // For twice the patience no message comes, but signs of life arrive.
    assert_eq!(near.receive(Duration::from_secs(4)), None);
    let (peer, silence) = near.silences().next().unwrap();
    assert!(peer == 1 && silence < Duration::from_secs(1), "{silence:?}");
    far.send(0, b"still there".to_vec()).unwrap();
    assert_eq!(message(&near).1, b"still there");
    cut();
    let lost = near.receive(LONG);
    assert_eq!(lost, Some((1, Incoming::Lost(Lost::Silent))));
}

#[test]
fn a_host_that_takes_nothing_for_long_loses_nothing() {
    const MESSAGES: u32 = 200;
    // Far longer than a thread waits for a processor on a busy machine.
    let settings = Settings {
        patience: Duration::from_secs(5),
        ..SETTINGS
    };
    let mut meshes = meshes(2, settings);
    let other = meshes.pop().unwrap();
    for number in 0..MESSAGES {
        let mut large = vec![0; 1 << 20];
        large[..4].copy_from_slice(&number.to_le_bytes());
        other.send(0, large).unwrap();
    }
    // More than the sockets and the reader can hold: the rest is unwritten at the end.
    let leaving = thread::spawn(move || drop(other));
    thread::sleep(settings.patience + Duration::from_secs(1));
    let (_, silence) = meshes[0].silences().next().unwrap();
    assert!(silence < settings.patience, "{silence:?}");
    for number in 0..MESSAGES {
        let (peer, message) = message(&meshes[0]);
        assert_eq!((peer, &message[..4]), (1, &number.to_le_bytes()[..]));
    }
    leaving.join().unwrap();
    let last = meshes[0].receive(LONG);
    assert_eq!(last, Some((1, Incoming::Lost(Lost::Closed))));
}

/// A host that reads nothing for a while still sends signs of life, also to a host that has ended.
#[test]
fn a_busy_host_loses_nothing_of_one_that_ends() {
    // More than the 64 MiB that a host reads ahead, by no more than its system's buffers.
    const MESSAGES: usize = 66;
    let mut meshes = meshes(2, SETTINGS);
    let (busy, ending) = (meshes.remove(0), meshes.remove(0));
    let sender = thread::spawn(move || {
        for _ in 0..MESSAGES {
            ending.send(0, vec![7; 1 << 20]).unwrap();
        }
    });
    // Longer than two intervals of signs of life.
    thread::sleep(Duration::from_secs(3));
    for _ in 0..MESSAGES {
        let (_, bytes) = message(&busy);
        assert_eq!(bytes.len(), 1 << 20);
    }
    let last = busy.receive(LONG);
    assert_eq!(last, Some((1, Incoming::Lost(Lost::Closed))));
    sender.join().unwrap();
}

#[test]
fn strangers_are_turned_away_and_disturb_nobody() {
    let key = RunKey::generate().unwrap();
    let (mut listeners, addresses) = listeners(2);
    let listener = listeners.remove(1);
    thread::scope(|scope| {
        let far = scope.spawn(|| connect(1, &key, listener, &addresses, SETTINGS).unwrap());
        // One peer is silent, one speaks another protocol, one has another key.
        let _mute = TcpStream::connect(&addresses[1]).unwrap();
        let mut other = TcpStream::connect(&addresses[1]).unwrap();
        other.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        let mut answer = Vec::new();
        let _ = other.read_to_end(&mut answer);
        assert_eq!(answer, b"");
        let stranger = RunKey::generate().unwrap();
        let short = Settings {
            gathering: Duration::from_millis(300),
            ..SETTINGS
        };
        let error = connect(0, &stranger, None, &addresses, short).unwrap_err();
        assert!(matches!(error, PeerError::Unreachable { peer: 1, .. }));
        let near = connect(0, &key, None, &addresses, SETTINGS).unwrap();
        let far = far.join().unwrap();
        near.send(1, b"well met".to_vec()).unwrap();
        assert_eq!(message(&far), (0, b"well met".to_vec()));
    });
}

#[test]
fn those_who_say_nothing_keep_nobody_out() {
    /// More than the maximum number.
    const SILENT: usize = 100;
    let key = RunKey::generate().unwrap();
    let (mut listeners, addresses) = listeners(2);
    // Less than the permitted silence.
    let short = Settings {
        gathering: Duration::from_secs(8),
        ..SETTINGS
    };
    let silent: Vec<TcpStream> = (0..SILENT)
        .map(|_| TcpStream::connect(&addresses[1]).unwrap())
        .collect();
    let listener = listeners.remove(1);
    thread::scope(|scope| {
        let far = scope.spawn(|| connect(1, &key, listener, &addresses, short).unwrap());
        let near = connect(0, &key, None, &addresses, short).unwrap();
        let far = far.join().unwrap();
        near.send(1, b"well met".to_vec()).unwrap();
        assert_eq!(message(&far), (0, b"well met".to_vec()));
    });
    drop(silent);
}

#[test]
fn what_no_peer_would_take_is_refused_and_the_rest_arrives() {
    const LONGEST: usize = 256 << 20;
    let meshes = meshes(2, SETTINGS);
    // Its bytes are never touched.
    let refused = meshes[0].send(1, vec![0; LONGEST + 1]).unwrap_err();
    assert_eq!(refused, TooLong(LONGEST + 1));
    meshes[0].send(1, b"short".to_vec()).unwrap();
    assert_eq!(message(&meshes[1]).1, b"short".to_vec());
}

#[test]
fn who_does_not_come_is_named() {
    let key = RunKey::generate().unwrap();
    let (mut listeners, addresses) = listeners(3);
    let short = Settings {
        gathering: Duration::from_millis(300),
        ..SETTINGS
    };
    let listener = listeners.remove(2);
    let error = connect(2, &key, listener, &addresses, short).unwrap_err();
    assert!(error.to_string().contains("[0, 1]"), "{error}");
}

#[test]
fn a_host_that_takes_nothing_congests_and_loses_nothing() {
    let meshes = meshes(2, SETTINGS);
    let mut sent = 0_u64;
    // Until both ends hold as much data as they accept.
    while !meshes[0].is_congested() {
        assert!(sent < 4_000, "never congested");
        meshes[0].send(1, vec![sent as u8; 1 << 20]).unwrap();
        sent += 1;
    }
    for piece in 0..sent {
        assert_eq!(message(&meshes[1]).1, vec![piece as u8; 1 << 20]);
    }
    assert!(!meshes[0].is_congested());
}
