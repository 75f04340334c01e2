//! Process settings in a container's configuration: variables, folder, user and commands.
//!
//! An absent or null key is empty. Called where a container image is opened.

use std::collections::BTreeMap;

use serde::{Deserialize, Deserializer};

/// Process settings of a container image.
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
    /// Arguments after them, unless the caller gives others.
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
    config: ProcessConfig,
    #[serde(default, deserialize_with = "or_default")]
    pub(super) rootfs: RootFs,
}

#[derive(Debug, Default, Deserialize)]
pub(super) struct RootFs {
    #[serde(default, deserialize_with = "or_default")]
    pub(super) diff_ids: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
struct ProcessConfig {
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

/// Treats `null` as the default, since Go writes an empty list so.
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

#[cfg(test)]
mod tests {
    use super::*;

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
