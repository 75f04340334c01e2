//! What a scenario may hold, as a JSON Schema: for editors, which complete and check keys by it
//! (`belljar schema`), and for the test that holds the documentation against the code. It is made of the
//! types that read scenarios, so it knows every key that they do.

use schemars::Schema;

use super::Scenario;

/// The schema of scenarios.
pub fn schema() -> Schema {
    schemars::schema_for!(Scenario)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    use serde_json::Value;

    fn keys() -> BTreeSet<String> {
        belljar_images::schema::keys(&schema())
    }

    /// The keys that have a row in the documentation.
    fn documented() -> BTreeSet<String> {
        let page = include_str!("../../../docs/scenario.md");
        let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
        let keys = rows.filter_map(|row| row.split_once("` |"));
        keys.map(|(key, _)| key.to_owned()).collect()
    }

    #[test]
    fn every_key_has_a_row_in_the_documentation_and_every_row_a_key() {
        let (mut keys, documented) = (keys(), documented());
        assert!(keys.len() > 70, "{keys:?}");
        // A group's time model and image have the keys of all nodes', which are told there.
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

    #[test]
    fn quantities_are_texts_with_units() {
        let schema = Value::from(schema());
        let memory = &schema["$defs"]["Bytes"];
        assert_eq!(memory["type"], "string");
        let pattern = memory["pattern"].as_str().unwrap();
        assert!(pattern.contains("MiB"), "{pattern}");
    }
}
