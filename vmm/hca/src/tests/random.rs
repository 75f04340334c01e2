//! Random programs over one reliable connection, with losses, against a plain model: messages arrive once and in order, and memory has the written values.

use super::*;
use proptest::prelude::*;

/// A request of a program.
#[derive(Clone, Debug)]
enum Request {
    Send { bytes: usize },
    Write { at: usize, bytes: usize },
    Read { at: usize, bytes: usize },
    Add { at: usize, value: u64 },
}

/// Bytes of the peer's memory that requests use.
const AREA: usize = 0x4000;

fn request() -> impl Strategy<Value = Request> {
    let bytes = || prop_oneof![Just(0_usize), 1..64_usize, 1000..5000_usize];
    prop_oneof![
        bytes().prop_map(|bytes| Request::Send { bytes }),
        (0..AREA / 2, bytes()).prop_map(|(at, bytes)| Request::Write { at, bytes }),
        (0..AREA / 2, bytes()).prop_map(|(at, bytes)| Request::Read { at, bytes }),
        (0..AREA / 16, any::<u64>()).prop_map(|(at, value)| Request::Add { at: at * 8, value }),
    ]
}

/// The byte that request `number` sends at `at`.
fn pattern(number: usize, at: usize) -> u8 {
    (number * 31 + at * 7 + 1) as u8
}

fn patterns(number: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| pattern(number, at)).collect()
}

/// Address of the data of request `number` on the first node, and of its receive on the second.
fn own(number: usize) -> u64 {
    DATA + 0x2_0000 + number as u64 * 0x2000
}

/// Runs requests over cards that are saved and loaded in between. Packets with the numbers in `lost` are lost.
fn carried_out(
    requests: &[Request],
    lost: &[u16],
    saves: bool,
) -> (Vec<TestNode>, Vec<TestCompletion>, Vec<TestCompletion>) {
    let (mut nodes, [mut one, mut two]) = connected(0, 7, 2);
    let bytes = RAM as u64 - DATA;
    let keys = [0, 1].map(|node| nodes[node].register(3, DATA, bytes, ALL_RIGHTS));
    let (mut sent, mut received) = (Vec::new(), Vec::new());
    let mut wire = Wire::default();
    for (number, request) in requests.iter().enumerate() {
        let here = own(number);
        let (opcode, segments) = match request {
            Request::Send { bytes } => {
                two.receive(&nodes[1], &segment(0x2000, keys[1], here));
                write(&nodes[0].ram, here, &patterns(number, *bytes)).unwrap();
                (0x0a, segment(*bytes as u32, keys[0], here))
            }
            Request::Write { at, bytes } => {
                write(&nodes[0].ram, here, &patterns(number, *bytes)).unwrap();
                let to = remote(DATA + *at as u64, keys[1]);
                (0x08, [to, segment(*bytes as u32, keys[0], here)].concat())
            }
            Request::Read { at, bytes } => {
                let from = remote(DATA + *at as u64, keys[1]);
                (0x10, [from, segment(*bytes as u32, keys[0], here)].concat())
            }
            Request::Add { at, value } => {
                let to = remote(DATA + *at as u64, keys[1]);
                let operands = [value.to_be_bytes(), [0; 8]].concat();
                (0x12, [to, operands, segment(8, keys[0], here)].concat())
            }
        };
        one.post(&mut nodes[0], opcode, 0, &segments);
        // Two or three requests are under way at a time.
        let end = nodes[0].now.max(nodes[1].now) + Span::from_ns(700);
        let is_lost = |packet: usize| lost.contains(&(packet as u16));
        wire.run(&mut nodes, end, is_lost);
        for node in &mut nodes {
            node.now = end;
            if saves {
                let state = belljar_sim::encode(&node.hca.save()).unwrap();
                node.hca.load(belljar_sim::decode(&state).unwrap()).unwrap();
            }
        }
        if number + 1 == requests.len() {
            wire.run(&mut nodes, Time::MAX, is_lost);
        }
        sent.extend(one.poll_all(&nodes[0]));
        received.extend(two.poll_all(&nodes[1]));
    }
    (nodes, sent, received)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]
    #[test]
    fn programs_have_the_effects_of_a_plain_model(
        requests in proptest::collection::vec(request(), 1..25),
        lost in proptest::collection::vec(1_u16..80, 0..6),
        saves in any::<bool>(),
    ) {
        let (nodes, sent, received) = carried_out(&requests, &lost, saves);
        let mut memory = vec![0_u8; AREA + 0x2000];
        let (mut lengths, mut reads, mut states) = (Vec::new(), Vec::new(), Vec::new());
        for (number, request) in requests.iter().enumerate() {
            match request {
                Request::Send { bytes } => {
                    lengths.push(*bytes as u32);
                    prop_assert!(nodes[1].bytes(own(number), *bytes) == patterns(number, *bytes));
                }
                Request::Write { at, bytes } => {
                    memory[*at..at + bytes].copy_from_slice(&patterns(number, *bytes));
                }
                Request::Read { at, bytes } => reads.push((number, *at, *bytes)),
                Request::Add { at, value } => {
                    let place = &mut memory[*at..at + 8];
                    let former = u64::from_le_bytes(place.try_into().unwrap());
                    prop_assert_eq!(nodes[0].bytes(own(number), 8), former.to_le_bytes());
                    place.copy_from_slice(&former.wrapping_add(*value).to_le_bytes());
                }
            }
            states.push(memory.clone());
        }
        // A read is repeated after the loss of its answer, and may return values of later requests (section 9.7.5.1.4).
        for (number, at, bytes) in reads {
            let read = nodes[0].bytes(own(number), bytes);
            let later = if lost.is_empty() { &states[number..=number] } else { &states[number..] };
            let is_known = |(place, byte): (usize, &u8)| later.iter().any(|state| state[at + place] == *byte);
            prop_assert!(read.iter().enumerate().all(is_known), "read {number}");
        }
        prop_assert!(nodes[1].bytes(DATA, memory.len()) == memory, "the peer's memory");
        let works: Vec<(u16, u8)> = sent.iter().map(|it| (it.work, it.syndrome)).collect();
        let expected: Vec<(u16, u8)> = (0..requests.len() as u16).map(|work| (work, 0)).collect();
        prop_assert_eq!(works, expected);
        let arrived: Vec<u32> = received.iter().map(|it| it.bytes).collect();
        prop_assert_eq!(arrived, lengths);
    }

    #[test]
    fn any_store_and_any_packet_is_survived(
        stores in proptest::collection::vec((0_u64..0x10_0000, any::<u64>(), 0_u8..9, any::<bool>()), 1..60),
        packets in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..80), 0..20),
    ) {
        let (mut nodes, _pairs) = connected(0, 7, 2);
        let node = &mut nodes[0];
        for (offset, value, len, registers) in stores {
            if registers {
                // Commands of the interface, mostly known ones.
                let offset = if offset % 3 == 0 { offset } else { INTERFACE + offset % 8 * 4 };
                node.hca.write_register(offset, len, value, &node.ram, node.now);
                node.hca.read_register(offset, len);
            } else {
                let offset = if offset % 2 == 0 { 0x80_0014 } else { offset };
                node.hca.write_doorbell(offset, len, value, &node.ram, node.now);
            }
        }
        for mut packet in packets {
            if packet.len() >= 24 {
                packet.truncate(packet.len() / 4 * 4);
                let words = (packet.len() / 4) as u8;
                packet[1] = packet[1] & 0xf0 | 2;
                packet[2..6].copy_from_slice(&[0, 1, 0, words]);
                packet[6..8].copy_from_slice(&[0, 2]);
                packet[12..16].copy_from_slice(&[0, 0, 3, 0]);
            }
            node.hca.receive(&packet, &node.ram, node.now);
        }
        node.hca.take_packets();
        node.hca.advance(&node.ram, Time::ZERO + Span::from_ms(10));
    }
}
