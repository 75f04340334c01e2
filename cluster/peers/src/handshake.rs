//! Mutual authentication of two hosts: the Noise protocol framework's pattern `NNpsk0`
//! (revision 34, section 9.4), with the run's key as pre-shared key. Without the key, a host
//! can neither send an acceptable first message nor read an answer. Each message names its
//! sender and its receiver, so that a recorded one is useless at another host.
//!
//! ```text
//! dialling  → psk, e        its index, the other's
//! listening ← e, ee         its index, the other's
//! ```
//!
//! Host time limits the handshake, and affects nothing else.
#![allow(clippy::disallowed_methods)]

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use snow::{Builder, HandshakeState, StatelessTransportState};

use crate::key::RunKey;

const PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";
/// Version of the handshake, equal on both sides.
const PROLOGUE: &[u8] = b"belljar peers 2";
/// Time limit of the whole handshake.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest message: keys, two indexes, and the cipher's overhead.
const LONGEST: usize = 256;

/// Reasons of a failed handshake.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// The connection broke, or timed out.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The peer lacks the run's key, or speaks another protocol.
    #[error("it does not have the run's key")]
    Stranger,
    /// The peer is another host than expected.
    #[error("it is host {0}, which is not expected here")]
    Other(u32),
    /// The peer expects another host than this one; the message may be a replayed one.
    #[error("it asked for host {0}, and this is another host")]
    Misdirected(u32),
}

/// Sender and receiver of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ends {
    from: u32,
    to: u32,
}

/// A reader of a stream with a deadline for all of its data.
struct Impatient<'a> {
    stream: &'a TcpStream,
    until: Instant,
}

impl Read for Impatient<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = self.until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.stream.set_read_timeout(Some(left))?;
        self.stream.read(into)
    }
}

/// A connection with both ends authenticated.
pub(crate) struct Secured {
    pub(crate) stream: TcpStream,
    pub(crate) state: StatelessTransportState,
    /// The peer's index.
    pub(crate) peer: u32,
}

impl From<snow::Error> for HandshakeError {
    fn from(_: snow::Error) -> Self {
        Self::Stranger
    }
}

/// Authenticates `peer`, to which host `own` dialled `stream`.
pub(crate) fn dial(
    mut stream: TcpStream,
    key: &RunKey,
    own: u32,
    peer: u32,
) -> Result<Secured, HandshakeError> {
    let until = prepare(&stream)?;
    let mut state = builder(key)?.build_initiator()?;
    let ends = Ends {
        from: own,
        to: peer,
    };
    write(&mut stream, &mut state, ends)?;
    let said = Impatient {
        stream: &stream,
        until,
    };
    let found = read(said, &mut state, own)?;
    if found != peer {
        return Err(HandshakeError::Other(found));
    }
    let state = state.into_stateless_transport_mode()?;
    Ok(Secured {
        stream,
        state,
        peer,
    })
}

/// Authenticates the host that dialled host `own`.
pub(crate) fn answer(
    mut stream: TcpStream,
    key: &RunKey,
    own: u32,
) -> Result<Secured, HandshakeError> {
    let until = prepare(&stream)?;
    let mut state = builder(key)?.build_responder()?;
    let said = Impatient {
        stream: &stream,
        until,
    };
    let peer = read(said, &mut state, own)?;
    // Hosts with lower numbers dial.
    if peer >= own {
        return Err(HandshakeError::Other(peer));
    }
    let ends = Ends {
        from: own,
        to: peer,
    };
    write(&mut stream, &mut state, ends)?;
    let state = state.into_stateless_transport_mode()?;
    Ok(Secured {
        stream,
        state,
        peer,
    })
}

/// Sets up the stream, and returns the deadline of the handshake.
fn prepare(stream: &TcpStream) -> io::Result<Instant> {
    // Single messages must not be delayed, as rounds wait for them.
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(PATIENCE))?;
    Ok(Instant::now() + PATIENCE)
}

fn builder(key: &RunKey) -> Result<Builder<'_>, snow::Error> {
    let pattern = PATTERN.parse()?;
    Builder::new(pattern)
        .prologue(PROLOGUE)?
        .psk(0, key.bytes())
}

fn write(stream: &mut impl Write, state: &mut HandshakeState, ends: Ends) -> io::Result<()> {
    let mut message = [0; LONGEST];
    let ends = [ends.from.to_be_bytes(), ends.to.to_be_bytes()].concat();
    let length = state
        .write_message(&ends, &mut message)
        .map_err(io::Error::other)?;
    let mut bytes = (length as u16).to_be_bytes().to_vec();
    bytes.extend_from_slice(&message[..length]);
    stream.write_all(&bytes)
}

/// Reads the sender of a message for host `own`.
fn read(
    mut stream: impl Read,
    state: &mut HandshakeState,
    own: u32,
) -> Result<u32, HandshakeError> {
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let length = usize::from(u16::from_be_bytes(length));
    let mut message = [0; LONGEST];
    // Other protocols send messages of other lengths.
    let message = message.get_mut(..length).ok_or(HandshakeError::Stranger)?;
    stream.read_exact(message)?;
    let mut payload = [0; LONGEST];
    let length = state.read_message(message, &mut payload)?;
    let ([from, to], []) = payload[..length].as_chunks::<4>() else {
        return Err(HandshakeError::Stranger);
    };
    match u32::from_be_bytes(*to) {
        to if to == own => Ok(u32::from_be_bytes(*from)),
        to => Err(HandshakeError::Misdirected(to)),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Both ends of a connection.
    pub(crate) fn pair() -> (StatelessTransportState, StatelessTransportState) {
        let key = RunKey::generate().unwrap();
        let mut dialling = builder(&key).unwrap().build_initiator().unwrap();
        let mut listening = builder(&key).unwrap().build_responder().unwrap();
        let mut wire = Vec::new();
        write(&mut wire, &mut dialling, Ends { from: 1, to: 2 }).unwrap();
        assert_eq!(read(&wire[..], &mut listening, 2).unwrap(), 1);
        wire.clear();
        write(&mut wire, &mut listening, Ends { from: 2, to: 1 }).unwrap();
        assert_eq!(read(&wire[..], &mut dialling, 1).unwrap(), 2);
        (
            dialling.into_stateless_transport_mode().unwrap(),
            listening.into_stateless_transport_mode().unwrap(),
        )
    }

    #[test]
    fn what_was_said_to_one_host_is_of_no_use_at_another() {
        let key = RunKey::generate().unwrap();
        let mut dialling = builder(&key).unwrap().build_initiator().unwrap();
        let mut recorded = Vec::new();
        write(&mut recorded, &mut dialling, Ends { from: 0, to: 1 }).unwrap();
        let listening = || builder(&key).unwrap().build_responder().unwrap();
        let error = read(&recorded[..], &mut listening(), 2).unwrap_err();
        assert!(matches!(error, HandshakeError::Misdirected(1)), "{error}");
        assert_eq!(read(&recorded[..], &mut listening(), 1).unwrap(), 0);
    }

    #[test]
    fn another_key_opens_nothing() {
        let keys = [RunKey::generate().unwrap(), RunKey::generate().unwrap()];
        let mut dialling = builder(&keys[0]).unwrap().build_initiator().unwrap();
        let mut listening = builder(&keys[1]).unwrap().build_responder().unwrap();
        let mut wire = Vec::new();
        write(&mut wire, &mut dialling, Ends { from: 1, to: 2 }).unwrap();
        let error = read(&wire[..], &mut listening, 2).unwrap_err();
        assert!(matches!(error, HandshakeError::Stranger));
        let mut listening = builder(&keys[0]).unwrap().build_responder().unwrap();
        let error = read(&b"GET / HTTP/1.1\r\n"[..], &mut listening, 2).unwrap_err();
        assert!(matches!(error, HandshakeError::Stranger));
    }
}
