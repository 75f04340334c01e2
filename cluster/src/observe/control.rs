//! Looking at a run while it is under way, and typing into its nodes.
//!
//! A running `belljar run` listens on a Unix socket, [`SOCKET`](control::SOCKET), in its run directory; whoever
//! runs it may connect. Both sides send lines of JSON: the run a [`Hello`](control::Hello), then one
//! [`Reply`](control::Reply) to each [`Request`](control::Request). Looking changes no result. Typing does, so what was typed
//! is kept with its virtual time in [`INPUT_FILE`](control::INPUT_FILE).
//!
//! The run's own thread never touches the socket: it looks at a [`Mailbox`](control::Mailbox) between rounds, which
//! costs it one load while nobody asks.

use serde::{Deserialize, Serialize};

use crate::run::checkpoint::Report;

/// The client's side of the control socket.
mod client;
/// Where a run and those who look at it meet.
mod mailbox;
/// The run's side of the socket: threads of their own, which never run a guest.
mod server;
/// The state of a run, as its control socket shows it.
mod view;

pub use client::{Client, ControlError};
pub use mailbox::Mailbox;
pub use server::{Server, ServerError, answers};
pub(crate) use view::Viewer;

/// The socket's name in a run directory.
pub const SOCKET: &str = "control.sock";
/// What was typed into consoles: a line for each piece, with picoseconds of virtual time, the
/// node, and the bytes, escaped as in Rust's byte strings.
pub const INPUT_FILE: &str = "input.log";
/// Version of what is said on the socket.
pub const VERSION: u32 = 1;
/// Longest line that either side takes, in bytes.
const LONGEST_REQUEST: u64 = 64 << 10;
const LONGEST_REPLY: u64 = 64 << 20;
/// Bytes that are typed with one request, which tells each in 4 at most.
pub const MOST_TYPED: usize = 8 << 10;

/// What the run says first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// [`VERSION`].
    pub belljar_control: u32,
    /// Name of the scenario.
    pub name: String,
    /// Number of nodes.
    pub nodes: u32,
}

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Request {
    /// How things stand; what nodes wrote to their consoles so far is in their files then.
    Look,
    /// Types bytes into a node's serial console, at the run's next round.
    Type {
        /// The node.
        node: u32,
        /// What is typed.
        bytes: Vec<u8>,
    },
    /// The whole run is kept; answered when it is on the disk.
    Checkpoint,
    /// Virtual time waits, or continues, until the client says otherwise or leaves.
    Pause(bool),
    /// Virtual time goes no faster than this many times the host's, until the client says
    /// otherwise or leaves.
    Pace(Option<f64>),
}

/// What the run answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Reply {
    /// How things stand.
    Look(Look),
    /// What was kept.
    Checkpoint(Report),
    /// It will be done.
    Done,
    /// It will not be done, and why.
    Refused(String),
}

/// How things stand.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Look {
    /// Virtual time, in picoseconds.
    pub now_ps: u64,
    /// Whether virtual time waits because somebody asked for it.
    pub paused: bool,
    /// Rounds so far.
    pub rounds: u64,
    /// By node.
    pub nodes: Vec<NodeLook>,
    /// Calls entered so far of each MPI function that was called.
    pub functions: Vec<(String, u64)>,
    /// Links that carried most since the last look at the run, the busiest first.
    pub links: Vec<LinkLook>,
}

/// How a node stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeLook {
    /// Whether its init is through.
    pub ready: bool,
    /// Whether it has ended.
    pub ended: bool,
    /// Instructions retired.
    pub instructions: u64,
    /// Frames sent.
    pub frames: u64,
    /// MPI calls entered.
    pub calls: u64,
}

/// What a link did since the last look.
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
