//! Agents that run as, or through, a child of this process.
//!
//! Separate threads serve the child's input and its two outputs, so that a full pipe does not block the
//! caller. A verdict derives the agent's end from the child's status and output. Called by `local` and
//! `srun`.

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

/// Time for the last standard-error lines after the child's end, as a grandchild may keep the pipe open
/// for ever.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Derives an agent's end from its child's status and the kept lines of standard error.
pub(crate) type Verdict = fn(ExitStatus, &[String]) -> AgentExit;

/// Properties of a kind of child.
pub(crate) struct ChildKind {
    /// True if a line of standard error is kept for the verdict.
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
    /// Kept lines, and after them the end of standard error.
    kept: Receiver<String>,
    verdict: Verdict,
}

/// Starts `command` as the agent on `host`.
pub(crate) fn start(
    host: &str,
    mut command: Command,
    tell: &Tell,
    kind: ChildKind,
) -> io::Result<Agent> {
    // A process group of its own, so that Ctrl-C reaches only the owner, which then ends the agent in
    // order.
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
        // Lines are read even without a receiver, as a full pipe would stop the agent.
        lines::each(stdout, |text| drop(line.send(text)));
    });
    let (keep, kept) = mpsc::channel();
    let (tell, name) = (tell.clone(), host.to_owned());
    thread::spawn(move || {
        let Some(stderr) = stderr else { return };
        lines::each(stderr, |text| {
            tell(&name, &text);
            if (kind.keep)(&text) {
                // The carrier may have ended.
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

/// Starts a thread that writes to the pipe, which may stay full for any time.
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
        // The child is not reaped, so its id is valid.
        if let (Ok(None), Ok(id)) = (self.child.try_wait(), i32::try_from(self.child.id())) {
            // The child may end at this moment, which is the aim.
            let _ = signal::kill(Pid::from_raw(id), signal);
        }
    }
}
