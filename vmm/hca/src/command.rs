//! Commands of the driver: how it sets the card up and changes its objects.
//!
//! A command is carried out within the store that posts it, and reports its status in the register or by an event. Mailboxes are pages of the
//! driver's; a command whose mailbox is not in RAM fails. Unknown commands have a status of their own, by which drivers find out the card's features.

use crate::Step;
use crate::events::kind;
use crate::fields::{put, u8_at, u32_at, u64_at};
use crate::groups::Groups;
use crate::limits;
use crate::memory;
use crate::region::{ENTRY, SOFTWARE_OWNS};
use crate::transitions::Change;

/// Memory that the driver lends to the card.
mod lend;

/// Bytes of a mailbox.
const MAILBOX: usize = 4096;
/// Bytes of a queue's context.
const CONTEXT: usize = 64;

/// The status of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Status {
    Done = 0x00,
    BadOpcode = 0x02,
    BadParameter = 0x03,
    BadSystemState = 0x04,
    BadResource = 0x05,
    BadResourceState = 0x09,
    BadIndex = 0x0a,
    BadLentMemory = 0x0c,
    BadPairState = 0x10,
}

/// A posted command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Command {
    pub(crate) opcode: u16,
    pub(crate) modifier: u8,
    pub(crate) input: u64,
    pub(crate) index: u32,
    pub(crate) output: u64,
    pub(crate) token: u16,
    /// True if an event reports its end.
    pub(crate) by_event: bool,
}

/// The result of a command.
enum Outcome {
    Nothing,
    Value(u64),
    Mailbox(Vec<u8>),
}

impl Outcome {
    /// Nothing if something was done, else a status.
    fn of(done: bool, otherwise: Status) -> Result<Self, Status> {
        done.then_some(Self::Nothing).ok_or(otherwise)
    }

    /// A mailbox, if there is one, else a status.
    fn found(mailbox: Option<impl Into<Vec<u8>>>, otherwise: Status) -> Result<Self, Status> {
        mailbox
            .map(|bytes| Self::Mailbox(bytes.into()))
            .ok_or(otherwise)
    }
}

impl Step<'_> {
    /// Carries a command out. Returns its status and its value, if it has one.
    pub(crate) fn execute(&mut self, command: &Command) -> (Status, u64) {
        self.core.counters.commands += 1;
        let (status, value) = match self.dispatch(command) {
            Ok(Outcome::Nothing) => (Status::Done, 0),
            Ok(Outcome::Value(value)) => (Status::Done, value),
            Ok(Outcome::Mailbox(bytes)) => match memory::write(self.ram, command.output, &bytes) {
                Some(()) => (Status::Done, 0),
                None => (Status::BadParameter, 0),
            },
            Err(status) => (status, 0),
        };
        if command.by_event {
            let data: [(usize, &[u8]); 3] = [
                (6, &command.token.to_be_bytes()),
                (0x0f, &[status as u8]),
                (0x10, &value.to_be_bytes()),
            ];
            self.post_event(kind::COMMAND, 0, &data);
        }
        (status, value)
    }

    fn dispatch(&mut self, command: &Command) -> Result<Outcome, Status> {
        if let Some(change) = Change::of_opcode(command.opcode) {
            return self.change(command, change);
        }
        match command.opcode {
            0x03..=0x0c | 0x34 | 0x43 | 0x5a | 0x24 | 0x30 | 0x31 => self.set_up(command),
            0xff6..=0xfff => self.lend(command),
            0x0d..=0x0f | 0x2f => self.change_key(command),
            0x12..=0x18 | 0x2c => self.change_queue(command),
            0x35..=0x37 | 0x40 => self.change_shared(command),
            0x22 => Outcome::found(self.query_pair(command.index), Status::BadIndex),
            0x23 => {
                self.core.special = command.index & 0xff_ffff;
                Ok(Outcome::Nothing)
            }
            0x25..=0x27 => self.change_groups(command),
            _ => Err(Status::BadOpcode),
        }
    }

    /// The input mailbox.
    pub(crate) fn mailbox(&self, command: &Command) -> Result<Vec<u8>, Status> {
        let mut bytes = vec![0; MAILBOX];
        memory::read(self.ram, command.input, &mut bytes).ok_or(Status::BadParameter)?;
        Ok(bytes)
    }

    /// Queries of the card, and its port.
    fn set_up(&mut self, command: &Command) -> Result<Outcome, Status> {
        let guid = self.config.identity.guid;
        Ok(match (command.opcode, command.modifier) {
            (0x03, _) => Outcome::Mailbox(limits::capabilities()),
            (0x04, _) => Outcome::Mailbox(limits::firmware()),
            (0x06, _) => Outcome::Mailbox(limits::adapter()),
            (0x07, _) => return self.initialise(command),
            (0x08, _) => {
                self.close();
                Outcome::Nothing
            }
            (0x0b, _) => Outcome::Mailbox(self.core.setup.clone()),
            (0x09, _) => {
                self.set_port(true);
                Outcome::Nothing
            }
            (0x0a, _) => {
                self.set_port(false);
                Outcome::Nothing
            }
            (0x0c | 0x31 | 0x5a, _) => Outcome::Nothing,
            (0x43, _) if command.index & 0xff == 1 => {
                Outcome::Mailbox(limits::port(self.core.port_is_up, guid))
            }
            (0x43, _) => return Err(Status::BadIndex),
            (0x34, 2) => {
                let mut answer = vec![0; 0x100];
                put(&mut answer, 0x14, &((guid >> 32) as u32).to_be_bytes());
                put(&mut answer, 0x1c, &(guid as u32).to_be_bytes());
                Outcome::Mailbox(answer)
            }
            (0x34, _) => Outcome::Nothing,
            (0x24, _) => Outcome::Mailbox(self.answer_management(&self.mailbox(command)?[..256])),
            (0x30, _) => Outcome::Mailbox(vec![0; 0x400]),
            _ => return Err(Status::BadOpcode),
        })
    }

    /// INIT_HCA: where the tables in lent memory are.
    fn initialise(&mut self, command: &Command) -> Result<Outcome, Status> {
        let setup = self.mailbox(command)?;
        if u8_at(&setup, 0) != 2 {
            return Err(Status::BadParameter);
        }
        if !self.core.setup.is_empty() {
            return Err(Status::BadSystemState);
        }
        self.core.lent.mtt = u64_at(&setup, 0x100) & !31;
        self.core.lent.keys = (u64_at(&setup, 0xf0) & !31, u8_at(&setup, 0xfb) & 0x1f);
        let logs = [0xd3, 0xd7, 0xdb].map(|at| u8_at(&setup, at) & 0x1f);
        self.core.groups = Groups::with_logs(logs);
        self.core.setup = setup;
        Ok(Outcome::Nothing)
    }

    fn set_port(&mut self, up: bool) {
        self.core.port_is_up = up;
        let subtype = if up { 4 } else { 1 };
        let port: u32 = 1 << 28;
        self.post_event(kind::PORT_CHANGE, subtype, &[(0x0c, &port.to_be_bytes())]);
    }

    fn change(&mut self, command: &Command, change: Change) -> Result<Outcome, Status> {
        let has_mailbox = !matches!(change, Change::Error | Change::Reset | Change::Drain);
        let mailbox = if has_mailbox {
            self.mailbox(command)?
        } else {
            Vec::new()
        };
        let number = command.index & 0xff_ffff;
        let announces = change == Change::Drain && command.index >> 31 == 1;
        match self.change_pair(number, change, &mailbox, announces) {
            Status::Done => Ok(Outcome::Nothing),
            status => Err(status),
        }
    }

    /// Memory keys. The entry in lent memory is the key.
    fn change_key(&mut self, command: &Command) -> Result<Outcome, Status> {
        if command.opcode == 0x2f {
            return Ok(Outcome::Nothing);
        }
        let index = command.index & 0xff_ffff;
        let place = self.core.lent.key(index).ok_or(Status::BadIndex)?;
        let mut entry = vec![0; ENTRY];
        memory::read(self.ram, place, &mut entry).ok_or(Status::BadLentMemory)?;
        match command.opcode {
            0x0d => {
                entry.copy_from_slice(&self.mailbox(command)?[..ENTRY]);
                if entry[0] & SOFTWARE_OWNS == SOFTWARE_OWNS {
                    entry[0] &= !SOFTWARE_OWNS;
                }
                memory::write(self.ram, place, &entry).ok_or(Status::BadLentMemory)?;
                Ok(Outcome::Nothing)
            }
            0x0f => {
                entry[0] |= SOFTWARE_OWNS;
                memory::write(self.ram, place, &entry).ok_or(Status::BadLentMemory)?;
                // The driver gives a mailbox only if it reads the entry.
                match command.modifier {
                    0 => Ok(Outcome::Mailbox(entry)),
                    _ => Ok(Outcome::Nothing),
                }
            }
            _ => Ok(Outcome::Mailbox(entry)),
        }
    }

    /// A key that a request invalidates.
    pub(crate) fn invalidate_key(&mut self, key: u32) {
        let place = self.core.lent.key(key >> 8);
        let first = place.and_then(|place| Some((place, memory::read_u32(self.ram, place)?)));
        if let Some((place, first)) = first {
            let free = first & 0x0fff_ffff | 3 << 28;
            // A driver that took the memory back has no such key.
            let _ = memory::write(self.ram, place, &free.to_be_bytes());
        }
    }

    /// Event queues and completion queues.
    fn change_queue(&mut self, command: &Command) -> Result<Outcome, Status> {
        let number = command.index & 0xff_ffff;
        let context = || self.mailbox(command).map(|bytes| bytes[..CONTEXT].to_vec());
        let is_event_queue = matches!(command.opcode, 0x12..=0x14);
        let log = match is_event_queue {
            true => limits::LOG_EVENT_QUEUES,
            false => limits::LOG_COMPLETION_QUEUES,
        };
        if number >> log != 0 {
            return Err(Status::BadIndex);
        }
        match command.opcode {
            0x12 => {
                let to = (command.index >> 31 == 0).then_some(number);
                self.core.events.direct(command.input, to);
                Ok(Outcome::Nothing)
            }
            0x13 => {
                let context = context()?;
                let done = self.create_event_queue(number, &context);
                Outcome::of(done, Status::BadResource)
            }
            0x14 => Outcome::of(self.destroy_event_queue(number), Status::BadResourceState),
            0x16 => {
                let context = context()?;
                let initialised = command.modifier & 1 == 1;
                let done = self.create_completion_queue(number, &context, initialised);
                Outcome::of(done, Status::BadResource)
            }
            0x17 => Outcome::of(
                self.destroy_completion_queue(number),
                Status::BadResourceState,
            ),
            0x18 => Outcome::found(self.completion_context(number), Status::BadResource),
            _ if command.modifier == 0 => {
                let context = context()?;
                let done = self.resize_completion_queue(number, &context);
                Outcome::of(done, Status::BadResource)
            }
            // Moderation of events.
            _ => Ok(Outcome::Nothing),
        }
    }

    /// Shared receive queues.
    fn change_shared(&mut self, command: &Command) -> Result<Outcome, Status> {
        let number = command.index & 0xff_ffff;
        if number >> limits::LOG_SHARED != 0 {
            return Err(Status::BadIndex);
        }
        match command.opcode {
            0x35 => {
                let context = self.mailbox(command)?;
                Outcome::of(
                    self.create_shared(number, &context[..CONTEXT]),
                    Status::BadResource,
                )
            }
            0x36 => Outcome::of(self.destroy_shared(number), Status::BadResourceState),
            0x37 => Outcome::found(self.shared_context(number), Status::BadResource),
            _ => {
                let limit = command.input as u16;
                Outcome::of(self.arm_shared(number, limit), Status::BadResource)
            }
        }
    }

    /// Multicast groups.
    fn change_groups(&mut self, command: &Command) -> Result<Outcome, Status> {
        match command.opcode {
            0x25 => Outcome::found(self.core.groups.read(command.index), Status::BadIndex),
            0x26 => {
                let entry = self.mailbox(command)?;
                let done = self.core.groups.write(command.index, &entry);
                Outcome::of(done, Status::BadIndex)
            }
            _ => {
                let group = self.mailbox(command)?;
                let hash = self.core.groups.hash(&group[..16]);
                Ok(Outcome::Value(u64::from(hash)))
            }
        }
    }
}

/// The command in the registers of the interface.
pub(crate) fn of_registers(registers: &[u8; 28]) -> Command {
    let control = u32_at(registers, 0x18);
    Command {
        opcode: (control & 0xfff) as u16,
        modifier: (control >> 12 & 0xf) as u8,
        input: u64_at(registers, 0),
        index: u32_at(registers, 8),
        output: u64_at(registers, 0x0c),
        token: (u32_at(registers, 0x14) >> 16) as u16,
        by_event: control >> 22 & 1 == 1,
    }
}
