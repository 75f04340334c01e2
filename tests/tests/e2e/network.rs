//! Frames take the time of the scenario's links.

use std::collections::BTreeMap;
use std::fs::File;

use belljar_tests::{Dir, Outcome, Scenario, root};
use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
use pcap_file::pcapng::{Block, PcapNgReader};

fn network(latency: &str, more: &str) -> String {
    format!(
        "[network]\nbandwidth = \"10 Gb/s\"\nlatency = \"{latency}\"\nswitch-latency = \"300 ns\"\n{more}"
    )
}

/// The least round trip that `ping` printed, in microseconds.
pub(crate) fn least_ping(console: &str) -> f64 {
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

/// The values of `look` for the frames of a capture.
fn frames<T>(run: &Outcome, link: &str, look: impl Fn(&EnhancedPacketBlock<'_>) -> T) -> Vec<T> {
    let file = File::open(run.folder().join(format!("pcap/{link}.pcapng"))).unwrap();
    let mut reader = PcapNgReader::new(file).unwrap();
    let mut frames = Vec::new();
    while let Some(block) = reader.next_block() {
        if let Block::EnhancedPacket(packet) = block.unwrap() {
            frames.push(look(&packet));
        }
    }
    frames
}

/// Time in nanoseconds, interface, bytes.
fn arrival(packet: &EnhancedPacketBlock<'_>) -> (u128, u32, usize) {
    let time = packet.timestamp.as_nanos();
    (time, packet.interface_id, packet.data.len())
}

/// The EtherType, of frames without VLAN tags.
fn ether_type(packet: &EnhancedPacketBlock<'_>) -> u16 {
    u16::from_be_bytes([packet.data[12], packet.data[13]])
}

#[test]
fn captures_show_both_directions_in_virtual_time() {
    let Some(dir) = Dir::new() else { return };
    let scenario = Scenario::new(2, "ping -c 3 -A node1").with(&network("10 us", ""));
    let run = dir.run(&scenario, "out", &["--pcap", "all"]).success();
    let (first, second) = (
        frames(&run, "host0-switch0", arrival),
        frames(&run, "host1-switch0", arrival),
    );
    assert!(first.len() >= 6, "{first:?}");
    assert!(first.is_sorted_by_key(|frame| frame.0));
    // An upward frame at one host goes downward at the other one, a link and a switch later.
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

/// Rows of `links.csv` by column.
fn links(run: &Outcome) -> Vec<BTreeMap<String, String>> {
    let text = String::from_utf8(run.bytes("links.csv")).unwrap();
    let mut lines = text.lines().map(|line| line.split(','));
    let columns: Vec<&str> = lines.next().expect("a title").collect();
    let row = |fields: std::str::Split<'_, char>| {
        let named = columns.iter().zip(fields);
        named
            .map(|(&column, field)| (column.to_owned(), field.to_owned()))
            .collect()
    };
    lines.map(row).collect()
}

/// The sum of a column over the rows of a link, or of all links.
fn sum(rows: &[BTreeMap<String, String>], link: Option<&str>, column: &str) -> u64 {
    let of_link = rows
        .iter()
        .filter(|row| link.is_none_or(|link| row["link"] == link));
    of_link.map(|row| row[column].parse::<u64>().unwrap()).sum()
}

#[test]
fn a_failed_link_is_gone_round_and_figures_say_so() {
    let Some(dir) = Dir::new() else { return };
    // A ring of four switches. The short path from node 0 to node 1 fails between the third ping and the fourth, and
    // the link of node 1 fails before the last ping.
    let ring = network(
        "10 us",
        "topology = \"torus\"\ndimensions = [4]\nstatistics = \"100 ms\"\n\
         [[network.link]]\nname = \"switch0-switch1\"\nfail-at = \"6500 ms\"\n\
         [[network.link]]\nname = \"host1-*\"\nfail-at = \"8500 ms\"\nrepair-at = \"22 s\"",
    );
    let command =
        "until [ $(cut -d. -f1 /proc/uptime) = 4 ]; do usleep 1000; done; ping -c 6 -i 1 node1";
    let run = dir.run(&Scenario::new(4, command).with(&ring), "out", &[]);
    let console = run.console(0);
    let replies: Vec<f64> = console
        .lines()
        .filter_map(|line| line.split("time=").nth(1)?.split(' ').next()?.parse().ok())
        .collect();
    assert!(
        console.contains("6 packets transmitted, 5 packets received"),
        "{console}"
    );
    // Three links of one path before, five after, of 10 us each.
    let (before, after) = (replies[2], replies[3]);
    assert!((0.040..0.044).contains(&(after - before)), "{replies:?}");
    let rows = links(&run);
    // The echo request, and repeated requests for the address.
    assert!((1..8).contains(&sum(&rows, Some("host1-switch1"), "failed")));
    assert!(sum(&rows, Some("switch2-switch3"), "frames") >= 4);
    let totals = run.summary();
    let bytes: u64 = totals["links"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|link| [&link["up"], &link["down"]])
        .map(|way| way["bytes"].as_u64().unwrap())
        .sum();
    assert_eq!(sum(&rows, None, "bytes"), bytes);
}

#[test]
fn mpi_runs_over_any_shape_in_trouble_and_repeats_to_the_byte() {
    let Some(dir) = Dir::new() else { return };
    let graph = "<graphml><graph edgedefault=\"undirected\">\
         <node id=\"north\"/><node id=\"south\"/><node id=\"west\"/>\
         <edge source=\"north\" target=\"south\"/><edge source=\"south\" target=\"west\"/>\
         <edge source=\"west\" target=\"north\"/></graph></graphml>";
    dir.write("triangle.graphml", graph);
    // A lost segment of TCP would cost all ranks a fifth of a second of polling.
    for (name, shape, trouble, command, lost) in [
        (
            "graph",
            "{ graphml = \"triangle.graphml\" }\nhosts-per-switch = 2\nrouting = \"ecmp\"",
            "loss = 0.05\njitter = \"2 us\"",
            "ping -c 40 -i 0.01 node2; ping -c 2 node3; true",
            true,
        ),
        (
            "tree",
            "\"fat-tree\"\nrouting = \"d-mod-k\"\npcap = [\"host0-*\"]",
            "jitter = \"2 us\"",
            "mpiexec.hydra -n 4 counters 1",
            false,
        ),
    ] {
        let more = format!(
            "topology = {shape}\nstatistics = \"1 ms\"\n[[network.link]]\nname = \"*\"\n{trouble}"
        );
        let scenario = Scenario::new(4, command).with(&network("1 us", &more));
        let run = |out: &str, threads| {
            let out = format!("{name}-{out}");
            dir.run(&scenario, &out, &["--threads", threads]).success()
        };
        let (one, two) = (run("one", "1"), run("two", "3"));
        one.assert_same(&two);
        let rows = links(&one);
        assert_eq!(sum(&rows, None, "lost") > 0, lost);
        assert!(rows.len() > 10, "{}", rows.len());
        if name == "tree" {
            let captured = frames(&one, "host0-switch0", arrival);
            assert!(captured.len() > 100 && captured.is_sorted_by_key(|frame| frame.0));
        }
    }
}

/// A ready scenario with other values.
fn ready(dir: &Dir, name: &str, set: &[&str]) -> Outcome {
    let file = root().join(format!("scenarios/{name}.toml"));
    let mut arguments = vec!["run", file.to_str().unwrap(), "--quiet", "--out", name];
    arguments.extend(set.iter().flat_map(|set| ["--set", set]));
    let (stdout, stderr, code) = dir.call(&arguments);
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    dir.outcome(name)
}

#[test]
fn incast_overflows_the_one_queue_that_all_share() {
    let Some(dir) = Dir::new() else { return };
    let run = ready(
        &dir,
        "incast",
        &["nodes.count=4", "network.switch-queue=\"8 KiB\""],
    );
    assert!(run.console(0).contains("3 x 65536 bytes"));
    let rows = links(&run);
    assert!(sum(&rows, Some("host0-switch0"), "dropped") > 0);
    assert_eq!(sum(&rows, Some("host1-switch0"), "dropped"), 0);
    let fullest = rows
        .iter()
        .map(|row| row["queue_max"].parse::<u64>().unwrap());
    assert!((7000..=64 << 20).contains(&fullest.max().unwrap()));
}

#[test]
fn a_ring_keeps_to_the_links_between_neighbours() {
    let Some(dir) = Dir::new() else { return };
    let run = ready(&dir, "ring-on-torus", &["nodes.count=3"]);
    assert!(run.console(0).contains("ring of 3: 16384 bytes, 4 turns"));
    let rows = links(&run);
    // Three nodes in the first row: only its links carry more than broadcasts.
    let row: u64 = ["switch0-switch1", "switch1-switch2", "switch2-switch0"]
        .iter()
        .map(|link| sum(&rows, Some(link), "bytes"))
        .sum();
    let all = rows.iter().filter(|row| !row["link"].starts_with("host"));
    let all: u64 = all.map(|row| row["bytes"].parse::<u64>().unwrap()).sum();
    assert!(row > 12 * 3 * 16384 && all - row < 20_000, "{row} of {all}");
}

/// Cards report the speed of their links, and packets that they cut and join arrive whole, in frames of the link's
/// size.
#[test]
fn cards_have_speed_frame_size_and_offloads() {
    let Some(dir) = Dir::new() else { return };
    let command = "cat /sys/class/net/eth0/speed /sys/class/net/eth0/mtu
        cut -c 1,12,16 /sys/class/net/eth0/device/features
        busybox=$(readlink -f /bin/sh)
        belljar-rsh node1 cat $busybox | sha256sum
        sha256sum <$busybox";
    let longest = |more, out| {
        let network = format!("[network]\nbandwidth = \"40 Gb/s\"\n{more}");
        let scenario = Scenario::new(2, command).with(&network);
        let run = dir.run(&scenario, out, &["--pcap", "all"]).success();
        let printed = run.text("stdout");
        let lines: Vec<_> = printed.lines().map(str::to_owned).collect();
        assert_eq!(lines[3], lines[4], "{printed}");
        let lens = frames(&run, "host1-switch0", |packet| packet.data.len());
        (lines[..3].to_vec(), lens.into_iter().max())
    };
    for (more, out, seen, frame) in [
        ("", "plain", ["40000", "1500", "000"], 1514),
        ("mtu = 9000", "jumbo", ["40000", "9000", "000"], 9014),
        ("offload = true", "offload", ["40000", "1500", "111"], 1514),
    ] {
        assert_eq!(
            longest(more, out),
            (seen.map(str::to_owned).to_vec(), Some(frame))
        );
    }
}

/// Frames for a node that accepts none, beyond the capacity of its network card, are counted there and reported by the
/// run.
#[test]
fn what_a_network_card_drops_is_told() {
    let Some(dir) = Dir::new() else { return };
    // The card's ring is no longer emptied, while node 0 still has the address.
    let command = "ping -c 1 node1 >/dev/null
        { belljar-rsh node1 'sleep 0.05; ip link set eth0 down' & }
        sleep 0.2
        ping -q -c 700 -i 0.0002 -W 1 node1 || true";
    let scenario = Scenario::new(2, command).with(&network("10 us", ""));
    let run = dir.run(&scenario, "out", &[]).success();
    let dropped = |node: usize| run.summary()["nodes"][node]["frames_dropped"].as_u64();
    assert_eq!(dropped(0), Some(0));
    let at_node1 = dropped(1).expect("a number");
    assert!((1..700).contains(&at_node1), "{at_node1}");
    let warnings = run.summary()["warnings"].to_string();
    let told = format!("{at_node1} frames were dropped by network cards");
    assert!(warnings.contains(&told), "{warnings}");
}

#[test]
fn nodes_that_know_each_other_do_not_ask() {
    const ARP: u16 = 0x806;
    let Some(dir) = Dir::new() else { return };
    let questions = |more, out: &str| {
        let scenario = Scenario::new(3, "ping -c 1 node1 && belljar-rsh node1 ping -c 1 node2")
            .with(&network("10 us", more));
        let run = dir.run(&scenario, out, &["--pcap", "all"]).success();
        let links = ["host0-switch0", "host1-switch0", "host2-switch0"];
        let types = links
            .into_iter()
            .flat_map(|link| frames(&run, link, ether_type));
        types.filter(|kind| *kind == ARP).count()
    };
    assert!(questions("", "dynamic") > 0);
    assert_eq!(questions("arp = \"static\"", "static"), 0);
}
