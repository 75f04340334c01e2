//! How two hosts of a run make sure of each other: the Noise protocol framework's pattern
//! `NNpsk0` (revision 34, section 9.4), with the run's key as pre-shared key. Who has no
//! key cannot send a first message that is accepted, and cannot read an answer. Each message
//! says who it is from and who it is for, so that one which was recorded is of no use at
//! another host.
//!
//! ```text
//! dialling  → psk, e        its index, the other's
//! listening ← e, ee         its index, the other's
//! ```
//!
//! Host time decides how long the other side may take; nothing else depends on it.
#![allow(clippy::disallowed_methods)]

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use snow::{Builder, HandshakeState, StatelessTransportState};

use crate::key::RunKey;

const PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";
/// Both sides must speak this.
const PROLOGUE: &[u8] = b"belljar peers 2";
/// How long the other side may take over all that it has to say.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest message: keys, two indexes, and what the cipher adds.
const LONGEST: usize = 256;

/// Why a connection did not come about.
#[derive(Debug, thiserror::Error)]
pub enum HandshakeError {
    /// The connection broke, or nothing came.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// The other side has not the run's key, or is something else altogether.
    #[error("it does not have the run's key")]
    Stranger,
    /// It is another host than expected.
    #[error("it says that it is host {0}, which is not awaited here")]
    Other(u32),
    /// It calls another host than this one; a message that was recorded, perhaps.
    #[error("it calls host {0}, which this is not")]
    Misdirected(u32),
}

/// Who a message is from, and who it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ends {
    from: u32,
    to: u32,
}

/// What is read of a connection within a time, however it comes.
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

/// A connection both ends of which are sure of each other.
pub(crate) struct Secured {
    pub(crate) stream: TcpStream,
    pub(crate) state: StatelessTransportState,
    /// The other end's index.
    pub(crate) peer: u32,
}

impl From<snow::Error> for HandshakeError {
    fn from(_: snow::Error) -> Self {
        Self::Stranger
    }
}

/// Makes sure of `peer`, to which `stream` was dialled by host `own`.
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

/// Makes sure of who dialled host `own`.
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
    // Those with lower numbers dial.
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

/// Until when the other side must have said what it has to say.
fn prepare(stream: &TcpStream) -> io::Result<Instant> {
    // Rounds wait for single messages.
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

/// Who a message is from, which is for host `own`.
fn read(
    mut stream: impl Read,
    state: &mut HandshakeState,
    own: u32,
) -> Result<u32, HandshakeError> {
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let length = usize::from(u16::from_be_bytes(length));
    let mut message = [0; LONGEST];
    // Whatever talks to a port by chance says something of another length.
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
