//! Why an agent was not started.
//!
//! The messages are for people: they say what was tried and why it failed and, where something can be done,
//! what. Returned by every [`Launch`](crate::Launch).

use std::io;
use std::path::PathBuf;

/// Why an agent was not started.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// A program of this host does not start.
    #[error("{host}: cannot start {program}: {source}{hint}")]
    Start {
        /// The host that the agent was meant for.
        host: String,
        /// The program: the agent's own, or `srun`.
        program: PathBuf,
        /// The system's reason.
        source: io::Error,
        /// What to do about it; begins with `; `, or is empty.
        hint: &'static str,
    },
    /// The agent's program cannot be read, to be copied.
    #[error("cannot read the agent's program {path}: {source}")]
    Program {
        /// Its file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// What names a host does not.
    #[error("`{host}` names no host: {reason}; write [USER@]HOST[:PORT]")]
    HostName {
        /// What was given.
        host: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// No connection.
    #[error("{host}: cannot connect to port {port}: {source}; is sshd running there?")]
    Connect {
        /// The host.
        host: String,
        /// The port.
        port: u16,
        /// The last address's reason.
        source: io::Error,
    },
    /// The host shows a key that this user never accepted.
    #[error(
        "{host}: its {kind} key {fingerprint} is unknown; if it is the right one, accept it \
         with: ssh -p {port} {host} true (known hosts were looked for in {files})"
    )]
    UnknownKey {
        /// The host.
        host: String,
        /// The port.
        port: u16,
        /// The key's type.
        kind: String,
        /// The key's fingerprint, as ssh prints it.
        fingerprint: String,
        /// Where known hosts were looked for.
        files: String,
    },
    /// The host shows another key than the one that is known.
    #[error(
        "{host}: its {kind} key {fingerprint} is another than the one in {known}: somebody may \
         stand between; if the host was set up anew, remove the old one with: ssh-keygen -R {name}"
    )]
    ChangedKey {
        /// The host.
        host: String,
        /// The key's type.
        kind: String,
        /// The key's fingerprint, as ssh prints it.
        fingerprint: String,
        /// File and line that the known key stands in.
        known: String,
        /// The host's name there.
        name: String,
    },
    /// The host shows a key that is marked as revoked.
    #[error("{host}: its {kind} key {fingerprint} is revoked by {known}")]
    RevokedKey {
        /// The host.
        host: String,
        /// The key's type.
        kind: String,
        /// The key's fingerprint, as ssh prints it.
        fingerprint: String,
        /// File and line that revoke it.
        known: String,
    },
    /// The host does not let the user in.
    #[error(
        "{host}: user {user} is not let in; tried {tried}. Add a key with ssh-copy-id, or load one \
         into ssh-agent (a key file with a passphrase works through ssh-agent only)"
    )]
    Refused {
        /// The host.
        host: String,
        /// The user.
        user: String,
        /// What was tried, with the reasons of failure.
        tried: String,
    },
    /// The connection failed in the middle.
    #[error("{host}: {action} failed: {source}")]
    Session {
        /// The host.
        host: String,
        /// What was under way.
        action: &'static str,
        /// What went wrong.
        source: ssh2::Error,
    },
    /// A command on the host failed that prepares the agent.
    #[error("{host}: cannot {action}: {reason}")]
    Remote {
        /// The host.
        host: String,
        /// What was attempted.
        action: &'static str,
        /// What the host said.
        reason: String,
    },
}
