//! Combinations of all features that affect virtual time, in small scenarios made from a seed: several processors, networks,
//! losses, checkpoints, noise, groups of nodes, background jobs, and all kinds of records. Results are equal on one host and
//! on several, on any number of threads, with randomly cut turns, and after a resumption from a checkpoint.
//!
//! Every `cargo xtask test` runs two; `BELLJAR_CROSSED=N` runs N of them, and `BELLJAR_SEED` selects the first one.

use std::fmt::Write;

use belljar_tests::{Dir, Scenario};

/// Seeds of the default scenarios, which have almost all features between them; profiles and call sites cross hosts and
/// checkpoints in `trace` and `noise`.
const FEW: [u64; 2] = [31, 38];

/// Numbers by a seed (Steele, Lea, Flood: "Fast Splittable Pseudorandom Number Generators", 2014).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut word = self.0;
        word = (word ^ word >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        word = (word ^ word >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((word ^ word >> 31) % bound as u64) as usize
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// A scenario, and its number of nodes.
fn scenario(numbers: &mut Numbers) -> (Scenario, u32) {
    let nodes = numbers.one(&[2, 3, 4]);
    let vcpus = numbers.one(&[1, 2, 2, 3]);
    // The image for several vCPUs has other programs.
    let programs = match vcpus {
        1 => ["counters", "ring 3000 2", "allreduce 2 64"],
        _ => ["counters", "hello", "pingpong 50"],
    };
    let command = format!("mpiexec.hydra -n {nodes} {}", numbers.one(&programs));
    let latency = numbers.one(&["1 us", "3 us", "20 us"]);
    let mut text = format!("[network]\nlatency = \"{latency}\"\n");
    text += numbers.one(&[
        "",
        "topology = \"tree\"\nfanout = 2\n",
        "statistics = \"1 ms\"\n",
    ]);
    text += numbers.one(&["", "arp = \"static\"\n"]);
    if numbers.below(2) == 0 {
        text += "[[network.link]]\nname = \"*\"\n";
        text += numbers.one(&[
            "loss = 0.002\n",
            "jitter = \"300 ns\"\n",
            "loss = 0.001\njitter = \"1 us\"\n",
        ]);
    }
    text += &observed(numbers);
    text += &others(numbers, nodes);
    let every = numbers.one(&["5 ms", "17 ms"]);
    // Writing to a String cannot fail.
    let _ = write!(text, "[checkpoint]\nevery = \"{every}\"\n");
    let mut scenario = Scenario::new(nodes, &format!("{command}\ndate"));
    if vcpus > 1 {
        scenario = scenario.vcpus(vcpus);
    }
    (scenario.with(&text), nodes)
}

/// Records of a run in addition to its calls.
fn observed(numbers: &mut Numbers) -> String {
    let trace = numbers.one(&[
        "",
        "frames = 2\n",
        "polls = \"each\"\n",
        "messages = true\n",
        "collect = \"2 iterations\"\n",
    ]);
    let mut text = format!("[trace]\n{trace}");
    if numbers.below(3) == 0 {
        text += "[[trace.probe]]\nfile = \"kernel\"\nsymbol = \"tcp_sendmsg\"\narguments = [\"pointer\"]\nresult = \"i32\"\n";
    }
    if numbers.below(3) == 0 {
        text += "[profile]\nevery = \"200 us\"\nframes = 8\n";
    }
    text
}

/// Detours of processors, groups of nodes, and a background job.
fn others(numbers: &mut Numbers, nodes: u32) -> String {
    let mut text = String::new();
    if numbers.below(3) == 0 {
        text += "[[nodes.noise]]\nperiod = \"700 us\"\nlength = \"20 us\"\n";
        text += numbers.one(&[
            "",
            "distribution = \"exponential\"\n",
            "spacing = \"uniform\"\n",
        ]);
    }
    if numbers.below(3) == 0 {
        let rest = nodes - 1;
        let _ = write!(
            text,
            "[[nodes.group]]\ncount = 1\nclock = \"2.1 GHz\"\n[[nodes.group]]\ncount = {rest}\n"
        );
    }
    if numbers.below(3) == 0 {
        text += "[[background]]\nrun = \"traced\"\n";
    }
    text
}

/// Options for hosts, the placement of nodes, and threads.
fn ways(numbers: &mut Numbers, nodes: u32) -> Vec<String> {
    let hosts = &["a", "b", "c"][..numbers.one(&[2, 2, nodes.min(3) as usize])];
    let mut ways = ["--launch", "local", "--hosts"].map(str::to_owned).to_vec();
    ways.push(hosts.join(","));
    for node in 0..nodes {
        if numbers.below(2) == 0 {
            ways.push("--place".to_owned());
            ways.push(format!("{}={node}", numbers.one(hosts)));
        }
    }
    ways.push("--threads".to_owned());
    ways.push(numbers.one(&["1", "2"]).to_owned());
    ways
}

/// Runs the scenario of `seed` on one host and thread. It gives the same results in two parts: on two threads with randomly
/// cut turns until a checkpoint, and then on several hosts.
fn cross(dir: &Dir, seed: u64) {
    let mut numbers = Numbers(seed);
    let (scenario, nodes) = scenario(&mut numbers);
    eprintln!("seed {seed}:\n{}", scenario.text());
    let name = |way: &str| format!("{way}{seed}");
    let all = ["--pcap", "all"];
    let plain = dir.run(&scenario, &name("plain"), &all).success();
    let rough = [("BELLJAR_ROUGH_ROUNDS", "5")];
    let threads = ["--threads", numbers.one(&["1", "2", "4"])];
    let options = [all, threads].concat();
    let out = name("parts");
    dir.run_to_checkpoint_under(&rough, &scenario, &out, 2, &options);
    let hosts = ways(&mut numbers, nodes);
    let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
    plain.assert_same(&dir.resume(&out, &hosts));
}

fn variable(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn features_that_touch_time_are_the_same_crossed() {
    let Some(dir) = Dir::new() else { return };
    // The background job of some scenarios.
    let _ = dir
        .run(
            &Scenario::new(2, "mpiexec.hydra -n 2 ring 2000 20"),
            "traced",
            &[],
        )
        .success();
    for seed in seeds() {
        cross(&dir, seed);
    }
}

/// Seeds that the environment selects, or the default ones.
fn seeds() -> Vec<u64> {
    let [first, count] = ["BELLJAR_SEED", "BELLJAR_CROSSED"].map(variable);
    if first.is_none() && count.is_none() {
        return FEW.to_vec();
    }
    let first = first.unwrap_or(1);
    (first..first + count.unwrap_or(FEW.len() as u64)).collect()
}

#[test]
fn default_scenarios_have_most_features() {
    let texts = FEW.map(|seed| scenario(&mut Numbers(seed)).0.text());
    for feature in [
        "nodes.vcpus = 1",
        "nodes.vcpus = 2",
        "topology = \"tree\"",
        "statistics",
        "arp = \"static\"",
        "loss",
        "messages",
        "collect",
        "[[trace.probe]]",
        "[[nodes.noise]]",
        "[[nodes.group]]",
        "[[background]]",
        "[checkpoint]",
    ] {
        let found = texts.iter().any(|text| text.contains(feature));
        assert!(found, "no default scenario has {feature}");
    }
}

/// The slices of two processors of a node are as long as the latency between nodes.
#[test]
fn nodes_of_several_processors_on_several_hosts_come_to_their_end() {
    let Some(dir) = Dir::new() else { return };
    let scenario = Scenario::new(2, "mpiexec.hydra -n 2 pingpong 20").vcpus(2);
    let alone = dir.run(&scenario, "alone", &[]).success();
    let hosts = ["--launch", "local", "--hosts", "a,b"];
    alone.assert_same(&dir.run(&scenario, "hosts", &hosts).success());
}

/// Turns of no length replace any defect that lets no node advance.
#[test]
fn a_run_in_which_nobody_gets_anywhere_ends_and_says_who_waits() {
    let Some(dir) = Dir::new() else { return };
    let scenario = Scenario::new(2, "true").booting_each();
    let still = [("BELLJAR_ROUGH_ROUNDS", "still")];
    let hosts = ["--launch", "local", "--hosts", "a,b"];
    for (out, more, of) in [
        ("alone", &[][..], "at "),
        ("hosts", &hosts[..], "host a at "),
    ] {
        let run = dir.run_under(&still, &scenario, out, more);
        assert_eq!(run.code, Some(1), "{}", run.stderr);
        let told = format!("virtual time stands still, which is a fault of belljar's: {of}");
        assert!(run.stderr.contains(&told), "{}", run.stderr);
        assert!(run.stderr.contains("node 1 is at 0"), "{}", run.stderr);
    }
}
