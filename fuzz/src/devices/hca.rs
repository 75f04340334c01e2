//! An InfiniBand card under a hostile guest, and under hostile peers.
//!
//! A guest may write any command, doorbell and memory. Peers may send any packets to a connection: they must not change memory that its key
//! does not cover. Called by name from `lib.rs`.

use std::sync::Arc;

use arbitrary::Unstructured;
use belljar_congestion::CongestionControl;
use belljar_cpu::{GuestRam, guest_ram};
use belljar_hca::{Delays, Hca, HcaConfig, Identity, Speed};
use belljar_sim::{Span, Time};
use vm_memory::{Bytes, GuestAddress};

const RAM: usize = 1 << 20;
const MAILBOX: u64 = 0x1000;
/// Lent memory: translation entries, and memory keys at an offset.
const LENT: u64 = 0x1_0000;
const KEYS: u64 = 0x8000;
const QUEUES: u64 = 0x4_0000;
/// The only memory that a peer's key covers.
const COVERED: std::ops::Range<u64> = 0x8_0000..0x8_1800;
const INTERFACE: u64 = 0x8_0680;
/// Most actions of an input.
const MOST: usize = 64;

/// Runs a guest or peers by the first byte.
pub(crate) fn target(input: &[u8]) {
    let mut bytes = Unstructured::new(input);
    let is_guest = bytes.arbitrary::<bool>().unwrap_or_default();
    let control = bytes.arbitrary::<u8>().unwrap_or_default();
    let mut card = Card::new(crate::network::congestion_control(control));
    card.set_up();
    if is_guest {
        let _ = card.obey(&mut bytes);
    } else {
        let before = card.outside();
        let _ = card.receive(&mut bytes);
        assert!(
            card.outside() == before,
            "a peer changed memory outside of its key"
        );
    }
    let state = belljar_sim::encode(&card.hca.save());
    let again = state
        .ok()
        .and_then(|state| belljar_sim::decode(&state).ok());
    assert!(again.is_some_and(|state| card.hca.load(state).is_some()));
}

/// A card with its node's memory.
struct Card {
    ram: GuestRam,
    hca: Hca,
    now: Time,
    toggle: bool,
}

impl Card {
    fn new(congestion: Option<Arc<CongestionControl>>) -> Self {
        let config = HcaConfig {
            identity: Identity {
                guid: 1,
                lid: 1,
                description: String::new(),
                speed: Speed::Edr,
                rate: 100_000_000_000,
                ports: 4,
            },
            delays: Delays {
                send: Span::from_ns(1),
                receive: Span::from_ns(1),
                answer: Span::from_ns(1),
                fetch: Span::from_ns(1),
                bus: 100_000_000_000,
            },
            congestion,
        };
        #[allow(clippy::expect_used, reason = "a host without a MiB cannot run this")]
        let ram = guest_ram(&[(0, RAM)]).expect("memory");
        Self {
            ram,
            hca: Hca::new(config),
            now: Time::ZERO,
            toggle: true,
        }
    }

    fn store(&mut self, addr: u64, bytes: &[u8]) {
        let _ = self.ram.write_slice(bytes, GuestAddress(addr));
    }

    fn command(&mut self, opcode: u32, index: u32, input: u64) {
        let toggle = u32::from(self.toggle) << 21;
        self.toggle = !self.toggle;
        let control = 1 << 23 | toggle | opcode;
        let words = [0, input as u32, index, 0, 0, 0, control];
        for (place, word) in (0..).zip(words) {
            let value = u64::from(u32::swap_bytes(word));
            let at = INTERFACE + 4 * place;
            self.hca.write_register(at, 4, value, &self.ram, self.now);
        }
    }

    /// Posts a command with a mailbox of these fields.
    fn command_with(&mut self, opcode: u32, index: u32, fields: &[(u64, &[u8])]) {
        self.store(MAILBOX, &[0; 4096]);
        for (at, bytes) in fields {
            self.store(MAILBOX + at, bytes);
        }
        self.command(opcode, index, MAILBOX);
    }

    /// Tables, an event queue, a completion queue, a key, and a connection that is ready to receive and to send.
    fn set_up(&mut self) {
        self.command_with(0xffa, 1, &[(8, &(LENT | 4).to_be_bytes())]);
        let tables: [(u64, &[u8]); 3] = [(0, &[2]), (0xf0, &KEYS.to_be_bytes()), (0xfb, &[6])];
        self.command_with(0x07, 0, &tables);
        for page in 0..64_u64 {
            let entry = (QUEUES + page * 4096) | 1;
            self.store(LENT + page * 8, &entry.to_be_bytes());
        }
        for page in 0..2_u64 {
            let entry = (COVERED.start + page * 4096) | 1;
            self.store(LENT + 0x400 + page * 8, &entry.to_be_bytes());
        }
        let events: [(u64, &[u8]); 2] = [(0x0c, &[7]), (0x1c, &0_u32.to_be_bytes())];
        self.command_with(0x13, 4, &events);
        let record = (QUEUES + 0x3_0000).to_be_bytes();
        let completions: [(u64, &[u8]); 4] = [
            (0x0c, &[7]),
            (0x17, &[4]),
            (0x1c, &8_u32.to_be_bytes()),
            (0x38, &record),
        ];
        self.command_with(0x16, 9, &completions);
        let bytes = COVERED.end - COVERED.start;
        let key: [(u64, &[u8]); 7] = [
            (0, &0xf000_7c00_u32.to_be_bytes()),
            (8, &(0x55_u32 << 24 | 3).to_be_bytes()),
            (0x0c, &7_u32.to_be_bytes()),
            (0x10, &COVERED.start.to_be_bytes()),
            (0x18, &bytes.to_be_bytes()),
            (0x2c, &0x400_u64.to_be_bytes()),
            (0x38, &12_u32.to_be_bytes()),
        ];
        self.command_with(0x0d, 3, &key);
        let context: [(u64, &[u8]); 9] = [
            (8 + 4, &7_u32.to_be_bytes()),
            (8 + 8, &[3 << 5 | 30, 4 << 3 | 2, 4 << 3 | 4]),
            (8 + 0x14, &5_u32.to_be_bytes()),
            (8 + 0x18 + 6, &2_u16.to_be_bytes()),
            (8 + 0x7c, &9_u32.to_be_bytes()),
            (8 + 0x90, &(7_u32 << 13 | 4 << 21).to_be_bytes()),
            (8 + 0x9c, &9_u32.to_be_bytes()),
            (8 + 0xa0, &(QUEUES + 0x3_1000).to_be_bytes()),
            (8 + 0xcc, &0x80_u32.to_be_bytes()),
        ];
        for opcode in [0x19, 0x1a, 0x1b] {
            self.command_with(opcode, 0x300, &context);
        }
        // Two receives in the ring, of covered memory.
        let receive = [
            &0x1000_u32.to_be_bytes()[..],
            &0x355_u32.to_be_bytes(),
            &COVERED.start.to_be_bytes(),
        ]
        .concat();
        for slot in 0..2 {
            self.store(QUEUES + 0x1_0000 + (16 << 8) + slot * 64, &receive);
        }
        self.store(QUEUES + 0x3_1000, &2_u32.to_be_bytes());
    }

    /// Memory that is neither covered by the key nor a queue.
    fn outside(&self) -> Vec<u8> {
        let mut all = vec![0; RAM];
        let _ = self.ram.read_slice(&mut all, GuestAddress(0));
        all[COVERED.start as usize..COVERED.end as usize].fill(0);
        // Event and completion queue.
        all[QUEUES as usize..QUEUES as usize + 0x2000].fill(0);
        all
    }

    /// A hostile guest's accesses.
    fn obey(&mut self, bytes: &mut Unstructured<'_>) -> arbitrary::Result<()> {
        for _ in 0..MOST {
            match bytes.int_in_range(0..=5)? {
                0 => {
                    let (offset, value) = (bytes.arbitrary::<u32>()?, bytes.arbitrary()?);
                    let offset = u64::from(offset % (1 << 20));
                    self.hca
                        .write_register(offset, 4, value, &self.ram, self.now);
                    self.hca.read_register(offset, 4);
                }
                1 => {
                    let (opcode, index, input) = bytes.arbitrary::<(u16, u32, u32)>()?;
                    self.command(
                        u32::from(opcode & 0xfff),
                        index,
                        u64::from(input % (1 << 20)),
                    );
                }
                2 => {
                    let (offset, len, value) = bytes.arbitrary::<(u32, bool, u64)>()?;
                    let len = if len { 8 } else { 4 };
                    let offset = u64::from(offset % (8 << 20));
                    self.hca
                        .write_doorbell(offset, len, value, &self.ram, self.now);
                }
                3 => {
                    let value = u64::from((0x300_u32 << 8).swap_bytes());
                    self.hca.write_doorbell(0x14, 4, value, &self.ram, self.now);
                }
                4 => {
                    let addr = u64::from(bytes.arbitrary::<u32>()? % RAM as u32);
                    let count = bytes.int_in_range(0..=64)?;
                    let content = bytes.bytes(count)?.to_vec();
                    self.store(addr, &content);
                }
                _ => self.pass(),
            }
        }
        Ok(())
    }

    /// Hostile peers' packets.
    fn receive(&mut self, bytes: &mut Unstructured<'_>) -> arbitrary::Result<()> {
        for _ in 0..MOST {
            let count = bytes.int_in_range(20..=160)?;
            let mut packet = bytes.bytes(count / 4 * 4)?.to_vec();
            if bytes.arbitrary()? {
                // Addresses of the connection, so that the packet reaches it.
                packet[1] = packet[1] & 0xf0 | 2;
                packet[2..8].copy_from_slice(&[0, 1, 0, (count / 4) as u8, 0, 2]);
                packet[12..16].copy_from_slice(&[0, 0, 3, 0]);
                packet[17..19].copy_from_slice(&[0, 0]);
            }
            self.hca.receive(&packet, &self.ram, self.now);
            self.pass();
        }
        Ok(())
    }

    /// Time passes, and what the card sent is taken.
    fn pass(&mut self) {
        self.now += Span::from_us(10);
        self.hca.advance(&self.ram, self.now);
        self.hca.take_packets();
        self.hca.take_vectors();
    }
}

/// A guest's commands, and packets of a peer: a write into the covered memory, and one beyond it.
pub(crate) fn seeds() -> Vec<Vec<u8>> {
    // Marked by a switch, if the card has congestion control.
    let write = |addr: u64, bytes: u32| {
        let mut packet = vec![0, 2, 0, 1, 0, 13, 0, 2];
        packet.extend([10, 0, 0xff, 0xff, 0x80, 0, 3, 0, 0x80, 0, 0, 0]);
        packet.extend(addr.to_be_bytes());
        packet.extend(0x355_u32.to_be_bytes());
        packet.extend(bytes.to_be_bytes());
        packet.extend([0xaa; 12]);
        packet.extend([0; 4]);
        packet
    };
    let peer = |control: u8| {
        let mut peer = vec![0, control];
        for addr in [COVERED.start, COVERED.end - 8] {
            peer.push(32);
            peer.extend(write(addr, 12));
            peer.push(1);
        }
        peer
    };
    let mut guest = vec![1, 0];
    guest.extend((0..200_u8).collect::<Vec<u8>>());
    vec![peer(0), peer(1), peer(2), guest]
}
