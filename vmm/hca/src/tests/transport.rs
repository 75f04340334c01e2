use super::*;

const TEXT: &[u8] = b"the quick brown fox";

/// The data of both nodes, each under a key with all rights.
fn registered(nodes: &mut [TestNode]) -> [u32; 2] {
    [0, 1].map(|node| nodes[node].register(3, DATA, 0x10_0000, ALL_RIGHTS))
}

#[test]
fn a_message_takes_the_delays_and_completes_after_its_acknowledgement() {
    let (mut nodes, [mut one, mut two]) = connected(0, 7, 14);
    let mut wire = Wire::default();
    let keys = registered(&mut nodes);
    write(&nodes[0].ram, DATA, TEXT).unwrap();
    two.receive(&nodes[1], &segment(100, keys[1], DATA + 0x2000));
    one.post(
        &mut nodes[0],
        0x0b,
        0xcafe,
        &segment(TEXT.len() as u32, keys[0], DATA),
    );
    // Of each byte, 8 bits at 100 Gb/s between memory and card.
    let read = DELAYS.fetch + Span::from_ps(80 * TEXT.len() as u64);
    let arrives = Time::ZERO + DELAYS.send + read + WIRE + DELAYS.receive;
    wire.run(&mut nodes, arrives, |_| false);
    assert_eq!(nodes[1].now, arrives);
    let received = two.poll(&nodes[1]).unwrap();
    assert_eq!((received.opcode, received.bytes), (2, TEXT.len() as u32));
    assert_eq!((received.immediate, received.work), (0xcafe, 0));
    assert_eq!(nodes[1].bytes(DATA + 0x2000, TEXT.len()), TEXT);
    assert_eq!(one.poll(&nodes[0]), None);
    let acknowledged = arrives + DELAYS.answer + WIRE + DELAYS.receive;
    wire.run(&mut nodes, acknowledged, |_| false);
    let sent = one.poll(&nodes[0]).unwrap();
    assert_eq!((sent.is_send, sent.opcode, sent.syndrome), (true, 0x0b, 0));
    assert_eq!(nodes[0].now, acknowledged);
}

/// Programs arm a queue before or after they read it. Each entry has one event in either order.
#[test]
fn an_armed_queue_has_one_event_for_each_entry() {
    let (mut nodes, [mut one, mut two]) = connected(0, 7, 14);
    let mut wire = Wire::default();
    let keys = registered(&mut nodes);
    for _ in 0..3 {
        two.receive(&nodes[1], &segment(100, keys[1], DATA));
    }
    // Events of the queue so far: valid entries of the event queue, in its first pass.
    let events = |node: &TestNode| {
        let entries = (0..256).map(|index| node.bytes(QUEUES + 32 * index, 32));
        let is_of_queue = |entry: &Vec<u8>| entry[31] >> 7 == 0 && entry[1] == 0;
        entries.filter(is_of_queue).count()
    };
    let mut send = |nodes: &mut Vec<TestNode>| {
        one.post(&mut nodes[0], 0x0a, 0, &segment(8, keys[0], DATA));
        wire.run(nodes, Time::MAX, |_| false);
        events(&nodes[1])
    };
    let arm = |node: &mut TestNode, consumer: u32| {
        let doorbell = u64::from((2_u32 << 24 | 0x301).swap_bytes());
        let value = u64::from(consumer.swap_bytes()) << 32 | doorbell;
        node.hca
            .write_doorbell(0x80_0020, 8, value, &node.ram, node.now);
        events(node)
    };
    assert_eq!(arm(&mut nodes[1], 0), 0);
    assert_eq!(send(&mut nodes), 1);
    // Armed again before the entry is read.
    assert_eq!(arm(&mut nodes[1], 0), 1);
    two.poll(&nodes[1]).unwrap();
    assert_eq!(send(&mut nodes), 2);
    // This entry comes before the queue is armed, and the program has not read it.
    assert_eq!(send(&mut nodes), 2);
    assert_eq!(arm(&mut nodes[1], 2), 3);
}

#[test]
fn writes_reads_and_atomic_operations_reach_the_peers_memory() {
    let (mut nodes, [mut one, mut two]) = connected(0, 7, 14);
    let mut wire = Wire::default();
    let keys = registered(&mut nodes);
    let long: Vec<u8> = (0..10_000_u32).map(|at| (at % 251) as u8).collect();
    write(&nodes[0].ram, DATA, &long).unwrap();
    let bytes = long.len() as u32;
    let there = DATA + 0x8_0123;
    one.post(
        &mut nodes[0],
        0x08,
        0,
        &[remote(there, keys[1]), segment(bytes, keys[0], DATA)].concat(),
    );
    one.post(
        &mut nodes[0],
        0x10,
        0,
        &[
            remote(there, keys[1]),
            segment(bytes, keys[0], DATA + 0x1_0001),
        ]
        .concat(),
    );
    write(&nodes[1].ram, DATA + 8, &41_u64.to_le_bytes()).unwrap();
    let operands = |first: u64, second: u64| [first.to_be_bytes(), second.to_be_bytes()].concat();
    let add = [
        remote(DATA + 8, keys[1]),
        operands(1, 0),
        segment(8, keys[0], DATA + 0x3_0000),
    ]
    .concat();
    let swap = [
        remote(DATA + 8, keys[1]),
        operands(7, 42),
        segment(8, keys[0], DATA + 0x3_0008),
    ]
    .concat();
    one.post(&mut nodes[0], 0x12, 0, &add);
    one.post(&mut nodes[0], 0x11, 0, &swap);
    wire.run(&mut nodes, Time::MAX, |_| false);
    let done = one.poll_all(&nodes[0]);
    let kinds: Vec<(u8, u8)> = done.iter().map(|it| (it.opcode, it.syndrome)).collect();
    assert_eq!(kinds, [(0x08, 0), (0x10, 0), (0x12, 0), (0x11, 0)]);
    assert_eq!(nodes[1].bytes(there, long.len()), long);
    assert_eq!(nodes[0].bytes(DATA + 0x1_0001, long.len()), long);
    assert_eq!(
        nodes[0].bytes(DATA + 0x3_0000, 16),
        operands(41_u64.swap_bytes(), 42_u64.swap_bytes())
    );
    assert_eq!(nodes[1].bytes(DATA + 8, 8), 7_u64.to_le_bytes());
    assert_eq!(
        two.poll_all(&nodes[1]),
        [],
        "the peer's program does not notice"
    );
}

#[test]
fn a_peer_without_a_receive_is_tried_again_until_it_has_one() {
    let (mut nodes, [mut one, mut two]) = connected(0, 7, 14);
    let mut wire = Wire::default();
    let keys = registered(&mut nodes);
    one.post(&mut nodes[0], 0x0a, 0, &segment(8, keys[0], DATA));
    one.post(&mut nodes[0], 0x0a, 0, &segment(16, keys[0], DATA));
    wire.run(&mut nodes, Time::ZERO + Span::from_us(5), |_| false);
    assert_eq!(
        (one.poll_all(&nodes[0]), two.poll_all(&nodes[1])),
        (vec![], vec![])
    );
    for at in [0, 0x100] {
        two.receive(&nodes[1], &segment(100, keys[1], DATA + at));
    }
    // The code that was set asks for 10 us.
    wire.run(&mut nodes, Time::ZERO + Span::from_us(14), |_| false);
    let bytes: Vec<u32> = two.poll_all(&nodes[1]).iter().map(|it| it.bytes).collect();
    assert_eq!(bytes, [8, 16]);
    assert_eq!(one.poll_all(&nodes[0]).len(), 2);
    assert_eq!(nodes[1].hca.counters().not_ready, 1);
}

#[test]
fn a_silent_peer_ends_the_connection_after_all_retries() {
    let (mut nodes, [mut one, _]) = connected(0, 3, 4);
    let mut wire = Wire::default();
    let keys = registered(&mut nodes);
    one.post(&mut nodes[0], 0x0a, 0, &segment(8, keys[0], DATA));
    one.post(&mut nodes[0], 0x0a, 0, &segment(8, keys[0], DATA));
    wire.run(&mut nodes, Time::MAX, |_| true);
    let syndromes: Vec<u8> = one
        .poll_all(&nodes[0])
        .iter()
        .map(|it| it.syndrome)
        .collect();
    assert_eq!(syndromes, [0x15, 0x05], "retries exceeded, and flushed");
    // The first try and three more, 65.5 us each.
    assert_eq!(
        nodes[0].now,
        Time::ZERO + Span::from_ps(4 * (4_096_000 << 4))
    );
    one.post(&mut nodes[0], 0x0a, 0, &segment(8, keys[0], DATA));
    assert_eq!(one.poll_all(&nodes[0])[0].syndrome, 0x05);
}

#[test]
fn keys_bound_what_a_peer_reaches() {
    let attempts: [(u64, u32, u32, u8); 5] = [
        // Beyond the end, before the beginning, another variant of the key, without the right, without a key.
        (DATA + 0x1000 - 4, 0, 1 << 13, 0x13),
        (DATA - 4, 0, 1 << 13, 0x13),
        (DATA, 1, 1 << 13, 0x13),
        (DATA, 0, 1 << 12, 0x13),
        (DATA, 0x700, 1 << 13, 0x13),
    ];
    for (addr, change, rights, syndrome) in attempts {
        let (mut nodes, [mut one, _]) = connected(0, 7, 14);
        let mut wire = Wire::default();
        let own = nodes[0].register(3, DATA, 0x1000, ALL_RIGHTS);
        let key = nodes[1].register(4, DATA, 0x1000, rights | 1 << 11);
        let before = nodes[1].bytes(DATA - 64, 0x1100);
        write(&nodes[0].ram, DATA, TEXT).unwrap();
        one.post(
            &mut nodes[0],
            0x08,
            0,
            &[remote(addr, key ^ change), segment(16, own, DATA)].concat(),
        );
        wire.run(&mut nodes, Time::MAX, |_| false);
        assert_eq!(
            one.poll_all(&nodes[0])[0].syndrome,
            syndrome,
            "{addr:x} {change:x} {rights:x}"
        );
        assert_eq!(nodes[1].bytes(DATA - 64, 0x1100), before);
    }
    let (mut nodes, [mut one, _]) = connected(0, 7, 14);
    let own = nodes[0].register(3, DATA, 0x1000, 1 << 11);
    one.post(&mut nodes[0], 0x0a, 0, &segment(16, own, DATA));
    assert_eq!(
        one.poll_all(&nodes[0])[0].syndrome,
        0x04,
        "no right to read its own memory"
    );
}

#[test]
fn a_message_longer_than_its_receive_fails_on_both_sides() {
    let (mut nodes, [mut one, mut two]) = connected(0, 7, 14);
    let mut wire = Wire::default();
    let keys = registered(&mut nodes);
    two.receive(&nodes[1], &segment(2_000, keys[1], DATA));
    one.post(&mut nodes[0], 0x0a, 0, &segment(2_001, keys[0], DATA));
    wire.run(&mut nodes, Time::MAX, |_| false);
    assert_eq!(two.poll_all(&nodes[1])[0].syndrome, 0x01, "local length");
    assert_eq!(
        one.poll_all(&nodes[0])[0].syndrome,
        0x12,
        "remote invalid request"
    );
}

#[test]
fn datagrams_have_their_sender_and_need_the_queue_key() {
    let (mut nodes, [mut one, mut two]) = connected(3, 0, 0);
    let mut wire = Wire::default();
    let keys = registered(&mut nodes);
    write(&nodes[0].ram, DATA, TEXT).unwrap();
    let to = |queue_key: u32| {
        let mut datagram = vec![0; 48];
        put(&mut datagram, 6, &2_u16.to_be_bytes());
        put(&mut datagram, 0x20, &0x301_u32.to_be_bytes());
        put(&mut datagram, 0x24, &queue_key.to_be_bytes());
        [datagram, segment(TEXT.len() as u32, keys[0], DATA)].concat()
    };
    for at in [0, 0x100] {
        two.receive(&nodes[1], &segment(100, keys[1], DATA + at));
    }
    one.post(&mut nodes[0], 0x0a, 0, &to(0x1111_1112));
    one.post(&mut nodes[0], 0x0a, 0, &to(0x1111_1111));
    wire.run(&mut nodes, Time::MAX, |_| false);
    let received = two.poll_all(&nodes[1]);
    assert_eq!(received.len(), 1);
    assert_eq!(
        (received[0].source, received[0].bytes),
        (0x300, 40 + TEXT.len() as u32)
    );
    assert_eq!(nodes[1].bytes(DATA + 40, TEXT.len()), TEXT);
    assert_eq!(one.poll_all(&nodes[0]).len(), 2, "a sender does not notice");
    assert_eq!(nodes[1].hca.counters().dropped, 1);
}

#[test]
fn groups_reach_their_pairs() {
    let (mut nodes, [mut one, mut two]) = connected(3, 0, 0);
    let mut wire = Wire::default();
    let keys = registered(&mut nodes);
    let group = [0xff, 0x12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 9];
    let mut entry = vec![0; 128];
    put(&mut entry, 4, &1_u32.to_be_bytes());
    put(&mut entry, 0x10, &group);
    put(&mut entry, 0x20, &0x301_u32.to_be_bytes());
    nodes[1].mailbox(&entry);
    assert_eq!(nodes[1].command(0x26, 5, 0, INPUT, 0).0, 0, "WRITE_MCG");
    assert_eq!(
        nodes[1].command(0x26, 32, 0, INPUT, 0).0,
        0x0a,
        "beyond the table"
    );
    let mut datagram = vec![0; 48];
    datagram[5] = 0x80;
    put(&mut datagram, 6, &0xc009_u16.to_be_bytes());
    put(&mut datagram, 0x10, &group);
    put(&mut datagram, 0x20, &0xff_ffff_u32.to_be_bytes());
    put(&mut datagram, 0x24, &0x1111_1111_u32.to_be_bytes());
    two.receive(&nodes[1], &segment(100, keys[1], DATA));
    one.post(
        &mut nodes[0],
        0x0a,
        0,
        &[datagram, segment(8, keys[0], DATA)].concat(),
    );
    wire.run(&mut nodes, Time::MAX, |_| false);
    let received = two.poll_all(&nodes[1]);
    assert_eq!((received.len(), received[0].source), (1, 1 << 31 | 0x300));
    assert_eq!(nodes[1].bytes(DATA + 24, 16), group);
}

#[test]
fn a_full_completion_queue_reports_an_overrun_and_keeps_its_entries() {
    let (mut nodes, [mut one, _]) = connected(1, 0, 0);
    let mut wire = Wire::default();
    let keys = registered(&mut nodes);
    for _ in 0..300 {
        one.post(&mut nodes[0], 0x0a, 0, &segment(4, keys[0], DATA));
        wire.run(&mut nodes, Time::MAX, |_| false);
    }
    assert_eq!(one.poll_all(&nodes[0]).len(), 256);
    let events = nodes[0].bytes(QUEUES, 64);
    let kinds = events.chunks(32).map(|entry| entry[1]);
    assert_eq!(
        kinds.collect::<Vec<_>>(),
        [9, 4],
        "the port's change, and an error of a completion queue"
    );
}

#[test]
fn unreliable_sends_complete_when_the_link_has_carried_them() {
    let (mut nodes, [mut one, _]) = connected(1, 7, 14);
    let keys = registered(&mut nodes);
    one.post(&mut nodes[0], 0x0a, 0, &segment(0x8000, keys[0], DATA));
    let packets = nodes[0].hca.take_packets();
    let first = packets[0].0;
    let busy = packets.iter().fold(Span::ZERO, |sum, (_, packet)| {
        sum + Span::of_transfer(belljar_verbs::wire_bytes(packet.len()), 100_000_000_000)
    });
    // The bus is as fast, so that headers keep packets waiting for the link.
    let left = first + busy;
    let before = Time::from_ps(left.as_ps() - 1_000);
    let node = &mut nodes[0];
    node.hca.advance(&node.ram, before);
    assert_eq!(one.poll(node), None);
    node.hca.advance(&node.ram, left);
    assert_eq!(one.poll(node).unwrap().syndrome, 0);
}
