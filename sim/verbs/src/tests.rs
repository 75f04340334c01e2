use super::*;
use crate::opcode::With;
use proptest::prelude::*;

#[test]
fn every_opcode_is_its_byte() {
    let known = (0..=255).filter_map(|code| Some((code, Opcode::of_code(code)?)));
    let known: Vec<(u8, Opcode)> = known.collect();
    assert!(known.iter().all(|(code, opcode)| opcode.code() == *code));
    // 23 of reliable connections, 12 of unreliable ones, 2 of datagrams, and the notification of congestion.
    assert_eq!(known.len(), 38);
}

#[test]
fn a_datagram_has_the_layout_of_the_specification() {
    let packet = Packet {
        to: 2,
        from: 1,
        opcode: Opcode {
            service: Service::Datagram,
            operation: Operation::Send {
                first: true,
                last: true,
                with: With::Nothing,
            },
        },
        partition: 0xffff,
        queue_pair: 0x48,
        psn: Psn::new(7),
        extensions: Extensions {
            queue_key: 0x1111_1111,
            source: 0x49,
            ..Extensions::default()
        },
        payload: vec![0xaa, 0xbb, 0xcc],
        ..Packet::default()
    };
    let bytes = packet.to_bytes();
    let expected = [
        "0002000200090001", // next header 2, to 2, nine words, from 1
        "6410ffff0000004800000007",
        "1111111100000049",
        "aabbcc00",
        "00000000",
    ];
    let text: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(text, expected.concat());
    assert_eq!(Packet::of_bytes(&bytes), Some(packet));
    assert_eq!(addresses(&bytes), Some((2, 1)));
    assert_eq!(wire_bytes(bytes.len()), 38);
}

#[test]
fn marks_are_bits_of_the_transport_header_and_only_data_are_marked() {
    let mut packet = Packet {
        opcode: Opcode {
            service: Service::Datagram,
            operation: Operation::Send {
                first: true,
                last: true,
                with: With::Nothing,
            },
        },
        queue_pair: 0x48,
        global: Some(GlobalRoute::default()),
        ..Packet::default()
    };
    let mut bytes = packet.to_bytes();
    assert!(mark_congestion(&mut bytes));
    assert_eq!(bytes[LRH + GRH + 4..LRH + GRH + 8], [0x80, 0, 0, 0x48]);
    packet.is_marked = true;
    assert_eq!(Packet::of_bytes(&bytes), Some(packet.clone()));
    packet.notifies = true;
    assert_eq!(packet.to_bytes()[LRH + GRH + 4], 0xc0);
    let acknowledgement = Packet::default();
    let notification = Packet {
        opcode: Opcode::of_code(0x80).unwrap(),
        ..Packet::default()
    };
    let management = Packet {
        is_management: true,
        ..packet
    };
    for other in [acknowledgement, notification, management] {
        let mut bytes = other.to_bytes();
        assert!(!mark_congestion(&mut bytes));
        assert_eq!(bytes, other.to_bytes());
    }
    assert!(!mark_congestion(&mut []));
}

#[test]
fn distances_wrap_around() {
    let last = Psn::new(0xff_ffff);
    assert_eq!(last.after(3).number(), 2);
    assert_eq!(last.after(3).since(last), 3);
    assert_eq!(last.since(last.after(3)), -3);
}

proptest! {
    #[test]
    fn packets_are_read_as_written(
        code in any::<u8>(),
        numbers in any::<[u32; 8]>(),
        wide in any::<[u64; 3]>(),
        route in proptest::option::of(any::<([u8; 16], [u8; 16], u8, u8)>()),
        payload in proptest::collection::vec(any::<u8>(), 0..300),
    ) {
        let Some(opcode) = Opcode::of_code(code) else { return Ok(()) };
        let packet = Packet {
            is_management: numbers[0] & 1 == 1,
            level: (numbers[0] >> 4 & 15) as u8,
            to: numbers[1] as u16,
            from: (numbers[1] >> 16) as u16,
            global: route.map(|(source, destination, class, hops)| GlobalRoute {
                class, flow: numbers[2] & 0xf_ffff, hops, source, destination,
            }),
            opcode,
            is_solicited: numbers[0] & 2 == 2,
            is_marked: numbers[0] & 4 == 4,
            notifies: numbers[0] & 8 == 8,
            partition: numbers[2] as u16,
            queue_pair: numbers[3] & 0xff_ffff,
            wants_ack: numbers[0] & 4 == 4,
            psn: Psn::new(numbers[4]),
            extensions: Extensions::default(),
            payload,
        };
        let all = Extensions {
            queue_key: numbers[5], source: numbers[6] & 0xff_ffff, address: wide[0], key: numbers[7],
            length: numbers[5], value: wide[1], compare: wide[2], acknowledge: numbers[6], immediate: numbers[7],
        };
        // Only the headers of the opcode survive.
        let mut bytes = Vec::new();
        opcode.write(&all, &mut bytes);
        prop_assert_eq!(bytes.len(), opcode.extension_bytes());
        let extensions = opcode.read(&mut Reader(&bytes)).unwrap();
        let packet = Packet { extensions, ..packet };
        prop_assert_eq!(payload_bytes(&packet.to_bytes()), Some(packet.payload.len()));
        prop_assert_eq!(Packet::of_bytes(&packet.to_bytes()), Some(packet));
    }

    #[test]
    fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..120), words in any::<bool>()) {
        let mut bytes = bytes;
        if words && bytes.len() >= 8 {
            bytes.truncate(bytes.len() / 4 * 4);
            let words = (bytes.len() / 4) as u8;
            bytes[1] = bytes[1] & 0xf0 | 2 | bytes[1] & 1;
            bytes[4..6].copy_from_slice(&[0, words]);
        }
        payload_bytes(&bytes);
        if let Some(packet) = Packet::of_bytes(&bytes) {
            prop_assert!(packet.payload.len() <= bytes.len());
        }
    }
}
