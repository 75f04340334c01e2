//! Probes of the user's: from a scenario's tables to places in files.
//!
//! They are resolved in the guests' files before the run, so that `belljar check` reports the errors of a run. Called
//! when a plan is made.

/// The probe of accesses to buffers of MPI operations.
mod buffers;
/// Errors of the user's probes.
pub mod error;
/// Places in the kernel.
mod kernel;
/// Functions by which MPI libraries send messages.
mod messages;

use std::collections::BTreeMap;
use std::path::Path;

use belljar_trace::{
    MOST_PROBE_ARGUMENTS, MOST_PROBES, Probe, ProbeAt, ProbePurpose, ValueKind, matches,
};
use belljar_tracer::{FunctionError, check_code, functions_called};
use error::{MOST_FILES, ProbeError};
use kernel::NodeKernel;

use crate::plan::nodes::code::workload_path;
use crate::scenario::engine::Engine;
use crate::scenario::{ProbeTable, ProbeTime, Scenario, TraceBy};
use belljar_workload::GuestRoot;

/// Stands for the guest's kernel in place of a file's name. It is no path, as it does not begin with `/`.
pub(super) const KERNEL: &str = "kernel";

/// Longest name of a probe in bytes.
const LONGEST_NAME: usize = 128;

/// The magic of an ELF file.
const ELF: &[u8] = b"\x7fELF";

/// Addresses by file: a path in an image, of the workload's `/root/NAME`, or [`KERNEL`].
pub(crate) type Places = BTreeMap<String, Vec<u64>>;

/// A probe with its places.
#[derive(Clone, Debug)]
pub struct OwnProbe {
    /// The probe's settings.
    pub(crate) probe: Probe,
    /// Its places on nodes of each of the plan's images; at least one image has some.
    pub(crate) places: Vec<Places>,
}

/// The files of nodes of an image besides the workload's.
pub(crate) struct System<'a> {
    root: &'a GuestRoot,
    kernel: NodeKernel<'a>,
}

impl<'a> System<'a> {
    /// The image's tree, and the file of its kernel.
    pub(crate) fn new(root: &'a GuestRoot, kernel: &'a Path) -> Self {
        Self {
            root,
            kernel: NodeKernel::at(kernel),
        }
    }
}

/// The probes of `scenario`, on nodes with these `systems` and in the workload's own `files`.
///
/// # Errors
/// See [`ProbeError`].
pub(crate) fn resolve(
    scenario: &Scenario,
    engine: Engine,
    mut systems: Vec<System<'_>>,
    files: &BTreeMap<String, Vec<u8>>,
) -> Result<Vec<OwnProbe>, ProbeError> {
    let trace = &scenario.trace;
    let key = match (trace.probe.is_empty(), trace.messages, trace.buffers) {
        (true, false, false) => return Ok(Vec::new()),
        (true, false, true) => "trace.buffers",
        (true, true, _) => "trace.messages",
        (false, ..) => "trace.probe",
    };
    let needs = [
        (
            engine == Engine::Exact,
            "engine = \"exact\": others have no probes",
        ),
        (trace.enabled, "trace.enabled = true"),
        (
            trace.means(engine) == Some(TraceBy::Probes),
            "trace.by = \"probes\" (or trace.library = false), or neither of them",
        ),
    ];
    if let Some((_, what)) = needs.iter().find(|(is, _)| !is) {
        return Err(ProbeError::Needs(key, what));
    }
    if trace.probe.len() > MOST_PROBES {
        return Err(ProbeError::TooMany(trace.probe.len()));
    }
    let tables = trace.probe.iter();
    let mut probes = tables
        .map(|table| probe(table, &mut systems, files))
        .collect::<Result<Vec<_>, _>>()?;
    if trace.messages {
        probes.extend(messages::probes(&mut systems, files)?);
    }
    if trace.buffers {
        buffers::check(trace)?;
        probes.push(buffers::probe(systems.len()));
    }
    match probes.len() > MOST_PROBES {
        true => Err(ProbeError::TooMany(probes.len())),
        false => Ok(probes),
    }
}

fn probe(
    table: &ProbeTable,
    systems: &mut [System<'_>],
    files: &BTreeMap<String, Vec<u8>>,
) -> Result<OwnProbe, ProbeError> {
    let wrong = |reason| ProbeError::Table {
        file: table.file.clone(),
        reason,
    };
    let kind = |name: &String| -> Result<ValueKind, ProbeError> {
        name.parse().map_err(|source| ProbeError::Kind {
            file: table.file.clone(),
            source,
        })
    };
    let (place, name) = match (&table.symbol, &table.address) {
        (Some(symbol), None) => (ProbeSite::Symbol(symbol), symbol),
        (None, Some(text)) => {
            let digits = text.strip_prefix("0x");
            let address = digits.and_then(|digits| u64::from_str_radix(digits, 16).ok());
            let address = address.ok_or(wrong("an address is hexadecimal, such as \"0x1234\""))?;
            (ProbeSite::Address(address), text)
        }
        _ => return Err(wrong("it must have one of symbol and address")),
    };
    let name = table.name.as_ref().unwrap_or(name);
    if !(1..=LONGEST_NAME).contains(&name.len()) || name.contains(char::is_control) {
        return Err(wrong(
            "its name must have 1 to 128 bytes and no control characters",
        ));
    }
    let at = match table.at {
        ProbeTime::Entry if table.result.is_some() => {
            return Err(wrong("with at = \"entry\" it has no result"));
        }
        ProbeTime::Return if !table.arguments.is_empty() => {
            return Err(wrong(
                "with at = \"return\" it has no arguments; write at = \"call\"",
            ));
        }
        ProbeTime::Entry => ProbeAt::Entry,
        ProbeTime::Return => ProbeAt::Return,
        ProbeTime::Call => ProbeAt::Call,
    };
    if table.arguments.len() > MOST_PROBE_ARGUMENTS {
        return Err(wrong("at most 16 arguments are recorded"));
    }
    // Errors of the table precede errors of files.
    let probe = Probe {
        name: name.clone(),
        file: table.file.clone(),
        at,
        arguments: table.arguments.iter().map(kind).collect::<Result<_, _>>()?,
        result: table.result.as_ref().map(kind).transpose()?,
        purpose: ProbePurpose::User,
    };
    let places = on_systems(&table.file, place, systems, files)?;
    Ok(OwnProbe { probe, places })
}

/// The places of a probe on nodes of each system; empty for a system without the file or place.
///
/// # Errors
/// If no system has any: the first system's reason.
fn on_systems(
    file: &str,
    place: ProbeSite<'_>,
    systems: &mut [System<'_>],
    files: &BTreeMap<String, Vec<u8>>,
) -> Result<Vec<Places>, ProbeError> {
    let mut refused = None;
    let each = systems.iter_mut().map(|system| {
        let found = match file {
            KERNEL => system
                .kernel
                .places(place)
                .map(|found| BTreeMap::from([(KERNEL.to_owned(), found)]))
                .map_err(ProbeError::from),
            file => places(file, place, system.root, files),
        };
        found.unwrap_or_else(|error| {
            refused.get_or_insert(error);
            Places::new()
        })
    });
    let each: Vec<Places> = each.collect();
    match refused {
        Some(error) if each.iter().all(Places::is_empty) => Err(error),
        _ => Ok(each),
    }
}

/// The place to find in a file.
#[derive(Clone, Copy)]
pub(super) enum ProbeSite<'a> {
    Symbol(&'a str),
    Address(u64),
}

impl ProbeSite<'_> {
    fn in_file(self, data: &[u8]) -> Result<Vec<u64>, FunctionError> {
        match self {
            ProbeSite::Symbol(name) => functions_called(data, name),
            ProbeSite::Address(address) => check_code(data, address).map(|()| vec![address]),
        }
    }
}

/// The places of a probe: in a single file, or in the files that match the pattern and have the place.
fn places(
    file: &str,
    place: ProbeSite<'_>,
    root: &GuestRoot,
    files: &BTreeMap<String, Vec<u8>>,
) -> Result<Places, ProbeError> {
    let is_pattern = file.contains(['*', '?']);
    let mut found = BTreeMap::new();
    let mut refused = None;
    for (path, data) in candidates(file, is_pattern, root, files)? {
        if is_pattern && !data.starts_with(ELF) {
            continue;
        }
        match place.in_file(&data) {
            Ok(addresses) => {
                found.insert(path, addresses);
            }
            Err(source) => {
                refused.get_or_insert(ProbeError::Place { file: path, source });
            }
        }
    }
    match found.is_empty() {
        false => Ok(found),
        true => Err(refused.unwrap_or_else(|| ProbeError::NoFile(file.to_owned()))),
    }
}

/// The files that `file` names, with their contents; the workload's precede the image's.
fn candidates(
    file: &str,
    is_pattern: bool,
    root: &GuestRoot,
    files: &BTreeMap<String, Vec<u8>>,
) -> Result<Vec<(String, Vec<u8>)>, ProbeError> {
    let wanted = |name: &str| match is_pattern {
        true => matches(file, name),
        false => file == name,
    };
    let own = files
        .iter()
        .filter(|(name, _)| wanted(name) || wanted(&workload_path(name)));
    let mut found: Vec<(String, Vec<u8>)> = own
        .map(|(name, data)| (workload_path(name), data.clone()))
        .collect();
    let paths: Vec<String> = match is_pattern {
        true => {
            let all = root.below("");
            all.filter(|path| wanted(path)).map(str::to_owned).collect()
        }
        false if found.is_empty() => root.real(file).into_iter().collect(),
        false => Vec::new(),
    };
    if found.len() + paths.len() > MOST_FILES {
        return Err(ProbeError::TooManyFiles(file.to_owned()));
    }
    for path in paths {
        if let Some(data) = root.read(&path) {
            found.push((path, data));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The error of a probe in an image whose only file is no program.
    fn said(probe: &str, more: &str) -> String {
        let text = format!(
            "name = \"x\"\nimage = {{ recipe = \"r\" }}\nworkload = {{ command = \"\" }}\n\
             nodes = {{ count = 1, memory = \"1 GiB\", clock = \"1 GHz\" }}\n{more}\n[[trace.probe]]\n{probe}\n"
        );
        let scenario = Scenario::parse(Path::new("x.toml"), &text, &[]).unwrap();
        let mut root = GuestRoot::default();
        root.add("/usr/bin/script", b"#!/bin/sh\n");
        root.link("/bin", "usr/bin");
        let files = BTreeMap::new();
        let systems = vec![System::new(&root, Path::new("/"))];
        let resolved = resolve(&scenario, Engine::Exact, systems, &files);
        resolved.unwrap_err().to_string()
    }

    #[test]
    fn what_cannot_be_probed_is_told_with_what_to_write_instead() {
        let file = "file = \"/bin/script\"";
        for (probe, words) in [
            ("symbol = \"f\"", "is no 64-bit ELF file"),
            ("", "one of symbol and address"),
            (
                "symbol = \"f\"\naddress = \"0x1\"",
                "one of symbol and address",
            ),
            ("address = \"12\"", "hexadecimal"),
            ("symbol = \"f\"\narguments = [\"int\"]", "`int` is no type"),
            (
                "symbol = \"f\"\nat = \"entry\"\nresult = \"i32\"",
                "no result",
            ),
            (
                "symbol = \"f\"\nat = \"return\"\narguments = [\"i32\"]",
                "at = \"call\"",
            ),
            ("symbol = \"f\"\nname = \"\"", "1 to 128 bytes"),
        ] {
            let error = said(&format!("{file}\n{probe}"), "");
            assert!(error.contains(words), "{probe}: {error}");
        }
        let error = said("file = \"/bin/nothing\"\nsymbol = \"f\"", "");
        assert!(error.contains("has a file /bin/nothing"), "{error}");
        let error = said("file = \"/bin/n*\"\nsymbol = \"f\"", "");
        assert!(error.contains("has a file /bin/n*"), "{error}");
        for (more, words) in [
            ("trace = { enabled = false }", "trace.enabled"),
            ("trace = { library = true }", "trace.library"),
        ] {
            let probe = "file = \"f\", symbol = \"f\"";
            let more = more.replace(" }", &format!(", probe = [{{ {probe} }}] }}"));
            let text = format!(
                "name = \"x\"\nimage = {{ recipe = \"r\" }}\nworkload = {{ command = \"\" }}\n\
                 nodes = {{ count = 1, memory = \"1 GiB\", clock = \"1 GHz\" }}\n{more}\n"
            );
            let scenario = Scenario::parse(Path::new("x.toml"), &text, &[]).unwrap();
            let root = GuestRoot::default();
            let under = |engine| {
                let systems = vec![System::new(&root, Path::new("/"))];
                let error = resolve(&scenario, engine, systems, &BTreeMap::new());
                error.unwrap_err().to_string()
            };
            let error = under(Engine::Exact);
            assert!(error.contains(words), "{error}");
            let error = under(Engine::Kvm);
            assert!(error.contains("engine = \"exact\""), "{error}");
        }
    }
}
