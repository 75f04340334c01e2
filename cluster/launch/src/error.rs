//! Errors of starting an agent.
//!
//! The messages name the attempted action, the reason of its failure and, if possible, a remedy. Returned
//! by every [`Launch`](crate::Launch).

use std::io;
use std::path::PathBuf;

/// An error of starting an agent.
#[derive(Debug, thiserror::Error)]
pub enum LaunchError {
    /// A program of this host cannot be started.
    #[error("{host}: cannot start {program}: {source}{hint}")]
    Start {
        /// The agent's host.
        host: String,
        /// The program: the agent's own, or `srun`.
        program: PathBuf,
        /// The system's reason.
        source: io::Error,
        /// The remedy; begins with `; `, or is empty.
        hint: &'static str,
    },
    /// The agent's program cannot be read for copying.
    #[error("cannot read the agent's program {path}: {source}")]
    Program {
        /// Its file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// An invalid host name.
    #[error("`{host}` is not a host: {reason}; write [USER@]HOST[:PORT]")]
    HostName {
        /// The name.
        host: String,
        /// The reason.
        reason: &'static str,
    },
    /// The connection failed.
    #[error("{host}: cannot connect to port {port}: {source}; is sshd running there?")]
    Connect {
        /// The host.
        host: String,
        /// The port.
        port: u16,
        /// The last address's reason.
        source: io::Error,
    },
    /// The host has an unknown key.
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
        /// The files of known hosts that were searched.
        files: String,
    },
    /// The host's key differs from the known one.
    #[error(
        "{host}: its {kind} key {fingerprint} differs from the one in {known}: the connection may be intercepted; if the host was reinstalled, remove the old key with: ssh-keygen -R {name}"
    )]
    ChangedKey {
        /// The host.
        host: String,
        /// The key's type.
        kind: String,
        /// The key's fingerprint, as ssh prints it.
        fingerprint: String,
        /// File and line of the known key.
        known: String,
        /// The host's name in that file.
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
        /// File and line of the revocation.
        known: String,
    },
    /// The host rejects the user.
    #[error(
        "{host}: user {user} cannot log in; tried {tried}. Add a key with ssh-copy-id, or load one into ssh-agent (a key file with a passphrase works through ssh-agent only)"
    )]
    Refused {
        /// The host.
        host: String,
        /// The user.
        user: String,
        /// The attempted methods, with reasons of failure.
        tried: String,
    },
    /// The connection failed during an action.
    #[error("{host}: {action} failed: {source}")]
    Session {
        /// The host.
        host: String,
        /// The action.
        action: &'static str,
        /// The reason.
        source: ssh2::Error,
    },
    /// A command that prepares the agent failed on the host.
    #[error("{host}: cannot {action}: {reason}")]
    Remote {
        /// The host.
        host: String,
        /// The action.
        action: &'static str,
        /// The host's error message.
        reason: String,
    },
}
