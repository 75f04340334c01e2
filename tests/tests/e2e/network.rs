//! Frames take the time that the scenario's links say.

use std::fs::File;

use belljar_tests::{Dir, Outcome, Scenario};
use pcap_file::pcapng::{Block, PcapNgReader};

fn network(latency: &str, more: &str) -> String {
    format!(
        "[network]\nbandwidth = \"10 Gb/s\"\nlatency = \"{latency}\"\nswitch-latency = \"300 ns\"\n{more}"
    )
}

/// The least round trip that `ping` printed, in microseconds.
fn least_ping(console: &str) -> f64 {
    let line = console
        .lines()
        .find(|line| line.contains("min/avg/max"))
        .unwrap_or_else(|| panic!("no ping in {console}"));
    let least = line
        .split('=')
        .nth(1)
        .and_then(|times| times.trim().split('/').next())
        .expect("ping's figures");
    least.parse::<f64>().expect("a number") * 1000.0
}

#[test]
fn ping_takes_the_links_latency_longer() {
    let Some(dir) = Dir::new() else { return };
    let ping = |latency, out| {
        let scenario = Scenario::new(2, "ping -c 5 -A node1").with(&network(latency, ""));
        least_ping(&dir.run(&scenario, out, &[]).success().console(0))
    };
    let (near, far) = (ping("1 us", "near"), ping("501 us", "far"));
    // Four links on the way there and back, 500 us more on each.
    let difference = far - near;
    assert!(
        (1990.0..2010.0).contains(&difference),
        "{near} us and {far} us"
    );
}

/// Frames of a capture: time in nanoseconds, interface, bytes.
fn frames(run: &Outcome, link: &str) -> Vec<(u128, u32, usize)> {
    let file = File::open(run.folder().join(format!("pcap/{link}.pcapng"))).unwrap();
    let mut reader = PcapNgReader::new(file).unwrap();
    let mut frames = Vec::new();
    while let Some(block) = reader.next_block() {
        if let Block::EnhancedPacket(packet) = block.unwrap() {
            frames.push((
                packet.timestamp.as_nanos(),
                packet.interface_id,
                packet.data.len(),
            ));
        }
    }
    frames
}

#[test]
fn captures_show_both_directions_in_virtual_time() {
    let Some(dir) = Dir::new() else { return };
    let scenario = Scenario::new(2, "ping -c 3 -A node1").with(&network("10 us", ""));
    let run = dir.run(&scenario, "out", &["--pcap", "all"]).success();
    let (first, second) = (frames(&run, "host0-switch0"), frames(&run, "host1-switch0"));
    assert!(first.len() >= 6, "{first:?}");
    assert!(first.is_sorted_by_key(|frame| frame.0));
    // What goes up at one host goes down at the other one: a link, a switch later.
    let up: Vec<_> = first
        .iter()
        .filter(|frame| frame.1 == 0 && frame.2 == 98)
        .collect();
    let down: Vec<_> = second
        .iter()
        .filter(|frame| frame.1 == 1 && frame.2 == 98)
        .collect();
    assert_eq!(up.len(), 3);
    assert_eq!(up.len(), down.len());
    for (up, down) in up.iter().zip(&down) {
        // 98 + 4 + 20 bytes at 0.8 ns, 10 us, 300 ns; stamps are whole nanoseconds.
        let passed = down.0 - up.0;
        assert!((10_397..=10_399).contains(&passed), "{passed} ns");
    }
}

#[test]
fn a_tree_of_switches_carries_further() {
    let Some(dir) = Dir::new() else { return };
    let tree = network("10 us", "topology = \"tree\"\nfanout = 2");
    let scenario = Scenario::new(4, "ping -c 4 -A node1; ping -c 4 -A node3").with(&tree);
    let console = dir.run(&scenario, "out", &[]).success().console(0);
    let times: Vec<f64> = console
        .lines()
        .filter(|line| line.contains("min/avg/max"))
        .map(least_ping)
        .collect();
    let [near, far] = times[..] else {
        panic!("{console}")
    };
    // Two more links and two more switches each way.
    let difference = far - near;
    assert!((40.0..44.0).contains(&difference), "{near} us and {far} us");
}
