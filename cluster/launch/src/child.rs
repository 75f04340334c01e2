//! Agents that a child of this process is, or stands for.
//!
//! A thread each for what is written to the child and for its two outputs, so that no full pipe holds the
//! caller up. How the agent ended is a verdict over the child's status and what it said. Called by `local`
//! and `srun`.

use std::io::{self, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;

use crate::agent::{Agent, AgentExit, Carrier, Force, Input};
use crate::lines::{self, Tell};
use crate::signals;

/// How long the last lines for people have to come through after the child's end; a
/// grandchild may hold the pipe open for ever.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Says how the agent ended, from its child's status and the lines it wrote for people
/// that were kept.
pub(crate) type Verdict = fn(ExitStatus, &[String]) -> AgentExit;

/// What is particular about a kind of child.
pub(crate) struct Kind {
    /// Whether a line written for people is kept for the verdict.
    pub(crate) keep: fn(&str) -> bool,
    pub(crate) verdict: Verdict,
}

/// The end of a child that is the agent itself.
pub(crate) fn own_end(status: ExitStatus, _: &[String]) -> AgentExit {
    match (status.code(), status.signal()) {
        (Some(code), _) => AgentExit::Status(code),
        (None, Some(number)) => AgentExit::Signal(signals::name(number)),
        (None, None) => AgentExit::Lost(status.to_string()),
    }
}

struct ChildCarrier {
    child: Child,
    /// Lines kept, and after them the end of standard error.
    kept: Receiver<String>,
    verdict: Verdict,
}

/// Starts `command` as the agent on `host`.
pub(crate) fn start(
    host: &str,
    mut command: Command,
    tell: &Tell,
    kind: Kind,
) -> io::Result<Agent> {
    // In a group of its own: Ctrl-C is for whoever started it, who then ends it in order.
    command
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command.spawn()?;
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let input = write_to(stdin);
    let (line, lines) = mpsc::sync_channel(lines::WAITING);
    thread::spawn(move || {
        let Some(stdout) = stdout else { return };
        // Where nobody takes lines any more they are still read: a full pipe would stop
        // the agent.
        lines::each(stdout, |text| drop(line.send(text)));
    });
    let (keep, kept) = mpsc::channel();
    let (tell, name) = (tell.clone(), host.to_owned());
    thread::spawn(move || {
        let Some(stderr) = stderr else { return };
        lines::each(stderr, |text| {
            tell(&name, &text);
            if (kind.keep)(&text) {
                // The carrier may be gone.
                let _ = keep.send(text);
            }
        });
    });
    let carrier = ChildCarrier {
        child,
        kept,
        verdict: kind.verdict,
    };
    Ok(Agent::new(host, input, lines, Box::new(carrier)))
}

/// A thread that writes what it is given: a pipe may be full for as long as it likes.
fn write_to(pipe: Option<ChildStdin>) -> Sender<Input> {
    let (input, inputs) = mpsc::channel();
    thread::spawn(move || {
        let Some(mut pipe) = pipe else { return };
        while let Ok(Input::Bytes(bytes)) = inputs.recv() {
            if pipe.write_all(&bytes).is_err() {
                break;
            }
        }
    });
    input
}

impl Carrier for ChildCarrier {
    fn exit(&mut self) -> Option<AgentExit> {
        let status = match self.child.try_wait() {
            Ok(status) => status?,
            Err(error) => return Some(AgentExit::Lost(error.to_string())),
        };
        let mut kept = Vec::new();
        while let Ok(line) = self.kept.recv_timeout(LAST_WORDS) {
            kept.push(line);
        }
        Some((self.verdict)(status, &kept))
    }

    fn force(&mut self, force: Force) {
        let signal = match force {
            Force::Terminate => Signal::SIGTERM,
            Force::Kill => Signal::SIGKILL,
        };
        // It is not reaped yet, or `exit` would have told; so the id is still its own.
        if let (Ok(None), Ok(id)) = (self.child.try_wait(), i32::try_from(self.child.id())) {
            // It may end this moment, which is what is wanted.
            let _ = signal::kill(Pid::from_raw(id), signal);
        }
    }
}
