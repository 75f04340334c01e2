//! The replay's side of a report of a run and its replay: links, options, and differing keys.
//!
//! A replay has no `summary.json`: `replay.json` has the loads of its links. Called by `report`.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use belljar_cluster::results::run_directory::SCENARIO_FILE;
use belljar_files::read_input_text;
use belljar_report::{ChangedKey, LinkSide, LinkTotal, Summary};
use serde::Deserialize;

use crate::command::predicting::replay::REPLAY_FILE;

/// Largest file that is read, in bytes.
const MOST_BYTES: u64 = 64 << 20;
/// Maximum number of listed keys.
const MOST_KEYS: usize = 200;

/// The parts of `replay.json` that a report shows.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Replay {
    links: Vec<Load>,
    options: BTreeMap<String, String>,
    broken_off: bool,
}

/// The load of one direction of a link.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Load {
    link: String,
    bytes: u64,
    busy_ps: u64,
    dropped: u64,
}

/// The totals of the replay in a directory; `None` if it has no replay.
///
/// # Errors
/// If `replay.json` cannot be read.
pub(super) fn summary(directory: &Path) -> Result<Option<Summary>> {
    let Some(replay) = replay(directory)? else {
        return Ok(None);
    };
    let mut links: BTreeMap<String, LinkTotal> = BTreeMap::new();
    for load in &replay.links {
        let (name, up) = match load.link.rsplit_once(' ') {
            Some((name, direction)) => (name, direction != "down"),
            None => (load.link.as_str(), true),
        };
        let link = links.entry(name.to_owned()).or_insert_with(|| LinkTotal {
            link: name.to_owned(),
            ..LinkTotal::default()
        });
        let side = if up { &mut link.up } else { &mut link.down };
        *side = LinkSide {
            bytes: load.bytes,
            busy_ps: load.busy_ps,
            drops: load.dropped,
            ..LinkSide::default()
        };
    }
    let ending = match replay.broken_off {
        true => "a replay, broken off",
        false => "a replay, whole",
    };
    Ok(Some(Summary {
        ending: ending.to_owned(),
        links: links.into_values().collect(),
        ..Summary::default()
    }))
}

/// The scenario keys and replay options with different values in two run directories.
///
/// # Errors
/// If a scenario or `replay.json` is damaged.
pub(super) fn changed(a: &Path, b: &Path) -> Result<Vec<ChangedKey>> {
    let (Some(mut a), Some(mut b)) = (keys(a)?, keys(b)?) else {
        return Ok(Vec::new());
    };
    a.retain(|key, value| b.get(key) != Some(value) || b.remove(key).is_none());
    let mut names: Vec<String> = a.keys().chain(b.keys()).cloned().collect();
    names.sort();
    names.dedup();
    let keys = names.into_iter().take(MOST_KEYS).map(|key| ChangedKey {
        a: a.remove(&key),
        b: b.remove(&key),
        key,
    });
    Ok(keys.collect())
}

/// The keys of a run directory's scenario and the options of its replay, with their values; `None` without a scenario.
fn keys(directory: &Path) -> Result<Option<BTreeMap<String, String>>> {
    let path = directory.join(SCENARIO_FILE);
    let Some(text) = text(&path)? else {
        return Ok(None);
    };
    let table: toml::Table =
        toml::from_str(&text).with_context(|| format!("{} is not a scenario", path.display()))?;
    let mut keys = BTreeMap::new();
    flatten("", &toml::Value::Table(table), &mut keys);
    for (name, value) in replay(directory)?.unwrap_or_default().options {
        keys.insert(format!("--{name}"), value);
    }
    Ok(Some(keys))
}

fn flatten(path: &str, value: &toml::Value, keys: &mut BTreeMap<String, String>) {
    match value {
        toml::Value::Table(table) => {
            for (name, value) in table {
                let path = match path {
                    "" => name.clone(),
                    path => format!("{path}.{name}"),
                };
                flatten(&path, value, keys);
            }
        }
        toml::Value::String(text) => {
            keys.insert(path.to_owned(), text.clone());
        }
        value => {
            keys.insert(path.to_owned(), value.to_string());
        }
    }
}

fn replay(directory: &Path) -> Result<Option<Replay>> {
    let path = directory.join(REPLAY_FILE);
    let Some(text) = text(&path)? else {
        return Ok(None);
    };
    let replay = serde_json::from_str(&text);
    replay
        .with_context(|| format!("{} is not a result of a replay", path.display()))
        .map(Some)
}

/// A file's text; `None` if it does not exist.
fn text(path: &Path) -> Result<Option<String>> {
    let Ok(data) = fs::metadata(path) else {
        return Ok(None);
    };
    if data.len() > MOST_BYTES {
        bail!(
            "{} has {} bytes, more than {MOST_BYTES}; is it one that belljar wrote?",
            path.display(),
            data.len()
        );
    }
    let text = read_input_text(path);
    text.with_context(|| format!("cannot read {}", path.display()))
        .map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn directory(scenario: &str, replay: Option<&str>) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(SCENARIO_FILE), scenario).unwrap();
        if let Some(replay) = replay {
            fs::write(folder.path().join(REPLAY_FILE), replay).unwrap();
        }
        folder
    }

    #[test]
    fn keys_and_options_that_differ_are_listed_with_both_values() {
        let a = directory("name = \"x\"\n[network]\nlatency = \"1 us\"\n", None);
        let b = directory(
            "name = \"x\"\n[network]\nlatency = \"20 us\"\ntopology = \"ring\"\n",
            Some("{\"options\": {\"model\": \"flow\"}}"),
        );
        let changed = changed(a.path(), b.path()).unwrap();
        let told: Vec<_> = changed
            .iter()
            .map(|own| (own.key.as_str(), own.a.as_deref(), own.b.as_deref()))
            .collect();
        let expected = [
            ("--model", None, Some("flow")),
            ("network.latency", Some("1 us"), Some("20 us")),
            ("network.topology", None, Some("ring")),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn links_of_a_replay_have_two_directions() {
        let loads = "{\"links\": [{\"link\": \"host0-switch0 up\", \"bytes\": 7, \"busy_ps\": 3, \"dropped\": 1},
            {\"link\": \"host0-switch0 down\", \"bytes\": 9}]}";
        let folder = directory("", Some(loads));
        let found = summary(folder.path()).unwrap().unwrap();
        assert_eq!(found.links.len(), 1);
        let link = &found.links[0];
        assert_eq!(link.link, "host0-switch0");
        assert_eq!((link.up.bytes, link.up.busy_ps, link.up.drops), (7, 3, 1));
        assert_eq!((link.down.bytes, link.down.frames), (9, None));
    }
}
