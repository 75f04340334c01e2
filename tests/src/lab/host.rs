//! A host of a lab.
//!
//! It is a set of namespaces, and all its processes end with its first one. Started by the lab; tests run
//! commands on it, freeze it and cut its power.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread;
use std::time::Duration;

use nix::sched::{CloneFlags, setns};

use super::files;

const SCRIPT: &str = include_str!("host.sh");
/// Time between two passes over a host's processes; the next pass finds processes that were forked
/// meanwhile.
const PASS: Duration = Duration::from_millis(5);

/// A host with its own network, name, processes and home folder.
#[derive(Debug)]
pub struct Host {
    name: String,
    address: Ipv4Addr,
    folder: PathBuf,
    child: Child,
    output: BufReader<ChildStdout>,
    /// Its first process, by its id outside.
    process: u32,
}

/// A process of a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Process {
    /// Its id outside.
    pub id: u32,
    /// Its command line.
    pub command: String,
}

/// The result of a command.
#[derive(Debug)]
pub struct Ran {
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// Exit code.
    pub code: Option<i32>,
}

/// The switch's end of a host's link.
pub(super) fn link_of(name: &str) -> String {
    format!("v-{name}")
}

impl Host {
    /// Starts a host in the lab of `keeper`, whose files are in `folder`.
    pub(super) fn start(keeper: u32, folder: &Path, name: &str, number: usize) -> Self {
        let role = if number == 1 { "head" } else { "host" };
        let log = fs::File::create(folder.join(name).join("host.log"));
        let mut child = Command::new("nsenter")
            .args(["--net", "--mount", "--pid", "--ipc", "--uts"])
            .args(["--target", &keeper.to_string()])
            .args(["unshare", "--net", "--uts", "--mount", "--pid", "--ipc"])
            .args(["--fork", "--kill-child", "sh", "-c", SCRIPT, "host.sh"])
            .args([name, &files::address(number).to_string()])
            .arg(folder)
            .arg(role)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log.expect("the temporary folder is writable"))
            .spawn()
            .expect("nsenter starts");
        let mut output = BufReader::new(child.stdout.take().expect("a pipe"));
        let mut line = String::new();
        output.read_line(&mut line).expect("a pipe is read");
        let process = line.trim().parse().expect("a host tells its process id");
        let host = Self {
            name: name.to_owned(),
            address: files::address(number),
            folder: folder.join(name),
            child,
            output,
            process,
        };
        host.plug_in(keeper);
        host
    }

    fn plug_in(&self, keeper: u32) {
        let (link, process) = (link_of(&self.name), self.process);
        let script = format!(
            "ip link add {link} type veth peer name eth0 netns {process} &&
             ip link set {link} master br0 up"
        );
        let done = Command::new("nsenter")
            .args([
                "--net",
                "--target",
                &keeper.to_string(),
                "sh",
                "-c",
                &script,
            ])
            .status();
        assert!(done.expect("nsenter starts").success(), "a link is made");
        let mut input = self.child.stdin.as_ref().expect("a pipe");
        writeln!(input, "plugged in").expect("the host reads");
    }

    /// Waits until its daemons run.
    pub(super) fn wait_until_up(&mut self) {
        let mut line = String::new();
        self.output.read_line(&mut line).expect("a pipe is read");
        assert_eq!(
            line,
            "up\n",
            "{} does not come up:\n{}",
            self.name,
            self.logs()
        );
    }

    /// Its address in the lab.
    pub fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its user's home folder.
    pub fn home(&self) -> PathBuf {
        self.folder.join("home")
    }

    /// A program on it in its user's home folder, by root, outside of any job.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        self.command_in(&self.home(), program)
    }

    /// A program on it in `folder`; the working folder of the command itself does not matter.
    pub fn command_in(&self, folder: &Path, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new("nsenter");
        command
            .args(["--net", "--mount", "--pid", "--ipc", "--uts"])
            .args(["--target", &self.process.to_string()])
            // A process that enters a mount namespace is in its root folder.
            .args(["sh", "-c", "cd \"$0\" && exec \"$@\""])
            .arg(folder)
            .arg(program)
            .env("HOME", self.home())
            // Images are built once for all hosts.
            .env("XDG_CACHE_HOME", cache());
        for (name, _) in env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("SLURM_") || text.starts_with("SSH_") {
                command.env_remove(name);
            }
        }
        command
    }

    /// Runs a shell script on it to its end.
    pub fn run(&self, script: &str) -> Ran {
        let output = self.command("sh").args(["-c", script]).output();
        let output = output.expect("nsenter starts");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ran {
            stdout: text(&output.stdout),
            stderr: text(&output.stderr),
            code: output.status.code(),
        }
    }

    /// Calls `work` in a thread with this host's network, where the sockets and devices that it makes
    /// remain, in any thread.
    ///
    /// # Errors
    /// The error of `work`, or the reason if the thread cannot enter the network.
    pub fn in_network<T: Send>(
        &self,
        work: impl FnOnce() -> io::Result<T> + Send,
    ) -> io::Result<T> {
        let network = fs::File::open(format!("/proc/{}/ns/net", self.process))?;
        thread::scope(|scope| {
            let inside = scope.spawn(|| {
                setns(network, CloneFlags::CLONE_NEWNET)?;
                work()
            });
            let done = inside.join();
            done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Its processes, without zombies.
    pub fn processes(&self) -> Vec<Process> {
        let own = fs::read_link(format!("/proc/{}/ns/pid", self.process));
        let Ok(own) = own else { return Vec::new() };
        let ids = fs::read_dir("/proc").expect("there is /proc");
        let ids = ids.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok());
        ids.filter(|id: &u32| {
            let space = fs::read_link(format!("/proc/{id}/ns/pid"));
            space.is_ok_and(|space| space == own)
        })
        .filter_map(|id| {
            let words = fs::read(format!("/proc/{id}/cmdline")).ok()?;
            let words = words.split(|&byte| byte == 0).map(String::from_utf8_lossy);
            let command = words.collect::<Vec<_>>().join(" ");
            // A process without memory has no command line: it has ended.
            (!command.is_empty()).then_some(Process { id, command })
        })
        .collect()
    }

    /// True if one of its processes has `what` in its command line.
    pub fn runs(&self, what: &str) -> bool {
        let mut processes = self.processes().into_iter();
        processes.any(|process| process.command.contains(what))
    }

    /// Interrupts all its processes with this prefix of the command line, as Ctrl-C does.
    pub fn interrupt(&self, what: &str) {
        let processes = self.processes().into_iter();
        for process in processes.filter(|process| process.command.starts_with(what)) {
            signal(process.id, libc::SIGINT);
        }
    }

    /// Stops all its processes; its kernel runs on.
    pub fn freeze(&self) {
        self.signal_all(libc::SIGSTOP);
        thread::sleep(PASS);
        self.signal_all(libc::SIGSTOP);
    }

    /// Continues its processes.
    pub fn thaw(&self) {
        self.signal_all(libc::SIGCONT);
    }

    fn signal_all(&self, number: i32) {
        for process in self.processes() {
            signal(process.id, number);
        }
    }

    /// Kills its first process, and with it all others.
    pub(super) fn kill(&self) {
        signal(self.process, libc::SIGKILL);
    }

    /// The logs of its daemons.
    pub(super) fn logs(&self) -> String {
        let files = fs::read_dir(&self.folder).expect("a host has a folder");
        let mut paths: Vec<PathBuf> = files.filter_map(|file| Some(file.ok()?.path())).collect();
        paths.retain(|path| path.extension().is_some_and(|end| end == "log"));
        paths.sort();
        let log = |path: &PathBuf| {
            let text = fs::read_to_string(path).unwrap_or_default();
            format!("== {}\n{text}\n", path.display())
        };
        paths.iter().map(log).collect()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        self.kill();
        self.child.wait().expect("the host is our child");
    }
}

/// The folder of caches.
fn cache() -> PathBuf {
    let home = || env::home_dir().unwrap_or_default().join(".cache");
    env::var_os("XDG_CACHE_HOME").map_or_else(home, PathBuf::from)
}

/// Sends a signal to a process of the lab.
#[allow(unsafe_code)]
pub(super) fn signal(process: u32, number: i32) {
    let process = i32::try_from(process).expect("a process id");
    // SAFETY: a plain system call; the process belongs to the lab's namespaces.
    unsafe { libc::kill(process, number) };
}
