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

mod handshake;
mod key;
mod link;
mod listener;
mod mesh;
mod record;

pub use handshake::HandshakeError;
pub use key::{KeyError, RunKey};
pub use listener::Listener;
pub use mesh::{Incoming, Lost, Mesh, PeerError, Settings, TooLong};
