//! Live observation of a run, and input for its nodes.
//!
//! A running `belljar run` listens on a Unix socket, [`SOCKET`](control::SOCKET), in its run directory; only its user may
//! connect. Both sides send lines of JSON: the run a [`Hello`](control::Hello), then one [`Reply`](control::Reply) to each
//! [`ControlRequest`](control::ControlRequest). Observation changes no result. Input does, so it is recorded with its virtual time in
//! [`INPUT_FILE`](control::INPUT_FILE).
//!
//! The run's own thread never uses the socket: it checks a [`Mailbox`](control::Mailbox) between rounds, at the cost of one
//! load if there are no requests.

use serde::{Deserialize, Serialize};

use crate::run::checkpoint::Report;

/// The client's side of the control socket.
mod client;
/// Requests of clients to a run, and its answers.
mod mailbox;
/// The run's side of the socket: threads that never run a guest.
mod server;
/// The state of a run, as its control socket shows it.
mod view;

pub use client::{Client, ControlError};
pub use mailbox::Mailbox;
pub use server::{Server, ServerError, answers};
pub(crate) use view::Viewer;

/// The socket's name in a run directory.
pub const SOCKET: &str = "control.sock";
/// Input typed into consoles: a line for each piece, with picoseconds of virtual time, the node, and the bytes, escaped as in
/// Rust's byte strings.
pub const INPUT_FILE: &str = "input.log";
/// Version of the socket's protocol.
pub const VERSION: u32 = 1;
/// Longest line in either direction, in bytes.
const LONGEST_REQUEST: u64 = 64 << 10;
const LONGEST_REPLY: u64 = 64 << 20;
/// Most input bytes of one request; each takes at most 4 bytes in JSON.
pub const MOST_TYPED: usize = 8 << 10;

/// The first message of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`VERSION`].
    pub belljar_control: u32,
    /// Name of the scenario.
    pub name: String,
    /// Number of nodes.
    pub nodes: u32,
}

/// A client's request.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ControlRequest {
    /// Requests the run's state; the consoles' files are then up to date.
    Look,
    /// Types bytes into a node's serial console, at the run's next round.
    Type {
        /// The node.
        node: u32,
        /// The input.
        bytes: Vec<u8>,
    },
    /// Requests a checkpoint; answered when it is on the disk.
    Checkpoint,
    /// Requests the messages of MPI that wait, and the call of each rank.
    Queues,
    /// Pauses or continues virtual time; ends with the client.
    Pause(bool),
    /// Limits virtual time to this multiple of host time; ends with the client.
    Pace(Option<f64>),
}

/// A run's reply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// The run's state.
    Look(Look),
    /// The checkpoint that was made.
    Checkpoint(Report),
    /// The messages that wait, as text.
    Queues(String),
    /// The request is accepted.
    Done,
    /// The request is refused, for this reason.
    Refused(String),
}

/// The state of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Look {
    /// Virtual time, in picoseconds.
    pub now_ps: u64,
    /// True if virtual time is paused by a request.
    pub paused: bool,
    /// Rounds so far.
    pub rounds: u64,
    /// By node.
    pub nodes: Vec<NodeLook>,
    /// Calls entered so far of each MPI function that was called.
    pub functions: Vec<(String, u64)>,
    /// The busiest links since the last look, in descending order.
    pub links: Vec<LinkLook>,
}

/// The state of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeLook {
    /// True if its init has finished.
    pub ready: bool,
    /// True if it has ended.
    pub ended: bool,
    /// Instructions retired.
    pub instructions: u64,
    /// Frames sent.
    pub frames: u64,
    /// MPI calls entered.
    pub calls: u64,
}

/// The traffic of a link since the last look.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkLook {
    /// Its name.
    pub name: String,
    /// Bytes, both ways.
    pub bytes: u64,
    /// Share of the time that its busier direction was busy.
    pub busy: f64,
    /// Frames dropped or lost, both ways.
    pub drops: u64,
}
