//! Sends and receives in small numbers, with plain matches.

use super::*;

const TO: Member = Member { job: 0, rank: 0 };
const AT: Place = (0, TO);
const ANY: ReceiveSelector = ReceiveSelector {
    from: None,
    tag: None,
};

fn rank(rank: u32) -> Member {
    Member { job: 0, rank }
}

fn from(rank: u32, tag: i32) -> Channel {
    channel(AT, self::rank(rank), tag)
}

/// A send that is called at ten times its number.
fn sent(operation: u64) -> Sent {
    Sent {
        operation: OperationId(operation),
        at: 10 * operation,
        thread: 0,
    }
}

fn wanted(from: u32, tag: i32) -> ReceiveSelector {
    ReceiveSelector {
        from: Some(rank(from)),
        tag: Some(tag),
    }
}

/// A matcher, and the facts that it reported since the last query.
#[derive(Default)]
struct Test {
    matcher: Matcher,
    facts: Vec<Fact>,
}

impl Test {
    fn receive(&mut self, wanted: ReceiveSelector, operation: u64) {
        let operation = OperationId(operation);
        self.matcher.receive(AT, wanted, operation, &mut self.facts);
    }

    fn ended(&mut self, operation: u64, at: u64) {
        self.matcher.ended(AT, OperationId(operation), at);
    }

    fn cancelled(&mut self, operation: u64, at: u64) {
        let operation = OperationId(operation);
        self.matcher
            .perhaps_cancelled(AT, operation, at, &mut self.facts);
    }

    fn send(&mut self, channel: Channel, sent: Sent) {
        self.matcher.send(channel, sent, &mut self.facts);
    }

    fn got(&mut self, operation: u64, got: (Member, i32)) {
        self.matcher
            .got(AT, OperationId(operation), got.0, got.1, &mut self.facts);
    }

    fn withdraw(&mut self, operation: u64) {
        self.matcher
            .withdraw(AT, OperationId(operation), &mut self.facts);
    }

    /// The matches since the last query.
    fn found(&mut self) -> Vec<(u64, u64)> {
        let facts = std::mem::take(&mut self.facts).into_iter();
        let pairs = facts.filter_map(|fact| match fact {
            Fact::Matched { send, receive } => Some((send.0, receive.0)),
            _ => None,
        });
        pairs.collect()
    }

    /// The matches and the lost operations when all is known up to `horizon`.
    fn settled(&mut self, horizon: u64, end: bool) -> (Vec<(u64, u64)>, Vec<u64>) {
        self.matcher.settle(horizon, end, &mut self.facts);
        let facts = self.facts.iter();
        let lost = facts.filter_map(|fact| match fact {
            Fact::Lost { operation, .. } => Some(operation.0),
            _ => None,
        });
        let lost = lost.collect();
        (self.found(), lost)
    }
}

#[test]
fn messages_of_a_channel_do_not_overtake() {
    let mut test = Test::default();
    test.send(from(1, 5), sent(1));
    test.send(from(1, 5), sent(2));
    test.send(from(1, 6), sent(3));
    assert_eq!(test.found(), []);
    test.receive(wanted(1, 6), 10);
    test.receive(wanted(1, 5), 11);
    test.receive(wanted(1, 5), 12);
    test.receive(wanted(1, 5), 13);
    assert_eq!(test.found(), [(3, 10), (1, 11), (2, 12)]);
    assert_eq!(test.matcher.alone(), (0, 1));
    test.send(from(1, 5), sent(4));
    assert_eq!(test.found(), [(4, 13)]);
    assert_eq!(test.matcher.alone(), (0, 0));
    assert!(test.matcher.channels.is_empty() && test.matcher.posted.is_empty());
    assert_eq!(test.matcher.queued, 0);
}

#[test]
fn a_wildcard_that_was_posted_first_gets_the_first_message() {
    let mut test = Test::default();
    test.receive(ANY, 10);
    test.receive(wanted(1, 5), 11);
    test.receive(wanted(2, 5), 12);
    for (send, channel) in [(1, from(1, 5)), (2, from(1, 5)), (3, from(2, 5))] {
        test.send(channel, sent(send));
    }
    assert_eq!(test.found(), [], "the wildcard's match is unknown");
    test.got(10, (rank(1), 5));
    assert_eq!(test.found(), [(1, 10), (2, 11), (3, 12)]);
}

#[test]
fn a_receive_that_fits_no_message_of_a_wildcard_does_not_wait_for_it() {
    let mut test = Test::default();
    let tagged = ReceiveSelector {
        from: None,
        tag: Some(7),
    };
    test.receive(tagged, 10);
    test.receive(wanted(1, 5), 11);
    test.send(from(1, 5), sent(1));
    assert_eq!(test.found(), [(1, 11)]);
    assert_eq!(test.matcher.alone(), (0, 1));
}

#[test]
fn cancelled_operations_match_nothing_and_block_nothing() {
    let mut test = Test::default();
    test.receive(ANY, 10);
    test.receive(wanted(1, 5), 11);
    test.withdraw(10);
    test.receive(wanted(1, 5), 12);
    test.withdraw(11);
    test.send(from(1, 5), sent(1));
    assert_eq!(test.found(), [(1, 12)]);
    test.send(from(1, 5), sent(2));
    test.send(from(1, 5), sent(3));
    test.matcher.withdraw_send(from(1, 5), OperationId(2));
    test.receive(wanted(1, 5), 13);
    assert_eq!(test.found(), [(3, 13)]);
    assert_eq!(test.matcher.queued, 0);
}

#[test]
fn a_receive_that_may_have_been_cancelled_matches_no_later_message() {
    let mut test = Test::default();
    for receive in [10, 11] {
        test.receive(wanted(1, 5), receive);
    }
    test.cancelled(10, 15);
    // The first message is sent at 20.
    test.send(from(1, 5), sent(2));
    assert_eq!(test.settled(100, true), (vec![(2, 11)], vec![10]));
    assert_eq!(test.matcher.queued, 0);
    // A message sent earlier may be its match.
    test.receive(wanted(1, 5), 12);
    test.cancelled(12, 45);
    test.send(from(1, 5), sent(4));
    assert_eq!(test.settled(100, true), (vec![], vec![12, 4]));
}

#[test]
fn channels_of_a_wildcard_that_may_have_been_cancelled_are_doubtful() {
    let mut test = Test::default();
    let any_tag = ReceiveSelector {
        tag: None,
        ..wanted(1, 5)
    };
    test.receive(any_tag, 10);
    test.receive(wanted(1, 5), 11);
    test.receive(wanted(1, 6), 12);
    test.cancelled(10, 35);
    test.ended(12, 70);
    for (send, channel) in [(3, from(1, 5)), (4, from(1, 6))] {
        test.send(channel, sent(send));
    }
    // The message of tag 6 is sent at 40, after the wildcard receive was complete.
    assert_eq!(test.settled(100, false), (vec![(4, 12)], vec![10, 3, 11]));
}

#[test]
fn a_wildcard_with_a_named_sender_gets_its_first_message() {
    let mut test = Test::default();
    let any_tag = ReceiveSelector {
        from: Some(rank(1)),
        tag: None,
    };
    test.receive(any_tag, 10);
    test.receive(wanted(1, 5), 11);
    test.ended(10, 95);
    test.ended(11, 96);
    for (send, channel) in [(1, from(2, 5)), (2, from(1, 6)), (3, from(1, 5))] {
        test.send(channel, sent(send));
    }
    // Sends of the time 95 may follow.
    assert_eq!(test.settled(95, false), (vec![], vec![]));
    assert_eq!(test.settled(96, false), (vec![(2, 10), (3, 11)], vec![]));
}

#[test]
fn messages_sent_later_or_received_by_name_are_no_candidates() {
    let mut test = Test::default();
    test.receive(ANY, 10);
    test.receive(wanted(1, 5), 11);
    test.ended(10, 35);
    test.ended(11, 99);
    // The only message of rank 1 is received by name, and the message of rank 3 is sent at 40.
    for (send, channel) in [(1, from(1, 5)), (2, from(2, 5)), (4, from(3, 5))] {
        test.send(channel, sent(send));
    }
    assert_eq!(test.settled(100, false), (vec![(2, 10), (1, 11)], vec![]));
    assert_eq!(test.matcher.alone(), (1, 0));
}

#[test]
fn receives_with_several_candidates_and_their_channels_are_lost() {
    let mut test = Test::default();
    for receive in [10, 11] {
        test.receive(ANY, receive);
        test.ended(receive, 90);
    }
    test.receive(wanted(3, 1), 12);
    for (send, channel) in [(1, from(1, 5)), (2, from(2, 5))] {
        test.send(channel, sent(send));
    }
    assert_eq!(test.settled(100, false), (vec![], vec![]));
    assert_eq!(test.settled(100, true), (vec![], vec![10, 1, 2, 11]));
    test.send(from(3, 1), sent(3));
    assert_eq!(test.found(), [(3, 12)]);
    // One of the first two messages may be left in its channel, so that the next match is unknown.
    let any_tag = ReceiveSelector {
        tag: None,
        ..wanted(1, 5)
    };
    test.send(from(1, 5), sent(4));
    test.receive(any_tag, 13);
    test.ended(13, 200);
    assert_eq!(test.settled(300, true), (vec![], vec![4, 13]));
}

#[test]
fn a_named_receive_of_a_doubtful_channel_is_lost() {
    let mut test = Test::default();
    test.receive(ANY, 10);
    test.ended(10, 90);
    for (send, channel) in [(1, from(1, 5)), (2, from(2, 5)), (3, from(1, 5))] {
        test.send(channel, sent(send));
    }
    test.receive(wanted(1, 5), 11);
    let (found, lost) = test.settled(100, true);
    assert_eq!(found, []);
    assert_eq!(lost, [10, 1, 3, 2, 11]);
}

#[test]
fn threads_of_a_sender_are_in_no_order() {
    let mut test = Test::default();
    test.receive(ANY, 10);
    test.ended(10, 90);
    test.send(from(1, 5), sent(1));
    let other = Sent {
        thread: 1,
        ..sent(2)
    };
    test.send(from(1, 6), other);
    assert_eq!(test.settled(100, true), (vec![], vec![10, 1, 2]));
}
