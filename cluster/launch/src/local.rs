//! Agents on this host, as children of this process.
//!
//! The host's name has no effect: several "hosts" may be this one, as in tests. Chosen by a scenario whose
//! `hosts` request processes on this host.

use std::process::Command;

use crate::child::{self, ChildKind};
use crate::lines::{Tell, to_standard_error};
use crate::{Agent, AgentCommand, Launch, LaunchError};

/// Starts agents as children of this process; the host's name is a name only.
#[derive(Clone)]
pub struct Local {
    tell: Tell,
}

impl Local {
    /// Passes lines of agents' standard error to `tell`.
    pub fn new(tell: Tell) -> Self {
        Self { tell }
    }
}

impl Default for Local {
    fn default() -> Self {
        Self::new(to_standard_error())
    }
}

impl Launch for Local {
    fn start(&self, host: &str, agent: &AgentCommand) -> Result<Agent, LaunchError> {
        let mut command = Command::new(&agent.program);
        command.args(&agent.arguments);
        let kind = ChildKind {
            keep: |_| false,
            verdict: child::own_end,
        };
        child::start(host, command, &self.tell, kind).map_err(|source| LaunchError::Start {
            host: host.to_owned(),
            program: agent.program.clone(),
            source,
            hint: "",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    use super::*;
    use crate::{AgentExit, end_all};

    const LONG: Duration = Duration::from_secs(10);

    fn shell(script: &str) -> Agent {
        shell_telling(script, to_standard_error())
    }

    fn shell_telling(script: &str, tell: Tell) -> Agent {
        let agent = AgentCommand {
            program: "/bin/sh".into(),
            arguments: vec!["-c".to_owned(), script.to_owned()],
        };
        Local::new(tell).start("here", &agent).unwrap()
    }

    fn line(agent: &Agent) -> String {
        agent.lines().recv_timeout(LONG).unwrap()
    }

    #[test]
    fn bytes_go_in_and_lines_come_out() {
        let mut agent = shell("read secret; echo got $secret; cat");
        agent.send(b"xyzzy\nmore\n").unwrap();
        assert_eq!(line(&agent), "got xyzzy");
        assert_eq!(line(&agent), "more");
        assert_eq!(agent.exit(), None);
        assert_eq!(agent.end(LONG), AgentExit::Status(0));
        assert!(agent.lines().recv_timeout(LONG).is_err());
    }

    #[test]
    fn statuses_and_signals_are_told_apart() {
        assert_eq!(shell("exit 3").wait(LONG), Some(AgentExit::Status(3)));
        let killed = AgentExit::Signal("SIGKILL".to_owned());
        assert_eq!(shell("kill -9 $$").wait(LONG), Some(killed));
    }

    #[test]
    fn words_for_people_come_with_the_hosts_name() {
        let told = Arc::new(Mutex::new(Vec::new()));
        let to = told.clone();
        let tell: Tell = Arc::new(move |host: &str, line: &str| {
            to.lock().unwrap().push(format!("{host}: {line}"));
        });
        let mut agent = shell_telling("echo one >&2; echo two >&2", tell);
        agent.wait(LONG).unwrap();
        assert_eq!(*told.lock().unwrap(), ["here: one", "here: two"]);
    }

    #[test]
    fn who_hears_nothing_is_ended_by_force() {
        let stubborn = "trap '' TERM; echo ready; while :; do sleep 0.1; done";
        let mut agent = shell(stubborn);
        assert_eq!(line(&agent), "ready");
        let killed = AgentExit::Signal("SIGKILL".to_owned());
        assert_eq!(agent.end(Duration::from_millis(50)), killed);
        let mut deaf = shell("echo ready; while :; do sleep 0.1; done");
        assert_eq!(line(&deaf), "ready");
        let terminated = AgentExit::Signal("SIGTERM".to_owned());
        assert_eq!(deaf.end(Duration::from_millis(50)), terminated);
    }

    #[test]
    fn all_end_in_the_time_of_one() {
        let deaf = || shell("exec sleep 100");
        let mut agents = [deaf(), shell("cat; exit 7"), deaf()];
        let terminated = AgentExit::Signal("SIGTERM".to_owned());
        let expected = [terminated.clone(), AgentExit::Status(7), terminated];
        assert_eq!(end_all(&mut agents, Duration::from_secs(1)), expected);
    }

    #[test]
    fn a_dropped_agent_is_gone() {
        let agent = shell("echo $$; exec sleep 1000");
        let process = format!("/proc/{}", line(&agent));
        assert!(std::path::Path::new(&process).exists());
        drop(agent);
        assert!(!std::path::Path::new(&process).exists());
    }

    #[test]
    fn a_missing_program_is_named() {
        let agent = AgentCommand {
            program: "/nowhere/agent".into(),
            arguments: Vec::new(),
        };
        let error = Local::default().start("here", &agent).unwrap_err();
        assert!(error.to_string().contains("/nowhere/agent"), "{error}");
    }
}
