//! Memory that the driver lends to the card.
//!
//! Pieces never overlap, and their number is bounded. `command` passes the commands that map and unmap memory.

use super::{Command, Outcome, Status};
use crate::Step;
use crate::fields::u64_at;

/// Bytes of an entry of a mailbox: virtual and physical address.
const PIECE: usize = 16;
/// Entries of a mailbox.
const MOST_PIECES: u32 = 256;
/// Pages that the card asks for, beside its tables.
const AUXILIARY: u64 = 64;

impl Step<'_> {
    /// Maps and unmaps memory. Only the tables are used; other memory need not be remembered.
    pub(super) fn lend(&mut self, command: &Command) -> Result<Outcome, Status> {
        match command.opcode {
            0xffd => Ok(Outcome::Value(AUXILIARY)),
            0xffa => self.map(command),
            0xff9 => {
                self.core
                    .lent
                    .unmap(command.input, u64::from(command.index));
                Ok(Outcome::Nothing)
            }
            0xff6 | 0xffb | 0xffc | 0xffe | 0xfff => Ok(Outcome::Nothing),
            _ => Err(Status::BadOpcode),
        }
    }

    fn map(&mut self, command: &Command) -> Result<Outcome, Status> {
        if command.index > MOST_PIECES {
            return Err(Status::BadParameter);
        }
        let mailbox = self.mailbox(command)?;
        for piece in mailbox.chunks(PIECE).take(command.index as usize) {
            let (at, addr) = (u64_at(piece, 0), u64_at(piece, 8));
            let done = self.core.lent.map(at, addr & !0xfff, (addr & 0xfff) as u32);
            if !done {
                return Err(Status::BadLentMemory);
            }
        }
        Ok(Outcome::Nothing)
    }
}
