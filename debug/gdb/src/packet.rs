//! Packets: `$`, data, `#` and a checksum of two hexadecimal digits.
//!
//! A reader keeps at most [`MOST_PACKET`] bytes, and a longer packet counts as damaged. Called by the thread that reads
//! a connection, and for each reply.

/// Longest packet, in bytes of data.
pub const MOST_PACKET: usize = 1 << 16;
/// The byte by which a debugger interrupts a running target.
const INTERRUPT: u8 = 3;
/// Characters that data must not contain, and the escape before their replacement.
const ESCAPE: u8 = b'}';
const ESCAPED: u8 = 0x20;

/// A unit that the other side sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Incoming {
    /// A packet's data, without escapes.
    Packet(Vec<u8>),
    /// A packet with a wrong checksum, which the other side is to repeat.
    Damaged,
    /// A request to stop the target.
    Interrupt,
    /// The other side did not understand the last packet.
    Repeat,
}

/// Splits a stream into packets.
#[derive(Debug, Default)]
pub struct PacketReader {
    state: State,
    data: Vec<u8>,
    escaped: bool,
    sum: u8,
    digits: Vec<u8>,
}

#[derive(Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Between,
    Data,
    Checksum,
}

impl PacketReader {
    /// Takes the next byte; returns the unit that it completes.
    pub fn take(&mut self, byte: u8) -> Option<Incoming> {
        match self.state {
            State::Between => match byte {
                b'$' => {
                    *self = Self {
                        state: State::Data,
                        ..Self::default()
                    };
                    None
                }
                INTERRUPT => Some(Incoming::Interrupt),
                b'-' => Some(Incoming::Repeat),
                _ => None,
            },
            State::Data => {
                self.take_data(byte);
                None
            }
            State::Checksum => self.take_digit(byte),
        }
    }

    fn take_data(&mut self, byte: u8) {
        if byte == b'#' {
            self.state = State::Checksum;
            return;
        }
        self.sum = self.sum.wrapping_add(byte);
        if self.data.len() >= MOST_PACKET {
            return;
        }
        if std::mem::take(&mut self.escaped) {
            self.data.push(byte ^ ESCAPED);
        } else if byte == ESCAPE {
            self.escaped = true;
        } else {
            self.data.push(byte);
        }
    }

    fn take_digit(&mut self, byte: u8) -> Option<Incoming> {
        self.digits.push(byte);
        if self.digits.len() < 2 {
            return None;
        }
        self.state = State::Between;
        let sum = std::str::from_utf8(&self.digits).ok();
        let sum = sum.and_then(|digits| u8::from_str_radix(digits, 16).ok());
        let is_whole = sum == Some(self.sum) && self.data.len() < MOST_PACKET;
        Some(match is_whole {
            true => Incoming::Packet(std::mem::take(&mut self.data)),
            false => Incoming::Damaged,
        })
    }
}

/// The packet with this data.
pub fn encode(data: &[u8]) -> Vec<u8> {
    let mut packet = vec![b'$'];
    for &byte in data {
        match byte {
            b'$' | b'#' | ESCAPE | b'*' => packet.extend([ESCAPE, byte ^ ESCAPED]),
            _ => packet.push(byte),
        }
    }
    let sum = packet[1..]
        .iter()
        .fold(0u8, |sum, byte| sum.wrapping_add(*byte));
    packet.extend(format!("#{sum:02x}").bytes());
    packet
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(bytes: &[u8]) -> Vec<Incoming> {
        let mut reader = PacketReader::default();
        bytes.iter().filter_map(|byte| reader.take(*byte)).collect()
    }

    #[test]
    fn packets_interrupts_and_damage_are_told_apart() {
        assert_eq!(
            read(b"+$g#67\x03"),
            [Incoming::Packet(b"g".to_vec()), Incoming::Interrupt]
        );
        assert_eq!(
            read(b"$g#68-$?#3f"),
            [
                Incoming::Damaged,
                Incoming::Repeat,
                Incoming::Packet(b"?".to_vec())
            ]
        );
        assert_eq!(encode(b"OK"), b"$OK#9a");
    }

    #[test]
    fn a_packet_that_is_too_long_is_refused() {
        let mut packet = encode(&vec![b'a'; MOST_PACKET + 1]);
        packet.extend(encode(b"g"));
        assert_eq!(
            read(&packet),
            [Incoming::Damaged, Incoming::Packet(b"g".to_vec())]
        );
    }

    proptest! {
        #[test]
        fn any_data_survives(data: Vec<u8>) {
            prop_assert_eq!(read(&encode(&data)), [Incoming::Packet(data)]);
        }

        #[test]
        fn any_stream_is_read(bytes: Vec<u8>) {
            read(&bytes);
        }
    }
}
