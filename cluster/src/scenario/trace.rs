//! The table `trace` of a scenario, with the user's probes.
//!
//! Values as written: a plan finds the files and functions. Read by `Scenario::parse`.

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

/// Trace settings.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct Trace {
    /// True if MPI calls are recorded.
    pub enabled: bool,
    /// Method of tracing calls. By default probes if the engine has them, otherwise the library.
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
    /// Most stack frames of a call, from its call site on: from 0 to 64.
    pub frames: u8,
    /// Recording of consecutive equal polls of a thread without success.
    pub polls: Polls,
    /// Number of kept iterations of the program's main loop; all when absent. The other iterations become sums.
    pub collect: Option<Iterations>,
    /// True if messages of the MPI library are recorded, as its point-to-point layer sends them.
    pub messages: bool,
    /// True if the program's accesses to buffers of MPI operations in progress are recorded.
    pub buffers: bool,
    /// True if the contents of datatypes and the datatypes of collective operations are recorded.
    pub datatypes: bool,
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
            buffers: false,
            datatypes: false,
            probe: Vec::new(),
        }
    }
}

impl Trace {
    /// The method of tracing calls on nodes of `engine`; `None` if `by` and `library` contradict each other.
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

/// Methods of tracing calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum TraceBy {
    /// A preloaded library of stubs, which execute a magic instruction.
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

/// Recording of consecutive equal polls of a thread without success.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Polls {
    /// One record with their number, their first and last times, and their total time.
    #[default]
    Folded,
    /// A record for each.
    Each,
}

/// A number of iterations of a loop, such as `"10 iterations"`: from 2 to a billion.
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
                "`{text}` is not a number of iterations from 2 to 1000000000; write for example \"10 iterations\""
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

/// A place in a file of the guest at which calls of any program are recorded.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct ProbeTable {
    /// File: a path in the image, or the name of a file of the workload; or a pattern with `*` and `?`; or `kernel`.
    pub file: String,
    /// Function name in the file's symbols.
    pub symbol: Option<String>,
    /// Address in the file instead, such as `"0x1234"`.
    pub address: Option<String>,
    /// Name in listings; the symbol or the address when absent.
    pub name: Option<String>,
    /// Events to record.
    #[serde(default)]
    pub at: ProbeTime,
    /// Types of the recorded arguments: `u8` to `u64`, `i8` to `i64`, `f32`, `f64`, `pointer`, `string`.
    #[serde(default)]
    pub arguments: Vec<String>,
    /// Type of the result, if it is recorded.
    pub result: Option<String>,
}

/// Events that a probe records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ProbeTime {
    /// Entry of the function.
    Entry,
    /// Return of the function.
    Return,
    /// Both, in one record with the duration.
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
