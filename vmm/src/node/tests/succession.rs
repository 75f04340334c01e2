//! A node that takes the place of one without power: its clock, its counters and its deliveries.

use super::fake::Op;
use super::*;
use crate::node::absence::Absence;

fn away(from: u64, to: Time) -> Absence {
    Absence {
        processor: 0,
        at: ns(from),
        until: to,
    }
}

#[test]
fn a_new_node_begins_at_its_time_and_continues_the_counters() {
    let (mut old, _) = node(vec![Op::Work, Op::Jump(0)]);
    old.be_absent(&[away(400, Time::from_ps(1 << 62))]);
    old.run_until(ns(500)).unwrap();
    assert_eq!(old.retired(), 400);
    old.deliver_frame(ns(550), vec![1; 60]);
    old.deliver_frame(ns(700), vec![2; 60]);
    let (mut new, _) = node(vec![Op::Work, Op::Jump(0)]);
    new.be_absent(&[away(0, ns(600))]);
    new.succeed(&mut old, ns(600));
    assert_eq!((new.now_cycles(), new.retired()), (600, 400));
    // The frame from before the start is lost, the other one arrives.
    assert_eq!(new.next_event(), Some(ns(600)));
    new.run_until(ns(650)).unwrap();
    assert_eq!(new.retired(), 450);
    assert_eq!(new.next_shared(), Some(700));
}
