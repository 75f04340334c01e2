//! Congestion control with senders that react as cards do.

use super::congestion::{LINK, SWITCH};
use super::*;
use belljar_congestion::{
    DcqcnControl, IbaControl, Notifier, RateSettings, TableSettings, Throttle,
};
use belljar_sim::Seed;

/// Bits per second of all links.
const LINE: u64 = 100_000_000_000;
/// Bytes of a packet.
const BYTES: usize = 4_130;
/// Time between two looks at arrivals.
const STEP: Span = Span::from_us(1);
/// Packets of a sender under way, and packets for which a receiver sends one acknowledgement, as of cards.
const WINDOW: u32 = 64;
const ACK_EVERY: u64 = 16;

fn iba() -> CongestionControl {
    CongestionControl::Iba(IbaControl {
        threshold: 4_096,
        shortest: 512,
        between: 10,
        table: TableSettings {
            increase: 1,
            timer: Span::from_ns(153_600),
            least: 0,
            delays: (0..128).collect(),
        },
    })
}

fn dcqcn() -> CongestionControl {
    CongestionControl::Dcqcn(DcqcnControl {
        low: 5_000,
        high: 200_000,
        probability: (1 << 32) / 100,
        seed: Seed(1),
        interval: Span::from_us(50),
        rate: RateSettings {
            gain: (1 << 32) / 256,
            alpha_timer: Span::from_us(55),
            timer: Span::from_us(55),
            bytes: 10_000_000,
            recovery: 5,
            additive: 40_000_000,
            hyper: 400_000_000,
            least: 10_000_000,
        },
    })
}

/// A sender that always has data, and its receiver.
struct TestFlow {
    from: u16,
    to: u16,
    next: Time,
    under_way: u32,
    sent: u64,
    arrived: u64,
    is_marked: bool,
    notifier: Notifier,
    throttle: Throttle,
}

impl TestFlow {
    fn new((from, to): (u16, u16)) -> Self {
        Self {
            from,
            to,
            next: Time::ZERO,
            under_way: 0,
            sent: 0,
            arrived: 0,
            is_marked: false,
            notifier: Notifier::default(),
            throttle: Throttle::default(),
        }
    }

    fn send(&mut self, fabric: &mut Lossless, control: Option<&CongestionControl>, now: Time) {
        self.next = self.next.max(now);
        while self.next < now + STEP && self.under_way < WINDOW {
            let packet = packet(self.to + 1, self.from + 1, BYTES);
            fabric.send(self.next, u32::from(self.from), self.sent, packet);
            let bytes = BYTES as u64 + 2;
            let delay = control.map(|control| {
                let of = &mut self.throttle;
                of.delay(control, self.next, bytes, LINE)
            });
            self.next = self.next + Span::of_transfer(bytes, LINE) + delay.unwrap_or(Span::ZERO);
            self.under_way += 1;
            self.sent += 1;
        }
    }

    fn take(&mut self, control: Option<&CongestionControl>, is_marked: bool, now: Time) {
        self.under_way -= 1;
        self.arrived += 1;
        self.is_marked |= is_marked;
        let is_due = match control {
            Some(CongestionControl::Iba(_)) => self.arrived.is_multiple_of(ACK_EVERY),
            _ => true,
        };
        if let Some(control) = control
            && is_due
            && std::mem::take(&mut self.is_marked)
            && self.notifier.notifies(control, (self.from, 0), now)
        {
            self.throttle.notify(control, now, LINE);
        }
    }
}

/// The flows that congest the link of host 4, and the victim of one of them on the links between switches.
const FLOWS: [(u16, u16); 4] = [(0, 4), (5, 4), (6, 4), (1, 7)];

/// The second half of a time with these flows.
struct Outcome {
    /// Rates of the flows as shares of a link.
    shares: [f64; 4],
    /// The longest queue of the link of host 4 at the ends of steps, in bytes.
    queue: u64,
    figures: PortFigures,
}

fn run(control: Option<CongestionControl>, time: Span) -> Outcome {
    let topology = Topology::tree(8, 4, LINK, LINK, SWITCH).unwrap();
    let fabric = Lossless::new(topology, &Routes::default(), DELAYS, FLOW).unwrap();
    let mut fabric = fabric.with_control(control.clone().map(Arc::new));
    let congested = fabric.topology().link_of(4) as usize;
    let mut flows = FLOWS.map(TestFlow::new);
    let (mut begun, mut queue) = ([0; 4], 0);
    let steps = time.as_ps() / STEP.as_ps();
    let mut now = Time::ZERO;
    for step in 0..steps {
        for flow in &mut flows {
            flow.send(&mut fabric, control.as_ref(), now);
        }
        now += STEP;
        for arrival in fabric.advance(now) {
            let packet = Packet::of_bytes(&arrival.packet).unwrap();
            let flow = flows.iter_mut().find(|flow| flow.from + 1 == packet.from);
            flow.unwrap().take(control.as_ref(), packet.is_marked, now);
        }
        if step == steps / 2 {
            begun = flows.each_ref().map(|flow| flow.arrived);
        }
        if step >= steps / 2 {
            queue = queue.max(fabric.ports[2 * congested + 1].lanes[0].queue);
        }
    }
    let bits = (BYTES as f64 + 2.0) * 8.0 / LINE as f64;
    let seconds = time.as_secs_f64() / 2.0;
    let of = |at: usize| (flows[at].arrived - begun[at]) as f64 * bits / seconds;
    Outcome {
        shares: std::array::from_fn(of),
        queue,
        figures: fabric.figures()[congested][1],
    }
}

/// Three senders share the link of host 4, so each can have a third. The victim shares a link with one of them, and could have the other two
/// thirds of it; without control it has as much as this sender, since their packets take turns.
#[test]
fn a_victim_has_its_share_with_each_control_and_not_without() {
    let time = Span::from_ms(10);
    let without = run(None, time);
    let third = 1.0 / 3.0;
    for share in without.shares {
        assert!((share - third).abs() < 0.002, "{share}");
    }
    // The buffers of the three inputs are full, but for the room of a packet.
    assert!(without.queue > 170_000, "{}", without.queue);
    assert_eq!(without.figures.marks, 0);
    for control in [iba(), dcqcn()] {
        let with = run(Some(control), time);
        let [one, two, three, victim] = with.shares;
        assert!(victim > 0.8 * 2.0 * third, "{victim}");
        // The congested link is not idle for it, and the link that is shared is not overbooked.
        assert!(one + two + three > 0.85, "{:?}", with.shares);
        assert!(one + victim < 1.0, "{:?}", with.shares);
        assert!(with.queue < without.queue / 2, "{}", with.queue);
        assert!(with.figures.marks > 10);
    }
}

/// Marks are a function of the packets, not of the steps.
#[test]
fn steps_and_saved_states_change_no_mark() {
    for control in [iba(), dcqcn()] {
        let marked = |step: Option<u64>| {
            let build = || {
                let topology = Topology::tree(8, 4, LINK, LINK, SWITCH).unwrap();
                let fabric = Lossless::new(topology, &Routes::default(), DELAYS, FLOW).unwrap();
                fabric.with_control(Some(Arc::new(control.clone())))
            };
            let mut fabric = build();
            for (from, to) in FLOWS {
                for sequence in 0..200 {
                    let packet = packet(to + 1, from + 1, BYTES);
                    fabric.send(Time::ZERO, u32::from(from), sequence, packet);
                }
            }
            let mut arrivals = Vec::new();
            for count in 1..step.map_or(0, |step| 300_000 / step) {
                let now = Time::ZERO + Span::from_ns(count * step.unwrap_or(1));
                arrivals.extend(fabric.advance(now));
                let state = fabric.save();
                fabric = build();
                fabric.restore(state).unwrap();
            }
            arrivals.extend(fabric.advance(Time::MAX));
            arrivals.sort_by_key(|arrival| (arrival.time, arrival.host));
            let figures = fabric.figures();
            (arrivals, figures)
        };
        let whole = marked(None);
        let is_marked = |arrival: &&Arrival| Packet::of_bytes(&arrival.packet).unwrap().is_marked;
        assert!(whole.0.iter().filter(is_marked).count() > 1);
        assert_eq!(marked(Some(700)), whole);
        assert_eq!(marked(Some(13_000)), whole);
    }
}
