//! The defaults that `docs/scenario.md` states, compared with those of the code.
//!
//! A scenario means the same with a key absent and with the key's documented default. Defaults in words, such as "the nodes'
//! links", are not compared.

use std::path::Path;

use belljar_cluster::scenario::Scenario;

/// A scenario with a table in each list whose tables have keys.
const SCENARIO: &str = r#"
name = "a"
slurm = {}
infiniband = { speed = "EDR" }
background = [{ run = "b" }]
[image]
recipe = "c"
[nodes]
count = 2
memory = "256 MiB"
clock = "1 GHz"
noise = [{ period = "1 ms", length = "1 us" }]
fail = [{ node = 0, at = "1 s" }]
[network]
link = [{ name = "*" }]
lose = [{ from = 0, to = 1, at = "1 s" }]
[workload]
command = "true"
[trace]
probe = [{ file = "f", symbol = "s" }]
"#;

/// The lists of that scenario, each with the fields of its table.
const LISTS: [(&str, &str); 6] = [
    ("background", r#"run = "b""#),
    ("nodes.noise", r#"period = "1 ms", length = "1 us""#),
    ("nodes.fail", r#"node = 0, at = "1 s""#),
    ("network.link", r#"name = "*""#),
    ("network.lose", r#"from = 0, to = 1, at = "1 s""#),
    ("trace.probe", r#"file = "f", symbol = "s""#),
];

/// Keys whose default a plan takes: the key, and the code that does so, with `{}` for the value.
const LATER: [(&str, &str); 11] = [
    (
        "nodes.cycles-per-instruction",
        "cycles_per_instruction.unwrap_or({})",
    ),
    ("nodes.noise.shape", "const SHAPE: f64 = {};"),
    ("network.fanout", "network.fanout.unwrap_or({})"),
    (
        "network.hosts-per-switch",
        "network.hosts_per_switch.unwrap_or({})",
    ),
    (
        "network.global-wiring",
        "unwrap_or(GlobalWiringName::AllPorts)",
    ),
    // The same code, for the shape of another network.
    ("infiniband.fanout", "network.fanout.unwrap_or({})"),
    (
        "infiniband.hosts-per-switch",
        "network.hosts_per_switch.unwrap_or({})",
    ),
    (
        "infiniband.global-wiring",
        "unwrap_or(GlobalWiringName::AllPorts)",
    ),
    ("network.link.loss", "table.loss.unwrap_or(impairment.loss)"),
    ("background.start", "table.start.map_or(Span::ZERO,"),
    ("hosts.patience", "self.patience.unwrap_or({})"),
];

/// The sources of [`LATER`].
const SOURCES: &str = concat!(
    include_str!("../../../cluster/src/scenario/nodes.rs"),
    include_str!("../../../cluster/src/scenario/network.rs"),
    include_str!("../../../cluster/src/scenario/hosts.rs"),
    include_str!("../../../cluster/src/plan/kinds/noise.rs"),
    include_str!("../../../cluster/src/plan/network.rs"),
    include_str!("../../../cluster/src/plan/background.rs"),
);

/// The keys with a default in code, and these defaults.
fn documented() -> Vec<(&'static str, &'static str)> {
    let page = include_str!("../../../docs/scenario.md");
    let rows = page.lines().filter_map(|line| line.strip_prefix("| `"));
    let rows = rows.filter_map(|row| {
        let (key, row) = row.split_once("` | ")?;
        let (_, row) = row.split_once(" | ")?;
        let (default, _) = row.split_once(" | ")?;
        let value = default.strip_prefix('`')?.strip_suffix('`')?;
        Some((key, value))
    });
    let is_value = |(key, value): &(&str, &str)| {
        // Defaults of groups are other keys, and lists are those of the scenario here.
        let is_list = LISTS.iter().any(|(list, _)| key == list);
        !value.contains('`') && !key.starts_with("nodes.group") && !is_list
    };
    rows.filter(is_value).collect()
}

/// The override that sets a key to its default.
fn assignment(key: &str, value: &str) -> String {
    let is_word = value.starts_with(|first: char| first.is_ascii_alphabetic());
    let value = match is_word && value != "true" && value != "false" {
        true => format!("\"{value}\""),
        false => value.to_owned(),
    };
    for (list, fields) in LISTS {
        let key = key.strip_prefix(list).and_then(|key| key.strip_prefix('.'));
        if let Some(key) = key {
            return format!("{list}=[{{ {fields}, {key} = {value} }}]");
        }
    }
    format!("{key}={value}")
}

#[test]
fn documented_defaults_are_those_of_the_code() {
    let parse = |overrides: &[String]| {
        let scenario = Scenario::parse(Path::new("a.toml"), SCENARIO, overrides);
        scenario.map(|scenario| format!("{scenario:?}"))
    };
    let plain = parse(&[]).expect("the scenario is valid");
    let documented = documented();
    assert!(documented.len() > 45, "{documented:?}");
    let mut wrong = Vec::new();
    for (key, value) in documented {
        if let Some((_, code)) = LATER.iter().find(|(later, _)| *later == key) {
            if !SOURCES.contains(&code.replace("{}", value)) {
                wrong.push(format!("{key} = {value} is not that of `{code}`"));
            }
            continue;
        }
        match parse(&[assignment(key, value)]) {
            Ok(scenario) if scenario == plain => {}
            Ok(_) => wrong.push(format!("{key} = {value} is another scenario")),
            Err(error) => wrong.push(format!("{key} = {value}: {error}")),
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
