//! What a container's configuration says of the processes that run in it: variables, folder, user and commands.
//!
//! What it leaves out, or has as null, is empty. Of an Apptainer image only plain `export` lines of the script that
//! came from a container are read, and nothing is run. Called where a container image is opened, and an Apptainer image is read.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

/// How the source's maker wants programs to be run in it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Config {
    /// Environment variables.
    pub environment: BTreeMap<String, String>,
    /// Directory that programs start in.
    pub working_directory: Option<String>,
    /// `USER`, `UID`, `USER:GROUP` or `UID:GID`.
    pub user: Option<String>,
    /// First words of the command line.
    pub entrypoint: Vec<String>,
    /// The words after them, unless others are given.
    pub command: Vec<String>,
    /// Processor, by the name of the OCI specification: `amd64`.
    pub architecture: Option<String>,
}

/// The image's configuration, of Docker's and of the OCI form.
#[derive(Debug, Default, Deserialize)]
pub(super) struct ImageConfig {
    #[serde(default)]
    pub(super) architecture: Option<String>,
    #[serde(default)]
    pub(super) os: Option<String>,
    #[serde(default, deserialize_with = "or_default")]
    config: Process,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) rootfs: RootFs,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct RootFs {
    #[serde(default, deserialize_with = "or_default")]
    pub(super) diff_ids: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
struct Process {
    #[serde(rename = "Env", default, deserialize_with = "or_default")]
    environment: Vec<String>,
    #[serde(rename = "WorkingDir", default)]
    working_directory: Option<String>,
    #[serde(rename = "User", default)]
    user: Option<String>,
    #[serde(rename = "Entrypoint", default, deserialize_with = "or_default")]
    entrypoint: Vec<String>,
    #[serde(rename = "Cmd", default, deserialize_with = "or_default")]
    command: Vec<String>,
}

/// `null` stands for the default, as Go writes an empty list.
pub(super) fn or_default<'de, T, D>(from: D) -> Result<T, D::Error>
where
    T: Default + Deserialize<'de>,
    D: Deserializer<'de>,
{
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

impl ImageConfig {
    pub(super) fn config(&self) -> Config {
        let process = &self.config;
        let set = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
        let variable = |text: &String| {
            let (name, value) = text.split_once('=')?;
            Some((name.to_owned(), value.to_owned()))
        };
        Config {
            environment: process.environment.iter().filter_map(variable).collect(),
            working_directory: set(&process.working_directory),
            user: set(&process.user),
            entrypoint: process.entrypoint.clone(),
            command: process.command.clone(),
            architecture: set(&self.architecture),
        }
    }
}

/// Variables that a shell script exports, of the forms `export NAME=VALUE` and `export NAME="${NAME:-VALUE}"`
/// with a quoted or plain value without expansions; other lines are passed over, nothing is run.
pub(super) fn exports(script: &str) -> BTreeMap<String, String> {
    script.lines().filter_map(export).collect()
}

fn export(line: &str) -> Option<(String, String)> {
    let (name, text) = line
        .trim()
        .strip_prefix("export ")?
        .trim()
        .split_once('=')?;
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if name.is_empty() || !name.bytes().all(is_word) || name.as_bytes()[0].is_ascii_digit() {
        return None;
    }
    let default = format!("\"${{{name}:-");
    let text = match text.strip_prefix(&default) {
        Some(inner) => inner.strip_suffix("}\"")?,
        None => text,
    };
    Some((name.to_owned(), word(text)?))
}

/// One shell word without its quotes, if it has no expansion.
fn word(text: &str) -> Option<String> {
    if let Some(inner) = text.strip_prefix('\'') {
        let inner = inner.strip_suffix('\'')?;
        return (!inner.contains('\'')).then(|| inner.to_owned());
    }
    let Some(inner) = text.strip_prefix('"') else {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-./:,+@%=".contains(&byte);
        return text.bytes().all(plain).then(|| text.to_owned());
    };
    let mut value = String::new();
    let mut letters = inner.strip_suffix('"')?.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' | '$' | '`' => return None,
            '\\' => match letters.next()? {
                escaped @ ('"' | '$' | '`' | '\\') => value.push(escaped),
                other => value.extend(['\\', other]),
            },
            other => value.push(other),
        }
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_simple_exports_count() {
        let script = concat!(
            "#!/bin/sh\n",
            "export PATH=\"/opt/bin:/bin\"\n",
            "export A=\"${A:-\"one \\\"two\\\" \\$3\"}\"\n",
            "export B='x $y'\nexport C=plain-1\n",
            "export D=\"$(rm -r /)\"\nexport E=`id`\nexport F=a;b\nF=1\nexport 1=2\nexport G=\"x\\\"\n",
            "export H=\"${H:-\"$A\"}\"\nexport I=\"${H:-\"x\"}\"\nexport J='a'b'\n",
        );
        let pairs = [
            ("A", "one \"two\" $3"),
            ("B", "x $y"),
            ("C", "plain-1"),
            ("PATH", "/opt/bin:/bin"),
        ];
        let expected = pairs.map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(exports(script), BTreeMap::from(expected));
    }

    #[test]
    fn nulls_of_docker_are_empty() {
        let text = r#"{"architecture":"amd64","os":"linux","config":{"Env":["A=b=c","odd"],"Cmd":null,"User":"","WorkingDir":"/x"},"rootfs":null}"#;
        let config: ImageConfig = serde_json::from_str(text).expect("parses");
        let config = config.config();
        assert_eq!(config.environment.get("A").map(String::as_str), Some("b=c"));
        assert_eq!((config.user, config.command.len()), (None, 0));
        assert_eq!(config.working_directory.as_deref(), Some("/x"));
    }
}
