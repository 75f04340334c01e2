//! The keys of a TOML file, from the schema of its type.
//!
//! Every key that the parser accepts is listed once. Tables in lists and optional tables are
//! included, keys of the user's own are not. Called by tests that compare the documentation with
//! the code: of recipes here, and of scenarios in `belljar-cluster`.

use std::collections::BTreeSet;

use schemars::Schema;
use serde_json::Value;

/// All keys, in full, such as `network.link.name`. A table with keys of the user's own, such as
/// `workload.files`, is listed without them.
pub fn keys(schema: &Schema) -> BTreeSet<String> {
    let mut keys = BTreeSet::new();
    collect(schema.as_value(), schema.as_value(), "", &mut keys);
    keys
}

/// Adds the keys that `part` of the schema `whole` describes, under the key `name`.
fn collect(whole: &Value, part: &Value, name: &str, keys: &mut BTreeSet<String>) {
    let definition = part["$ref"]
        .as_str()
        .and_then(|path| path.strip_prefix('#'));
    if let Some(definition) = definition.and_then(|path| whole.pointer(path)) {
        return collect(whole, definition, name, keys);
    }
    // An optional value is `anyOf` this and null.
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
