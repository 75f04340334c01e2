//! Runs the external tools that build images, and finds missing ones.
//!
//! Tools run in a plain environment (no locale, no time zone, no input), so their output depends less on
//! the host. An error has the end of the tool's output. Called by every step of a build, and by `belljar
//! doctor`.

use std::collections::VecDeque;
use std::env;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, Stdio};

/// Lines of a failed command's output that its error shows.
const TAIL: usize = 50;

/// Longest line of a tool's output that is kept, in bytes.
const LONGEST_LINE: u64 = 64 << 10;

/// An error of running a command.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// It could not be started.
    #[error("cannot start {command}: {source}; is it installed?")]
    Start {
        /// The command's name.
        command: String,
        /// System error.
        source: std::io::Error,
    },
    /// It ended with a failure.
    #[error("{command} failed ({status}); it said last:\n{tail}")]
    Failed {
        /// The command's name.
        command: String,
        /// Its exit status, in words.
        status: String,
        /// The end of its output.
        tail: String,
    },
}

impl CommandError {
    /// The same error without the lines for which `wraps` is true, unless it is true for all of them.
    pub(crate) fn without(mut self, wraps: impl Fn(&str) -> bool) -> Self {
        if let Self::Failed { tail, .. } = &mut self {
            let own: Vec<&str> = tail.lines().filter(|line| !wraps(line)).collect();
            if !own.is_empty() {
                *tail = own.join("\n");
            }
        }
        self
    }
}

/// A command that images can't be made without and that is not installed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MissingTool {
    /// Name of the command.
    pub command: &'static str,
    /// Debian and Ubuntu package that has it.
    pub package: &'static str,
    /// Its purpose, as part of a sentence.
    pub why: &'static str,
}

/// The required tools, each with alternative files: one must exist.
const TOOLS: [(MissingTool, &[&str]); 5] = [
    (
        MissingTool {
            command: "apt-get",
            package: "apt",
            why: "tells where packages come from and fetches them",
        },
        &[],
    ),
    (
        MissingTool {
            command: "mmdebstrap",
            package: "mmdebstrap",
            why: "resolves and unpacks the guest's packages",
        },
        &[],
    ),
    (
        MissingTool {
            command: "mkfs.erofs",
            package: "erofs-utils",
            why: "writes the guest's root file system",
        },
        &[],
    ),
    (
        MissingTool {
            command: "dpkg-deb",
            package: "dpkg",
            why: "reads checksums out of packages",
        },
        &[],
    ),
    (
        MissingTool {
            command: "debian-archive-keyring",
            package: "debian-archive-keyring",
            why: "has the keys that Debian's packages are signed with",
        },
        &["/usr/share/keyrings/debian-archive-keyring.gpg"],
    ),
];

/// The tools that building an image needs and this machine lacks, in a fixed order. Without root
/// privileges, `newuidmap` (package uidmap) is one of them.
#[must_use]
pub fn missing_tools() -> Vec<MissingTool> {
    let mut missing: Vec<MissingTool> = TOOLS
        .iter()
        .filter(|(tool, files)| match files {
            [] => !is_installed(tool.command),
            files => !files.iter().any(|file| Path::new(file).exists()),
        })
        .map(|(tool, _)| *tool)
        .collect();
    if !is_root() && !is_installed("newuidmap") {
        missing.push(MissingTool {
            command: "newuidmap",
            package: "uidmap",
            why: "lets packages be unpacked without root privileges",
        });
    }
    missing
}

pub(crate) fn is_root() -> bool {
    // The owner of the process's entry in /proc is its effective user.
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|data| data.uid() == 0)
}

/// Folders of system tools, which are often not in the `PATH` of ordinary users.
const SYSTEM_PATHS: [&str; 3] = ["/usr/sbin", "/sbin", "/usr/local/sbin"];

fn search_path() -> std::ffi::OsString {
    let own = env::var_os("PATH").unwrap_or_default();
    let all = env::split_paths(&own).chain(SYSTEM_PATHS.iter().map(Into::into));
    env::join_paths(all).unwrap_or(own)
}

fn is_installed(command: &str) -> bool {
    env::split_paths(&search_path()).any(|folder| folder.join(command).is_file())
}

/// A command in a plain environment: no locale, no time zone, nothing on its standard input.
pub(crate) fn new(program: &str) -> Command {
    let mut command = Command::new(program);
    command
        .env("PATH", search_path())
        .env("LC_ALL", "C.UTF-8")
        .env("TZ", "UTC")
        .env("DEBIAN_FRONTEND", "noninteractive")
        .env("SOURCE_DATE_EPOCH", "0")
        .stdin(Stdio::null());
    command
}

/// Runs a command and passes each line of its standard error to `line`; standard output is dropped.
pub(crate) fn run(command: &mut Command, line: &mut dyn FnMut(&str)) -> Result<(), CommandError> {
    let name = command.get_program().to_string_lossy().into_owned();
    let start = |source| CommandError::Start {
        command: name.clone(),
        source,
    };
    let mut child = command
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(start)?;
    let mut tail = VecDeque::new();
    if let Some(stream) = child.stderr.take() {
        each_line(stream, &mut |text| {
            line(text);
            if tail.len() == TAIL {
                tail.pop_front();
            }
            tail.push_back(text.to_owned());
        });
    }
    let status = child.wait().map_err(start)?;
    if status.success() {
        return Ok(());
    }
    let tail = tail.into_iter().collect::<Vec<_>>().join("\n");
    Err(CommandError::Failed {
        command: name,
        status: status.to_string(),
        tail,
    })
}

fn each_line(stream: impl Read, line: &mut dyn FnMut(&str)) {
    let mut reader = BufReader::new(stream);
    let mut bytes = Vec::new();
    while reader
        .by_ref()
        .take(LONGEST_LINE)
        .read_until(b'\n', &mut bytes)
        .is_ok_and(|read| read > 0)
    {
        let text = String::from_utf8_lossy(&bytes);
        // Progress bars rewrite their line: only the last state is reported.
        let text = text.trim_end().rsplit('\r').next().unwrap_or_default();
        if !text.is_empty() {
            line(text);
        }
        bytes.clear();
    }
}

/// Runs a command and returns its standard output.
pub(crate) fn output(command: &mut Command) -> Result<String, CommandError> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(|source| CommandError::Start {
        command: name.clone(),
        source,
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let tail = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(CommandError::Failed {
        command: name,
        status: output.status.to_string(),
        tail,
    })
}

/// A path as one word for a shell.
pub(crate) fn quoted(path: &Path) -> String {
    format!("'{}'", path.to_string_lossy().replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_shows_the_command_s_last_words() {
        let mut shell = new("sh");
        shell.args(["-c", "printf 'one\\rtwo\\n' >&2; echo three >&2; exit 7"]);
        let mut lines = Vec::new();
        let error = run(&mut shell, &mut |line| lines.push(line.to_owned())).expect_err("fails");
        assert_eq!(lines, ["two", "three"]);
        let text = error.to_string();
        assert!(text.contains("sh failed") && text.contains('7') && text.ends_with("two\nthree"));
    }

    #[test]
    fn the_last_line_is_the_error_itself() {
        let failed = |tail: &str| CommandError::Failed {
            command: "tool".to_owned(),
            status: "1".to_owned(),
            tail: tail.to_owned(),
        };
        let words = |tail: &str| failed(tail).without(|line| line.starts_with("I: "));
        let last = |tail: &str| words(tail).to_string();
        let all = last("I: starts\none\nx.c: error\nI: removing\nI: done");
        assert!(all.ends_with(":\none\nx.c: error"), "{all}");
        assert!(last("I: only").ends_with("I: only"));
    }

    #[test]
    fn a_command_that_is_not_there_is_named() {
        let error = run(&mut new("belljar-no-such-tool"), &mut |_| {}).expect_err("fails");
        assert!(error.to_string().contains("belljar-no-such-tool"));
        assert!(!is_installed("belljar-no-such-tool") && is_installed("sh"));
    }

    #[test]
    fn quotes_survive_quoting() {
        let path = Path::new("/a b/it's");
        let mut shell = new("sh");
        shell.args(["-c", &format!("printf %s {}", quoted(path))]);
        assert_eq!(output(&mut shell).expect("prints"), "/a b/it's");
    }
}
