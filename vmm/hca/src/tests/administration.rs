use belljar_verbs::{Extensions, With};

use super::*;
use crate::datagram::datagram;

const GET: u8 = 1;
const SET: u8 = 2;
const DELETE: u8 = 0x15;
const PATH: u16 = 0x35;
const GROUP: u16 = 0x38;
/// The subnet's ports have local identifiers from 1 to this.
const PORTS: u16 = 0x2000;
/// IP version 6: all nodes of the subnet.
const SIX: [u8; 16] = [
    0xff, 0x12, 0x60, 0x1b, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1,
];

/// The global identifier of a port.
fn gid(lid: u16) -> [u8; 16] {
    (0xfe80_u128 << 112 | 0x0262_6a00_0000_0000 | u128::from(lid)).to_be_bytes()
}

/// The answer to a request from a port: its method, its status and its record.
fn ask(
    node: &mut TestNode,
    from: u16,
    (method, attribute): (u8, u16),
    mask: u64,
    fields: &[(usize, &[u8])],
) -> (u8, u16, Vec<u8>) {
    let mut payload = vec![0; 256];
    payload[..4].copy_from_slice(&[1, 3, 2, method]);
    put(&mut payload, 8, &[1, 2, 3, 4, 5, 6, 7, 8]);
    put(&mut payload, 16, &attribute.to_be_bytes());
    put(&mut payload, 48, &mask.to_be_bytes());
    for (at, value) in fields {
        put(&mut payload, 56 + at, value);
    }
    let packet = Packet {
        to: 1,
        from,
        opcode: datagram(With::Nothing),
        partition: 0xffff,
        queue_pair: 1,
        extensions: Extensions {
            queue_key: 0x8001_0000,
            source: 1,
            ..Extensions::default()
        },
        payload,
        ..Packet::default()
    };
    node.hca.receive(&packet.to_bytes(), &node.ram, node.now);
    let sent = std::mem::take(&mut node.hca.core.outgoing);
    let [(at, bytes)] = &sent[..] else {
        panic!("{} answers", sent.len());
    };
    assert_eq!(*at, node.now + DELAYS.answer);
    let answer = Packet::of_bytes(bytes).expect("a packet");
    assert_eq!((answer.to, answer.from, answer.queue_pair), (from, 1, 1));
    assert_eq!(answer.extensions.queue_key, 0x8001_0000);
    let mad = answer.payload;
    assert_eq!(mad[8..16], [1, 2, 3, 4, 5, 6, 7, 8], "the transaction");
    let status = u16::from_be_bytes([mad[4], mad[5]]);
    (mad[3], status, mad[56..].to_vec())
}

#[test]
fn a_path_leads_to_the_port_with_the_global_identifier() {
    let mut node = TestNode::ready(1);
    let ends: [(usize, &[u8]); 2] = [(8, &gid(7)), (24, &gid(3))];
    let (method, status, record) = ask(&mut node, 3, (GET, PATH), 0b1100, &ends);
    assert_eq!((method, status), (0x81, 0));
    assert_eq!(record[8..24], gid(7));
    assert_eq!(record[40..44], [0, 7, 0, 3], "local identifiers");
    assert_eq!(record[49..52], [0x81, 0xff, 0xff], "one reversible path");
    assert_eq!(
        record[54..57],
        [0x85, 0x90, 0x92],
        "exactly 4096 bytes, 100 Gb/s, 1.07 s"
    );
    // The destination by its local identifier.
    let ends: [(usize, &[u8]); 2] = [(40, &[0, 7]), (24, &gid(3))];
    let (_, status, record) = ask(&mut node, 3, (GET, PATH), 0b1_1000, &ends);
    assert_eq!((status, &record[8..24]), (0, &gid(7)[..]));
    for wrong in [gid(PORTS + 1), gid(0), [0; 16]] {
        let ends: [(usize, &[u8]); 2] = [(8, &wrong), (24, &gid(3))];
        let (method, status, _) = ask(&mut node, 3, (GET, PATH), 0b1100, &ends);
        assert_eq!((method, status), (0x81, 0x0300), "no records");
    }
    assert_eq!(ask(&mut node, 3, (GET, PATH), 0, &[]).1, 0x0300);
}

#[test]
fn ports_join_the_group_of_all_nodes_and_groups_that_they_make() {
    let mut node = TestNode::ready(1);
    let all = [
        0xff, 0x12, 0x40, 0x1b, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff,
    ];
    let join = |name: &[u8; 16], node: &mut TestNode, from: u16, mask: u64| {
        let port = gid(from);
        let fields: [(usize, &[u8]); 5] = [
            (0, name),
            (16, &port),
            (32, &[0, 0, 0x12, 0x34]),
            (40, &[0xff, 0xff]),
            (48, &[0x21]),
        ];
        ask(node, from, (SET, GROUP), mask, &fields)
    };
    let (method, status, record) = join(&all, &mut node, 2, 1 << 16 | 1 << 7 | 0b11);
    assert_eq!((method, status), (0x81, 0));
    assert_eq!(record[16..32], gid(2), "the member");
    assert_eq!(record[32..36], [0, 0, 0x0b, 0x1b], "the group's key");
    assert_eq!(record[36..38], [0xc0, 0], "its local identifier");
    assert_eq!(record[38], 0x84, "2048 bytes");
    assert_eq!(record[48], 0x21, "within the subnet, full member");
    // Another group exists only when a request has all of its properties.
    assert_eq!(join(&SIX, &mut node, 2, 0b11).1, 0x0200);
    let makes = 1 << 16 | 1 << 12 | 1 << 7 | 1 << 2 | 0b11;
    let (_, status, record) = join(&SIX, &mut node, 2, makes);
    assert_eq!((status, &record[36..38]), (0, &[0xc0, 1][..]));
    assert_eq!(record[32..36], [0, 0, 0x12, 0x34]);
    let (_, status, record) = join(&SIX, &mut node, 3, 0b11);
    assert_eq!((status, &record[36..38]), (0, &[0xc0, 1][..]));
    // It ends with its last member.
    let leave = |node: &mut TestNode, from: u16| {
        let port = gid(from);
        let fields: [(usize, &[u8]); 3] = [(0, &SIX), (16, &port), (48, &[1])];
        ask(node, from, (DELETE, GROUP), 0b11, &fields)
    };
    let (method, status, _) = leave(&mut node, 2);
    assert_eq!((method, status), (0x95, 0));
    assert_eq!(leave(&mut node, 2).1, 0x0200, "it left already");
    let get: [(usize, &[u8]); 1] = [(0, &SIX)];
    assert_eq!(ask(&mut node, 9, (GET, GROUP), 1, &get).1, 0);
    assert_eq!(leave(&mut node, 3).1, 0);
    assert_eq!(ask(&mut node, 9, (GET, GROUP), 1, &get).1, 0x0300);
    let get: [(usize, &[u8]); 1] = [(0, &all)];
    let (_, status, record) = ask(&mut node, 9, (GET, GROUP), 1, &get);
    assert_eq!((status, record[48]), (0, 0x20), "it stays, without members");
}

#[test]
fn groups_are_bounded_and_unknown_requests_are_refused() {
    let mut node = TestNode::ready(1);
    let makes = 1 << 16 | 1 << 12 | 1 << 7 | 1 << 2 | 0b11;
    let made = (0_u16..2000).map(|number| {
        let mut name = SIX;
        put(&mut name, 12, &number.to_be_bytes());
        let port = gid(2);
        let fields: [(usize, &[u8]); 3] = [(0, &name), (16, &port), (48, &[1])];
        ask(&mut node, 2, (SET, GROUP), makes, &fields).1
    });
    let made: Vec<u16> = made.collect();
    assert_eq!(made.iter().filter(|status| **status == 0).count(), 1023);
    assert!(made[1023..].iter().all(|status| *status == 0x0100));
    let (method, status, record) = ask(&mut node, 2, (GET, 1), 0, &[]);
    assert_eq!((method, status, &record[..2]), (0x81, 0, &[1, 2][..]));
    assert_eq!(ask(&mut node, 2, (0x12, PATH), 0, &[]).1, 8, "a table");
    assert_eq!(ask(&mut node, 2, (GET, 0x31), 0, &[]).1, 0xc, "services");
}

#[test]
fn other_cards_do_not_answer_for_the_subnet() {
    let mut node = TestNode::ready(2);
    let mut payload = vec![0; 256];
    payload[..4].copy_from_slice(&[1, 3, 2, GET]);
    let packet = Packet {
        to: 2,
        from: 3,
        queue_pair: 1,
        payload,
        ..Packet::default()
    };
    node.hca.receive(&packet.to_bytes(), &node.ram, node.now);
    assert!(node.hca.core.outgoing.is_empty());
}
