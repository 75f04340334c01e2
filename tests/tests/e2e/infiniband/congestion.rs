//! Congestion control: a flow that shares a link with a congested one keeps its rate, and runs repeat to the byte.

use belljar_tests::{Dir, Outcome, Scenario};

use super::RECIPE;

/// Nodes 0 and 3 send to node 2 for as long as node 1 sends to node 3.
const FLOWS: &str = r#"
# NAME FROM TO PORT MESSAGES
server() { belljar-rsh node$3 ib_write_bw -m 4096 -s 65536 -n $5 -p $4 > /dev/null & }
client() { belljar-rsh node$2 ib_write_bw -m 4096 -s 65536 -n $5 -p $4 node$3 > /tmp/$1 & }
one="one 0 2 2001 8000"
two="two 3 2 2002 8000"
victim="victim 1 3 2003 1500"
for flow in "$one" "$two" "$victim"; do server $flow; done
sleep 0.3
for flow in "$one" "$two"; do client $flow; done
sleep 0.05
client $victim
wait
for name in one two victim; do echo "$name $(grep 65536 /tmp/$name)"; done
"#;

fn scenario(control: &str) -> Scenario {
    let cards = format!(
        "[infiniband]\nspeed = \"EDR\"\ntopology = \"tree\"\nfanout = 2\nuplink-bandwidth = \"200 Gb/s\"\ncongestion = {{ control = \"{control}\" }}"
    );
    Scenario::new(4, FLOWS).on(RECIPE).with(&cards)
}

/// The average bandwidth of a flow in MiB/s.
fn rate(run: &Outcome, flow: &str) -> f64 {
    super::number(&run.text("stdout"), flow, 1)
}

/// The column of that number in all rows of a table, summed.
fn sum(table: &str, column: usize) -> u64 {
    let cells = table
        .lines()
        .skip(1)
        .filter_map(|row| row.split(',').nth(column));
    cells.map(|cell| cell.parse::<u64>().unwrap()).sum()
}

#[test]
fn a_flow_beside_a_congested_one_has_its_rate_with_control() {
    let Some(dir) = Dir::new() else { return };
    let without = dir.run(&scenario("none"), "none", &[]).success();
    // Half of the link at node 2 each, and as much for the third flow.
    let half = rate(&without, "victim");
    assert!((5_800.0..6_000.0).contains(&half), "{half}");
    assert!(!dir.path("none").join("marks-ib.csv").exists());
    for control in ["iba", "dcqcn"] {
        let run = dir.run(&scenario(control), control, &[]).success();
        let full = rate(&run, "victim");
        assert!(full > 11_700.0, "{control}: {full}");
        // The congested link stays in use.
        let both = rate(&run, "one") + rate(&run, "two");
        assert!(both > 11_000.0, "{control}: {both}");
        let (marks, pairs) = (run.text("marks-ib.csv"), run.text("pairs-ib.csv"));
        let (marked, seen) = (sum(&marks, 3), sum(&pairs, 3));
        assert!(marked > 50 && marked == seen, "{marks}{pairs}");
        let (sent, received) = (sum(&pairs, 4), sum(&pairs, 5));
        assert!(sent > 50 && sent == received, "{pairs}");
        // Two senders of 32 to 100 ms lose about half of their time.
        let delay = sum(&pairs, 6) / 1_000_000_000;
        assert!((30..150).contains(&delay), "{delay} ms");
    }
}

#[test]
fn threads_hosts_and_interruptions_change_no_byte_of_a_run_with_control() {
    let Some(dir) = Dir::new() else { return };
    for control in ["iba", "dcqcn"] {
        let scenario = scenario(control).with("[checkpoint]\nevery = \"50 ms\"");
        let whole = dir.run(&scenario, control, &["--threads", "1"]).success();
        let name = format!("{control}-parts");
        // The flows begin at 4.45 s; clones start at 3.1 s.
        dir.run_to_checkpoint(&scenario, &name, 28, &["--threads", "2"]);
        let apart = ["--launch", "local", "--threads", "1", "--hosts", "one,two"];
        let parts = dir.resume(&name, &apart);
        whole.assert_same(&parts);
        for file in ["marks-ib.csv", "pairs-ib.csv"] {
            assert_eq!(whole.text(file), parts.text(file));
        }
    }
}
