use super::*;
use crate::{Random, Seed};

impl Timed for (Time, u64) {
    fn time(&self) -> Time {
        self.0
    }
}

/// Keys near, far, very far, equal in time and in the past are returned in the order of a sorted set.
#[test]
fn keys_come_out_in_their_order_whatever_their_times() {
    for seed in 0..40 {
        let mut random = Random::new(Seed(seed), "calendar", 0);
        let mut calendar = Calendar::default();
        let mut sorted = std::collections::BTreeSet::new();
        let mut now = random.next_u64() >> (random.next_u64() % 60);
        for number in 0..4000 {
            if random.next_u64() % 5 < 2 {
                let key: Option<(Time, u64)> = calendar.pop();
                assert_eq!(key, sorted.pop_first());
                now = key.map_or(now, |(time, _)| time.as_ps());
            } else {
                let ahead = random.next_u64() >> (20 + random.next_u64() % 44);
                let time = match random.next_u64() % 20 {
                    0 => now.saturating_sub(ahead),
                    1 => u64::MAX - ahead % 3,
                    _ => now.saturating_add(ahead),
                };
                let key = (Time::from_ps(time), number);
                calendar.push(key);
                sorted.insert(key);
            }
            assert_eq!(calendar.first(), sorted.first());
            assert_eq!(calendar.len(), sorted.len());
        }
        let mut all: Vec<_> = calendar.iter().copied().collect();
        all.sort_unstable();
        assert!(all.iter().eq(&sorted));
        while let Some(key) = sorted.pop_first() {
            assert_eq!(calendar.pop(), Some(key));
        }
        assert!(calendar.is_empty() && calendar.pop().is_none());
    }
}

/// Keys that are added before timers far ahead do not share a heap with them.
#[test]
fn timers_far_ahead_begin_no_day() {
    let mut calendar = Calendar::default();
    for number in 0..1000 {
        calendar.push((Time::from_ps(1 << 40), number));
    }
    let mut now = 0;
    for number in 0..5000 {
        // Quiet times, in which only the timers remain.
        now += if number % 100 == 0 { 1 << 27 } else { 1 << 16 };
        for key in 0..3 {
            calendar.push((Time::from_ps(now + (key << 10)), 1000 + key));
        }
        for key in 0..3 {
            let expected = (Time::from_ps(now + (key << 10)), 1000 + key);
            assert_eq!(calendar.pop(), Some(expected));
        }
        assert!(calendar.present.len() <= 4 && calendar.soon.is_empty());
    }
    for number in 0..1000 {
        assert_eq!(calendar.pop(), Some((Time::from_ps(1 << 40), number)));
    }
    assert!(calendar.is_empty());
}

/// Many keys at one time, and keys at few distances, for which days become shorter and longer again.
#[test]
fn days_of_any_length_have_the_same_order() {
    let mut bits = std::collections::BTreeSet::new();
    for (seed, spread) in [(1, 4), (2, 12), (3, 22), (4, 34)] {
        let mut random = Random::new(Seed(seed), "calendar", 1);
        let mut calendar = Calendar::default();
        let mut sorted = std::collections::BTreeSet::new();
        let (mut now, mut number) = (0, 0);
        for turn in 0..60_000 {
            // The spread of times changes halfway.
            let spread = if turn < 30_000 { spread } else { 38 - spread };
            let key: Option<(Time, u64)> = calendar.pop();
            assert_eq!(key, sorted.pop_first());
            now = key.map_or(now, |(time, _)| time.as_ps());
            while sorted.len() < 500 {
                let ahead = random.next_u64() >> (64 - spread) & !0b111;
                let key = (Time::from_ps(now + ahead), number);
                calendar.push(key);
                sorted.insert(key);
                number += 1;
            }
            assert_eq!(calendar.first(), sorted.first());
            bits.insert(calendar.bits);
        }
        assert_eq!(calendar.iter().count(), sorted.len());
    }
    assert!(bits.len() > 3, "{bits:?}");
}
