//! Contexts and edges of small paths.

use iced_x86::Decoder;

use super::*;

fn paths() -> Paths {
    Paths::new(Processor::built_in("zen5").unwrap().into())
}

fn add(paths: &mut Paths, rip: u64, bytes: &[u8]) -> TimingBlockId {
    let count = Decoder::with_ip(64, bytes, rip, 0).into_iter().count() as u16;
    let source = BlockSource {
        rip,
        bits: 64,
        count,
        bytes: bytes.into(),
    };
    paths.block_of(source, |source| {
        Decoder::with_ip(64, &source.bytes, source.rip, 0)
            .into_iter()
            .collect()
    })
}

/// `imul rax, rcx`, four bytes.
const IMUL: [u8; 4] = [0x48, 0x0f, 0xaf, 0xc1];

#[test]
fn blocks_are_the_same_if_their_bytes_and_addresses_are() {
    let mut paths = paths();
    let one = add(&mut paths, 0x1000, &IMUL);
    assert_eq!(add(&mut paths, 0x1000, &IMUL), one);
    assert_ne!(add(&mut paths, 0x2000, &IMUL), one);
    assert_ne!(add(&mut paths, 0x1000, &[0x90]), one);
    assert_eq!(paths.source(one).count, 1);
}

#[test]
fn a_loop_reaches_a_context_that_leads_to_itself() {
    let mut paths = paths();
    let block = add(&mut paths, 0x1000, &IMUL.repeat(8));
    let mut context = Paths::START;
    let mut known = Vec::new();
    for _ in 0..20 {
        let id = paths.edge_of(context, block);
        known.push(id);
        context = paths.edge(id).next;
    }
    // 96 instructions are twelve blocks of eight.
    assert_eq!(paths.steps(context).len(), 12);
    assert_eq!(known[13..].iter().max(), known[13..].iter().min());
    let edge = *paths.edge(known[19]);
    assert_eq!((edge.from, edge.ticks), (edge.next, 24_000));
    assert_eq!(paths.edge_count(), 13);
}

#[test]
fn a_misprediction_leaves_only_its_block() {
    let mut paths = paths();
    // test rax, rax; jz
    let block = add(&mut paths, 0x1000, &[0x48, 0x85, 0xc0, 0x74, 0xfb]);
    let first = paths.edge_of(Paths::START, block);
    let next = paths.edge(first).next;
    let second = paths.edge_of(next, block);
    let mispredicted = paths.edge(second).mispredicted;
    assert_eq!(paths.steps(mispredicted), [(block, true)]);
    assert_eq!(paths.edge(first).mispredicted, mispredicted);
    let wrong = paths.edge_of(mispredicted, block);
    assert!(paths.edge(wrong).ticks > paths.edge(second).ticks + 18_000);
}

#[test]
fn a_system_call_empties_the_context() {
    let mut paths = paths();
    let call = add(&mut paths, 0x1000, &[0x90, 0x0f, 0x05]);
    let edge = paths.edge_of(Paths::START, call);
    assert_eq!(paths.edge(edge).next, Paths::START);
    assert_eq!(paths.edge(edge).mispredicted, Paths::START);
}

#[test]
fn the_shares_of_a_block_add_up() {
    let edge = Edge {
        from: 1,
        block: 0,
        ticks: 1000,
        count: 7,
        next: 1,
        mispredicted: 1,
        recurrent: 0,
    };
    assert_eq!((edge.rest(0), edge.rest(7), edge.rest(9)), (1000, 0, 0));
    for index in 0..7 {
        let share = edge.rest(index) - edge.rest(index + 1);
        assert!((142..=143).contains(&share), "{share}");
    }
}

#[test]
fn costs_do_not_depend_on_the_order_of_questions() {
    let blocks = |paths: &mut Paths| {
        [
            (0x1000, &[0x90][..]),
            (0x3000, &IMUL),
            (0x2000, &[0x48, 0xff, 0xc0]),
        ]
        .map(|(rip, bytes)| add(paths, rip, bytes))
    };
    let walk = |paths: &mut Paths, order: &[usize]| {
        let blocks = blocks(paths);
        let mut context = Paths::START;
        let mut ticks = Vec::new();
        for &number in order {
            let id = paths.edge_of(context, blocks[number]);
            ticks.push(paths.edge(id).ticks);
            context = paths.edge(id).next;
        }
        ticks
    };
    let order = [0, 1, 2, 1, 0, 0, 2, 1, 1, 2];
    let mut used = paths();
    walk(&mut used, &[2, 2, 2, 1, 0, 1, 2, 1]);
    let expected = walk(&mut paths(), &order);
    assert_eq!(walk(&mut used, &order), expected);
    used.clear();
    assert_eq!(walk(&mut used, &order), expected);
}

#[test]
fn a_cost_that_another_vcpu_computed_is_the_same() {
    let processor: Arc<Processor> = Processor::built_in("zen5").unwrap().into();
    let alone: Arc<Processor> = Processor::built_in("zen5").unwrap().into();
    let code = [0x48, 0x8b, 0x00, 0x48, 0x01, 0xc3, 0xeb, 0xf8];
    let ticks = |paths: &mut Paths, rip: u64| {
        let source = BlockSource {
            rip,
            bits: 64,
            count: 3,
            bytes: code.into(),
        };
        let block = paths.block_of(source, |source| {
            Decoder::with_ip(64, &source.bytes, rip, 0)
                .into_iter()
                .collect()
        });
        let mut context = Paths::START;
        let each = (0..40).map(|number| {
            let id = paths.edge_of(context, block);
            let edge = *paths.edge(id);
            context = if number % 7 == 3 {
                edge.mispredicted
            } else {
                edge.next
            };
            (edge.ticks, edge.recurrent)
        });
        each.collect::<Vec<_>>()
    };
    let used = processor.clone();
    let mut first = Paths::new(processor.clone());
    let mut second = Paths::new(processor);
    let expected = ticks(&mut Paths::new(alone), 0x1000);
    assert_eq!(ticks(&mut first, 0x1000), expected);
    // Other numbers of blocks and contexts.
    ticks(&mut second, 0x2000);
    assert_eq!(ticks(&mut second, 0x1000), expected);
    let fresh = Processor::built_in("zen5").unwrap();
    assert_eq!(format!("{fresh:?}"), format!("{used:?}"));
    assert!(expected.iter().any(|one| one.1 == 1), "{expected:?}");
}
