//! The scenario of a request as a readable text: TOML with comments, which users can change and run again.
//!
//! [`Draft`](compose::Draft) keeps its keys in order, each with a value and a comment, so that other values (`--set`)
//! find their places. Called by `belljar mpirun`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use belljar_cluster::scenario::ScenarioError;

/// The folder in `/root` with libraries of this host.
pub const LIBRARIES: &str = ".libraries";

/// A scenario on its way to a text.
#[derive(Clone, Debug, Default)]
pub struct Draft {
    /// Lines at the beginning of the text.
    pub remarks: Vec<String>,
    sections: Vec<Section>,
    /// The workload's files by name.
    pub files: BTreeMap<String, PathBuf>,
}

#[derive(Clone, Debug)]
struct Section {
    name: String,
    remarks: Vec<String>,
    entries: Vec<ScenarioKey>,
}

#[derive(Clone, Debug)]
struct ScenarioKey {
    key: String,
    /// In TOML.
    value: String,
    remark: String,
}

/// Paths of the workload's files in the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// Their paths on this host.
    Original,
    /// The paths of their copies in a run directory.
    Copied,
}

/// A text in TOML.
pub fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

/// A name as a key, quoted if necessary.
pub fn key_text(name: &str) -> String {
    let is_bare = |c: char| c.is_ascii_alphanumeric() || "_-".contains(c);
    match !name.is_empty() && name.chars().all(is_bare) {
        true => name.to_owned(),
        false => quoted(name),
    }
}

/// A word for a shell, quoted if necessary.
pub fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_./=:,+@%-".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

impl Draft {
    /// Adds a section; the first, without a name, has the keys of the top.
    pub fn section(&mut self, name: &str, remarks: &[&str]) {
        self.sections.push(Section {
            name: name.to_owned(),
            remarks: remarks.iter().map(|line| (*line).to_owned()).collect(),
            entries: Vec::new(),
        });
    }

    /// Adds a key with a value in TOML to the last section.
    pub fn entry(&mut self, key: &str, value: impl ToString, remark: &str) {
        if let Some(section) = self.sections.last_mut() {
            section.entries.push(ScenarioKey {
                key: key.to_owned(),
                value: value.to_string(),
                remark: remark.to_owned(),
            });
        }
    }

    /// Gives a key another value, as `--set` does.
    ///
    /// # Errors
    /// If `=` or the key is missing.
    pub fn set(&mut self, assignment: &str) -> Result<(), ScenarioError> {
        let fail = |reason: &str| ScenarioError::Override {
            assignment: assignment.to_owned(),
            reason: reason.to_owned(),
        };
        let (key, value) = assignment
            .split_once('=')
            .ok_or_else(|| fail("there is no `=`"))?;
        let key = key.trim();
        if key.is_empty() || key.split('.').any(str::is_empty) {
            return Err(fail("there is no key"));
        }
        let parsed = format!("value = {value}").parse::<toml::Table>();
        let parsed = parsed.ok().filter(|_| !value.contains('\n'));
        if let Some(toml::Value::Table(table)) = parsed.as_ref().and_then(|it| it.get("value"))
            && self.replace_section(key, table)
        {
            return Ok(());
        }
        let value = match parsed.is_some() {
            true => value.trim().to_owned(),
            false => quoted(value),
        };
        self.put(key, value);
        Ok(())
    }

    /// Replaces the section `name` with the keys of `table`, and removes its subsections; `false` if it does not exist.
    fn replace_section(&mut self, name: &str, table: &toml::Table) -> bool {
        let is_below = |section: &Section| {
            let rest = section.name.strip_prefix(name);
            rest.is_some_and(|rest| rest.starts_with('.'))
        };
        self.sections.retain(|section| !is_below(section));
        if name == "workload" || name == "workload.files" {
            self.files.clear();
        }
        let mut sections = self.sections.iter_mut();
        let Some(section) = sections.find(|section| section.name == name) else {
            return false;
        };
        let entry = |(key, value): (&String, &toml::Value)| ScenarioKey {
            key: key_text(key),
            value: value.to_string(),
            remark: String::new(),
        };
        section.entries = table.iter().map(entry).collect();
        true
    }

    /// Sets a value in the section with the longest name that is a prefix of `key`.
    fn put(&mut self, key: &str, value: String) {
        let within = |section: &Section| match section.name.as_str() {
            "" => Some(key.to_owned()),
            name => key.strip_prefix(name)?.strip_prefix('.').map(str::to_owned),
        };
        let places = self.sections.iter_mut();
        let places = places.filter_map(|section| Some((within(section)?, section)));
        let Some((rest, section)) = places.max_by_key(|(_, section)| section.name.len()) else {
            return;
        };
        match section.entries.iter_mut().find(|entry| entry.key == rest) {
            Some(entry) => entry.value = value,
            None => section.entries.push(ScenarioKey {
                key: rest,
                value,
                remark: String::new(),
            }),
        }
    }

    /// The scenario's text.
    pub fn text(&self, naming: Naming) -> String {
        let mut text: String = self
            .remarks
            .iter()
            .map(|line| format!("# {line}\n"))
            .collect();
        for section in &self.sections {
            if !section.name.is_empty() {
                text.push_str(&format!("\n[{}]\n", section.name));
            }
            for line in &section.remarks {
                text.push_str(&format!("# {line}\n"));
            }
            for entry in &section.entries {
                let remark = match entry.remark.as_str() {
                    "" => String::new(),
                    remark => format!("  # {remark}"),
                };
                text.push_str(&format!("{} = {}{remark}\n", entry.key, entry.value));
            }
        }
        if !self.files.is_empty() {
            text.push_str("\n[workload.files]\n# In /root of every node: the name there, and the file here.\n");
            for (name, path) in &self.files {
                let from = match naming {
                    Naming::Original => path.to_string_lossy().into_owned(),
                    Naming::Copied => copied(name),
                };
                text.push_str(&format!("{} = {}\n", quoted(name), quoted(&from)));
            }
        }
        text
    }
}

/// The path of a file's copy in a run directory.
pub fn copied(name: &str) -> String {
    format!("inputs/files/{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draft() -> Draft {
        let mut draft = Draft::default();
        draft.section("", &[]);
        draft.entry("name", quoted("x"), "for people");
        draft.section("nodes", &[]);
        draft.entry("count", 2, "");
        draft.section("workload", &[]);
        draft.entry("command", quoted("say \"it's\""), "");
        draft.section("workload.environment", &["Of all ranks."]);
        draft
    }

    #[test]
    fn other_values_find_their_places() {
        let mut draft = draft();
        for assignment in [
            "nodes.count=4",
            "nodes.timing.costs.load=0.5",
            "workload.limit=2 s",
            "workload.environment.A=1=2",
            "seed=7",
        ] {
            draft.set(assignment).unwrap();
        }
        draft.files.insert("in.dat".into(), "/here/in.dat".into());
        let text = draft.text(Naming::Original);
        let table: toml::Table = text.parse().unwrap();
        assert_eq!(table["nodes"]["count"].as_integer(), Some(4));
        assert_eq!(
            table["nodes"]["timing"]["costs"]["load"].as_float(),
            Some(0.5)
        );
        assert_eq!(table["seed"].as_integer(), Some(7));
        let workload = &table["workload"];
        assert_eq!(workload["limit"].as_str(), Some("2 s"));
        assert_eq!(workload["environment"]["A"].as_str(), Some("1=2"));
        assert_eq!(workload["command"].as_str(), Some("say \"it's\""));
        assert_eq!(workload["files"]["in.dat"].as_str(), Some("/here/in.dat"));
        assert!(draft.text(Naming::Copied).contains("inputs/files/in.dat"));
        assert!(text.contains("# for people") && text.contains("# Of all ranks."));
        assert!(draft.set("nodes").is_err() && draft.set("=1").is_err());
    }

    #[test]
    fn a_table_takes_the_place_of_a_section() {
        let mut draft = draft();
        draft.set("nodes={ memory = \"1 GiB\" }").unwrap();
        draft.set("nodes.count=3").unwrap();
        draft.set("workload={ command = \"true\" }").unwrap();
        draft.set("slurm={}").unwrap();
        let table: toml::Table = draft.text(Naming::Original).parse().unwrap();
        let nodes = table["nodes"].as_table().unwrap();
        assert_eq!(nodes.len(), 2);
        assert_eq!(nodes["count"].as_integer(), Some(3));
        assert_eq!(nodes["memory"].as_str(), Some("1 GiB"));
        assert_eq!(table["workload"].to_string(), "{ command = \"true\" }");
        assert!(table["slurm"].as_table().unwrap().is_empty());
    }

    #[test]
    fn words_are_quoted_for_shells_where_they_must_be() {
        assert_eq!(shell_word("./a.out"), "./a.out");
        assert_eq!(shell_word("a b"), "'a b'");
        assert_eq!(shell_word("it's"), "'it'\\''s'");
        assert_eq!(shell_word(""), "''");
        assert_eq!(shell_word("*"), "'*'");
    }
}
