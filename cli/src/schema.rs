//! JSON Schema of scenarios, for editors, which complete and check keys (`belljar schema`), and for the test that
//! compares the documentation with the code. It is generated from the types that read scenarios, so it contains
//! every key.

/// Defaults in the documentation.
#[cfg(test)]
mod defaults;

use schemars::Schema;
use serde_json::{Value, json};

use crate::mix::Mix;
use belljar_cluster::scenario::Scenario;

/// Bounds of numbers: the type, the key, the least and the greatest value. Most are checked by a plan's `limits`.
const BOUNDS: [(&str, &str, f64, Option<f64>); 24] = [
    ("Nodes", "count", 1.0, Some(4096.0)),
    ("Nodes", "vcpus", 1.0, Some(64.0)),
    ("Nodes", "cycles-per-instruction", 0.001, Some(1000.0)),
    ("NodeGroup", "count", 1.0, Some(4096.0)),
    ("NodeGroup", "vcpus", 1.0, Some(64.0)),
    ("NodeGroup", "ranks-per-node", 1.0, Some(1024.0)),
    ("NodeGroup", "cycles-per-instruction", 0.001, Some(1000.0)),
    ("NoiseTable", "shape", 1.01, Some(1000.0)),
    ("Network", "fanout", 2.0, None),
    ("Network", "hosts-per-switch", 1.0, None),
    ("Network", "mtu", 576.0, Some(9216.0)),
    ("LinkTable", "loss", 0.0, Some(1.0)),
    ("Workload", "ranks-per-node", 1.0, Some(1024.0)),
    ("Trace", "frames", 0.0, Some(64.0)),
    ("Profile", "frames", 1.0, Some(64.0)),
    ("Hosts", "patience", 1.0, None),
    ("BackgroundTable", "copies", 1.0, None),
    ("BackgroundTable", "times", 1.0, None),
    ("BackgroundTable", "compute-scale", 0.0, Some(1e6)),
    (MIX, "hosts", 1.0, Some(1e6)),
    (MIX, "ranks-per-host", 1.0, None),
    ("JobGroup", "count", 0.0, Some(1e7)),
    ("JobGroup", "ranks", 1.0, None),
    ("JobGroup", "estimate", 1.0, None),
];

/// Words that a key of a mix may have.
const WORDS: [(&str, &str, &[&str]); 4] = [
    (MIX, "scheduler", &["fcfs", "easy", "conservative"]),
    (
        MIX,
        "selection",
        &["linear", "random", "contiguous", "topology-aware"],
    ),
    (MIX, "mapping", &["block", "cyclic", "application-aware"]),
    (
        "Traffic",
        "pattern",
        &[
            "silent",
            "ring",
            "stencil",
            "all-to-all",
            "hypercube",
            "transpose",
        ],
    ),
];

/// Names that a folder can have.
const FOLDER_NAME: &str = "^[^./][^/]*$";
/// The mix itself, at the top of its schema.
const MIX: &str = "Mix";

/// The schema of scenarios.
pub fn schema() -> Schema {
    let mut schema = schemars::schema_for!(Scenario);
    bound(&mut schema, "Scenario");
    if let Some(name) = schema.pointer_mut("/properties/name") {
        name["pattern"] = FOLDER_NAME.into();
    }
    schema
}

/// The schema of mixes. A list of values stands for its values in turn, so each key takes one, too.
pub fn mix_schema() -> Schema {
    let mut schema = schemars::schema_for!(Mix);
    bound(&mut schema, MIX);
    vary(schema.pointer_mut("/properties"));
    let definitions = schema.pointer_mut("/$defs").and_then(Value::as_object_mut);
    for definition in definitions.into_iter().flat_map(|all| all.values_mut()) {
        vary(definition.get_mut("properties"));
        let choices = definition.get_mut("oneOf").and_then(Value::as_array_mut);
        for choice in choices.into_iter().flatten() {
            vary(choice.get_mut("properties"));
        }
    }
    schema
}

/// The keys that `--set` takes, such as `network.latency`, in the order of their names.
pub fn keys() -> Vec<String> {
    let schema = schema().to_value();
    let mut keys = Vec::new();
    add_keys(&schema, &schema, "", DEEPEST, &mut keys);
    keys.sort();
    keys.dedup();
    keys
}

/// Maximum depth of nested tables.
const DEEPEST: u32 = 5;

/// Adds the keys of a table; keys of nested tables are prefixed with their table's key.
fn add_keys(of: &Value, whole: &Value, before: &str, depth: u32, keys: &mut Vec<String>) {
    let Some(depth) = depth.checked_sub(1) else {
        return;
    };
    for alternative in ["allOf", "anyOf", "oneOf"] {
        for one in of[alternative].as_array().into_iter().flatten() {
            add_keys(one, whole, before, depth, keys);
        }
    }
    if let Some(name) = of["$ref"]
        .as_str()
        .and_then(|it| it.strip_prefix("#/$defs/"))
    {
        return add_keys(&whole["$defs"][name], whole, before, depth, keys);
    }
    let properties = of["properties"].as_object();
    for (name, value) in properties.into_iter().flatten() {
        let key = format!("{before}{name}");
        let known = keys.len();
        add_keys(value, whole, &format!("{key}."), depth, keys);
        if keys.len() == known {
            keys.push(key);
        }
    }
}

/// The description of a key of a type. The type `top` is the schema itself.
fn property<'s>(schema: &'s mut Schema, top: &str, of: &str, key: &str) -> Option<&'s mut Value> {
    let path = match of == top {
        true => format!("/properties/{key}"),
        false => format!("/$defs/{of}/properties/{key}"),
    };
    schema.pointer_mut(&path)
}

/// Sets bounds and words of the keys that the schema has.
fn bound(schema: &mut Schema, top: &str) {
    for (of, key, least, most) in BOUNDS {
        if let Some(property) = property(schema, top, of, key) {
            property["minimum"] = number(least);
            if let Some(most) = most {
                property["maximum"] = number(most);
            }
        }
    }
    for (of, key, words) in WORDS {
        if let Some(property) = property(schema, top, of, key) {
            let is_optional = property["type"].is_array();
            let mut words: Vec<Value> = words.iter().map(|word| json!(word)).collect();
            words.extend(is_optional.then_some(Value::Null));
            property["enum"] = words.into();
        }
    }
}

/// Whole numbers without a fraction, as editors show them.
fn number(value: f64) -> Value {
    match value.fract() == 0.0 {
        true => json!(value as u64),
        false => json!(value),
    }
}

/// Allows a list of values for each key.
fn vary(properties: Option<&mut Value>) {
    let properties = properties.and_then(Value::as_object_mut);
    for (key, value) in properties.into_iter().flatten() {
        if key != "jobs" && value.get("const").is_none() {
            let one = value.take();
            let description = one.get("description").cloned();
            *value = json!({ "anyOf": [one, { "type": "array", "items": one, "minItems": 1 }] });
            if let Some(description) = description {
                value["description"] = description;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn keys() -> BTreeSet<String> {
        belljar_images::schema::keys(&schema())
    }

    /// The keys that have a row in the documentation.
    fn documented() -> BTreeSet<String> {
        let page = include_str!("../../docs/scenario.md");
        let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
        let keys = rows.filter_map(|row| row.split_once("` |"));
        keys.map(|(key, _)| key.to_owned()).collect()
    }

    #[test]
    fn every_key_has_a_row_in_the_documentation_and_every_row_a_key() {
        let (mut keys, documented) = (keys(), documented());
        assert!(keys.len() > 70, "{keys:?}");
        // A group's time model and image have the keys of the section for all nodes, and are documented there.
        for (of_group, of_all) in [
            ("nodes.group.timing.", "nodes.timing."),
            ("nodes.group.image.", "image."),
        ] {
            keys.retain(|key| {
                let key = key.strip_prefix(of_group);
                key.is_none_or(|key| !documented.contains(&format!("{of_all}{key}")))
            });
        }
        let missing: Vec<_> = keys.difference(&documented).collect();
        let invented: Vec<_> = documented.difference(&keys).collect();
        assert!(
            missing.is_empty(),
            "docs/scenario.md has no row for {missing:?}"
        );
        assert!(invented.is_empty(), "there is no key {invented:?}");
    }

    #[test]
    fn keys_of_tables_in_lists_and_of_those_that_may_be_absent_are_found() {
        let keys = keys();
        for key in [
            "name",
            "network.link.fail-at",
            "nodes.timing.caches.l2.latency",
            "workload.files",
        ] {
            assert!(keys.contains(key), "{key}");
        }
    }

    /// The bounds of a key, in a schema whose outermost type is `top`.
    fn bounds(schema: &mut Schema, top: &str, of: &str, key: &str) -> Option<[Value; 2]> {
        let property = property(schema, top, of, key)?;
        Some(["minimum", "maximum"].map(|name| property[name].clone()))
    }

    #[test]
    fn every_bound_is_of_a_key_that_there_is() {
        let mut scenario = schema();
        let mut mix = schemars::schema_for!(Mix);
        bound(&mut mix, MIX);
        for (of, key, least, most) in BOUNDS {
            let own = bounds(&mut scenario, "Scenario", of, key);
            let found = own.or_else(|| bounds(&mut mix, MIX, of, key));
            let most = most.map_or(Value::Null, number);
            assert_eq!(found, Some([number(least), most]), "{of} {key}");
        }
        for (of, key, words) in WORDS {
            let property = property(&mut mix, MIX, of, key).unwrap();
            assert!(property["enum"].as_array().unwrap().len() >= words.len());
        }
    }

    #[test]
    fn keys_of_mixes_take_lists_of_values() {
        let schema = mix_schema();
        let hosts = schema.pointer("/properties/hosts/anyOf").unwrap();
        assert_eq!(hosts[0]["maximum"], 1_000_000);
        assert_eq!(hosts[1]["items"]["minimum"], 1);
        let jobs = schema.pointer("/properties/jobs").unwrap();
        assert_eq!(jobs["type"], "array");
        let mean = schema.pointer("/$defs/Network/properties/latency/anyOf/1/type");
        assert_eq!(mean, Some(&"array".into()));
    }

    #[test]
    fn quantities_are_texts_with_units() {
        let schema = Value::from(schema());
        let memory = &schema["$defs"]["Bytes"];
        assert_eq!(memory["type"], "string");
        let pattern = memory["pattern"].as_str().unwrap();
        assert!(pattern.contains("MiB"), "{pattern}");
    }
}
