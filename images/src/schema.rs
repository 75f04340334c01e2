//! The keys of a TOML file, by the schema of what it is read into.
//!
//! Every key that a reader takes is among them, once: tables in lists and tables that may be absent
//! are walked, names of the user's own are not. Called by tests that hold documentation against the
//! code, of recipes here and of scenarios in `belljar-cluster`.

use std::collections::BTreeSet;

use schemars::Schema;
use serde_json::Value;

/// All keys, in full, such as `network.link.name`; of tables with names of the user's own, such as
/// `workload.files`, only theirs.
pub fn keys(schema: &Schema) -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    collect(schema.as_value(), schema.as_value(), "", &mut keys);
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
