//! The Open Trace Format 2, as Score-P's tools read it.
//!
//! An archive is a folder: `traces.otf2`, the anchor, has its version and sizes; `traces.def` has definitions, and
//! `traces/L.def` and `traces/L.evt` definitions and events of location `L`. A location is a thread; its number has the
//! thread's in the upper 32 bits and the process's in the lower. Used by `belljar trace export`.

/// Files in chunks.
mod chunks;
/// Call sites.
mod contexts;
/// Definitions.
mod definitions;
/// Numbers and records.
mod encode;
/// Events.
mod events;
/// Threads as locations, and the roles of regions.
mod place;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs;
use std::path::{Path, PathBuf};

use self::chunks::Chunks;
use self::contexts::Contexts;
use self::definitions::{Definitions, DefinitionsInput};
use self::events::Events;
use self::place::Otf2Location;
use crate::otf2::numbers::{NOT_COMPRESSED, POSIX};
use crate::records::calls::ExportedCall;
use crate::records::places::ExportedThread;
use crate::records::source::Source;
use crate::records::{ExportError, failed};

/// The version of the library that defines this format.
/// The property of an archive with the processors that the run modelled.
const PROCESSORS: &str = "BELLJAR::PROCESSORS";
const VERSION: [u8; 3] = [3, 0, 0];
/// Versions of the anchor and of the records.
const ANCHOR_FORMAT: u8 = 3;
const TRACE_FORMAT: u8 = 2;
/// Bytes of a chunk of events.
const EVENT_CHUNK: u64 = 1 << 20;

/// The events written so far, and the items that they refer to.
#[derive(Debug)]
struct Written {
    folder: PathBuf,
    threads: BTreeMap<Otf2Location, Events>,
    regions: BTreeMap<u16, u32>,
    names: Vec<&'static str>,
    contexts: Contexts,
    /// The first and the last time.
    span: Option<(u64, u64)>,
}

impl Written {
    fn thread(&mut self, place: Otf2Location) -> Result<&mut Events, ExportError> {
        Ok(match self.threads.entry(place) {
            Entry::Occupied(there) => there.into_mut(),
            Entry::Vacant(absent) => absent.insert(create(&self.folder, place)?),
        })
    }

    /// Returns true if its site had to be left out.
    fn call(&mut self, call: &ExportedCall) -> Result<bool, ExportError> {
        let place = Otf2Location(ExportedThread {
            process: call.process,
            thread: call.event.thread,
        });
        let next = self.names.len() as u32;
        let region = *self.regions.entry(call.event.function).or_insert(next);
        if region == next {
            self.names.push(call.event.name());
        }
        let end = call.exit.unwrap_or(call.entry);
        let (first, last) = self.span.unwrap_or((call.entry, end));
        self.span = Some((call.entry.min(first), end.max(last)));
        let site = call.event.site.0.as_ref();
        let context = site.and_then(|site| self.contexts.of(site));
        self.thread(place)?.call(call, region, context)?;
        Ok(site.is_some() && context.is_none())
    }
}

/// Writes an archive into the folder `out`, which is created if it does not exist.
///
/// # Errors
/// Returns [`ExportError`] if a file cannot be written.
pub fn write(source: &mut Source, out: &Path) -> Result<(), ExportError> {
    let folder = out.join("traces");
    fs::create_dir_all(&folder).map_err(failed(&folder))?;
    let mut written = Written {
        folder,
        threads: BTreeMap::new(),
        regions: BTreeMap::new(),
        names: Vec::new(),
        contexts: Contexts::default(),
        span: None,
    };
    while let Some(call) = source.next_call() {
        let left_out = written.call(&call)?;
        source.left_out().sites += u64::from(left_out);
    }
    // A communicator's members are locations, with or without events.
    for process in 0..source.places().processes().len() as u32 {
        written.thread(Otf2Location::main(process))?;
    }
    let mut locations = Vec::new();
    for (place, events) in written.threads {
        locations.push((place, events.count()));
        events.finish()?;
    }
    let content = DefinitionsInput {
        header: source.header(),
        places: source.places(),
        ticks_per_second: source.ticks_per_second(),
        span: written.span.unwrap_or_default(),
        regions: &written.names,
        contexts: &written.contexts,
        locations: &locations,
    };
    let definitions = Definitions::write(&out.join("traces.def"), &content)?;
    anchor(&out.join("traces.otf2"), &content, definitions)
}

/// Creates the files of a location.
fn create(folder: &Path, place: Otf2Location) -> Result<Events, ExportError> {
    let name = |end| folder.join(format!("{}.{end}", place.location()));
    Chunks::create(&name("def"), definitions::CHUNK)?.finish()?;
    Events::create(&name("evt"), EVENT_CHUNK)
}

/// Writes the anchor file.
fn anchor(
    path: &Path,
    content: &DefinitionsInput<'_>,
    definitions: u64,
) -> Result<(), ExportError> {
    let mut bytes = b"\x03BOTF2\0".to_vec();
    bytes.extend_from_slice(&[ANCHOR_FORMAT, TRACE_FORMAT]);
    bytes.extend_from_slice(&VERSION);
    bytes.extend_from_slice(&EVENT_CHUNK.to_le_bytes());
    bytes.extend_from_slice(&definitions::CHUNK.to_le_bytes());
    bytes.extend_from_slice(&[POSIX, NOT_COMPRESSED]);
    bytes.extend_from_slice(&(content.locations.len() as u64).to_le_bytes());
    bytes.extend_from_slice(&definitions.to_le_bytes());
    let scenario = content.header.scenario().replace('\0', " ");
    for text in ["Belljar", "Belljar", &scenario] {
        bytes.extend_from_slice(text.as_bytes());
        bytes.push(0);
    }
    // A property has a name and a value.
    let processors = content.header.processors();
    bytes.extend_from_slice(&u32::from(!processors.is_empty()).to_le_bytes());
    if !processors.is_empty() {
        let value = processors.join(", ").replace('\0', " ");
        for text in [PROCESSORS, &value] {
            bytes.extend_from_slice(text.as_bytes());
            bytes.push(0);
        }
    }
    // No identifier, snapshots or thumbnails.
    bytes.extend_from_slice(&[0; 8 + 4 + 4]);
    bytes.extend_from_slice(&[2, 1, 0]);
    fs::write(path, bytes).map_err(failed(path))
}
