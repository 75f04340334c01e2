//! `belljar run` on several hosts, and its reaction to their failures.

use std::fs;
use std::ops::Deref;
use std::process::{Child, Stdio};
use std::thread;
use std::time::Duration;

use belljar_tests::lab::wait_for;
use belljar_tests::{Outcome, Scenario, newest_checkpoint};

use super::site::{SOON, Site};

/// Options for the three hosts.
const SSH: [&str; 6] = ["--launch", "ssh", "--hosts", "h0,h1,h2", "--threads", "1"];

/// Three hosts.
struct Hosts(Site);

impl Deref for Hosts {
    type Target = Site;

    fn deref(&self) -> &Site {
        &self.0
    }
}

impl Hosts {
    fn start() -> Option<Self> {
        Site::start(3).map(Self)
    }

    fn start_run(&self, scenario: &Scenario, out: &str, more: &[&str]) -> Child {
        let path = self.scenario(scenario);
        let mut command = self.command(&["run", &path, "--quiet", "--pcap", "all", "--out", out]);
        command
            .args(more)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command.spawn().expect("belljar starts")
    }

    /// A run to its successful end.
    fn run(&self, scenario: &Scenario, out: &str, more: &[&str]) -> Outcome {
        let (code, words) = ended(self.start_run(scenario, out, more));
        assert_eq!(code, Some(0), "{words}");
        self.outcome(out)
    }

    fn outcome(&self, out: &str) -> Outcome {
        Outcome::at(self.file(out))
    }

    /// Waits until a run has its second checkpoint.
    fn wait_until_it_is_kept(&self, out: &str) {
        let folder = self.file(&format!("{out}.incomplete"));
        let is_kept = || (newest_checkpoint(&folder) > Some(1)).then_some(());
        let kept = wait_for(SOON, is_kept);
        assert!(kept.is_some(), "{}", self.lab.logs());
    }

    fn no_agent_is_left(&self) {
        let hosts = || self.lab.hosts().iter();
        let gone = || (!hosts().any(|host| host.runs("agent"))).then_some(());
        assert!(wait_for(SOON, gone).is_some());
    }
}

fn ended(child: Child) -> (Option<i32>, String) {
    let output = child.wait_with_output().expect("belljar ends");
    let words = [output.stdout, output.stderr].concat();
    (
        output.status.code(),
        String::from_utf8_lossy(&words).into_owned(),
    )
}

/// Four nodes at two switches, with checkpoints.
fn talking() -> Scenario {
    let command =
        "for i in 1 2 3; do mpiexec.hydra -n 4 counters; done; date; od -xN 16 /dev/urandom";
    let network = "[network]\ntopology = \"tree\"\nfanout = 2\nstatistics = \"1 ms\"";
    Scenario::new(4, command)
        .with(network)
        .with("[checkpoint]\nevery = \"200 ms\"")
}

#[test]
fn ssh_and_slurm_give_the_bytes_of_one_host() {
    let Some(hosts) = Hosts::start() else { return };
    let alone = hosts.run(
        &talking(),
        "alone",
        &["--launch", "alone", "--threads", "2"],
    );
    alone.assert_same(&hosts.run(&talking(), "ssh", &SSH));
    hosts.no_agent_is_left();
    let path = hosts.scenario(&talking());
    let run = format!(
        "{} run {path} --quiet --pcap all --out job --threads 1",
        hosts.dir.binary().display()
    );
    let mut salloc = hosts.lab.head().command_in(hosts.lab.shared(), "salloc");
    salloc.args(["--quiet", "--nodes=3", "--exclusive", "sh", "-c", &run]);
    let salloc = salloc.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let (code, words) = ended(salloc.expect("salloc starts"));
    assert_eq!(code, Some(0), "{words}");
    alone.assert_same(&hosts.outcome("job"));
    let seen = fs::read_to_string(hosts.file("job/host.json")).expect("the run is whole");
    assert!(seen.contains("\"h2\""), "{seen:.500}");
    hosts.no_agent_is_left();
}

#[test]
fn a_host_without_power_is_named_and_the_run_goes_on_without_it() {
    let Some(hosts) = Hosts::start() else { return };
    let alone = hosts.run(&talking(), "alone", &["--launch", "alone"]);
    let more = [&SSH[..], &["--set", "hosts.patience=5"]].concat();
    let run = hosts.start_run(&talking(), "out", &more);
    hosts.wait_until_it_is_kept("out");
    hosts.lab.power_cut(1);
    let (code, words) = ended(run);
    assert_eq!(code, Some(1), "{words}");
    assert!(
        words.contains("host h1 is lost: it no longer responds"),
        "{words}"
    );
    assert!(words.contains("belljar resume"), "{words}");
    let mut resume = hosts.command(&[
        "resume", "out", "--quiet", "--launch", "ssh", "--hosts", "h0,h2",
    ]);
    let resume = resume.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let (code, words) = ended(resume.expect("belljar starts"));
    assert_eq!(code, Some(0), "{words}");
    alone.assert_same_but(&hosts.outcome("out"), &["scenario.toml"]);
}

#[test]
fn what_passes_does_no_harm() {
    let Some(hosts) = Hosts::start() else { return };
    let alone = hosts.run(&talking(), "alone", &["--launch", "alone"]);
    let run = hosts.start_run(&talking(), "out", &SSH);
    hosts.wait_until_it_is_kept("out");
    hosts.lab.host(2).freeze();
    thread::sleep(Duration::from_secs(10));
    hosts.lab.host(2).thaw();
    hosts.lab.cut_link(0);
    thread::sleep(Duration::from_secs(3));
    hosts.lab.heal_link(0);
    let (code, words) = ended(run);
    assert_eq!(code, Some(0), "{words}");
    assert!(words.contains("host h2 has been silent"), "{words}");
    assert!(words.contains("host h2 responds again"), "{words}");
    alone.assert_same(&hosts.outcome("out"));
}
