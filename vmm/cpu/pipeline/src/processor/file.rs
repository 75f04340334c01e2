//! Processor files: TOML tables of integers, built in by name or read from a path.
//!
//! Files are untrusted: unknown, missing and impossible values are errors that name the file, the key, the value and
//! the limit. Cycles are whole numbers, as are all other values.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde::Deserialize;

/// Caches, translation buffers, prefetchers and overlap.
mod caches;
/// The key `measured`.
mod measured;

use caches::{CachesTable, OverlapTable, PrefetchTable, TlbTable};
use measured::{Measured, measured};

use super::{ClassCost, Core, Memory, Processor, Text};
use crate::class::{PortGroup, UopClass};
use crate::shared_costs::SharedCosts;

/// Names and contents of the built-in processors.
pub const BUILT_IN: [(&str, &str); 4] = [
    ("zen5", include_str!("../../../../../processors/zen5.toml")),
    ("zen4", include_str!("../../../../../processors/zen4.toml")),
    ("zen3", include_str!("../../../../../processors/zen3.toml")),
    (
        "golden-cove",
        include_str!("../../../../../processors/golden-cove.toml"),
    ),
];

/// The largest processor file in bytes.
const MOST_BYTES: u64 = 1 << 20;

/// Errors of processor files.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ProcessorError {
    /// Neither a built-in name nor a path of a file.
    #[error(
        "there is no processor `{name}`; built-in processors are {known}; for a file, give a path that ends in .toml"
    )]
    Unknown {
        /// As written.
        name: String,
        /// The built-in names.
        known: String,
    },
    /// The file cannot be read.
    #[error("{file}: {reason}")]
    Unreadable {
        /// Its path.
        file: String,
        /// The host's reason.
        reason: String,
    },
    /// No valid TOML, an unknown key, or a missing one.
    #[error("{file}: {reason}")]
    Syntax {
        /// Name or path.
        file: String,
        /// The parser's message, with the key and the line.
        reason: String,
    },
    /// A value out of its range.
    #[error("{file}: {key} = {value} is out of range ({least} to {most})")]
    Range {
        /// Name or path.
        file: String,
        /// Table and key.
        key: String,
        /// As written.
        value: u32,
        /// Lower limit.
        least: u32,
        /// Upper limit.
        most: u32,
    },
    /// A cache or buffer cannot be divided into sets.
    #[error(
        "{file}: {key} = {value} in {ways} ways has no power of two of sets (for caches, 64 at least)"
    )]
    Sets {
        /// Name or path.
        file: String,
        /// Table and key.
        key: String,
        /// As written.
        value: u32,
        /// The ways as written.
        ways: u32,
    },
    /// A table lacks an entry, or has one that does not exist.
    #[error("{file}: [{table}] {reason} `{key}`; its keys are {known}")]
    Keys {
        /// Name or path.
        file: String,
        /// The table.
        table: &'static str,
        /// "lacks" or "has an unknown".
        reason: &'static str,
        /// The key.
        key: String,
        /// All keys.
        known: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct FileTable {
    name: String,
    measured: Measured,
    level: u32,
    core: CoreTable,
    memory: MemoryTable,
    string: StringTable,
    caches: CachesTable,
    tlb: TlbTable,
    prefetch: PrefetchTable,
    overlap: OverlapTable,
    ports: BTreeMap<String, u32>,
    classes: BTreeMap<String, ClassTable>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct CoreTable {
    dispatch: u32,
    retire: u32,
    window: u32,
    scheduler: u32,
    vector_scheduler: u32,
    mispredict: u32,
    taken: u32,
    call: u32,
    #[serde(rename = "return")]
    returns: u32,
    indirect: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct MemoryTable {
    load: u32,
    vector_load: u32,
    indexed: u32,
    renamed: u32,
    forward: u32,
    vector_forward: u32,
    commit: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct StringTable {
    start: u32,
    bytes_per_cycle: u32,
    unaligned_bytes_per_cycle: u32,
    short: u32,
    unaligned: u32,
    element_ticks: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClassTable {
    latency: u32,
    chained: Option<u32>,
    #[serde(default = "one")]
    occupancy: u32,
    #[serde(default = "one")]
    uops: u32,
}

fn one() -> u32 {
    1
}

/// FNV-1a of a text.
fn digest(text: &str) -> u64 {
    let mix = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, mix)
}

/// Checks values of one file.
struct Limits<'a> {
    file: &'a str,
}

impl Limits<'_> {
    fn within(&self, key: &str, value: u32, least: u32, most: u32) -> Result<u32, ProcessorError> {
        if (least..=most).contains(&value) {
            return Ok(value);
        }
        Err(ProcessorError::Range {
            file: self.file.to_owned(),
            key: key.to_owned(),
            value,
            least,
            most,
        })
    }

    /// Takes the entry of each of `names` out of a table.
    fn each<T, const N: usize>(
        &self,
        table: &'static str,
        names: [&'static str; N],
        mut entries: BTreeMap<String, T>,
    ) -> Result<Vec<T>, ProcessorError> {
        let error = |reason, key: &str| ProcessorError::Keys {
            file: self.file.to_owned(),
            table,
            reason,
            key: key.to_owned(),
            known: names.join(", "),
        };
        let mut taken = Vec::with_capacity(N);
        for name in names {
            taken.push(entries.remove(name).ok_or_else(|| error("lacks", name))?);
        }
        match entries.keys().next() {
            Some(extra) => Err(error("has an unknown", extra)),
            None => Ok(taken),
        }
    }

    fn core(&self, table: &CoreTable) -> Result<Core, ProcessorError> {
        Ok(Core {
            dispatch: self.within("core.dispatch", table.dispatch, 1, 32)?,
            retire: self.within("core.retire", table.retire, 1, 64)?,
            window: self.within("core.window", table.window, 16, 4096)?,
            schedulers: [
                self.within("core.scheduler", table.scheduler, 4, 1024)?,
                self.within("core.vector-scheduler", table.vector_scheduler, 4, 1024)?,
            ],
            mispredict: self.within("core.mispredict", table.mispredict, 1, 200)?,
            taken: self.within("core.taken", table.taken, 0, 20)?,
            call: self.within("core.call", table.call, 0, 20)?,
            returns: self.within("core.return", table.returns, 0, 20)?,
            indirect: self.within("core.indirect", table.indirect, 0, 20)?,
        })
    }

    fn memory(&self, table: &MemoryTable) -> Result<Memory, ProcessorError> {
        Ok(Memory {
            load: [
                self.within("memory.load", table.load, 1, 50)?,
                self.within("memory.vector-load", table.vector_load, 1, 50)?,
            ],
            indexed: self.within("memory.indexed", table.indexed, 0, 10)?,
            renamed: self.within("memory.renamed", table.renamed, 0, 50)?,
            forward: [
                self.within("memory.forward", table.forward, 0, 100)?,
                self.within("memory.vector-forward", table.vector_forward, 0, 100)?,
            ],
            commit: self.within("memory.commit", table.commit, 0, 1000)?,
        })
    }

    fn class(&self, name: &str, table: &ClassTable) -> Result<ClassCost, ProcessorError> {
        let key = |part| format!("classes.{name}.{part}");
        let latency = self.within(&key("latency"), table.latency, 0, 1000)?;
        let chained = table.chained.unwrap_or(latency);
        Ok(ClassCost {
            latency,
            chained: self.within(&key("chained"), chained, 0, latency)?,
            occupancy: self.within(&key("occupancy"), table.occupancy, 1, 500)?,
            uops: self.within(&key("uops"), table.uops, 1, 64)?,
        })
    }
}

impl Processor {
    /// The processor of a scenario: a built-in name, or the path of a file in `folder`, which ends in `.toml`.
    ///
    /// # Errors
    /// [`ProcessorError`] names the file, the key and the limit.
    pub fn load(name: &str, folder: &Path) -> Result<Self, ProcessorError> {
        if let Some((_, text)) = BUILT_IN.iter().find(|(known, _)| *known == name) {
            return Self::parse(name, text);
        }
        let path = folder.join(name);
        if path.extension().is_none_or(|extension| extension != "toml") {
            return Err(ProcessorError::Unknown {
                name: name.to_owned(),
                known: BUILT_IN.map(|(name, _)| name).join(", "),
            });
        }
        let unreadable = |reason: String| ProcessorError::Unreadable {
            file: name.to_owned(),
            reason,
        };
        let bytes = fs::metadata(&path)
            .map_err(|error| unreadable(error.to_string()))?
            .len();
        if bytes > MOST_BYTES {
            return Err(unreadable(format!(
                "{bytes} bytes; a processor file has at most {MOST_BYTES}"
            )));
        }
        let text = fs::read_to_string(&path).map_err(|error| unreadable(error.to_string()))?;
        Self::parse(name, &text)
    }

    /// The built-in processor with this name.
    pub fn built_in(name: &str) -> Option<Self> {
        let (_, text) = BUILT_IN.iter().find(|(known, _)| *known == name)?;
        Self::parse(name, text).ok()
    }

    /// The processor that `text` describes; `origin` is its name or path, for messages.
    ///
    /// # Errors
    /// As [`load`](Self::load).
    pub fn parse(origin: &str, text: &str) -> Result<Self, ProcessorError> {
        let table: FileTable = toml::from_str(text).map_err(|error| ProcessorError::Syntax {
            file: origin.to_owned(),
            reason: error.to_string(),
        })?;
        let limits = Limits { file: origin };
        let mut ports = [0; PortGroup::ALL.len()];
        let each = limits.each("ports", PortGroup::ALL.map(PortGroup::name), table.ports)?;
        for (group, value) in PortGroup::ALL.into_iter().zip(each) {
            let key = format!("ports.{}", group.name());
            ports[group as usize] = limits.within(&key, value, 1, 16)?;
        }
        let none = ClassCost {
            latency: 0,
            chained: 0,
            occupancy: 1,
            uops: 1,
        };
        let mut classes = [none; UopClass::ALL.len()];
        let each = limits.each("classes", UopClass::ALL.map(UopClass::name), table.classes)?;
        for (class, given) in UopClass::ALL.into_iter().zip(each) {
            classes[class as usize] = limits.class(class.name(), &given)?;
        }
        let string = &table.string;
        let repeated = Text {
            bytes_per_cycle: limits.within(
                "string.bytes-per-cycle",
                string.bytes_per_cycle,
                1,
                512,
            )?,
            unaligned_bytes_per_cycle: limits.within(
                "string.unaligned-bytes-per-cycle",
                string.unaligned_bytes_per_cycle,
                1,
                512,
            )?,
            start: limits.within("string.start", string.start, 0, 1000)?,
            short: limits.within("string.short", string.short, 0, 1000)?,
            unaligned: limits.within("string.unaligned", string.unaligned, 0, 1000)?,
            element: limits.within("string.element-ticks", string.element_ticks, 1, 100_000)?,
        };
        Ok(Self {
            name: table.name,
            origin: origin.to_owned(),
            measured: measured(origin, table.measured)?,
            level: limits.within("level", table.level, 1, 4)?,
            digest: digest(text),
            core: limits.core(&table.core)?,
            memory: limits.memory(&table.memory)?,
            text: repeated,
            caches: limits.caches(
                &table.caches,
                &table.tlb,
                &table.prefetch,
                &table.overlap,
                table.core.window,
            )?,
            costs: SharedCosts::default(),
            ports,
            classes,
        })
    }
}

#[cfg(test)]
mod tests;
