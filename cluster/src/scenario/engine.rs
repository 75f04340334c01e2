//! The engine of a scenario's nodes.
//!
//! A choice of `auto` is resolved once for a run, when its plan is made; afterwards the [`Engine`](engine::Engine) is
//! fixed. Called by plans, `belljar boot` and the construction of processors.

use std::fmt;

use belljar_kvm::{Breakpoints, RequestedMeans, TscControl};
use belljar_sim::Span;
use clap::ValueEnum;
use schemars::JsonSchema;
use serde::Deserialize;

/// Choice of an engine in a scenario.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum EngineChoice {
    /// The deterministic translator.
    #[default]
    Exact,
    /// The host's virtualisation.
    Kvm,
    /// The host's virtualisation if it works, otherwise the translator.
    Auto,
}

impl EngineChoice {
    /// The engine for this host. `auto` tests KVM, which takes less than a second.
    pub fn resolve(self, kvm: KvmOptions) -> Engine {
        match self {
            Self::Exact => Engine::Exact,
            Self::Kvm => Engine::Kvm,
            Self::Auto => match belljar_kvm::probe(kvm.wanted()) {
                Ok(_) => Engine::Kvm,
                Err(why) => {
                    tracing::info!("engine exact, as {why}");
                    Engine::Exact
                }
            },
        }
    }
}

/// Options of the host's virtualisation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct KvmOptions {
    /// Method to stop guests at traced calls.
    pub breakpoints: BreakpointChoice,
    /// Method to move guests' time stamp counters.
    pub tsc: TscChoice,
}

impl KvmOptions {
    /// Requirements of the host.
    pub fn wanted(self) -> RequestedMeans {
        RequestedMeans {
            breakpoints: self.breakpoints.wanted(),
            tsc: self.tsc.wanted(),
        }
    }
}

/// Method to stop guests at traced calls under engine kvm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BreakpointChoice {
    /// Hardware breakpoints if they work, otherwise INT3.
    #[default]
    Auto,
    /// Debug registers, which are then unavailable to guests.
    Hardware,
    /// Breakpoint instructions.
    Int3,
}

impl BreakpointChoice {
    fn wanted(self) -> Option<Breakpoints> {
        match self {
            Self::Auto => None,
            Self::Hardware => Some(Breakpoints::Hardware),
            Self::Int3 => Some(Breakpoints::Int3),
        }
    }
}

/// Method to move guests' time stamp counters under engine kvm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TscChoice {
    /// Their offsets if the host has them (Linux 5.16), otherwise the counters.
    #[default]
    Auto,
    /// Their offsets.
    Offset,
    /// The counters themselves.
    Register,
}

impl TscChoice {
    fn wanted(self) -> Option<TscControl> {
        match self {
            Self::Auto => None,
            Self::Offset => Some(TscControl::Offset),
            Self::Register => Some(TscControl::Register),
        }
    }
}

/// An engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// The deterministic translator.
    Exact,
    /// The host's virtualisation.
    Kvm,
}

impl Engine {
    /// Its name in scenarios and saved states.
    pub fn name(self) -> &'static str {
        match self {
            Self::Exact => belljar_exact::ENGINE_NAME,
            Self::Kvm => belljar_kvm::ENGINE_NAME,
        }
    }

    /// The default time slice of a node's processors. KVM enters and leaves a guest for each slice, which costs
    /// microseconds.
    pub(crate) fn slice(self) -> Span {
        match self {
            Self::Exact => Span::from_us(5),
            Self::Kvm => Span::from_ms(1),
        }
    }
}

impl fmt::Display for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
