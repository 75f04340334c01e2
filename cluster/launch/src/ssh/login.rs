//! Connecting and authenticating: from a host's name to a session.
//!
//! The host's key is checked before the user's keys are tried. Only key authentication is used:
//! ssh-agent first, then key files. A failed step is a [`LaunchError`] that names the step. Called by
//! [`Ssh`](super::Ssh).

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::path::PathBuf;
use std::time::Duration;

use nix::sys::socket::{setsockopt, sockopt};
use ssh2::{MethodType, Session};

use super::Ssh;
use super::address::Address;
use super::known::{self, KnownHosts, Verdict};
use crate::LaunchError;

/// Algorithms for host keys, by preference; types of the host's known keys come first.
const HOST_KEYS: &[&str] = &[
    "ssh-ed25519",
    "ecdsa-sha2-nistp256",
    "ecdsa-sha2-nistp384",
    "ecdsa-sha2-nistp521",
    "rsa-sha2-512",
    "rsa-sha2-256",
];

/// A session and its socket.
pub(super) struct Connection {
    pub(super) session: Session,
    /// The socket of the session.
    pub(super) socket: TcpStream,
}

/// Connects, verifies the host's key, and authenticates the user.
pub(super) fn log_in(ssh: &Ssh, to: &Address) -> Result<Connection, LaunchError> {
    let connected = connect(ssh, to).and_then(|stream| Ok((stream.try_clone()?, stream)));
    let (stream, socket) = connected.map_err(|source| LaunchError::Connect {
        host: to.given.clone(),
        port: to.port,
        source,
    })?;
    let known = KnownHosts::read(&ssh.known_hosts);
    let session = shake_hands(ssh, to, stream, &known).map_err(|source| LaunchError::Session {
        host: to.given.clone(),
        action: "agreeing on keys",
        source,
    })?;
    check_key(ssh, to, &session, &known)?;
    authenticate(ssh, to, &session)?;
    Ok(Connection { session, socket })
}

fn connect(ssh: &Ssh, to: &Address) -> io::Result<TcpStream> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    for address in (to.host.as_str(), to.port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&address, ssh.timeout) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                let silence = u32::try_from(ssh.silence.as_millis()).unwrap_or(u32::MAX);
                setsockopt(&stream, sockopt::TcpUserTimeout, &silence)?;
                return Ok(stream);
            }
            Err(error) => last = error,
        }
    }
    Err(last)
}

fn shake_hands(
    ssh: &Ssh,
    to: &Address,
    stream: TcpStream,
    known: &KnownHosts,
) -> Result<Session, ssh2::Error> {
    let mut session = Session::new()?;
    session.set_timeout(milliseconds(ssh.timeout));
    session.set_tcp_stream(stream);
    let preferred = preferred_keys(&known.kinds(&to.known_as()));
    session.method_pref(MethodType::HostKey, &preferred.join(","))?;
    session.handshake()?;
    Ok(session)
}

/// Host key algorithms, with the types in `kinds` first.
fn preferred_keys(kinds: &[&str]) -> Vec<&'static str> {
    let is_known = |algorithm: &&&str| {
        let rsa = algorithm.starts_with("rsa-") && kinds.contains(&"ssh-rsa");
        rsa || kinds.contains(*algorithm)
    };
    let known = HOST_KEYS.iter().filter(is_known);
    let unknown = HOST_KEYS.iter().filter(|algorithm| !is_known(algorithm));
    known.chain(unknown).copied().collect()
}

fn check_key(
    ssh: &Ssh,
    to: &Address,
    session: &Session,
    known: &KnownHosts,
) -> Result<(), LaunchError> {
    let key = session.host_key().map_or(&[][..], |(key, _)| key);
    let host = to.given.clone();
    let (kind, fingerprint) = (known::kind(key).to_owned(), known::fingerprint(key));
    let name = to.known_as();
    match known.judge(&name, key) {
        Verdict::Known => Ok(()),
        Verdict::Unknown => Err(LaunchError::UnknownKey {
            host: to.host.clone(),
            port: to.port,
            kind,
            fingerprint,
            files: listed(&ssh.known_hosts),
        }),
        Verdict::Changed(known) => Err(LaunchError::ChangedKey {
            host,
            kind,
            fingerprint,
            known,
            name,
        }),
        Verdict::Revoked(known) => Err(LaunchError::RevokedKey {
            host,
            kind,
            fingerprint,
            known,
        }),
    }
}

fn listed(files: &[PathBuf]) -> String {
    let names: Vec<String> = files
        .iter()
        .map(|file| file.display().to_string())
        .collect();
    names.join(" and ")
}

/// Tries all keys of ssh-agent, then the key files.
fn authenticate(ssh: &Ssh, to: &Address, session: &Session) -> Result<(), LaunchError> {
    let mut tried = Vec::new();
    match with_agent(session, &to.user) {
        Ok(()) => return Ok(()),
        Err(error) => tried.push(format!("ssh-agent ({error})")),
    }
    for path in &ssh.identities {
        match session.userauth_pubkey_file(&to.user, None, path, None) {
            Ok(()) => return Ok(()),
            Err(error) => tried.push(format!("{} ({})", path.display(), error.message())),
        }
    }
    Err(LaunchError::Refused {
        host: to.given.clone(),
        user: to.user.clone(),
        tried: tried.join(", "),
    })
}

fn with_agent(session: &Session, user: &str) -> Result<(), String> {
    let words = |error: ssh2::Error| error.message().to_owned();
    let mut agent = session.agent().map_err(words)?;
    agent.connect().map_err(words)?;
    agent.list_identities().map_err(words)?;
    let mut last = "it has no keys".to_owned();
    for identity in agent.identities().map_err(words)? {
        match agent.userauth(user, &identity) {
            Ok(()) => return Ok(()),
            Err(error) => last = words(error),
        }
    }
    Err(last)
}

/// In libssh2's unit; zero would wait for ever.
fn milliseconds(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_asked_for_the_keys_that_are_known() {
        assert_eq!(preferred_keys(&[])[0], "ssh-ed25519");
        assert_eq!(
            preferred_keys(&["ssh-rsa"])[..2],
            ["rsa-sha2-512", "rsa-sha2-256"]
        );
        let some = preferred_keys(&["ecdsa-sha2-nistp256", "sk-unheard-of"]);
        assert_eq!(
            (some[0], some.len()),
            ("ecdsa-sha2-nistp256", HOST_KEYS.len())
        );
    }
}
