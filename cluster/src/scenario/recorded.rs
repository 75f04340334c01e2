//! Defaults of a network's topology in kept scenarios.
//!
//! A default may change from one version to the next, but a run directory keeps the network of its run. So a kept
//! scenario states its defaults; one without them is of a version with other defaults. Called when scenarios are
//! written into run directories and read from them.

use belljar_fabric::Routing;
use toml::Value;

use super::{RoutingName, TopologyKind};

/// The topology of a scenario's network; `None` for an invalid one, which the parser of scenarios reports.
fn topology(scenario: &toml::Table) -> Option<TopologyKind> {
    match scenario.get("network").and_then(|it| it.get("topology")) {
        Some(topology) => topology.clone().try_into().ok(),
        None => Some(TopologyKind::Star),
    }
}

fn network(scenario: &mut toml::Table) -> Option<&mut toml::Table> {
    scenario.get_mut("network").and_then(Value::as_table_mut)
}

fn name_routing(network: &mut toml::Table, routing: Routing) {
    let name = || RoutingName(routing).to_string().into();
    network.entry("routing").or_insert_with(name);
}

/// States the topology's defaults in a scenario, if they differ from the general ones.
pub(super) fn name_defaults(scenario: &mut toml::Table) {
    let Some(topology) = topology(scenario) else {
        return;
    };
    let routing = topology.usual_routing();
    let Some(network) = network(scenario) else {
        return;
    };
    if routing != Routing::default() {
        name_routing(network, routing);
    }
    if topology == TopologyKind::Dragonfly {
        let wiring = network.entry("global-wiring");
        wiring.or_insert_with(|| "all-ports".into());
    }
}

/// Resets the routing to a new topology's default, if overrides change only the topology and the routing was the
/// old one's default.
pub(super) fn follow_shape(before: &toml::Table, scenario: &mut toml::Table, overrides: &[String]) {
    let (Some(old), Some(new)) = (topology(before), topology(scenario)) else {
        return;
    };
    let keys = || overrides.iter().filter_map(|it| it.split_once('='));
    let is_chosen = keys().any(|(key, _)| matches!(key.trim(), "network" | "network.routing"));
    let usual = old.usual_routing();
    if old == new || is_chosen || usual == Routing::default() {
        return;
    }
    if let Some(network) = network(scenario)
        && network.get("routing").and_then(Value::as_str) == Some(&RoutingName(usual).to_string())
    {
        network.remove("routing");
    }
}

/// The text of a scenario from a run directory, with the defaults of the version that wrote it. An unstated
/// routing of a fat tree or a dragonfly is `shortest`, and an unstated wiring of a dragonfly has one link between
/// each two groups.
pub fn of_run_directory(text: String) -> String {
    let Ok(mut scenario) = text.parse::<toml::Table>() else {
        return text;
    };
    let Some(topology) = topology(&scenario) else {
        return text;
    };
    let has_defaults = topology.usual_routing() == Routing::default();
    let Some(network) = network(&mut scenario).filter(|_| !has_defaults) else {
        return text;
    };
    let known = network.len();
    name_routing(network, Routing::Shortest);
    if topology == TopologyKind::Dragonfly {
        let wiring = network.entry("global-wiring");
        wiring.or_insert_with(|| "one-link".into());
    }
    match network.len() == known {
        true => text,
        false => toml::to_string(&scenario).unwrap_or(text),
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::scenario::tests::SMALL;
    use crate::scenario::{GlobalWiringName, Scenario};

    fn parse(text: &str, overrides: &[&str]) -> Scenario {
        let overrides: Vec<String> = overrides.iter().map(|&text| text.to_owned()).collect();
        Scenario::parse(Path::new("s.toml"), text, &overrides).unwrap()
    }

    fn kept(network: &str, overrides: &[&str]) -> String {
        let text = format!("{SMALL}\n[network]\n{network}\n");
        let overrides: Vec<String> = overrides.iter().map(|&text| text.to_owned()).collect();
        let path = Path::new("s.toml");
        let kept = Scenario::standalone(path, &text, &overrides, Path::new("/"));
        kept.unwrap().text
    }

    const FLY: &str =
        "topology = \"dragonfly\"\nswitches-per-group = 2\nglobal-links-per-switch = 2";

    #[test]
    fn shapes_have_their_own_routings() {
        for (shape, routing) in [
            ("", Routing::Shortest),
            ("topology = \"torus\"\ndimensions = [2]", Routing::Shortest),
            ("topology = \"fat-tree\"", Routing::DModK),
            ("topology = \"k-ary-n-tree\"", Routing::DModK),
            (FLY, Routing::Ecmp),
            (
                "topology = \"fat-tree\"\nrouting = \"shortest\"",
                Routing::Shortest,
            ),
        ] {
            let network = parse(&format!("{SMALL}\n[network]\n{shape}\n"), &[]).network;
            assert_eq!(network.routing(), routing, "{shape}");
        }
    }

    #[test]
    fn kept_scenarios_mean_the_same_in_run_directories() {
        for shape in ["topology = \"fat-tree\"", FLY, "topology = \"tree\""] {
            let kept = kept(shape, &[]);
            assert_eq!(of_run_directory(kept.clone()), kept, "{shape}");
            let network = parse(&kept, &[]).network;
            let wanted = parse(&format!("{SMALL}\n[network]\n{shape}\n"), &[]).network;
            assert_eq!(network.routing(), wanted.routing());
            assert_eq!(network.global_wiring(), wanted.global_wiring());
        }
    }

    #[test]
    fn run_directories_of_earlier_versions_keep_their_networks() {
        let of = |shape: &str| {
            let text = of_run_directory(format!("{SMALL}\n[network]\n{shape}\n"));
            let network = parse(&text, &[]).network;
            (network.routing(), network.global_wiring())
        };
        let even = GlobalWiringName::AllPorts;
        assert_eq!(of("topology = \"fat-tree\""), (Routing::Shortest, even));
        assert_eq!(of(FLY), (Routing::Shortest, GlobalWiringName::OneLink));
        let chosen = format!("{FLY}\nrouting = \"ugal\"");
        assert_eq!(of(&chosen), (Routing::Ugal, GlobalWiringName::OneLink));
        assert_eq!(of("topology = \"star\""), (Routing::Shortest, even));
    }

    #[test]
    fn another_shape_has_its_own_routing() {
        let tree = kept("topology = \"fat-tree\"", &[]);
        let torus = ["network.topology=torus", "network.dimensions=[2]"];
        assert_eq!(parse(&tree, &torus).network.routing(), Routing::Shortest);
        let to_tree = ["network.topology=fat-tree"];
        let star = kept("", &[]);
        assert_eq!(parse(&star, &to_tree).network.routing(), Routing::DModK);
        // A routing of the file or of the command line is kept.
        let chosen = kept("topology = \"fat-tree\"\nrouting = \"adaptive\"", &[]);
        assert_eq!(parse(&chosen, &torus).network.routing(), Routing::Adaptive);
        let both = [torus[0], torus[1], "network.routing=ecmp"];
        assert_eq!(parse(&tree, &both).network.routing(), Routing::Ecmp);
        let torus_kept = kept("topology = \"fat-tree\"\nrouting = \"d-mod-k\"", &torus);
        assert_eq!(parse(&torus_kept, &[]).network.routing(), Routing::Shortest);
    }
}
