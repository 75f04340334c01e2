use super::*;

#[test]
fn the_probe_finds_a_card_with_one_port() {
    let mut node = TestNode::new(5);
    assert_eq!(node.command(0x04, 0, 0, 0, OUTPUT).0, 0, "QUERY_FW");
    let firmware = node.bytes(OUTPUT, 0x40);
    assert_eq!(firmware[..8], [0, 1, 0, 2, 0x13, 0x88, 0, 42]);
    assert_eq!(node.command(0x03, 0, 0, 0, OUTPUT).0, 0, "QUERY_DEV_CAP");
    assert_eq!(node.bytes(OUTPUT + 0x37, 1)[0] & 0xf, 1, "ports");
    assert_eq!(node.command(0x43, 1, 0, 0, OUTPUT).0, 0, "QUERY_PORT");
    assert_eq!(
        node.bytes(OUTPUT, 2),
        [1, 5],
        "InfiniBand, down, MTU of 4096"
    );
    assert_eq!(
        node.command(0x43, 2, 0, 0, OUTPUT).0,
        0x0a,
        "there is no second port"
    );
    node.set_up();
    assert_eq!(
        node.command(0x07, 0, 0, INPUT, 0).0,
        4,
        "INIT_HCA comes once"
    );
    assert_eq!(node.command(0x09, 1, 0, 0, 0).0, 0);
    assert_eq!(node.command(0x43, 1, 0, 0, OUTPUT).0, 0);
    assert_eq!(node.bytes(OUTPUT, 1), [0x81], "up");
    assert_eq!(node.command(0x999, 0, 0, 0, 0).0, 2, "unknown commands");
    assert_eq!(
        node.command(0x13, 4, 0, RAM as u64, 0).0,
        3,
        "a mailbox beyond RAM"
    );
    assert_eq!(node.command(0x03, 0, 0, 0, RAM as u64).0, 3);
}

#[test]
fn management_describes_the_port() {
    let mut node = TestNode::ready(0x1234);
    let mut ask = |attribute: u16| {
        let mut mad = vec![0; 256];
        mad[..4].copy_from_slice(&[1, 1, 1, 1]);
        put(&mut mad, 16, &attribute.to_be_bytes());
        put(&mut mad, 20, &[0, 0, 0, 1]);
        node.mailbox(&mad);
        assert_eq!(node.command(0x24, 1, 3, INPUT, OUTPUT).0, 0);
        node.bytes(OUTPUT, 256)
    };
    let port = ask(0x15);
    assert_eq!(port[3], 0x81, "an answer");
    assert_eq!(port[64 + 16..64 + 18], [0x12, 0x34], "local identifier");
    assert_eq!(port[64 + 32] & 0xf, 4, "active");
    assert_eq!(port[64 + 62] >> 4, 2, "EDR");
    assert_eq!(
        ask(0x11)[64 + 12..64 + 20],
        0x0262_6a00_0000_1234_u64.to_be_bytes()
    );
    assert_eq!(ask(0x4444)[4..6], [0, 0x0c], "unsupported attribute");
}

#[test]
fn objects_are_made_and_unmade_once_and_within_limits() {
    let mut node = TestNode::ready(1);
    let context = node.queue_context(32 * 256, 8, 0, 0);
    node.mailbox(&context);
    assert_eq!(node.command(0x13, 4, 0, INPUT, 0).0, 5, "the queue exists");
    assert_eq!(
        node.command(0x13, 128, 0, INPUT, 0).0,
        0x0a,
        "event queue 128 of 128"
    );
    assert_eq!(node.command(0x14, 5, 0, 0, 0).0, 9, "there is no queue 5");
    assert_eq!(node.command(0x16, 1 << 16, 0, INPUT, 0).0, 0x0a);
    assert_eq!(node.command(0x35, 1 << 16, 0, INPUT, 0).0, 0x0a);
    assert_eq!(
        node.command(0x1a, 0x300, 0, INPUT, 0).0,
        0x10,
        "there is no pair"
    );
    assert_eq!(
        node.command(0x21, 0x300, 2, 0, 0).0,
        0,
        "no pair is in reset"
    );
    let pair = TestPair::new(&mut node, 0x300, 0);
    assert_eq!(
        node.command(0x19, 0x300, 0, INPUT, 0).0,
        0x10,
        "it is in use"
    );
    assert_eq!(
        node.command(0x1b, 0x300, 0, INPUT, 0).0,
        0x10,
        "INIT does not lead to RTS"
    );
    pair.connect(&mut node, (2, 9), (5, 6), 0, 0);
    assert_eq!(node.command(0x22, 0x300, 0, 0, OUTPUT).0, 0);
    let context = node.bytes(OUTPUT + 8, 0xf8);
    assert_eq!(context[0] >> 4, 3, "RTS");
    assert_eq!(context[0x14..0x18], [0, 0, 0, 9], "the peer");
    assert_eq!(context[0x78..0x7c], [0, 0, 0, 5], "the next packet");
    assert_eq!(node.command(0x21, 0x300, 2, 0, 0).0, 0);
    assert_eq!(node.command(0x22, 0x300, 0, 0, OUTPUT).0, 0x0a);
}

#[test]
fn commands_report_by_events_and_an_armed_queue_interrupts_once() {
    let mut node = TestNode::ready(1);
    node.hca.take_vectors();
    let arm = |node: &mut TestNode, consumer: u32| {
        let value = u64::from((consumer | 1 << 31).swap_bytes());
        node.hca
            .write_doorbell(0x1800, 4, value, &node.ram, node.now);
    };
    // The port's change and the events before it are unread.
    arm(&mut node, 0);
    assert_eq!(node.hca.take_vectors(), [0]);
    arm(&mut node, 1);
    assert!(node.hca.take_vectors().is_empty());
    for _ in 0..2 {
        let command = crate::command::Command {
            opcode: 0x31,
            token: 0xabcd,
            by_event: true,
            ..Default::default()
        };
        node.hca.step(&node.ram, node.now).execute(&command);
    }
    assert_eq!(node.hca.take_vectors(), [0]);
    let entry = node.bytes(QUEUES + 32, 32);
    assert_eq!((entry[1], entry[31] >> 7), (0x0a, 0));
    assert_eq!(entry[6..8], [0xab, 0xcd]);
}

#[test]
fn a_reset_forgets_all_objects_and_the_saved_state_all_else() {
    let mut node = TestNode::ready(1);
    TestPair::new(&mut node, 0x300, 0);
    let state = belljar_sim::encode(&node.hca.save()).unwrap();
    node.hca.write_register(
        0xf_0010,
        4,
        u64::from(1_u32.swap_bytes()),
        &node.ram,
        node.now,
    );
    assert_eq!(node.command(0x22, 0x300, 0, 0, OUTPUT).0, 0x0a);
    node.hca.load(belljar_sim::decode(&state).unwrap()).unwrap();
    node.toggle = !node.toggle;
    assert_eq!(node.command(0x22, 0x300, 0, 0, OUTPUT).0, 0);
}
