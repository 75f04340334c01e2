//! Networks of all shapes, and errors that name the wrong key.
use super::*;

fn resolve(nodes: u32, network: &str, folder: &Path) -> Result<NetworkPlan, String> {
    let text = format!(
        "name = \"n\"\nimage = {{ recipe = \"r.toml\" }}\nworkload = {{ command = \"true\" }}\n\
         nodes = {{ count = {nodes}, memory = \"256 MiB\", clock = \"2 GHz\" }}\n[network]\n{network}\n"
    );
    let scenario = Scenario::parse(Path::new("n.toml"), &text, &[]);
    let scenario = scenario.map_err(|error| error.to_string())?;
    NetworkPlan::resolve(&scenario, folder).map_err(|error| format!("network{error}"))
}

fn here(nodes: u32, network: &str) -> Result<NetworkPlan, String> {
    resolve(nodes, network, Path::new("."))
}

#[test]
fn every_shape_is_built_by_its_keys() {
    for (nodes, network, switches, links) in [
        (5, "", 1, 5),
        (9, "topology = \"tree\"\nfanout = 3", 4, 12),
        (16, "topology = \"fat-tree\"", 20, 48),
        (16, "topology = \"fat-tree\"\nports = 6", 45, 16 + 54 + 54),
        (
            16,
            "topology = \"fat-tree\"\nchildren = [4, 4]\nparents = [1, 2]",
            6,
            16 + 8,
        ),
        (16, "topology = \"torus\"\ndimensions = [4, 4]", 16, 16 + 32),
        (
            18,
            "topology = \"dragonfly\"\nswitches-per-group = 2\nhosts-per-switch = 3\nglobal-links-per-switch = 1",
            6,
            18 + 3 + 3,
        ),
    ] {
        let plan = here(nodes, network).unwrap_or_else(|error| panic!("{network}: {error}"));
        let topology = plan.topology;
        let made = (topology.switches().len(), topology.links().len());
        assert_eq!(made, (switches, links), "{network}");
    }
}

/// Warnings of a network with this number of nodes.
fn warnings(nodes: u32, network: &str) -> Vec<String> {
    here(nodes, network).unwrap().warnings().unwrap()
}

#[test]
fn links_and_ports_that_carry_nothing_are_counted() {
    let tree = "topology = \"fat-tree\"\nchildren = [8, 8]\nparents = [1, 4]";
    assert_eq!(warnings(64, tree), [""; 0]);
    assert_eq!(
        warnings(64, &format!("{tree}\nrouting = \"shortest\"")),
        [
            "24 of 32 links between switches, such as switch0-switch9, carry nothing under network.routing = \"shortest\"; \
             set network.routing = \"d-mod-k\", which uses them"
        ]
    );
    let fly = "topology = \"dragonfly\"\nswitches-per-group = 8\nglobal-links-per-switch = 4\nhosts-per-switch = 4";
    assert_eq!(
        warnings(256, fly),
        [
            "4 of the 32 global ports of each group have no link, as each two groups are joined by 4 links; \
             network.groups = 9 uses all ports"
        ]
    );
    assert_eq!(warnings(256, &format!("{fly}\ngroups = 9")), [""; 0]);
    let one = warnings(288, &format!("{fly}\nglobal-wiring = \"one-link\""));
    assert_eq!(one.len(), 1);
    assert!(one[0].starts_with("24 of the 32 global ports"), "{one:?}");
    assert!(
        one[0].ends_with("network.global-wiring = \"all-ports\" uses all ports"),
        "{one:?}"
    );
}

#[test]
fn parallel_links_of_a_graph_carry_something_or_are_reported() {
    let dir = tempfile::tempdir().unwrap();
    let mut text = "<graphml><graph><node id=\"a\"/><node id=\"b\"/>".to_owned();
    text.push_str(&"<edge source=\"a\" target=\"b\"/>".repeat(3));
    text.push_str("</graph></graphml>");
    std::fs::write(dir.path().join("n.graphml"), text).unwrap();
    let of = |routing: &str| {
        let network = format!("topology = {{ graphml = \"n.graphml\" }}\n{routing}");
        resolve(2, &network, dir.path())
            .unwrap()
            .warnings()
            .unwrap()
    };
    assert_eq!(of("routing = \"ecmp\""), [""; 0]);
    assert_eq!(
        of(""),
        [
            "2 of 3 links between switches, such as a-b.2, carry nothing under network.routing = \"shortest\"; \
             set network.routing = \"ecmp\", which uses them"
        ]
    );
}

#[test]
fn ignored_attributes_of_a_graph_are_listed() {
    let dir = tempfile::tempdir().unwrap();
    let keys = [("a", "Delay"), ("b", "latency"), ("c", "kind"), ("d", "x")];
    let keys = keys.map(|(id, name)| format!("<key id=\"{id}\" attr.name=\"{name}\"/>"));
    let text = format!(
        "<graphml>{}<graph><node id=\"s\"><data key=\"b\">1 us</data><data key=\"d\">3</data></node>\
         <node id=\"h\"><data key=\"c\">host</data><data key=\"b\">1 us</data></node>\
         <edge source=\"s\" target=\"h\"><data key=\"a\">5</data><data key=\"b\">1 us</data></edge></graph></graphml>",
        keys.join("")
    );
    std::fs::write(dir.path().join("n.graphml"), text).unwrap();
    let plan = resolve(1, "topology = { graphml = \"n.graphml\" }", dir.path()).unwrap();
    assert_eq!(
        plan.warnings().unwrap(),
        [
            "attributes of the GraphML file are ignored: host latency, link delay, switch x; a link may have bandwidth, latency, \
             queue and cost, a switch latency and queue, and a node kind"
        ]
    );
}

#[test]
fn what_fits_no_network_is_refused_with_key_and_remedy() {
    for (network, words) in [
        ("topology = \"ring\"", "unknown value `ring`; known: `star`"),
        ("topology = { graph = \"x\" }", "unknown key `graph`"),
        ("topology = {}", "missing field `graphml`"),
        ("fanout = 3", "network.fanout says nothing about a star"),
        ("topology = \"torus\"", "network.dimensions is missing"),
        (
            "topology = \"torus\"\ndimensions = [1]",
            "room for 1 hosts, not 4",
        ),
        (
            "topology = \"fat-tree\"\nchildren = [4]",
            "network.parents is missing",
        ),
        (
            "topology = \"fat-tree\"\nports = 4\nchildren = [4]",
            "network.ports says nothing",
        ),
        (
            "topology = \"torus\"\ndimensions = [4]\nrouting = \"d-mod-k\"",
            "network.routing: d-mod-k and s-mod-k need",
        ),
        ("routing = \"tables\"", "network.tables is missing"),
        (
            "tables = \"t\"",
            "network.tables says nothing where routing is \"shortest\"",
        ),
        (
            "routing = \"tables\"\ntables = \"t\"",
            "network.tables: cannot read",
        ),
        ("routing = \"best\"", "unknown value `best`"),
        (
            "pcap = [\"host9-switch0\"]",
            "network.pcap: there is no link `host9-switch0`; links are host0-switch0,",
        ),
        (
            "link = [{ name = \"x*\" }]",
            "network.link: there is no link `x*`",
        ),
        (
            "link = [{ name = \"*\", loss = 2.0 }]",
            "network.link `host0-switch0`: loss is 2",
        ),
        (
            "link = [{ name = \"*\", repair-at = \"1 s\" }]",
            "repair-at without fail-at",
        ),
        (
            "link = [{ name = \"*\", fail-at = \"2 s\", repair-at = \"1 s\" }]",
            "that must be later",
        ),
        ("statistics = \"1 ns\"", "network.statistics is 1.000 ns"),
        (
            "bandwidth = \"1 kb/s\"\nstatistics = \"1 ms\"",
            "network.statistics is 1.000 ms",
        ),
    ] {
        let error = here(4, network)
            .err()
            .unwrap_or_else(|| panic!("{network} is taken"));
        assert!(error.contains(words), "{network}: {error}");
    }
}

#[test]
fn tables_for_one_link_come_together() {
    let plan = here(
        3,
        "pcap = [\"host[12]*\", \"host0-*\"]\n\
         [[network.link]]\nname = \"*\"\nloss = 0.1\njitter = \"1 us\"\n\
         [[network.link]]\nname = \"host1-switch?\"\nloss = 0.2\nfail-at = \"5 s\"\n\
         [[network.link]]\nname = \"host1-*\"\nfail-at = \"1 s\"\nrepair-at = \"2 s\"",
    );
    // Patterns of links have no character classes, so the first pattern of pcap matches
    // nothing.
    assert!(plan.err().unwrap().contains("host[12]*"));
    let plan = here(
        3,
        "pcap = [\"host0-*\", \"all\"]\n\
         [[network.link]]\nname = \"*\"\nloss = 0.1\njitter = \"1 us\"\n\
         [[network.link]]\nname = \"host1-switch?\"\nloss = 0.2\nfail-at = \"5 s\"\n\
         [[network.link]]\nname = \"host1-*\"\nfail-at = \"1 s\"\nrepair-at = \"2 s\"",
    )
    .unwrap();
    assert_eq!(plan.pcap, [0, 1, 2]);
    let losses: Vec<f64> = plan
        .settings
        .impairments
        .iter()
        .map(|(_, it)| it.loss)
        .collect();
    assert_eq!(losses, [0.1, 0.2, 0.1]);
    let second = &plan.settings.impairments[1].1;
    assert_eq!(second.jitter, Span::from_us(1));
    let seconds = |time: Time| time.as_secs_f64();
    let outages: Vec<_> = second
        .outages
        .iter()
        .map(|it| (seconds(it.from), it.until))
        .collect();
    assert_eq!(outages.len(), 2);
    assert_eq!(outages[0], (1.0, Time::from_ps(2_000_000_000_000)));
    assert_eq!(outages[1], (5.0, Time::MAX));
}

const GRAPH: &str = r#"<graphml>
<key id="k" for="node" attr.name="kind"/> <key id="q" for="node" attr.name="queue"/>
<key id="b" for="edge" attr.name="bandwidth"/> <key id="l" for="edge" attr.name="latency"/>
<key id="c" for="edge" attr.name="cost"/>
<graph edgedefault="undirected">
<node id="east"><data key="q">8 KiB</data></node> <node id="west"/>
<node id="a"><data key="k">host</data></node> <node id="b"><data key="k">host</data></node>
<edge source="east" target="a"/>
<edge source="b" target="west"/>
<edge source="east" target="west"><data key="b">1 Gb/s</data><data key="l">3 ms</data><data key="c">7</data></edge>
<edge source="east" target="west"/>
</graph></graphml>"#;

#[test]
fn a_graph_is_a_network_with_its_own_names() {
    let folder = tempfile::tempdir().unwrap();
    let network = "topology = { graphml = \"g.xml\" }";
    let write = |text: &str| std::fs::write(folder.path().join("g.xml"), text).unwrap();
    let read = |nodes, network: &str| resolve(nodes, network, folder.path());
    assert!(read(2, network).err().unwrap().contains("cannot read"));
    write(GRAPH);
    let topology = read(2, network).unwrap().topology;
    let names: Vec<String> = (0..4).map(|link| topology.link_name(link)).collect();
    assert_eq!(names, ["a-east", "b-west", "east-west", "east-west.2"]);
    assert_eq!(topology.links()[2].spec.bandwidth, 1_000_000_000);
    assert_eq!(topology.links()[3].spec.bandwidth, 10_000_000_000);
    assert_eq!(topology.costs(), [1, 1, 7, 1]);
    let queues: Vec<u64> = topology
        .switches()
        .iter()
        .map(|it| it.queue_bytes)
        .collect();
    assert_eq!(queues, [8 << 10, 512 << 10]);
    assert!(read(3, network).err().unwrap().contains("it has 2 hosts"));
    for (from, to, words) in [
        ("3 ms", "3", "latency of east-west: `` is not a unit"),
        ("3 ms", "0 ms", "has no latency"),
        (">7<", ">0<", "cost of east-west is `0`"),
        (">host<", ">router<", "must be host or switch"),
        ("source=\"b\"", "source=\"a\"", "a has 2 links"),
        ("</graph>", "", "g.xml: byte"),
        (
            "<node id=\"west\"/>",
            "<node id=\"west\"/><node id=\"far\"/>",
            "between east and far",
        ),
    ] {
        write(&GRAPH.replace(from, to));
        let error = read(2, network).err().unwrap();
        assert!(error.contains(words), "{error}");
    }
    // Without hosts in the graph, the scenario's nodes are placed at its switches.
    write(&GRAPH.replace(">host<", ">switch<"));
    let full = read(8, &format!("{network}\nhosts-per-switch = 2"))
        .unwrap()
        .topology;
    assert_eq!((full.switch_of(3), full.switch_of(7)), (1, 3));
    assert!(
        read(8, network)
            .err()
            .unwrap()
            .contains("room for 4, not 8")
    );
}
