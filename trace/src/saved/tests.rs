//! Loaded events equal the saved ones.

use std::sync::Arc;

use super::*;
use crate::account::Accounts;
use crate::implementation::Implementation;
use crate::site::{CallStack, Frame, Site};

/// Events with accounts.
fn events(count: u64) -> Vec<Event> {
    let sum = |instructions| Account {
        instructions,
        ..Account::default()
    };
    let events = (0..count).map(|number| Event {
        node: number as u32,
        vcpu: 0,
        process: 1,
        thread: 2,
        rank: 3,
        implementation: Implementation::OpenMpi,
        function: number as u16,
        entry: number << 20,
        exit: (number > 2).then_some(number << 21),
        result: Some(-1),
        depth: 0,
        selected: true,
        bad: None,
        arguments: vec![number, u64::MAX],
        texts: Vec::new(),
        communicator: Some(0),
        transfers: Vec::new(),
        collectives: Vec::new(),
        started: vec![number],
        completed: Vec::new(),
        status: None,
        fact: None,
        accounts: Accounts(Some([sum(number << 20), sum((number << 20) + number)])),
        site: Site::default(),
        details: crate::Detailed::of(crate::Details {
            window: (number > 2).then_some(7),
            ..crate::Details::default()
        }),
        folded: Folded((number > 3).then(|| Box::new(Polls::one(number, sum(number), 5)))),
        given_up: GivenUp((number == 2).then_some(number)),
    });
    events.collect()
}

#[test]
fn events_come_back_with_their_sums_and_sites() {
    let mut events = events(5);
    for sited in [false, true] {
        if sited {
            let frames = (1..3).map(|address| Frame {
                address,
                file: None,
            });
            events[3].site = Site(Some(Arc::new(CallStack(frames.collect()))));
        }
        let saved = save_events(&events).unwrap();
        assert_eq!(load_events(&saved).unwrap(), events);
        for length in 0..saved.len() {
            assert!(load_events(&saved[..length]).is_err());
        }
    }
}
