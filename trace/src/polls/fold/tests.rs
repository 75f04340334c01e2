//! Polls of threads become records, and nothing else changes.

use belljar_mpi::FUNCTIONS;
use proptest::prelude::*;

use super::*;
use crate::account::{Account, Accounts};
use crate::implementation::Implementation;
use crate::polls::Polls;
use crate::saved::{load_events, save_events};

/// A call of `thread` from `entry` to `exit`, on a node that spent all its time in instructions.
fn call(name: &str, thread: u32, entry: u64, exit: u64) -> Event {
    let function = FUNCTIONS.iter().position(|of| of.name == name);
    let sum = |instructions| Account {
        instructions,
        ..Account::default()
    };
    Event {
        node: 0,
        vcpu: 0,
        process: 1,
        thread,
        rank: 3,
        implementation: Implementation::OpenMpi,
        function: function.unwrap() as u16,
        entry,
        exit: Some(exit),
        result: Some(0),
        depth: 0,
        selected: true,
        bad: None,
        arguments: Vec::new(),
        texts: Vec::new(),
        communicator: Some(0),
        transfers: Vec::new(),
        collectives: Vec::new(),
        started: Vec::new(),
        completed: Vec::new(),
        status: None,
        fact: None,
        accounts: Accounts(Some([sum(entry), sum(exit)])),
        site: crate::site::Site::default(),
        details: crate::Detailed::default(),
        folded: Folded::default(),
        given_up: Default::default(),
    }
}

/// An unsuccessful poll, with a source, a tag, and addresses for a flag and a status.
fn poll(thread: u32, entry: u64, exit: u64, asked: [u64; 2], outputs: [u64; 2]) -> Event {
    let account = Account {
        instructions: exit - entry,
        ..Account::default()
    };
    let mut event = call("MPI_Iprobe", thread, entry, exit);
    let ([source, tag], [flag, status]) = (asked, outputs);
    event.arguments = vec![source, tag, 0x4400_0000, flag, status];
    event.folded = Folded(Some(Box::new(Polls::one(exit - entry, account, 0))));
    event
}

fn folded(events: Vec<Event>) -> Vec<Event> {
    let mut folder = Folder::default();
    let mut out = Vec::new();
    let mut next = |event| {
        out.push(event);
        Ok::<_, ()>(())
    };
    for event in events {
        folder.take(event, &mut next).unwrap();
    }
    folder.finish(&mut next).unwrap();
    out
}

fn told(events: &[Event]) -> Vec<(&str, u32, u64, u64, Option<u64>)> {
    let told = |event: &Event| {
        let exit = event.exit.unwrap_or(0);
        (event.thread, event.calls(), exit, event.duration())
    };
    let told = events.iter().map(|event| (event, told(event)));
    told.map(|(event, (thread, calls, exit, inside))| (event.name(), thread, calls, exit, inside))
        .collect()
}

#[test]
fn polls_that_follow_one_another_become_one_before_the_next_call() {
    let same = |entry, exit| poll(0, entry, exit, [1, 7], [0x10, entry]);
    let events = vec![
        same(100, 110),
        call("MPI_Send", 1, 100, 112),
        same(115, 121),
        call("MPI_Send", 1, 113, 130),
        same(140, 153),
        call("MPI_Recv", 0, 160, 170),
        same(180, 185),
    ];
    let out = folded(events);
    let expected = [
        ("MPI_Send", 1, 1, 112, Some(12)),
        ("MPI_Send", 1, 1, 130, Some(17)),
        ("MPI_Iprobe", 0, 3, 153, Some(29)),
        ("MPI_Recv", 0, 1, 170, Some(10)),
        ("MPI_Iprobe", 0, 1, 185, Some(5)),
    ];
    assert_eq!(told(&out), expected);
    let fold = &out[2];
    assert_eq!((fold.entry, fold.exit), (100, Some(153)));
    assert_eq!(fold.outside(), 53 - 29);
    assert_eq!(fold.durations(), Some((6, 13)));
    let [before, after] = fold.accounts.0.unwrap();
    assert_eq!((before.instructions, after.instructions), (100, 153));
    let inside = fold.folded.0.as_ref().unwrap().account;
    assert_eq!(inside.instructions, 29);
}

#[test]
fn what_asks_for_something_else_is_apart() {
    let ask = |entry, asked| poll(0, entry, entry + 5, asked, [1, 2]);
    let mut elsewhere = ask(400, [1, 8]);
    elsewhere.folded.0.as_mut().unwrap().subject = 9;
    let mut failed = ask(500, [1, 8]);
    failed.result = Some(5);
    let mut nested = ask(600, [1, 8]);
    nested.depth = 1;
    let events = vec![ask(100, [1, 7]), ask(200, [1, 8]), ask(300, [2, 8])];
    let events: Vec<Event> = [events, vec![elsewhere, failed, nested]].concat();
    assert_eq!(folded(events.clone()), events);
}

#[test]
fn of_many_threads_the_first_ones_are_handed_on() {
    let events = (0..MOST as u32 + 1).map(|thread| poll(thread, 0, 1, [1, 7], [1, 2]));
    let mut folder = Folder::default();
    let mut out = Vec::new();
    let mut next = |event: Event| {
        out.push(event.thread);
        Ok::<_, ()>(())
    };
    for event in events {
        folder.take(event, &mut next).unwrap();
    }
    assert_eq!(folder.held.len(), MOST);
    assert_eq!(out, [0]);
}

proptest! {
    /// Counts, times and orders of threads are preserved, and a run may be interrupted anywhere.
    #[test]
    fn nothing_is_lost(calls in prop::collection::vec((0..3u32, 0..4u64, 1..9u64), 0..60), stop in 0..60usize) {
        let mut clock = 0;
        let events = calls.into_iter().map(|(thread, kind, length)| {
            clock += 20;
            match kind {
                0 => call("MPI_Barrier", thread, clock, clock + length),
                kind => poll(thread, clock, clock + length, [kind / 3, 7], [kind, clock]),
            }
        });
        let events: Vec<Event> = events.collect();
        let whole = folded(events.clone());
        for thread in 0..3 {
            let sums = |events: &[Event]| {
                let own = events.iter().filter(|event| event.thread == thread);
                own.fold((0, 0), |sum, event| (sum.0 + event.calls(), sum.1 + event.duration().unwrap()))
            };
            prop_assert_eq!(sums(&whole), sums(&events));
            let own: Vec<&Event> = whole.iter().filter(|event| event.thread == thread).collect();
            for pair in own.windows(2) {
                prop_assert!(pair[0].exit.unwrap() <= pair[1].entry);
                let both = pair[0].folded.0.is_some() && pair[1].folded.0.is_some();
                prop_assert!(!both || !alike(pair[0], pair[1]));
            }
        }
        let mut folder = Folder::default();
        let mut out = Vec::new();
        for (number, event) in events.into_iter().enumerate() {
            if number == stop {
                let saved = save_events(&folder.held()).unwrap();
                folder = Folder::holding(load_events(&saved).unwrap());
            }
            folder.take(event, &mut |event| { out.push(event); Ok::<_, ()>(()) }).unwrap();
        }
        folder.finish(&mut |event| { out.push(event); Ok::<_, ()>(()) }).unwrap();
        prop_assert_eq!(out, whole);
    }
}
