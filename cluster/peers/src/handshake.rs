//! How two hosts of a run make sure of each other: the Noise protocol framework's pattern
//! `NNpsk0` (revision 34, section 9.4), with the run's key as pre-shared key. Who has no
//! key cannot send a first message that is accepted, and cannot read an answer.
//!
//! ```text
//! dialling  → psk, e        its index
//! listening ← e, ee         its index
//! ```

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use snow::{Builder, HandshakeState, StatelessTransportState};

use crate::key::RunKey;

const PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";
/// Both sides must speak this.
const PROLOGUE: &[u8] = b"belljar peers 1";
/// How long the other side may take over a message.
const PATIENCE: Duration = Duration::from_secs(10);
/// Longest message: keys, an index, and what the cipher adds.
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
    prepare(&stream)?;
    let mut state = builder(key)?.build_initiator()?;
    write(&mut stream, &mut state, own)?;
    let found = read(&mut stream, &mut state)?;
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
    prepare(&stream)?;
    let mut state = builder(key)?.build_responder()?;
    let peer = read(&mut stream, &mut state)?;
    // Those with lower numbers dial.
    if peer >= own {
        return Err(HandshakeError::Other(peer));
    }
    write(&mut stream, &mut state, own)?;
    let state = state.into_stateless_transport_mode()?;
    Ok(Secured {
        stream,
        state,
        peer,
    })
}

fn prepare(stream: &TcpStream) -> io::Result<()> {
    // Rounds wait for single messages.
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))
}

fn builder(key: &RunKey) -> Result<Builder<'_>, snow::Error> {
    let pattern = PATTERN.parse()?;
    Builder::new(pattern)
        .prologue(PROLOGUE)?
        .psk(0, key.bytes())
}

fn write(stream: &mut impl Write, state: &mut HandshakeState, own: u32) -> io::Result<()> {
    let mut message = [0; LONGEST];
    let length = state
        .write_message(&own.to_be_bytes(), &mut message)
        .map_err(io::Error::other)?;
    let mut bytes = (length as u16).to_be_bytes().to_vec();
    bytes.extend_from_slice(&message[..length]);
    stream.write_all(&bytes)
}

fn read(stream: &mut impl Read, state: &mut HandshakeState) -> Result<u32, HandshakeError> {
    let mut length = [0; 2];
    stream.read_exact(&mut length)?;
    let length = usize::from(u16::from_be_bytes(length));
    let mut message = [0; LONGEST];
    // Whatever talks to a port by chance says something of another length.
    let message = message.get_mut(..length).ok_or(HandshakeError::Stranger)?;
    stream.read_exact(message)?;
    let mut payload = [0; LONGEST];
    let length = state.read_message(message, &mut payload)?;
    let index = payload[..length].try_into();
    Ok(u32::from_be_bytes(
        index.map_err(|_| HandshakeError::Stranger)?,
    ))
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
        write(&mut wire, &mut dialling, 1).unwrap();
        assert_eq!(read(&mut &wire[..], &mut listening).unwrap(), 1);
        wire.clear();
        write(&mut wire, &mut listening, 2).unwrap();
        assert_eq!(read(&mut &wire[..], &mut dialling).unwrap(), 2);
        (
            dialling.into_stateless_transport_mode().unwrap(),
            listening.into_stateless_transport_mode().unwrap(),
        )
    }

    #[test]
    fn another_key_opens_nothing() {
        let keys = [RunKey::generate().unwrap(), RunKey::generate().unwrap()];
        let mut dialling = builder(&keys[0]).unwrap().build_initiator().unwrap();
        let mut listening = builder(&keys[1]).unwrap().build_responder().unwrap();
        let mut wire = Vec::new();
        write(&mut wire, &mut dialling, 1).unwrap();
        let error = read(&mut &wire[..], &mut listening).unwrap_err();
        assert!(matches!(error, HandshakeError::Stranger));
        let mut listening = builder(&keys[0]).unwrap().build_responder().unwrap();
        let error = read(&mut &b"GET / HTTP/1.1\r\n"[..], &mut listening).unwrap_err();
        assert!(matches!(error, HandshakeError::Stranger));
    }
}
