//! What a scenario may hold, as a JSON Schema: for editors, which complete and check keys by it, and
//! for the test that holds the documentation against the code.

use std::collections::BTreeSet;

use schemars::Schema;
use serde_json::Value;

use super::Scenario;

/// The schema of scenarios.
pub fn schema() -> Schema {
    schemars::schema_for!(Scenario)
}

/// All keys of scenarios, in full, such as `network.link.name`; of tables with names of the user's
/// own, such as `workload.files`, only theirs.
pub fn keys() -> BTreeSet<String> {
    let schema = Value::from(schema());
    let mut keys = BTreeSet::new();
    collect(&schema, &schema, "", &mut keys);
    keys
}

/// Adds the keys of what `part` of the schema `whole` describes, which has the key `name`.
fn collect(whole: &Value, part: &Value, name: &str, keys: &mut BTreeSet<String>) {
    let definition = part["$ref"]
        .as_str()
        .and_then(|path| path.strip_prefix('#'));
    if let Some(definition) = definition.and_then(|path| whole.pointer(path)) {
        return collect(whole, definition, name, keys);
    }
    // What may be absent is this or null.
    for choice in part["anyOf"].as_array().into_iter().flatten() {
        collect(whole, choice, name, keys);
    }
    if part["items"].is_object() {
        collect(whole, &part["items"], name, keys);
    }
    let properties = part["properties"].as_object();
    for (key, value) in properties.into_iter().flatten() {
        let name = match name {
            "" => key.clone(),
            name => format!("{name}.{key}"),
        };
        collect(whole, value, &name, keys);
        keys.insert(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The keys that have a row in the documentation.
    fn documented() -> BTreeSet<String> {
        let page = include_str!("../../../docs/scenario.md");
        let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
        let keys = rows.filter_map(|row| row.split_once("` |"));
        keys.map(|(key, _)| key.to_owned()).collect()
    }

    #[test]
    fn every_key_has_a_row_in_the_documentation_and_every_row_a_key() {
        let (keys, documented) = (keys(), documented());
        assert!(keys.len() > 70, "{keys:?}");
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

    #[test]
    fn quantities_are_texts_with_units() {
        let schema = Value::from(schema());
        let memory = &schema["$defs"]["Bytes"];
        assert_eq!(memory["type"], "string");
        let pattern = memory["pattern"].as_str().unwrap();
        assert!(pattern.contains("MiB"), "{pattern}");
    }
}
