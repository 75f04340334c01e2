//! Tables with paths between all hosts are accepted; others are refused with the reason.

use belljar_sim::Span;

use super::*;
use crate::link::LinkSpec;
use crate::topology::SwitchSpec;

/// Two hosts at each of two switches below a third.
fn tree() -> Topology {
    let link = LinkSpec {
        bandwidth: 1_000_000_000,
        latency: Span::from_us(1),
    };
    let switch = SwitchSpec {
        latency: Span::from_ns(300),
        queue_bytes: 1 << 19,
    };
    Topology::tree(4, 2, link, link, switch).unwrap()
}

const RIGHT: &str = "# up\nswitch0 * switch0-switch2\nswitch1 * switch1-switch2 # all\n
    switch2 * switch0-switch2\nswitch2 host2 switch1-switch2\nswitch2 host3 switch1-switch2\n";

#[test]
fn the_last_entry_holds() {
    let tables = ForwardingTables::parse(&tree(), RIGHT).unwrap();
    let topology = tree();
    let name = |switch, host| {
        tables
            .towards(switch, host)
            .map(|link| topology.link_name(link))
    };
    assert_eq!(name(2, 0).as_deref(), Some("switch0-switch2"));
    assert_eq!(name(2, 3).as_deref(), Some("switch1-switch2"));
    assert_eq!(name(0, 3).as_deref(), Some("switch0-switch2"));
}

#[test]
fn tables_that_lead_nowhere_are_refused() {
    let refused = |text: &str, why: &str| {
        let error = ForwardingTables::parse(&tree(), text)
            .unwrap_err()
            .to_string();
        assert!(error.contains(why), "{text:?}: {error}");
    };
    refused(
        "",
        "frames from host2 to host0 do not arrive: switch1 has no entry",
    );
    let circle = format!("{RIGHT}switch2 host3 switch0-switch2");
    refused(
        &circle,
        "to host3 do not arrive: they go in circles, over switch",
    );
    let astray = format!("{RIGHT}switch1 host0 host2-switch1");
    refused(
        &astray,
        "host0 do not arrive: switch1 sends them over host2-switch1",
    );
    refused("\nswitch0 host3", "line 2: it has 2 words");
    refused(
        "switch0 host9 switch0-switch2",
        "line 1: there is no host host9",
    );
    refused(
        "switch9 host3 switch0-switch2",
        "there is no switch switch9",
    );
    refused(
        "switch0 host3 switch0-switch9",
        "there is no link switch0-switch9",
    );
    refused(
        "switch1 host3 switch0-switch2",
        "switch1 has no link switch0-switch2",
    );
}
