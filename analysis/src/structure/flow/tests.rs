//! Graphs of a program with known properties, and sequences of calls reconstructed from graphs.

use belljar_job::Collector;
use belljar_trace::Event;
use quick_xml::Reader;
use quick_xml::events::Event as Xml;

use super::{Detail, END, FlowCollector, FlowGraph, FlowGraphs, GraphsOf, START, Temporal};
use crate::generated::Stencil;

const STENCIL: Stencil = Stencil {
    width: 4,
    height: 3,
    steps: 20,
    rounds: 5,
    report: 4,
};

fn graphs(stencil: Stencil, of: GraphsOf, folded: bool) -> FlowGraphs {
    let header = stencil.header();
    let mut communicators = Collector::new();
    let mut flows = FlowCollector::new(Detail::Peer);
    for event in stencil.events() {
        communicators.observe(&event, &header);
        flows.observe(&event);
    }
    flows.finish(&header, &communicators.resolve(), of, folded)
}

/// Returns each rank's functions in the order of its calls.
fn sequences(stencil: Stencil) -> Vec<Vec<&'static str>> {
    let mut all = vec![Vec::new(); stencil.ranks() as usize];
    for event in stencil.events() {
        let event: Event = event;
        all[event.rank as usize].push(event.name());
    }
    all
}

/// Reconstructs the sequence of functions from a graph's temporal labels.
fn walked(graph: &FlowGraph) -> Vec<&'static str> {
    let mut visits = vec![0u64; graph.nodes.len()];
    let mut calls = Vec::new();
    let mut at = START;
    while at != END {
        visits[at as usize] += 1;
        let visit = visits[at as usize];
        let mut ways = graph.edges.iter().filter(|edge| edge.from == at);
        let way = ways.find(|edge| match &edge.labels {
            Temporal::Regular(labels) => labels.iter().any(|label| label.contains(visit)),
            _ => false,
        });
        at = way.expect("a way on").to;
        let node = graph.nodes[at as usize].calls.iter();
        calls.extend(node.map(|call| call.function));
    }
    calls
}

#[test]
fn the_sequence_of_calls_comes_back_from_labels() {
    for folded in [false, true] {
        let graphs = graphs(STENCIL, GraphsOf::Ranks, folded);
        assert_eq!(graphs.threads, 12);
        assert_eq!(graphs.calls, STENCIL.calls());
        for (graph, sequence) in graphs.graphs.iter().zip(sequences(STENCIL)) {
            assert_eq!(walked(graph), sequence, "{}", graph.name);
        }
    }
}

#[test]
fn ranks_with_equal_neighbours_are_one_class() {
    let graphs = graphs(STENCIL, GraphsOf::Classes, true);
    let names: Vec<_> = graphs
        .graphs
        .iter()
        .map(|graph| graph.name.as_str())
        .collect();
    let expected = [
        "rank 0",
        "ranks 1-2",
        "rank 3",
        "rank 4",
        "ranks 5-6",
        "rank 7",
        "rank 8",
        "ranks 9-10",
        "rank 11",
    ];
    assert_eq!(names, expected);
    // The beginning, the end, the first call, the halos, an agreement, a report, the last call.
    let middle = &graphs.graphs[4];
    let lengths: Vec<_> = middle.nodes.iter().map(|node| node.calls.len()).collect();
    assert_eq!(lengths, [0, 0, 1, 9, 1, 1, 1]);
    let halo: Vec<_> = middle.nodes[3]
        .calls
        .iter()
        .map(|call| call.text.as_str())
        .collect();
    assert_eq!(halo[0], "MPI_Irecv from -1");
    assert_eq!(halo[7], "MPI_Isend to +4");
    assert_eq!(
        (middle.nodes[3].visits.total, middle.nodes[3].visits.max),
        (40, 20)
    );
    let again = middle
        .edges
        .iter()
        .find(|edge| (edge.from, edge.to) == (4, 4));
    let again = again.expect("an agreement after another");
    assert_eq!(
        (again.count.total, again.count.min, again.threads),
        (160, 80, 2)
    );
    // Four of each five.
    let Temporal::Regular(labels) = &again.labels else {
        panic!("{again:?}");
    };
    assert_eq!(super::label::words(labels), "1-99 (4 of each 5)");
    assert!(again.between.min_ps >= 1_000_000 && again.between.max_ps < 1_256_000);
}

#[test]
fn memory_does_not_grow_with_calls() {
    let of = |steps| {
        let stencil = Stencil { steps, ..STENCIL };
        let graphs = graphs(stencil, GraphsOf::Ranks, false);
        let sizes = graphs.graphs.iter().map(|graph| {
            let labels = graph.edges.iter().map(|edge| match &edge.labels {
                Temporal::Regular(labels) => labels.len(),
                _ => 0,
            });
            (graph.nodes.len(), graph.edges.len(), labels.sum::<usize>())
        });
        sizes.collect::<Vec<_>>()
    };
    assert_eq!(of(200), of(400));
}

#[test]
fn one_graph_has_all_ranks() {
    let graphs = graphs(STENCIL, GraphsOf::Merged, false);
    let [graph] = &graphs.graphs[..] else {
        panic!("{graphs:?}");
    };
    assert_eq!(graph.name, "all 12 ranks");
    let visits = |text: &str| {
        let mut nodes = graph.nodes.iter();
        let node = nodes.find(|node| node.calls.iter().any(|call| call.text == text));
        node.map(|node| node.visits.total)
    };
    assert_eq!(visits("MPI_Allreduce"), Some(12 * 20 * 5));
    assert_eq!(visits("MPI_Reduce root 0"), Some(12 * 5));
    // 3 of 4 in each row have a left neighbour; 2 of 3 rows have one above.
    assert_eq!(visits("MPI_Isend to -1"), Some(9 * 20));
    assert_eq!(visits("MPI_Isend to -4"), Some(8 * 20));
    let total: u64 = graph
        .nodes
        .iter()
        .skip(2)
        .map(|node| node.visits.total)
        .sum();
    assert_eq!(total, STENCIL.calls());
}

#[test]
fn files_for_other_programs_hold_all_of_the_graph() {
    let graphs = graphs(STENCIL, GraphsOf::Classes, true);
    let nodes: usize = graphs.graphs.iter().map(|graph| graph.nodes.len()).sum();
    let edges: usize = graphs.graphs.iter().map(|graph| graph.edges.len()).sum();
    let mut text = Vec::new();
    graphs.write_graphml(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let mut found = [0; 3];
    let mut reader = Reader::from_str(&text);
    loop {
        match reader.read_event().expect("XML") {
            Xml::Start(tag) => match tag.name().as_ref() {
                "graph" => found[0] += 1,
                "node" => found[1] += 1,
                "edge" => found[2] += 1,
                _ => {}
            },
            Xml::Eof => break,
            _ => {}
        }
    }
    assert_eq!(found, [1, nodes, edges]);

    let mut text = Vec::new();
    graphs.write_dot(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert_eq!(text.matches(" -> ").count(), edges);
    assert_eq!(text.matches("subgraph").count(), graphs.graphs.len());
    assert_eq!(text.matches('{').count(), text.matches('}').count());

    let mut text = Vec::new();
    graphs.write(&mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    assert!(text.contains("-> 3     80 times"), "{text}");
}
