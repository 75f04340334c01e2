//! Relations in words: the name of the variant and its values, as in `shift (by -3, wraps)`.
//!
//! The words follow from the serialized form, so that each variant has some, and two relations that differ have different words. Warnings about
//! rules that the runs do not tell apart print them (`model/learn/instances/peers.rs`).

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

/// A name and its value: `by 3`; booleans by their name alone where they are true.
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
