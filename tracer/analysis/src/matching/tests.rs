//! Sends and receives in small numbers, of which it is plain who got what.

use super::*;

const TO: Member = Member { job: 0, rank: 0 };
const ANY: Wanted = Wanted {
    from: None,
    tag: None,
};

fn rank(rank: u32) -> Member {
    Member { job: 0, rank }
}

fn from(rank: u32, tag: i32) -> Channel {
    Channel {
        communicator: 0,
        to: TO,
        from: self::rank(rank),
        tag,
    }
}

/// A send that is called at ten times its number.
fn sent(operation: Operation) -> Sent {
    Sent {
        operation,
        at: 10 * operation,
        thread: 0,
    }
}

fn wanted(from: u32, tag: i32) -> Wanted {
    Wanted {
        from: Some(rank(from)),
        tag: Some(tag),
    }
}

#[test]
fn messages_of_a_channel_do_not_overtake() {
    let (mut matcher, mut found) = (Matcher::default(), Vec::new());
    assert_eq!(matcher.send(from(1, 5), sent(1)), None);
    assert_eq!(matcher.send(from(1, 5), sent(2)), None);
    assert_eq!(matcher.send(from(1, 6), sent(3)), None);
    matcher.receive((0, TO), wanted(1, 6), 10, &mut found);
    matcher.receive((0, TO), wanted(1, 5), 11, &mut found);
    matcher.receive((0, TO), wanted(1, 5), 12, &mut found);
    matcher.receive((0, TO), wanted(1, 5), 13, &mut found);
    assert_eq!(found, [(3, 10), (1, 11), (2, 12)]);
    assert_eq!(matcher.alone(), (0, 1));
    assert_eq!(matcher.send(from(1, 5), sent(4)), Some(13));
    assert_eq!(matcher.alone(), (0, 0));
    assert!(matcher.channels.is_empty() && matcher.posted.is_empty());
}

#[test]
fn a_wildcard_that_was_posted_first_gets_the_first_message() {
    let (mut matcher, mut found) = (Matcher::default(), Vec::new());
    matcher.receive((0, TO), ANY, 10, &mut found);
    matcher.receive((0, TO), wanted(1, 5), 11, &mut found);
    matcher.receive((0, TO), wanted(2, 5), 12, &mut found);
    for (send, channel) in [(1, from(1, 5)), (2, from(1, 5)), (3, from(2, 5))] {
        assert_eq!(
            matcher.send(channel, sent(send)),
            None,
            "nothing is known yet"
        );
    }
    matcher.got((0, TO), 10, (rank(1), 5), &mut found);
    assert_eq!(found, [(1, 10), (2, 11), (3, 12)]);
}

#[test]
fn what_a_wildcard_cannot_take_does_not_wait_for_it() {
    let (mut matcher, mut found) = (Matcher::default(), Vec::new());
    let tagged = Wanted {
        from: None,
        tag: Some(7),
    };
    matcher.receive((0, TO), tagged, 10, &mut found);
    matcher.receive((0, TO), wanted(1, 5), 11, &mut found);
    assert_eq!(matcher.send(from(1, 5), sent(1)), Some(11));
    assert_eq!(matcher.alone(), (0, 1));
}

#[test]
fn what_is_cancelled_gets_nothing_and_holds_nobody_up() {
    let (mut matcher, mut found) = (Matcher::default(), Vec::new());
    matcher.receive((0, TO), ANY, 10, &mut found);
    matcher.receive((0, TO), wanted(1, 5), 11, &mut found);
    matcher.withdraw((0, TO), 10, &mut found);
    matcher.receive((0, TO), wanted(1, 5), 12, &mut found);
    matcher.withdraw((0, TO), 11, &mut found);
    assert_eq!(matcher.send(from(1, 5), sent(1)), Some(12));
}

/// What is found and what is given up when all is known up to `horizon`.
fn settled(matcher: &mut Matcher, horizon: u64, end: bool) -> Settled {
    let mut settled = Settled::default();
    matcher.settle(horizon, end, &mut settled);
    settled
}

#[test]
fn of_a_named_sender_a_wildcard_gets_the_first_message() {
    let (mut matcher, mut found) = (Matcher::default(), Vec::new());
    let any_tag = Wanted {
        from: Some(rank(1)),
        tag: None,
    };
    matcher.receive((0, TO), any_tag, 10, &mut found);
    matcher.receive((0, TO), wanted(1, 5), 11, &mut found);
    matcher.ended((0, TO), 10, 95);
    matcher.ended((0, TO), 11, 96);
    for (send, channel) in [(1, from(2, 5)), (2, from(1, 6)), (3, from(1, 5))] {
        assert_eq!(matcher.send(channel, sent(send)), None);
    }
    // Up to then there may be others.
    assert_eq!(settled(&mut matcher, 95, false), Settled::default());
    let all = settled(&mut matcher, 96, false);
    assert_eq!((all.found, all.lost), (vec![(2, 10), (3, 11)], vec![]));
}

#[test]
fn what_was_sent_later_or_is_needed_by_others_is_not_what_a_wildcard_got() {
    let (mut matcher, mut found) = (Matcher::default(), Vec::new());
    matcher.receive((0, TO), ANY, 10, &mut found);
    matcher.receive((0, TO), wanted(1, 5), 11, &mut found);
    matcher.ended((0, TO), 10, 35);
    matcher.ended((0, TO), 11, 99);
    // The only one of rank 1 is received by name, and that of rank 3 is called at 40.
    for (send, channel) in [(1, from(1, 5)), (2, from(2, 5)), (4, from(3, 5))] {
        matcher.send(channel, sent(send));
    }
    let all = settled(&mut matcher, 100, false);
    assert_eq!((all.found, all.lost), (vec![(2, 10), (1, 11)], vec![]));
    assert_eq!(matcher.alone(), (1, 0));
}

#[test]
fn where_two_could_be_meant_nothing_is_said() {
    let (mut matcher, mut found) = (Matcher::default(), Vec::new());
    for receive in [10, 11] {
        matcher.receive((0, TO), ANY, receive, &mut found);
        matcher.ended((0, TO), receive, 90);
    }
    matcher.receive((0, TO), wanted(3, 1), 12, &mut found);
    for (send, channel) in [(1, from(1, 5)), (2, from(2, 5))] {
        matcher.send(channel, sent(send));
    }
    assert_eq!(settled(&mut matcher, 100, false), Settled::default());
    let all = settled(&mut matcher, 100, true);
    assert_eq!((all.found, all.lost), (vec![], vec![10, 11]));
    assert_eq!(matcher.send(from(3, 1), sent(3)), Some(12));
    // One of the two is gone, so of the next one it cannot be told either.
    matcher.send(from(1, 5), sent(4));
    matcher.receive(
        (0, TO),
        Wanted {
            tag: None,
            ..wanted(1, 5)
        },
        13,
        &mut found,
    );
    matcher.ended((0, TO), 13, 200);
    assert_eq!(settled(&mut matcher, 300, true).lost, [13]);
}

#[test]
fn threads_of_a_sender_are_in_no_order() {
    let (mut matcher, mut found) = (Matcher::default(), Vec::new());
    matcher.receive((0, TO), ANY, 10, &mut found);
    matcher.ended((0, TO), 10, 90);
    matcher.send(from(1, 5), sent(1));
    let other = Sent {
        thread: 1,
        ..sent(2)
    };
    matcher.send(from(1, 6), other);
    assert_eq!(settled(&mut matcher, 100, true).lost, [10]);
}
