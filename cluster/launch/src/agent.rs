//! A started agent, from its owner's side.
//!
//! Holds the streams of the agent and its [`Carrier`](agent::Carrier): a child of this process or a connection. No call
//! waits for an agent without a bound, and dropping an [`Agent`] ends it. Every way to launch (local, srun, ssh) returns
//! one; `cluster/src/hosts/muster.rs` owns the agents of a run.

use std::fmt;
use std::sync::mpsc::{Receiver, Sender};
use std::time::Duration;

use crate::deadline::Deadline;

/// Time that an agent has after a signal, before a stronger one.
const GRACE: Duration = Duration::from_secs(2);
/// Time that a dropped agent has after the end of its input.
const DROPPED: Duration = Duration::from_millis(200);

/// The end of an agent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AgentExit {
    /// The process ended with this status.
    Status(i32),
    /// A signal of this name, such as `SIGKILL`, ended the process.
    Signal(String),
    /// Unknown: its host or the connection to it is lost, for this reason.
    Lost(String),
}

impl fmt::Display for AgentExit {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(to, "it ended with status {status}"),
            Self::Signal(name) => write!(to, "it was ended by {name}"),
            Self::Lost(why) => write!(to, "it was lost: {why}"),
        }
    }
}

/// The agent accepts no more input: it has ended, or its input was closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the agent takes no more input")]
pub struct Gone;

/// A command for an agent's input.
#[derive(Debug)]
pub(crate) enum Input {
    /// Bytes to write, dropped afterwards.
    Bytes(Vec<u8>),
    /// The end of the input.
    End,
}

/// Ways to end an agent, the second one stronger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Force {
    /// SIGTERM.
    Terminate,
    /// SIGKILL; if it cannot be delivered, the connection is closed.
    Kill,
}

/// The carrier of an agent: a child of this process, or a connection.
pub(crate) trait Carrier: Send {
    /// Returns the agent's end, or `None` while it runs; does not wait.
    fn exit(&mut self) -> Option<AgentExit>;
    /// Requests the agent's end; does not wait.
    fn force(&mut self, force: Force);
}

/// A started agent. Dropping it ends the agent.
pub struct Agent {
    host: String,
    input: Sender<Input>,
    lines: Receiver<String>,
    carrier: Box<dyn Carrier>,
    exit: Option<AgentExit>,
}

impl fmt::Debug for Agent {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = to.debug_struct("Agent");
        shown.field("host", &self.host).field("exit", &self.exit);
        shown.finish_non_exhaustive()
    }
}

impl Agent {
    pub(crate) fn new(
        host: &str,
        input: Sender<Input>,
        lines: Receiver<String>,
        carrier: Box<dyn Carrier>,
    ) -> Self {
        Self {
            host: host.to_owned(),
            input,
            lines,
            carrier,
            exit: None,
        }
    }

    /// The host, as it was named to [`Launch::start`](crate::Launch::start).
    pub fn host(&self) -> &str {
        &self.host
    }

    /// Sends bytes to its standard input. Returns before they arrive: an agent that does not read blocks no caller.
    ///
    /// # Errors
    /// If the agent has ended or its input is closed.
    pub fn send(&self, bytes: &[u8]) -> Result<(), Gone> {
        let input = Input::Bytes(bytes.to_vec());
        self.input.send(input).map_err(|_| Gone)
    }

    /// Closes its standard input after all sent bytes, which requests its end.
    pub fn close_input(&self) {
        // An agent that has ended needs no request.
        let _ = self.input.send(Input::End);
    }

    /// Lines of its standard output, without their ends; lines over 64 KiB are split. Disconnected after the last one. Use
    /// `recv_timeout`: an agent may stay silent. An agent blocks after 1,024 unread lines.
    pub fn lines(&self) -> &Receiver<String> {
        &self.lines
    }

    /// Its end, or `None` while it runs.
    pub fn exit(&mut self) -> Option<AgentExit> {
        if self.exit.is_none() {
            self.exit = self.carrier.exit();
        }
        self.exit.clone()
    }

    /// Waits for its end, for `patience` at most.
    pub fn wait(&mut self, patience: Duration) -> Option<AgentExit> {
        Deadline::after(patience).until_some(|| self.exit())
    }

    /// Ends the agent: closes its input, after `patience` sends SIGTERM, then SIGKILL, and then gives it up as lost. Takes
    /// no longer than `patience` and four seconds.
    pub fn end(&mut self, patience: Duration) -> AgentExit {
        self.close_input();
        if let Some(exit) = self.wait(patience) {
            return exit;
        }
        for force in [Force::Terminate, Force::Kill] {
            self.carrier.force(force);
            if let Some(exit) = self.wait(GRACE) {
                return exit;
            }
        }
        let lost = AgentExit::Lost("it did not answer SIGKILL".to_owned());
        self.exit.get_or_insert(lost).clone()
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        if self.exit().is_none() {
            self.end(DROPPED);
        }
    }
}

/// Applies [`Agent::end`] to all `agents` at once, within the time of one.
pub fn end_all(agents: &mut [Agent], patience: Duration) -> Vec<AgentExit> {
    let each = |agents: &mut [Agent], act: &mut dyn FnMut(&mut Agent)| {
        let going = agents.iter_mut().filter_map(|agent| {
            let goes_on = agent.exit().is_none();
            goes_on.then_some(agent)
        });
        going.for_each(act);
    };
    each(agents, &mut |agent| agent.close_input());
    let mut time = patience;
    for force in [Force::Terminate, Force::Kill] {
        let deadline = Deadline::after(time);
        let all_ended = |agents: &mut [Agent]| {
            let mut ended = true;
            each(agents, &mut |_| ended = false);
            ended.then_some(())
        };
        if deadline.until_some(|| all_ended(agents)).is_some() {
            break;
        }
        each(agents, &mut |agent| agent.carrier.force(force));
        time = GRACE;
    }
    let last = Deadline::after(GRACE);
    let end = |agent: &mut Agent| {
        let exit = last.until_some(|| agent.exit());
        let lost = || AgentExit::Lost("it did not answer SIGKILL".to_owned());
        agent.exit.get_or_insert(exit.unwrap_or_else(lost)).clone()
    };
    agents.iter_mut().map(end).collect()
}
