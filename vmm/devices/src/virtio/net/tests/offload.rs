//! Large sent packets are cut as the guest's own stack would cut them, and received frames are joined to large
//! packets.
use etherparse::{PacketBuilder, TcpHeader};
use proptest::prelude::*;

use super::super::packet::{Headers, complete_checksum};
use super::*;

const HOLD: Cycles = 1000;
const BUFFER: u32 = 1536;

fn link() -> NetLink {
    NetLink {
        offloads: Some(Offloads { hold: HOLD }),
        ..PLAIN
    }
}

fn with_offloads() -> Driver<Net> {
    Driver::start(Mmio::new(Net::new([2, 0, 0, 0, 0, 1], link())))
}

/// A packet from one host to another, with valid checksums.
fn packet(set: impl FnOnce(&mut TcpHeader), data: &[u8]) -> Vec<u8> {
    let mut tcp = TcpHeader::new(4000, 5000, 0xffff_f000, 500);
    (tcp.ack, tcp.acknowledgment_number) = (true, 77);
    tcp.set_options_raw(&[1, 1, 8, 10, 0, 0, 0, 5, 0, 0, 0, 6])
        .unwrap();
    set(&mut tcp);
    let builder = PacketBuilder::ethernet2([2, 0, 0, 0, 0, 9], [2, 0, 0, 0, 0, 1]);
    let mut frame = Vec::new();
    builder
        .ipv4([10, 77, 0, 1], [10, 77, 0, 2], 64)
        .tcp_header(tcp)
        .write(&mut frame, data)
        .unwrap();
    frame
}

/// Data without repeated parts.
fn data(len: usize) -> Vec<u8> {
    (0..len).map(|at| (at ^ at >> 8) as u8).collect()
}

/// The header of a packet for segmentation by the card.
fn cut(segment: u16) -> PacketHeader {
    PacketHeader {
        flags: 1,
        kind: 1,
        header_len: 66,
        segment,
        sum_start: 34,
        sum_offset: 16,
    }
}

fn sent(driver: &mut Driver<Net>, header: PacketHeader, packet: &[u8]) -> Vec<Vec<u8>> {
    driver.submit(
        1,
        &[
            ChainBuffer::Data(&header.to_bytes(0)),
            ChainBuffer::Data(packet),
        ],
    );
    let frames = driver.mmio.device_mut().take_frames();
    frames.into_iter().map(|(_, frame)| frame).collect()
}

#[test]
fn a_large_packet_leaves_in_frames() {
    let data = data(4000);
    let whole = packet(|tcp| (tcp.psh, tcp.cwr) = (true, true), &data);
    let frames = sent(&mut with_offloads(), cut(1448), &whole);
    assert_eq!(
        frames.iter().map(Vec::len).collect::<Vec<_>>(),
        [1514, 1514, 66 + 1104]
    );
    let mut joined = Vec::new();
    for (index, frame) in frames.iter().enumerate() {
        let (headers, data) = Headers::split(frame).unwrap();
        assert!(headers.are_sound(data));
        assert_eq!(headers.ip.identification, index as u16);
        let sequence = 0xffff_f000_u32.wrapping_add(1448 * index as u32);
        assert_eq!(headers.tcp.sequence_number, sequence);
        assert_eq!((headers.tcp.psh, headers.tcp.cwr), (index == 2, index == 0));
        assert_eq!(headers.tcp.options.as_slice()[7], 5);
        joined.extend_from_slice(data);
    }
    assert_eq!(joined, data);
}

#[test]
fn the_card_completes_checksums() {
    let right = packet(|_| {}, b"eight by");
    let mut partial = right.clone();
    let (headers, _) = Headers::split(&right).unwrap();
    partial[50..52].copy_from_slice(&headers.pseudo_sum().to_be_bytes());
    let header = PacketHeader {
        kind: 0,
        segment: 0,
        ..cut(0)
    };
    assert_eq!(sent(&mut with_offloads(), header, &partial), [right]);
    // An odd number of bytes counts as if a zero followed (RFC 1071).
    let mut odd = [0, 0, 1];
    complete_checksum(&mut odd, 0, 0).unwrap();
    assert_eq!(odd, [0xfe, 0xff, 1]);
}

#[test]
fn packets_that_make_no_frames_are_counted() {
    let mut driver = with_offloads();
    let whole = packet(|_| {}, &data(4000));
    let unknown = PacketHeader {
        kind: 4,
        ..cut(1448)
    };
    let outside = PacketHeader {
        kind: 0,
        sum_start: 60_000,
        ..cut(0)
    };
    let short = packet(|_| {}, b"x");
    // Segments longer than frames, or of size zero; another protocol; a checksum outside; an oversized frame.
    for (header, packet) in [
        (cut(1453), &whole),
        (cut(0), &whole),
        (cut(47), &whole),
        (unknown, &whole),
        (outside, &short),
        (PacketHeader::default(), &whole),
    ] {
        assert!(sent(&mut driver, header, packet).is_empty(), "{header:?}");
    }
    assert_eq!(driver.mmio.device().counters().malformed, 6);
    assert!(driver.mmio.complaint().is_none());
}

/// A guest with buffers for received packets.
fn listening(buffers: u16) -> Driver<Net> {
    let mut driver = with_offloads();
    for index in 0..buffers {
        let at = 0x20_0000 + u64::from(index) * u64::from(BUFFER);
        driver.descriptor(0, index, at, BUFFER, 2, 0);
        driver.offer(0, index);
    }
    driver
}

/// The next packet that the guest receives, assembled from its buffers, and its header.
fn next_packet(driver: &mut Driver<Net>, first: &mut u16) -> Option<(PacketHeader, Vec<u8>)> {
    let (mut bytes, mut count) = (Vec::new(), 1);
    let mut done = 0;
    while done < count {
        let len = driver.take_used(0)?;
        let at = 0x20_0000 + u64::from(*first) * u64::from(BUFFER);
        let mut piece = vec![0; len as usize];
        vm_memory::Bytes::read_slice(&driver.ram, &mut piece, vm_memory::GuestAddress(at)).unwrap();
        if done == 0 {
            count = u16::from_le_bytes([piece[10], piece[11]]);
        }
        bytes.extend_from_slice(&piece);
        (*first, done) = (*first + 1, done + 1);
    }
    let (header, packet) = bytes.split_first_chunk().unwrap();
    Some((PacketHeader::from_bytes(header), packet.to_vec()))
}

#[test]
fn frames_of_a_stream_arrive_as_one_packet() {
    let data = data(4000);
    let whole = packet(|tcp| tcp.psh = true, &data);
    let frames = sent(&mut with_offloads(), cut(1448), &whole);
    let (mut driver, mut first) = (listening(8), 0);
    for frame in &frames[..2] {
        receive(&mut driver, frame);
    }
    assert_eq!(next_packet(&mut driver, &mut first), None);
    receive(&mut driver, &frames[2]);
    let (header, packet) = next_packet(&mut driver, &mut first).unwrap();
    assert_eq!(header, cut(1448));
    assert_eq!(first, 3, "three buffers of 1536 bytes");
    let (headers, joined) = Headers::split(&packet).unwrap();
    assert_eq!(joined, data);
    assert!(headers.tcp.psh);
    assert_eq!(headers.tcp.checksum, headers.pseudo_sum());
    assert_eq!(driver.mmio.device().counters().received, 3);
    assert_eq!(next_packet(&mut driver, &mut first), None);
}

#[test]
fn a_frame_waits_for_the_next_one_no_longer_than_its_time() {
    let (mut driver, mut first) = (listening(4), 0);
    driver.now = 50;
    let frame = packet(|_| {}, &data(1448));
    receive(&mut driver, &frame);
    assert_eq!(driver.mmio.deadline(), Some(50 + HOLD));
    let ram = driver.ram.clone();
    driver.mmio.advance(&ram, 50 + HOLD - 1).unwrap();
    assert_eq!(next_packet(&mut driver, &mut first), None);
    driver.mmio.advance(&ram, 50 + HOLD).unwrap();
    let (header, packet) = next_packet(&mut driver, &mut first).unwrap();
    let valid = PacketHeader {
        flags: 2,
        ..PacketHeader::default()
    };
    assert_eq!((header, packet), (valid, frame));
    assert_eq!(driver.mmio.deadline(), None);
}

#[test]
fn a_stream_keeps_its_order() {
    let part = |sequence: u32, len: usize| packet(|tcp| tcp.sequence_number = sequence, &data(len));
    let pushed = |sequence: u32| {
        let set = |tcp: &mut TcpHeader| (tcp.sequence_number, tcp.psh) = (sequence, true);
        packet(set, &data(8))
    };
    let answered = packet(
        |tcp| (tcp.sequence_number, tcp.acknowledgment_number) = (100, 78),
        &data(100),
    );
    let last = packet(|tcp| (tcp.sequence_number, tcp.fin) = (100, true), b"");
    let mut broken = part(100, 100);
    broken[80] ^= 1;
    // Second frames that end the first packet early, with the packets that the guest receives.
    for (second, packets) in [
        (part(300, 100), 1),
        (part(100, 101), 1),
        (answered, 1),
        (pushed(100), 1),
        (last, 2),
        (broken, 2),
        (part(100, 60), 1),
    ] {
        let (mut driver, mut first) = (listening(8), 0);
        receive(&mut driver, &part(0, 100));
        receive(&mut driver, &second);
        let mut lens = Vec::new();
        while let Some((_, packet)) = next_packet(&mut driver, &mut first) {
            lens.push(packet.len());
        }
        assert_eq!(lens.len(), packets, "{lens:?}");
        assert!(lens[0] >= 66 + 100, "the first frame comes first: {lens:?}");
    }
}

#[test]
fn saved_packets_are_completed() {
    let (mut driver, mut first) = (listening(4), 0);
    let frames = sent(
        &mut with_offloads(),
        cut(1448),
        &packet(|_| {}, &data(2896)),
    );
    receive(&mut driver, &frames[0]);
    let saved = driver.mmio.save();
    let ram = driver.ram.clone();
    driver.mmio = Mmio::new(Net::new([2, 0, 0, 0, 0, 1], PLAIN));
    assert!(
        driver.mmio.load(saved.clone(), &ram).is_none(),
        "another link"
    );
    driver.mmio = Mmio::new(Net::new([2, 0, 0, 0, 0, 1], link()));
    driver.mmio.load(saved, &ram).unwrap();
    receive(&mut driver, &frames[1]);
    driver.mmio.advance(&ram, HOLD).unwrap();
    let (_, packet) = next_packet(&mut driver, &mut first).unwrap();
    assert_eq!(Headers::split(&packet).unwrap().1, data(2896));
}

#[test]
fn nine_streams_are_more_than_a_card_collects() {
    let (mut driver, mut first) = (listening(4), 0);
    for port in 0..9 {
        receive(
            &mut driver,
            &packet(|tcp| tcp.source_port = port, &data(90)),
        );
    }
    let (_, packet) = next_packet(&mut driver, &mut first).unwrap();
    assert_eq!(Headers::split(&packet).unwrap().0.tcp.source_port, 0);
    assert_eq!(next_packet(&mut driver, &mut first), None);
}

proptest! {
    /// Segmentation and aggregation yield legal frames, and preserve the data.
    #[test]
    fn packets_survive_both_cards(len in 1usize..9000, segment in 48u16..1448, psh: bool) {
        let data = data(len);
        let frames = sent(&mut with_offloads(), cut(segment), &packet(|tcp| tcp.psh = psh, &data));
        prop_assert_eq!(frames.len(), len.div_ceil(usize::from(segment)));
        let (mut driver, mut first) = (listening(100), 0);
        for frame in &frames {
            prop_assert!(frame.len() <= 1514);
            receive(&mut driver, frame);
        }
        let ram = driver.ram.clone();
        driver.mmio.advance(&ram, HOLD).unwrap();
        let mut joined = Vec::new();
        while let Some((_, packet)) = next_packet(&mut driver, &mut first) {
            joined.extend_from_slice(Headers::split(&packet).unwrap().1);
        }
        prop_assert_eq!(joined, data);
    }

    /// Arbitrary headers and packets of a guest do not break the card.
    #[test]
    fn hostile_packets_are_survived(header: [u8; 12], bytes in proptest::collection::vec(any::<u8>(), 0..200), at in 0usize..80) {
        let mut whole = packet(|_| {}, &data(300));
        for (place, byte) in whole.iter_mut().skip(at).zip(bytes) {
            *place = byte;
        }
        for frame in sent(&mut with_offloads(), PacketHeader::from_bytes(&header), &whole) {
            prop_assert!(frame.len() <= 1518);
            receive(&mut listening(4), &frame);
        }
    }
}
