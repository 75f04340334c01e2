use super::*;

/// 100 Gb/s.
const LINE: u64 = 100_000_000_000;
/// Bytes of a packet, which takes 80 ns.
const BYTES: u64 = 1_000;

fn iba() -> IbaControl {
    IbaControl {
        threshold: 4_096,
        shortest: 512,
        between: 2,
        table: TableSettings {
            increase: 3,
            timer: Span::from_us(10),
            least: 1,
            delays: (0..16).collect(),
        },
    }
}

fn dcqcn() -> DcqcnControl {
    DcqcnControl {
        low: 5_000,
        high: 205_000,
        probability: (1 << 32) / 100,
        seed: Seed(3),
        interval: Span::from_us(50),
        rate: RateSettings {
            gain: (1 << 32) / 256,
            alpha_timer: Span::from_us(55),
            timer: Span::from_us(55),
            bytes: 10_000_000,
            recovery: 5,
            additive: 40_000_000,
            hyper: 400_000_000,
            least: 1_000_000,
        },
    }
}

fn leaving(queue: u64) -> Leaving {
    Leaving {
        output: (4, 0),
        bytes: BYTES,
        queue,
        is_root: true,
    }
}

fn at(us: u64) -> Time {
    Time::ZERO + Span::from_us(us)
}

#[test]
fn a_switch_marks_one_of_so_many_long_packets_of_a_long_queue_at_the_root() {
    let control = CongestionControl::Iba(iba());
    let mut marker = Marker::default();
    let mut marks = |packet: Leaving| marker.marks(&control, &packet);
    let short = Leaving {
        bytes: 511,
        ..leaving(9_000)
    };
    let victim = Leaving {
        is_root: false,
        ..leaving(9_000)
    };
    assert!(
        ![leaving(4_096), short, victim]
            .map(&mut marks)
            .contains(&true)
    );
    let marked: Vec<bool> = (0..7).map(|_| marks(leaving(4_097))).collect();
    assert_eq!(marked, [true, false, false, true, false, false, true]);
}

#[test]
fn the_share_of_random_marks_grows_with_the_queue() {
    let control = CongestionControl::Dcqcn(dcqcn());
    let mut marker = Marker::default();
    let mut share = |queue: u64| {
        let count = (0..100_000).filter(|_| marker.marks(&control, &leaving(queue)));
        count.count()
    };
    assert_eq!(share(5_000), 0);
    // Half of the range: half of 1 %. The deviation of the sum is 22.
    assert!((412..588).contains(&share(105_000)), "{}", share(105_000));
    assert_eq!(share(205_001), 100_000);
    let repeat = || {
        let mut marker = Marker::default();
        let marks = (0..1_000).map(|_| marker.marks(&control, &leaving(200_000)));
        marks.collect::<Vec<_>>()
    };
    assert_eq!(repeat(), repeat());
    let other = Leaving {
        output: (5, 0),
        ..leaving(200_000)
    };
    let mut marker = Marker::default();
    let elsewhere: Vec<bool> = (0..1_000).map(|_| marker.marks(&control, &other)).collect();
    assert_ne!(elsewhere, repeat());
}

#[test]
fn the_index_rises_by_notifications_and_falls_with_the_timer() {
    let control = CongestionControl::Iba(iba());
    let mut throttle = Throttle::default();
    let delay = |throttle: &mut Throttle, us| {
        let delay = throttle.delay(&control, at(us), BYTES, LINE);
        // In eighths of 80 ns.
        delay.as_ps() / 10_000
    };
    // The least index, without notifications.
    assert_eq!(delay(&mut throttle, 5), 1);
    throttle.notify(&control, at(5), LINE);
    assert_eq!(delay(&mut throttle, 9), 4);
    assert_eq!(delay(&mut throttle, 10), 3);
    throttle.notify(&control, at(25), LINE);
    assert_eq!(delay(&mut throttle, 25), 5);
    assert_eq!(delay(&mut throttle, 1_000), 1);
    for _ in 0..9 {
        throttle.notify(&control, at(1_000), LINE);
    }
    // The end of the table.
    assert_eq!(delay(&mut throttle, 1_000), 15);
}

/// The rate in Gb/s by the delay after a packet.
fn rate(throttle: &mut Throttle, control: &CongestionControl, us: u64) -> f64 {
    let own = Span::of_transfer(BYTES, LINE);
    let all = own + throttle.delay(control, at(us), BYTES, LINE);
    100.0 * own.as_secs_f64() / all.as_secs_f64()
}

#[test]
fn the_rate_is_cut_by_alpha_and_recovers_by_halves_then_by_steps() {
    let control = CongestionControl::Dcqcn(dcqcn());
    let mut throttle = Throttle::default();
    let near = |found: f64, wanted: f64| assert!((found - wanted).abs() < 0.02, "{found} {wanted}");
    near(rate(&mut throttle, &control, 0), 100.0);
    throttle.notify(&control, at(0), LINE);
    near(rate(&mut throttle, &control, 0), 50.0);
    throttle.notify(&control, at(1), LINE);
    near(rate(&mut throttle, &control, 1), 25.0);
    // Five events of the timer: halves of the distance to 50.
    for (us, wanted) in [
        (56, 37.5),
        (111, 43.75),
        (166, 46.875),
        (221, 48.4375),
        (276, 49.218_75),
    ] {
        near(
            rate(&mut throttle, &control, us - 1),
            50.0 - 2.0 * (50.0 - wanted),
        );
        near(rate(&mut throttle, &control, us), wanted);
    }
    // Then the target rises by 0.04 each time.
    near(
        rate(&mut throttle, &control, 331),
        (49.218_75 + 50.04) / 2.0,
    );
    // Alpha fell by 1/256 at each of five periods without notifications.
    let before = rate(&mut throttle, &control, 331);
    throttle.notify(&control, at(331), LINE);
    let alpha = (255.0_f64 / 256.0).powi(6);
    near(
        rate(&mut throttle, &control, 331),
        before * (1.0 - alpha / 2.0),
    );
    // In the end the rate is the link's again.
    near(rate(&mut throttle, &control, 1_000_000), 100.0);
}

#[test]
fn bytes_raise_the_rate_as_the_timer_does() {
    let control = CongestionControl::Dcqcn(dcqcn());
    let mut throttle = Throttle::default();
    throttle.notify(&control, at(0), LINE);
    // The counter's event comes with the packet that completes 10 MB.
    throttle.delay(&control, at(1), 9_999_000, LINE);
    assert!(rate(&mut throttle, &control, 1) > 74.9);
}

#[test]
fn a_sender_is_notified_once_in_an_interval_and_each_time_by_infiniband() {
    let dcqcn = CongestionControl::Dcqcn(dcqcn());
    let mut notifier = Notifier::default();
    let times = [(1, 0), (1, 49), (1, 50), (2, 51), (1, 52)];
    let sent = times.map(|(lid, us)| notifier.notifies(&dcqcn, (lid, 7), at(us)));
    assert_eq!(sent, [true, false, true, true, true]);
    let iba = CongestionControl::Iba(iba());
    let sent = times.map(|(lid, us)| notifier.notifies(&iba, (lid, 7), at(us)));
    assert!(!sent.contains(&false));
}

proptest::proptest! {
    /// States of a damaged checkpoint included, delays are bounded and no step panics.
    #[test]
    fn any_sequence_of_events_keeps_the_delay_within_bounds(
        events in proptest::collection::vec((0_u64..10_000, proptest::bool::ANY), 1..200),
    ) {
        for control in [CongestionControl::Iba(iba()), CongestionControl::Dcqcn(dcqcn())] {
            let mut throttle = Throttle::default();
            let mut now = Time::ZERO;
            for (us, is_notified) in &events {
                now += Span::from_us(*us);
                if *is_notified {
                    throttle.notify(&control, now, LINE);
                }
                let delay = throttle.delay(&control, now, BYTES, LINE);
                // 15 eighths of 80 ns; 1 Mb/s.
                let most = match &control {
                    CongestionControl::Iba(_) => Span::from_ns(150),
                    CongestionControl::Dcqcn(_) => Span::from_ms(8),
                };
                proptest::prop_assert!(delay <= most);
            }
        }
    }
}
