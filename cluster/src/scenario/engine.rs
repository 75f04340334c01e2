//! Which engine carries a scenario's nodes.
//!
//! A choice of `auto` is settled once for a run, when its plan is made; from there on an [`Engine`](engine::Engine) is
//! known. Called by plans, `belljar boot` and what makes processors.

use std::fmt;

use belljar_kvm::{Breakpoints, TscControl, Wanted};
use belljar_sim::Span;
use clap::ValueEnum;
use schemars::JsonSchema;
use serde::Deserialize;

/// An engine as a scenario asks for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum EngineChoice {
    /// The deterministic translator.
    #[default]
    Exact,
    /// The host's virtualisation.
    Kvm,
    /// The host's virtualisation where it works, the translator elsewhere.
    Auto,
}

impl EngineChoice {
    /// The engine that it comes to on this host. A choice of `auto` tries KVM out, which
    /// takes less than a second.
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

/// How the host's virtualisation is used, where it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case", default)]
pub struct KvmOptions {
    /// What stops guests at traced calls.
    pub breakpoints: BreakpointChoice,
    /// What moves guests' time stamp counters.
    pub tsc: TscChoice,
}

impl KvmOptions {
    /// What a host must have.
    pub fn wanted(self) -> Wanted {
        Wanted {
            breakpoints: self.breakpoints.wanted(),
            tsc: self.tsc.wanted(),
        }
    }
}

/// What stops guests at traced calls under engine kvm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BreakpointChoice {
    /// Hardware breakpoints where they work, INT3 elsewhere.
    #[default]
    Auto,
    /// Debug registers, which guests then cannot use.
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

/// What moves guests' time stamp counters under engine kvm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TscChoice {
    /// Their offsets where the host has such (Linux 5.16), the counters elsewhere.
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

    /// How long each of a node's processors runs before it is the next one's turn, where
    /// nobody says: KVM's are entered and left for each turn, which costs microseconds.
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
