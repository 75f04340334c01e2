//! Messages as records on the wire.
//!
//! ```text
//! record:  length of the ciphertext (2, big endian)  ciphertext
//! plain:   kind (1)  bytes
//! ```
//!
//! A message is one or more records; the last one is marked. Each direction counts its
//! records. The count is the cipher's nonce, so that lost, repeated and reordered records
//! are detected.

use std::io::{self, Read, Write};

use snow::StatelessTransportState;

/// Longest ciphertext in Noise.
const LONGEST_RECORD: usize = 65_535;
/// Overhead of the cipher.
const TAG: usize = 16;
/// Longest piece of a message in a record.
const PIECE: usize = LONGEST_RECORD - TAG - 1;
/// Longest message: bounds the memory that a peer can allocate.
pub(crate) const LONGEST_MESSAGE: usize = 1 << 28;

/// More of the message follows.
const PART: u8 = 0;
/// The message ends here.
const LAST: u8 = 1;
/// A sign of life without a message.
const ALIVE: u8 = 2;

/// The content of a record.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum PeerRecord {
    /// A message is whole.
    Message(Vec<u8>),
    /// A sign of life, also from the middle of a message.
    Alive,
}

/// Encrypts and writes records.
pub(crate) struct Sealer<W> {
    to: W,
    count: u64,
    cipher: Vec<u8>,
    plain: Vec<u8>,
}

impl<W: Write> Sealer<W> {
    pub(crate) fn new(to: W) -> Self {
        Self {
            to,
            count: 0,
            cipher: vec![0; LONGEST_RECORD],
            plain: Vec::with_capacity(PIECE + 1),
        }
    }

    /// Writes `message`, of limited length, as records.
    pub(crate) fn message(
        &mut self,
        state: &StatelessTransportState,
        message: &[u8],
    ) -> io::Result<()> {
        let pieces = message.len().div_ceil(PIECE).max(1);
        for index in 0..pieces {
            let rest = &message[index * PIECE..];
            let piece = &rest[..rest.len().min(PIECE)];
            let kind = if index + 1 == pieces { LAST } else { PART };
            self.record(state, kind, piece)?;
        }
        Ok(())
    }

    pub(crate) fn alive(&mut self, state: &StatelessTransportState) -> io::Result<()> {
        self.record(state, ALIVE, &[])
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }

    fn record(
        &mut self,
        state: &StatelessTransportState,
        kind: u8,
        piece: &[u8],
    ) -> io::Result<()> {
        self.plain.clear();
        self.plain.push(kind);
        self.plain.extend_from_slice(piece);
        let length = state
            .write_message(self.count, &self.plain, &mut self.cipher)
            .map_err(io::Error::other)?;
        self.count += 1;
        self.to.write_all(&(length as u16).to_be_bytes())?;
        self.to.write_all(&self.cipher[..length])
    }
}

/// Reads and decrypts records.
pub(crate) struct Opener<R> {
    from: R,
    count: u64,
    cipher: Vec<u8>,
    plain: Vec<u8>,
    /// The received part of a message.
    begun: Vec<u8>,
}

impl<R: Read> Opener<R> {
    pub(crate) fn new(from: R) -> Self {
        Self {
            from,
            count: 0,
            cipher: vec![0; LONGEST_RECORD],
            plain: vec![0; LONGEST_RECORD],
            begun: Vec::new(),
        }
    }

    /// The next record: a completed message, or a sign of life.
    ///
    /// # Errors
    /// `UnexpectedEof` if the peer closed, also within a message; `InvalidData` for any
    /// bytes that the peer did not write at this position.
    pub(crate) fn next(&mut self, state: &StatelessTransportState) -> io::Result<PeerRecord> {
        let mut length = [0; 2];
        self.from.read_exact(&mut length)?;
        let cipher = &mut self.cipher[..usize::from(u16::from_be_bytes(length))];
        self.from.read_exact(cipher)?;
        let length = state
            .read_message(self.count, cipher, &mut self.plain)
            .map_err(|_| invalid("a record was changed on its way"))?;
        self.count += 1;
        let (kind, piece) = self.plain[..length]
            .split_first()
            .ok_or_else(|| invalid("a record is empty"))?;
        if *kind == ALIVE {
            return Ok(PeerRecord::Alive);
        }
        if self.begun.len() + piece.len() > LONGEST_MESSAGE {
            return Err(invalid("a message is too long"));
        }
        self.begun.extend_from_slice(piece);
        match *kind {
            PART => Ok(PeerRecord::Alive),
            LAST => Ok(PeerRecord::Message(std::mem::take(&mut self.begun))),
            _ => Err(invalid("a record is of no known kind")),
        }
    }
}

fn invalid(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::handshake::tests::pair;

    fn sealed(state: &StatelessTransportState, messages: &[Vec<u8>]) -> Vec<u8> {
        let mut wire = Vec::new();
        let mut sealer = Sealer::new(&mut wire);
        for message in messages {
            sealer.alive(state).unwrap();
            sealer.message(state, message).unwrap();
        }
        wire
    }

    #[test]
    fn messages_of_any_length_arrive() {
        let (ours, theirs) = pair();
        let messages: Vec<Vec<u8>> = [0, 1, PIECE - 1, PIECE, PIECE + 1, 3 * PIECE + 7]
            .map(|length| (0..length).map(|byte| byte as u8).collect())
            .into();
        let wire = sealed(&ours, &messages);
        let mut opener = Opener::new(&wire[..]);
        let mut arrived = Vec::new();
        while let Ok(record) = opener.next(&theirs) {
            if let PeerRecord::Message(message) = record {
                arrived.push(message);
            }
        }
        assert!(arrived == messages);
    }

    #[test]
    fn what_was_changed_or_moved_is_refused() {
        let (ours, theirs) = pair();
        let wire = sealed(&ours, &[b"first".to_vec()]);
        let read = |wire: &[u8]| {
            let mut opener = Opener::new(wire);
            loop {
                match opener.next(&theirs) {
                    Ok(PeerRecord::Alive) => {}
                    Ok(PeerRecord::Message(message)) => return Ok(message),
                    Err(error) => return Err(error.kind()),
                }
            }
        };
        assert_eq!(read(&wire), Ok(b"first".to_vec()));
        for at in 0..wire.len() {
            let mut changed = wire.clone();
            changed[at] ^= 1;
            assert!(read(&changed).is_err(), "{at}");
            assert_eq!(read(&wire[..at]), Err(io::ErrorKind::UnexpectedEof), "{at}");
        }
        // Without the record `alive`, the next one has the wrong count.
        let first = 2 + usize::from(u16::from_be_bytes([wire[0], wire[1]]));
        assert_eq!(read(&wire[first..]), Err(io::ErrorKind::InvalidData));
    }

    #[test]
    fn a_message_without_end_is_refused() {
        let (ours, theirs) = pair();
        let mut wire = Vec::new();
        let mut sealer = Sealer::new(&mut wire);
        sealer.record(&ours, PART, &[0; PIECE]).unwrap();
        let mut opener = Opener::new(&wire[..]);
        opener.begun = vec![0; LONGEST_MESSAGE - PIECE];
        assert_eq!(opener.next(&theirs).unwrap(), PeerRecord::Alive);
        opener.count = 0;
        opener.from = &wire[..];
        let error = opener.next(&theirs).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
    }
}
