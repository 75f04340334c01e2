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
//! `mesh` is on top: `gather` connects it through `listener` and `handshake`, and it has a `link` to each peer, which `keeper` serves, too. `handshake`
//! needs `key`; `record` and `peer` are independent.

/// Connects a host to all others.
mod gather;
/// Two hosts prove to each other that they have the run's key.
mod handshake;
/// The thread that keeps connections alive.
mod keeper;
/// The run's key.
mod key;
/// The connection to one peer.
mod link;
/// Accepts connections of peers.
mod listener;
/// All connections of a host.
mod mesh;
/// Events and settings of peers.
mod peer;
/// Messages as records on the wire.
mod record;

pub use gather::PeerError;
pub use handshake::HandshakeError;
pub use key::{KeyError, RunKey};
pub use listener::Listener;
pub use mesh::{Mesh, TooLong};
pub use peer::{Incoming, Lost, Settings};
