//! Connections between the hosts of a run: one for each pair, encrypted, and open to nobody
//! who does not have the run's key.
//!
//! ```text
//! Listener ─┐
//!           ├─ handshake (Noise, NNpsk0) ─► Mesh: send(peer, bytes), receive()
//! dialled ──┘                                 a writer and a reader thread per peer
//! ```
//!
//! What messages mean is not known here: they are bytes that arrive whole, in order, or not
//! at all. A host that is slow still says every second that it is there; one that says
//! nothing for long is given up.
//!
//! `mesh` is on top: it takes connections from `listener` and holds a `link` to each peer. Both need `handshake`,
//! which needs `key`; `record` and `peer` import none of the others.

/// Two hosts prove to each other that they have the run's key.
mod handshake;
/// The run's key.
mod key;
/// The threads that serve one connection.
mod link;
/// Where others dial.
mod listener;
/// All connections of a host.
mod mesh;
/// What comes of a peer.
mod peer;
/// Messages as records on the wire.
mod record;

pub use handshake::HandshakeError;
pub use key::{KeyError, RunKey};
pub use listener::Listener;
pub use mesh::{Mesh, PeerError, TooLong};
pub use peer::{Incoming, Lost, Settings};
