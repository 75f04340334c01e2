//! Global definitions: clock, machine, processes and threads, functions, communicators and windows.
//!
//! Additions of later formats at the end of records are skipped, parts missing in earlier ones are empty. All of them are in memory, which is a small
//! multiple of the file. Read once, before the events.

/// Processes and their nodes.
mod processes;

use std::collections::BTreeMap;
use std::path::Path;

use super::records::{RecordFields, Records};
use crate::builder::ImportError;
use crate::otf2::numbers::definition as kind;
pub(super) use processes::Otf2Process;

/// Kinds of groups.
pub(super) const COMM_LOCATIONS: u8 = 4;
pub(super) const COMM_GROUP: u8 = 5;
pub(super) const COMM_SELF: u8 = 6;
pub(super) const COMM_LOCATION_GROUPS: u8 = 7;
/// The paradigm of MPI's groups.
const MPI: u8 = 4;
/// Events name members by their positions among all processes.
const GLOBAL_MEMBERS: u64 = 1;
/// A location that is a thread.
const CPU_THREAD: u8 = 1;

/// The clock of all times.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Clock {
    pub(super) ticks_per_second: u64,
    /// The time of the beginning.
    pub(super) start: u64,
}

/// A part of the machine.
#[derive(Clone, Copy, Debug)]
struct TreeNode {
    class: Option<u32>,
    parent: Option<u32>,
}

/// A function, by the texts of its names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Region {
    name: Option<u32>,
    /// Its name in the library or the program, if it differs.
    canonical: Option<u32>,
    /// True if the archive marks it as an MPI function.
    pub(super) mpi: bool,
}

/// A group of processes, as defined in an OTF2 archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Otf2Group {
    pub(super) kind: u8,
    pub(super) mpi: bool,
    pub(super) global: bool,
    pub(super) members: Vec<u64>,
}

/// A communicator: its name, its group, and the remote group if it has one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Comm {
    pub(super) name: Option<u32>,
    pub(super) group: Option<u32>,
    pub(super) remote: Option<u32>,
}

/// All definitions.
#[derive(Debug, Default)]
pub(super) struct Definitions {
    pub(super) clock: Clock,
    texts: BTreeMap<u32, String>,
    tree: BTreeMap<u32, TreeNode>,
    /// The position of each process in the machine.
    places: BTreeMap<u32, Option<u32>>,
    /// Threads, with their processes, in the order of their definitions.
    threads: Vec<(u64, u32)>,
    /// Number of events by thread.
    events: BTreeMap<u64, u64>,
    regions: BTreeMap<u32, Region>,
    contexts: BTreeMap<u32, u32>,
    pub(super) groups: BTreeMap<u32, Otf2Group>,
    pub(super) comms: BTreeMap<u32, Comm>,
    pub(super) windows: BTreeMap<u32, u32>,
    processes: Vec<Otf2Process>,
    nodes: u32,
}

impl Definitions {
    /// Reads the file at `path`.
    pub(super) fn read(path: &Path, chunk: u64) -> Result<Self, ImportError> {
        let mut records = Records::open(path, chunk)?;
        if !records.is_there() {
            let missing = std::io::ErrorKind::NotFound.into();
            return Err(crate::builder::failed(path)(missing));
        }
        let mut own = Self::default();
        while let Some(kind) = records.kind()? {
            own.record(kind, &mut records.content()?)?;
        }
        own.find_processes();
        Ok(own)
    }

    fn record(&mut self, kind: u8, fields: &mut RecordFields<'_>) -> Result<(), ImportError> {
        match kind {
            kind::CLOCK => {
                self.clock = Clock {
                    ticks_per_second: fields.number()?,
                    start: fields.number()?,
                };
            }
            kind::STRING => {
                let number = fields.needed()?;
                self.texts.insert(number, fields.text()?);
            }
            kind::SYSTEM_TREE_NODE => {
                let (number, _name) = (fields.needed()?, fields.small()?);
                let (class, parent) = (fields.small()?, fields.small()?);
                self.tree.insert(number, TreeNode { class, parent });
            }
            kind::LOCATION_GROUP => {
                let (number, _name, _kind) = (fields.needed()?, fields.small()?, fields.byte()?);
                self.places.insert(number, fields.small()?);
            }
            kind::LOCATION => self.location(fields)?,
            kind::REGION => {
                let number = fields.needed()?;
                self.regions.insert(number, region(fields)?);
            }
            kind::CALLING_CONTEXT => {
                let (number, region) = (fields.needed()?, fields.small()?);
                self.contexts.extend(region.map(|it| (number, it)));
            }
            kind::GROUP => self.group(fields)?,
            kind::COMM | kind::INTER_COMM => {
                let number = fields.needed()?;
                let comm = Comm {
                    name: fields.small()?,
                    group: fields.small()?,
                    remote: match kind {
                        kind::INTER_COMM => fields.small()?,
                        _ => None,
                    },
                };
                self.comms.insert(number, comm);
            }
            kind::RMA_WIN => {
                let (number, _name) = (fields.needed()?, fields.small()?);
                let comm = fields.small()?;
                self.windows.extend(comm.map(|comm| (number, comm)));
            }
            _ => {}
        }
        Ok(())
    }

    fn location(&mut self, fields: &mut RecordFields<'_>) -> Result<(), ImportError> {
        let (number, _name, kind) = (fields.number()?, fields.small()?, fields.byte()?);
        let (events, process) = (fields.number()?, fields.small()?);
        if kind == CPU_THREAD {
            self.events.insert(number, events);
            self.threads.extend(process.map(|it| (number, it)));
        }
        Ok(())
    }

    fn group(&mut self, fields: &mut RecordFields<'_>) -> Result<(), ImportError> {
        let (number, _name, earlier) = (fields.needed()?, fields.small()?, fields.byte()?);
        let count = fields.number()?;
        // Each member has at least a byte.
        if count > fields.left() as u64 {
            return Err(fields.damaged("a group has more members than its record has bytes"));
        }
        let members = (0..count).map(|_| fields.number());
        let members = members.collect::<Result<_, _>>()?;
        let told = fields.left() > 0;
        let kind = match told {
            true => fields.byte()?,
            false => earlier_kind(earlier),
        };
        let paradigm = match fields.left() {
            0 => MPI,
            _ => fields.byte()?,
        };
        let flags = match fields.left() {
            0 => 0,
            _ => fields.number()?,
        };
        let group = Otf2Group {
            kind,
            mpi: paradigm == MPI,
            global: flags & GLOBAL_MEMBERS > 0,
            members,
        };
        self.groups.insert(number, group);
        Ok(())
    }

    /// Returns the text with this number.
    pub(super) fn text(&self, number: Option<u32>) -> &str {
        let text = number.and_then(|number| self.texts.get(&number));
        text.map_or("", String::as_str)
    }

    /// Returns the number of events of a thread, if it is defined.
    pub(super) fn events(&self, location: u64) -> Option<u64> {
        let events = self.events.get(&location).copied();
        events.filter(|events| *events < u64::MAX)
    }

    /// Returns all functions, by number.
    pub(super) fn regions(&self) -> impl Iterator<Item = (u32, &Region)> {
        self.regions
            .iter()
            .map(|(number, region)| (*number, region))
    }

    /// Returns the names of a function.
    pub(super) fn names(&self, region: &Region) -> [&str; 2] {
        [region.name, region.canonical].map(|text| self.text(text))
    }

    /// Returns the region of a calling context.
    pub(super) fn region_of_context(&self, number: u32) -> Option<u32> {
        self.contexts.get(&number).copied()
    }
}

/// Reads a function. Records of earlier formats end before the canonical name.
fn region(fields: &mut RecordFields<'_>) -> Result<Region, ImportError> {
    let name = fields.small()?;
    let mut region = Region {
        name,
        canonical: None,
        mpi: false,
    };
    if fields.left() == 0 {
        return Ok(region);
    }
    // A description, the role in earlier formats, the file, and the first and the last line.
    let (_description, _role) = (fields.small()?, fields.byte()?);
    let (_file, _begin, _end) = (fields.small()?, fields.small()?, fields.small()?);
    if fields.left() > 0 {
        region.canonical = fields.small()?;
        let (_role, paradigm) = (fields.byte()?, fields.byte()?);
        region.mpi = paradigm == MPI;
    }
    Ok(region)
}

/// Converts the kind of a group from the numbers of OTF2 1.1 and earlier.
fn earlier_kind(earlier: u8) -> u8 {
    match earlier {
        4 => COMM_GROUP,
        5 => COMM_SELF,
        6 => COMM_LOCATIONS,
        other => other,
    }
}
