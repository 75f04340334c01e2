//! The links' latency and bandwidth for nodes that share a processor.

use std::collections::BTreeMap;
use std::time::Duration;

use belljar_tests::{Dir, Machine, Scenario};

use super::{NETWORK, RUN, boot_exactly};
use crate::network::least_ping;

/// The latency of the links of [`NETWORK`] on the way there and back, in microseconds.
const ROUND_TRIP: f64 = 80_000.0;

/// Four nodes on one processor, one of them always busy: its processor time must not appear in
/// the others' round trips.
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
    // Never sooner, except for the error of a clock's reading. Later by the nodes' computing
    // time and by late stops, which are long on an emulated processor.
    let expected = ROUND_TRIP - 2_000.0..ROUND_TRIP + 60_000.0;
    assert!(expected.contains(&least), "{least} us\n{}", returned.output);
}

/// So slow that an emulated processor always has to wait for it.
const SLOW_NETWORK: &str = "[network]\nbandwidth = \"2 Mb/s\"\nlatency = \"2 ms\"";
/// The time of an empty message on two of its links, in microseconds.
const SLOW_LATENCY: f64 = 4_000.0;
/// Its links' bandwidth in bytes per microsecond.
const SLOW_BANDWIDTH: f64 = 0.25;
/// The size of the messages for bandwidth, in bytes, and the largest size for latency.
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

/// True if the half round trips on `console` are those of [`SLOW_NETWORK`]. Computing between
/// messages and late stops on an emulated processor only lengthen the times.
fn show_the_links(console: &str) -> bool {
    let seen = half_round_trips(console);
    let small = seen.range(..=SMALL).map(|(_, &time)| time);
    let latency = small.fold(f64::INFINITY, f64::min);
    let bandwidth = seen.get(&LARGE).map_or(0.0, |time| f64::from(LARGE) / time);
    eprintln!("seen: {latency} us, {bandwidth} bytes/us");
    let latencies = SLOW_LATENCY..SLOW_LATENCY + 20_000.0;
    let bandwidths = SLOW_BANDWIDTH / 4.0..SLOW_BANDWIDTH;
    latencies.contains(&latency) && bandwidths.contains(&bandwidth)
}

/// Runs `command` on this number of clones over [`SLOW_NETWORK`], and returns the first one's
/// console.
fn run_clones(dir: &Dir, machine: &Machine<'_>, nodes: u32, command: &str) -> String {
    let scenario = Scenario::new(nodes, command)
        .with(SLOW_NETWORK)
        .limited("600 s");
    boot_exactly(dir, machine, &scenario);
    let script = format!(
        "{RUN} --snapshot /given/snapshot --out kvm || {{ tail -n 40 kvm/console/*; exit 1; }}"
    );
    let returned = machine.run(&script, "results");
    assert_eq!(returned.code, "0", "{}", returned.output);
    eprintln!("{}", returned.output);
    dir.outcome("results/kvm").console(0)
}

/// Two nodes that poll on one processor: a ping-pong shows the links' latency and bandwidth.
#[test]
fn a_ping_pong_shows_the_links_where_nodes_share_a_processor() {
    let Some(dir) = Dir::new() else { return };
    let Some(machine) = Machine::new(&dir, "bookworm-mpich") else {
        return;
    };
    let console = run_clones(&dir, &machine, 2, "mpiexec.hydra -n 2 pingpong 2");
    assert!(show_the_links(&console), "{console}");
}

/// Sixteen nodes on one processor, which all poll while two of them exchange messages.
#[test]
#[ignore = "takes eight minutes"]
fn sixteen_nodes_that_share_a_processor_see_the_links_as_two_do() {
    let Some(dir) = Dir::new() else { return };
    let Some(machine) = Machine::new(&dir, "bookworm-mpich") else {
        return;
    };
    let machine = machine.patient(Duration::from_mins(20));
    let command = "ping -c 8 -A node15; mpiexec.hydra -n 16 pingpong 2";
    let console = run_clones(&dir, &machine, 16, command);
    let least = least_ping(&console);
    let round_trips = 2.0 * SLOW_LATENCY..2.0 * SLOW_LATENCY + 20_000.0;
    assert!(round_trips.contains(&least), "{least} us");
    assert!(show_the_links(&console), "{console}");
}
