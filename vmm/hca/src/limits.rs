//! The card's limits and properties, as its driver asks for them.
//!
//! Values are those of a ConnectX-3 with one InfiniBand port where programs see them. Features that the model lacks are reported as absent:
//! Ethernet, virtual functions, extended connections, windows, time stamps, BlueFlame. Every table of the card is bounded by these values.

use crate::fields::put;

/// Binary logarithms of the numbers of objects.
pub(crate) const LOG_PAIRS: u32 = 18;
pub(crate) const LOG_SHARED: u32 = 16;
pub(crate) const LOG_COMPLETION_QUEUES: u32 = 16;
pub(crate) const LOG_EVENT_QUEUES: u32 = 7;
/// Bytes of the region with doorbells.
pub const DOORBELLS: u64 = 8 << 20;

/// Capabilities: reliable and unreliable connections, datagrams, shared receives, counters of broken keys, atomic operations, checks of the port of
/// datagrams, multicast.
const FLAGS: u32 = 1 | 1 << 1 | 1 << 2 | 1 << 6 | 1 << 8 | 1 << 9 | 1 << 18 | 1 << 20 | 1 << 21;
/// Invalidation of keys by this node and by peers.
const KEY_FLAGS: u32 = 1 << 6 | 1 << 7;

/// One byte of the answer to QUERY_DEV_CAP: its offset, and its value.
const BYTES: [(usize, u8); 38] = [
    // Work requests of a shared queue and of a pair, as binary logarithms, as most that follow.
    (0x10, 14),
    (0x11, 14),
    // Reserved pairs, and pairs.
    (0x12, 6),
    (0x13, LOG_PAIRS as u8),
    (0x14, 6 << 4),
    (0x15, LOG_SHARED as u8),
    // Entries of a completion queue, reserved queues, queues.
    (0x19, 22),
    (0x1a, 7),
    (0x1b, LOG_COMPLETION_QUEUES as u8),
    // Memory keys.
    (0x1d, 19),
    (0x1e, 2),
    (0x1f, LOG_EVENT_QUEUES as u8),
    // Reserved translation entries and memory keys.
    (0x20, 4 << 4),
    (0x22, 8),
    // Outstanding reads of a pair, as requester and as responder.
    (0x29, 7),
    (0x2b, 4),
    (0x2f, 10),
    // Delay of an acknowledgement.
    (0x35, 15),
    (0x36, 0x52),
    // Virtual lanes, and one port.
    (0x37, 4 << 4 | 1),
    // The longest message.
    (0x38, 30),
    // Reserved pages of doorbells, and the region's MiB.
    (0x48, 1 << 4),
    (0x49, 3),
    // The smallest page.
    (0x4b, 12),
    // Segments and bytes of a send, and of a receive.
    (0x51, 32),
    (0x55, 32),
    // Pairs of a multicast group, and groups.
    (0x61, 8),
    (0x62, 0),
    (0x63, 13),
    // Reserved protection domains, and domains.
    (0x64, 2 << 4),
    (0x65, 15),
    (0x4c, 0),
    (0x2d, 0),
    (0x2e, 0),
    (0x66, 0),
    (0x67, 0),
    (0x74, 0),
    (0x76, 0),
];

/// 16 bits of the answer: bytes of a send and of a receive, static rates, and bytes of entries in lent memory.
const WORDS: [(usize, u16); 13] = [
    (0x3c, 0x7fff),
    (0x52, 1008),
    (0x56, 512),
    (0x80, 32),
    (0x82, 256),
    (0x84, 64),
    (0x86, 64),
    (0x88, 64),
    (0x8a, 64),
    (0x8c, 64),
    (0x8e, 64),
    (0x90, 8),
    (0x92, 64),
];

/// The answer to QUERY_DEV_CAP.
pub(crate) fn capabilities() -> Vec<u8> {
    let mut answer = vec![0; 0x100];
    for (at, value) in BYTES {
        answer[at] = value;
    }
    for (at, value) in WORDS {
        put(&mut answer, at, &value.to_be_bytes());
    }
    put(&mut answer, 0x44, &FLAGS.to_be_bytes());
    put(&mut answer, 0x94, &KEY_FLAGS.to_be_bytes());
    put(&mut answer, 0xa0, &(1_u64 << 40).to_be_bytes());
    answer
}

/// The answer to QUERY_FW: version 2.42.5000, one page of memory, and where registers are.
pub(crate) fn firmware() -> Vec<u8> {
    let mut answer = vec![0; 0x100];
    for (at, value) in [(0, 1_u16), (2, 2), (4, 5000), (6, 42), (0x0a, 3)] {
        put(&mut answer, at, &value.to_be_bytes());
    }
    // Up to 2^4 commands at a time.
    answer[0x0f] = 4;
    put(
        &mut answer,
        0x20,
        &crate::registers::CLEAR_INTERRUPT.to_be_bytes(),
    );
    put(&mut answer, 0x30, &crate::registers::ERRORS.to_be_bytes());
    put(&mut answer, 0x38, &0x10_u32.to_be_bytes());
    answer
}

/// The answer to QUERY_ADAPTER: the board's name, four bytes reversed at a time.
pub(crate) fn adapter() -> Vec<u8> {
    const BOARD: &[u8; 16] = b"MT_1100120019\0\0\0";
    let mut answer = vec![0; 0x100];
    for (place, part) in BOARD.chunks(4).enumerate() {
        let reversed: Vec<u8> = part.iter().rev().copied().collect();
        put(&mut answer, 0x20 + 0xd0 + 4 * place, &reversed);
    }
    answer
}

/// The answer to QUERY_PORT: an InfiniBand port of four lanes with an MTU of 4096.
pub(crate) fn port(is_up: bool, guid: u64) -> Vec<u8> {
    let mut answer = vec![0; 0x100];
    answer[0] = u8::from(is_up) << 7 | 1;
    answer[1] = 5;
    answer[6] = 2;
    // Logarithms of the numbers of GIDs and partitions, of VLANs and MACs; lanes.
    answer[7] = 4 << 4 | 7;
    answer[0x0a] = 0x77;
    answer[0x0b] = 4;
    put(&mut answer, 0x10, &(guid & 0xffff_ffff_ffff).to_be_bytes());
    answer
}
