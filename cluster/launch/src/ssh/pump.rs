//! The thread of a connection, between an agent's streams and its owner.
//!
//! Only this thread uses the session, without blocking: it waits for the socket, transfers available data,
//! and handles orders in between. It closes the connection if the agent has ended, its owner has dropped
//! it, or the connection fails. Started by [`Ssh`](super::Ssh), which returns an [`SshCarrier`] for it.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsFd;
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, TrySendError};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use ssh2::{BlockDirections, Channel, Session};

use super::login::Connection;
use super::remote;
use crate::agent::{AgentExit, Carrier, Force, Input};
use crate::lines::Splitter;

/// Time limit of one wait for the socket, in milliseconds.
const TURN: u8 = 20;
/// Time limit for signalling the agent, in milliseconds.
const SIGNAL: u32 = 1500;
/// Bytes of one read.
const PIECE: usize = 16 << 10;

/// The owner's side of the connection. When it is dropped the connection is closed.
pub(super) struct SshCarrier {
    force: Sender<Force>,
    exits: Receiver<AgentExit>,
}

impl SshCarrier {
    pub(super) fn new(force: Sender<Force>, exits: Receiver<AgentExit>) -> Self {
        Self { force, exits }
    }
}

impl Carrier for SshCarrier {
    fn exit(&mut self) -> Option<AgentExit> {
        match self.exits.try_recv() {
            Ok(exit) => Some(exit),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => {
                Some(AgentExit::Lost("its connection was given up".to_owned()))
            }
        }
    }

    fn force(&mut self, force: Force) {
        // A pump that has ended has reported the agent's end.
        let _ = self.force.send(force);
    }
}

/// The thread's side of the connection.
pub(super) struct Pump {
    session: Session,
    socket: TcpStream,
    channel: Channel,
    /// The agent's process id on its host.
    process: u32,
    /// Bytes to write, whether their end follows, and whether it was sent.
    pending: VecDeque<u8>,
    input_ends: bool,
    input_ended: bool,
    output: Splitter,
    errors: Splitter,
    /// Lines waiting for room in `lines`.
    held: VecDeque<String>,
    lines: SyncSender<String>,
}

/// The result of a turn.
enum PumpTurn {
    /// Data was transferred.
    Busy,
    /// No data was transferred.
    Idle,
    /// The agent has ended.
    Over(AgentExit),
}

impl Pump {
    pub(super) fn new(
        connection: Connection,
        channel: Channel,
        process: u32,
        lines: SyncSender<String>,
    ) -> Self {
        let Connection { session, socket } = connection;
        Self {
            session,
            socket,
            channel,
            process,
            pending: VecDeque::new(),
            input_ends: false,
            input_ended: false,
            output: Splitter::default(),
            errors: Splitter::default(),
            held: VecDeque::new(),
            lines,
        }
    }

    /// Runs until the agent ends, its owner is gone, or the connection fails.
    pub(super) fn run(
        mut self,
        inputs: &Receiver<Input>,
        forces: &Receiver<Force>,
        exit: &Sender<AgentExit>,
        mut tell: impl FnMut(&str),
    ) {
        let ended = loop {
            self.take_input(inputs);
            match forces.try_recv() {
                Ok(force) => {
                    if let Some(lost) = self.apply(force) {
                        break lost;
                    }
                }
                Err(TryRecvError::Empty) => {}
                // The owner has dropped the receiver.
                Err(TryRecvError::Disconnected) => return,
            }
            match self.turn(&mut tell) {
                Ok(PumpTurn::Busy) => {}
                Ok(PumpTurn::Idle) => self.wait(),
                Ok(PumpTurn::Over(exit)) => break exit,
                Err(error) => break AgentExit::Lost(format!("the connection failed: {error}")),
            }
        };
        self.errors.end(|line| tell(&line));
        let held = &mut self.held;
        self.output.end(|line| held.push_back(line));
        // The owner may have dropped the receivers, which does not matter here.
        let _ = exit.send(ended);
        for line in std::mem::take(&mut self.held) {
            if self.lines.send(line).is_err() {
                break;
            }
        }
    }

    fn take_input(&mut self, inputs: &Receiver<Input>) {
        while !self.input_ends {
            match inputs.try_recv() {
                Ok(Input::Bytes(bytes)) => self.pending.extend(bytes),
                Ok(Input::End) | Err(TryRecvError::Disconnected) => self.input_ends = true,
                Err(TryRecvError::Empty) => break,
            }
        }
    }

    /// Sends a signal by a separate command, as servers may ignore the protocol's message for signals.
    fn apply(&mut self, force: Force) -> Option<AgentExit> {
        let name = match force {
            Force::Terminate => "TERM",
            Force::Kill => "KILL",
        };
        let before = self.session.timeout();
        self.session.set_blocking(true);
        self.session.set_timeout(SIGNAL);
        let kill = format!("kill -s {name} {}", self.process);
        let sent = remote::run(&self.session, &kill, &[]);
        self.session.set_timeout(before);
        self.session.set_blocking(false);
        match (force, sent) {
            (Force::Kill, Err(error)) => Some(AgentExit::Lost(format!(
                "its host could not deliver SIGKILL: {error}; the connection was closed"
            ))),
            _ => None,
        }
    }

    fn turn(&mut self, tell: &mut impl FnMut(&str)) -> io::Result<PumpTurn> {
        let wrote = self.write()?;
        self.hand_on_lines();
        let printed = self.held.is_empty() && self.read_output()?;
        let told = self.read_errors(tell)?;
        if let Some(exit) = self.exit()? {
            return Ok(PumpTurn::Over(exit));
        }
        would_block(self.session.keepalive_send())?;
        Ok(if wrote || printed || told {
            PumpTurn::Busy
        } else {
            PumpTurn::Idle
        })
    }

    /// Returns true if bytes were written.
    fn write(&mut self) -> io::Result<bool> {
        if self.input_ended {
            return Ok(false);
        }
        let (piece, _) = self.pending.as_slices();
        if !piece.is_empty() {
            let written = taken(self.channel.write(piece))?.unwrap_or(0);
            self.pending.drain(..written);
            return Ok(written > 0);
        }
        if self.input_ends {
            self.input_ended = would_block(self.channel.send_eof())?.is_some();
        }
        Ok(self.input_ended)
    }

    /// Returns true if bytes were read.
    fn read_output(&mut self) -> io::Result<bool> {
        let mut piece = [0; PIECE];
        let length = taken(self.channel.read(&mut piece))?.unwrap_or(0);
        let held = &mut self.held;
        self.output
            .add(&piece[..length], |line| held.push_back(line));
        self.hand_on_lines();
        Ok(length > 0)
    }

    /// Returns true if bytes were read.
    fn read_errors(&mut self, tell: &mut impl FnMut(&str)) -> io::Result<bool> {
        let mut piece = [0; PIECE];
        let length = taken(self.channel.stderr().read(&mut piece))?.unwrap_or(0);
        self.errors.add(&piece[..length], |line| tell(&line));
        Ok(length > 0)
    }

    fn hand_on_lines(&mut self) {
        while let Some(line) = self.held.pop_front() {
            match self.lines.try_send(line) {
                Ok(()) => {}
                Err(TrySendError::Full(line)) => {
                    self.held.push_front(line);
                    return;
                }
                // Without a receiver the agent still continues.
                Err(TrySendError::Disconnected(_)) => {}
            }
        }
    }

    /// The agent's end, after its host has closed the channel.
    fn exit(&mut self) -> io::Result<Option<AgentExit>> {
        if !self.channel.eof() || would_block(self.channel.wait_close())?.is_none() {
            return Ok(None);
        }
        let signal = self.channel.exit_signal()?.exit_signal;
        Ok(Some(match signal {
            Some(name) => AgentExit::Signal(format!("SIG{name}")),
            None => AgentExit::Status(self.channel.exit_status()?),
        }))
    }

    /// Waits until the socket is ready, or until the next check for orders.
    fn wait(&self) {
        let wanted = match self.session.block_directions() {
            BlockDirections::Outbound | BlockDirections::Both => {
                PollFlags::POLLIN | PollFlags::POLLOUT
            }
            _ => PollFlags::POLLIN,
        };
        let mut socket = [PollFd::new(self.socket.as_fd(), wanted)];
        // The next turn detects errors itself.
        let _ = poll(&mut socket, PollTimeout::from(TURN));
    }
}

impl Drop for Pump {
    fn drop(&mut self) {
        // An orderly close could block on a lost host, so the connection is cut.
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

/// `None` for a call that would block.
fn taken<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.kind() == ErrorKind::WouldBlock => Ok(None),
        Err(error) if error.kind() == ErrorKind::Interrupted => Ok(None),
        Err(error) => Err(error),
    }
}

/// As [`taken`], for calls with libssh2's errors.
fn would_block<T>(result: Result<T, ssh2::Error>) -> io::Result<Option<T>> {
    taken(result.map_err(io::Error::from))
}
