//! Settings and events of connections to peers.
//!
//! Plain values, made by the connection's threads and received by the owner of the mesh.

use std::io;
use std::time::Duration;

/// Time limits for peers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Limit until all are connected.
    pub gathering: Duration,
    /// Silence after which a peer is given up.
    pub patience: Duration,
}

/// Reasons of a lost peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lost {
    /// Its process ended, or closed the connection.
    Closed,
    /// It was silent for [`Settings::patience`], without a sign of life.
    Silent,
    /// The connection broke, or its data was corrupted.
    Broken(String),
}

impl Lost {
    pub(crate) fn of(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof
            | io::ErrorKind::ConnectionReset
            | io::ErrorKind::BrokenPipe => Self::Closed,
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Self::Silent,
            _ => Self::Broken(error.to_string()),
        }
    }
}

impl std::fmt::Display for Lost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Closed => f.write_str("its process ended"),
            Self::Silent => f.write_str("it no longer responds"),
            Self::Broken(why) => write!(f, "the connection to it broke: {why}"),
        }
    }
}

/// An event of a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// A message.
    Message(Vec<u8>),
    /// The end of the peer's messages.
    Lost(Lost),
}
