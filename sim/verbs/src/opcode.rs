//! Opcodes: service, operation, and the headers that follow.
//!
//! The eight bits of the base transport header: three of service, five of operation (table 38 of the specification).

use crate::Reader;

/// A transport service.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Service {
    /// Reliable connection.
    #[default]
    Reliable,
    /// Unreliable connection.
    Unreliable,
    /// Unreliable datagram.
    Datagram,
    /// Notifications of congestion, to a queue pair of any service.
    Notification,
}

/// A packet's operation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Operation {
    /// A part of a sent message: whether it is the first and the last one.
    Send {
        /// The message begins here.
        first: bool,
        /// It ends here.
        last: bool,
        /// Further header of its last packet.
        with: With,
    },
    /// A part of a write to the receiver's memory.
    Write {
        /// The message begins here.
        first: bool,
        /// It ends here.
        last: bool,
        /// True if it takes a receive and brings immediate data.
        immediate: bool,
    },
    /// A request to read from the receiver's memory.
    ReadRequest,
    /// A part of its answer.
    ReadResponse {
        /// The answer begins here.
        first: bool,
        /// It ends here.
        last: bool,
    },
    /// An acknowledgement, positive or negative.
    #[default]
    Acknowledge,
    /// The answer to an atomic operation: the former value.
    AtomicAcknowledge,
    /// Compare and swap.
    CompareSwap,
    /// Fetch and add.
    FetchAdd,
    /// A notification that packets to the sender met congestion; the only operation of its service.
    Notify,
}

/// Further header of the last packet of a sent message.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum With {
    /// Nothing.
    #[default]
    Nothing,
    /// Immediate data.
    Immediate,
    /// A key of the receiver's to invalidate.
    Invalidate,
}

/// Service and operation of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Opcode {
    /// The service.
    pub service: Service,
    /// The operation.
    pub operation: Operation,
}

/// Headers after the base transport header. Fields of headers that the opcode lacks are zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extensions {
    /// Datagrams: key and queue pair of the sender.
    pub queue_key: u32,
    /// See `queue_key`.
    pub source: u32,
    /// Accesses to memory: address, key and length.
    pub address: u64,
    /// See `address`.
    pub key: u32,
    /// See `address`.
    pub length: u32,
    /// Atomic operations: the value to swap in or to add; of an answer, the former value.
    pub value: u64,
    /// The value to compare with.
    pub compare: u64,
    /// Acknowledgements: syndrome and message sequence number, 8 and 24 bits.
    pub acknowledge: u32,
    /// Immediate data, or the key to invalidate.
    pub immediate: u32,
}

const SEND: u8 = 0;
const WRITE: u8 = 6;
/// The byte of a notification of congestion.
const NOTIFICATION: u8 = 0x80;

impl Opcode {
    /// The byte of the header.
    pub fn code(self) -> u8 {
        let service = match self.service {
            Service::Reliable => 0,
            Service::Unreliable => 0x20,
            Service::Datagram => 0x60,
            Service::Notification => return NOTIFICATION,
        };
        service | self.operation.code()
    }

    /// The opcode of a byte; `None` if it is reserved or of another service.
    pub fn of_code(code: u8) -> Option<Self> {
        if code == NOTIFICATION {
            return Some(Self {
                service: Service::Notification,
                operation: Operation::Notify,
            });
        }
        let (service, operation) = (code >> 5, code & 0x1f);
        let service = match (service, operation) {
            (0, _) => Service::Reliable,
            (1, 0..=11) => Service::Unreliable,
            (3, 4 | 5) => Service::Datagram,
            _ => return None,
        };
        let operation = Operation::of_code(operation)?;
        Some(Self { service, operation })
    }

    fn is_datagram(self) -> bool {
        self.service == Service::Datagram
    }

    /// Bytes of the headers after the base transport header.
    pub(crate) fn extension_bytes(self) -> usize {
        let datagram = if self.is_datagram() { 8 } else { 0 };
        datagram
            + match self.operation {
                Operation::Send { last, with, .. } => {
                    4 * usize::from(last && with != With::Nothing)
                }
                Operation::Write {
                    first,
                    last,
                    immediate,
                } => 16 * usize::from(first) + 4 * usize::from(last && immediate),
                Operation::ReadRequest => 16,
                Operation::ReadResponse { first, last } => 4 * usize::from(first || last),
                Operation::Acknowledge => 4,
                Operation::AtomicAcknowledge => 12,
                Operation::CompareSwap | Operation::FetchAdd => 28,
                Operation::Notify => 0,
            }
    }

    /// Appends the headers.
    pub(crate) fn write(self, of: &Extensions, bytes: &mut Vec<u8>) {
        if self.is_datagram() {
            bytes.extend(of.queue_key.to_be_bytes());
            bytes.extend((of.source & 0xff_ffff).to_be_bytes());
        }
        match self.operation {
            Operation::Send { last, with, .. } => {
                if last && with != With::Nothing {
                    bytes.extend(of.immediate.to_be_bytes());
                }
            }
            Operation::Write {
                first,
                last,
                immediate,
            } => {
                if first {
                    write_access(of, bytes);
                }
                if last && immediate {
                    bytes.extend(of.immediate.to_be_bytes());
                }
            }
            Operation::ReadRequest => write_access(of, bytes),
            Operation::ReadResponse { first, last } => {
                if first || last {
                    bytes.extend(of.acknowledge.to_be_bytes());
                }
            }
            Operation::Acknowledge => bytes.extend(of.acknowledge.to_be_bytes()),
            Operation::AtomicAcknowledge => {
                bytes.extend(of.acknowledge.to_be_bytes());
                bytes.extend(of.value.to_be_bytes());
            }
            Operation::CompareSwap | Operation::FetchAdd => {
                bytes.extend(of.address.to_be_bytes());
                bytes.extend(of.key.to_be_bytes());
                bytes.extend(of.value.to_be_bytes());
                bytes.extend(of.compare.to_be_bytes());
            }
            Operation::Notify => {}
        }
    }

    /// Reads the headers; `None` if there are too few bytes.
    pub(crate) fn read(self, rest: &mut Reader<'_>) -> Option<Extensions> {
        let mut of = Extensions::default();
        if self.is_datagram() {
            of.queue_key = rest.u32()?;
            of.source = rest.u32()? & 0xff_ffff;
        }
        match self.operation {
            Operation::Send { last, with, .. } => {
                if last && with != With::Nothing {
                    of.immediate = rest.u32()?;
                }
            }
            Operation::Write {
                first,
                last,
                immediate,
            } => {
                if first {
                    read_access(&mut of, rest)?;
                }
                if last && immediate {
                    of.immediate = rest.u32()?;
                }
            }
            Operation::ReadRequest => read_access(&mut of, rest)?,
            Operation::ReadResponse { first, last } => {
                if first || last {
                    of.acknowledge = rest.u32()?;
                }
            }
            Operation::Acknowledge => of.acknowledge = rest.u32()?,
            Operation::AtomicAcknowledge => {
                of.acknowledge = rest.u32()?;
                of.value = rest.u64()?;
            }
            Operation::CompareSwap | Operation::FetchAdd => {
                of.address = rest.u64()?;
                of.key = rest.u32()?;
                of.value = rest.u64()?;
                of.compare = rest.u64()?;
            }
            Operation::Notify => {}
        }
        Some(of)
    }
}

fn write_access(of: &Extensions, bytes: &mut Vec<u8>) {
    bytes.extend(of.address.to_be_bytes());
    bytes.extend(of.key.to_be_bytes());
    bytes.extend(of.length.to_be_bytes());
}

fn read_access(of: &mut Extensions, rest: &mut Reader<'_>) -> Option<()> {
    of.address = rest.u64()?;
    of.key = rest.u32()?;
    of.length = rest.u32()?;
    Some(())
}

impl Operation {
    /// True for packets with a program's data.
    pub(crate) fn has_data(self) -> bool {
        matches!(
            self,
            Self::Send { .. } | Self::Write { .. } | Self::ReadResponse { .. }
        )
    }

    fn code(self) -> u8 {
        match self {
            Self::Send { first, last, with } => {
                SEND + match (first, last, with) {
                    (true, false, _) => 0,
                    (false, false, _) => 1,
                    (false, true, With::Nothing) => 2,
                    (false, true, With::Immediate) => 3,
                    (true, true, With::Nothing) => 4,
                    (true, true, With::Immediate) => 5,
                    (false, true, With::Invalidate) => 0x16,
                    (true, true, With::Invalidate) => 0x17,
                }
            }
            Self::Write {
                first,
                last,
                immediate,
            } => {
                WRITE
                    + match (first, last, immediate) {
                        (true, false, _) => 0,
                        (false, false, _) => 1,
                        (false, true, false) => 2,
                        (false, true, true) => 3,
                        (true, true, false) => 4,
                        (true, true, true) => 5,
                    }
            }
            Self::ReadRequest => 12,
            Self::ReadResponse { first, last } => match (first, last) {
                (true, false) => 13,
                (false, false) => 14,
                (false, true) => 15,
                (true, true) => 16,
            },
            Self::Acknowledge => 17,
            Self::AtomicAcknowledge => 18,
            Self::CompareSwap => 19,
            Self::FetchAdd => 20,
            Self::Notify => NOTIFICATION,
        }
    }

    fn of_code(code: u8) -> Option<Self> {
        let send = |first, last, with| Self::Send { first, last, with };
        let write = |first, last, immediate| Self::Write {
            first,
            last,
            immediate,
        };
        let response = |first, last| Self::ReadResponse { first, last };
        Some(match code {
            0 => send(true, false, With::Nothing),
            1 => send(false, false, With::Nothing),
            2 => send(false, true, With::Nothing),
            3 => send(false, true, With::Immediate),
            4 => send(true, true, With::Nothing),
            5 => send(true, true, With::Immediate),
            6 => write(true, false, false),
            7 => write(false, false, false),
            8 => write(false, true, false),
            9 => write(false, true, true),
            10 => write(true, true, false),
            11 => write(true, true, true),
            12 => Self::ReadRequest,
            13 => response(true, false),
            14 => response(false, false),
            15 => response(false, true),
            16 => response(true, true),
            17 => Self::Acknowledge,
            18 => Self::AtomicAcknowledge,
            19 => Self::CompareSwap,
            20 => Self::FetchAdd,
            0x16 => send(false, true, With::Invalidate),
            0x17 => send(true, true, With::Invalidate),
            _ => return None,
        })
    }
}
