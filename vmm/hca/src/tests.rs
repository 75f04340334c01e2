//! A small driver that sets cards up as Linux does, and programs that use them.

use belljar_cpu::{GuestRam, guest_ram};
use belljar_sim::{Span, Time};

use super::*;
use crate::fields::put;
use crate::memory::{read, write};

/// Paths and groups of the subnet.
mod administration;
/// The driver's commands, each right and wrong.
mod commands;
/// Congestion control.
mod congestion;
/// Random programs against a plain model.
mod random;
/// Programs over the transport.
mod transport;

/// Bytes of a node's memory.
const RAM: usize = 8 << 20;
/// Addresses of the driver's mailboxes, tables and queues.
const INPUT: u64 = 0x1_0000;
const OUTPUT: u64 = 0x1_1000;
const LENT: u64 = 0x10_0000;
/// In lent memory: translation entries, then memory keys.
const MTT: u64 = 0;
const KEYS: u64 = 0x8_0000;
const QUEUES: u64 = 0x20_0000;
const DATA: u64 = 0x40_0000;
/// The protection domain of all objects.
const DOMAIN: u32 = 7;
const INTERFACE: u64 = 0x8_0680;

/// The delays of the tests' cards, and of their wire.
const DELAYS: Delays = Delays {
    send: Span::from_ns(230),
    receive: Span::from_ns(220),
    answer: Span::from_ns(60),
    fetch: Span::from_ns(540),
    bus: 100_000_000_000,
};
const WIRE: Span = Span::from_ns(100);

/// A node: memory, card, and the state of its driver.
struct TestNode {
    ram: GuestRam,
    hca: Hca,
    now: Time,
    toggle: bool,
    /// The next free byte of queues, and the next free translation entry.
    free: u64,
    entries: u64,
}

impl TestNode {
    /// A card after reset.
    fn new(lid: u16) -> Self {
        Self::with_control(lid, None)
    }

    fn with_control(lid: u16, congestion: Option<Arc<CongestionControl>>) -> Self {
        let identity = Identity {
            guid: 0x0262_6a00_0000_0000 | u64::from(lid),
            lid,
            description: "test".to_owned(),
            speed: Speed::Edr,
            rate: 100_000_000_000,
            ports: 0x2000,
        };
        let delays = DELAYS;
        Self {
            ram: guest_ram(&[(0, RAM)]).unwrap(),
            hca: Hca::new(HcaConfig {
                identity,
                delays,
                congestion,
            }),
            now: Time::ZERO,
            toggle: true,
            free: QUEUES,
            entries: 0,
        }
    }

    /// A card that is set up, with an event queue for everything, and its port up.
    fn ready(lid: u16) -> Self {
        Self::ready_with_control(lid, None)
    }

    fn ready_with_control(lid: u16, congestion: Option<Arc<CongestionControl>>) -> Self {
        let mut node = Self::with_control(lid, congestion);
        node.set_up();
        let context = node.queue_context(32 * 256, 8, 0, 0);
        node.mailbox(&context);
        assert_eq!(node.command(0x13, 4, 0, INPUT, 0).0, 0, "SW2HW_EQ");
        assert_eq!(node.command(0x12, 4, 0, u64::MAX, 0).0, 0, "MAP_EQ");
        assert_eq!(node.command(0x23, 0x40, 0, 0, 0).0, 0, "CONF_SPECIAL_QP");
        assert_eq!(node.command(0x09, 1, 0, 0, 0).0, 0, "INIT_PORT");
        node
    }

    /// Lends memory and says where the tables are.
    fn set_up(&mut self) {
        let mut piece = [0; 16];
        put(&mut piece, 8, &(LENT | 8).to_be_bytes());
        self.mailbox(&piece);
        assert_eq!(self.command(0xffa, 1, 0, INPUT, 0).0, 0, "MAP_ICM");
        let mut setup = vec![0; 0x200];
        setup[0] = 2;
        put(&mut setup, 0xf0, &KEYS.to_be_bytes());
        setup[0xfb] = 8;
        put(&mut setup, 0x100, &MTT.to_be_bytes());
        (setup[0xd3], setup[0xd7], setup[0xdb]) = (7, 4, 5);
        self.mailbox(&setup);
        assert_eq!(self.command(0x07, 0, 0, INPUT, 0).0, 0, "INIT_HCA");
    }

    fn mailbox(&mut self, bytes: &[u8]) {
        write(&self.ram, INPUT, &[0; 4096]).unwrap();
        write(&self.ram, INPUT, bytes).unwrap();
    }

    /// Posts a command. Returns its status and value.
    fn command(
        &mut self,
        opcode: u16,
        index: u32,
        modifier: u8,
        input: u64,
        output: u64,
    ) -> (u8, u64) {
        let halves = |value: u64| [(value >> 32) as u32, value as u32];
        let [input_high, input_low] = halves(input);
        let [output_high, output_low] = halves(output);
        let toggle = u32::from(self.toggle) << 21;
        let control = 1 << 23 | toggle | u32::from(modifier) << 12 | u32::from(opcode);
        self.toggle = !self.toggle;
        let words = [
            input_high,
            input_low,
            index,
            output_high,
            output_low,
            0,
            control,
        ];
        for (place, word) in (0..).zip(words) {
            let value = u64::from(word.swap_bytes());
            let at = INTERFACE + 4 * place;
            self.hca.write_register(at, 4, value, &self.ram, self.now);
        }
        let word = |at: u64| (self.hca.read_register(INTERFACE + at, 4) as u32).swap_bytes();
        let status = word(0x18);
        assert_eq!(status >> 23 & 1, 0, "the command is still under way");
        assert_eq!(
            status & 1 << 21,
            toggle,
            "the toggle is that of the command"
        );
        let value = u64::from(word(0x0c)) << 32 | u64::from(word(0x10));
        ((status >> 24) as u8, value)
    }

    /// Memory for a queue: its address, and the offset of its translation entries.
    fn queue_memory(&mut self, bytes: u64) -> (u64, u64) {
        let (addr, mtt) = (self.free, self.entries * 8);
        let pages = bytes.div_ceil(4096);
        for page in 0..pages {
            let entry = (addr + page * 4096) | 1;
            write(&self.ram, LENT + MTT + mtt + page * 8, &entry.to_be_bytes()).unwrap();
        }
        self.free += pages * 4096;
        self.entries += pages;
        (addr, mtt)
    }

    /// The context of an event queue or completion queue.
    fn queue_context(&mut self, bytes: u64, log_size: u8, events: u8, record: u64) -> Vec<u8> {
        let (_, mtt) = self.queue_memory(bytes);
        let mut context = vec![0; 64];
        put(&mut context, 0, &0x900_u32.to_be_bytes());
        context[0x0c] = log_size;
        context[0x17] = events;
        put(&mut context, 0x1c, &(mtt as u32).to_be_bytes());
        put(&mut context, 0x38, &record.to_be_bytes());
        context
    }

    /// Registers memory under key index `index` with these rights; the key.
    fn register(&mut self, index: u32, start: u64, bytes: u64, rights: u32) -> u32 {
        let mtt = self.entries * 8;
        let pages = (start % 4096 + bytes).div_ceil(4096);
        for page in 0..pages {
            let entry = (start / 4096 * 4096 + page * 4096) | 1;
            write(&self.ram, LENT + MTT + mtt + page * 8, &entry.to_be_bytes()).unwrap();
        }
        self.entries += pages;
        let mut entry = [0; 64];
        put(&mut entry, 0, &(0xf000_0000 | rights).to_be_bytes());
        put(&mut entry, 8, &(0x55 << 24 | index).to_be_bytes());
        put(&mut entry, 0x0c, &DOMAIN.to_be_bytes());
        put(&mut entry, 0x10, &start.to_be_bytes());
        put(&mut entry, 0x18, &bytes.to_be_bytes());
        put(&mut entry, 0x2c, &mtt.to_be_bytes());
        put(&mut entry, 0x38, &12_u32.to_be_bytes());
        self.mailbox(&entry);
        assert_eq!(self.command(0x0d, index, 0, INPUT, 0).0, 0, "SW2HW_MPT");
        index << 8 | 0x55
    }

    /// Reads memory.
    fn bytes(&self, addr: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        read(&self.ram, addr, &mut bytes).unwrap();
        bytes
    }
}

/// Rights of a memory key: local read and write, remote read, write and atomic operations.
const ALL_RIGHTS: u32 = 1 << 10 | 1 << 11 | 1 << 12 | 1 << 13 | 1 << 14;

/// A program's queue pair with its own completion queue.
struct TestPair {
    number: u32,
    log_sends: u8,
    sends: u64,
    receives: u64,
    record: u64,
    posted: u16,
    received: u16,
    completions: u64,
    completion_record: u64,
    read: u32,
}

/// A completion, as a program reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TestCompletion {
    is_send: bool,
    opcode: u8,
    syndrome: u8,
    bytes: u32,
    work: u16,
    immediate: u32,
    source: u32,
}

/// Slots of a ring, and bytes of a slot, as binary logarithms.
const LOG_SLOTS: u8 = 5;
const LOG_SEND: u8 = 8;
const LOG_RECEIVE: u8 = 6;

impl TestPair {
    /// A pair of `service` (0 reliable, 1 unreliable, 3 datagrams) in state INIT.
    fn new(node: &mut TestNode, number: u32, service: u8) -> Self {
        let records = node.queue_memory(4096).0;
        let log_size = 8;
        let completions = node.free;
        let context = node.queue_context(32 << log_size, log_size, 4, records + 64);
        node.mailbox(&context);
        assert_eq!(node.command(0x16, number, 0, INPUT, 0).0, 0, "SW2HW_CQ");
        let send_bytes = 1 << (LOG_SLOTS + LOG_SEND);
        let (sends, mtt) = node.queue_memory(send_bytes + (1 << (LOG_SLOTS + LOG_RECEIVE)));
        for slot in 0..1 << LOG_SLOTS {
            // Not the card's until it is posted.
            let at = sends + (slot << LOG_SEND);
            write(&node.ram, at, &0x8000_0000_u32.to_be_bytes()).unwrap();
        }
        let mut mailbox = vec![0; 0x100];
        let context = &mut mailbox[8..];
        context[1] = service;
        put(context, 4, &DOMAIN.to_be_bytes());
        context[8] = 3 << 5 | 30;
        context[9] = LOG_SLOTS << 3 | (LOG_RECEIVE - 4);
        context[10] = LOG_SLOTS << 3 | (LOG_SEND - 4);
        for at in [0x7c, 0x9c] {
            put(context, at, &number.to_be_bytes());
        }
        put(context, 0x90, &(7_u32 << 13 | 4 << 21).to_be_bytes());
        put(context, 0xa0, &records.to_be_bytes());
        put(context, 0xa8, &0x1111_1111_u32.to_be_bytes());
        put(context, 0xcc, &(mtt as u32).to_be_bytes());
        node.mailbox(&mailbox);
        assert_eq!(node.command(0x19, number, 0, INPUT, 0).0, 0, "RST2INIT");
        Self {
            number,
            log_sends: LOG_SLOTS,
            sends,
            receives: sends + send_bytes,
            record: records,
            posted: 0,
            received: 0,
            completions,
            completion_record: records + 64,
            read: 0,
        }
    }

    /// Connects to a peer and goes to RTS, with `retries` and a timeout of 4.096 us times two to the power of `timeout`.
    fn connect(
        &self,
        node: &mut TestNode,
        peer: (u16, u32),
        psns: (u32, u32),
        retries: u32,
        timeout: u8,
    ) {
        let mut mailbox = vec![0; 0x100];
        let context = &mut mailbox[8..];
        context[8] = 3 << 5 | 30;
        put(context, 0x14, &peer.1.to_be_bytes());
        put(context, 0x18 + 6, &peer.0.to_be_bytes());
        put(context, 0x94, &(1_u32 << 24 | psns.1).to_be_bytes());
        put(&mut mailbox, 0, &(1_u32 << 6).to_be_bytes());
        node.mailbox(&mailbox);
        assert_eq!(
            node.command(0x1a, self.number, 0, INPUT, 0).0,
            0,
            "INIT2RTR"
        );
        let mut mailbox = vec![0; 0x100];
        let context = &mut mailbox[8..];
        put(context, 0x78, &psns.0.to_be_bytes());
        put(
            context,
            0x70,
            &(2 << 21 | retries << 16 | retries << 13).to_be_bytes(),
        );
        context[0x18 + 8] = timeout << 3;
        let marked = 1_u32 << 8 | 1 << 12 | 1 << 13 | 1 << 14;
        put(&mut mailbox, 0, &marked.to_be_bytes());
        node.mailbox(&mailbox);
        assert_eq!(node.command(0x1b, self.number, 0, INPUT, 0).0, 0, "RTR2RTS");
    }

    /// Posts a send: its opcode, and the segments behind the control segment. All ask for a completion.
    fn post(&mut self, node: &mut TestNode, opcode: u8, immediate: u32, segments: &[u8]) {
        let count = 1_u16 << self.log_sends;
        let slot = u64::from(self.posted & (count - 1));
        let owner = u32::from(self.posted & count != 0) << 31;
        let units = (16 + segments.len()).div_ceil(16) as u32;
        let at = self.sends + (slot << LOG_SEND);
        write(&node.ram, at + 4, &units.to_be_bytes()).unwrap();
        write(&node.ram, at + 8, &0x0c_u32.to_be_bytes()).unwrap();
        write(&node.ram, at + 12, &immediate.to_be_bytes()).unwrap();
        write(&node.ram, at + 16, segments).unwrap();
        write(&node.ram, at, &(owner | u32::from(opcode)).to_be_bytes()).unwrap();
        self.posted = self.posted.wrapping_add(1);
        // The slot after it is not the card's.
        let next = u64::from(self.posted & (count - 1));
        let not_owner = u32::from(self.posted & count == 0) << 31;
        write(
            &node.ram,
            self.sends + (next << LOG_SEND),
            &not_owner.to_be_bytes(),
        )
        .unwrap();
        self.ring(node);
    }

    fn ring(&self, node: &mut TestNode) {
        let value = u64::from((self.number << 8).swap_bytes());
        node.hca
            .write_doorbell(0x80_0014, 4, value, &node.ram, node.now);
    }

    /// Posts a receive of memory.
    fn receive(&mut self, node: &TestNode, segments: &[u8]) {
        let slot = u64::from(self.received & ((1 << LOG_SLOTS) - 1));
        let at = self.receives + (slot << LOG_RECEIVE);
        let mut bytes = segments.to_vec();
        bytes.extend(segment(0, 0x100, 0));
        bytes.truncate(1 << LOG_RECEIVE);
        write(&node.ram, at, &bytes).unwrap();
        self.received = self.received.wrapping_add(1);
        write(
            &node.ram,
            self.record,
            &u32::from(self.received).to_be_bytes(),
        )
        .unwrap();
    }

    /// The next completion, if it is there.
    fn poll(&mut self, node: &TestNode) -> Option<TestCompletion> {
        let size = 256;
        let at = self.completions + u64::from(self.read & (size - 1)) * 32;
        let entry = node.bytes(at, 32);
        if (entry[31] >> 7 == 1) != (self.read & size != 0) {
            return None;
        }
        self.read += 1;
        let index = self.read & 0xff_ffff;
        write(&node.ram, self.completion_record, &index.to_be_bytes()).unwrap();
        let failed = entry[31] & 0x1f == 0x1e;
        Some(TestCompletion {
            is_send: entry[31] & 0x40 != 0,
            opcode: entry[31] & 0x1f,
            syndrome: if failed { entry[0x1b] } else { 0 },
            bytes: crate::fields::u32_at(&entry, 0x14),
            work: crate::fields::u16_at(&entry, 0x18),
            immediate: crate::fields::u32_at(&entry, 4),
            source: crate::fields::u32_at(&entry, 8),
        })
    }

    fn poll_all(&mut self, node: &TestNode) -> Vec<TestCompletion> {
        std::iter::from_fn(|| self.poll(node)).collect()
    }
}

/// A data segment.
fn segment(bytes: u32, key: u32, addr: u64) -> Vec<u8> {
    [
        &bytes.to_be_bytes()[..],
        &key.to_be_bytes(),
        &addr.to_be_bytes(),
    ]
    .concat()
}

/// A remote address segment.
fn remote(addr: u64, key: u32) -> Vec<u8> {
    [&addr.to_be_bytes()[..], &key.to_be_bytes(), &[0; 4]].concat()
}

/// The wire between nodes: packets under way, by time of effect.
#[derive(Default)]
struct Wire {
    under_way: BTreeMap<(Time, usize), (usize, Vec<u8>)>,
    count: usize,
}

impl Wire {
    /// Runs nodes until nothing is left to do, or until `end`. Each packet takes [`WIRE`] and the delay of a receive, unless `lost` says of its
    /// number that it is lost.
    fn run(&mut self, nodes: &mut [TestNode], end: Time, lost: impl Fn(usize) -> bool) {
        loop {
            for from in 0..nodes.len() {
                self.send(nodes, from, &lost);
            }
            let due = (0..nodes.len()).filter_map(|node| Some((nodes[node].hca.deadline()?, node)));
            let due = due.min();
            let arrival = self.under_way.first_key_value();
            let arrival = arrival.map(|((at, _), (to, _))| (*at, *to));
            let next = due.into_iter().chain(arrival).min();
            let Some((now, node)) = next.filter(|(at, _)| *at <= end) else {
                return;
            };
            let own = &mut nodes[node];
            own.now = own.now.max(now);
            if arrival == Some((now, node)) {
                if let Some((_, (_, packet))) = self.under_way.pop_first() {
                    own.hca.receive(&packet, &own.ram, own.now);
                }
            } else {
                own.hca.advance(&own.ram, own.now);
            }
        }
    }

    fn send(&mut self, nodes: &mut [TestNode], from: usize, lost: &impl Fn(usize) -> bool) {
        for (at, packet) in nodes[from].hca.take_packets() {
            let (to, _) = belljar_verbs::addresses(&packet).unwrap();
            self.count += 1;
            for other in (0..nodes.len()).filter(|other| *other != from && !lost(self.count)) {
                if to >= 0xc000 || nodes[other].hca.config.identity.lid == to {
                    let arrives = at + WIRE + DELAYS.receive;
                    self.under_way
                        .insert((arrives, self.count), (other, packet.clone()));
                }
            }
        }
    }
}

/// Two nodes with a connected pair each.
fn connected(service: u8, retries: u32, timeout: u8) -> (Vec<TestNode>, [TestPair; 2]) {
    connected_with_control(service, retries, timeout, None)
}

/// The same with congestion control.
fn connected_with_control(
    service: u8,
    retries: u32,
    timeout: u8,
    control: Option<&Arc<CongestionControl>>,
) -> (Vec<TestNode>, [TestPair; 2]) {
    let node = |lid| TestNode::ready_with_control(lid, control.cloned());
    let mut nodes = vec![node(1), node(2)];
    let pairs = [
        TestPair::new(&mut nodes[0], 0x300, service),
        TestPair::new(&mut nodes[1], 0x301, service),
    ];
    pairs[0].connect(
        &mut nodes[0],
        (2, 0x301),
        (0xff_fffe, 0x77),
        retries,
        timeout,
    );
    pairs[1].connect(
        &mut nodes[1],
        (1, 0x300),
        (0x77, 0xff_fffe),
        retries,
        timeout,
    );
    (nodes, pairs)
}
