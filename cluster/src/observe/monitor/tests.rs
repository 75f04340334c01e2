//! The screen of `belljar watch`, as text.
use super::*;
use crate::observe::control::{LinkLook, NodeLook};

fn look(now_ps: u64, instructions: u64, sends: u64) -> Look {
    let node = NodeLook {
        ready: true,
        ended: false,
        instructions,
        frames: 12,
        calls: sends,
    };
    Look {
        now_ps,
        nodes: vec![NodeLook::default(), node],
        functions: vec![("MPI_Barrier".into(), 1), ("MPI_Send".into(), sends)],
        links: vec![LinkLook {
            name: "host1-switch0".into(),
            bytes: 4321,
            busy: 0.25,
            drops: 7,
        }],
        ..Look::default()
    }
}

#[test]
fn a_screen_shows_nodes_speed_calls_links_and_the_console() {
    let mut monitor = Monitor::new("ring");
    monitor.take(look(1_000_000_000_000, 1_000_000_000, 10), Duration::ZERO);
    assert!(
        text(&monitor, 120, 20).contains("ring: virtual time 1.000000 s, running, 1 of 2 nodes up")
    );
    monitor.take(
        look(1_500_000_000_000, 2_000_000_000, 260),
        Duration::from_secs(2),
    );
    monitor.select(5);
    monitor.take_output(vec!["first".into(), "last words".into()]);
    let screen = text(&monitor, 120, 20);
    for words in [
        "ring: virtual time 1.500000 s, 0.250 x real time, 500 million instructions/s, 1 of 2 nodes up",
        "    0  boots",
        "    1     up     2000.0 M       12      260",
        "MPI_Send                   500",
        "host1-switch0",
        "4321 B  25.0 %     7",
        "Console of node 1",
        "last words",
    ] {
        assert!(screen.contains(words), "{words}:\n{screen}");
    }
    // The busiest function comes first.
    assert!(screen.find("MPI_Send").unwrap() < screen.find("MPI_Barrier").unwrap());
}

#[test]
fn any_size_of_screen_will_do() {
    let mut monitor = Monitor::new("tiny");
    monitor.select(-1);
    monitor.take_output(vec!["words".into(); 100]);
    for (width, height) in [(1, 1), (7, 3), (40, 5), (300, 2)] {
        assert_eq!(
            text(&monitor, width, height).lines().count(),
            usize::from(height)
        );
    }
    monitor.take(
        Look {
            paused: true,
            ..look(5, 5, 5)
        },
        Duration::ZERO,
    );
    assert!(text(&monitor, 80, 12).contains("paused"));
}
