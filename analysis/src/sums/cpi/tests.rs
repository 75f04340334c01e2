//! Cycles per instruction of small traces, whose parts add up.
use belljar_job::Collector;
use belljar_trace::{Accounts, Event, Implementation};

use super::*;

fn call(times: [u64; 2], accounts: Option<[Account; 2]>) -> Event {
    Event {
        node: 0,
        vcpu: 0,
        process: 0,
        thread: 0,
        rank: 3,
        implementation: Implementation::Mpich,
        function: 0,
        entry: times[0],
        exit: Some(times[1]),
        result: None,
        depth: 0,
        selected: true,
        bad: None,
        arguments: Vec::new(),
        texts: Vec::new(),
        communicator: None,
        transfers: Vec::new(),
        collectives: Vec::new(),
        started: Vec::new(),
        completed: Vec::new(),
        status: None,
        fact: None,
        accounts: Accounts(accounts),
        site: Default::default(),
        details: Default::default(),
        folded: Default::default(),
        given_up: Default::default(),
    }
}

fn account(instructions: u64, caches: u64, memory: u64, idle: u64) -> Account {
    Account {
        instructions,
        caches,
        memory,
        idle,
    }
}

#[test]
fn the_parts_add_up_to_the_cycle() {
    let communicators = Collector::new().resolve();
    let mut collector = CpiCollector::new(&communicators, None);
    let steps = [
        ([100, 150], [account(90, 5, 7, 0), account(95, 6, 8, 30)]),
        (
            [1150, 1200],
            [account(395, 106, 208, 130), account(400, 106, 208, 160)],
        ),
    ];
    for (times, accounts) in steps {
        collector.observe(&call(times, Some(accounts)));
    }
    let mut nested = call([1300, 1400], Some([account(500, 500, 500, 500); 2]));
    nested.depth = 1;
    collector.observe(&nested);
    let found = collector.finish();
    let stat = &found.ranks[0];
    assert_eq!((stat.rank, stat.instructions), (Some(3), 300));
    let parts = [
        Some(stat.core),
        stat.caches,
        stat.memory,
        stat.idle,
        Some(stat.mpi),
    ];
    let cycles = parts.map(|part| part.unwrap().cycles);
    assert_eq!(cycles, [600, 100, 200, 100, 100]);
    assert_eq!(stat.total.cycles, cycles.iter().sum::<u64>());
    assert!((stat.core.per_instruction - 2.0).abs() < 1e-12);
    assert_eq!(found.all.total, stat.total);
}

#[test]
fn without_a_time_model_the_core_takes_the_ratio() {
    let communicators = Collector::new().resolve();
    let ratio = Ratio {
        cycles: 3,
        instructions: 2,
    };
    let mut collector = CpiCollector::new(&communicators, Some(ratio));
    collector.observe(&call([100, 150], None));
    collector.observe(&call([450, 460], None));
    let stat = collector.finish().all;
    assert_eq!(stat.instructions, 200);
    assert!((stat.core.per_instruction - 1.5).abs() < 1e-12);
    assert_eq!((stat.caches, stat.memory, stat.idle), (None, None, None));
    assert_eq!((stat.mpi.cycles, stat.total.cycles), (60, 360));
}

/// The text of statistics of nodes with this number of processors.
fn text_of(processors: u32) -> String {
    let communicators = Collector::new().resolve();
    let mut statistics = CpiCollector::new(&communicators, None).finish();
    statistics.processors = processors;
    let mut text = Vec::new();
    statistics.write(&mut text).expect("memory takes it");
    String::from_utf8(text).expect("text")
}

#[test]
fn several_processors_of_a_node_are_named() {
    assert!(text_of(4).contains("nodes have 4 processors"));
    assert!(!text_of(1).contains("processors"));
}
