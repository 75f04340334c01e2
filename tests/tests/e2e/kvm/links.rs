//! What the links' latency and bandwidth look like to nodes that share a processor.

use std::collections::BTreeMap;

use belljar_tests::{Dir, Machine, Scenario};

use super::{NETWORK, RUN, boot_exactly};
use crate::network::least_ping;

/// The latency of the links of [`NETWORK`] on the way there and back, in microseconds.
const ROUND_TRIP: f64 = 80_000.0;

/// Four nodes on one processor, one of which is never at rest: what the others take of it
/// is no time of theirs.
#[test]
fn ping_takes_the_links_latency_where_nodes_share_a_processor() {
    let Some(dir) = Dir::new() else { return };
    let Some(machine) = Machine::new(&dir, "bookworm-mpich") else {
        return;
    };
    let command = "while :; do :; done & ping -c 8 -A node3; kill $!";
    let scenario = Scenario::new(4, command).with(NETWORK).limited("600 s");
    boot_exactly(&dir, &machine, &scenario);
    let script = format!("{RUN} --snapshot /given/snapshot --out kvm");
    let returned = machine.run(&script, "results");
    assert_eq!(returned.code, "0", "{}", returned.output);
    let least = least_ping(&dir.outcome("results/kvm").console(0));
    // Never sooner, but for what one look at a clock is off; and later by what nodes
    // compute and are stopped too late, which an emulated processor takes long for.
    let expected = ROUND_TRIP - 2_000.0..ROUND_TRIP + 60_000.0;
    assert!(expected.contains(&least), "{least} us\n{}", returned.output);
}

/// So slow that an emulated processor always has to wait for it.
const SLOW_NETWORK: &str = "[network]\nbandwidth = \"2 Mb/s\"\nlatency = \"2 ms\"";
/// The time that a message of no bytes needs on two of its links, in microseconds.
const SLOW_LATENCY: f64 = 4_000.0;
/// Its links' bandwidth in bytes per microsecond.
const SLOW_BANDWIDTH: f64 = 0.25;
/// The size of the messages that tell of bandwidth, in bytes; up to the other one they tell of
/// latency.
const LARGE: u32 = 65_536;
const SMALL: u32 = 128;

/// Least half round trips of a ping-pong, in microseconds, by the messages' sizes in bytes.
fn half_round_trips(console: &str) -> BTreeMap<u32, f64> {
    let line = |line: &str| {
        let mut words = line.trim().strip_prefix("PINGPONG ")?.split(' ');
        let size = words.next()?.parse().ok()?;
        let least: f64 = words.nth(2)?.parse().ok()?;
        Some((size, least / 1000.0))
    };
    console.lines().filter_map(line).collect()
}

/// Two nodes that poll on one processor: a ping-pong shows the links' latency and bandwidth.
#[test]
fn a_ping_pong_shows_the_links_where_nodes_share_a_processor() {
    let Some(dir) = Dir::new() else { return };
    let Some(machine) = Machine::new(&dir, "bookworm-mpich") else {
        return;
    };
    let scenario = Scenario::new(2, "mpiexec.hydra -n 2 pingpong 2")
        .with(SLOW_NETWORK)
        .limited("600 s");
    boot_exactly(&dir, &machine, &scenario);
    let script = format!(
        "{RUN} --snapshot /given/snapshot --out kvm || {{ tail -n 40 kvm/console/*; exit 1; }}"
    );
    let returned = machine.run(&script, "results");
    assert_eq!(returned.code, "0", "{}", returned.output);
    let seen = half_round_trips(&dir.outcome("results/kvm").console(0));
    let small = seen.range(..=SMALL).map(|(_, &time)| time);
    let latency = small.fold(f64::INFINITY, f64::min);
    let bandwidth = f64::from(LARGE) / seen[&LARGE];
    let told = format!("{latency} us, {bandwidth} bytes/us; {}", returned.output);
    // What an emulated processor computes between a message and the next, and its being
    // stopped too late, is added to both times, and nothing is taken off.
    let latencies = SLOW_LATENCY..SLOW_LATENCY + 20_000.0;
    assert!(latencies.contains(&latency), "{told}");
    let bandwidths = SLOW_BANDWIDTH / 4.0..SLOW_BANDWIDTH;
    assert!(bandwidths.contains(&bandwidth), "{told}");
}
