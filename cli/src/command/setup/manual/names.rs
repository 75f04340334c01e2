//! One meaning for one option name, over all commands.
//!
//! Options of the same name have the same value in all commands; exceptions are listed here, each with a
//! reason.

use std::collections::BTreeMap;

use clap::{Command, CommandFactory};

/// Options whose values differ by command, each with the reason.
const DIFFERENT: [(&str, &str); 5] = [
    (
        "by",
        "the groups of each table: pairs, classes of calls, nodes",
    ),
    ("format", "fewer formats are read than written"),
    (
        "mapping",
        "nodes of a run come to places, ranks of a replay also by a rule",
    ),
    (
        "out",
        "the result, which is a file or a folder by the command",
    ),
    (
        "tolerance",
        "a difference of results, or the analysis of a network's latency tolerance",
    ),
];

/// The value of each option, by its name, with the commands that have it.
fn values(
    command: &Command,
    path: &str,
    all: &mut BTreeMap<String, BTreeMap<String, Vec<String>>>,
) {
    for argument in command.get_arguments().filter(|it| !it.is_global_set()) {
        let Some(name) = argument.get_long() else {
            continue;
        };
        let value = match argument.get_action().takes_values() {
            true => argument
                .get_value_names()
                .map_or_else(String::new, |names| names.join(" ")),
            false => "(none)".to_owned(),
        };
        let possible: Vec<String> = argument
            .get_possible_values()
            .iter()
            .map(|value| value.get_name().to_owned())
            .collect();
        let value = format!("{value} {}", possible.join("|"));
        let commands = all.entry(name.to_owned()).or_default();
        commands.entry(value).or_default().push(path.to_owned());
    }
    for own in command.get_subcommands() {
        values(own, &format!("{path} {}", own.get_name()), all);
    }
}

#[test]
fn options_of_one_name_have_one_meaning() {
    let mut all = BTreeMap::new();
    values(&crate::Arguments::command(), "belljar", &mut all);
    let differ = all.iter().filter(|(_, values)| values.len() > 1);
    let differ: Vec<&str> = differ.map(|(name, _)| name.as_str()).collect();
    assert!(DIFFERENT.iter().all(|(_, reason)| !reason.is_empty()));
    let allowed: Vec<&str> = DIFFERENT.iter().map(|(name, _)| *name).collect();
    assert_eq!(differ, allowed, "{all:#?}");
}
