//! Traces of small programs, with delay costs computed by hand.

use belljar_tracer::scripted::int;

use super::super::{DelayCosts, WaitCollector, Waiting};
use crate::generated::ranks::{ANY, BUFFER, BYTE, NO_REQUEST, Ranks, SUM, WORLD};

/// A rank's direct and indirect cost, in nanoseconds.
type Cost = (u64, u64);

/// Returns the waits of a trace and their root causes.
fn waiting(ranks: Ranks) -> Waiting {
    let trace = ranks.trace();
    let mut collector = WaitCollector::new(&trace.header, &trace.communicators).with_delays();
    // In the order of returns, as a run writes them.
    let mut events: Vec<_> = trace.events.iter().collect();
    events.sort_by_key(|event| (event.exit, event.node));
    for event in events {
        collector.observe(event, true);
    }
    let found = collector.finish();
    conserved(&found);
    found
}

/// Checks that costs add up to the waiting, all with causes.
fn conserved(found: &Waiting) {
    let delays = costs(found);
    let waited: u64 = found.kinds.iter().map(|kind| kind.waiting_ps).sum();
    let codes: u64 = delays.codes.iter().map(|code| code.total_ps).sum();
    assert_eq!(delays.attributed_ps() + delays.unattributed_ps, waited);
    assert_eq!(codes, delays.attributed_ps());
    assert_eq!(delays.unattributed_ps, 0);
}

fn costs(found: &Waiting) -> &DelayCosts {
    found.delays.as_ref().unwrap()
}

fn by_rank(found: &Waiting) -> Vec<Cost> {
    let ranks = costs(found).ranks.iter();
    let cost = |ps: u64| (ps + 500) / 1000;
    ranks
        .map(|rank| (cost(rank.direct_ps), cost(rank.indirect_ps)))
        .collect()
}

/// All ranks start MPI together.
fn start(ranks: &mut Ranks, count: usize) {
    for rank in 0..count {
        ranks.call(rank, 500, 1000, "MPI_Init", &[0, 0]);
    }
}

#[test]
fn a_chain_of_three_is_the_first_ones_fault() {
    let mut ranks = Ranks::new(3);
    start(&mut ranks, 3);
    // Rank 0 works for 10000, the others for 1000; each call takes 200 beyond waiting.
    ranks.send(0, (11_000, 11_200), 1, 7);
    ranks.receive(1, (2000, 11_200), 0, 0, 7);
    ranks.send(1, (12_200, 12_400), 2, 7);
    ranks.receive(2, (2000, 12_400), 1, 1, 7);
    let found = waiting(ranks);
    // Rank 1 waits for 9000, caused by rank 0 alone. Rank 2 waits for 10200: rank 1 had 9000 of waiting, 1000 of work and 200 in its receive more than
    // rank 2.
    assert_eq!(found.ranks[1].waiting_ps, 9_000_000);
    assert_eq!(found.ranks[2].waiting_ps, 10_200_000);
    assert_eq!(by_rank(&found), [(9000, 9000), (1200, 0), (0, 0)]);
    let most = &costs(&found).codes[0];
    let (from, to) = (most.from.as_ref().unwrap(), most.to.as_ref().unwrap());
    assert_eq!((from.function, to.function), ("MPI_Init", "MPI_Send"));
    assert_eq!((most.direct_ps, most.indirect_ps), (9_000_000, 9_000_000));
    assert_eq!((most.most_job, most.most_rank), (0, 0));
}

/// A pipeline of four stages, with a slow stage `slow`, of ten items.
fn pipeline(slow: usize) -> Ranks {
    let mut ranks = Ranks::new(4);
    start(&mut ranks, 4);
    let mut free = [1000u64; 4];
    for item in 0..10 {
        let mut here = 0;
        for (stage, free) in free.iter_mut().enumerate() {
            if stage > 0 {
                let (entry, from) = (*free, stage as u32 - 1);
                let exit = entry.max(here) + 200;
                ranks.receive(stage, (entry, exit), from as i32, from, item);
                *free = exit;
            }
            *free += if stage == slow { 10_000 } else { 2000 };
            here = *free;
            if stage < 3 {
                ranks.send(stage, (here, here + 200), stage as u32 + 1, item);
                *free += 200;
            }
        }
    }
    ranks
}

#[test]
fn the_slow_stage_of_a_pipeline_comes_first() {
    for slow in 0..3 {
        let found = waiting(pipeline(slow));
        let costs = by_rank(&found);
        let total = |rank: usize| costs[rank].0 + costs[rank].1;
        let all: u64 = (0..4).map(total).sum();
        assert!(total(slow) * 10 > all * 8, "stage {slow}: {costs:?}");
        // The last stage's waits for a stage between are attributed to the slow one.
        if slow == 0 {
            assert!(costs[0].1 > costs[0].0, "{costs:?}");
        }
    }
}

/// Blocking exchanges of a stencil: in each step all ranks send to their neighbours, then receive from them.
fn stencil(neighbors: &[Vec<usize>], slow: usize, steps: u32) -> Ranks {
    let count = neighbors.len();
    let mut ranks = Ranks::new(count as u32);
    start(&mut ranks, count);
    let mut free = vec![1000u64; count];
    for step in 0..steps {
        let mut sent = vec![vec![0; count]; count];
        for rank in 0..count {
            free[rank] += if rank == slow { 20_000 } else { 5000 };
            for other in &neighbors[rank] {
                sent[rank][*other] = free[rank];
                ranks.send(rank, (free[rank], free[rank] + 120), *other as u32, step);
                free[rank] += 120;
            }
        }
        for rank in 0..count {
            for other in &neighbors[rank] {
                let exit = free[rank].max(sent[*other][rank]) + 120;
                ranks.receive(rank, (free[rank], exit), *other as i32, *other as u32, step);
                free[rank] = exit;
            }
        }
    }
    ranks
}

fn line(count: usize) -> Vec<Vec<usize>> {
    let of = |rank: usize| {
        let sides = [rank.checked_sub(1), (rank + 1 < count).then_some(rank + 1)];
        sides.into_iter().flatten().collect()
    };
    (0..count).map(of).collect()
}

fn grid(width: usize, height: usize) -> Vec<Vec<usize>> {
    let of = |rank: usize| {
        let (column, row) = (rank % width, rank / width);
        let sides = [
            (column > 0).then(|| rank - 1),
            (column + 1 < width).then_some(rank + 1),
            (row > 0).then(|| rank - width),
            (row + 1 < height).then_some(rank + width),
        ];
        sides.into_iter().flatten().collect()
    };
    (0..width * height).map(of).collect()
}

#[test]
fn distant_ranks_of_a_stencil_wait_for_the_slow_one() {
    for (neighbors, slow) in [(line(6), 0), (line(6), 2), (grid(3, 3), 4), (grid(4, 3), 0)] {
        let found = waiting(stencil(&neighbors, slow, 12));
        let costs = by_rank(&found);
        let all: u64 = costs
            .iter()
            .map(|(direct, indirect)| direct + indirect)
            .sum();
        let own = costs[slow].0 + costs[slow].1;
        assert!(own * 100 > all * 95, "rank {slow}: {costs:?}");
        // The direct costs are its neighbours' waits.
        let near: u64 = neighbors[slow]
            .iter()
            .map(|rank| found.ranks[*rank].waiting_ps / 1000)
            .sum();
        assert!(costs[slow].0 <= near, "{} of {near}", costs[slow].0);
        assert!(costs[slow].1 * 10 > all, "rank {slow}: {costs:?}");
        // Attribution to the direct partner alone differs.
        let caused = found.ranks[slow].caused_ps / 1000;
        assert!(caused < own, "{caused} of {own}");
    }
}

/// Calls of a collective operation by ranks with this much work before each.
fn collectives(name: &str, work: &[u64], rounds: u64, arguments: &[u64]) -> Ranks {
    let mut ranks = Ranks::new(work.len() as u32);
    start(&mut ranks, work.len());
    let mut begin = 1000;
    for _ in 0..rounds {
        let last = begin + work.iter().max().unwrap() + 200;
        for (rank, work) in work.iter().enumerate() {
            ranks.call(rank, begin + work, last, name, arguments);
        }
        begin = last;
    }
    ranks
}

#[test]
fn a_reduction_waits_for_the_last_contributor() {
    let reduce = [BUFFER, 0x6000, int(4), BYTE, SUM, int(0), WORLD];
    let found = waiting(collectives(
        "MPI_Reduce",
        &[100, 1000, 2000, 6000],
        5,
        &reduce,
    ));
    assert_eq!(found.ranks[0].waiting_ps, 5 * 5_900_000);
    assert_eq!(by_rank(&found), [(0, 0), (0, 0), (0, 0), (5 * 5900, 0)]);
}

#[test]
fn a_broadcast_waits_for_a_late_root() {
    let broadcast = [BUFFER, int(4), BYTE, int(1), WORLD];
    let found = waiting(collectives("MPI_Bcast", &[100, 4100, 1100], 5, &broadcast));
    assert_eq!(by_rank(&found), [(0, 0), (5 * 7000, 0), (0, 0)]);
}

#[test]
fn an_exchange_of_all_waits_for_the_late_rank() {
    let all = [BUFFER, int(4), BYTE, 0x6000, int(4), BYTE, WORLD];
    let found = waiting(collectives("MPI_Alltoall", &[100, 100, 3100, 100], 4, &all));
    assert_eq!(by_rank(&found), [(0, 0), (0, 0), (4 * 9000, 0), (0, 0)]);
}

#[test]
fn who_is_late_may_change_from_round_to_round() {
    let mut ranks = Ranks::new(3);
    start(&mut ranks, 3);
    let mut begin = 1000;
    for round in 0..6 {
        let late = round % 3;
        for rank in 0..3 {
            let work = if rank == late { 2000 } else { 500 };
            ranks.call(rank, begin + work, begin + 2200, "MPI_Barrier", &[WORLD]);
        }
        begin += 2200;
    }
    let found = waiting(ranks);
    assert_eq!(by_rank(&found), [(6000, 0), (6000, 0), (6000, 0)]);
}

#[test]
fn a_receive_of_an_unknown_partner_costs_nobody() {
    let mut ranks = Ranks::new(3);
    start(&mut ranks, 3);
    let any = [BUFFER, int(4), BYTE, int(ANY), int(7), WORLD, 1];
    ranks.call(0, 2000, 6000, "MPI_Recv", &any);
    ranks.send(1, (5000, 5200), 0, 7);
    ranks.send(2, (5000, 5200), 0, 7);
    let found = waiting(ranks);
    assert_eq!(found.unresolved, 1);
    assert_eq!(by_rank(&found), [(0, 0), (0, 0), (0, 0)]);
    assert!(costs(&found).codes.is_empty());
}

#[test]
fn a_known_partner_of_any_source_has_the_cost() {
    let mut ranks = Ranks::new(3);
    start(&mut ranks, 3);
    ranks.receive(0, (2000, 6000), ANY, 2, 7);
    ranks.send(2, (5000, 5200), 0, 7);
    ranks.send(1, (5500, 5700), 0, 8);
    let found = waiting(ranks);
    assert_eq!(by_rank(&found), [(0, 0), (0, 0), (3000, 0)]);
}

/// Rank 0 posts receives from the others and waits for all of them, by these calls.
fn waits_for_all(begin: &str, late: [u64; 2]) -> Waiting {
    let persistent = begin == "MPI_Recv_init";
    let mut ranks = Ranks::new(3);
    start(&mut ranks, 3);
    let requests = ranks.guests[0].handles(&[0, 0]);
    for source in [1, 2] {
        let request = requests + 4 * (source - 1);
        let post = [
            BUFFER,
            int(4),
            BYTE,
            int(source as i32),
            int(7),
            WORLD,
            request,
        ];
        let at = 1200 + 200 * source;
        ranks.call_and(0, at, at + 150, begin, &post, |guest| {
            guest.put_handle(request, 0xac00_0000 + source);
        });
    }
    if persistent {
        ranks.call(0, 1800, 1950, "MPI_Startall", &[int(2), requests]);
    }
    let last = late[0].max(late[1]) + 200;
    let statuses = 1;
    let wait = [int(2), requests, statuses];
    ranks.call_and(0, 2000, last, "MPI_Waitall", &wait, |guest| {
        if !persistent {
            guest.put_handle(requests, NO_REQUEST);
            guest.put_handle(requests + 4, NO_REQUEST);
        }
    });
    for (sender, at) in late.into_iter().enumerate() {
        ranks.send(sender + 1, (at, at + 200), 0, 7);
    }
    waiting(ranks)
}

#[test]
fn the_last_of_several_partners_has_the_cost() {
    for begin in ["MPI_Irecv", "MPI_Recv_init"] {
        let found = waits_for_all(begin, [5000, 9000]);
        assert_eq!(by_rank(&found), [(0, 0), (0, 0), (7000, 0)], "{begin}");
        let found = waits_for_all(begin, [8000, 4000]);
        assert_eq!(by_rank(&found), [(0, 0), (6000, 0), (0, 0)], "{begin}");
    }
}

#[test]
fn a_server_costs_its_service_and_not_the_clients_own_work() {
    let mut ranks = Ranks::new(2);
    start(&mut ranks, 2);
    let (mut client, mut server) = (1000, 1000);
    for round in 0..5 {
        // The client works for 9000 and sends a request; the server answers after 1000.
        client += 9000;
        ranks.send(0, (client, client + 200), 1, round);
        ranks.receive(1, (server, client + 200), 0, 0, round);
        server = client + 1200;
        ranks.send(1, (server, server + 200), 0, 100 + round);
        ranks.receive(0, (client + 200, server + 200), 1, 1, 100 + round);
        client = server + 200;
        server += 200;
    }
    let found = waiting(ranks);
    let costs = by_rank(&found);
    // The server's waits are caused by the client's work, the client's waits by the server's.
    assert_eq!(costs[0].0 + costs[0].1, found.ranks[1].waiting_ps / 1000);
    assert_eq!(costs[1].0 + costs[1].1, found.ranks[0].waiting_ps / 1000);
}

#[test]
fn costs_do_not_depend_on_the_order_of_nodes_in_the_trace() {
    let order = |by_time: bool| {
        let trace = stencil(&line(5), 1, 8).trace();
        let mut collector = WaitCollector::new(&trace.header, &trace.communicators).with_delays();
        let mut events: Vec<_> = trace.events.iter().collect();
        if by_time {
            events.sort_by_key(|event| (event.exit, event.node));
        }
        for event in events {
            collector.observe(event, true);
        }
        let found = collector.finish();
        conserved(&found);
        by_rank(&found)
    };
    assert_eq!(order(true), order(false));
}

#[test]
fn text_has_the_costs() {
    let found = waiting(stencil(&line(4), 0, 4));
    let mut text = Vec::new();
    found.write(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    for words in [
        "indirect cost",
        "Root causes of waiting",
        "MPI_Recv to MPI_Send",
    ] {
        assert!(text.contains(words), "{words} in {text}");
    }
}
