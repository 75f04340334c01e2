//! The scenario of a run with delays.
//!
//! Delays are tables of the scenario, so that any user repeats the run with `belljar run`. Called for each run.

use anyhow::{Context, Result};
use belljar_orders::{DelayPlace, ForcedDelay};
use toml::{Table, Value};

use super::faults::{Fault, FaultKind};

/// The text of `base` with more delays, a failure and this limit of virtual time, without checkpoints.
pub(super) fn scenario(
    base: &Table,
    delays: &[ForcedDelay],
    fault: Option<&Fault>,
    limit_ps: Option<u64>,
) -> Result<String> {
    let mut table = base.clone();
    table.remove("checkpoint");
    if let Some(limit) = limit_ps
        && let Some(workload) = table.get_mut("workload").and_then(Value::as_table_mut)
    {
        workload.insert("limit".to_owned(), time(limit));
    }
    for delay in delays {
        let (section, key, mut own) = match delay.place {
            DelayPlace::Hold { from, to } => {
                ("network", "hold", numbers(&[("from", from), ("to", to)]))
            }
            DelayPlace::Detour { node, processor } => (
                "nodes",
                "detour",
                numbers(&[("node", node), ("processor", processor)]),
            ),
        };
        own.insert("at".to_owned(), time(delay.at_ps));
        own.insert("for".to_owned(), time(delay.until_ps - delay.at_ps));
        push(&mut table, [section, key], own)?;
    }
    if let Some(fault) = fault
        && fault.kind == FaultKind::Loss
    {
        let to = fault.to.context("a lost frame has no destination")?;
        let mut own = numbers(&[("from", fault.node), ("to", to)]);
        own.insert("at".to_owned(), time(fault.at_ps));
        push(&mut table, ["network", "lose"], own)?;
    } else if let Some(fault) = fault {
        let mut own = numbers(&[("node", fault.node)]);
        if fault.kind == FaultKind::Kill {
            own.extend(numbers(&[("rank", fault.rank)]));
        }
        own.insert(
            "kind".to_owned(),
            Value::String(fault.kind.name().to_owned()),
        );
        own.insert("at".to_owned(), time(fault.at_ps));
        own.extend(fault.for_ps.map(|length| ("for".to_owned(), time(length))));
        push(&mut table, ["nodes", "fail"], own)?;
    }
    Ok(toml::to_string(&table)?)
}

/// Adds a table to the list of this section and key.
fn push(table: &mut Table, [section, key]: [&str; 2], own: Table) -> Result<()> {
    let section = table
        .entry(section)
        .or_insert_with(|| Value::Table(Table::new()));
    let section = section
        .as_table_mut()
        .context("the scenario's section is no table")?;
    let list = section
        .entry(key)
        .or_insert_with(|| Value::Array(Vec::new()));
    let list = list
        .as_array_mut()
        .with_context(|| format!("{key} of the scenario is no list"))?;
    list.push(Value::Table(own));
    Ok(())
}

fn numbers(values: &[(&str, u32)]) -> Table {
    let values = values.iter();
    values
        .map(|(key, value)| ((*key).to_owned(), Value::Integer(i64::from(*value))))
        .collect()
}

fn time(ps: u64) -> Value {
    Value::String(format!("{ps} ps"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_added_to_those_of_the_scenario() {
        let base = "name = \"x\"\ncheckpoint = { every = \"1 ms\" }\n[workload]\nlimit = \"9 s\"\n\
                    [[network.hold]]\nfrom = 0\nto = 1\nat = \"1 s\"\nfor = \"1 s\"\n";
        let delay = |place| ForcedDelay {
            place,
            at_ps: 5,
            until_ps: 12,
            purpose: Vec::new(),
        };
        let delays = [
            delay(DelayPlace::Hold { from: 2, to: 1 }),
            delay(DelayPlace::Detour {
                node: 3,
                processor: 0,
            }),
        ];
        let fault = Fault {
            kind: FaultKind::Kill,
            rank: 6,
            node: 1,
            to: None,
            at_ps: 9,
            for_ps: None,
            place: String::new(),
        };
        let text = scenario(&base.parse().unwrap(), &delays, Some(&fault), Some(77)).unwrap();
        let failure = "node = 1\nrank = 6\nkind = \"kill\"\nat = \"9 ps\"";
        let made: Table = text.parse().unwrap();
        assert_eq!(made.get("checkpoint"), None);
        assert_eq!(made["workload"]["limit"].as_str(), Some("77 ps"));
        assert_eq!(made["network"]["hold"].as_array().map(Vec::len), Some(2));
        let failure = failure.parse::<Table>().unwrap();
        let lost = Fault {
            kind: FaultKind::Loss,
            to: Some(4),
            ..fault.clone()
        };
        let lossy = scenario(&base.parse().unwrap(), &[], Some(&lost), None).unwrap();
        let lossy: Table = lossy.parse().unwrap();
        let wanted = "from = 1\nto = 4\nat = \"9 ps\"".parse::<Table>().unwrap();
        assert_eq!(lossy["network"]["lose"][0].as_table(), Some(&wanted));
        assert_eq!(lossy.get("nodes"), None);
        assert_eq!(made["nodes"]["fail"][0].as_table(), Some(&failure));
        let wanted = "from = 2\nto = 1\nat = \"5 ps\"\nfor = \"7 ps\""
            .parse::<Table>()
            .unwrap();
        assert_eq!(made["network"]["hold"][1].as_table(), Some(&wanted));
        let wanted = "node = 3\nprocessor = 0\nat = \"5 ps\"\nfor = \"7 ps\""
            .parse::<Table>()
            .unwrap();
        assert_eq!(made["nodes"]["detour"][0].as_table(), Some(&wanted));
    }
}
