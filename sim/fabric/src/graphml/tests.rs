//! Graphs by other tools, and invalid files.
use super::*;

/// As NetworkX writes it.
const TRIANGLE: &str = r#"<?xml version='1.0' encoding='utf-8'?>
<graphml xmlns="http://graphml.graphdrawing.org/xmlns" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">
  <key id="d0" for="node" attr.name="Kind" attr.type="string"><default>switch</default></key>
  <key id="d1" for="edge" attr.name="latency" attr.type="string"/>
  <graph edgedefault="undirected">
    <!-- a remark -->
    <node id="a"><data key="d0">host</data></node>
    <node id="b"/>
    <node id="c"></node>
    <edge source="a" target="b"><data key="d1"> 2 &#117;s </data></edge>
    <edge source="b" target="c"/>
    <edge source="c" target="b"/>
  </graph>
</graphml>"#;

#[test]
fn nodes_edges_and_their_data_are_read() {
    let graph = Graph::parse(TRIANGLE).unwrap();
    let ids: Vec<&str> = graph.nodes.iter().map(|node| node.id.as_str()).collect();
    assert_eq!(ids, ["a", "b", "c"]);
    let kinds: Vec<&str> = graph
        .nodes
        .iter()
        .map(|node| node.data["kind"].as_str())
        .collect();
    assert_eq!(kinds, ["host", "switch", "switch"]);
    assert_eq!(graph.edges[0].data["latency"], "2 us");
    let ends: Vec<[usize; 2]> = graph.edges.iter().map(|edge| edge.ends).collect();
    assert_eq!(ends, [[0, 1], [1, 2], [2, 1]]);
}

#[test]
fn a_directed_graphs_reverses_are_one_link() {
    let graph = Graph::parse(&TRIANGLE.replace("undirected", "directed")).unwrap();
    assert_eq!(graph.edges.len(), 2);
}

#[test]
fn edges_may_stand_before_their_nodes() {
    let text = r#"<?xml version="1.0"?><!DOCTYPE graphml SYSTEM "http://graphml.graphdrawing.org/dtds/graphml.dtd">
        <graphml><key id="c" for="edge" attr.name="cost"/><graph parse.order="adjacencylist">
        <edge source="a" target="b"><data key="c">2</data></edge><node id="a"/><edge source="c" target="a"/>
        <node id="b"/><node id="c"/></graph></graphml>"#;
    let graph = Graph::parse(text).unwrap();
    let ends: Vec<[usize; 2]> = graph.edges.iter().map(|edge| edge.ends).collect();
    assert_eq!(ends, [[0, 1], [2, 0]]);
    assert_eq!(graph.edges[0].data["cost"], "2");
}

#[test]
fn edges_say_themselves_whether_they_lead_one_way() {
    let directed = |from: &str, to: &str, is: &str| {
        format!("<edge source='{from}' target='{to}' directed='{is}'/>")
    };
    let text = format!(
        "<graphml><graph edgedefault='undirected'><node id='a'/><node id='b'/>{}{}{}</graph></graphml>",
        directed("a", "b", "true"),
        directed("b", "a", "true"),
        directed("b", "a", "false"),
    );
    let graph = Graph::parse(&text).unwrap();
    let ends: Vec<[usize; 2]> = graph.edges.iter().map(|edge| edge.ends).collect();
    assert_eq!(ends, [[0, 1], [1, 0]]);
}

#[test]
fn what_is_no_network_is_refused_with_reason_and_place() {
    let graph = |inner: &str| {
        format!(
            r#"<graphml><key id="k" attr.name="n"/><graph><node id="a"/>{inner}</graph></graphml>"#
        )
    };
    let long = "x".repeat(300);
    for (text, word) in [
        (graph(r#"<node id="a"/>"#), "two nodes"),
        (graph(r#"<node id="../x"/>"#), "cannot be called"),
        (graph(&format!("<node id='{long}'/>")), "more than 64"),
        (
            graph(r#"<edge source="a" target="b"/>"#),
            "`b`, which is not in the graph",
        ),
        (graph(r#"<edge source="a"/>"#), "no target"),
        (
            graph(r#"<node id="b"><data key="z">1</data></node>"#),
            "not declared",
        ),
        (graph(r#"<node id="b"><graph/></node>"#), "within the graph"),
        (graph("<hyperedge/>"), "hyperedge"),
        (
            graph("<node id='b'><data key='k'>&lol;</data></node>"),
            "stands for nothing",
        ),
        (
            graph("").replace("</graphml>", "<graph/></graphml>"),
            "second graph",
        ),
        (graph("").replace("</graph>", ""), "graph"),
        ("<graphml/>".into(), "ends before"),
        (
            "<!DOCTYPE x [<!ENTITY a 'b'>]><graphml/>".into(),
            "document type",
        ),
        (graph("<node id='b'><port name='p'/></node>"), "a port"),
        (graph("<node id='b'"), ""),
    ] {
        let error = Graph::parse(&text).unwrap_err().to_string();
        assert!(error.contains(word), "{text}: {error}");
    }
}

#[test]
fn no_text_is_too_strange() {
    // Every prefix, and every byte damaged.
    for end in 0..TRIANGLE.len() {
        assert!(Graph::parse(&TRIANGLE[..end]).is_err() || end + 12 > TRIANGLE.len());
        let mut bytes = TRIANGLE.as_bytes().to_vec();
        bytes[end] = b'<';
        let _ = Graph::parse(std::str::from_utf8(&bytes).unwrap());
    }
}
