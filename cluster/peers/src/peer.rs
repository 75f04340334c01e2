//! A peer as its connection sees it: how long it is waited for, what comes of it, and why nothing does any more.
//!
//! Plain values, which the connection's threads make and whoever has the mesh takes.

use std::io;
use std::time::Duration;

/// How long peers are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Until all are connected.
    pub gathering: Duration,
    /// While nothing at all comes of one: then it is given up.
    pub patience: Duration,
}

/// Why a peer is no longer there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lost {
    /// Its process ended, or closed the connection.
    Closed,
    /// Nothing came of it for as long as [`Settings::patience`], not even that it is there.
    Silent,
    /// The connection broke, or carried something that the peer did not write.
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
            Self::Silent => f.write_str("nothing is heard of it any more"),
            Self::Broken(why) => write!(f, "the connection to it broke: {why}"),
        }
    }
}

/// What comes of a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// A message.
    Message(Vec<u8>),
    /// Nothing will come any more.
    Lost(Lost),
}
