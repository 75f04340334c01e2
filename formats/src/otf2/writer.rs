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

use belljar_collectives::Operation;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs;
use std::path::{Path, PathBuf};

use self::chunks::Chunks;
use self::contexts::Contexts;
use self::definitions::{Content, Definitions};
use self::events::Events;
use crate::records::calls::Call;
use crate::records::collective::operation;
use crate::records::places::Thread;
use crate::records::source::Source;
use crate::records::{ExportError, failed};

/// The version of the library that defines this format.
const VERSION: [u8; 3] = [3, 0, 0];
/// Versions of the anchor and of the records.
const ANCHOR_FORMAT: u8 = 3;
const TRACE_FORMAT: u8 = 2;
/// Bytes of a chunk of events.
const EVENT_CHUNK: u64 = 1 << 20;
/// Files in a folder, uncompressed.
const POSIX: u8 = 1;
const NOT_COMPRESSED: u8 = 1;

/// Kinds of records.
mod kind {
    pub(super) const TIME: u8 = 0x05;
    pub(super) const ATTRIBUTES: u8 = 0x06;
    pub(super) const ENTER: u8 = 0x0c;
    pub(super) const LEAVE: u8 = 0x0d;
    pub(super) const SEND: u8 = 0x0e;
    pub(super) const ISEND: u8 = 0x0f;
    pub(super) const ISEND_COMPLETE: u8 = 0x10;
    pub(super) const IRECV_REQUEST: u8 = 0x11;
    pub(super) const RECV: u8 = 0x12;
    pub(super) const IRECV: u8 = 0x13;
    pub(super) const REQUEST_CANCELLED: u8 = 0x15;
    pub(super) const COLLECTIVE_BEGIN: u8 = 0x16;
    pub(super) const COLLECTIVE_END: u8 = 0x17;
    pub(super) const WINDOW_CREATE: u8 = 0x23;
    pub(super) const WINDOW_DESTROY: u8 = 0x24;
    pub(super) const PUT: u8 = 0x2e;
    pub(super) const GET: u8 = 0x2f;
    pub(super) const ATOMIC: u8 = 0x30;
    pub(super) const COLLECTIVE_REQUEST: u8 = 0x55;
    pub(super) const COLLECTIVE_COMPLETE: u8 = 0x56;

    pub(super) const CLOCK: u8 = 0x05;
    pub(super) const STRING: u8 = 0x0a;
    pub(super) const ATTRIBUTE: u8 = 0x0b;
    pub(super) const SYSTEM_TREE_NODE: u8 = 0x0c;
    pub(super) const LOCATION_GROUP: u8 = 0x0d;
    pub(super) const LOCATION: u8 = 0x0e;
    pub(super) const REGION: u8 = 0x0f;
    pub(super) const GROUP: u8 = 0x12;
    pub(super) const COMM: u8 = 0x16;
    pub(super) const RMA_WIN: u8 = 0x18;
    pub(super) const CALLING_CONTEXT: u8 = 0x22;
    pub(super) const INTER_COMM: u8 = 0x2b;
}

/// The type of attributes that are calling contexts.
const CALLING_CONTEXT_TYPE: u8 = 21;

/// A thread as a location.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place(Thread);

impl Place {
    /// Returns a process's first thread.
    fn main(process: u32) -> Self {
        Self(Thread { process, thread: 0 })
    }

    /// Returns its number.
    fn location(self) -> u64 {
        u64::from(self.0.thread) << 32 | u64::from(self.0.process)
    }
}

/// Returns the format's number of an operation.
fn collective_code(operation: Operation) -> u8 {
    match operation {
        Operation::Barrier => 0,
        Operation::Broadcast => 1,
        Operation::Gather => 2,
        Operation::Gatherv => 3,
        Operation::Scatter => 4,
        Operation::Scatterv => 5,
        Operation::Allgather => 6,
        Operation::Allgatherv => 7,
        Operation::Alltoall => 8,
        Operation::Alltoallv => 9,
        Operation::Alltoallw => 10,
        Operation::Allreduce => 11,
        Operation::Reduce => 12,
        Operation::ReduceScatter => 13,
        Operation::Scan => 14,
        Operation::Exscan => 15,
        Operation::ReduceScatterBlock => 16,
        // The format has no neighbourhood operations, and the source leaves them out.
        Operation::NeighborAllgather
        | Operation::NeighborAllgatherv
        | Operation::NeighborAlltoall
        | Operation::NeighborAlltoallv
        | Operation::NeighborAlltoallw => u8::MAX,
    }
}

/// Returns the format's number for a function's role.
fn role(function: &str) -> u8 {
    const FUNCTION: u8 = 1;
    const BARRIER: u8 = 15;
    const ONE_TO_ALL: u8 = 23;
    const ALL_TO_ONE: u8 = 24;
    const ALL_TO_ALL: u8 = 25;
    const POINT_TO_POINT: u8 = 28;
    const RMA: u8 = 29;
    let messages = ["send", "recv", "wait", "test", "probe", "start"];
    let name = function.to_ascii_lowercase();
    match operation(function) {
        Some(Operation::Barrier) => BARRIER,
        Some(Operation::Broadcast | Operation::Scatter | Operation::Scatterv) => ONE_TO_ALL,
        Some(Operation::Gather | Operation::Gatherv | Operation::Reduce) => ALL_TO_ONE,
        Some(_) => ALL_TO_ALL,
        None if name.starts_with("mpi_win_") => RMA,
        None if messages.iter().any(|message| name.contains(message)) => POINT_TO_POINT,
        None => FUNCTION,
    }
}

/// The events written so far, and the items that they refer to.
#[derive(Debug)]
struct Written {
    folder: PathBuf,
    threads: BTreeMap<Place, Events>,
    regions: BTreeMap<u16, u32>,
    names: Vec<&'static str>,
    contexts: Contexts,
    /// The first and the last time.
    span: Option<(u64, u64)>,
}

impl Written {
    fn thread(&mut self, place: Place) -> Result<&mut Events, ExportError> {
        Ok(match self.threads.entry(place) {
            Entry::Occupied(there) => there.into_mut(),
            Entry::Vacant(absent) => absent.insert(create(&self.folder, place)?),
        })
    }

    /// Returns true if its site had to be left out.
    fn call(&mut self, call: &Call) -> Result<bool, ExportError> {
        let place = Place(Thread {
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
        written.thread(Place::main(process))?;
    }
    let mut locations = Vec::new();
    for (place, events) in written.threads {
        locations.push((place, events.count()));
        events.finish()?;
    }
    let content = Content {
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
fn create(folder: &Path, place: Place) -> Result<Events, ExportError> {
    let name = |end| folder.join(format!("{}.{end}", place.location()));
    Chunks::create(&name("def"), definitions::CHUNK)?.finish()?;
    Events::create(&name("evt"), EVENT_CHUNK)
}

/// Writes the anchor file.
fn anchor(path: &Path, content: &Content<'_>, definitions: u64) -> Result<(), ExportError> {
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
    // No properties, identifier, snapshots or thumbnails.
    bytes.extend_from_slice(&[0; 4 + 8 + 4 + 4]);
    bytes.extend_from_slice(&[2, 1, 0]);
    fs::write(path, bytes).map_err(failed(path))
}
