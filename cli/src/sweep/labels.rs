//! Short names for whole networks among the values of a key.
//!
//! A name has the network's shape and the keys that differ among the networks, such as `torus 2x2` or `tree fanout=2`. Called by
//! the tables of sweeps, replays and simulations.

use std::collections::{BTreeMap, BTreeSet};

use toml::{Table, Value};

/// The key of a scenario's network.
const NETWORK: &str = "network";

/// Names for the values of a key, written as TOML: those of whole networks are short and different for different values. Texts
/// lose their quotes, and all other values are as written.
pub fn labels(key: &str, values: &[String]) -> Vec<String> {
    let parsed: Vec<Option<Value>> = values.iter().map(|value| parse(value)).collect();
    let networks: Vec<&Table> = parsed
        .iter()
        .filter_map(|value| value.as_ref()?.as_table())
        .collect();
    if key == NETWORK && networks.len() == values.len() {
        return of_networks(&networks);
    }
    let plain = |(value, written): (Option<Value>, &String)| match value {
        Some(Value::String(text)) => text,
        _ => written.clone(),
    };
    parsed.into_iter().zip(values).map(plain).collect()
}

fn parse(value: &str) -> Option<Value> {
    let mut table = format!("value = {value}").parse::<Table>().ok()?;
    table.remove("value")
}

/// Names for whole networks.
pub(crate) fn of_networks(networks: &[&Table]) -> Vec<String> {
    let keys: BTreeSet<&String> = networks.iter().flat_map(|table| table.keys()).collect();
    let differs = |key: &&&String| {
        let first = networks.first().and_then(|table| table.get(**key));
        networks.iter().any(|table| table.get(**key) != first)
    };
    let differing: Vec<&String> = keys.iter().filter(differs).copied().collect();
    let named = networks.iter().map(|table| name(table, &differing));
    let mut known: BTreeMap<String, Vec<&Table>> = BTreeMap::new();
    let unique = named.zip(networks).map(|(name, table)| {
        let before = known.entry(name.clone()).or_default();
        let number = before.iter().position(|other| other == table);
        let number = number.unwrap_or_else(|| {
            before.push(table);
            before.len() - 1
        });
        match number {
            0 => name,
            more => format!("{name} ({})", more + 1),
        }
    });
    unique.collect()
}

fn name(network: &Table, differing: &[&String]) -> String {
    let mut words = vec![match network.get("topology") {
        None => "star".to_owned(),
        Some(Value::Table(file)) => {
            let file = file.get("graphml").and_then(Value::as_str);
            file.unwrap_or("graphml").to_owned()
        }
        Some(shape) => word(shape),
    }];
    for key in differing.iter().filter(|key| *key != &"topology") {
        match (key.as_str(), network.get(*key)) {
            (_, None) => {}
            ("dimensions", Some(value)) => words.push(joined(value, "x")),
            (_, Some(value)) => words.push(format!("{key}={}", joined(value, ","))),
        }
    }
    words.join(" ")
}

fn joined(value: &Value, by: &str) -> String {
    match value {
        Value::Array(values) => {
            let words: Vec<String> = values.iter().map(word).collect();
            words.join(by)
        }
        single => word(single),
    }
}

fn word(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(values: &[&str]) -> Vec<String> {
        let values: Vec<String> = values.iter().map(|&value| value.to_owned()).collect();
        labels("network", &values)
    }

    #[test]
    fn networks_are_named_by_what_differs() {
        let shapes = of(&[
            "{ topology = \"torus\", dimensions = [2, 2], bandwidth = \"10 Gb/s\" }",
            "{ topology = \"tree\", fanout = 2, bandwidth = \"10 Gb/s\" }",
            "{ bandwidth = \"10 Gb/s\" }",
            "{ topology = { graphml = \"a.graphml\" }, bandwidth = \"10 Gb/s\" }",
        ]);
        assert_eq!(shapes, ["torus 2x2", "tree fanout=2", "star", "a.graphml"]);
        let trees = of(&[
            "{ topology = \"fat-tree\", children = [2, 2], parents = [1, 2], routing = \"ecmp\" }",
            "{ topology = \"fat-tree\", children = [2, 2], parents = [1, 1] }",
        ]);
        assert_eq!(
            trees,
            ["fat-tree parents=1,2 routing=ecmp", "fat-tree parents=1,1"]
        );
    }

    #[test]
    fn different_networks_have_different_names() {
        let names = of(&["{}", "{ topology = \"star\" }", "{}"]);
        assert_eq!(names, ["star", "star (2)", "star"]);
    }

    #[test]
    fn other_values_are_as_written() {
        let values = [
            "\"1 us\"".to_owned(),
            "3".to_owned(),
            "{ a = 1 }".to_owned(),
        ];
        assert_eq!(
            labels("network.latency", &values),
            ["1 us", "3", "{ a = 1 }"]
        );
        assert_eq!(labels("network", &values[..1]), ["1 us"]);
    }
}
