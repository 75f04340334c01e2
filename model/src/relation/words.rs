//! Descriptions of relations: the name of the variant and its values, as in `shift (by -3, wraps)`.
//!
//! They are generated from the serialized form, so each variant has one, and two different relations have different ones. Warnings about rules
//! that the runs do not distinguish contain them (`model/learn/instances/peers.rs`).

use std::fmt;

use serde_json::Value;

use super::Relation;

impl fmt::Display for Relation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        // All relations can be written as JSON: they have names, numbers and booleans.
        let value = serde_json::to_value(self).unwrap_or_default();
        match value {
            Value::Object(relation) => {
                let all = relation.iter().map(|(name, value)| named(name, value));
                formatter.write_str(&all.collect::<Vec<_>>().join(", "))
            }
            Value::String(name) => formatter.write_str(&spaced(&name)),
            other => write!(formatter, "{other}"),
        }
    }
}

/// Formats a name and its value: `by 3`; only the name for a true boolean.
fn named(name: &str, value: &Value) -> String {
    let name = spaced(name);
    match value {
        Value::Object(fields) => {
            let fields = fields
                .iter()
                .filter(|(_, value)| **value != Value::Bool(false));
            let fields: Vec<String> = fields.map(|(name, value)| named(name, value)).collect();
            format!("{name} ({})", fields.join(", "))
        }
        Value::Bool(_) => name,
        value => format!("{name} {value}"),
    }
}

fn spaced(name: &str) -> String {
    name.replace(['-', '_'], " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relations_are_named_with_their_values() {
        let by = Relation::Shift {
            by: -3,
            wraps: true,
        };
        assert_eq!(by.to_string(), "shift (by -3, wraps)");
        assert_eq!(Relation::Fixed(3).to_string(), "fixed 3");
        assert_eq!(Relation::FlipTurn.to_string(), "flip turn");
    }
}
