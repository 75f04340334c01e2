//! Congestion control: a wire that marks packets, and the delays of the sender.

use super::*;
use belljar_congestion::{DcqcnControl, IbaControl, RateSettings, TableSettings};
use belljar_sim::Seed;

const LINE: u64 = 100_000_000_000;

/// Delays of whole packets: index n delays by n times a packet's own time. The timer is longer than the tests.
fn iba() -> Arc<CongestionControl> {
    Arc::new(CongestionControl::Iba(IbaControl {
        threshold: 4_096,
        shortest: 512,
        between: 0,
        table: TableSettings {
            increase: 1,
            timer: Span::from_ms(100),
            least: 0,
            delays: (0..16).map(|index| index * 8).collect(),
        },
    }))
}

fn dcqcn() -> Arc<CongestionControl> {
    Arc::new(CongestionControl::Dcqcn(DcqcnControl {
        low: 5_000,
        high: 200_000,
        probability: 0,
        seed: Seed(0),
        interval: Span::from_ms(50),
        rate: RateSettings {
            gain: 1 << 24,
            alpha_timer: Span::from_ms(55),
            timer: Span::from_ms(55),
            bytes: 10_000_000,
            recovery: 5,
            additive: 40_000_000,
            hyper: 400_000_000,
            least: 1_000_000,
        },
    }))
}

/// A wire that keeps the times at which packets of 1 KiB begin, and marks some of them.
#[derive(Default)]
struct MarkingWire {
    /// Of node 0 or of node 1, as a responder of reads.
    begun: Vec<Time>,
    notifications: u32,
    under_way: BTreeMap<(Time, u64), (usize, Vec<u8>)>,
    count: u64,
}

impl MarkingWire {
    /// Runs both nodes until nothing is left to do. Marks the packets of data, by number, of which `marks` is true.
    fn run(&mut self, nodes: &mut [TestNode], marks: impl Fn(usize) -> bool) {
        loop {
            for from in 0..2 {
                self.take(nodes, from, &marks);
            }
            let due = (0..2).filter_map(|node| Some((nodes[node].hca.deadline()?, node)));
            let due = due.min();
            let arrival = self.under_way.first_key_value();
            let arrival = arrival.map(|((at, _), (to, _))| (*at, *to));
            let Some((now, node)) = due.into_iter().chain(arrival).min() else {
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

    fn take(&mut self, nodes: &mut [TestNode], from: usize, marks: &impl Fn(usize) -> bool) {
        for (at, mut packet) in nodes[from].hca.take_packets() {
            if packet.len() > 1_024 {
                if marks(self.begun.len()) {
                    assert!(belljar_verbs::mark_congestion(&mut packet));
                }
                self.begun.push(at);
            }
            let read = Packet::of_bytes(&packet).unwrap();
            self.notifications += u32::from(read.notifies);
            self.count += 1;
            let arrives = at + WIRE + DELAYS.receive;
            self.under_way
                .insert((arrives, self.count), (1 - from, packet));
        }
    }

    /// The time from one packet to the next in units of a packet's own time, rounded.
    fn gaps(&self) -> Vec<u64> {
        // 1,024 bytes of data with all headers.
        let own = Span::of_transfer(1_024 + 8 + 12 + 4 + 2, LINE).as_ps();
        let times = self.begun.windows(2);
        let gap = |times: &[Time]| (times[1].since(times[0]).as_ps() + own / 2) / own;
        times.map(gap).collect()
    }
}

fn write_long(
    control: Option<&Arc<CongestionControl>>,
    opcode: u8,
) -> (MarkingWire, Vec<TestNode>) {
    let (mut nodes, [mut one, _]) = connected_with_control(0, 7, 14, control);
    let keys = [0, 1].map(|node| nodes[node].register(3, DATA, 0x10_0000, ALL_RIGHTS));
    let bytes = 200 * 1_024;
    let segments = [remote(DATA, keys[1]), segment(bytes, keys[0], DATA)].concat();
    one.post(&mut nodes[0], opcode, 0, &segments);
    let mut wire = MarkingWire::default();
    // All packets from 32 on.
    wire.run(&mut nodes, |number| number >= 32);
    let done = one.poll(&nodes[0]).unwrap();
    assert_eq!((done.syndrome, wire.begun.len()), (0, 200));
    (wire, nodes)
}

#[test]
fn marked_writes_are_notified_by_acknowledgements_and_delay_later_packets() {
    let control = iba();
    let (wire, nodes) = write_long(Some(&control), 0x08);
    let gaps = wire.gaps();
    // Unmarked packets follow each other; then each acknowledgement, of 16 packets, adds a packet's time.
    assert!(gaps[1..32].iter().all(|gap| *gap == 1), "{gaps:?}");
    assert!(gaps.is_sorted(), "{gaps:?}");
    let own = nodes[0].hca.congestion()[&0x300];
    let peer = nodes[1].hca.congestion()[&0x301];
    // Acknowledgements of packets 48, 64 to 192, and of the last one.
    assert_eq!((wire.notifications, peer.notifications_sent), (11, 11));
    assert_eq!(own.notifications_received, 11);
    assert_eq!((peer.marked, own.peer, peer.peer), (168, 2, 1));
    // The delays are what the gaps have beyond a packet's own time.
    let extra: u64 = gaps.iter().map(|gap| gap - 1).sum();
    let packet = Span::of_transfer(1_050, LINE).as_ps();
    let in_packets = own.delay_ps / packet;
    assert!(in_packets.abs_diff(extra) <= 2, "{in_packets} {extra}");
}

#[test]
fn answers_to_reads_are_delayed_by_notification_packets() {
    let control = iba();
    let (wire, nodes) = write_long(Some(&control), 0x10);
    let gaps = wire.gaps();
    assert!(gaps[1..32].iter().all(|gap| *gap == 1), "{gaps:?}");
    // Each marked packet is notified, up to the end of the table: 15 times a packet's own time.
    assert_eq!(*gaps.last().unwrap(), 16);
    assert_eq!(wire.notifications, 168);
    let responder = nodes[1].hca.congestion()[&0x301];
    assert_eq!(responder.notifications_received, 168);
    assert!(responder.delay_ps > 0);
}

#[test]
fn dcqcn_notifies_once_in_an_interval_and_halves_the_rate() {
    let control = dcqcn();
    let (wire, nodes) = write_long(Some(&control), 0x08);
    assert_eq!(wire.notifications, 1);
    let gaps = wire.gaps();
    let slow = gaps.iter().position(|gap| *gap == 2).unwrap();
    assert!(gaps[slow..].iter().all(|gap| *gap == 2), "{gaps:?}");
    let own = nodes[0].hca.congestion()[&0x300];
    assert_eq!(own.notifications_received, 1);
}

#[test]
fn control_without_marks_and_no_control_have_the_same_data() {
    for control in [None, Some(iba()), Some(dcqcn())] {
        let (mut nodes, [mut one, _]) = connected_with_control(0, 7, 14, control.as_ref());
        let keys = [0, 1].map(|node| nodes[node].register(3, DATA, 0x10_0000, ALL_RIGHTS));
        let long: Vec<u8> = (0..150_000_u32).map(|at| (at % 251) as u8).collect();
        write(&nodes[0].ram, DATA, &long).unwrap();
        let there = DATA + 0x4_0000;
        let bytes = long.len() as u32;
        let segments = [remote(there, keys[1]), segment(bytes, keys[0], DATA)].concat();
        one.post(&mut nodes[0], 0x08, 0, &segments);
        let back = DATA + 0x8_0000;
        let segments = [remote(there, keys[1]), segment(bytes, keys[0], back)].concat();
        one.post(&mut nodes[0], 0x10, 0, &segments);
        let mut wire = MarkingWire::default();
        wire.run(&mut nodes, |_| false);
        assert_eq!(one.poll_all(&nodes[0]).len(), 2);
        assert_eq!(nodes[0].bytes(back, long.len()), long);
        assert!(nodes.iter().all(|node| node.hca.congestion().is_empty()));
    }
}

#[test]
fn datagrams_are_notified_by_packets_to_their_senders_pair() {
    let control = iba();
    let (mut nodes, [mut one, mut two]) = connected_with_control(3, 7, 14, Some(&control));
    let keys = [0, 1].map(|node| nodes[node].register(3, DATA, 0x10_0000, ALL_RIGHTS));
    for number in 0..24 {
        two.receive(&nodes[1], &segment(2_048, keys[1], DATA + number * 4_096));
    }
    let mut address = vec![0; 48];
    put(&mut address, 6, &2_u16.to_be_bytes());
    put(&mut address, 0x20, &0x301_u32.to_be_bytes());
    put(&mut address, 0x24, &0x1111_1111_u32.to_be_bytes());
    let segments = [address, segment(1_024, keys[0], DATA)].concat();
    for _ in 0..24 {
        one.post(&mut nodes[0], 0x0a, 0, &segments);
    }
    let mut wire = MarkingWire::default();
    wire.run(&mut nodes, |_| true);
    assert_eq!(two.poll_all(&nodes[1]).len(), 24);
    assert_eq!(one.poll_all(&nodes[0]).len(), 24);
    let [own, peer] =
        [(0, 0x300), (1, 0x301)].map(|(node, pair)| nodes[node].hca.congestion()[&pair]);
    assert_eq!((peer.marked, peer.notifications_sent), (24, 24));
    assert_eq!((own.notifications_received, own.peer), (24, 0));
    let gaps = wire.gaps();
    assert!(gaps.is_sorted() && *gaps.last().unwrap() > 1, "{gaps:?}");
}

#[test]
fn a_saved_card_continues_its_delays() {
    let control = iba();
    let run = |interrupts: bool| {
        let (mut nodes, [mut one, _]) = connected_with_control(0, 7, 14, Some(&control));
        let keys = [0, 1].map(|node| nodes[node].register(3, DATA, 0x10_0000, ALL_RIGHTS));
        for _ in 0..3 {
            let segments = [remote(DATA, keys[1]), segment(65_536, keys[0], DATA)].concat();
            one.post(&mut nodes[0], 0x08, 0, &segments);
            let mut wire = MarkingWire::default();
            wire.run(&mut nodes, |number| number % 5 == 0);
            for node in &mut nodes {
                let bytes = belljar_sim::encode(&node.hca.save()).unwrap();
                let mut other = Hca::new(node.hca.config.clone());
                other.load(belljar_sim::decode(&bytes).unwrap()).unwrap();
                if interrupts {
                    node.hca = other;
                }
            }
        }
        (nodes[0].now, nodes[0].hca.congestion().clone())
    };
    assert!(run(false).1[&0x300].delay_ps > 0);
    assert_eq!(run(true), run(false));
}
