//! What is recorded: the table `trace` of a scenario, and the probes of the user's in it.
//!
//! As the file says it: files and functions are looked for where a plan is made. Read by
//! `Scenario::parse`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use clap::ValueEnum;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Deserializer, Error};
use serde::{Deserialize, Serialize};

use crate::scenario::engine::Engine;
use crate::scenario::quantity::Duration;

/// What is recorded.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Trace {
    /// Whether MPI calls are recorded.
    pub enabled: bool,
    /// By which means calls are seen. When absent, by probes where the engine has them, by the library elsewhere.
    pub by: Option<TraceBy>,
    /// The same as a choice of `by`: true for the library, false for probes.
    pub library: Option<bool>,
    /// Functions to record, by name or pattern; all when empty.
    pub functions: Vec<String>,
    /// Virtual time from which calls are recorded.
    pub from: Option<Duration>,
    /// Virtual time until which calls are recorded.
    pub until: Option<Duration>,
    /// For a function, record only every Nth call.
    pub sample: BTreeMap<String, u64>,
    /// How many frames of its program's stack a call tells, from where it was made on: from 0 to 64.
    pub frames: u8,
    /// What becomes of calls that polled and found nothing, alike and one after another in a thread.
    pub polls: Polls,
    /// How many iterations of the program's main loop are kept; all when absent. Of the others there are sums.
    pub collect: Option<Iterations>,
    /// Whether the messages are recorded that the MPI library sends, as its layer for point-to-point messages sends them.
    pub messages: bool,
    /// Functions besides MPI's whose calls are recorded.
    pub probe: Vec<ProbeTable>,
}

impl Default for Trace {
    fn default() -> Self {
        Self {
            enabled: true,
            by: None,
            library: None,
            functions: Vec::new(),
            from: None,
            until: None,
            sample: BTreeMap::new(),
            frames: 0,
            polls: Polls::default(),
            collect: None,
            messages: false,
            probe: Vec::new(),
        }
    }
}

impl Trace {
    /// By which means calls are seen on nodes of `engine`; `None` where `by` and `library` contradict each other.
    pub fn means(&self, engine: Engine) -> Option<TraceBy> {
        let alias = self.library.map(|library| match library {
            true => TraceBy::Library,
            false => TraceBy::Probes,
        });
        match (self.by, alias) {
            (Some(by), Some(alias)) if by != alias => None,
            (by, alias) => Some(by.or(alias).unwrap_or(match engine {
                Engine::Exact => TraceBy::Probes,
                Engine::Kvm => TraceBy::Library,
            })),
        }
    }
}

/// By which means calls are seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum TraceBy {
    /// A preloaded library of stubs, which come to a magic instruction.
    Library,
    /// Probes at functions of the MPI libraries.
    Probes,
}

impl TraceBy {
    /// Its name in scenarios.
    pub fn name(self) -> &'static str {
        match self {
            Self::Library => "library",
            Self::Probes => "probes",
        }
    }
}

/// What becomes of calls that polled and found nothing, alike and one after another in a thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Polls {
    /// They are one record, which tells how many they were, from when to when, and the time in all of them.
    #[default]
    Folded,
    /// Each is a record of its own.
    Each,
}

/// How many iterations of a loop, such as `"10 iterations"`: from 2 to a billion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Iterations(pub u64);

impl FromStr for Iterations {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = text.trim().strip_suffix("iterations").map(str::trim);
        let number = number.and_then(|number| number.parse().ok());
        let known = number.filter(|number| (2..=1_000_000_000).contains(number));
        known.map(Self).ok_or_else(|| {
            format!(
                "`{text}` is no number of iterations from 2 to 1000000000; write for example \"10 iterations\""
            )
        })
    }
}

impl fmt::Display for Iterations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} iterations", self.0)
    }
}

impl<'de> Deserialize<'de> for Iterations {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(D::Error::custom)
    }
}

impl JsonSchema for Iterations {
    fn schema_name() -> Cow<'static, str> {
        "Iterations".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "type": "string",
            "description": "a number of iterations, such as \"10 iterations\"",
            "pattern": "^\\s*[0-9]+\\s*iterations\\s*$",
        })
    }
}

/// A place in a file of the guest at which calls are recorded, of whatever program.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ProbeTable {
    /// The file: a path in the image, or the name of a file of the workload; or a pattern with `*` and `?`; or `kernel`.
    pub file: String,
    /// The function's name, as the file's symbols have it.
    pub symbol: Option<String>,
    /// Instead, an address as the file has it, such as `"0x1234"`.
    pub address: Option<String>,
    /// Its name in listings; the symbol or the address when absent.
    pub name: Option<String>,
    /// When it records.
    #[serde(default)]
    pub at: ProbeTime,
    /// Types of the function's arguments, as far as they are to be recorded: `u8` to `u64`, `i8` to `i64`, `f32`,
    /// `f64`, `pointer`, `string`.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// The type of the result, if that is to be recorded.
    pub result: Option<String>,
}

/// When a probe records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProbeTime {
    /// When the function is entered.
    Entry,
    /// When it returns.
    Return,
    /// Both, in one record with how long it took.
    #[default]
    Call,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_seen_by_one_means() {
        let means = |by, library, engine| {
            let trace = Trace {
                by,
                library,
                ..Trace::default()
            };
            trace.means(engine)
        };
        let (library, probes) = (Some(TraceBy::Library), Some(TraceBy::Probes));
        for (by, alias, exact, kvm) in [
            (None, None, probes, library),
            (None, Some(true), library, library),
            (None, Some(false), probes, probes),
            (library, None, library, library),
            (probes, Some(false), probes, probes),
            (probes, Some(true), None, None),
            (library, Some(false), None, None),
        ] {
            assert_eq!(means(by, alias, Engine::Exact), exact);
            assert_eq!(means(by, alias, Engine::Kvm), kvm);
        }
    }

    #[test]
    fn iterations_are_a_number_and_their_name() {
        assert_eq!("10 iterations".parse(), Ok(Iterations(10)));
        assert_eq!(" 2iterations ".parse(), Ok(Iterations(2)));
        for text in [
            "10",
            "1 iterations",
            "ten iterations",
            "-5 iterations",
            "2000000000 iterations",
            "",
        ] {
            let error = text.parse::<Iterations>().unwrap_err();
            assert!(error.contains("10 iterations"), "{error}");
        }
    }
}
