//! InfiniBand cards: the distribution's driver, its tools and MPI libraries use them unmodified, and runs repeat to the byte.

use belljar_tests::{Dir, Outcome, Scenario};
use serde_json::Value;

use crate::mpirun::compiled;

/// Congestion control.
mod congestion;

const RECIPE: &str = "bookworm-infiniband";

/// Nodes with cards that run a script.
fn with_cards(nodes: u32, command: &str) -> Scenario {
    Scenario::new(nodes, command)
        .on(RECIPE)
        .with("[infiniband]\nspeed = \"EDR\"")
}

/// The last number of the first line that begins with `start`, without its last `skipped` words.
fn number(text: &str, start: &str, skipped: usize) -> f64 {
    let line = text
        .lines()
        .find(|line| line.trim_start().starts_with(start));
    let line = line.unwrap_or_else(|| panic!("no line {start:?} in\n{text}"));
    let word = line.split_whitespace().rev().nth(skipped);
    word.and_then(|word| word.parse().ok())
        .unwrap_or_else(|| panic!("no number in {line:?}"))
}

/// The part of the output after the line `== NAME`.
fn part<'a>(text: &'a str, name: &str) -> &'a str {
    let start = format!("== {name}\n");
    let begin = text
        .find(&start)
        .unwrap_or_else(|| panic!("no {name} in\n{text}"))
        + start.len();
    let rest = &text[begin..];
    &rest[..rest.find("== ").unwrap_or(rest.len())]
}

/// Server and client of a program, with the client's output.
const PAIR: &str = r#"
pair() {
    name=$1; shift
    echo "== $name"
    belljar-rsh node1 "$@" >/tmp/server 2>&1 &
    sleep 0.1
    "$@" node1 || echo "failed $?"
    wait
}
"#;

#[test]
fn ip_and_connections_by_address_go_over_the_cards() {
    let Some(dir) = Dir::new() else { return };
    let script = r#"
ping -c 3 -i 0.01 node1-ib0
cat /sys/class/net/ib0/mtu /sys/class/net/ib0/mode
belljar-rsh node1 ib_send_lat -R -s 8 -n 200 >/tmp/server 2>&1 &
sleep 0.3
ib_send_lat -R -s 8 -n 200 node1-ib0
wait
"#;
    let scenario = with_cards(2, script).with("ipoib = true");
    let run = dir.run(&scenario, "run", &["--threads", "2"]).success();
    let text = run.text("stdout");
    assert!(
        text.contains("3 packets transmitted, 3 packets received"),
        "{text}"
    );
    assert!(text.contains("\n2044\ndatagram\n"), "{text}");
    let latency = number(&text, "8 ", 4);
    assert!((0.78..0.9).contains(&latency), "{latency}\n{text}");
    let other = dir.run(&scenario, "one", &["--threads", "1"]).success();
    assert_eq!(other.text("stdout"), text);
    assert_eq!(other.text("wire-ib.csv"), run.text("wire-ib.csv"));
}

#[test]
fn a_kernel_without_ip_over_infiniband_is_named() {
    let Some(dir) = Dir::new() else { return };
    let scenario = Scenario::new(2, "true").with("[infiniband]\nspeed = \"EDR\"\nipoib = true");
    let run = dir.run(&scenario, "run", &[]);
    assert_eq!(run.code, Some(1));
    let error = &run.stderr;
    assert!(error.contains("bookworm-mpich has none"), "{error}");
}

#[test]
fn drivers_tools_and_both_mpis_use_the_card() {
    let Some(dir) = Dir::new() else { return };
    let script = [
        PAIR,
        r#"
echo "== driver"; dmesg | grep -E 'mlx4|pci'
echo "== device"; ibv_devinfo
echo "== rate"; cat /sys/class/infiniband/mlx4_0/ports/1/rate
pair rc ibv_rc_pingpong -c -n 100 -s 64
pair uc ibv_uc_pingpong -n 100 -s 64
pair ud ibv_ud_pingpong -n 100 -s 64
pair srq ibv_srq_pingpong -n 100 -s 64
pair events ibv_rc_pingpong -e -n 100 -s 64
pair long ibv_rc_pingpong -c -n 5 -s 4194304
pair send_lat ib_send_lat -s 8 -n 200
pair send_events ib_send_lat -e -s 8 -n 20
pair read_lat ib_read_lat -s 8 -n 200
pair atomic_lat ib_atomic_lat -n 200
pair write_bw ib_write_bw -s 65536 -n 100
echo "== mpich"; mpiexec.hydra -n 2 pingpong 20
echo "== openmpi"; orterun -n 2 -npernode 1 pingpong.openmpi 20
echo "== end"
"#,
    ];
    let run = dir
        .run(&with_cards(2, &script.concat()), "run", &[])
        .success();
    let text = run.text("stdout");
    let driver = part(&text, "driver");
    assert!(driver.contains("[15b3:1003]"), "{driver}");
    for bad in ["fail", "abort", "without MSI-X"] {
        // A bridge without extended configuration space has no MMCONFIG.
        let mut lines = driver.lines().filter(|line| !line.contains("MMCONFIG"));
        assert!(!lines.any(|line| line.contains(bad)), "{driver}");
    }
    for line in [
        "PORT_ACTIVE (4)",
        "port_lid:\t\t1",
        "InfiniBand",
        "4096 (5)",
    ] {
        assert!(part(&text, "device").contains(line), "{line}: {text}");
    }
    assert_eq!(part(&text, "rate"), "100 Gb/sec (4X EDR)\n");
    // With an interrupt for each message.
    let by_events = number(part(&text, "send_events"), "8 ", 4);
    assert!((1.5..10.0).contains(&by_events), "{text}");
    assert!(!text.contains("failed "), "{text}");
    for name in ["rc", "uc", "ud", "srq", "events"] {
        assert!(part(&text, name).contains("100 iters"), "{name}: {text}");
    }
    // 4 MiB in both directions at no more than the link's rate.
    let long = number(part(&text, "long"), "5 iters", 1);
    assert!((671.0..750.0).contains(&long), "{long} us");
    let latency = |name| number(part(&text, name), "8 ", 3);
    assert!((0.6..1.0).contains(&latency("send_lat")), "{text}");
    assert!((1.5..2.1).contains(&latency("read_lat")), "{text}");
    let atomic = number(part(&text, "atomic_lat"), "8 ", 3);
    assert!((1.5..2.1).contains(&atomic), "{text}");
    let bandwidth = number(part(&text, "write_bw"), "65536", 1);
    assert!(
        (11_500.0..12_500.0).contains(&bandwidth),
        "{bandwidth} MB/s"
    );
    for name in ["mpich", "openmpi"] {
        let least = number(part(&text, name), "PINGPONG 8 ", 0);
        assert!((900.0..1_600.0).contains(&least), "{name}: {least} ns");
    }
    check_counters(&run);
}

/// The cards' counters and files are consistent with each other.
fn check_counters(run: &Outcome) {
    let summary = run.summary();
    let card = |node: usize, key: &str| summary["nodes"][node]["infiniband"][key].as_u64().unwrap();
    assert!(card(0, "doorbells") > 500, "{summary}");
    assert_eq!(card(0, "timeouts") + card(1, "timeouts"), 0);
    let wire = run.text("wire-ib.csv");
    let field = |pair: &str, at: usize| -> u64 {
        let row = wire
            .lines()
            .find(|row| row.starts_with(pair))
            .expect("a row");
        row.split(',')
            .nth(at)
            .and_then(|word| word.parse().ok())
            .expect("a number")
    };
    assert_eq!(field("0,1", 2), card(0, "packets_sent"));
    assert_eq!(field("1,0", 2), card(1, "packets_sent"));
    // Two bytes of each packet's checksums are the link's.
    assert_eq!(
        field("0,1", 3),
        card(0, "bytes_sent") + 2 * card(0, "packets_sent")
    );
    let links = run.text("links-ib.csv");
    let up = format!("host0-switch0,up,{},{},", field("0,1", 2), field("0,1", 3));
    assert!(links.contains(&up), "{links}");
}

#[test]
fn threads_hosts_and_interruptions_change_no_byte() {
    let Some(dir) = Dir::new() else { return };
    let command = [
        PAIR,
        "mpiexec.hydra -n 2 pingpong 5\nfor i in 1 2 3 4 5 6; do pair $i ibv_rc_pingpong -c -n 200 -s 5000; done\n",
    ];
    let scenario = with_cards(2, &command.concat()).with("[checkpoint]\nevery = \"50 ms\"");
    let whole = dir.run(&scenario, "whole", &["--threads", "1"]).success();
    // The drivers' reset takes a second, and what follows takes two hosts as many messages as rounds.
    dir.run_to_checkpoint(&scenario, "parts", 18, &["--threads", "2"]);
    let apart = ["--launch", "local", "--threads", "1", "--hosts", "one,two"];
    whole.assert_same(&dir.resume("parts", &apart));
    replays_take_the_network_of_the_cards(&dir);
}

/// The ping-pong of the run, replayed: as it was, and with longer cables.
fn replays_take_the_network_of_the_cards(dir: &Dir) {
    let replay = |more: &[&str]| -> Value {
        let (json, error, code) = dir.call(&[&["replay", "whole", "--json"], more].concat());
        assert_eq!(code, Some(0), "{error}");
        serde_json::from_str(&json).expect("this is JSON")
    };
    let main = |of: &Value, key: &str| of[key].as_f64().expect("a number");
    let own = replay(&[]);
    let traced = main(&own, "traced_main_ps");
    assert!((main(&own, "main_ps") / traced - 1.0).abs() < 0.02, "{own}");
    // Each way passes two cables, which are 10 ns in the run.
    let far = replay(&["--set", "infiniband.cable=\"100 us\""]);
    let messages = main(&far, "messages");
    let more = main(&far, "main_ps") - traced;
    let way = 2.0 * (100e6 - 10e3);
    assert!(
        // A long message is a request, a read and the data.
        (1.0..1.6).contains(&(more / (way * messages))),
        "{more} ps for {messages} messages"
    );
    let warned = far["warnings"].to_string();
    assert!(
        warned.contains("return too late for its full rate"),
        "{warned}"
    );
    machines_have_cards(dir);
}

/// Two jobs of the run on a simulated machine with cards: as in the trace, and with longer cables.
fn machines_have_cards(dir: &Dir) {
    let mix = |network: &str, model: &str| {
        format!(
            "name = \"mix\"\nhosts = 4\nlevel = \"message\"\nmodel = {model}\n{network}\n[[jobs]]\nname = \"a\"\ncount = 2\ntraffic = {{ trace = \"whole\" }}\n"
        )
    };
    let stretches = |network: &str| -> Vec<f64> {
        dir.write("cards.toml", &mix(network, "[\"flow\", \"packet\"]"));
        let (told, error, code) = dir.call(&["simulate", "cards.toml", "--json"]);
        assert_eq!(code, Some(0), "{error}");
        let rows: Value = serde_json::from_str(&told).expect("this is JSON");
        let rows = rows.as_array().expect("rows").iter();
        let stretch = |row: &Value| row["mean_stretch"].as_f64().expect("a number");
        rows.map(stretch).collect()
    };
    for stretch in stretches("infiniband = { speed = \"EDR\" }") {
        assert!((0.99..1.01).contains(&stretch), "{stretch}");
    }
    for stretch in stretches("infiniband = { speed = \"EDR\", cable = \"1 ms\" }") {
        assert!(stretch > 1.5, "{stretch}");
    }
    dir.write("cards.toml", &mix("network = {}", "\"packet\""));
    let (_, error, code) = dir.call(&["simulate", "cards.toml"]);
    assert_ne!(code, Some(0));
    assert!(error.contains("its nodes had InfiniBand cards"), "{error}");
}

/// Each rank sends to the second next in a ring. The first packets of all occupy all buffers, and each needs the next one.
const SHIFT: &str = r#"#include <mpi.h>
#include <stdlib.h>
int main(int argc, char **argv)
{
    int rank, size, bytes = 1 << 19;
    MPI_Init(&argc, &argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    char *out = calloc(bytes, 1), *in = malloc(bytes);
    for (int round = 0; round < 60; round++) {
        MPI_Sendrecv(out, bytes, MPI_BYTE, (rank + 2) % size, 0, in, bytes, MPI_BYTE,
                     (rank + size - 2) % size, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Barrier(MPI_COMM_WORLD);
    }
    MPI_Finalize();
}
"#;

/// The routes of a ring need two virtual lanes. With one, and buffers of one packet, the run ends with the circle of links.
#[test]
fn links_that_wait_for_each_other_are_named() {
    let Some(dir) = Dir::new() else { return };
    if !compiled(&dir, "mpicc.mpich", "shift", SHIFT, &["-O1"]) {
        return;
    }
    let command =
        "export UCX_RC_PATH_MTU=4096 UCX_UD_PATH_MTU=4096; mpiexec.hydra -n 5 -ppn 1 /root/shift";
    let scenario = Scenario::new(5, command)
        .on(RECIPE)
        .working("files = { shift = \"shift\" }")
        .with("[infiniband]\nspeed = \"EDR\"\ntopology = \"torus\"\ndimensions = [5]\nlanes = 1\nbuffer = \"5 KiB\"");
    let run = dir.run(&scenario, "run", &[]);
    assert_ne!(run.code, Some(0), "{}", run.stderr);
    let circle = (0..5).map(|at| format!("switch{at}-switch{} up (virtual lane 0)", (at + 1) % 5));
    let circle: Vec<String> = circle.collect();
    let verdict = format!(
        "no rank can proceed: packets of the InfiniBand network wait for ever, as links wait for each other's credits in a circle: {};",
        circle.join(", ")
    );
    assert!(run.stderr.contains(&verdict), "{}", run.stderr);
    let folder = run.incomplete();
    let read = |name| std::fs::read_to_string(folder.join(name)).expect("a file of the run");
    let warning = "has 1 virtual lane, and its routes need 2";
    assert!(read("summary.json").contains(warning));
    let links = read("links-ib.csv");
    let waits = |link: &str| number(&links.replace(',', " "), link, 0);
    assert!(waits("host0-switch0 up") > 0.0, "{links}");
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    let Some(dir) = Dir::new() else { return };
    let refused = |more: &str| {
        let scenario = Scenario::new(2, "true").on(RECIPE).with(more);
        dir.write("bad.toml", &scenario.text());
        let (_, error, code) = dir.call(&["check", "bad.toml"]);
        assert_ne!(code, Some(0), "{more}");
        error
    };
    let edr = "[infiniband]\nspeed = \"EDR\"\n";
    for (more, key) in [
        ("[infiniband]\nspeed = \"SDR\"", "unknown value `SDR`"),
        (&format!("{edr}cable = \"1 s\""), "infiniband.cable"),
        (
            &format!("{edr}card.send = \"2 ms\""),
            "infiniband.card.send",
        ),
        (
            &format!("{edr}bandwidth = \"1 b/s\""),
            "infiniband.bandwidth is 0.000000001 Gb/s; it must be 1 Mb/s or more",
        ),
        (
            &format!("{edr}congestion = {{ control = \"iba\", threshold = 0 }}"),
            "infiniband.congestion.threshold",
        ),
        (
            &format!("{edr}congestion = {{ control = \"dcqcn\", kmin = \"1 MB\" }}"),
            "infiniband.congestion.kmax",
        ),
        (&format!("{edr}routing = \"ecmp\""), "infiniband.routing"),
        (&format!("{edr}ports = 4"), "infiniband"),
        (&format!("{edr}lanes = 16"), "infiniband.lanes"),
        (&format!("{edr}buffer = \"4 KiB\""), "infiniband.buffer"),
        (
            &format!("{edr}lanes = 3\nbuffer = \"12 KiB\""),
            "12 KiB for 3 virtual lanes",
        ),
        (&format!("engine = \"kvm\"\n{edr}"), "infiniband"),
    ] {
        let error = refused(more);
        assert!(error.contains(key), "{more}: {error}");
    }
}
