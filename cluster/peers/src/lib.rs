//! Connections between the hosts of a run: one for each pair, encrypted, and only for holders of the run's key.
//!
//! ```text
//! Listener ─┐
//!           ├─ handshake (Noise, NNpsk0) ─► Mesh: send(peer, bytes), receive()
//! dialled ──┘                                 a writer and a reader thread per peer
//! ```
//!
//! Messages are opaque bytes here. They arrive whole and in order, or not at all. A slow host still sends a sign
//! of life every second; a host that stays silent too long is given up.
//!
//! `mesh` is on top: it accepts connections from `listener` and has a `link` to each peer. `listener` and `link`
//! need `handshake`, which needs `key`; `record` and `peer` are independent.

/// Two hosts prove to each other that they have the run's key.
mod handshake;
/// The run's key.
mod key;
/// The threads that serve one connection.
mod link;
/// Accepts connections of peers.
mod listener;
/// All connections of a host.
mod mesh;
/// Events and settings of peers.
mod peer;
/// Messages as records on the wire.
mod record;

pub use handshake::HandshakeError;
pub use key::{KeyError, RunKey};
pub use listener::Listener;
pub use mesh::{Mesh, PeerError, TooLong};
pub use peer::{Incoming, Lost, Settings};
