//! Agents through Slurm and through ssh, and their ends.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

use belljar_tests::lab::{Lab, wait_for};

const LAUNCHER: &str = env!("CARGO_BIN_EXE_launcher");
/// General time limit; tighter ones are stated separately.
const SOON: Duration = Duration::from_secs(30);
/// Part of its command line, for finding it.
const AGENT: &str = "stand-in-agent";
/// Reads a secret, prints a port, and then follows orders to the end of its input.
const SCRIPT: &str = "#!/bin/sh
read -r secret
echo \"port 4711 for $secret with $1\"
echo \"on $(hostname)\" >&2
while read -r order; do eval \"$order\"; done
";

/// The launcher on the head of a lab.
struct Launcher {
    child: Child,
    input: Option<ChildStdin>,
    /// Its output, and its messages for users.
    lines: Receiver<String>,
    words: Receiver<String>,
}

/// The stand-in agent, in a folder that all hosts share.
fn agent(lab: &Lab) -> PathBuf {
    let path = lab.shared().join(AGENT);
    fs::write(&path, SCRIPT).expect("the lab's folder is writable");
    let mode = fs::Permissions::from_mode(0o755);
    fs::set_permissions(&path, mode).expect("the file is our own");
    path
}

impl Launcher {
    /// Starts agents on `hosts` by `way`.
    fn start(lab: &Lab, way: &str, hosts: &str) -> Self {
        let mut command = if way == "srun" {
            let mut command = lab.head().command("salloc");
            let nodes = format!("--nodelist={hosts}");
            // A step of the job, as if typed by a user; a lost host ends only itself.
            command.args(["--quiet", "--no-kill", "--exclusive", &nodes, LAUNCHER]);
            command
        } else {
            lab.head().command(LAUNCHER)
        };
        let mut child = command
            .args([way, hosts])
            .arg(agent(lab))
            .arg("an argument")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the launcher starts");
        let lines = lines_of(child.stdout.take().expect("a pipe"));
        let words = lines_of(child.stderr.take().expect("a pipe"));
        let input = child.stdin.take();
        Self {
            child,
            input,
            lines,
            words,
        }
    }

    fn order(&mut self, order: &str) {
        let input = self.input.as_mut().expect("it is open");
        writeln!(input, "{order}").expect("the launcher reads");
    }

    /// The next lines with this prefix, sorted.
    fn next(&self, begin: &str, count: usize) -> Vec<String> {
        let mut found = Vec::new();
        let mut seen = Vec::new();
        while found.len() < count {
            let line = self.lines.recv_timeout(SOON);
            let line = line.unwrap_or_else(|_| {
                let words: Vec<String> = self.words.try_iter().collect();
                panic!("no more lines of {begin:?}; {seen:?}; {words:#?}")
            });
            if line.contains(begin) {
                found.push(line);
            } else {
                seen.push(line);
            }
        }
        found.sort();
        found
    }

    /// Sends all agents the secret and waits until they run.
    fn bring_up(&mut self, count: usize) -> Vec<String> {
        self.order("xyzzy");
        self.next(" line ", count)
    }
}

impl Drop for Launcher {
    fn drop(&mut self) {
        drop(self.input.take());
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn lines_of(from: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (line, lines) = mpsc::channel();
    thread::spawn(move || {
        for text in BufReader::new(from).lines().map_while(Result::ok) {
            // The test may be over.
            let _ = line.send(text);
        }
    });
    lines
}

/// Asserts that no agent runs on any host, after a short time.
fn none_left(lab: &Lab, patience: Duration) {
    let left = || {
        let hosts = lab.hosts().iter();
        let agents = hosts.filter(|host| host.runs(AGENT) || host.runs(".cache/belljar/agents"));
        agents
            .map(|host| host.name().to_owned())
            .collect::<Vec<_>>()
    };
    let gone = wait_for(patience, || left().is_empty().then_some(()));
    assert!(gone.is_some(), "agents are left on {:?}", left());
}

fn three_agents_are_talked_to_and_end(way: &str) {
    let Some(lab) = Lab::start(3) else { return };
    let mut launcher = Launcher::start(&lab, way, "h0,h1,h2");
    let told = launcher.bring_up(3);
    let expected = |host| format!("{host} line port 4711 for xyzzy with an argument");
    assert_eq!(told, ["h0", "h1", "h2"].map(expected));
    let mut words: Vec<String> = (0..3)
        .map(|_| launcher.words.recv_timeout(SOON).expect("words for people"))
        .collect();
    words.sort();
    assert_eq!(words, ["h0: on h0", "h1: on h1", "h2: on h2"]);
    // One after the other: by itself, by a signal, at the end of its input.
    launcher.order("test $(hostname) = h0 && exit 3; true");
    assert_eq!(launcher.next(" exit ", 1), ["h0 exit Status(3)"]);
    launcher.order("test $(hostname) = h1 && kill -9 $$; true");
    assert_eq!(launcher.next(" exit ", 1), ["h1 exit Signal(\"SIGKILL\")"]);
    drop(launcher.input.take());
    assert_eq!(launcher.next(" exit ", 1), ["h2 exit Status(0)"]);
    none_left(&lab, SOON);
}

#[test]
fn srun_starts_agents_on_three_hosts() {
    three_agents_are_talked_to_and_end("srun");
}

#[test]
fn ssh_starts_agents_on_three_hosts() {
    three_agents_are_talked_to_and_end("ssh");
}

/// Agents end by themselves if their launcher is killed.
fn no_agent_outlives_its_launcher(way: &str) {
    let Some(lab) = Lab::start(3) else { return };
    let mut launcher = Launcher::start(&lab, way, "h0,h1,h2");
    launcher.bring_up(3);
    assert!(
        lab.hosts()
            .iter()
            .all(|host| host.runs(AGENT) || host.runs("agents/belljar-"))
    );
    let launchers = lab.head().processes().into_iter();
    let launcher_itself = launchers
        .filter(|process| process.command.starts_with(LAUNCHER))
        .map(|process| process.id.to_string())
        .collect::<Vec<_>>();
    assert_eq!(launcher_itself.len(), 1, "{launcher_itself:?}");
    let killed = std::process::Command::new("kill")
        .arg("-9")
        .args(launcher_itself)
        .status();
    assert!(killed.expect("kill starts").success());
    none_left(&lab, Duration::from_secs(10));
}

#[test]
fn no_agent_of_srun_outlives_its_launcher() {
    no_agent_outlives_its_launcher("srun");
}

#[test]
fn no_agent_of_ssh_outlives_its_launcher() {
    no_agent_outlives_its_launcher("ssh");
}

/// It ignores the end of its input and SIGTERM.
const STUBBORN: &str = "trap '' TERM; while :; do sleep 0.1; done";

/// Agents that do not react are ended by force.
fn stubborn_agents_are_killed(way: &str) {
    let Some(lab) = Lab::start(1) else { return };
    let mut launcher = Launcher::start(&lab, way, "h0");
    launcher.bring_up(1);
    launcher.order(STUBBORN);
    drop(launcher.input.take());
    assert_eq!(launcher.next(" exit ", 1), ["h0 exit Signal(\"SIGKILL\")"]);
    none_left(&lab, Duration::from_secs(5));
}

#[test]
fn stubborn_agents_of_srun_are_killed() {
    stubborn_agents_are_killed("srun");
}

#[test]
fn stubborn_agents_of_ssh_are_killed() {
    stubborn_agents_are_killed("ssh");
}

/// A frozen host delays no other, and has no agent left when it runs again.
fn frozen_agents_are_given_up(way: &str) {
    let Some(lab) = Lab::start(1) else { return };
    let mut launcher = Launcher::start(&lab, way, "h0");
    launcher.bring_up(1);
    lab.host(0).freeze();
    drop(launcher.input.take());
    let ends = launcher.next(" exit ", 1);
    assert!(ends[0].starts_with("h0 exit Lost("), "{ends:?}");
    lab.host(0).thaw();
    none_left(&lab, SOON);
}

#[test]
fn frozen_agents_of_srun_are_given_up() {
    frozen_agents_are_given_up("srun");
}

#[test]
fn frozen_agents_of_ssh_are_given_up() {
    frozen_agents_are_given_up("ssh");
}

/// A host without power is reported as lost, and the others continue.
fn a_power_cut_is_a_loss(way: &str) {
    let Some(lab) = Lab::start(2) else { return };
    let mut launcher = Launcher::start(&lab, way, "h0,h1");
    launcher.bring_up(2);
    lab.power_cut(0);
    let lost = launcher.next(" exit ", 1);
    assert!(lost[0].starts_with("h0 exit Lost("), "{lost:?}");
    launcher.order("exit 4");
    assert_eq!(launcher.next(" exit ", 1), ["h1 exit Status(4)"]);
}

#[test]
fn a_power_cut_is_a_loss_to_srun() {
    a_power_cut_is_a_loss("srun");
}

#[test]
fn a_power_cut_is_a_loss_to_ssh() {
    a_power_cut_is_a_loss("ssh");
}

/// The error of an agent that ssh does not start.
fn refusal(lab: &Lab) -> String {
    let mut launcher = Launcher::start(lab, "ssh", "h0");
    // An agent that is started ends with its input.
    drop(launcher.input.take());
    let status = launcher.child.wait().expect("the launcher is our child");
    assert_eq!(status.code(), Some(1));
    let words: Vec<String> = launcher.words.iter().collect();
    words.join("\n")
}

#[test]
fn hosts_with_unknown_changed_and_revoked_keys_are_refused() {
    let Some(lab) = Lab::start(1) else { return };
    let known = lab.head().home().join(".ssh/known_hosts");
    let right = fs::read_to_string(&known).expect("the lab made it");
    let key = |name: &str| {
        let path = lab.shared().join(name).join("host_key.pub");
        fs::read_to_string(path).expect("the lab made it")
    };
    for (text, named) in [
        (String::new(), "accept it with: ssh -p 22 h0 true"),
        (format!("h0 {}", key("head")), "ssh-keygen -R h0"),
        (
            format!("{right}\n@revoked * {}", key("h0")),
            "is revoked by",
        ),
    ] {
        fs::write(&known, text).expect("the file is our own");
        let error = refusal(&lab);
        assert!(error.contains(named), "{error}");
    }
    assert!(!lab.host(0).runs("agents/"));
}

#[test]
fn who_is_not_let_in_is_told_what_was_tried() {
    let Some(lab) = Lab::start(1) else { return };
    fs::write(lab.shared().join("authorized_keys"), "").expect("the file is our own");
    let error = refusal(&lab);
    assert!(
        error.contains("ssh-agent") && error.contains("id_ed25519"),
        "{error}"
    );
}

#[test]
fn the_program_is_copied_once() {
    let Some(lab) = Lab::start(1) else { return };
    let folder = lab.host(0).home().join(".cache/belljar/agents");
    let files = || -> Vec<(String, std::time::SystemTime)> {
        let files = fs::read_dir(&folder).expect("the folder was made");
        let named = files.map(|file| {
            let file = file.expect("the folder is readable");
            let changed = file.metadata().and_then(|file| file.modified());
            (file.file_name().into_string().unwrap(), changed.unwrap())
        });
        named.collect()
    };
    let run = || {
        let mut launcher = Launcher::start(&lab, "ssh", "h0");
        launcher.bring_up(1);
        drop(launcher.input.take());
        launcher.next(" exit ", 1);
    };
    run();
    let first = files();
    assert_eq!(first.len(), 1, "{first:?}");
    let name = first[0].0.strip_prefix("belljar-").expect("its name");
    assert_eq!(name.len(), 64, "a hash");
    let copied = fs::read_to_string(folder.join(&first[0].0)).unwrap();
    assert_eq!(copied, SCRIPT);
    run();
    assert_eq!(files(), first);
}
