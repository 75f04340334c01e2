//! A lab of physical hosts on one machine. Each is a set of namespaces with a link to a
//! switch in another namespace, and runs Debian's own Slurm, munge and sshd. The outside
//! network is never touched, and no process or device remains: all processes are in one
//! process namespace, whose first process ends with the test in any case.

/// The files of a lab's hosts: users, keys, the settings of Slurm, munge and sshd.
mod files;
/// A host of a lab.
mod host;
/// A wire with a delay, for hosts of a lab.
mod wire;

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

pub use host::{Host, Process};
use tempfile::TempDir;
pub use wire::{Wire, round_trip};

const KEEPER: &str = include_str!("lab/keeper.sh");
/// Time limit for one host's daemons, and for the whole cluster.
const PATIENCE: Duration = Duration::from_secs(60);
/// Interval of checks while waiting.
const STEP: Duration = Duration::from_millis(50);

/// Programs that a lab needs, and their Debian packages.
const PROGRAMS: &[(&str, &str)] = &[
    ("/usr/sbin/slurmctld", "slurmctld"),
    ("/usr/sbin/slurmd", "slurmd"),
    ("/usr/bin/srun", "slurm-client"),
    ("/usr/sbin/munged", "munge"),
    ("/usr/sbin/sshd", "openssh-server"),
    ("/usr/bin/ssh-keygen", "openssh-client"),
    ("/usr/sbin/ip", "iproute2"),
    ("/usr/bin/nsenter", "util-linux"),
];

/// Hosts, their switch, and a head that starts programs.
#[derive(Debug)]
pub struct Lab {
    // Dropped in this order: the processes, then their files.
    hosts: Vec<Host>,
    head: Host,
    keeper: Keeper,
    folder: TempDir,
}

/// The first process of the lab.
#[derive(Debug)]
struct Keeper {
    child: Child,
    process: u32,
}

impl Lab {
    /// Starts `count` hosts, `h0` and on, and the head; all are up, and registered with
    /// Slurm. `None`, with a message, if this machine does not support a lab.
    pub fn start(count: usize) -> Option<Self> {
        if let Some(reason) = cannot() {
            eprintln!("SKIPPED: testing several physical hosts takes {reason}");
            return None;
        }
        let folder = tempfile::tempdir().expect("the host gives a temporary folder");
        let mut names = vec![HEAD.to_owned()];
        names.extend((0..count).map(|index| format!("h{index}")));
        files::write(folder.path(), &names);
        let keeper = Keeper::start(folder.path());
        let mut hosts: Vec<Host> = names
            .iter()
            .zip(1..)
            .map(|(name, number)| Host::start(keeper.process, folder.path(), name, number))
            .collect();
        hosts.iter_mut().for_each(Host::wait_until_up);
        let head = hosts.remove(0);
        let lab = Self {
            hosts,
            head,
            keeper,
            folder,
        };
        lab.wait_for_slurm();
        Some(lab)
    }

    /// The host that starts programs and runs Slurm's controller; no job runs on it.
    pub fn head(&self) -> &Host {
        &self.head
    }

    /// A host that jobs run on.
    pub fn host(&self, index: usize) -> &Host {
        &self.hosts[index]
    }

    /// All hosts that jobs run on.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// A folder that all hosts share.
    pub fn shared(&self) -> &Path {
        self.folder.path()
    }

    /// Switches a host off: all its processes end without notice to others.
    pub fn power_cut(&self, index: usize) {
        self.cut_link(index);
        self.host(index).kill();
    }

    /// Pulls a host's cable.
    pub fn cut_link(&self, index: usize) {
        self.link(index, "down");
    }

    /// Plugs it in again.
    pub fn heal_link(&self, index: usize) {
        self.link(index, "up");
    }

    fn link(&self, index: usize, state: &str) {
        let link = host::link_of(self.host(index).name());
        let done = self
            .keeper
            .command("ip")
            .args(["link", "set", &link, state])
            .status();
        assert!(done.expect("ip starts").success(), "the link goes {state}");
    }

    /// Delays frames to a host by this number of microseconds.
    ///
    /// # Errors
    /// If the kernel has no `netem`; the error says so.
    pub fn delay(&self, index: usize, microseconds: u32) -> Result<(), String> {
        let link = host::link_of(self.host(index).name());
        let mut tc = self.keeper.command("tc");
        tc.args(["qdisc", "replace", "dev", &link, "root", "netem", "delay"]);
        let output = tc.arg(format!("{microseconds}us")).output();
        let output = output.map_err(|error| format!("cannot start tc: {error}"))?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        Err(format!("the kernel delays nothing: {}", said.trim()))
    }

    /// Connects the hosts by a wire that delays each packet by `late`, until the wire is
    /// dropped. It does not need `netem`.
    ///
    /// # Errors
    /// If the kernel has no TUN devices.
    pub fn wire(&self, late: Duration) -> io::Result<Wire> {
        let hosts: Vec<&Host> = std::iter::once(&self.head).chain(&self.hosts).collect();
        Wire::lay(&hosts, late)
    }

    fn wait_for_slurm(&self) {
        let idle = format!("{}\n", self.hosts.len());
        let script = "sinfo --noheader --states=idle --format=%D";
        let up = wait_for(PATIENCE, || {
            let output = self.head.run(script);
            (output.stdout == idle).then_some(())
        });
        if up.is_none() {
            panic!("Slurm's hosts do not come up:\n{}", self.logs());
        }
    }

    /// The logs of all daemons.
    pub fn logs(&self) -> String {
        let hosts = std::iter::once(&self.head).chain(&self.hosts);
        hosts.map(Host::logs).collect()
    }
}

/// The head's name.
const HEAD: &str = "head";

/// The reason if this machine does not support a lab.
fn cannot() -> Option<String> {
    let output = Command::new("id").arg("-u").output();
    if !output.is_ok_and(|output| output.stdout == b"0\n") {
        return Some("root".to_owned());
    }
    let missing: Vec<&str> = PROGRAMS
        .iter()
        .filter(|(file, _)| !Path::new(file).exists())
        .map(|&(_, package)| package)
        .collect();
    if !missing.is_empty() {
        return Some(format!("Debian's packages {}", missing.join(", ")));
    }
    let script = "ip link add br0 type bridge && ip link add v0 type veth peer name v1";
    let tried = Command::new("unshare")
        .args(["--net", "--mount", "--pid", "--fork", "sh", "-c", script])
        .output()
        .expect("unshare starts");
    let said = String::from_utf8_lossy(&tried.stderr);
    let refused = || format!("namespaces with bridges; the kernel says: {}", said.trim());
    (!tried.status.success()).then(refused)
}

/// Polls `look` until it returns a value, for `patience` at most.
pub fn wait_for<T>(patience: Duration, mut look: impl FnMut() -> Option<T>) -> Option<T> {
    let mut waited = Duration::ZERO;
    while waited < patience {
        if let Some(found) = look() {
            return Some(found);
        }
        thread::sleep(STEP);
        waited += STEP;
    }
    look()
}

impl Keeper {
    fn start(folder: &Path) -> Self {
        let log = fs::File::create(folder.join("keeper.log"));
        let mut child = Command::new("unshare")
            .args(["--net", "--mount", "--pid", "--ipc", "--uts", "--fork"])
            .args(["--kill-child", "sh", "-c", KEEPER])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log.expect("the temporary folder is writable"))
            .spawn()
            .expect("unshare starts");
        let mut line = String::new();
        let stdout = child.stdout.take().expect("a pipe");
        BufReader::new(stdout)
            .read_line(&mut line)
            .expect("a pipe is read");
        let process = line
            .trim()
            .parse()
            .expect("the keeper tells its process id");
        Self { child, process }
    }

    /// A program in the switch's namespace.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--net", "--target", &self.process.to_string(), program]);
        command
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // Ends with its input, and the kernel then ends all other processes of the lab.
        drop(self.child.stdin.take());
        self.child.wait().expect("the keeper is our child");
    }
}
