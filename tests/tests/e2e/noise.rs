//! Detours of processors, by `[[nodes.noise]]`.

use belljar_tests::{Dir, Outcome, Scenario};

use crate::mpirun::compiled;

/// Detects gaps in its execution by the time stamp counter, as benchmarks of noise do ("selfish detour"):
/// `selfish CYCLES SHORTEST` prints the start and the length of each gap that was not shorter.
const SELFISH: &str = "#include <stdio.h>
#include <stdlib.h>
#include <x86intrin.h>
int main(int argc, char **argv)
{
    static unsigned long from[10000], lengths[10000];
    unsigned long shortest = strtoul(argv[2], NULL, 10), found = 0;
    unsigned long begin = __rdtsc(), end = begin + strtoul(argv[1], NULL, 10), before = begin;
    for (int i = 0; i < 10000; i++)
        from[i] = lengths[i] = 1;
    while (before < end && found < 10000) {
        unsigned long now = __rdtsc();
        if (now - before >= shortest) {
            from[found] = before;
            lengths[found++] = now - before;
        }
        before = now;
    }
    for (unsigned long i = 0; i < found && argc > 2; i++)
        printf(\"GAP %lu %lu\\n\", from[i], lengths[i]);
    return 0;
}
";

/// Cycles of a microsecond at 2 GHz.
const US: u64 = 2000;

/// `[[nodes.noise]]` as an option.
fn noise(keys: &str) -> [String; 2] {
    ["--set".to_owned(), format!("nodes.noise=[{{ {keys} }}]")]
}

fn words(options: &[String]) -> Vec<&str> {
    options.iter().map(String::as_str).collect()
}

/// The gaps of at least `shortest` microseconds that a program on node 0 detected in `all` microseconds: the
/// start and the length of each, in cycles.
fn gaps(dir: &Dir, out: &str, shortest: u64, all: u64, keys: &str) -> Vec<(u64, u64)> {
    let command = format!("./selfish {} {}", all * US, shortest * US);
    let scenario = Scenario::new(1, &command).working("files = { selfish = \"selfish\" }");
    let run = dir.run(&scenario, out, &words(&noise(keys))).success();
    let told = run.text("stdout");
    let gap = |line: &str| {
        let (from, length) = line.strip_prefix("GAP ")?.split_once(' ')?;
        Some((from.parse().ok()?, length.parse().ok()?))
    };
    told.lines().filter_map(gap).collect()
}

fn selfish() -> Option<Dir> {
    let dir = Dir::new()?;
    compiled(&dir, "gcc", "selfish", SELFISH, &["-O2", "-static"]).then_some(dir)
}

#[test]
fn a_program_sees_detours_of_the_given_period_and_length() {
    let Some(dir) = selfish() else { return };
    let gaps = gaps(
        &dir,
        "out",
        90,
        100_000,
        "period = \"1 ms\", length = \"100 us\"",
    );
    assert!((99..=101).contains(&gaps.len()), "{}", gaps.len());
    for pair in gaps.windows(2) {
        // Either end of a gap may have an interrupt of the system's clock.
        let apart = pair[1].0 - pair[0].0;
        assert!((985 * US..=1015 * US).contains(&apart), "{pair:?}");
    }
    assert!(
        gaps.iter().all(|gap| (100 * US..115 * US).contains(&gap.1)),
        "{gaps:?}"
    );
    let [first, last] = [gaps[0], gaps[gaps.len() - 1]];
    let mean = (last.0 - first.0) as f64 / (gaps.len() - 1) as f64 / US as f64;
    assert!((999.5..1000.5).contains(&mean), "{mean}");
}

#[test]
fn lengths_and_times_between_detours_are_spread_as_they_were_asked_for() {
    let Some(dir) = selfish() else { return };
    let keys = "period = \"500 us\", length = \"50 us\", distribution = \"exponential\", spacing = \"exponential\"";
    let gaps = gaps(&dir, "out", 20, 400_000, keys);
    // Gaps of at least 20 us: exp(-20 / 50) of 800, and 20 us longer than the mean.
    assert!((440..=630).contains(&gaps.len()), "{}", gaps.len());
    let mean = |values: &[u64]| values.iter().sum::<u64>() as f64 / values.len() as f64 / US as f64;
    let lengths: Vec<u64> = gaps.iter().map(|gap| gap.1).collect();
    assert!((60.0..82.0).contains(&mean(&lengths)), "{}", mean(&lengths));
    let apart: Vec<u64> = gaps.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    let mean = mean(&apart);
    // Of independent times, 1 - 1/e are below their mean.
    let short = apart
        .iter()
        .filter(|apart| (**apart as f64) < mean * US as f64)
        .count();
    let share = short as f64 / apart.len() as f64;
    assert!((0.55..0.72).contains(&share), "{share}");
}

/// Repeated allreduce of 16 numbers on this number of nodes: microseconds for each.
fn allreduce(dir: &Dir, nodes: u32, out: &str, keys: Option<&str>) -> (f64, Outcome) {
    let command = format!("mpiexec.hydra -n {nodes} allreduce 16 300");
    let scenario = Scenario::new(nodes, &command).with("[network]\nlatency = \"200 ns\"");
    let options = keys.map_or_else(Vec::new, |keys| noise(keys).to_vec());
    let run = dir.run(&scenario, out, &words(&options)).success();
    let told = run.text("stdout");
    let before = told.split_once(" us each").map(|(before, _)| before);
    let number = before.and_then(|text| text.rsplit(' ').next()?.parse::<f64>().ok());
    (number.unwrap_or_else(|| panic!("{told}")), run)
}

#[test]
fn noise_slows_many_nodes_that_wait_for_each_other_more_than_few() {
    let Some(dir) = Dir::new() else { return };
    let keys = "period = \"1 ms\", length = \"50 us\"";
    let together = format!("{keys}, synchronised = true");
    let quiet = |nodes| allreduce(&dir, nodes, &format!("quiet{nodes}"), None).0;
    let [quiet_two, quiet_eight] = [2, 8].map(quiet);
    let slower = |nodes: u32, quiet: f64, keys: &str, name: &str| {
        let (noisy, run) = allreduce(&dir, nodes, &format!("noisy{name}"), Some(keys));
        let summary = run.summary();
        let of = |key: &str| {
            summary["nodes"][0]["noise"][key]
                .as_u64()
                .expect("a number")
        };
        assert!(of("detours") > 10 && of("stolen_ps") <= of("detours") * 50_000_000);
        noisy / quiet
    };
    let two = slower(2, quiet_two, keys, "2");
    let eight = slower(8, quiet_eight, keys, "8");
    assert!(two > 1.02 && eight > 1.3 * two - 0.3, "{two} {eight}");
    let synchronised = slower(8, quiet_eight, &together, "8t");
    assert!(
        synchronised < 1.0 + 0.7 * (eight - 1.0),
        "{synchronised} {eight}"
    );
}

#[test]
fn threads_hosts_and_resuming_change_no_byte() {
    let Some(dir) = Dir::new() else { return };
    let scenario = Scenario::new(4, "mpiexec.hydra -n 4 counters 8; date +%N");
    let scenario = scenario.with("[checkpoint]\nevery = \"20 ms\"\n[profile]\nevery = \"50 us\"");
    let two = "period = \"300 us\", length = \"20 us\" }, { nodes = \"1,3\", period = \"1 ms\", \
               length = \"40 us\", distribution = \"pareto\", spacing = \"uniform\"";
    let options = noise(two);
    let with = |more: &[&'static str]| [&words(&options)[..], more].concat();
    let run = |out: &str, more: &[&'static str]| dir.run(&scenario, out, &with(more)).success();
    let one = run("one", &["--threads", "1"]);
    dir.run_to_checkpoint(&scenario, "two", 2, &with(&["--threads", "2"]));
    let local = ["--launch", "local", "--hosts", "a,b", "--threads", "1"];
    one.assert_same(&dir.resume("two", &local));
    let other = run("other", &["--set", "seed=2"]);
    let stolen = |run: &Outcome| run.summary()["nodes"][1]["noise"]["stolen_ps"].as_u64();
    assert_ne!(stolen(&one), stolen(&other));
}

#[test]
fn processors_of_a_node_have_detours_of_their_own() {
    let Some(dir) = Dir::new() else { return };
    let scenario = Scenario::new(2, "mpiexec.hydra -n 4 pingpong 20; date +%N").vcpus(2);
    let options = noise("period = \"400 us\", length = \"30 us\"");
    let run = |out: &str, threads: &'static str| {
        let more = [&words(&options)[..], &["--threads", threads]].concat();
        dir.run(&scenario, out, &more).success()
    };
    let one = run("one", "1");
    one.assert_same(&run("two", "2"));
    let detours = &one.summary()["nodes"][0]["noise"]["detours"];
    assert!(detours.as_u64() > Some(20), "{detours}");
}
