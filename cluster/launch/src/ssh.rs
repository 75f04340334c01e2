//! Agents on hosts that ssh reaches.
//!
//! Connects, verifies the host's key before the user's keys are tried, copies the program if it is
//! missing, and starts the agent. A thread then carries its streams (`pump`). No step waits longer than
//! the limits in [`Ssh`]. Chosen for a list of hosts outside of Slurm.

use std::env;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

use nix::unistd::User;
use ssh2::Channel;

use crate::lines::{self, Tell, to_standard_error};
use crate::{Agent, AgentCommand, Launch, LaunchError};

/// Host addresses: `[USER@]HOST[:PORT]`.
mod address;
/// Files of known hosts, as `sshd(8)` describes them: patterns, hashed names, revoked keys.
mod known;
/// Connecting and authenticating.
mod login;
/// The thread of a connection, between an agent's streams and its owner.
mod pump;
/// Preparation of a host: copies the program if it is missing.
mod remote;

use address::Address;
use login::Connection;
use pump::{Pump, SshCarrier};

/// Starts agents through ssh, one connection for each.
///
/// Host keys must be known, to this user or to this host; the user is let in by ssh-agent or by key
/// files without a passphrase. `~/.ssh/config` is not read. A host without the agent's program receives
/// a copy, `~/.cache/belljar/agents/belljar-HASH`.
///
/// A connection without answers is given up within `keepalive + silence`.
#[derive(Clone)]
pub struct Ssh {
    /// The user on hosts without `USER@`.
    pub user: String,
    /// The port of hosts without `:PORT`.
    pub port: u16,
    /// Private keys, tried in this order after the keys of ssh-agent.
    pub identities: Vec<PathBuf>,
    /// Files of known hosts.
    pub known_hosts: Vec<PathBuf>,
    /// Time limit of each answer until the agent runs.
    pub timeout: Duration,
    /// Interval of keep-alive messages on an idle connection; whole seconds.
    pub keepalive: Duration,
    /// Longest time without an acknowledgement of sent data.
    pub silence: Duration,
    /// Receives lines of agents' standard error.
    pub tell: Tell,
}

impl Default for Ssh {
    fn default() -> Self {
        let home = home();
        let key = |name| home.join(".ssh").join(name);
        Self {
            user: user(),
            port: 22,
            identities: ["id_ed25519", "id_ecdsa", "id_rsa"]
                .map(key)
                .into_iter()
                .filter(|path| path.exists())
                .collect(),
            known_hosts: vec![key("known_hosts"), "/etc/ssh/ssh_known_hosts".into()],
            timeout: Duration::from_secs(10),
            keepalive: Duration::from_secs(5),
            silence: Duration::from_secs(15),
            tell: to_standard_error(),
        }
    }
}

fn home() -> PathBuf {
    env::home_dir().unwrap_or_else(|| "/".into())
}

/// The user of this process.
fn user() -> String {
    let known = User::from_uid(nix::unistd::getuid()).ok().flatten();
    known.map_or_else(|| env::var("USER").unwrap_or_default(), |user| user.name)
}

impl Launch for Ssh {
    fn start(&self, host: &str, agent: &AgentCommand) -> Result<Agent, LaunchError> {
        let program = read_program(&agent.program)?;
        let address = Address::parse(host, &self.user, self.port)?;
        let connection = login::log_in(self, &address)?;
        let session = &connection.session;
        let path = remote::provide(session, host, &program)?;
        let failed = |source| LaunchError::Session {
            host: host.to_owned(),
            action: "starting the agent",
            source,
        };
        let mut channel = session.channel_session().map_err(failed)?;
        let command = remote::agent_command(&path, &agent.arguments);
        channel.exec(&command).map_err(failed)?;
        let process = process_id(&mut channel).map_err(|reason| LaunchError::Remote {
            host: host.to_owned(),
            action: "start the agent",
            reason,
        })?;
        session.set_keepalive(true, u32::try_from(self.keepalive.as_secs()).unwrap_or(1));
        session.set_blocking(false);
        Ok(self.carried(host, connection, channel, process))
    }
}

impl Ssh {
    /// The agent at the other end of `channel`.
    fn carried(&self, host: &str, connection: Connection, channel: Channel, process: u32) -> Agent {
        let (input, inputs) = mpsc::channel();
        let (force, forces) = mpsc::channel();
        let (line, lines) = mpsc::sync_channel(lines::WAITING);
        let (exit, exits) = mpsc::channel();
        let pump = Pump::new(connection, channel, process, line);
        let (tell, name) = (self.tell.clone(), host.to_owned());
        std::thread::spawn(move || {
            pump.run(&inputs, &forces, &exit, |text| tell(&name, text));
        });
        Agent::new(host, input, lines, Box::new(SshCarrier::new(force, exits)))
    }
}

fn read_program(path: &Path) -> Result<Vec<u8>, LaunchError> {
    fs::read(path).map_err(|source| LaunchError::Program {
        path: path.to_owned(),
        source,
    })
}

/// Reads the line with the agent's process id. Earlier output of the user's shell start files is
/// skipped.
fn process_id(channel: &mut Channel) -> Result<u32, String> {
    let mut line = Vec::new();
    let mut passed_over = 0;
    loop {
        let mut byte = [0];
        match channel.read(&mut byte) {
            Ok(0) => return Err("it ended at once".to_owned()),
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.to_string()),
        }
        if byte != *b"\n" {
            line.push(byte[0]);
            passed_over += 1;
            if passed_over > lines::LONGEST {
                return Err("its shell prints endlessly".to_owned());
            }
            continue;
        }
        let text = String::from_utf8_lossy(&line);
        if let Some(id) = text.strip_prefix(remote::PROCESS_ID) {
            return id
                .trim()
                .parse()
                .map_err(|_| format!("it printed {text:?}"));
        }
        line.clear();
    }
}
