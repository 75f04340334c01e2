//! Time-independent traces of SimGrid, as `smpirun -replay` reads them.
//!
//! Each rank has a file with an action on each line. The reader supports one communicator, so operations on others are written as messages, and so are
//! operations that overlap other calls. Work is in floating-point operations, with a rate set by the caller. Actions and their operands are those of
//! SimGrid 3.32 and 4.1. Used by `belljar trace export`.

/// Collective operations as actions.
mod collective;
/// The network, and the hosts of ranks.
mod platform;

use std::io::{self, Write};

use belljar_collectives::Operation;
use belljar_program::ProcessId;

use super::OWN_BARRIER;
use crate::messages::{Message, Messages, Step};
pub use platform::{Layout, write_hosts, write_platform};

/// The unit of amounts of work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Amounts {
    /// Floating-point operations of a processor per second.
    pub flops_per_second: f64,
}

impl Amounts {
    fn flops(self, ps: u64) -> f64 {
        ps as f64 * self.flops_per_second / 1e12
    }
}

/// Writes the actions of a rank.
///
/// # Errors
/// Returns the errors of `out`.
pub fn write_rank(
    messages: &Messages<'_>,
    rank: ProcessId,
    amounts: Amounts,
    out: &mut dyn Write,
) -> io::Result<()> {
    let mut writer = Writer {
        rank,
        amounts,
        work: 0,
        begun: None,
        is_first: true,
        is_at_barrier: false,
        out,
    };
    writer.line(format_args!("init"))?;
    messages.rank(rank, |step| {
        writer.barrier(None)?;
        writer.step(step)?;
        writer.is_first = false;
        io::Result::Ok(())
    })?;
    writer.settle()?;
    // A barrier at the end belongs to MPI_Finalize.
    writer.barrier(Some("MPI_Finalize"))?;
    writer.work()?;
    writer.line(format_args!("finalize"))
}

/// A message that has just begun, by its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum BegunMessage {
    Send(Message),
    Receive(Message),
}

struct Writer<'o> {
    rank: ProcessId,
    amounts: Amounts,
    /// Picoseconds of work that are not written yet.
    work: u64,
    /// An operation that becomes a blocking action if it is awaited at once.
    begun: Option<BegunMessage>,
    /// No step is written yet.
    is_first: bool,
    /// The latest step is a barrier, which is not written yet.
    is_at_barrier: bool,
    out: &'o mut dyn Write,
}

impl Writer<'_> {
    fn line(&mut self, action: std::fmt::Arguments<'_>) -> io::Result<()> {
        writeln!(self.out, "{} {action}", self.rank)
    }

    /// Writes the work since the last action, if it is at least half an operation.
    fn work(&mut self) -> io::Result<()> {
        let flops = self.amounts.flops(std::mem::take(&mut self.work));
        if flops.round() >= 1.0 {
            self.line(format_args!("compute {flops:.0}"))?;
        }
        Ok(())
    }

    /// Writes the barrier that is the latest step, if it is one, as part of the `function`.
    fn barrier(&mut self, function: Option<&str>) -> io::Result<()> {
        if !std::mem::take(&mut self.is_at_barrier) {
            return Ok(());
        }
        if let Some(function) = function {
            writeln!(self.out, "{OWN_BARRIER}{function}")?;
        }
        self.line(format_args!("barrier"))
    }

    /// Writes a begun operation that is not awaited at once.
    fn settle(&mut self) -> io::Result<()> {
        match self.begun.take() {
            Some(BegunMessage::Send(of)) => {
                self.line(format_args!("isend {} {} {}", of.to, of.tag, of.bytes))
            }
            Some(BegunMessage::Receive(of)) => {
                self.line(format_args!("irecv {} {} {}", of.from, of.tag, of.bytes))
            }
            None => Ok(()),
        }
    }

    fn step(&mut self, step: Step<'_>) -> io::Result<()> {
        match step {
            Step::Work(ps) => {
                self.settle()?;
                self.work = self.work.saturating_add(ps);
                Ok(())
            }
            Step::Send(message) => self.begin(BegunMessage::Send(message)),
            Step::Receive(message) => self.begin(BegunMessage::Receive(message)),
            Step::Sent(of) if self.begun == Some(BegunMessage::Send(of)) => {
                self.begun = None;
                self.line(format_args!("send {} {} {}", of.to, of.tag, of.bytes))
            }
            Step::Received(of) if self.begun == Some(BegunMessage::Receive(of)) => {
                self.begun = None;
                self.line(format_args!("recv {} {} {}", of.from, of.tag, of.bytes))
            }
            Step::Sent(of) | Step::Received(of) => {
                self.settle()?;
                self.work()?;
                self.line(format_args!("wait {} {} {}", of.from, of.to, of.tag))
            }
            Step::Together(together) => {
                self.settle()?;
                self.work()?;
                if together.call.operation == Operation::Barrier {
                    self.is_at_barrier = true;
                    return match self.is_first {
                        true => self.barrier(Some("MPI_Init")),
                        false => Ok(()),
                    };
                }
                let action = collective::action(together);
                self.line(format_args!("{action}"))
            }
        }
    }

    fn begin(&mut self, begun: BegunMessage) -> io::Result<()> {
        self.settle()?;
        self.work()?;
        self.begun = Some(begun);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
